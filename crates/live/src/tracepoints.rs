//! The tracepoints that a tracer can tell of: system calls, and births, new programs and ends of threads.
//!
//! Each has the id that Linux's tracing file system tells, where that can be read, for programs that look there, and one of
//! [its own](own) everywhere. So have its fields the places that Linux's format tells, or those of a format of its own.
//! Besides there are those of [probes](define) that somebody has defined.

mod probes;

use crate::proc;
use crate::ptrace::Tid;
use crate::regs::ARCH;
use perfuse_abi::{ByteOrder, Errno};
use perfuse_engine::Filter;
use perfuse_events::TRACEFS;
use perfuse_trace::{Argument, Calls, Expr, Extra, Format, Kind, Record, Schema};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use probes::define;
pub(crate) use probes::{Hit as ProbeHit, ProbePoint, get as probe_point, lines as probe_lines};

/// The happening that a tracepoint tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// The beginning of any system call.
    Entry,
    /// The end of any.
    Exit,
    /// The time that a thread has slept in a call.
    Asleep,
    /// The beginning of the one of this number.
    EntryOf(u64),
    /// Its end.
    ExitOf(u64),
    /// A task has made another.
    Fork,
    /// A task has another program.
    Exec,
    /// A task ends.
    End,
    /// A thread has come to the probe of this id.
    Probe(u64),
}

/// A tracepoint and its layout.
#[derive(Debug)]
pub(crate) struct Tracepoint {
    pub(crate) id: u64,
    pub(crate) what: What,
    pub(crate) format: Format,
    /// Bytes of its records, without what has no fixed place in them.
    pub(crate) size: usize,
}

/// Linux gives its own tracepoints smaller ids.
const FIRST: u64 = 60_000;
/// The id of `perfuse:asleep`, which Linux has not: at the end of a system call in which a thread slept, with the nanoseconds that it
/// was away from its cpu for a weight, and its callers. Its event counts nanoseconds; with period 1 a sample has them for its period.
pub const ASLEEP: u64 = FIRST + 6;
const ENTRIES: u64 = 61_000;
const EXITS: u64 = 62_000;

/// Those that are not of one system call.
const OTHERS: [(&str, What, u64); 6] = [
    ("raw_syscalls:sys_enter", What::Entry, FIRST + 1),
    ("raw_syscalls:sys_exit", What::Exit, FIRST + 2),
    ("sched:sched_process_fork", What::Fork, FIRST + 3),
    ("sched:sched_process_exec", What::Exec, FIRST + 4),
    ("sched:sched_process_exit", What::End, FIRST + 5),
    ("perfuse:asleep", What::Asleep, ASLEEP),
];

/// The function of the kernel that does a system call, as its tracepoints name it.
fn kernel_function(call: &'static str) -> &'static str {
    match call {
        "fstat" => "newfstat",
        "lstat" => "newlstat",
        "sendfile" => "sendfile64",
        "stat" => "newstat",
        "umount2" => "umount",
        "uname" => "newuname",
        same => same,
    }
}

/// All of them by name.
fn all() -> &'static BTreeMap<String, (What, u64)> {
    static ALL: OnceLock<BTreeMap<String, (What, u64)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let calls = Calls::of(ARCH);
        let of_calls = calls.numbers().filter(|&number| number < EXITS - ENTRIES).flat_map(|number| {
            // The kernel names them by its functions, and has none for those that it has not.
            let spec = calls.get(number).filter(|spec| spec.arguments.is_some());
            let Some(name) = spec.map(|spec| kernel_function(spec.name)) else { return Vec::new() };
            vec![
                (format!("syscalls:sys_enter_{name}"), (What::EntryOf(number), ENTRIES + number)),
                (format!("syscalls:sys_exit_{name}"), (What::ExitOf(number), EXITS + number)),
            ]
        });
        OTHERS.map(|(name, what, id)| (name.to_owned(), (what, id))).into_iter().chain(of_calls).collect()
    })
}

/// The tracepoints by their names, `system:name`, with the ids that they have everywhere, which the kernel gives to none of its own;
/// those that are [defined](define) now among them.
pub fn own() -> Vec<(Cow<'static, str>, u64)> {
    let fixed = fixed().map(|(name, id)| (Cow::Borrowed(name), id));
    fixed.chain(probes::names().into_iter().map(|(name, id)| (Cow::Owned(name), id))).collect()
}

/// Those that are always there.
fn fixed() -> impl Iterator<Item = (&'static str, u64)> {
    all().iter().map(|(name, &(_, id))| (name.as_str(), id))
}

/// The format of one of [`own`]'s, laid out as Linux's of this version; `None` for other names.
pub fn own_format(name: &str) -> Option<String> {
    let Some(&(what, id)) = all().get(name) else { return probes::format_of(name) };
    let (_, event) = name.split_once(':')?;
    let (fields, print) = match what {
        What::Entry => (
            "\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
             \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n"
                .to_owned(),
            "\"NR %ld (%lx, %lx, %lx, %lx, %lx, %lx)\", REC->id, REC->args[0], REC->args[1], REC->args[2], \
             REC->args[3], REC->args[4], REC->args[5]"
                .to_owned(),
        ),
        What::Exit => (
            "\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
             \tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n"
                .to_owned(),
            "\"NR %ld = %ld\", REC->id, REC->ret".to_owned(),
        ),
        What::EntryOf(number) => {
            let arguments = Calls::of(ARCH).get(number)?.arguments.as_deref().unwrap_or_default();
            entry_format(arguments)
        }
        What::ExitOf(_) => (
            format!("{NUMBER}\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n"),
            "\"0x%lx\", REC->ret".to_owned(),
        ),
        What::Asleep => (
            "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
             \tfield:u64 delay;\toffset:32;\tsize:8;\tsigned:0;\n"
                .to_owned(),
            "\"comm=%s pid=%d delay=%Lu [ns]\", REC->comm, REC->pid, (unsigned long long)REC->delay"
                .to_owned(),
        ),
        What::Fork => (
            "\tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\
             \tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
             \tfield:__data_loc char[] child_comm;\toffset:16;\tsize:4;\tsigned:0;\n\
             \tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n"
                .to_owned(),
            "\"comm=%s pid=%d child_comm=%s child_pid=%d\", __get_str(parent_comm), REC->parent_pid, \
             __get_str(child_comm), REC->child_pid"
                .to_owned(),
        ),
        What::Exec => (
            "\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
             \tfield:pid_t old_pid;\toffset:16;\tsize:4;\tsigned:1;\n"
                .to_owned(),
            "\"filename=%s pid=%d old_pid=%d\", __get_str(filename), REC->pid, REC->old_pid".to_owned(),
        ),
        What::End => (
            "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
             \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
             \tfield:bool group_dead;\toffset:32;\tsize:1;\tsigned:0;\n"
                .to_owned(),
            "\"comm=%s pid=%d prio=%d group_dead=%s\", REC->comm, REC->pid, REC->prio, \
             REC->group_dead ? \"true\" : \"false\""
                .to_owned(),
        ),
        // They are not among all of them.
        What::Probe(_) => return None,
    };
    Some(format!("name: {event}\nID: {id}\nformat:\n{COMMON}\n{fields}\nprint fmt: {print}\n"))
}

/// The fields that all records begin with.
const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                      \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
                      \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
                      \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

/// The field that records of one system call go on with.
const NUMBER: &str = "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n";

/// The fields and the line of the beginning of a system call.
fn entry_format(arguments: &[Argument]) -> (String, String) {
    let (mut fields, mut words, mut values) = (NUMBER.to_owned(), Vec::new(), String::new());
    for (index, argument) in arguments.iter().enumerate() {
        let (name, offset) = (argument.name, 16 + 8 * index);
        let _ =
            writeln!(fields, "\tfield:{} {name};\toffset:{offset};\tsize:8;\tsigned:0;", argument.c_type());
        words.push(format!("{name}: 0x%08lx"));
        let _ = write!(values, ", ((unsigned long)(REC->{name}))");
    }
    (fields, format!("\"{}\"{values}", words.join(", ")))
}

/// The tracepoint of this id, if it is one of these.
pub(crate) fn get(id: u64) -> Option<Arc<Tracepoint>> {
    static KNOWN: Mutex<BTreeMap<u64, Arc<Tracepoint>>> = Mutex::new(BTreeMap::new());
    let made = |what, text: &str| {
        let format = Format::parse(text)?;
        let size = format.fill(&[]).len();
        Some(Arc::new(Tracepoint { id, what, format, size }))
    };
    if let Some(point) = probes::get(id) {
        return made(What::Probe(id), &point.format_text());
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tracepoint) = known.get(&id) {
        return Some(tracepoint.clone());
    }
    let (what, text) = if id > FIRST {
        let (name, &(what, _)) = all().iter().find(|(_, (_, own))| *own == id)?;
        (what, own_format(name)?)
    } else {
        of_linux(id)?
    };
    let tracepoint = made(what, &text)?;
    known.insert(id, tracepoint.clone());
    Some(tracepoint)
}

/// Where Linux shows its tracepoints to this process.
fn shown_at() -> Option<&'static Path> {
    TRACEFS.iter().map(Path::new).find(|root| root.join("events/raw_syscalls/sys_enter/id").is_file())
}

/// Whether Linux shows its tracepoints to this process.
pub(crate) fn are_shown() -> bool {
    shown_at().is_some()
}

/// Whether a path is that of the list of uprobes that were made by hand.
pub(crate) fn is_list_of_probes(path: &str) -> bool {
    TRACEFS.iter().any(|root| path.strip_prefix(root) == Some("/uprobe_events"))
}

/// The text that a file of the tracing file system has about [`own`]'s: an id, a format, or the list of them.
pub(crate) fn file(path: &str) -> Option<String> {
    let path = TRACEFS.iter().find_map(|root| path.strip_prefix(root)?.strip_prefix('/'))?;
    if path == "available_events" {
        // Linux has none of ours.
        let of_linux = own().into_iter().filter(|(_, id)| *id != ASLEEP);
        return Some(of_linux.map(|(name, _)| format!("{name}\n")).collect());
    }
    let (name, file) = path.strip_prefix("events/")?.rsplit_once('/')?;
    let name = name.replacen('/', ":", 1);
    match file {
        "id" => own().iter().find(|(own, _)| *own == name).map(|(_, id)| format!("{id}\n")),
        "format" => own_format(&name),
        _ => None,
    }
}

/// The tracepoint that has this id in Linux, and its format there.
fn of_linux(id: u64) -> Option<(What, String)> {
    static OF_OTHERS: OnceLock<BTreeMap<u64, &'static str>> = OnceLock::new();
    static OF_CALLS: OnceLock<BTreeMap<u64, &'static str>> = OnceLock::new();
    let root = shown_at()?;
    let file = |name: &str, file: &str| {
        let (system, event) = name.split_once(':')?;
        std::fs::read_to_string(root.join("events").join(system).join(event).join(file)).ok()
    };
    let id_of = |name: &'static str| Some((file(name, "id")?.trim().parse().ok()?, name));
    // There are hundreds of calls.
    let others = OF_OTHERS.get_or_init(|| OTHERS.iter().filter_map(|(name, ..)| id_of(name)).collect());
    let of_calls = || OF_CALLS.get_or_init(|| all().keys().filter_map(|name| id_of(name)).collect());
    let &name = others.get(&id).or_else(|| of_calls().get(&id))?;
    Some((all()[name].0, file(name, "format")?))
}

/// A filter of a tracepoint's records (rule J34).
pub(crate) fn filter(id: u64, text: &str) -> Result<Filter, Errno> {
    filter_by(&get(id).ok_or(Errno::EINVAL)?.format, text)
}

/// A filter of the records of probes: it sees the fields that all records have (rule J53).
pub(crate) fn filter_of_probe(text: &str) -> Result<Filter, Errno> {
    filter_by(&Format::parse(&format!("name: probe\nID: 0\n{COMMON}")).ok_or(Errno::EINVAL)?, text)
}

fn filter_by(format: &Format, text: &str) -> Result<Filter, Errno> {
    let expr: Expr = text.parse().map_err(|_| errno_of(text))?;
    let schema = Schema { extras: EXTRAS, ..Schema::of(format) };
    if !expr.is_ftraces(&schema) {
        return Err(Errno::EINVAL);
    }
    let bound = expr.bind(&schema).map_err(|_| Errno::EINVAL)?;
    Ok(Box::new(move |record| bound.admits(&StoppedRecord(record))))
}

/// Facts that filters may ask for beside the fields of a record.
const EXTRAS: &[Extra] =
    &[Extra { name: "cpu", kind: Kind::Signed }, Extra { name: "comm", kind: Kind::Text }];

/// A record of a thread that is stopped, by its data.
struct StoppedRecord<'d>(&'d [u8]);

impl StoppedRecord<'_> {
    fn tid(&self) -> Option<Tid> {
        Some(Tid::from_ne_bytes(self.0.get(4..8)?.try_into().ok()?))
    }
}

impl Record for StoppedRecord<'_> {
    fn data(&self) -> &[u8] {
        self.0
    }

    fn order(&self) -> ByteOrder {
        ByteOrder::NATIVE
    }

    fn number(&self, _cpu: usize) -> Option<u64> {
        let tid = self.tid()?;
        proc::Files::new(tid, tid).state().map(|(_, cpu)| cpu.into())
    }

    fn text(&self, _comm: usize) -> Option<Cow<'_, [u8]>> {
        let tid = self.tid()?;
        Some(proc::comm(tid, tid).into())
    }
}

/// The errno by which Linux refuses a text that is no expression.
fn errno_of(text: &str) -> Errno {
    let (mut quote, mut open) = (None, 0);
    for letter in text.chars() {
        match (quote, letter) {
            (Some(mark), _) if mark == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '(') => open += 1,
            (None, ')') => open -= 1,
            (None, _) => {}
        }
        if open < 0 {
            return Errno::EPERM;
        }
    }
    match (quote, open) {
        (Some(_), _) => Errno::ESRCH,
        (None, 1..) => Errno::ENOENT,
        _ => Errno::EINVAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_number_and_a_format_of_its_own() {
        let mut ids: Vec<u64> = fixed().map(|(_, id)| id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), fixed().count());
        for (name, id) in fixed() {
            assert!(id <= u64::from(u16::MAX), "{name}: records have 16 bits for it");
            let tracepoint = get(id).expect(name);
            assert!(tracepoint.format.is_understood(), "{name}");
            assert_eq!((tracepoint.id, tracepoint.format.id), (id, id), "{name}");
        }
        assert!(get(FIRST - 1).is_none() && get(FIRST).is_none() && get(u64::MAX).is_none());
    }

    #[test]
    fn files_say_what_linuxs_would() {
        let [first, second] =
            TRACEFS.map(|root| file(&format!("{root}/events/syscalls/sys_enter_openat/id")));
        assert!(first.is_some_and(
            |id| id.ends_with('\n') && id.trim().parse::<u64>().is_ok_and(|id| get(id).is_some())
        ));
        assert!(second.is_some());
        let format = file("/sys/kernel/tracing/events/sched/sched_process_exit/format").expect("a format");
        assert!(format.starts_with("name: sched_process_exit\nID: "), "{format}");
        assert!(is_list_of_probes("/sys/kernel/debug/tracing/uprobe_events"));
        let list = file("/sys/kernel/tracing/available_events").expect("a list");
        assert!(
            list.lines().any(|name| name == "raw_syscalls:sys_exit") && !list.contains("perfuse:"),
            "{list}"
        );
        for other in
            ["", "/", "/sys/kernel/tracing", "/sys/kernel/tracing/events/sched/format", "/etc/passwd"]
        {
            assert_eq!(file(other), None, "{other}");
        }
    }

    #[test]
    fn filters_are_ftraces() {
        let ids: BTreeMap<&str, u64> = fixed().collect();
        let point = get(ids["syscalls:sys_enter_write"]).expect("a tracepoint");
        let record = |fd: u64| point.format.fill(&[("fd", perfuse_trace::Filling::Number(fd))]);
        let passes = |text: &str, fd| filter(point.id, text).map(|filter| filter(&record(fd)));
        assert_eq!(passes("fd == 2", 2), Ok(true));
        assert_eq!(passes("fd == 2", 3), Ok(false));
        assert_eq!(passes("(fd == 2 || fd >= 0x10) && common_pid == 0", 17), Ok(true));
        assert_eq!(passes("!(fd & 1)", 3), Ok(false));
        let refused = [
            ("", Errno::EINVAL),
            ("fd", Errno::EINVAL),
            ("fd =", Errno::EINVAL),
            ("nothing == 2", Errno::EINVAL),
            ("fd in {1, 2}", Errno::EINVAL),
            ("fd + 1 == 2", Errno::EINVAL),
            ("fd == count", Errno::EINVAL),
            ("sample.cpu == 0", Errno::EINVAL),
            ("(fd == 2", Errno::ENOENT),
            ("fd == 2)", Errno::EPERM),
            ("fd == \"2", Errno::ESRCH),
        ];
        for (text, errno) in refused {
            assert_eq!(passes(text, 2), Err(errno), "{text}");
        }
        let of_this =
            point.format.fill(&[("common_pid", perfuse_trace::Filling::Number(proc::own_tid() as u64))]);
        let holds = |text: &str| filter(point.id, text).map(|filter| filter(&of_this));
        assert_eq!(holds("COMM ~ \"?*\" && cpu >= 0"), Ok(true));
        assert_eq!(holds("comm == \"another name\""), Ok(false));
        assert!(filter_of_probe("common_pid != 0").is_ok_and(|filter| !filter(&[0; 16])));
        assert_eq!(filter_of_probe("__probe_ip == 0").err(), Some(Errno::EINVAL));
    }
}
