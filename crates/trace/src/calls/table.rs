//! The table of system calls, and sets of them as people write them.

use perfuse_abi::regs::Arch;
use perfuse_events::{glob, is_pattern, nearest};
use regex_lite::Regex;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::OnceLock;

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// Its arguments; nothing of calls whose arguments nobody tells.
    pub arguments: Option<Vec<Argument>>,
}

/// `AT_EMPTY_PATH` (`openat(2)` and its kin).
const EMPTY_PATH: u64 = 0x1000;

impl Spec {
    /// Whether a call with these arguments may be given an empty path, which then stands for the descriptor alone.
    pub fn may_have_empty_path(&self, arguments: &[u64; 6]) -> bool {
        let flags = |(argument, value): (&Argument, &u64)| argument.kind == "at" && value & EMPTY_PATH != 0;
        self.arguments.iter().flatten().zip(arguments).any(flags)
    }
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name, as the kernel has it.
    pub name: &'static str,
    /// The word for how it is shown.
    pub(crate) kind: &'static str,
}

impl Argument {
    /// Whether it is the address of a text that the call reads, or of a socket's address.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, "path" | "str" | "sockaddr")
    }

    /// Its type in C, as the kernel tells it; where that is the name of a type of its own, an int or a pointer.
    pub fn c_type(&self) -> &'static str {
        match self.kind {
            "path" | "str" => "const char *",
            "ptr" | "sockaddr" | "peer" => "void *",
            "size" => "size_t",
            "hex" => "unsigned long",
            "long" => "long",
            "fd" | "uint" => "unsigned int",
            "mode" => "umode_t",
            _ => "int",
        }
    }

    /// Whether it is where the call writes a socket's address; the next argument is where it writes how long that is.
    pub fn is_peer(&self) -> bool {
        self.kind == "peer"
    }

    /// Whether it is the address of a socket's address, whose length is the next argument.
    pub fn is_socket_address(&self) -> bool {
        self.kind == "sockaddr"
    }
}

/// The system calls of an architecture.
#[derive(Debug)]
pub struct Calls {
    by_number: HashMap<u64, Spec>,
    by_name: HashMap<&'static str, u64>,
}

impl Calls {
    /// Those of an architecture.
    pub fn of(arch: Arch) -> &'static Calls {
        static X86_64: OnceLock<Calls> = OnceLock::new();
        static ARM64: OnceLock<Calls> = OnceLock::new();
        match arch {
            Arch::X86_64 => X86_64.get_or_init(|| Calls::read(0)),
            // Its numbers are those of all newer architectures.
            _ => ARM64.get_or_init(|| Calls::read(1)),
        }
    }

    fn read(column: usize) -> Self {
        let mut calls = Calls { by_number: HashMap::new(), by_name: HashMap::new() };
        for line in include_str!("table.txt").lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&'static str> = line.split(' ').collect();
            let (Some(Ok(number)), Some(&name)) = (words.get(column).map(|word| word.parse()), words.get(2))
            else {
                continue;
            };
            let arguments = words[3..].iter().map(|word| {
                let (name, kind) = word.split_once(':')?;
                Some(Argument { name, kind })
            });
            calls.by_number.insert(number, Spec { name, arguments: arguments.collect() });
            calls.by_name.insert(name, number);
        }
        calls
    }

    /// A call by its number.
    pub fn get(&self, number: u64) -> Option<&Spec> {
        self.by_number.get(&number)
    }

    /// The number of a call.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).copied()
    }

    /// The name of a call; of an unknown one, its number.
    pub fn name(&self, number: u64) -> String {
        self.get(number).map_or_else(|| format!("syscall_{number}"), |spec| spec.name.to_owned())
    }

    /// The calls that are given texts, paths and names, or [give an address back](Self::with_peers).
    pub fn with_texts(&self) -> CallSet {
        self.with_argument(|argument| argument.is_text() || argument.is_peer())
    }

    /// The calls that give a socket's address back.
    pub fn with_peers(&self) -> CallSet {
        self.with_argument(Argument::is_peer)
    }

    fn with_argument(&self, is_it: impl Fn(&Argument) -> bool) -> CallSet {
        let has = |spec: &Spec| spec.arguments.iter().flatten().any(&is_it);
        CallSet::Only(
            self.by_number.iter().filter(|(_, spec)| has(spec)).map(|(number, _)| *number).collect(),
        )
    }

    /// All numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.by_number.keys().copied()
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.by_name.keys().copied()
    }
}

/// A group of calls, as strace names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    /// Its name, behind a `%`.
    pub name: &'static str,
    /// The calls; those that an argument decides are not among them.
    calls: &'static str,
    /// All calls that have an argument of these kinds.
    kinds: &'static [&'static str],
}

impl Group {
    /// All groups.
    const ALL: [Group; 11] = [
        Group { name: "file", calls: "getcwd", kinds: &["path"] },
        Group {
            name: "desc",
            calls: "pipe pipe2 poll ppoll select pselect6 epoll_create epoll_create1 eventfd eventfd2 memfd_create inotify_init inotify_init1 timerfd_create",
            kinds: &["fd", "dirfd"],
        },
        Group {
            name: "process",
            calls: "clone clone3 fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal",
            kinds: &[],
        },
        Group { name: "network", calls: NETWORK, kinds: &[] },
        Group { name: "net", calls: NETWORK, kinds: &[] },
        Group {
            name: "signal",
            calls: "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend sigaltstack signalfd signalfd4 kill tkill tgkill pidfd_send_signal pause",
            kinds: &[],
        },
        Group {
            name: "ipc",
            calls: "semget semop semctl semtimedop shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl",
            kinds: &[],
        },
        Group {
            name: "memory",
            calls: "brk mmap munmap mprotect pkey_mprotect mremap madvise process_madvise mincore msync mlock mlock2 mlockall munlock munlockall mbind move_pages migrate_pages set_mempolicy get_mempolicy set_mempolicy_home_node remap_file_pages shmat shmdt memfd_create mseal",
            kinds: &[],
        },
        Group {
            name: "creds",
            calls: "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid setgroups setfsuid setfsgid capget capset prctl",
            kinds: &[],
        },
        Group {
            name: "clock",
            calls: "clock_gettime clock_settime clock_getres clock_adjtime gettimeofday settimeofday adjtimex time",
            kinds: &[],
        },
        Group { name: "stat", calls: "stat lstat fstat newfstatat statx", kinds: &[] },
    ];

    fn has(&self, spec: &Spec) -> bool {
        let of_kind = |argument: &Argument| self.kinds.contains(&argument.kind);
        self.calls.split(' ').any(|name| name == spec.name) || spec.arguments.iter().flatten().any(of_kind)
    }
}

const NETWORK: &str = "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendfile \
                       sendmmsg sendmsg sendto setsockopt shutdown socket socketpair";

/// Some system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallSet {
    /// All.
    All,
    /// These, by their numbers.
    Only(BTreeSet<u64>),
    /// All but these.
    Not(BTreeSet<u64>),
}

/// A word that is no call, no group of them and no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCall {
    /// The word.
    pub word: String,
    /// Names like it.
    pub nearest: Vec<String>,
}

impl fmt::Display for UnknownCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no system call '{}'", self.word)?;
        match self.nearest.len() {
            0 => f.write_str("; groups are %file, %desc, %process, %network, %signal, %ipc, %memory"),
            _ => write!(f, "; did you mean {}?", self.nearest.join(" or ")),
        }
    }
}

impl std::error::Error for UnknownCall {}

impl CallSet {
    /// A list as strace and perf trace take it: names, patterns such as `epoll*`, `%GROUP` or `GROUP`, `/REGEX`, `all`, `none`; with `!`
    /// in front, all but these.
    ///
    /// # Errors
    ///
    /// The first word that is nothing of these.
    pub fn parse(list: &str, calls: &Calls) -> Result<CallSet, UnknownCall> {
        let (is_turned, list) = list.strip_prefix('!').map_or((false, list), |rest| (true, rest));
        let mut numbers = BTreeSet::new();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            // strace's: no fault where the architecture has no such call.
            let (may_lack, word) = word.strip_prefix('?').map_or((false, word), |rest| (true, rest));
            match word {
                "all" => return Ok(if is_turned { CallSet::Only(BTreeSet::new()) } else { CallSet::All }),
                "none" => continue,
                _ => {}
            }
            let before = numbers.len();
            if let Some(number) = calls.number(word) {
                numbers.insert(number);
            } else if let Some(Ok(regex)) = word.strip_prefix('/').map(Regex::new) {
                let fits = calls.by_name.iter().filter(|(name, _)| regex.is_match(name));
                numbers.extend(fits.map(|(_, number)| *number));
            } else if let Some(group) =
                Group::ALL.iter().find(|group| group.name == word.trim_start_matches('%'))
            {
                let of_group = calls.by_number.iter().filter(|(_, spec)| group.has(spec));
                numbers.extend(of_group.map(|(number, _)| *number));
            } else if is_pattern(word) {
                let fits = calls.by_name.iter().filter(|(name, _)| glob(word, name));
                numbers.extend(fits.map(|(_, number)| *number));
            }
            if numbers.len() == before && !may_lack && calls.number(word).is_none() && !Self::is_known(word) {
                let groups = Group::ALL.iter().map(|group| group.name);
                let nearest = nearest(word.trim_start_matches('%'), calls.names().chain(groups));
                return Err(UnknownCall { word: word.to_owned(), nearest });
            }
        }
        Ok(if is_turned { CallSet::Not(numbers) } else { CallSet::Only(numbers) })
    }

    fn is_known(word: &str) -> bool {
        Group::ALL.iter().any(|group| group.name == word.trim_start_matches('%'))
    }

    /// With another list behind it: what that adds, or takes away if it begins with `!`.
    #[must_use]
    pub fn and(self, other: CallSet) -> CallSet {
        match (self, other) {
            (CallSet::All, other) => other,
            (set, CallSet::All) => set,
            (CallSet::Only(one), CallSet::Only(other)) => CallSet::Only(&one | &other),
            (CallSet::Not(one), CallSet::Not(other)) => CallSet::Not(&one | &other),
            (CallSet::Only(only), CallSet::Not(not)) | (CallSet::Not(not), CallSet::Only(only)) => {
                CallSet::Only(&only - &not)
            }
        }
    }

    /// The calls that are in both sets.
    #[must_use]
    pub fn within(&self, other: &CallSet) -> CallSet {
        match (self, other) {
            (CallSet::All, set) | (set, CallSet::All) => set.clone(),
            (CallSet::Only(numbers), set) | (set, CallSet::Only(numbers)) => {
                CallSet::Only(numbers.iter().copied().filter(|&number| set.has(number)).collect())
            }
            (CallSet::Not(one), CallSet::Not(other)) => CallSet::Not(one | other),
        }
    }

    /// The calls that are in either set.
    #[must_use]
    pub fn or(&self, other: &CallSet) -> CallSet {
        self.others().within(&other.others()).others()
    }

    /// Whether there is none in it.
    pub fn is_empty(&self) -> bool {
        matches!(self, CallSet::Only(numbers) if numbers.is_empty())
    }

    /// All calls that are not among them.
    #[must_use]
    pub fn others(&self) -> CallSet {
        match self {
            CallSet::All => CallSet::Only(BTreeSet::new()),
            CallSet::Only(numbers) => CallSet::Not(numbers.clone()),
            CallSet::Not(numbers) => CallSet::Only(numbers.clone()),
        }
    }

    /// Whether a call is among them.
    pub fn has(&self, number: u64) -> bool {
        match self {
            CallSet::All => true,
            CallSet::Only(numbers) => numbers.contains(&number),
            CallSet::Not(numbers) => !numbers.contains(&number),
        }
    }

    /// The same as a filter of `raw_syscalls:sys_enter`; nothing for all.
    pub fn filter(&self) -> Option<String> {
        let list = |numbers: &BTreeSet<u64>, sign: &str, between: &str| {
            numbers.iter().map(|number| format!("id {sign} {number}")).collect::<Vec<_>>().join(between)
        };
        match self {
            CallSet::All => None,
            CallSet::Not(numbers) if numbers.is_empty() => None,
            CallSet::Only(numbers) if numbers.is_empty() => Some("id < -1".to_owned()),
            CallSet::Only(numbers) => Some(list(numbers, "==", " || ")),
            CallSet::Not(numbers) => Some(list(numbers, "!=", " && ")),
        }
    }

    /// The same for `raw_syscalls:sys_exit`, where the return from a signal's handler has no number: it has brought back the registers
    /// of before.
    pub fn filter_of_exits(&self, calls: &Calls) -> Option<String> {
        let returns = calls.number("rt_sigreturn").is_some_and(|number| self.has(number));
        let filter = self.filter()?;
        Some(match self {
            CallSet::Only(_) if returns => format!("{filter} || id == -1"),
            CallSet::Not(_) if !returns => format!("{filter} && id != -1"),
            _ => filter,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_path_is_asked_for_by_a_flag() {
        let calls = Calls::of(Arch::X86_64);
        let may = |name: &str, arguments| {
            let number = calls.number(name).expect("it is in the table");
            calls.get(number).expect("it has a row").may_have_empty_path(&arguments)
        };
        assert!(may("newfstatat", [3, 0x1234, 0, 0x1000, 0, 0]));
        assert!(!may("newfstatat", [3, 0x1234, 0x1000, 0x100, 0x1000, 0]));
        assert!(!may("openat", [3, 0x1234, 0x1000, 0x1000, 0x1000, 0x1000]));
    }

    #[test]
    fn numbers_are_those_of_the_architecture() {
        let [x86, arm] = [Arch::X86_64, Arch::Arm64].map(Calls::of);
        for (name, on_x86, on_arm) in [
            ("read", Some(0), Some(63)),
            ("openat", Some(257), Some(56)),
            ("open", Some(2), None),
            ("clone3", Some(435), Some(435)),
            ("mseal", Some(462), Some(462)),
            ("exit_group", Some(231), Some(94)),
            ("newfstatat", Some(262), Some(79)),
            ("renameat", Some(264), Some(38)),
        ] {
            assert_eq!((x86.number(name), arm.number(name)), (on_x86, on_arm), "{name}");
        }
        assert_eq!(x86.name(257), "openat");
        assert_eq!(x86.name(9999), "syscall_9999");
        assert!(x86.by_number.len() > 360 && arm.by_number.len() > 300);
        // Each kind is one that is decoded.
        let kinds = x86.by_number.values().flat_map(|spec| spec.arguments.iter().flatten());
        kinds.for_each(|argument| assert!(super::super::decode::knows(argument.kind), "{argument:?}"));
    }

    #[test]
    fn lists_are_straces_and_perfs() {
        let calls = Calls::of(Arch::X86_64);
        let set = |list: &str| CallSet::parse(list, calls).unwrap();
        let names = |list: &str| match set(list) {
            CallSet::Only(numbers) => numbers.iter().map(|&number| calls.name(number)).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(names("close,read"), ["read", "close"]);
        assert_eq!(names("/^epoll_c"), ["epoll_create", "epoll_ctl_old", "epoll_ctl", "epoll_create1"]);
        assert_eq!(names("epoll_c*"), names("/^epoll_c"));
        assert_eq!(set("read").or(&set("close")), set("read,close"));
        assert_eq!(
            (set("!read").or(&set("read")).filter(), set("!read").or(&set("close"))),
            (None, set("!read"))
        );
        for (group, has, has_not) in [
            ("%file", "openat", "read"),
            ("file", "execve", "close"),
            ("%desc", "read", "brk"),
            ("%network", "connect", "read"),
            ("process", "wait4", "read"),
        ] {
            let names = names(group);
            let is_in = |name: &str| names.iter().any(|known| known == name);
            assert!(is_in(has) && !is_in(has_not), "{group}: {names:?}");
        }
        assert!(set("!futex").has(0) && !set("!futex").has(202));
        assert_eq!(set("!futex").filter().as_deref(), Some("id != 202"));
        assert_eq!(set("read,close").filter().as_deref(), Some("id == 0 || id == 3"));
        assert_eq!(set("all").filter(), None);
        let of_exits = |list| set(list).filter_of_exits(Calls::of(Arch::X86_64));
        assert_eq!(of_exits("rt_sigreturn").as_deref(), Some("id == 15 || id == -1"));
        assert_eq!(of_exits("!rt_sigreturn").as_deref(), Some("id != 15 && id != -1"));
        assert_eq!(of_exits("!futex").as_deref(), Some("id != 202"));
        assert!(set("%file").and(set("!openat")).has(2) && !set("%file").and(set("!openat")).has(257));
        assert_eq!(set("?nosuch,read"), set("read"));
        // Each call is in one of the two parts of a set.
        let (texts, all) = (calls.with_texts(), set("openat,close"));
        assert_eq!((all.within(&texts), all.within(&texts.others())), (set("openat"), set("close")));
        assert_eq!(set("!openat").within(&texts.others()), texts.others().and(set("!openat")));
        assert_eq!(set("!close").within(&texts), texts);
        assert_eq!(set("all").within(&texts), texts);
        let unknown = CallSet::parse("opennat", calls).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no system call 'opennat'; did you mean openat or openat2?");
    }
}
