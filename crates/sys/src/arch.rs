//! Instructions that read the clock and the counters without a system call.

/// The raw cycle counter behind the control page's time fields: the TSC on x86, `CNTVCT_EL0` on arm64.
/// `None` on other architectures.
#[inline]
pub fn timestamp() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the TSC is readable in user space unless the process asked for PR_TSC_SIGSEGV.
        Some(unsafe { core::arch::x86_64::_rdtsc() })
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: Linux lets user space read the virtual counter; the barrier keeps the read in place.
        unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        Some(ticks)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        None
    }
}

/// Reads a hardware counter: `rdpmc` on x86; on arm64 31 is the cycle counter and the others are event
/// counters. `None` on architectures without such an instruction.
///
/// # Safety
/// Faults (SIGILL or SIGSEGV) unless the control page of an event mapped in this process said, within
/// the same seqlock section, `cap_user_rdpmc` and an `index` of `number + 1` (rule F34).
#[inline]
pub unsafe fn read_counter(number: u32) -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        let (low, high): (u32, u32);
        // SAFETY: the caller vouches that the counter may be read.
        unsafe {
            core::arch::asm!("rdpmc", in("ecx") number, out("eax") low, out("edx") high,
                options(nomem, nostack, preserves_flags));
        }
        Some(u64::from(high) << 32 | u64::from(low))
    }
    #[cfg(target_arch = "aarch64")]
    {
        /// `mrs` of event counter N, the register's name being part of the instruction.
        macro_rules! event_counters {
            ($value:ident, $number:expr, $($n:literal)+) => {
                match $number {
                    $($n => {
                        // SAFETY: the caller vouches that the counter may be read.
                        unsafe {
                            core::arch::asm!(concat!("mrs {}, pmevcntr", $n, "_el0"), out(reg) $value,
                                options(nomem, nostack))
                        }
                    })+
                    _ => return None,
                }
            };
        }
        let value: u64;
        match number {
            // SAFETY: the caller vouches that the cycle counter may be read.
            31 => unsafe { core::arch::asm!("mrs {}, pmccntr_el0", out(reg) value, options(nomem, nostack)) },
            _ => event_counters!(value, number, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
                21 22 23 24 25 26 27 28 29 30),
        }
        Some(value)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = number;
        None
    }
}
