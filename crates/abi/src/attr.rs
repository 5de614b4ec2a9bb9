//! `struct perf_event_attr`: what to count, and how. One Rust struct with the C layout of the newest
//! published size; older and newer sizes are read and written through [`WireAttr`].

use crate::event::{Breakpoint, CacheEvent, EventType, Hardware, Software};
use crate::flags::{AttrFlags, AuxAction, BranchSampleType, ReadFormat, SampleType};
use crate::order::ByteOrder;
use crate::release::Release;
use crate::wire::{Codec, Layout, Reader, Short, Sink, SliceSink, Writer};
use alloc::vec::Vec;
use bitflags::Flags;
use core::fmt;
use core::mem::offset_of;

/// Everything `perf_event_open(2)` can be told about an event. The layout is that of
/// `struct perf_event_attr` of Linux 6.19 (`PERF_ATTR_SIZE_VER9`, 144 bytes), so a pointer to it may be
/// handed to the kernel.
///
/// Members of C unions have one name here and methods for the others: `sample_period` is also
/// [`sample_freq`](Attr::sample_freq), `config1` is also [`bp_addr`](Attr::bp_addr),
/// [`kprobe_func`](Attr::kprobe_func) and [`uprobe_path`](Attr::uprobe_path), and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Attr {
    /// The PMU.
    pub type_: EventType,
    /// How much of this struct is meant, in bytes; see the `SIZE_VER*` constants.
    pub size: u32,
    /// The event, as its PMU numbers it.
    pub config: u64,
    /// Occurrences between samples; 0 only counts. With [`AttrFlags::FREQ`]: samples per second.
    pub sample_period: u64,
    /// Contents of samples.
    pub sample_type: SampleType,
    /// Layout of `read(2)`.
    pub read_format: ReadFormat,
    /// The bit-field: `disabled`, `inherit`, ... and `precise_ip`.
    pub flags: AttrFlags,
    /// Samples before a wake-up; with [`AttrFlags::WATERMARK`]: bytes before a wake-up.
    pub wakeup: u32,
    /// What a breakpoint watches.
    pub bp_type: Breakpoint,
    /// More of the event; address of a breakpoint; pointer to a probe's function or path.
    pub config1: u64,
    /// More of the event; length of a breakpoint in bytes; address or offset of a probe.
    pub config2: u64,
    /// Which branches to record.
    pub branch_sample_type: BranchSampleType,
    /// Which user registers to record, one bit each (see [`regs`](crate::regs)).
    pub sample_regs_user: u64,
    /// How much user stack to record, in bytes: a multiple of 8 below 65535.
    pub sample_stack_user: u32,
    /// The clock of timestamps, with [`AttrFlags::USE_CLOCKID`].
    pub clockid: i32,
    /// Which registers at the interrupt to record.
    pub sample_regs_intr: u64,
    /// AUX bytes before a wake-up; 0: half of the area.
    pub aux_watermark: u32,
    /// Frames per callchain; 0: the system's limit.
    pub sample_max_stack: u16,
    /// Reserved, zero.
    pub reserved_2: u16,
    /// AUX bytes per sample.
    pub aux_sample_size: u32,
    /// What the event does to the AUX trace.
    pub aux_action: AuxAction,
    /// `si_perf_data` of the SIGTRAP.
    pub sig_data: u64,
    /// More of the event.
    pub config3: u64,
    /// More of the event.
    pub config4: u64,
}

/// One member of [`Attr`] with its place and age. Union members share an entry.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The C name.
    pub name: &'static str,
    /// The other names of the same bytes.
    pub aliases: &'static [&'static str],
    /// Offset in bytes.
    pub offset: usize,
    /// What is there.
    pub kind: FieldKind,
    /// The first release that knows it.
    pub since: Release,
}

/// The width of an [`Attr`] member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A 16-bit number.
    U16,
    /// A 32-bit number.
    U32,
    /// A 64-bit number.
    U64,
}

impl FieldKind {
    /// Its size in bytes.
    pub const fn size(self) -> usize {
        match self {
            FieldKind::U16 => 2,
            FieldKind::U32 => 4,
            FieldKind::U64 => 8,
        }
    }
}

impl Field {
    /// The smallest published attr size that contains this field.
    pub fn attr_size(&self) -> u32 {
        let end = (self.offset + self.kind.size()) as u32;
        *Attr::SIZES.iter().find(|&&size| size >= end).expect("the table lies within the newest size")
    }

    /// Gives the field in `to` the value it has in `from`.
    pub fn copy(&self, from: &Attr, to: &mut Attr) {
        let mut image = to.image(ByteOrder::Little);
        let bytes = self.offset..self.offset + self.kind.size();
        image[bytes.clone()].copy_from_slice(&from.image(ByteOrder::Little)[bytes]);
        let written = to.layout(&mut Reader::new(&image, ByteOrder::Little));
        written.expect("the image is as large as the layout");
    }

    /// The value this field has in `attr`, zero-extended.
    pub fn get(&self, attr: &Attr) -> u64 {
        let bytes = &attr.image(ByteOrder::Little)[self.offset..][..self.kind.size()];
        bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }
}

/// Something an attr asks for that not every kernel knows, see [`Attr::requirements`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The C name of the field, or of the flag with its set: `attr.sigtrap`, `sample_type CGROUP`.
    pub set: &'static str,
    /// The flag within the set; empty for a whole field.
    pub flag: &'static str,
    /// The first release that knows it.
    pub since: Release,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.set, self.flag) {
            (field, "") => f.write_str(field),
            ("attr", flag) => flag.chars().try_for_each(|c| write!(f, "{}", c.to_ascii_lowercase())),
            (set, flag) => write!(f, "{set} {flag}"),
        }
    }
}

/// Declares the field table from the struct itself, so that offsets cannot drift.
macro_rules! fields {
    ($($rust:ident $name:literal [$($alias:literal),*] $kind:ident $since:expr;)+) => {
        &[$(Field {
            name: $name,
            aliases: &[$($alias),*],
            offset: offset_of!(Attr, $rust),
            kind: FieldKind::$kind,
            since: $since,
        }),+]
    };
}

impl Attr {
    /// Linux 2.6.31: up to `config1`.
    pub const SIZE_VER0: u32 = 64;
    /// Linux 2.6.33: adds `config2`.
    pub const SIZE_VER1: u32 = 72;
    /// Linux 3.4: adds `branch_sample_type`.
    pub const SIZE_VER2: u32 = 80;
    /// Linux 3.7: adds `sample_regs_user` and `sample_stack_user`.
    pub const SIZE_VER3: u32 = 96;
    /// Linux 3.19: adds `sample_regs_intr`.
    pub const SIZE_VER4: u32 = 104;
    /// Linux 4.1: adds `aux_watermark`, later `sample_max_stack`.
    pub const SIZE_VER5: u32 = 112;
    /// Linux 5.5: adds `aux_sample_size`, later `aux_action`.
    pub const SIZE_VER6: u32 = 120;
    /// Linux 5.13: adds `sig_data`.
    pub const SIZE_VER7: u32 = 128;
    /// Linux 6.3: adds `config3`.
    pub const SIZE_VER8: u32 = 136;
    /// Linux 6.19: adds `config4`.
    pub const SIZE_VER9: u32 = 144;

    /// Every published size, oldest first.
    pub const SIZES: [u32; 10] = [
        Self::SIZE_VER0,
        Self::SIZE_VER1,
        Self::SIZE_VER2,
        Self::SIZE_VER3,
        Self::SIZE_VER4,
        Self::SIZE_VER5,
        Self::SIZE_VER6,
        Self::SIZE_VER7,
        Self::SIZE_VER8,
        Self::SIZE_VER9,
    ];

    /// The largest size the kernel looks at (one page).
    pub const SIZE_MAX: u32 = 4096;

    /// Every member in order. The single flags of the bit-field are in [`AttrFlags::SINCE`], those of
    /// `aux_action` in [`AuxAction::SINCE`].
    pub const FIELDS: &'static [Field] = fields! {
        type_ "type" [] U32 Release::v2_6(31);
        size "size" [] U32 Release::v2_6(31);
        config "config" [] U64 Release::v2_6(31);
        sample_period "sample_period" ["sample_freq"] U64 Release::v2_6(31);
        sample_type "sample_type" [] U64 Release::v2_6(31);
        read_format "read_format" [] U64 Release::v2_6(31);
        flags "flags" [] U64 Release::v2_6(31);
        wakeup "wakeup_events" ["wakeup_watermark"] U32 Release::v2_6(31);
        bp_type "bp_type" [] U32 Release::v2_6(33);
        config1 "config1" ["bp_addr", "kprobe_func", "uprobe_path"] U64 Release::v2_6(33);
        config2 "config2" ["bp_len", "kprobe_addr", "probe_offset"] U64 Release::v2_6(33);
        branch_sample_type "branch_sample_type" [] U64 Release::new(3, 4);
        sample_regs_user "sample_regs_user" [] U64 Release::new(3, 7);
        sample_stack_user "sample_stack_user" [] U32 Release::new(3, 7);
        clockid "clockid" [] U32 Release::new(4, 1);
        sample_regs_intr "sample_regs_intr" [] U64 Release::new(3, 19);
        aux_watermark "aux_watermark" [] U32 Release::new(4, 1);
        sample_max_stack "sample_max_stack" [] U16 Release::new(4, 8);
        reserved_2 "__reserved_2" [] U16 Release::new(4, 8);
        aux_sample_size "aux_sample_size" [] U32 Release::new(5, 5);
        aux_action "aux_action" [] U32 Release::new(6, 13);
        sig_data "sig_data" [] U64 Release::new(5, 13);
        config3 "config3" [] U64 Release::new(6, 3);
        config4 "config4" [] U64 Release::new(6, 19);
    };

    /// An attr of the newest size that is zero but for its type: a counter that starts at once and
    /// counts everywhere.
    pub const fn new(type_: EventType) -> Self {
        Attr {
            type_,
            size: Self::SIZE_VER9,
            config: 0,
            sample_period: 0,
            sample_type: SampleType::empty(),
            read_format: ReadFormat::empty(),
            flags: AttrFlags::empty(),
            wakeup: 0,
            bp_type: Breakpoint::EMPTY,
            config1: 0,
            config2: 0,
            branch_sample_type: BranchSampleType::empty(),
            sample_regs_user: 0,
            sample_stack_user: 0,
            clockid: 0,
            sample_regs_intr: 0,
            aux_watermark: 0,
            sample_max_stack: 0,
            reserved_2: 0,
            aux_sample_size: 0,
            aux_action: AuxAction::empty(),
            sig_data: 0,
            config3: 0,
            config4: 0,
        }
    }

    /// The period, unless the attr asks for a frequency or only counts.
    pub fn period(&self) -> Option<u64> {
        (self.sample_period != 0 && !self.flags.contains(AttrFlags::FREQ)).then_some(self.sample_period)
    }

    /// The frequency in Hz, if the attr asks for one.
    pub fn sample_freq(&self) -> Option<u64> {
        self.flags.contains(AttrFlags::FREQ).then_some(self.sample_period)
    }

    /// Samples every `occurrences`.
    pub fn set_period(&mut self, occurrences: u64) {
        self.sample_period = occurrences;
        self.flags.remove(AttrFlags::FREQ);
    }

    /// Samples about `hz` times a second; the kernel adapts the period.
    pub fn set_sample_freq(&mut self, hz: u64) {
        self.sample_period = hz;
        self.flags.insert(AttrFlags::FREQ);
    }

    /// Samples before a wake-up, unless a watermark is asked for.
    pub fn wakeup_events(&self) -> Option<u32> {
        (!self.flags.contains(AttrFlags::WATERMARK)).then_some(self.wakeup)
    }

    /// Bytes before a wake-up, if asked for.
    pub fn wakeup_watermark(&self) -> Option<u32> {
        self.flags.contains(AttrFlags::WATERMARK).then_some(self.wakeup)
    }

    /// Wakes the reader every `samples` (and at half the ring). 0 leaves only the latter.
    pub fn set_wakeup_events(&mut self, samples: u32) {
        self.wakeup = samples;
        self.flags.remove(AttrFlags::WATERMARK);
    }

    /// Wakes the reader every `bytes`.
    pub fn set_wakeup_watermark(&mut self, bytes: u32) {
        self.wakeup = bytes;
        self.flags.insert(AttrFlags::WATERMARK);
    }

    /// `config1` as the address a breakpoint watches.
    pub fn bp_addr(&self) -> u64 {
        self.config1
    }

    /// `config2` as the length in bytes a breakpoint watches.
    pub fn bp_len(&self) -> u64 {
        self.config2
    }

    /// `config1` as a pointer to the name of the probed kernel function.
    pub fn kprobe_func(&self) -> u64 {
        self.config1
    }

    /// `config2` as the probed kernel address, where `kprobe_func` is null.
    pub fn kprobe_addr(&self) -> u64 {
        self.config2
    }

    /// `config1` as a pointer to the path of the probed file.
    pub fn uprobe_path(&self) -> u64 {
        self.config1
    }

    /// `config2` as an offset into the probed function or file.
    pub fn probe_offset(&self) -> u64 {
        self.config2
    }

    /// The smallest published size that holds every non-zero field.
    pub fn min_size(&self) -> u32 {
        let used = Self::FIELDS.iter().filter(|field| field.get(self) != 0);
        used.map(Field::attr_size).max().unwrap_or(Self::SIZE_VER0)
    }

    /// What this attr asks for that came after the first published ABI, oldest first: the reasons for
    /// which an older kernel would answer `E2BIG` or `EINVAL`.
    ///
    /// ```
    /// use perfuse_abi::{Attr, AttrFlags, EventType, Release};
    /// let mut attr = Attr::new(EventType::SOFTWARE);
    /// attr.flags |= AttrFlags::INHERIT | AttrFlags::INHERIT_THREAD;
    /// let newest = attr.requirements().pop().unwrap();
    /// assert_eq!((newest.to_string().as_str(), newest.since), ("inherit_thread", Release::new(5, 13)));
    /// ```
    pub fn requirements(&self) -> Vec<Requirement> {
        let mut all = Vec::new();
        let mut add = |set, flag, since| {
            if since > Release::v2_6(31) {
                all.push(Requirement { set, flag, since });
            }
        };
        for field in Self::FIELDS.iter().filter(|field| field.get(self) != 0) {
            add(field.name, "", field.since);
        }
        self.flags.iter_names().for_each(|(name, flag)| add("attr", name, flag.since()));
        self.sample_type.iter_names().for_each(|(name, flag)| add("sample_type", name, flag.since()));
        self.read_format.iter_names().for_each(|(name, flag)| add("read_format", name, flag.since()));
        self.aux_action.iter_names().for_each(|(name, flag)| add("aux_action", name, flag.since()));
        if self.sample_type.contains(SampleType::BRANCH_STACK) {
            let branches = self.branch_sample_type;
            branches.iter_names().for_each(|(name, flag)| add("branch_sample_type", name, flag.since()));
        }
        all.sort_by_key(|requirement| requirement.since);
        all
    }

    /// Reads an attr of any size from the start of `bytes`. The attr's own `size` field tells how far it
    /// goes (0 means [`SIZE_VER0`](Self::SIZE_VER0), rule A2); fields beyond that are zero, and what lies
    /// beyond this crate's knowledge is the [`tail`](WireAttr::tail).
    pub fn decode(bytes: &[u8], order: ByteOrder) -> Result<WireAttr<'_>, AttrError> {
        let needed = Self::SIZE_VER0 as usize;
        if bytes.len() < needed {
            return Err(Short { what: "perf_event_attr", offset: 0, needed, available: bytes.len() }.into());
        }
        let mut image = [0; Self::SIZE_VER9 as usize];
        let at_hand = bytes.len().min(image.len());
        image[..at_hand].copy_from_slice(&bytes[..at_hand]);
        let mut attr = Attr::default();
        attr.layout(&mut Reader::new(&image, order))?;
        let size = if attr.size == 0 { needed } else { attr.size as usize };
        if size < needed || size > Self::SIZE_MAX as usize {
            return Err(AttrError::Size { size: attr.size });
        }
        let Some(own) = bytes.get(..size) else {
            return Err(
                Short { what: "perf_event_attr", offset: 0, needed: size, available: bytes.len() }.into()
            );
        };
        if size < image.len() {
            image[size..].fill(0);
            let written = attr.size;
            attr.layout(&mut Reader::new(&image, order))?;
            attr.size = written;
        }
        Ok(WireAttr { attr, tail: own.get(image.len()..).unwrap_or(&[]) })
    }

    /// All 144 bytes of this attr.
    fn image(&self, order: ByteOrder) -> [u8; Self::SIZE_VER9 as usize] {
        let mut image = [0; Self::SIZE_VER9 as usize];
        let mut copy = *self;
        let mut sink = SliceSink::new(&mut image);
        copy.layout(&mut Writer::new(&mut sink, order)).expect("the image is as large as the layout");
        image
    }
}

impl<'a> Layout<'a> for Attr {
    /// All 144 bytes of the newest size.
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u32("type", &mut self.type_.0)?;
        c.u32("size", &mut self.size)?;
        c.u64("config", &mut self.config)?;
        c.u64("sample_period", &mut self.sample_period)?;
        c.flags64("sample_type", &mut self.sample_type)?;
        c.flags64("read_format", &mut self.read_format)?;
        let mut flags = self.flags.bits();
        c.bitfield("flags", &AttrFlags::WIDTHS, &mut flags)?;
        self.flags = AttrFlags::from_bits_retain(flags);
        c.u32("wakeup_events", &mut self.wakeup)?;
        c.u32("bp_type", &mut self.bp_type.0)?;
        c.u64("config1", &mut self.config1)?;
        c.u64("config2", &mut self.config2)?;
        c.flags64("branch_sample_type", &mut self.branch_sample_type)?;
        c.u64("sample_regs_user", &mut self.sample_regs_user)?;
        c.u32("sample_stack_user", &mut self.sample_stack_user)?;
        c.i32("clockid", &mut self.clockid)?;
        c.u64("sample_regs_intr", &mut self.sample_regs_intr)?;
        c.u32("aux_watermark", &mut self.aux_watermark)?;
        c.u16("sample_max_stack", &mut self.sample_max_stack)?;
        c.u16("reserved_2", &mut self.reserved_2)?;
        c.u32("aux_sample_size", &mut self.aux_sample_size)?;
        let mut action = self.aux_action.bits();
        c.bitfield32("aux_action", &AuxAction::WIDTHS, &mut action)?;
        self.aux_action = AuxAction::from_bits_retain(action);
        c.u64("sig_data", &mut self.sig_data)?;
        c.u64("config3", &mut self.config3)?;
        c.u64("config4", &mut self.config4)
    }
}

impl Default for Attr {
    /// `Attr::new(EventType::HARDWARE)`.
    fn default() -> Self {
        Attr::new(EventType::HARDWARE)
    }
}

/// An attr as it stands in a file or in another program's memory: the part this crate knows, and what
/// a newer writer added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireAttr<'a> {
    /// The known part; its `size` is the size on the wire.
    pub attr: Attr,
    /// The bytes after the newest known field.
    pub tail: &'a [u8],
}

impl WireAttr<'_> {
    /// How many bytes the attr takes on the wire.
    pub fn len(&self) -> usize {
        if self.attr.size == 0 { Attr::SIZE_VER0 as usize } else { self.attr.size as usize }
    }

    /// Never: an attr has at least 64 bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes [`len`](Self::len) bytes. Fails rather than drop a field that is set but lies beyond
    /// `attr.size`; bytes of the size that neither the known fields nor the tail fill are zero.
    pub fn encode(&self, order: ByteOrder, sink: &mut impl Sink) -> Result<(), AttrError> {
        let size = self.len();
        if size < Attr::SIZE_VER0 as usize || size > Attr::SIZE_MAX as usize {
            return Err(AttrError::Size { size: self.attr.size });
        }
        let image = self.attr.image(order);
        // A size may cut a field in the middle (rule A6): only bytes that are set are missed.
        let dropped = (size..image.len()).find(|&byte| image[byte] != 0);
        if let Some(byte) = dropped {
            let holds = |field: &&Field| field.offset + field.kind.size() > byte;
            let field = Attr::FIELDS.iter().find(holds).map_or("", |field| field.name);
            return Err(AttrError::FieldBeyondSize { field, size: self.attr.size });
        }
        let room_for_tail = size.saturating_sub(image.len());
        if self.tail.len() > room_for_tail {
            return Err(AttrError::FieldBeyondSize { field: "tail", size: self.attr.size });
        }
        if sink.room() < size {
            let available = sink.room();
            return Err(Short { what: "perf_event_attr", offset: 0, needed: size, available }.into());
        }
        sink.put(&image[..size.min(image.len())]);
        sink.put(self.tail);
        (self.tail.len()..room_for_tail).for_each(|_| sink.put(&[0]));
        Ok(())
    }
}

/// Why bytes are not an attr, or an attr cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrError {
    /// There are fewer bytes than the attr needs.
    Short(Short),
    /// The `size` field is below 64 or above a page.
    Size {
        /// The field's value.
        size: u32,
    },
    /// A field is set that lies beyond the `size` to be written.
    FieldBeyondSize {
        /// Its C name.
        field: &'static str,
        /// The size to be written.
        size: u32,
    },
}

impl From<Short> for AttrError {
    fn from(short: Short) -> Self {
        AttrError::Short(short)
    }
}

impl fmt::Display for AttrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttrError::Short(short) => short.fmt(f),
            AttrError::Size { size } => {
                write!(f, "perf_event_attr.size is {size}, outside {}..={}", Attr::SIZE_VER0, Attr::SIZE_MAX)
            }
            AttrError::FieldBeyondSize { field, size } => {
                write!(f, "perf_event_attr.{field} is set but lies beyond the attr's size of {size} bytes")
            }
        }
    }
}

impl core::error::Error for AttrError {}

impl fmt::Display for Attr {
    /// One line in the style of `perf evlist -v`: type, size and config, then whatever is not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type: {}, size: {}, config: {:#x}", self.type_, self.size, self.config)?;
        match self.type_ {
            EventType::HARDWARE => {
                if let Some(name) = Hardware::from_config(self.config).0.header_name() {
                    write!(f, " ({name})")?;
                }
            }
            EventType::SOFTWARE => {
                if let Some(name) = Software(self.config).header_name() {
                    write!(f, " ({name})")?;
                }
            }
            EventType::HW_CACHE => {
                let event = CacheEvent::from_config(self.config).0;
                let names = (event.result.header_name(), event.op.header_name(), event.cache.header_name());
                if let (Some(result), Some(op), Some(cache)) = names {
                    write!(f, " ({result} | {op} | {cache})")?;
                }
            }
            _ => {}
        }
        let number = |f: &mut fmt::Formatter<'_>, name: &str, value: u64| match value {
            0 => Ok(()),
            _ => write!(f, ", {name}: {value}"),
        };
        let hex = |f: &mut fmt::Formatter<'_>, name: &str, value: u64| match value {
            0 => Ok(()),
            _ => write!(f, ", {name}: {value:#x}"),
        };
        number(f, "{ sample_period, sample_freq }", self.sample_period)?;
        set(f, "sample_type", self.sample_type)?;
        set(f, "read_format", self.read_format)?;
        for bit in (0..64).map(|n| AttrFlags::from_bits_retain(1 << n)) {
            if bit == AttrFlags::from_bits_retain(1 << 15) {
                number(f, "precise_ip", u64::from(self.flags.precise_ip()))?;
            } else if self.flags.contains(bit) && !AttrFlags::PRECISE_IP_MASK.contains(bit) {
                match bit.iter_names().next() {
                    Some((name, _)) => {
                        f.write_str(", ")?;
                        name.chars().try_for_each(|c| write!(f, "{}", c.to_ascii_lowercase()))?;
                        f.write_str(": 1")?;
                    }
                    None => write!(f, ", reserved bit {}: 1", bit.bits().trailing_zeros())?,
                }
            }
        }
        number(f, "{ wakeup_events, wakeup_watermark }", self.wakeup.into())?;
        number(f, "bp_type", self.bp_type.0.into())?;
        hex(f, "{ bp_addr, config1 }", self.config1)?;
        hex(f, "{ bp_len, config2 }", self.config2)?;
        set(f, "branch_sample_type", self.branch_sample_type)?;
        hex(f, "sample_regs_user", self.sample_regs_user)?;
        number(f, "sample_stack_user", self.sample_stack_user.into())?;
        if self.flags.contains(AttrFlags::USE_CLOCKID) || self.clockid != 0 {
            write!(f, ", clockid: {}", self.clockid)?;
        }
        hex(f, "sample_regs_intr", self.sample_regs_intr)?;
        number(f, "aux_watermark", self.aux_watermark.into())?;
        number(f, "sample_max_stack", self.sample_max_stack.into())?;
        number(f, "aux_sample_size", self.aux_sample_size.into())?;
        for (name, _) in self.aux_action.iter_names() {
            let name = match name {
                "START_PAUSED" => "aux_start_paused",
                "PAUSE" => "aux_pause",
                _ => "aux_resume",
            };
            write!(f, ", {name}: 1")?;
        }
        hex(f, "sig_data", self.sig_data)?;
        hex(f, "config3", self.config3)?;
        hex(f, "config4", self.config4)
    }
}

/// `, name: A|B|0x100` for a flag set that is not empty; bits without a name follow in hexadecimal.
fn set<F: Flags<Bits = u64>>(f: &mut fmt::Formatter<'_>, name: &str, flags: F) -> fmt::Result {
    if flags.bits() == 0 {
        return Ok(());
    }
    write!(f, ", {name}: ")?;
    let (mut between, mut named) = ("", flags.iter_names());
    for (flag, _) in named.by_ref() {
        write!(f, "{between}{flag}")?;
        between = "|";
    }
    match named.remaining().bits() {
        0 => Ok(()),
        unknown => write!(f, "{between}{unknown:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec;

    fn encoded(wire: WireAttr<'_>, order: ByteOrder) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire.encode(order, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_c_layout_has_no_holes() {
        let mut end = 0;
        for field in Attr::FIELDS {
            assert_eq!(field.offset, end, "{}", field.name);
            end += field.kind.size();
        }
        assert_eq!(end, size_of::<Attr>());
        assert_eq!(end, Attr::SIZE_VER9 as usize);
    }

    #[test]
    fn an_old_attr_lacks_the_newer_fields() {
        let mut attr = Attr { config1: 7, config2: 9, ..Attr::new(EventType::RAW) };
        attr.size = Attr::SIZE_VER1;
        let bytes = encoded(WireAttr { attr, tail: &[] }, ByteOrder::NATIVE);
        assert_eq!(bytes.len(), 72);
        // What follows in memory belongs to somebody else.
        let mut longer = bytes.clone();
        longer.extend([0xff; 100]);
        assert_eq!(Attr::decode(&longer, ByteOrder::NATIVE).unwrap().attr, attr);
    }

    #[test]
    fn a_newer_attr_keeps_its_tail() {
        let attr = Attr { size: 160, config4: 1, ..Attr::new(EventType(10)) };
        let tail = [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9];
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let bytes = encoded(WireAttr { attr, tail: &tail }, order);
            let read = Attr::decode(&bytes, order).unwrap();
            assert_eq!((read.attr, read.tail), (attr, &tail[..]));
            assert_eq!(encoded(read, order), bytes);
        }
    }

    #[test]
    fn size_zero_means_the_first_published_size() {
        let attr = Attr { size: 0, config: 3, ..Attr::default() };
        let bytes = encoded(WireAttr { attr, tail: &[] }, ByteOrder::NATIVE);
        assert_eq!(bytes.len(), 64);
        assert_eq!(Attr::decode(&bytes, ByteOrder::NATIVE).unwrap().attr, attr);
    }

    #[test]
    fn a_size_may_cut_a_field_in_the_middle() {
        // Rule A6: the missing bytes are zero.
        let mut bytes = vec![0xff; 66];
        bytes[4..8].copy_from_slice(&66u32.to_le_bytes());
        let wire = Attr::decode(&bytes, ByteOrder::Little).unwrap();
        assert_eq!((wire.attr.config1, wire.attr.config2), (u64::MAX, 0xffff));
        assert_eq!(encoded(wire, ByteOrder::Little), bytes);
    }

    #[test]
    fn nothing_set_is_dropped_by_a_small_size() {
        let attr = Attr { size: 128, config3: 1, ..Attr::default() };
        let error = WireAttr { attr, tail: &[] }.encode(ByteOrder::NATIVE, &mut Vec::new()).unwrap_err();
        assert_eq!(error, AttrError::FieldBeyondSize { field: "config3", size: 128 });
        assert_eq!(attr.min_size(), Attr::SIZE_VER8);
    }

    #[test]
    fn bad_sizes_are_named() {
        let mut bytes = [0; 200];
        bytes[4] = 63;
        assert_eq!(Attr::decode(&bytes, ByteOrder::Little), Err(AttrError::Size { size: 63 }));
        bytes[4] = 201;
        let error = Attr::decode(&bytes, ByteOrder::Little).unwrap_err();
        assert_eq!(error.to_string(), "perf_event_attr at byte 0 needs 201 bytes, 200 are left");
        assert!(Attr::decode(&bytes[..63], ByteOrder::Little).is_err());
    }

    #[test]
    fn a_big_endian_machine_lays_its_bit_fields_out_from_the_top() {
        // As gcc for s390x does: `disabled` is the highest bit, `precise_ip` keeps its bits in order.
        let mut attr = Attr { size: 64, ..Attr::default() };
        attr.flags = AttrFlags::DISABLED.with_precise_ip(2);
        let bytes = encoded(WireAttr { attr, tail: &[] }, ByteOrder::Big);
        assert_eq!(bytes[40..48], (1u64 << 63 | 2 << 47).to_be_bytes());
        assert_eq!(Attr::decode(&bytes, ByteOrder::Big).unwrap().attr, attr);
    }

    #[test]
    fn requirements_name_what_is_new() {
        let mut attr = Attr { config4: 1, ..Attr::new(EventType::SOFTWARE) };
        attr.read_format = ReadFormat::ID | ReadFormat::LOST;
        attr.aux_action = AuxAction::PAUSE;
        let all: Vec<_> = attr.requirements().iter().map(|r| (r.to_string(), r.since.to_string())).collect();
        let expected = [
            ("read_format LOST", "6.0"),
            ("aux_action", "6.13"),
            ("aux_action PAUSE", "6.13"),
            ("config4", "6.19"),
        ];
        assert_eq!(all, expected.map(|(what, since)| (what.to_string(), since.to_string())));
    }

    #[test]
    fn one_line_in_the_style_of_evlist() {
        let mut attr = Attr::new(EventType::SOFTWARE);
        attr.size = 136;
        attr.set_sample_freq(4000);
        attr.sample_type = SampleType::IP | SampleType::TID | SampleType::from_bits_retain(1 << 40);
        attr.read_format = ReadFormat::ID | ReadFormat::LOST;
        attr.flags |= AttrFlags::DISABLED | AttrFlags::SAMPLE_ID_ALL | AttrFlags::from_bits_retain(1 << 50);
        attr.flags = attr.flags.with_precise_ip(3);
        assert_eq!(
            attr.to_string(),
            "type: 1 (PERF_TYPE_SOFTWARE), size: 136, config: 0x0 (PERF_COUNT_SW_CPU_CLOCK), \
             { sample_period, sample_freq }: 4000, sample_type: IP|TID|0x10000000000, \
             read_format: ID|LOST, disabled: 1, freq: 1, precise_ip: 3, sample_id_all: 1, \
             reserved bit 50: 1"
        );
    }
}
