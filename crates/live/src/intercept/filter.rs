//! The seccomp filters that bring the calls of a tool to the supervisor.
//!
//! There are four. The first is put on the tool before its exec and thus on all that it starts: it knows
//! `perf_event_open(2)`, `bpf(2)` and the rare calls by which one process begins to trace another, so a measured program pays for
//! it as good as nothing. The second is put on a
//! process when it opens its first event: it knows the calls about descriptors of events, which have
//! high numbers, and those about memory where rings are mapped, or code. The last one is for processes with objects of `bpf(2)`, and
//! knows calls that read symbolic links.
//!
//! A filter that was there before may refuse a call with an errno, as Docker's does with
//! `perf_event_open`. That beats a filter that wants it traced; only `SECCOMP_RET_TRAP` beats that.

//!
//! 32-bit programs have other numbers for their calls. Each filter has a part for either
//! [width](crate::width); the answers tell which one it was.

use crate::width::{REFUSED, Width};
use std::ops::Range;

/// The low 16 bits of an answer, by which the supervisor knows calls that its own filters stopped.
fn mark(width: Width) -> u16 {
    match width {
        Width::Native => 0x7065,
        Width::Narrow => 0x7066,
    }
}

/// How a call was made that came with this mark; `None`: our filters have none such.
pub(crate) fn width_of(mark_: u64) -> Option<Width> {
    Width::ALL.into_iter().find(|&width| u64::from(mark(width)) == mark_)
}

/// How `perf_event_open` is brought to the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// By a ptrace event.
    Trace,
    /// By a SIGSYS, which also gets past a filter that refuses the call.
    Trap,
}

impl Means {
    fn answer(self, width: Width) -> u32 {
        let action = match self {
            Means::Trace => libc::SECCOMP_RET_TRACE,
            Means::Trap => libc::SECCOMP_RET_TRAP,
        };
        action | u32::from(mark(width))
    }
}

/// Addresses where rings are put: 2^32 bytes, so that one comparison finds them. Programs and libraries lie
/// elsewhere, on both architectures. (Those of 32-bit callers are put where there is room.)
pub(crate) const RINGS: Range<u64> = RINGS_HIGH << 32..(RINGS_HIGH + 1) << 32;
const RINGS_HIGH: u64 = 0x6b00;

/// Places in `struct seccomp_data`.
const CALL: u32 = 0;
const ARCH_AT: u32 = 4;
const fn low(argument: u32) -> u32 {
    16 + 8 * argument
}
const fn high(argument: u32) -> u32 {
    low(argument) + 4
}

/// Calls that sleep until descriptors are ready.
#[cfg(target_arch = "x86_64")]
pub(crate) const WAITS: &[libc::c_long] = &[
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
];
#[cfg(target_arch = "aarch64")]
pub(crate) const WAITS: &[libc::c_long] =
    &[libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];

/// Calls that are answered without anything being done to the thread that calls, so that it may
/// [wait](super::listener) for the answer: of these, and [`WAITS`].
const ANSWERED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_ioctl,
    libc::SYS_prctl,
];

pub(crate) fn can_wait(call: libc::c_long) -> bool {
    ANSWERED.contains(&call) || WAITS.contains(&call)
}

/// Calls whose first argument is a descriptor.
const OF_DESCRIPTORS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_ioctl,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_readv,
    libc::SYS_preadv2,
    libc::SYS_writev,
    libc::SYS_dup,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
];

/// Calls that read a symbolic link.
#[cfg(target_arch = "x86_64")]
const OF_LINKS: &[libc::c_long] = &[libc::SYS_readlink, libc::SYS_readlinkat];
#[cfg(target_arch = "aarch64")]
const OF_LINKS: &[libc::c_long] = &[libc::SYS_readlinkat];

/// Calls that open a file by its path.
#[cfg(target_arch = "x86_64")]
const OF_PATHS: &[libc::c_long] = &[libc::SYS_open, libc::SYS_openat];
#[cfg(target_arch = "aarch64")]
const OF_PATHS: &[libc::c_long] = &[libc::SYS_openat];

/// Calls about memory that is there, whose first argument is its address.
const OF_MEMORY: &[libc::c_long] = &[
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_remap_file_pages,
];

#[cfg(target_arch = "x86_64")]
const REPLACING: &[libc::c_long] = &[libc::SYS_dup2, libc::SYS_dup3];
#[cfg(target_arch = "aarch64")]
const REPLACING: &[libc::c_long] = &[libc::SYS_dup3];

/// A program for `SECCOMP_MODE_FILTER`.
pub(crate) type Program = Vec<libc::sock_filter>;

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn load(at: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at)
}

fn answer(value: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, value)
}

/// Goes on `yes` or `no` instructions further.
fn branch(comparison: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    let code = (libc::BPF_JMP | comparison | libc::BPF_K) as u16;
    libc::sock_filter { code, jt: yes, jf: no, k }
}

const PASS: u32 = libc::SECCOMP_RET_ALLOW;
/// `SECCOMP_RET_USER_NOTIF`.
const WAIT: u32 = 0x7fc0_0000;

/// A filter with a part for calls of each architecture, in which the call's number is loaded; what a part lets
/// through passes, and so do calls of architectures without one.
fn by_architecture(parts: impl IntoIterator<Item = (u32, Program)>) -> Program {
    let mut program = Vec::new();
    for (architecture, part) in parts {
        let jump = statement(libc::BPF_JMP | libc::BPF_JA, part.len() as u32 + 2);
        program.extend([load(ARCH_AT), branch(libc::BPF_JEQ, architecture, 1, 0), jump, load(CALL)]);
        program.extend(part);
        program.push(answer(PASS));
    }
    program.push(answer(PASS));
    program
}

/// A filter with a part for either width.
fn by_width(part: impl Fn(Width, &mut Program)) -> Program {
    by_architecture(Width::ALL.map(|width| {
        let mut program = Vec::new();
        part(width, &mut program);
        (width.architecture(), program)
    }))
}

/// Adds the comparisons for one call; the answer is whether the last comparison of `test` holds, each
/// jumping to the next instruction or to `PASS`, the one at the end. `waiting`: it waits for its answer, if
/// [it can](can_wait).
fn about(program: &mut Program, width: Width, call: libc::c_long, waiting: bool, test: &[libc::sock_filter]) {
    let skip = test.len() as u8 + 2;
    let action = if waiting && can_wait(call) { WAIT } else { libc::SECCOMP_RET_TRACE };
    for number in width.numbers_of(call) {
        program.push(branch(libc::BPF_JEQ, number, 0, skip));
        program.extend_from_slice(test);
        program.extend([answer(action | u32::from(mark(width))), answer(PASS)]);
    }
}

/// Requests of `ptrace(2)` by which tracing begins and ends.
pub(crate) const TRACEME: u32 = 0;
pub(crate) const ATTACH: u32 = 16;
pub(crate) const DETACH: u32 = 17;
pub(crate) const SEIZE: u32 = 0x4206;

/// The filter for all processes: opens of events, `bpf(2)`, requests to trace and to leave, and clones with `CLONE_UNTRACED`.
/// Callers that cannot be served are told that there is no such call, even where the kernel would answer otherwise.
pub(crate) fn for_all(means: Means) -> Program {
    const NO_SUCH_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    by_width(|width, program| {
        let answered = [libc::SYS_perf_event_open, libc::SYS_bpf].into_iter();
        let answered =
            answered.flat_map(|call| width.numbers_of(call).map(|number| (number, means.answer(width))));
        let refused = (REFUSED.0 == width.architecture()).then_some((REFUSED.1, NO_SUCH_CALL));
        for (number, said) in answered.chain(refused) {
            program.extend([branch(libc::BPF_JEQ, number, 0, 1), answer(said)]);
        }
        let request = |which, yes| branch(libc::BPF_JEQ, which, yes, 0);
        let last = branch(libc::BPF_JEQ, SEIZE, 0, 1);
        let begins_or_ends =
            [load(low(0)), request(TRACEME, 3), request(ATTACH, 2), request(DETACH, 1), last];
        about(program, width, libc::SYS_ptrace, false, &begins_or_ends);
        let untraced = libc::CLONE_UNTRACED as u32;
        let untraced = [
            load(low(0)),
            statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, untraced),
            branch(libc::BPF_JEQ, untraced, 0, 1),
        ];
        about(program, width, libc::SYS_clone, false, &untraced);
    })
}

/// The filter for a process that has events, whose descriptors are numbers from `first` to `last`.
pub(crate) fn for_owners(first: u32, last: u32, waiting: bool) -> Program {
    by_width(|width, program| owners_part(width, program, first, last, waiting))
}

fn owners_part(width: Width, program: &mut Program, first: u32, last: u32, waiting: bool) {
    let mut about = |call, test: &[libc::sock_filter]| about(program, width, call, waiting, test);
    // Whether argument `n` is such a number: jumps to the second or the third instruction after these three.
    let number = |n| [load(low(n)), branch(libc::BPF_JGE, first, 0, 2), branch(libc::BPF_JGT, last, 1, 0)];
    for &call in OF_DESCRIPTORS {
        about(call, &number(0));
    }
    // Rings, and code, which is told of.
    let [load_fd, from, to] = number(4);
    let code = [
        load_fd,
        libc::sock_filter { jf: 1, ..from },
        libc::sock_filter { jt: 0, jf: 3, ..to },
        load(low(2)),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, libc::PROT_EXEC as u32),
        branch(libc::BPF_JEQ, libc::PROT_EXEC as u32, 0, 1),
    ];
    about(libc::SYS_mmap, &code);
    about(libc::SYS_mprotect, &code[3..]);
    for &call in REPLACING {
        let [load_0, from_0, to_0] = number(0);
        let [load_1, from_1, to_1] = number(1);
        // The first number is: the answer is four instructions on. Else the second one is looked at.
        let from_0 = libc::sock_filter { jf: 1, ..from_0 };
        let to_0 = libc::sock_filter { jt: 0, jf: 3, ..to_0 };
        about(call, &[load_0, from_0, to_0, load_1, from_1, to_1]);
    }
    // Up to the highest number that is closed.
    about(libc::SYS_close_range, &[load(low(1)), branch(libc::BPF_JGE, first, 0, 1)]);
    about(
        libc::SYS_prctl,
        &[
            load(low(0)),
            branch(libc::BPF_JEQ, libc::PR_TASK_PERF_EVENTS_DISABLE as u32, 1, 0),
            branch(libc::BPF_JEQ, libc::PR_TASK_PERF_EVENTS_ENABLE as u32, 0, 1),
        ],
    );
    for &call in WAITS {
        about(call, &[]);
    }
}

/// The filter for a process that uses `bpf(2)`: calls that may ask what a descriptor of one of its objects is. `opens`: those, too,
/// that open files.
pub(crate) fn for_links(opens: bool) -> Program {
    by_width(|width, program| {
        for &call in OF_LINKS.iter().chain(OF_PATHS.iter().filter(|_| opens)) {
            about(program, width, call, false, &[]);
        }
    })
}

/// The filter for a process that has mapped a ring: calls that change memory near it. `high`: the upper half
/// of its address. Narrow calls know no addresses but those where it is zero, in spite of the registers.
pub(crate) fn for_memory(high_half: u32) -> Program {
    by_width(|width, program| match width {
        Width::Narrow if high_half != 0 => {}
        width => memory_part(width, program, high_half),
    })
}

fn memory_part(width: Width, program: &mut Program, high_half: u32) {
    let upper = match width {
        Width::Native => load(high(0)),
        Width::Narrow => statement(libc::BPF_LD | libc::BPF_W | libc::BPF_IMM, high_half),
    };
    let near = |yes, no| [upper, branch(libc::BPF_JEQ, high_half, yes, no)];
    for &call in OF_MEMORY {
        about(program, width, call, false, &near(0, 1));
    }
    // A mapping exactly there replaces the old one.
    let exactly = libc::MAP_FIXED as u32;
    let [at, same] = near(0, 4);
    let flags = [
        load(low(3)),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, exactly),
        branch(libc::BPF_JEQ, exactly, 0, 1),
    ];
    about(program, width, libc::SYS_mmap, false, &[&[at, same][..], &flags].concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct seccomp_data`.
    #[derive(Clone, Copy, Debug)]
    struct Data {
        call: u32,
        arch: u32,
        arguments: [u64; 6],
    }

    impl Data {
        fn new(width: Width, call: u32, arguments: [u64; 6]) -> Self {
            Data { call, arch: width.architecture(), arguments }
        }

        /// As this program calls it, with the arguments that the kernel will see.
        fn meant(&self) -> Option<(libc::c_long, [u64; 6])> {
            let width = Width::of_architecture(self.arch)?;
            Some((width.call(self.call.into())?, self.arguments.map(|argument| width.argument(argument))))
        }

        fn word(&self, at: u32) -> u32 {
            match at {
                CALL => self.call,
                ARCH_AT => self.arch,
                8 | 12 => 0xdead_beef,
                at => {
                    let argument = self.arguments[(at as usize - 16) / 8];
                    if at % 8 == 0 { argument as u32 } else { (argument >> 32) as u32 }
                }
            }
        }
    }

    /// Runs a program as the kernel would, for the instructions that are used here.
    fn run(program: &[libc::sock_filter], data: &Data) -> u32 {
        const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
        const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
        const SET: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_IMM;
        const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
        let (mut at, mut register) = (0, 0u32);
        loop {
            let step = program[at];
            at += 1;
            let holds = match u32::from(step.code) & 0xf0 {
                libc::BPF_JEQ => register == step.k,
                libc::BPF_JGE => register >= step.k,
                _ => register > step.k,
            };
            match u32::from(step.code) {
                LOAD => register = data.word(step.k),
                AND => register &= step.k,
                SET => register = step.k,
                JUMP => at += step.k as usize,
                RETURN => return step.k,
                code => {
                    assert_eq!(code & 0x7, libc::BPF_JMP, "an instruction that is not used here");
                    at += usize::from(if holds { step.jt } else { step.jf });
                }
            }
        }
    }

    const FIRST: u32 = 768;
    const LAST: u32 = i32::MAX as u32;

    /// The second filter, in words of Rust.
    fn is_ours(data: &Data) -> bool {
        let Some((call, arguments)) = data.meant() else { return false };
        let number = |n: usize| (FIRST..=LAST).contains(&(arguments[n] as u32));
        if OF_DESCRIPTORS.contains(&call) {
            number(0)
        } else if REPLACING.contains(&call) {
            number(0) || number(1)
        } else if WAITS.contains(&call) {
            true
        } else {
            match call {
                libc::SYS_mmap => number(4) || arguments[2] & 4 != 0,
                libc::SYS_mprotect => arguments[2] & 4 != 0,
                libc::SYS_close_range => arguments[1] as u32 >= FIRST,
                libc::SYS_prctl => matches!(arguments[0] as u32, 31 | 32),
                _ => false,
            }
        }
    }

    /// The third filter.
    fn is_near(data: &Data, rings: &Range<u64>) -> bool {
        let Some((call, arguments)) = data.meant() else { return false };
        let near = rings.contains(&arguments[0]);
        match call {
            call if OF_MEMORY.contains(&call) => near,
            libc::SYS_mmap => near && arguments[3] & libc::MAP_FIXED as u64 != 0,
            _ => false,
        }
    }

    fn is_near_rings(data: &Data) -> bool {
        is_near(data, &RINGS)
    }

    fn is_near_low_rings(data: &Data) -> bool {
        is_near(data, &(0..1 << 32))
    }

    fn numbers() -> impl Iterator<Item = u32> {
        0..512
    }

    #[test]
    fn the_first_filter_stops_opens_and_beginnings_of_tracing() {
        const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;
        let firsts = [0, 1, 7, 15, 16, 17, 18, 0x4205, 0x4206, 0x4207, UNTRACED, UNTRACED | 0x11, u64::MAX];
        for means in [Means::Trace, Means::Trap] {
            let program = for_all(means);
            for (width, call) in
                Width::ALL.into_iter().flat_map(|width| numbers().map(move |call| (width, call)))
            {
                for first in firsts {
                    let data = Data::new(width, call, [first, 0, 0, 0, 0, 0]);
                    let traced = libc::SECCOMP_RET_TRACE | u32::from(mark(width));
                    let answer = match data.meant() {
                        _ if (data.arch, call) == REFUSED => libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
                        Some((libc::SYS_perf_event_open | libc::SYS_bpf, _)) => means.answer(width),
                        Some((libc::SYS_ptrace, _)) if [0, 16, 17, 0x4206].contains(&first) => traced,
                        Some((libc::SYS_clone, _)) if first & UNTRACED != 0 => traced,
                        _ => PASS,
                    };
                    assert_eq!(run(&program, &data), answer, "{data:?}");
                    assert!(answer == PASS || width_of(answer.into()).is_none());
                }
            }
            let refused = Data { call: REFUSED.1, arch: REFUSED.0, arguments: [0; 6] };
            assert_eq!(run(&program, &refused), libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
        }
        assert_eq!(Width::ALL.map(|width| width_of(mark(width).into())), Width::ALL.map(Some));
        assert_eq!(width_of(0x7064), None);
    }

    /// Arguments of interest: around descriptors, commands, options, addresses.
    const VALUES: [u64; 24] = [
        0,
        1,
        3,
        31,
        32,
        33,
        FIRST as u64 - 1,
        FIRST as u64,
        FIRST as u64 + 1,
        0x2400,
        0x2405,
        0x5401,
        0x8008_2407,
        0x4004_2304,
        i32::MAX as u64,
        i32::MAX as u64 + 1,
        u32::MAX as u64,
        u64::MAX,
        1 << 32,
        (1 << 32) + FIRST as u64,
        RINGS.start - 1,
        RINGS.start,
        RINGS.end - 4096,
        RINGS.end,
    ];

    #[test]
    fn the_other_filters_stop_what_they_are_for_and_nothing_else() {
        stops_exactly(&for_owners(FIRST, LAST, false), is_ours);
        stops_exactly(&for_owners(FIRST, LAST, true), is_ours);
        stops_exactly(&for_memory((RINGS.start >> 32) as u32), is_near_rings);
        stops_exactly(&for_memory(0), is_near_low_rings);
    }

    fn stops_exactly(program: &Program, wanted: fn(&Data) -> bool) {
        let mut stopped = 0;
        for (width, call) in Width::ALL.into_iter().flat_map(|width| numbers().map(move |call| (width, call)))
        {
            for place in 0..6 {
                for value in VALUES {
                    for other in [5, FIRST as u64 + 7, RINGS.start + 0x17, u64::MAX] {
                        let mut arguments = [other; 6];
                        arguments[place] = value;
                        let data = Data::new(width, call, arguments);
                        let answer = run(program, &data);
                        let waits = answer == WAIT | u32::from(mark(width));
                        let stops = waits || answer == libc::SECCOMP_RET_TRACE | u32::from(mark(width));
                        assert_eq!(stops, wanted(&data), "{data:x?}");
                        assert!(stops || answer == PASS, "{data:x?}");
                        assert!(!waits || data.meant().is_some_and(|(call, _)| can_wait(call)), "{data:x?}");
                        stopped += u32::from(stops);
                    }
                }
            }
        }
        assert!(stopped > 10, "{stopped}");
    }

    #[test]
    fn calls_of_other_architectures_pass() {
        let programs =
            [for_all(Means::Trap), for_all(Means::Trace), for_owners(FIRST, LAST, true), for_memory(0x7f00)];
        for call in numbers().chain(numbers().map(|call| call | 0x4000_0000)) {
            for program in &programs {
                // m68k, and x32, whose calls have a bit of their own.
                for arch in [0x4, Width::Native.architecture()] {
                    let data = Data { call, arch, arguments: [FIRST.into(); 6] };
                    let x32 = call >= 0x4000_0000;
                    if (arch == 4 || x32) && (arch, call) != REFUSED {
                        assert_eq!(run(program, &data), PASS, "{data:x?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_kernel_takes_them() {
        for program in
            [for_all(Means::Trap), for_all(Means::Trace), for_owners(FIRST, LAST, true), for_memory(0)]
        {
            assert!(program.len() < 4000 / 8, "{}", program.len());
            // Every jump stays inside, and the last instruction is an answer.
            for (at, step) in program.iter().enumerate() {
                if u32::from(step.code) == libc::BPF_JMP | libc::BPF_JA {
                    assert!(at + 1 + (step.k as usize) < program.len());
                } else if u32::from(step.code) & 7 == libc::BPF_JMP {
                    assert!(at + 1 + usize::from(step.jt.max(step.jf)) < program.len());
                }
            }
            assert_eq!(program.last().map(|last| u32::from(last.code)), Some(libc::BPF_RET | libc::BPF_K));
        }
    }
}
