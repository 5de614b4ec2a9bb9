//! `task_struct`, as far as it can be told what Linux has in it: programs read it at the address that `bpf_get_current_task` gives,
//! field by field, where the kernel's types (BTF) say that the field is, as loaders have fitted them to these. There is nothing at
//! these addresses: from each on, the fields of one thread are told.

use super::types::kernel_members;
use crate::proc;
use crate::ptrace::Tid;
use perfuse_abi::Errno;
use perfuse_proc::{Stat, read};
use std::sync::OnceLock;

/// Where the first lies, as in the kernel's map of all memory, and how far they are apart.
const BASE: u64 = 0xffff_8880_0000_0000;
const EACH: u64 = 1 << 16;
/// `PID_MAX_LIMIT`.
const MOST: u64 = 4 << 20;

/// The fields, with their bytes.
const FIELDS: [(Field, &str, usize); 9] = [
    (Field::Thread, "pid", 4),
    (Field::Process, "tgid", 4),
    (Field::Parent, "real_parent", 8),
    (Field::Parent, "parent", 8),
    (Field::Leader, "group_leader", 8),
    (Field::Name, "comm", 16),
    (Field::Start, "start_time", 8),
    (Field::StartSinceBoot, "start_boottime", 8),
    (Field::ExitCode, "exit_code", 4),
];

#[derive(Clone, Copy, Debug)]
enum Field {
    Thread,
    Process,
    Parent,
    Leader,
    Name,
    Start,
    StartSinceBoot,
    ExitCode,
}

/// The address of a thread's.
pub(super) fn address(tid: Tid) -> u64 {
    BASE + tid as u64 * EACH
}

/// Reads them for a program that runs for thread `own`: `None` where none lies, `EFAULT` of fields that are not known, and of those of
/// other threads that `/proc` shows to few.
pub(super) fn read(own: Tid, addr: u64, into: &mut [u8]) -> Option<Result<(), Errno>> {
    static PLACES: OnceLock<Vec<(u64, Field, usize)>> = OnceLock::new();
    let distance = addr.checked_sub(BASE).filter(|distance| *distance < MOST * EACH)?;
    let (tid, at) = ((distance / EACH) as Tid, distance % EACH);
    let places = PLACES.get_or_init(|| {
        let members = kernel_members("task_struct");
        let place =
            |&(field, name, bytes): &(Field, &str, usize)| members.get(name).map(|at| (*at, field, bytes));
        FIELDS.iter().filter_map(place).collect()
    });
    Some(part(places, (own, tid), at, into).ok_or(Errno::EFAULT))
}

/// Copies what lies there, which has to be all of it known.
fn part(places: &[(u64, Field, usize)], (own, tid): (Tid, Tid), at: u64, into: &mut [u8]) -> Option<()> {
    let mut done = 0;
    while done < into.len() {
        let here = at + done as u64;
        let (start, field, bytes) =
            places.iter().find(|(start, _, bytes)| (*start..start + *bytes as u64).contains(&here))?;
        let is_shown = own == tid || !matches!(field, Field::ExitCode);
        let value = value(*field, tid).filter(|_| is_shown)?;
        let rest = &value[(here - start) as usize..*bytes];
        let len = rest.len().min(into.len() - done);
        into[done..done + len].copy_from_slice(&rest[..len]);
        done += len;
    }
    Some(())
}

/// A field's bytes, from the first on.
fn value(field: Field, tid: Tid) -> Option<[u8; 16]> {
    let process = |tid| if tid == 0 { Some(0) } else { proc::process_of(tid) };
    let number = match field {
        Field::Thread => tid as u64,
        Field::Process => process(tid)? as u64,
        Field::Leader => address(process(tid)?),
        Field::Parent => address(number_of(tid, 4)? as Tid),
        Field::StartSinceBoot => start(tid)?,
        Field::Start => {
            // The one clock goes on while the machine sleeps, the other does not.
            let awake = proc::clock_ns(libc::CLOCK_MONOTONIC);
            start(tid)?.saturating_sub(proc::clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(awake))
        }
        Field::ExitCode => number_of(tid, 52)?,
        Field::Name => {
            let mut name = [0; 16];
            let told = proc::comm(process(tid)?, tid);
            let len = told.len().min(15);
            name[..len].copy_from_slice(&told[..len]);
            return Some(name);
        }
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_ne_bytes());
    Some(bytes)
}

/// A field of `stat` (proc(5)), by its number there. The first of all has no thread that could be asked.
fn number_of(tid: Tid, field: usize) -> Option<u64> {
    if tid == 0 {
        return Some(0);
    }
    let pid = proc::process_of(tid)?;
    Stat::parse(&read::stat(pid as u32, tid as u32)?)?.number(field)
}

/// When it began, in nanoseconds since the machine did; `stat` tells hundredths of a second.
fn start(tid: Tid) -> Option<u64> {
    Some(number_of(tid, 22)? * 10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_where_they_lie() {
        let own = proc::own_tid();
        let places = [
            (8, Field::Thread, 4),
            (12, Field::Process, 4),
            (24, Field::Parent, 8),
            (40, Field::Name, 16),
            (56, Field::ExitCode, 4),
        ];
        let read_for = |own, tid, at, len: usize| {
            let mut bytes = vec![0; len];
            part(&places, (own, tid), at, &mut bytes).map(|()| bytes)
        };
        let read = |at, len| read_for(own, own, at, len);
        let (pid, tid) = (std::process::id().to_ne_bytes(), own.to_ne_bytes());
        assert_eq!(read(8, 8), Some([tid, pid].concat()));
        assert_eq!(read(10, 2), Some(tid[2..].to_vec()));
        let parent = address(std::os::unix::process::parent_id() as Tid);
        assert_eq!(read(24, 8), Some(parent.to_ne_bytes().to_vec()));
        assert!(read(40, 16).is_some_and(|name| name[15] == 0 && name[0] != 0));
        // One that is not known, beside others.
        assert_eq!([read(4, 8), read(12, 8), read(60, 1)], [None, None, None]);
        // How others end is not everybody's affair.
        assert_eq!([read(56, 4), read_for(1, own, 56, 4)], [Some(vec![0; 4]), None]);
        assert_eq!(super::read(own, BASE - 1, &mut [0]), None);
    }
}
