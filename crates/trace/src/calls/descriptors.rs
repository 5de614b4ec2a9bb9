//! Descriptors of processes, as their calls tell of them: paths of files that they opened, addresses of sockets, copies.
//!
//! Those that no call tells of (pipes, and such as were there before) are looked for when they are first wanted, which is a moment later
//! than the call; a descriptor that has been closed by then stays a number.

use super::join::Call;
use super::line::RETURNED;
use super::table::{CallSet, Calls};
use std::collections::HashMap;
use std::fmt;

/// `AT_FDCWD`.
const FOLDER: i32 = -100;

/// `O_CLOEXEC`, also as `SOCK_CLOEXEC` and `EFD_CLOEXEC`.
const CLOSES: u64 = 0x8_0000;

/// `F_DUPFD`, `F_SETFD`, `F_DUPFD_CLOEXEC`.
const DUP: u64 = 0;
const SET: u64 = 2;
const DUP_CLOSES: u64 = 1030;

/// `EINPROGRESS`.
const UNDER_WAY: u16 = 115;

/// So many processes and descriptors are known at most; then all are forgotten, and looked for again.
const MOST: usize = 1 << 16;

/// A thing of a process that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// A descriptor.
    Descriptor(i32),
    /// The folder that it works in.
    Folder,
}

/// Tells what a process has, now.
pub type Look = Box<dyn Fn(u32, Looked) -> Option<String> + Send>;

/// Descriptors by process.
pub struct Descriptors {
    processes: HashMap<u32, Process>,
    /// The sizes of all.
    known: usize,
    look: Look,
}

impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptors").field("known", &self.known).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, Default)]
struct Process {
    /// Each with whether an exec closes it, as far as that is known.
    open: HashMap<i32, (String, Option<bool>)>,
    folder: Option<String>,
}

impl Process {
    /// Its part of what is known: the process itself, and its descriptors.
    fn size(&self) -> usize {
        1 + self.open.len()
    }
}

/// The calls that open and close, without which nothing is known of descriptors.
const CALLS: &str = "open openat openat2 creat close close_range dup dup2 dup3 fcntl chdir fchdir execve execveat socket connect bind \
                     accept accept4 epoll_create epoll_create1 eventfd eventfd2 signalfd signalfd4 timerfd_create inotify_init \
                     inotify_init1 memfd_create pidfd_open pidfd_getfd perf_event_open userfaultfd fanotify_init \
                     open_by_handle_at open_tree fsopen fsmount fspick io_uring_setup landlock_create_ruleset";

/// Those among them that return a descriptor.
fn returns(name: &str) -> bool {
    CALLS.split_whitespace().any(|known| known == name)
        && !["close", "close_range", "fcntl", "chdir", "fchdir", "execve", "execveat", "connect", "bind"]
            .contains(&name)
}

impl Descriptors {
    /// None yet; `look` tells what no call has told.
    pub fn new(look: Look) -> Self {
        Descriptors { processes: HashMap::new(), known: 0, look }
    }

    /// The calls that it has to be told of.
    pub fn calls(table: &Calls) -> CallSet {
        CallSet::Only(CALLS.split_whitespace().filter_map(|name| table.number(name)).collect())
    }

    /// A process has another one as its parent: it has the same descriptors.
    pub fn forked(&mut self, parent: u32, child: u32) {
        if let Some(process) = self.processes.get(&parent).filter(|_| parent != child).cloned() {
            self.ended(child);
            self.make_room(process.size());
            self.processes.insert(child, process);
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, pid: u32) {
        if let Some(process) = self.processes.remove(&pid) {
            self.known -= process.size();
        }
    }

    /// Adds to the texts of a call, by the places of its arguments, what its descriptors are, and that of the descriptor that it
    /// [returned](RETURNED); and learns from it.
    pub fn tell(&mut self, call: &Call, calls: &Calls, texts: &mut Vec<(usize, String)>) {
        let (Some(spec), Some(arguments)) = (calls.get(call.number), &call.arguments) else { return };
        let pid = call.at.pid;
        for (index, argument) in spec.arguments.iter().flatten().enumerate() {
            let path = match (argument.kind, arguments[index] as i32) {
                ("dirfd", FOLDER) => self.folder(pid),
                ("fd" | "dirfd", number) => self.get(pid, number),
                _ => None,
            };
            texts.extend(path.map(|path| (index, path)));
        }
        self.learn(call, spec.name, arguments, texts);
        let fresh = call.returned.filter(|number| *number >= 0 && call.error().is_none());
        let is_copy = spec.name == "fcntl" && [DUP, DUP_CLOSES].contains(&arguments[1]);
        if let Some(number) = fresh.filter(|_| returns(spec.name) || is_copy) {
            texts.extend(self.get(pid, number as i32).map(|path| (RETURNED, path)));
        }
    }

    fn learn(&mut self, call: &Call, name: &str, arguments: &[u64; 6], texts: &[(usize, String)]) {
        let text =
            |place: usize| texts.iter().find(|(known, _)| *known == place).map(|(_, text)| text.as_str());
        let (pid, first) = (call.at.pid, arguments[0] as i32);
        let (Some(returned), error) = (call.returned, call.error()) else { return };
        let made = i32::try_from(returned).ok().filter(|_| error.is_none());
        match (name, made) {
            // The descriptor is gone whatever it returned.
            ("close", _) => self.forget(pid, first..=first),
            ("connect" | "bind", _) if error.is_none() || name == "connect" && error == Some(UNDER_WAY) => {
                if let Some(address) = text(1) {
                    self.put(pid, first, format!("socket:{address}"), None);
                }
            }
            // Flags: CLOSE_RANGE_CLOEXEC, which leaves them open until an exec.
            ("close_range", Some(_)) if arguments[2] & 4 == 0 => {
                let last = i32::try_from(arguments[1] as u32).unwrap_or(i32::MAX);
                self.forget(pid, first..=last);
            }
            ("chdir", Some(_)) => {
                let path = text(0).map(str::to_owned).and_then(|path| self.whole(pid, None, &path));
                self.process(pid).folder = path;
            }
            ("fchdir", Some(_)) => {
                let path = self.get(pid, first);
                self.process(pid).folder = path;
            }
            ("execve" | "execveat", Some(_)) => self.keep(pid, |_, closes| closes == Some(false)),
            ("fcntl", Some(_)) if arguments[1] == SET => {
                let process = self.processes.get_mut(&pid);
                let known = process.and_then(|process| process.open.get_mut(&first));
                known.into_iter().for_each(|(_, closes)| *closes = Some(arguments[2] & 1 != 0));
            }
            ("fcntl", Some(number)) if [DUP, DUP_CLOSES].contains(&arguments[1]) => {
                self.copied(pid, first, number, arguments[1] == DUP_CLOSES);
            }
            ("dup" | "dup2", Some(number)) => self.copied(pid, first, number, false),
            ("dup3", Some(number)) => self.copied(pid, first, number, arguments[2] & CLOSES != 0),
            ("open" | "creat" | "openat" | "openat2", Some(number)) => {
                self.forget(pid, number..=number);
                let is_at = name.starts_with("openat");
                let flags = match name {
                    "open" => Some(arguments[1]),
                    "openat" => Some(arguments[2]),
                    "creat" => Some(0),
                    // They are in the memory of the process.
                    _ => None,
                };
                let path = text(usize::from(is_at)).map(str::to_owned);
                let base = if is_at { text(0).map(str::to_owned) } else { None };
                // A path that was cut is none.
                if let Some(path) = path.filter(|path| !path.ends_with("...")) {
                    let whole = self.whole(pid, base, &path).unwrap_or(path);
                    self.put(pid, number, whole, flags.map(|flags| flags & CLOSES != 0));
                }
            }
            (name, Some(number)) if returns(name) => {
                self.forget(pid, number..=number);
                if let (true, Some(address)) = (name.starts_with("accept"), text(1)) {
                    self.put(pid, number, format!("socket:{address}"), None);
                }
            }
            _ => {}
        }
    }

    fn copied(&mut self, pid: u32, from: i32, to: i32, closes: bool) {
        if from != to {
            self.forget(pid, to..=to);
            if let Some(path) = self.get(pid, from) {
                self.put(pid, to, path, Some(closes));
            }
        }
    }

    /// The whole of a path that begins at a folder: this one, or that of the process.
    fn whole(&mut self, pid: u32, base: Option<String>, path: &str) -> Option<String> {
        if path.starts_with('/') {
            return Some(path.to_owned());
        }
        let base = base.or_else(|| self.folder(pid)).filter(|base| base.starts_with('/'))?;
        let path = path.trim_start_matches("./");
        Some(format!("{}/{path}", base.trim_end_matches('/')).trim_end_matches("/.").to_owned())
    }

    fn folder(&mut self, pid: u32) -> Option<String> {
        if let Some(folder) = self.processes.get(&pid).and_then(|process| process.folder.clone()) {
            return Some(folder);
        }
        let folder = (self.look)(pid, Looked::Folder)?;
        self.process(pid).folder = Some(folder.clone());
        Some(folder)
    }

    fn get(&mut self, pid: u32, number: i32) -> Option<String> {
        let known = self.processes.get(&pid).and_then(|process| process.open.get(&number));
        if let Some((path, _)) = known {
            return Some(path.clone());
        }
        let path = (self.look)(pid, Looked::Descriptor(number)).filter(|_| number >= 0)?;
        self.put(pid, number, path.clone(), None);
        Some(path)
    }

    fn put(&mut self, pid: u32, number: i32, path: String, closes: Option<bool>) {
        let is_known = self.process(pid).open.contains_key(&number);
        self.make_room(usize::from(!is_known));
        self.process(pid).open.insert(number, (path, closes));
    }

    /// The process, of which nothing is known if it is a new one.
    fn process(&mut self, pid: u32) -> &mut Process {
        self.make_room(usize::from(!self.processes.contains_key(&pid)));
        self.processes.entry(pid).or_default()
    }

    fn forget(&mut self, pid: u32, numbers: std::ops::RangeInclusive<i32>) {
        self.keep(pid, |number, _| !numbers.contains(&number));
    }

    /// Forgets all descriptors of a process but these, by their numbers and whether an exec closes them.
    fn keep(&mut self, pid: u32, is_kept: impl Fn(i32, Option<bool>) -> bool) {
        if let Some(process) = self.processes.get_mut(&pid) {
            let before = process.open.len();
            process.open.retain(|number, (_, closes)| is_kept(*number, *closes));
            self.known -= before - process.open.len();
        }
    }

    fn make_room(&mut self, more: usize) {
        self.known += more;
        if self.known > MOST {
            self.processes.clear();
            self.known = more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::join::Moment;
    use super::*;
    use perfuse_abi::regs::Arch;

    /// The texts that are told of a call of process 1.
    fn told(
        known: &mut Descriptors,
        name: &str,
        arguments: [u64; 6],
        returned: i64,
        text: &[(usize, &str)],
    ) -> Vec<String> {
        told_of(known, 1, name, arguments, returned, text)
    }

    fn told_of(
        known: &mut Descriptors,
        pid: u32,
        name: &str,
        arguments: [u64; 6],
        returned: i64,
        text: &[(usize, &str)],
    ) -> Vec<String> {
        let calls = Calls::of(Arch::X86_64);
        let at = Moment { pid, tid: pid, ..Moment::default() };
        let number = calls.number(name).expect("it is in the table");
        let call =
            Call { at, number, arguments: Some(arguments), duration: Some(1), returned: Some(returned) };
        let mut texts: Vec<_> = text.iter().map(|(place, text)| (*place, (*text).to_owned())).collect();
        known.tell(&call, calls, &mut texts);
        texts.drain(..text.len());
        texts.into_iter().map(|(place, text)| format!("{place} {text}")).collect()
    }

    fn known() -> Descriptors {
        Descriptors::new(Box::new(|pid, looked| match looked {
            Looked::Folder => Some("/home".into()),
            Looked::Descriptor(0) if pid == 1 => Some("/dev/pts/0".into()),
            Looked::Descriptor(_) => None,
        }))
    }

    const AT: u64 = -100i64 as u64;

    #[test]
    fn descriptors_are_what_calls_made_of_them() {
        let known = &mut known();
        assert_eq!(told(known, "read", [0, 1, 1, 0, 0, 0], 1, &[]), ["0 /dev/pts/0"]);
        assert_eq!(
            told(known, "openat", [AT, 9, 0, 0, 0, 0], 3, &[(1, "/etc/hosts")]),
            ["0 /home", "6 /etc/hosts"]
        );
        assert_eq!(told(known, "openat", [AT, 9, 0, 0, 0, 0], 4, &[(1, "./a")])[1], "6 /home/a");
        assert_eq!(told(known, "openat", [AT, 9, 0, 0, 0, 0], -2, &[(1, "b")]), ["0 /home"]);
        assert_eq!(told(known, "dup2", [3, 9, 0, 0, 0, 0], 9, &[]), ["0 /etc/hosts", "6 /etc/hosts"]);
        assert_eq!(told(known, "close", [3, 0, 0, 0, 0, 0], 0, &[]), ["0 /etc/hosts"]);
        assert_eq!(told(known, "read", [3, 1, 1, 0, 0, 0], -9, &[]), [""; 0]);
        assert_eq!(told(known, "read", [9, 1, 1, 0, 0, 0], 1, &[]), ["0 /etc/hosts"]);
        told(known, "close_range", [4, 20, 0, 0, 0, 0], 0, &[]);
        assert_eq!(told(known, "read", [9, 1, 1, 0, 0, 0], -9, &[]), [""; 0]);
        told(known, "socket", [2, 1, 0, 0, 0, 0], 5, &[]);
        told(known, "connect", [5, 9, 16, 0, 0, 0], 0, &[(1, "{AF_INET, 127.0.0.1:80}")]);
        assert_eq!(told(known, "sendto", [5, 9, 1, 0, 0, 0], 1, &[]), ["0 socket:{AF_INET, 127.0.0.1:80}"]);
        assert_eq!(
            told(known, "accept", [5, 9, 9, 0, 0, 0], 6, &[(1, "{AF_INET, 127.0.0.2:9}")])[1],
            "6 socket:{AF_INET, 127.0.0.2:9}"
        );
    }

    #[test]
    fn children_have_those_of_their_parents_and_programs_those_that_stay_open() {
        let known = &mut known();
        told(known, "openat", [AT, 9, 0, 0, 0, 0], 3, &[(1, "/stays")]);
        told(known, "openat", [AT, 9, CLOSES, 0, 0, 0], 4, &[(1, "/closes")]);
        known.forked(1, 2);
        assert_eq!(told_of(known, 2, "read", [4, 1, 1, 0, 0, 0], 1, &[]), ["0 /closes"]);
        told_of(known, 2, "execve", [9, 0, 0, 0, 0, 0], 0, &[(0, "/bin/x")]);
        assert_eq!(told_of(known, 2, "read", [4, 1, 1, 0, 0, 0], -9, &[]), [""; 0]);
        assert_eq!(told_of(known, 2, "read", [3, 1, 1, 0, 0, 0], 1, &[]), ["0 /stays"]);
        assert_eq!(told(known, "read", [4, 1, 1, 0, 0, 0], 1, &[]), ["0 /closes"]);
        known.ended(2);
        assert_eq!(told_of(known, 2, "read", [3, 1, 1, 0, 0, 0], 1, &[]), [""; 0]);
    }

    /// The sizes that are counted are those that there are, whatever is called.
    #[test]
    fn what_is_forgotten_makes_room() {
        let known = &mut known();
        for round in 0..3 {
            told(known, "openat", [AT, 9, 0, 0, 0, 0], 3, &[(1, "/a")]);
            told(known, "openat", [AT, 9, CLOSES, 0, 0, 0], 4, &[(1, "b")]);
            known.forked(1, 2);
            told_of(known, 2, "dup2", [3, 4, 0, 0, 0, 0], 4, &[]);
            told_of(known, 2, "execve", [9, 0, 0, 0, 0, 0], 0, &[(0, "/bin/x")]);
            told_of(known, 3, "chdir", [9, 0, 0, 0, 0, 0], 0, &[(0, "sub/")]);
            told(known, "close", [3, 0, 0, 0, 0, 0], 0, &[]);
            let sizes: usize = known.processes.values().map(Process::size).sum();
            assert_eq!(known.known, sizes, "{round}");
        }
        (1..=3).for_each(|pid| known.ended(pid));
        assert_eq!((known.known, known.processes.len()), (0, 0));
    }

    #[test]
    fn folders_are_followed() {
        let known = &mut known();
        told(known, "chdir", [9, 0, 0, 0, 0, 0], 0, &[(0, "sub/")]);
        assert_eq!(told(known, "openat", [AT, 9, 0, 0, 0, 0], 3, &[(1, "x")])[1], "6 /home/sub/x");
        assert_eq!(
            told(known, "openat", [3, 9, 0, 0, 0, 0], 4, &[(1, "y")]),
            ["0 /home/sub/x", "6 /home/sub/x/y"]
        );
        told(known, "fchdir", [4, 0, 0, 0, 0, 0], 0, &[]);
        assert_eq!(told(known, "openat", [AT, 9, 0, 0, 0, 0], 5, &[(1, "z")])[0], "0 /home/sub/x/y");
    }

    #[test]
    fn no_more_are_known_than_there_is_room_for() {
        let known = &mut known();
        for number in 0..3 * MOST as i32 {
            known.put(number as u32 % 7, number, "x".into(), None);
        }
        assert!(known.processes.values().map(|process| process.open.len()).sum::<usize>() <= MOST);
    }
}
