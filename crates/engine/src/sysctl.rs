//! `/proc/sys/kernel/perf_*` (section L).

use crate::engine::{Config, Engine};
use alloc::string::{String, ToString};
use perfuse_abi::{Errno, SampleType};

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct Sysctls {
    pub(crate) paranoid: i32,
    pub(crate) mlock_kb: i32,
    pub(crate) max_sample_rate: i32,
    pub(crate) cpu_time_max_percent: i32,
    pub(crate) max_stack: i32,
    pub(crate) max_contexts_per_stack: i32,
    /// Follows from the rate, and from how long samples take.
    pub(crate) max_samples_per_tick: u64,
    /// Nanoseconds that a sample may take on average; 0: no limit.
    allowed_ns: u64,
}

/// A file of `/proc/sys/kernel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the files")]
pub enum Sysctl {
    PerfEventParanoid,
    PerfEventMlockKb,
    PerfEventMaxSampleRate,
    PerfCpuTimeMaxPercent,
    PerfEventMaxStack,
    PerfEventMaxContextsPerStack,
}

impl Sysctl {
    /// All there are.
    pub const ALL: [Sysctl; 6] = [
        Sysctl::PerfEventParanoid,
        Sysctl::PerfEventMlockKb,
        Sysctl::PerfEventMaxSampleRate,
        Sysctl::PerfCpuTimeMaxPercent,
        Sysctl::PerfEventMaxStack,
        Sysctl::PerfEventMaxContextsPerStack,
    ];

    /// The name of the file.
    pub const fn name(self) -> &'static str {
        match self {
            Sysctl::PerfEventParanoid => "perf_event_paranoid",
            Sysctl::PerfEventMlockKb => "perf_event_mlock_kb",
            Sysctl::PerfEventMaxSampleRate => "perf_event_max_sample_rate",
            Sysctl::PerfCpuTimeMaxPercent => "perf_cpu_time_max_percent",
            Sysctl::PerfEventMaxStack => "perf_event_max_stack",
            Sysctl::PerfEventMaxContextsPerStack => "perf_event_max_contexts_per_stack",
        }
    }
}

impl Sysctls {
    pub(crate) fn new(config: &Config) -> Self {
        let mut all = Sysctls {
            paranoid: 2,
            mlock_kb: 512 + (config.page_bytes / 1024) as i32,
            max_sample_rate: 100_000,
            cpu_time_max_percent: 25,
            max_stack: 127,
            max_contexts_per_stack: 8,
            max_samples_per_tick: 0,
            allowed_ns: 0,
        };
        all.follow(config.hz);
        all
    }

    fn follow(&mut self, hz: u32) {
        self.max_samples_per_tick = (self.max_sample_rate as u64).div_ceil(u64::from(hz));
        let percent = self.cpu_time_max_percent as u64;
        self.allowed_ns = match percent {
            0 | 100 => 0,
            percent => (1_000_000_000 / self.max_sample_rate as u64 * percent / 100).max(1),
        };
    }

    /// The `sample_max_stack` of an attr that leaves it open: as much of the setting as its 16 bits hold, as
    /// Linux has it (rule A15).
    pub(crate) fn stack_default(&self) -> u16 {
        self.max_stack as u16
    }

    /// Lowers the rate where samples take `average` ns (rule I24); the new one.
    pub(crate) fn limit_rate(&mut self, average: u64, tick_ns: u64, hz: u32) -> Option<u32> {
        if self.allowed_ns == 0 || average <= self.allowed_ns {
            return None;
        }
        let average = average + average / 4;
        let most = tick_ns / 100 * self.cpu_time_max_percent as u64;
        self.max_samples_per_tick = if average < most { most / average } else { 1 };
        self.max_sample_rate = i32::try_from(self.max_samples_per_tick * u64::from(hz)).unwrap_or(i32::MAX);
        self.allowed_ns = average;
        Some(self.max_sample_rate as u32)
    }
}

impl Engine {
    /// The text of a file, without the newline.
    pub fn sysctl(&self, which: Sysctl) -> String {
        let all = &self.sysctls;
        let value = match which {
            Sysctl::PerfEventParanoid => all.paranoid,
            Sysctl::PerfEventMlockKb => all.mlock_kb,
            Sysctl::PerfEventMaxSampleRate => all.max_sample_rate,
            Sysctl::PerfCpuTimeMaxPercent => all.cpu_time_max_percent,
            Sysctl::PerfEventMaxStack => all.max_stack,
            Sysctl::PerfEventMaxContextsPerStack => all.max_contexts_per_stack,
        };
        value.to_string()
    }

    /// Writes to a file: `EINVAL` for a text that is no number or out of range, `EBUSY` for the limits of
    /// callchains while there are events with such. Nothing changes for an empty text.
    pub fn set_sysctl(&mut self, which: Sysctl, text: &str) -> Result<(), Errno> {
        self.write_sysctl(which, text, false)
    }

    /// The text of a file of the kernel below, whose setting holds here too: `EINVAL` for one that cannot be such a text.
    /// As it stands there already, nothing else refuses it.
    pub fn follow_sysctl(&mut self, which: Sysctl, text: &str) -> Result<(), Errno> {
        self.write_sysctl(which, text, true)
    }

    fn write_sysctl(&mut self, which: Sysctl, text: &str, stands: bool) -> Result<(), Errno> {
        let Some(word) = text.split_ascii_whitespace().next() else { return Ok(()) };
        let value = number(word)?;
        let within = |low: i32, high: i32| {
            if (low..=high).contains(&value) { Ok(value) } else { Err(Errno::EINVAL) }
        };
        match which {
            Sysctl::PerfEventParanoid => self.sysctls.paranoid = value,
            Sysctl::PerfEventMlockKb => self.sysctls.mlock_kb = value,
            Sysctl::PerfEventMaxSampleRate => {
                if !stands && [0, 100].contains(&self.sysctls.cpu_time_max_percent) {
                    return Err(Errno::EINVAL);
                }
                self.sysctls.max_sample_rate = within(1, i32::MAX)?;
                self.sysctls.follow(self.config.hz);
            }
            Sysctl::PerfCpuTimeMaxPercent => {
                self.sysctls.cpu_time_max_percent = within(0, 100)?;
                self.sysctls.follow(self.config.hz);
            }
            Sysctl::PerfEventMaxStack => {
                let value = within(0, 655_360)?;
                if !stands {
                    self.no_callchains()?;
                }
                self.sysctls.max_stack = value;
            }
            Sysctl::PerfEventMaxContextsPerStack => {
                let value = within(0, 1000)?;
                if !stands {
                    self.no_callchains()?;
                }
                self.sysctls.max_contexts_per_stack = value;
            }
        }
        Ok(())
    }

    fn no_callchains(&self) -> Result<(), Errno> {
        let chains = |key| self.events[key].attr().sample_type.contains(SampleType::CALLCHAIN);
        if self.events.keys().any(chains) { Err(Errno::EBUSY) } else { Ok(()) }
    }
}

/// A number as the kernel reads it in such files: decimal, `0x` or octal, with a sign.
fn number(word: &str) -> Result<i32, Errno> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    let value = value.map_err(|_| Errno::EINVAL)?;
    i32::try_from(if negative { -value } else { value }).map_err(|_| Errno::EINVAL)
}
