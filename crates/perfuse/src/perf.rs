//! Which kernel measures, as a value: builders, groups, samplers and plans are made from it.

use crate::call::Call;
use crate::embedded;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linux::Linux;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// The perf_events of one kernel: Linux's, the embedded ones, or some of your own.
///
/// Clones are the same kernel. A process may measure with several at once; nothing is decided for all of it, and no
/// environment variable is read. [`Builder::new`](crate::Builder::new) and its like take Linux.
///
/// ```
/// use perfuse::{Perf, abi::Software};
///
/// // Linux; where it refuses, as in many containers, the embedded kernel.
/// let perf = Perf::available();
/// let mut faults = perf.counter(Software::PAGE_FAULTS).user_only().open()?;
/// faults.enable()?;
/// println!("{} page faults so far, says {}", faults.read()?.value, perf.name());
/// # Ok::<(), perfuse::Error>(())
/// ```
#[derive(Clone)]
pub struct Perf {
    kernel: Arc<dyn Kernel>,
    /// Why it stands in for Linux.
    refusal: Option<Arc<Error>>,
}

impl Perf {
    /// Those of a kernel of your own, such as a [`Wrap`](crate::kernel::Wrap) of another.
    pub fn new(kernel: impl Kernel + 'static) -> Self {
        Perf::from(Arc::new(kernel))
    }

    /// Those of Linux, the running kernel.
    pub fn linux() -> Self {
        static LINUX: OnceLock<Arc<Linux>> = OnceLock::new();
        Perf::from(LINUX.get_or_init(Arc::default).clone())
    }

    /// Those of perfuse's own kernel, which lives in this process and measures by `ptrace(2)`, for places where Linux
    /// refuses; `None` where there is none: for other architectures than x86-64 and arm64, and without the feature
    /// `embedded`.
    ///
    /// It measures the calling thread, other threads of this process (to be read before they end), commands
    /// with all that they start, and processes that `ptrace(2)` may attach to. Clocks, page faults, context
    /// switches and cpu migrations are counted; clocks of other processes are sampled, in user space. The rest
    /// is refused with the reason.
    ///
    /// # Changes to this process
    ///
    /// When the first other process is measured, and from then on:
    ///
    /// * A thread named `perfuse` traces. It has all signals blocked.
    /// * `SIGCHLD` gets the flag `SA_NOCLDSTOP`: it comes at the end of a child only, and no longer when one stops or
    ///   continues. Its handler stays.
    /// * `SIGRTMAX-5` gets a handler, which does nothing: it interrupts the thread that traces.
    /// * Children that are measured have to be waited for with [`RunningCommand`](crate::RunningCommand): this process
    ///   traces them, so that other waits of it, such as those of [`std::process::Child`], may be answered with a stop
    ///   that was meant for the tracer.
    pub fn embedded() -> Option<Self> {
        embedded::embedded().map(|kernel| Perf { kernel, refusal: None })
    }

    /// [`embedded`](Self::embedded), where [`Hardware::INSTRUCTIONS`](crate::abi::Hardware::INSTRUCTIONS) of user space
    /// are counted by stepping through the program, as [`Event::single_step`](crate::Event::single_step) always is. The
    /// program then takes tens of thousands of times as long.
    pub fn embedded_stepping() -> Option<Self> {
        embedded::stepping().map(|kernel| Perf { kernel, refusal: None })
    }

    /// The same, which stands in for Linux for this reason.
    pub(crate) fn because_of(mut self, refusal: Error) -> Self {
        self.refusal = Some(Arc::new(refusal));
        self
    }

    /// Why Linux was passed over by [`available`](Self::available); `None` where it was not.
    pub fn refusal(&self) -> Option<&Error> {
        self.refusal.as_deref()
    }

    /// The kernel, for the events that it opens.
    pub(crate) fn shared(&self) -> Arc<dyn Kernel> {
        self.kernel.clone()
    }

    /// Switches on every event the calling thread has opened, whatever it measures (`prctl(2)`).
    pub fn enable_own_events(&self) -> Result<()> {
        self.kernel.prctl(true).map_err(|errno| Error::new(Call::Prctl, errno))
    }

    /// Switches off every event the calling thread has opened, whatever it measures (`prctl(2)`).
    pub fn disable_own_events(&self) -> Result<()> {
        self.kernel.prctl(false).map_err(|errno| Error::new(Call::Prctl, errno))
    }
}

impl fmt::Debug for Perf {
    /// Its name: what is in a kernel is much.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Perf").field(&self.kernel.name()).finish()
    }
}

/// [`linux`](Perf::linux).
impl Default for Perf {
    fn default() -> Self {
        Perf::linux()
    }
}

/// The kernel's calls and [facts](Kernel::facts).
impl Deref for Perf {
    type Target = dyn Kernel;

    fn deref(&self) -> &Self::Target {
        &*self.kernel
    }
}

impl<K: Kernel + 'static> From<Arc<K>> for Perf {
    fn from(kernel: Arc<K>) -> Self {
        Perf { kernel, refusal: None }
    }
}

impl From<&Perf> for Perf {
    fn from(perf: &Perf) -> Self {
        perf.clone()
    }
}
