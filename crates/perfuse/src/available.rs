//! Which kernel can measure here.

use crate::builder::Builder;
use crate::diagnosis::Cause;
use crate::error::Error;
use crate::perf::Perf;
use perfuse_abi::Software;

impl Perf {
    /// Linux; where it [refuses](Self::linux_refuses) and there is an [embedded](Self::embedded) kernel, that one, which
    /// [tells why](Self::refusal). Finding out takes one event that is opened and closed again.
    pub fn available() -> Self {
        // The embedded kernel is made when it is needed.
        let instead = |refusal| Self::embedded().map(|embedded| embedded.because_of(refusal));
        Self::linux_refuses().and_then(instead).unwrap_or_else(Self::linux)
    }

    /// Why Linux refuses even the least that can be measured, for good; `None` where it does not.
    pub fn linux_refuses() -> Option<Error> {
        // A clock: for the first of most other events the kernel patches its own code on all cpus.
        let error = Builder::new(Software::TASK_CLOCK).user_only().open().err()?;
        (error.lasts() || error.cause() == Cause::Unknown).then_some(error)
    }
}
