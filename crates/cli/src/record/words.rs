//! Words of options, made sense of: rates, users, registers, call chains, sizes, clocks and kinds of branches.

use super::args::Args;
use super::units;
use crate::exit::Failure;
use perfuse::abi::BranchSampleType;
use perfuse::abi::regs::Arch;
use perfuse_proc::read;
use perfuse_record::{CallChains, Switch};
use perfuse_sys::page_size;

/// The kernel refuses more than its limit; less is better than nothing.
pub(super) fn frequency(text: &str, strict: bool, remarks: &mut Vec<String>) -> Result<u64, Failure> {
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok();
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok()).filter(|&limit| limit > 0);
    if text == "max" {
        return limit.ok_or_else(|| Failure::new("the kernel does not tell how often it samples at most"));
    }
    let wrong = || Failure::usage(format_args!("-F wants samples a second, or max, not '{text}'"));
    let hz: u64 = text.parse().ok().filter(|&hz| hz > 0).ok_or_else(wrong)?;
    match limit {
        Some(limit) if hz > limit => {
            let told = format!(
                "{hz} Hz is more than this kernel allows: {limit} Hz; to allow more: \
                 sudo sysctl kernel.perf_event_max_sample_rate={hz}"
            );
            if strict {
                return Err(Failure::new(told));
            }
            remarks.push(told);
            Ok(limit)
        }
        _ => Ok(hz),
    }
}

/// The processes that a user has now, without ourselves; the user is given by name or number.
pub(super) fn processes_of(user: &str) -> Result<Vec<u32>, Failure> {
    let named = || {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        lines.find(|fields| fields.first() == Some(&user))?.get(2)?.parse().ok()
    };
    let wrong = || Failure::usage(format_args!("-u wants a user, by name or number, not '{user}'"));
    let uid: u32 = user.parse().ok().or_else(named).ok_or_else(wrong)?;
    let mut pids = read::processes_of(uid);
    pids.retain(|&pid| pid != std::process::id());
    if pids.is_empty() {
        return Err(Failure::new(format_args!("nothing runs for user {user}")));
    }
    Ok(pids)
}

/// Names of registers to their mask; no names are those that every sample can have.
pub(super) fn registers(list: &str) -> Result<u64, Failure> {
    let number = |wanted: &str| {
        let name = |number: u32| Arch::NATIVE.and_then(|arch| arch.name(number));
        (0..64).find(|&number| name(number).is_some_and(|name| name.eq_ignore_ascii_case(wanted)))
    };
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let mask = names.map(|name| number(name).map(|number| 1 << number).ok_or(name));
    let mask = mask.reduce(|mask, bit| Ok(mask? | bit?)).unwrap_or_else(|| Ok(perfuse_record::registers()));
    mask.map_err(|name| {
        let all = (0..64).filter(|number| perfuse_record::registers() & (1 << number) != 0);
        let all: Vec<_> = all.filter_map(|number| Arch::NATIVE?.name(number)).collect();
        Failure::usage(format_args!("no register is called '{name}'; there are {}", all.join(", ")))
    })
}

pub(super) fn chains(args: &Args) -> Result<CallChains, Failure> {
    match &args.call_graph {
        Some(text) => text.parse().map_err(|why: String| Failure::usage(format_args!("--call-graph {why}"))),
        None if args.chains => match args.command.first().and_then(|word| word.to_str()) {
            Some(kind @ ("fp" | "dwarf" | "lbr" | "unwound")) => Err(Failure::usage(format_args!(
                "-g takes no kind of callchain, and '{kind}' is the command then; --call-graph {kind} takes one"
            ))),
            _ => Ok(CallChains::Auto),
        },
        None => Ok(CallChains::By(None)),
    }
}

/// Pages, or bytes with a suffix; a second number, for AUX areas, is of no use here.
pub(super) fn pages(text: &str) -> Result<usize, Failure> {
    let first = text.split(',').next().unwrap_or_default();
    let pages = match first.parse::<u64>() {
        Ok(pages) => Some(pages),
        Err(_) => units::size(first).map(|bytes| bytes.div_ceil(page_size() as u64)),
    };
    let pages =
        pages.filter(|pages| (1..1 << 24).contains(pages)).and_then(|pages| usize::try_from(pages).ok());
    pages.ok_or_else(|| Failure::usage(format_args!("-m wants pages, or bytes such as 4M, not '{text}'")))
}

pub(super) fn size(text: &str) -> Result<u64, Failure> {
    let wrong = || Failure::usage(format_args!("--max-size wants bytes such as 100M, not '{text}'"));
    units::size(text).ok_or_else(wrong)
}

pub(super) fn switch(text: &str) -> Result<Switch, Failure> {
    let wrong = || {
        Failure::usage(format_args!(
            "--switch-output wants signal, a size such as 100M or a time such as 30s, not '{text}'"
        ))
    };
    match text {
        "signal" => Ok(Switch::Signal),
        text => (units::time(text).map(Switch::Every))
            .or_else(|| units::size(text).map(Switch::Size))
            .ok_or_else(wrong),
    }
}

/// The numbers of `clock_gettime(2)`; `None` is the kernel's own.
pub(super) fn clock(text: &str) -> Result<Option<i32>, Failure> {
    let name = text.to_ascii_lowercase();
    Ok(Some(match name.strip_prefix("clock_").unwrap_or(&name) {
        "realtime" | "real" | "r" => 0,
        "monotonic" | "mono" | "m" => 1,
        "monotonic_raw" | "raw" => 4,
        "boottime" | "boot" => 7,
        "tai" => 11,
        "perf" | "kernel" => return Ok(None),
        number => number
            .parse()
            .map_err(|_| Failure::usage(format_args!("-k wants a clock such as monotonic, not '{text}'")))?,
    }))
}

pub(super) fn branches(args: &Args) -> Result<BranchSampleType, Failure> {
    let mut all = BranchSampleType::empty();
    if args.branch_any {
        all |= BranchSampleType::ANY;
    }
    if let Some(list) = &args.branch_filter {
        all |= perfuse_record::branch_kinds(list)?;
    }
    Ok(all)
}
