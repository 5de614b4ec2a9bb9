//! The session as stories of processes.

use super::{Level, Session};
use perfuse_abi::record::{
    Comm, CpuMode, Decoded, Ksymbol, KsymbolFlags, Misc, Mmap, Mmap2, Record, Task, TextPoke, Tid,
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

/// A mapping that may be executed.
fn code(session: &mut Session, pid: u32, addr: u64, len: u64, pgoff: u64, name: &str) {
    let (tid, filename) = (Tid { pid, tid: pid }, Text::new(name.as_bytes()));
    let mmap = Mmap2 { tid, addr, len, pgoff, prot: 5, filename, ..Mmap2::default() };
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
    assert_eq!(session.comm_of(11).map(|id| session.comm(id)), Some(&b"shell"[..]));
    assert_eq!((&*session.name_of(11), &*session.name_of(u32::MAX)), (&b"shell"[..], &b":-1"[..]));
    map(&mut session, 11, 0x5000, 0x1000, 0, "/lib/x.so");
    assert_eq!(at(&session, 11, 11, 0x5001), some("/lib/x.so", 1));
    assert_eq!(at(&session, 10, 10, 0x5001), None);
    assert_eq!(at(&session, 10, 10, 0x1010), some("/bin/sh", 0x410));
}

#[test]
fn exec_clears_the_maps_and_names_the_task() {
    let mut session = Session::new();
    map(&mut session, 10, 0x1000, 0x1000, 0, "/bin/sh");
    map(&mut session, 10, 0x8000, 0x1000, 0, "/lib/libc.so");
    comm(&mut session, 10, 10, "ls", Misc::COMM_EXEC);
    assert_eq!(session.maps_of(10, 10).len(), 0);
    assert_eq!(at(&session, 10, 10, 0x8010), some("/lib/libc.so", 0x10), "it is still in its call of exec");
    map(&mut session, 10, 0x1000, 0x800, 0, "/bin/ls");
    assert_eq!(at(&session, 10, 10, 0x1000), some("/bin/ls", 0));
    map(&mut session, 10, 0x3000, 0x1000, 0, "/lib/ld.so");
    map(&mut session, 10, 0x6000, 0x1000, 0, "[vdso]");
    assert_eq!(at(&session, 10, 10, 0x8010), some("/lib/libc.so", 0x10), "the kernel is not done yet");
    map(&mut session, 10, 0x9000, 0x1000, 0, "/lib/libc.so");
    assert_eq!(at(&session, 10, 10, 0x8010), None, "the new program maps its libraries");
    assert_eq!(at(&session, 10, 10, 0x1900), None);
    comm(&mut session, 10, 10, "renamed", Misc::empty());
    assert_eq!(at(&session, 10, 10, 0x1000), some("/bin/ls", 0), "a new name alone changes nothing");
}

#[test]
fn of_one_exec_after_another_only_the_last_program_is_remembered() {
    let mut session = Session::new();
    for (name, start) in [("/one", 0x1000), ("/two", 0x2000), ("/three", 0x3000)] {
        comm(&mut session, 10, 10, name, Misc::COMM_EXEC);
        map(&mut session, 10, start, 0x1000, 0, name);
    }
    let found = [0x1000, 0x2000, 0x3000].map(|ip| at(&session, 10, 10, ip));
    assert_eq!(found, [None, some("/two", 0), some("/three", 0)]);
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
    let comm = |tid| session.comm_of(tid).map(|id| session.comm(id).to_vec());
    assert_eq!(comm(12).as_deref(), Some(&b"worker"[..]));
    assert_eq!(comm(13), None, "as in perf, it has no name");
}

#[test]
fn the_kernels_build_id_may_be_told_of_its_file() {
    use crate::feature::BuildIdEntry as Told;
    let kernel = Misc::empty().with_cpu_mode(CpuMode::KERNEL);
    let (start, module) = (0xffff_ffff_8100_0000, 0xffff_ffff_c000_0000);
    let maps = |session: &mut Session| {
        for (addr, name) in [(start, "[kernel.kallsyms]_text"), (module, "/lib/modules/5/ext4.ko.xz")] {
            let tid = Tid { pid: u32::MAX, tid: 0 };
            let mmap = Mmap { tid, addr, len: 0x1000, pgoff: addr, filename: Text::new(name.as_bytes()) };
            tell(session, kernel, Record::Mmap(mmap));
        }
    };
    let told = |name: &'static str, byte| Told {
        id: [byte; 20],
        len: 20,
        misc: kernel | Told::HAS_LEN,
        name: name.into(),
        ..Told::default()
    };
    // Of a file before the records, in a pipe after them.
    for is_pipe in [false, true] {
        for (name, shown) in
            [("/boot/vmlinux-5", "/boot/vmlinux-5"), ("[kernel.kallsyms]", "[kernel.kallsyms]")]
        {
            let mut session = Session::new();
            let ids = [told(name, 1), told("/lib/modules/5/ext4.ko.xz", 2), told("[vdso]", 3)];
            if is_pipe {
                maps(&mut session);
            }
            ids.iter().for_each(|id| session.set_build_id(id));
            if !is_pipe {
                maps(&mut session);
            }
            let object = |address| {
                let found = session.resolve(1, 1, Level::Kernel, address).expect("a map");
                let object = session.object(found.map.object);
                (String::from_utf8_lossy(&object.name).into_owned(), object.build_id.map(|id| id.bytes[0]))
            };
            assert_eq!(object(start), (shown.to_owned(), Some(1)), "{is_pipe}");
            assert_eq!(object(module), ("/lib/modules/5/ext4.ko.xz".to_owned(), Some(2)), "{is_pipe}");
        }
    }
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
    let resolved = session.resolve(5, 5, Level::Kernel, 0xffff_ffff_c000_1010).expect("the module is there");
    assert_eq!(&*session.object(resolved.map.object).name, b"[e1000]");
    assert_eq!(resolved.map.end - resolved.map.start, 0x4000, "it is whole again");
    assert_eq!(session.resolve(5, 5, Level::Hypervisor, 0xffff_ffff_8100_0010), None);
    assert_eq!(session.resolve(5, 5, Level::GuestUser, 0x1000), None);
    let behind = |ip| session.behind_kernel(Level::Kernel, ip).map(|found| found.place);
    assert_eq!(behind(0xffff_ffff_8300_0000), Some(0xffff_ffff_8300_0000));
    assert_eq!(behind(0xffff_ffff_8100_0010), None, "that is in the mapping");
    assert_eq!(behind(0xffff_ffff_c000_4000), None, "a module is nearer");
    assert_eq!(behind(0xffff_ffff_80ff_ffff), None, "that is before the kernel");
    assert_eq!(session.behind_kernel(Level::User, 0xffff_ffff_8300_0000), None);
}

#[test]
fn a_bpf_program_at_the_place_of_another_is_the_one_of_that_time() {
    let mut session = Session::new();
    let symbol = |name: &'static str, flags| {
        let name = Text::new(name.as_bytes());
        Record::Ksymbol(Ksymbol {
            addr: 0xffff_ffff_c000_1000,
            len: 0x100,
            name,
            flags,
            ..Ksymbol::default()
        })
    };
    let at = |session: &Session| {
        let found = session.resolve(5, 5, Level::Kernel, 0xffff_ffff_c000_1010)?;
        Some((found.map.object, session.object(found.map.object).name.to_vec()))
    };
    let mut seen = Vec::new();
    for name in ["bpf_prog_one", "bpf_prog_two", "bpf_prog_one"] {
        let before = session.kernel_maps().id();
        tell(&mut session, Misc::empty(), symbol(name, KsymbolFlags::empty()));
        let (object, found) = at(&session).expect("it is there");
        assert_eq!(found, name.as_bytes());
        seen.push(object);
        assert_ne!(session.kernel_maps().id(), before, "what was found before no longer holds");
        tell(&mut session, Misc::empty(), symbol(name, KsymbolFlags::UNREGISTER));
        assert_eq!(at(&session), None);
    }
    assert!(seen[0] != seen[1] && seen[0] == seen[2]);
    // One that replaces another whose end was not told.
    tell(&mut session, Misc::empty(), symbol("bpf_prog_one", KsymbolFlags::empty()));
    tell(&mut session, Misc::empty(), symbol("bpf_prog_two", KsymbolFlags::empty()));
    assert_eq!(at(&session).map(|(object, _)| object), Some(seen[1]));
}

#[test]
fn a_number_that_is_used_again_without_an_end_is_another_process() {
    let mut session = Session::new();
    comm(&mut session, 10, 10, "one", Misc::empty());
    map(&mut session, 10, 0x1000, 0x1000, 0, "/one");
    map(&mut session, 1, 0x9000, 0x1000, 0, "/init");
    comm(&mut session, 1, 1, "init", Misc::empty());
    fork(&mut session, (1, 1), (10, 10));
    assert_eq!(at(&session, 10, 10, 0x1000), None);
    assert_eq!(at(&session, 10, 10, 0x9000), some("/init", 0));
    assert_eq!(session.comm_of(10).map(|id| session.comm(id)), Some(&b"init"[..]));
}

#[test]
fn when_a_thread_execs_the_whole_group_is_another_program() {
    let mut session = Session::new();
    comm(&mut session, 10, 10, "server", Misc::empty());
    map(&mut session, 10, 0x1000, 0x1000, 0, "/server");
    fork(&mut session, (10, 10), (10, 11));
    // The thread that calls exec gets the number of the leader.
    tell(&mut session, Misc::empty(), Record::Exit(Task { pid: 10, tid: 11, ..Task::default() }));
    comm(&mut session, 10, 10, "helper", Misc::COMM_EXEC);
    for (start, name) in [(0x5000, "/helper"), (0x7000, "[vdso]"), (0x9000, "/lib")] {
        map(&mut session, 10, start, 0x1000, 0, name);
    }
    assert_eq!(at(&session, 10, 11, 0x1000), None);
    assert_eq!(at(&session, 10, 11, 0x5000), some("/helper", 0));
    assert!(session.thread(11).is_some_and(|thread| thread.ended));
}

#[test]
fn a_jitdump_belongs_to_the_maps_of_its_process() {
    let mut session = Session::new();
    let dump = |session: &Session, pid| {
        let object = session.maps_of(pid, pid).jit_dump()?.object;
        Some(String::from_utf8_lossy(&session.object(object).name).into_owned())
    };
    map(&mut session, 10, 0x1000, 0x1000, 0, "//anon");
    for other in ["/tmp/jit-.dump", "/tmp/jit-1x.dump", "/tmp/xjit-1.dump", "/jit-1.dump/x"] {
        map(&mut session, 10, 0x9000, 0x1000, 0, other);
        assert_eq!(dump(&session, 10), None, "{other}");
    }
    let before = session.maps_of(10, 10).id();
    map(&mut session, 10, 0x3000, 0x1000, 0, "/home/x/.debug/jit/jit-10.dump");
    assert_ne!(session.maps_of(10, 10).id(), before);
    assert_eq!(dump(&session, 10).as_deref(), Some("/home/x/.debug/jit/jit-10.dump"));
    assert_eq!(at(&session, 10, 10, 0x1010), some("//anon", 0x1010));
    // Unmapping it is not told; the child has its parent's code.
    fork(&mut session, (10, 10), (11, 11));
    assert_eq!(dump(&session, 11).as_deref(), Some("/home/x/.debug/jit/jit-10.dump"));
    map(&mut session, 11, 0x3000, 0x1000, 0, "/tmp/jit-11.dump");
    assert_eq!(dump(&session, 11).as_deref(), Some("/tmp/jit-11.dump"));
    comm(&mut session, 10, 10, "java", Misc::COMM_EXEC);
    assert_eq!(dump(&session, 10), None);
}

#[test]
fn the_kernels_code_is_that_of_the_moment() {
    let mut session = Session::new();
    let poke = |session: &mut Session, addr, old, new| {
        let poke = TextPoke { addr, old, new, ..TextPoke::default() };
        tell(session, Misc::empty(), Record::TextPoke(poke));
    };
    let code = |session: &Session| {
        let mut bytes = *b"ABCDEFGH";
        let count = session.kernel_text().apply(0x1000, &mut bytes);
        (String::from_utf8_lossy(&bytes).into_owned(), count)
    };
    assert_eq!(code(&session), ("ABCDEFGH".into(), 0));
    poke(&mut session, 0x1002, b"CDE", b"123");
    assert_eq!(code(&session), ("AB123FGH".into(), 3));
    poke(&mut session, 0x1004, b"3F", b"89");
    poke(&mut session, 0xfff, b"@A", b"!?");
    poke(&mut session, 0x1008, b"I", b"i");
    assert_eq!(code(&session), ("?B1289GH".into(), 5));
    poke(&mut session, 0x1002, b"12", b"CD");
    assert_eq!(code(&session), ("?BCD89GH".into(), 5));
    poke(&mut session, 0x1006, b"", b"tramp");
    assert_eq!(code(&session).0, "?BCD89tr");
    poke(&mut session, 0x1006, b"tramp", b"");
    assert_eq!(code(&session), ("?BCD89GH".into(), 5));
    poke(&mut session, u64::MAX, b"", b"ab");
    assert_eq!((session.kernel_text().apply(u64::MAX, &mut [0; 2]), session.kernel_text().pokes()), (0, 8));
}

#[test]
fn what_has_no_maps_has_a_name() {
    let mut session = Session::new();
    let misc = Misc::empty().with_cpu_mode(CpuMode::GUEST_KERNEL);
    let start = 0xffff_ffff_8100_0000;
    let name = Text::new(b"[guest.kernel.kallsyms.77]_text");
    let mmap = Mmap { tid: Tid { pid: 77, tid: 0 }, addr: start, len: 0x1000, pgoff: start, filename: name };
    tell(&mut session, misc, Record::Mmap(mmap));
    assert!(session.resolve(77, 77, Level::GuestKernel, start).is_some());
    assert_eq!(session.resolve(77, 77, Level::Kernel, start), None, "the host's is not the guest's");
    for (mode, name, letter) in [
        (CpuMode::GUEST_KERNEL, "[guest.kernel]", 'g'),
        (CpuMode::GUEST_USER, "[guest.user]", 'u'),
        (CpuMode::HYPERVISOR, "[hypervisor]", 'H'),
        (CpuMode(0), "[unknown]", '?'),
    ] {
        let level = Level::of(Misc::empty().with_cpu_mode(mode));
        assert_eq!(session.resolve(77, 77, level, 0x1234), None);
        assert_eq!((level.object_name(), level.letter()), (name, letter));
    }
}

/// Each address space costs what it changes, and what cannot be told apart any more is bounded.
#[test]
fn forked_maps_are_shared_up_to_what_a_child_changes() {
    let mut session = Session::new();
    for number in 0..10_000 {
        map(&mut session, 1, number * 0x2000, 0x1000, 0, "/lib/x.so");
    }
    for child in 2..5_000 {
        fork(&mut session, (1, 1), (child, child));
        map(&mut session, child, 0x5000_0000 + u64::from(child), 1, 0, "/lib/y.so");
    }
    assert_eq!(session.maps_of(4_999, 4_999).len(), 10_001);
    assert_eq!(at(&session, 4_999, 4_999, 0x5000_0000 + 4_999), some("/lib/y.so", 0));
    assert_eq!(at(&session, 4_998, 4_998, 0x5000_0000 + 4_999), None);
    let held = session.held.count();
    assert!(held < 10_000 + 5_000 * 60, "{held}");
    // Another program, and nothing is left of the old maps once it maps something.
    for pid in 1..5_000 {
        comm(&mut session, pid, pid, "new", Misc::COMM_EXEC);
        map(&mut session, pid, 0x1000, 0x1000, 0, "[vdso]");
        map(&mut session, pid, 0x9000, 0x1000, 0, "/bin/new");
    }
    assert!(session.held.count() <= 5_000 * 2, "{}", session.held.count());
}

#[test]
fn mappings_that_found_no_room_are_counted() {
    let mut session = Session::new();
    let page = |number: u64| number * 0x2000;
    for number in 0..super::maps::MOST as u64 {
        map(&mut session, 10, page(number), 0x1000, 0, "/lib/x.so");
    }
    map(&mut session, 10, page(0), 0x1000, 0, "/lib/x.so");
    assert_eq!(session.dropped(), 0, "told again");
    for number in 0..3 {
        map(&mut session, 10, page(super::maps::MOST as u64 + number), 0x1000, 0, "/lib/x.so");
    }
    assert_eq!(session.dropped(), 3);
    assert_eq!(at(&session, 10, 10, page(super::maps::MOST as u64)), None);
}

#[test]
fn text_on_huge_pages_is_still_that_of_its_file() {
    const HUGE: u64 = 2 << 20;
    let text = |session: &Session, pid| {
        let at = |ip| at(session, pid, pid, ip).unwrap();
        let whole = ("/bin/server".to_owned(), 3 * HUGE);
        assert_eq!([at(HUGE + 0x1000), at(4 * HUGE), at(6 * HUGE)].map(|found| found.0), ["/bin/server"; 3]);
        assert_eq!(at(4 * HUGE), whole);
    };
    // The program moves its code while it is recorded.
    let mut session = Session::new();
    code(&mut session, 10, HUGE + 0x1000, 6 * HUGE, 0x1000, "/bin/server");
    code(&mut session, 10, 2 * HUGE, 3 * HUGE, 0, "//anon");
    text(&session, 10);
    // It had moved it before.
    code(&mut session, 11, HUGE + 0x1000, HUGE - 0x1000, 0x1000, "/bin/server");
    code(&mut session, 11, 2 * HUGE, 3 * HUGE, 0, "//anon");
    assert_eq!(at(&session, 11, 11, 4 * HUGE).unwrap().0, "//anon", "nothing tells that it is not made");
    code(&mut session, 11, 5 * HUGE, 2 * HUGE, 4 * HUGE, "/bin/server");
    text(&session, 11);
    // Code that is made: it is not on huge pages, has no file around it, or one of another place.
    code(&mut session, 12, HUGE + 0x1000, 6 * HUGE, 0x1000, "/bin/server");
    code(&mut session, 12, 2 * HUGE + 0x1000, HUGE, 0, "//anon");
    code(&mut session, 12, 16 * HUGE, HUGE, 0, "//anon");
    code(&mut session, 12, 17 * HUGE, HUGE, 4 * HUGE, "/bin/server");
    code(&mut session, 12, 7 * HUGE, HUGE, 0, "//anon");
    for ip in [2 * HUGE + 0x1000, 16 * HUGE, 7 * HUGE + 0x2000] {
        assert_eq!(at(&session, 12, 12, ip).unwrap().0, "//anon", "{ip:#x}");
    }
}
