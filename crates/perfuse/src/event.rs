//! The event to count, as data.

mod of_pmu;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::pmu::{Config, Pmu};
use crate::tracefs;
use perfuse_abi::{Attr, Breakpoint, CacheEvent, EventType, Hardware, Software};
use perfuse_sys::Errno;
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Something countable. Plain data: making one opens nothing.
///
/// ```
/// use perfuse::{Event, abi::{Hardware, Software}};
/// let events: [Event; 2] = [Hardware::INSTRUCTIONS.into(), Software::PAGE_FAULTS.into()];
/// assert_eq!(events.map(|e| e.to_string()), ["instructions", "page-faults"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// One of the common hardware events.
    Hardware(Hardware),
    /// A common hardware event on one of several core PMUs.
    HardwareOn(Hardware, EventType),
    /// An event of the kernel itself.
    Software(Software),
    /// A cache event.
    Cache(CacheEvent),
    /// An event code of the cpu.
    Raw(u64),
    /// A tracepoint, by its id.
    Tracepoint {
        /// The number in its `id` file.
        id: u64,
        /// `system:name`, for people.
        name: Arc<str>,
    },
    /// A hardware breakpoint.
    Breakpoint {
        /// The kind of access that it watches.
        access: Breakpoint,
        /// Where.
        addr: u64,
        /// How many bytes: 1, 2, 4 or 8; for execution the size of a `long`.
        len: u64,
    },
    /// A probe in the kernel.
    Kprobe {
        /// Type of the `kprobe` PMU.
        type_: EventType,
        /// Where.
        place: ProbePlace,
        /// At the return of the function, not at its entry.
        on_return: bool,
    },
    /// A probe in a program or library.
    Uprobe {
        /// Type of the `uprobe` PMU.
        type_: EventType,
        /// The file.
        path: Arc<CStr>,
        /// Offset in the file.
        offset: u64,
        /// At the return of the function, not at its entry.
        on_return: bool,
        /// Offset in the file of a counter to be kept above zero while the probe exists (the semaphore
        /// of a statically defined probe); 0 for none.
        ref_ctr_offset: u32,
    },
    /// An event of a PMU that sysfs describes, see [`Pmu`].
    Pmu {
        /// Type of the PMU.
        type_: EventType,
        /// Its config words.
        config: Config,
        /// For people.
        name: Arc<str>,
    },
    /// The event of this attr: its type and its config words. Its other fields are ignored.
    Attr(Box<Attr>),
}

/// Where a kernel probe sits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbePlace {
    /// In a function.
    Function {
        /// Its name.
        name: Arc<CStr>,
        /// Bytes from its start.
        offset: u64,
    },
    /// At an address.
    Address(u64),
}

/// Bit 0 of a probe's config, as the PMU's `format/retprobe` tells.
const RETPROBE: u64 = 1;

impl Event {
    /// The tracepoint of this name, such as `sched:sched_switch`. Looks its id up.
    pub fn tracepoint(name: &str) -> Result<Self> {
        let (system, event) = name.split_once(':').unwrap_or((name, ""));
        Ok(Event::Tracepoint { id: tracefs::tracepoint_id(system, event)?, name: name.into() })
    }

    /// Counts accesses to `len` bytes at `addr` in the measured task's memory.
    pub fn breakpoint(access: Breakpoint, addr: u64, len: u64) -> Self {
        Event::Breakpoint { access, addr, len }
    }

    /// Counts calls of a kernel function.
    pub fn kprobe(function: &str) -> Result<Self> {
        let type_ = Pmu::named("kprobe")?.event_type();
        let name = c_string(function.as_bytes())?;
        Ok(Event::Kprobe { type_, place: ProbePlace::Function { name, offset: 0 }, on_return: false })
    }

    /// Counts executions of the instruction at this offset of a file (a program or library).
    pub fn uprobe(path: impl AsRef<Path>, offset: u64) -> Result<Self> {
        let type_ = Pmu::named("uprobe")?.event_type();
        let path = c_string(path.as_ref().as_os_str().as_bytes())?;
        Ok(Event::Uprobe { type_, path, offset, on_return: false, ref_ctr_offset: 0 })
    }

    /// Instructions in user space, counted by stopping the program after each of them: exact, without skid, and
    /// tens of thousands of times slower than the program alone. Only the [embedded](crate::Perf::embedded)
    /// kernel has it.
    pub fn single_step() -> Self {
        let name = "step/instructions/u".into();
        Event::Pmu { type_: crate::own_pmus::STEP, config: Config::default(), name }
    }

    /// The same probe at the return of its function. Other events are unchanged.
    #[must_use]
    pub fn on_return(mut self) -> Self {
        if let Event::Kprobe { on_return, .. } | Event::Uprobe { on_return, .. } = &mut self {
            *on_return = true;
        }
        self
    }

    /// Sets type and config words. The attr then holds pointers into `self` where it is a probe, so
    /// `self` must be kept until the attr has been used.
    pub fn apply(&self, attr: &mut Attr) {
        let mut set = |type_, words: [u64; 5]| {
            attr.type_ = type_;
            [attr.config, attr.config1, attr.config2, attr.config3, attr.config4] = words;
        };
        match self {
            Event::Hardware(event) => set(EventType::HARDWARE, [event.0, 0, 0, 0, 0]),
            Event::HardwareOn(event, pmu) => set(EventType::HARDWARE, [event.on_pmu(*pmu), 0, 0, 0, 0]),
            Event::Software(event) => set(EventType::SOFTWARE, [event.0, 0, 0, 0, 0]),
            Event::Cache(event) => set(EventType::HW_CACHE, [event.config(), 0, 0, 0, 0]),
            Event::Raw(code) => set(EventType::RAW, [*code, 0, 0, 0, 0]),
            Event::Tracepoint { id, .. } => set(EventType::TRACEPOINT, [*id, 0, 0, 0, 0]),
            Event::Breakpoint { access, addr, len } => {
                set(EventType::BREAKPOINT, [0, *addr, *len, 0, 0]);
                attr.bp_type = *access;
            }
            Event::Kprobe { type_, place, on_return } => {
                let config = if *on_return { RETPROBE } else { 0 };
                let (config1, config2) = match place {
                    ProbePlace::Function { name, offset } => (name.as_ptr() as u64, *offset),
                    ProbePlace::Address(addr) => (0, *addr),
                };
                set(*type_, [config, config1, config2, 0, 0]);
            }
            Event::Uprobe { type_, path, offset, on_return, ref_ctr_offset } => {
                let config = if *on_return { RETPROBE } else { 0 } | u64::from(*ref_ctr_offset) << 32;
                set(*type_, [config, path.as_ptr() as u64, *offset, 0, 0]);
            }
            Event::Pmu { type_, config, .. } => set(*type_, config.words),
            Event::Attr(given) => {
                let words = [given.config, given.config1, given.config2, given.config3, given.config4];
                set(given.type_, words);
                attr.bp_type = given.bp_type;
            }
        }
    }

    /// Whether it is a probe whose place the attr tells by a name in the caller's memory.
    pub(crate) fn is_named_probe(&self) -> bool {
        matches!(self, Event::Uprobe { .. } | Event::Kprobe { place: ProbePlace::Function { .. }, .. })
    }

    /// Whether the kernel counts it in its own code only, so that a counter of user space would show an
    /// impossible zero (rule Q20: the registers of a context switch are the kernel's).
    pub fn is_kernel_only(&self) -> bool {
        let (type_, config) = match self {
            Event::Software(event) => (EventType::SOFTWARE, event.0),
            Event::Attr(attr) => (attr.type_, attr.config),
            Event::Tracepoint { .. } => return true,
            _ => return false,
        };
        let kernel_only = [Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS, Software::CGROUP_SWITCHES];
        type_ == EventType::TRACEPOINT
            || type_ == EventType::SOFTWARE && kernel_only.contains(&Software(config))
    }
}

fn c_string(bytes: &[u8]) -> Result<Arc<CStr>> {
    let name = CString::new(bytes).map_err(|_| {
        let path = String::from_utf8_lossy(bytes).into_owned().into();
        Error::new(Call::File { path }, Errno::EINVAL)
    })?;
    Ok(name.into())
}

impl From<Hardware> for Event {
    fn from(event: Hardware) -> Self {
        Event::Hardware(event)
    }
}

impl From<Software> for Event {
    fn from(event: Software) -> Self {
        Event::Software(event)
    }
}

impl From<CacheEvent> for Event {
    fn from(event: CacheEvent) -> Self {
        Event::Cache(event)
    }
}

impl From<Attr> for Event {
    fn from(attr: Attr) -> Self {
        Event::Attr(Box::new(attr))
    }
}

impl fmt::Display for Event {
    /// The name perf uses, where the event has one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Tracepoint { name, .. } | Event::Pmu { name, .. } => f.write_str(name),
            Event::Kprobe { place: ProbePlace::Function { name, offset }, .. } => {
                write!(f, "kprobe/{}+{offset:#x}/", name.to_string_lossy())
            }
            Event::Kprobe { place: ProbePlace::Address(addr), .. } => write!(f, "kprobe/{addr:#x}/"),
            Event::Uprobe { path, offset, .. } => write!(f, "uprobe/{}+{offset:#x}/", path.to_string_lossy()),
            _ => {
                let mut attr = Attr::default();
                self.apply(&mut attr);
                f.write_str(&crate::diagnosis::event_name(&attr))
            }
        }
    }
}
