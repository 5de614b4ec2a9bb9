//! Callchains: addresses with markers between them that tell whose they are.

use crate::event::named_numbers;
use crate::wire::Words;

named_numbers! {
    /// A marker in a callchain: an address no code can have. The addresses behind it, up to the next
    /// marker, were executed there.
    CallchainContext(u64) "PERF_CONTEXT_" {
        /// The hypervisor.
        HV = 0xffff_ffff_ffff_ffe0,
        /// The kernel.
        KERNEL = 0xffff_ffff_ffff_ff80,
        /// The program.
        USER = 0xffff_ffff_ffff_fe00,
        /// The program, but told later: a cookie follows, and a
        /// [`CallchainDeferred`](super::CallchainDeferred) will have the same (Linux 6.19).
        USER_DEFERRED = 0xffff_ffff_ffff_fd80,
        /// A guest.
        GUEST = 0xffff_ffff_ffff_f800,
        /// A guest's kernel.
        GUEST_KERNEL = 0xffff_ffff_ffff_f780,
        /// A program in a guest.
        GUEST_USER = 0xffff_ffff_ffff_f600,
        /// The lowest marker there may be.
        MAX = 0xffff_ffff_ffff_f001,
    }
}

impl CallchainContext {
    /// The marker that a word of a callchain is, if it is one; it may be one without a name.
    #[inline]
    pub const fn of(word: u64) -> Option<Self> {
        if word >= Self::MAX.0 { Some(CallchainContext(word)) } else { None }
    }

    /// Whether kernels write this marker. Another one is an address that was read from no frame.
    #[inline]
    pub fn is_written(self) -> bool {
        self != Self::MAX && self.header_name().is_some()
    }
}

/// A callchain as the kernel gives it, markers included, callee first.
///
/// ```
/// use perfuse_abi::record::{Callchain, CallchainContext};
///
/// let words = [CallchainContext::KERNEL.0, 0xffff_8000, CallchainContext::USER.0, 0x1000, 0x2000];
/// let chain = Callchain { words: words[..].into() };
/// let parts: Vec<_> = chain.parts().map(|part| (part.context, part.ips.len())).collect();
/// assert_eq!(parts, [(Some(CallchainContext::KERNEL), 1), (Some(CallchainContext::USER), 2)]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callchain<'a> {
    /// Addresses and markers.
    pub words: Words<'a>,
}

/// The part of a callchain that was executed in one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallchainPart<'a> {
    /// Where; `None` for what precedes the first marker.
    pub context: Option<CallchainContext>,
    /// The addresses, callee first. After [`CallchainContext::USER_DEFERRED`] the cookie.
    pub ips: Words<'a>,
}

impl<'a> Callchain<'a> {
    /// The parts in order. Each marker starts one, even if nothing follows it.
    pub fn parts(&self) -> impl Iterator<Item = CallchainPart<'a>> + use<'a> {
        let mut rest = self.words;
        core::iter::from_fn(move || {
            let context = CallchainContext::of(rest.get(0)?);
            let start = usize::from(context.is_some());
            let len =
                rest.iter().skip(start).take_while(|&word| CallchainContext::of(word).is_none()).count();
            let ips = rest.slice(start..start + len);
            rest = rest.slice(start + len..rest.len());
            Some(CallchainPart { context, ips })
        })
    }

    /// Whether it has a marker that kernels do not [write](CallchainContext::is_written): the frames were none, and perf shows
    /// nothing of such a callchain.
    pub fn is_broken(&self) -> bool {
        self.words.iter().filter_map(CallchainContext::of).any(|context| !context.is_written())
    }

    /// The cookie of a user part that will be told later.
    pub fn deferred_cookie(&self) -> Option<u64> {
        let deferred = |part: &CallchainPart<'_>| part.context == Some(CallchainContext::USER_DEFERRED);
        self.parts().find(deferred)?.ips.get(0)
    }
}

impl<'a> From<&'a [u64]> for Callchain<'a> {
    #[inline]
    fn from(words: &'a [u64]) -> Self {
        Callchain { words: words.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_marker_that_no_kernel_writes_breaks_a_callchain() {
        let broken = |last| Callchain::from(&[CallchainContext::USER.0, 0x1000, last][..]).is_broken();
        let written = [CallchainContext::HV, CallchainContext::KERNEL, CallchainContext::USER_DEFERRED];
        assert!(!written.iter().any(|context| broken(context.0)));
        assert!(!broken(CallchainContext::MAX.0 - 1), "an address");
        assert!([u64::MAX, CallchainContext::MAX.0, CallchainContext::USER.0 + 1].into_iter().all(broken));
    }

    #[test]
    fn addresses_before_the_first_marker_have_no_context() {
        let words = [1, 2, CallchainContext::USER.0, CallchainContext::GUEST.0, 3];
        let parts: Vec<_> = Callchain::from(&words[..]).parts().collect();
        let part = |context, ips: &'static [u64]| CallchainPart { context, ips: ips.into() };
        let user = part(Some(CallchainContext::USER), &[]);
        assert_eq!(parts, [part(None, &[1, 2]), user, part(Some(CallchainContext::GUEST), &[3])]);
        assert_eq!(Callchain::default().parts().count(), 0);
    }

    #[test]
    fn a_deferred_user_part_is_a_cookie() {
        let words = [CallchainContext::KERNEL.0, 7, CallchainContext::USER_DEFERRED.0, 99];
        assert_eq!(Callchain::from(&words[..]).deferred_cookie(), Some(99));
        assert_eq!(Callchain::from(&words[..2]).deferred_cookie(), None);
    }

    #[test]
    fn markers_are_the_highest_4095_addresses() {
        assert_eq!(CallchainContext::of(-4096i64 as u64), None);
        assert_eq!(CallchainContext::of(-4095i64 as u64), Some(CallchainContext::MAX));
        assert_eq!(CallchainContext::KERNEL.0, -128i64 as u64);
        assert_eq!(CallchainContext::USER_DEFERRED.0, -640i64 as u64);
        assert_eq!(CallchainContext::GUEST_USER.0, -2560i64 as u64);
    }
}
