//! The session as stories of processes.

use super::{Level, Session};
use perfuse_abi::record::{
    Comm, CpuMode, Decoded, Ksymbol, KsymbolFlags, Misc, Mmap, Mmap2, Record, Task, Tid,
};
use perfuse_abi::wire::Text;

fn tell(session: &mut Session, misc: Misc, record: Record<'_>) {
    session.apply(&Decoded { misc, ..Decoded::from(record) });
}

fn map(session: &mut Session, pid: u32, addr: u64, len: u64, pgoff: u64, name: &str) {
    let tid = Tid { pid, tid: pid };
    let mmap = Mmap2 { tid, addr, len, pgoff, filename: Text::new(name.as_bytes()), ..Mmap2::default() };
    tell(session, Misc::empty().with_cpu_mode(CpuMode::USER), Record::Mmap2(mmap));
}

fn comm(session: &mut Session, pid: u32, tid: u32, name: &str, misc: Misc) {
    let comm = Comm { tid: Tid { pid, tid }, name: Text::new(name.as_bytes()) };
    tell(session, misc, Record::Comm(comm));
}

fn fork(session: &mut Session, (ppid, ptid): (u32, u32), (pid, tid): (u32, u32)) {
    tell(session, Misc::empty(), Record::Fork(Task { pid, ppid, tid, ptid, time: 0 }));
}

fn at(session: &Session, pid: u32, tid: u32, ip: u64) -> Option<(String, u64)> {
    let found = session.resolve(pid, tid, Level::User, ip)?;
    let name = String::from_utf8_lossy(&session.object(found.map.object).name).into_owned();
    Some((name, found.place))
}

fn some(name: &str, place: u64) -> Option<(String, u64)> {
    Some((name.into(), place))
}

#[test]
fn a_child_has_its_parents_maps_until_it_changes_them() {
    let mut session = Session::new();
    comm(&mut session, 10, 10, "shell", Misc::empty());
    map(&mut session, 10, 0x1000, 0x1000, 0x400, "/bin/sh");
    fork(&mut session, (10, 10), (11, 11));
    assert_eq!(session.maps_of(10, 10).id(), session.maps_of(11, 11).id(), "shared");
    assert_eq!(at(&session, 11, 11, 0x1010), some("/bin/sh", 0x410));
    assert_eq!(session.comm_of(11, 11).map(|id| session.comm(id)), Some(&b"shell"[..]));
    map(&mut session, 11, 0x5000, 0x1000, 0, "/lib/x.so");
    assert_eq!(at(&session, 11, 11, 0x5001), some("/lib/x.so", 1));
    assert_eq!(at(&session, 10, 10, 0x5001), None);
    assert_eq!(at(&session, 10, 10, 0x1010), some("/bin/sh", 0x410));
}

#[test]
fn exec_clears_the_maps_and_names_the_task() {
    let mut session = Session::new();
    map(&mut session, 10, 0x1000, 0x1000, 0, "/bin/sh");
    comm(&mut session, 10, 10, "ls", Misc::COMM_EXEC);
    assert_eq!(at(&session, 10, 10, 0x1000), None);
    map(&mut session, 10, 0x1000, 0x1000, 0, "/bin/ls");
    assert_eq!(at(&session, 10, 10, 0x1000), some("/bin/ls", 0));
    comm(&mut session, 10, 10, "renamed", Misc::empty());
    assert_eq!(at(&session, 10, 10, 0x1000), some("/bin/ls", 0), "a new name alone changes nothing");
}

#[test]
fn a_mapping_over_others_cuts_them() {
    let mut session = Session::new();
    map(&mut session, 1, 0x1000, 0x3000, 0, "/a");
    map(&mut session, 1, 0x2000, 0x1000, 0, "/b");
    let expected = [(0x1000, "/a", 0), (0x1fff, "/a", 0xfff), (0x2000, "/b", 0), (0x3000, "/a", 0x2000)];
    for (ip, name, place) in expected {
        assert_eq!(at(&session, 1, 1, ip), some(name, place), "{ip:#x}");
    }
    map(&mut session, 1, 0x1800, 0x2000, 0, "/c");
    assert_eq!(at(&session, 1, 1, 0x2000), some("/c", 0x800));
    assert_eq!(at(&session, 1, 1, 0x3800), some("/a", 0x2800));
    assert_eq!(session.maps_of(1, 1).len(), 3);
    map(&mut session, 1, 0, u64::MAX, 0, "/all");
    assert_eq!(session.maps_of(1, 1).len(), 1);
}

#[test]
fn a_task_that_ended_is_known_until_its_number_is_used_again() {
    let mut session = Session::new();
    comm(&mut session, 10, 10, "one", Misc::empty());
    map(&mut session, 10, 0x1000, 0x1000, 0, "/one");
    tell(&mut session, Misc::empty(), Record::Exit(Task { pid: 10, tid: 10, ..Task::default() }));
    assert_eq!(at(&session, 10, 10, 0x1000), some("/one", 0));
    assert!(session.thread(10).is_some_and(|thread| thread.ended));
    fork(&mut session, (1, 1), (10, 10));
    assert_eq!(at(&session, 10, 10, 0x1000), None);
    assert!(session.thread(10).is_some_and(|thread| !thread.ended));
}

#[test]
fn ended_tasks_are_forgotten_in_the_end() {
    let mut session = Session::new();
    for pid in 2..20_000 {
        fork(&mut session, (1, 1), (pid, pid));
        map(&mut session, pid, 0x1000, 0x1000, 0, "/x");
        tell(&mut session, Misc::empty(), Record::Exit(Task { pid, tid: pid, ..Task::default() }));
    }
    assert!(session.threads().count() <= super::ENDED + 2);
    assert!(session.processes().count() <= super::ENDED + 2);
}

#[test]
fn threads_share_the_maps_of_their_process_even_unannounced() {
    let mut session = Session::new();
    comm(&mut session, 10, 10, "main", Misc::empty());
    map(&mut session, 10, 0x1000, 0x1000, 0, "/bin/x");
    fork(&mut session, (10, 10), (10, 12));
    comm(&mut session, 10, 12, "worker", Misc::empty());
    for tid in [10, 12, 13] {
        assert_eq!(at(&session, 10, tid, 0x1000), some("/bin/x", 0));
    }
    let comm = |tid| session.comm_of(10, tid).map(|id| session.comm(id).to_vec());
    assert_eq!(comm(12).as_deref(), Some(&b"worker"[..]));
    assert_eq!(comm(13).as_deref(), Some(&b"main"[..]));
}

#[test]
fn kernel_modules_and_bpf_programs_come_and_go() {
    let mut session = Session::new();
    let kernel = Misc::empty().with_cpu_mode(CpuMode::KERNEL);
    let mut mmap = |addr, len, pgoff, name: &str| {
        let tid = Tid { pid: u32::MAX, tid: 0 };
        let mmap = Mmap { tid, addr, len, pgoff, filename: Text::new(name.as_bytes()) };
        tell(&mut session, kernel, Record::Mmap(mmap));
    };
    mmap(0xffff_ffff_8100_0000, 0x100_0000, 0xffff_ffff_8100_0000, "[kernel.kallsyms]_text");
    mmap(0xffff_ffff_c000_0000, 0x4000, 0, "[e1000]");
    let symbol = Ksymbol {
        addr: 0xffff_ffff_c000_1000,
        len: 0x100,
        name: Text::new(b"bpf_prog"),
        ..Ksymbol::default()
    };
    let at = |session: &Session, ip| {
        let found = session.resolve(5, 5, Level::Kernel, ip)?;
        Some(String::from_utf8_lossy(&session.object(found.map.object).name).into_owned())
    };
    assert_eq!(at(&session, 0xffff_ffff_8100_0010).as_deref(), Some("[kernel.kallsyms]"));
    tell(&mut session, Misc::empty(), Record::Ksymbol(symbol));
    assert_eq!(at(&session, 0xffff_ffff_c000_1010).as_deref(), Some("bpf_prog"));
    assert_eq!(at(&session, 0xffff_ffff_c000_0fff).as_deref(), Some("[e1000]"));
    let gone = Ksymbol { flags: KsymbolFlags::UNREGISTER, ..symbol };
    tell(&mut session, Misc::empty(), Record::Ksymbol(gone));
    assert_eq!(at(&session, 0xffff_ffff_c000_1010), None);
    assert_eq!(session.resolve(5, 5, Level::Hypervisor, 0xffff_ffff_8100_0010), None);
    assert_eq!(session.resolve(5, 5, Level::GuestUser, 0x1000), None);
}
