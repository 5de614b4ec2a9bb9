//! Side-band records: the events that hear of them (rules H40 to H54).

use crate::machine::{self, Machine, Reader, decoded, software, with};
use perfuse_engine::abi::record::{Cpu, MmapFile, NamespaceLink, Record, Tid};
use perfuse_engine::abi::{Attr, AttrFlags, SampleType, Software};
use perfuse_engine::{CloneFlags, Mapping, TaskFacts, TaskId};

fn listener(flags: AttrFlags) -> Attr {
    with(software(Software::DUMMY), flags)
}

fn code<'a>(build_id: Option<&'a [u8]>) -> Mapping<'a> {
    Mapping {
        addr: 0x40_0000,
        len: 0x1000,
        pgoff: 0,
        file: MmapFile::Inode { maj: 8, min: 1, ino: 77, ino_generation: 5 },
        build_id,
        prot: 5,
        flags: 2,
        name: b"/bin/cat",
    }
}

/// The records of a ring, by their kinds.
fn kinds(reader: &mut Reader, attr: &Attr) -> Vec<&'static str> {
    let bytes = reader.take();
    let name =
        |record: &Record<'_>| record.kind().header_name().unwrap_or("?").trim_start_matches("PERF_RECORD_");
    decoded(&bytes, attr).iter().map(|decoded| name(&decoded.record)).collect()
}

/// Rules H40, H53: a task's own events hear of it, and the cpu's hear of every task; of others' no other event.
#[test]
fn cpus_hear_of_all_tasks_and_tasks_of_themselves() {
    let mut machine = Machine::new(1);
    let attr = listener(AttrFlags::COMM);
    let (own, wide) = (machine.own(&attr), machine.wide(&attr, 0).unwrap());
    let (mut own, mut wide) = (machine.map(own, 1), machine.map(wide, 1));
    machine.engine.comm(machine::ME, 0, machine.now, b"me", false);
    let other = machine.task(200);
    machine.switch(0, Some(other));
    machine.engine.comm(other, 0, machine.now, b"other", false);
    assert_eq!(kinds(&mut own, &attr), ["COMM"]);
    assert_eq!(kinds(&mut wide, &attr), ["COMM", "COMM"]);
}

/// Rules H40, Q18: an event of a cpu that wants nothing but namespaces or cgroups is not among its listeners.
#[test]
fn namespaces_and_cgroups_alone_are_not_heard_on_a_cpu() {
    let mut machine = Machine::new(1);
    for (flags, heard) in [
        (AttrFlags::NAMESPACES, false),
        (AttrFlags::CGROUP, false),
        (AttrFlags::NAMESPACES | AttrFlags::CGROUP | AttrFlags::COMM, true),
    ] {
        let attr = listener(flags);
        let fd = machine.wide(&attr, 0).unwrap();
        let mut reader = machine.map(fd, 1);
        let links = [NamespaceLink { dev: 4, ino: 9 }; 7];
        machine.engine.set_namespaces(machine::ME, 0, machine.now, &links);
        machine.engine.cgroup_made(0, machine.now, 5, b"/new");
        let expected: &[&str] = if heard { &["NAMESPACES", "CGROUP"] } else { &[] };
        assert_eq!(kinds(&mut reader, &attr), expected, "{flags:?}");
    }
}

/// A child is in the namespaces of its parent, unless it is told to be in others before it is made.
#[test]
fn a_child_may_be_made_in_other_namespaces() {
    let mut machine = Machine::new(1);
    let attr = listener(AttrFlags::NAMESPACES);
    let fd = machine.own(&attr);
    let mut reader = machine.map(fd, 1);
    machine.engine.know_namespaces(machine::ME, [NamespaceLink { dev: 4, ino: 9 }; 7]);
    machine.fork(machine::ME, 50, CloneFlags::default()).unwrap();
    machine.engine.add_task(TaskId(51), TaskFacts::new(51, 51));
    machine.engine.know_namespaces(TaskId(51), [NamespaceLink { dev: 4, ino: 10 }; 7]);
    machine.fork(machine::ME, 51, CloneFlags::default()).unwrap();
    let bytes = reader.take();
    let inode = |record: &Record<'_>| match record {
        Record::Namespaces(told) => told.links.iter().next().map(|link| link.ino),
        _ => None,
    };
    let inodes: Vec<_> = decoded(&bytes, &attr).iter().map(|decoded| inode(&decoded.record)).collect();
    assert_eq!(inodes, [Some(9), Some(10)]);
}

/// Rule H41: an event that is off hears nothing, and one that is on hears though its leader is off.
#[test]
fn what_is_off_hears_nothing() {
    let mut machine = Machine::new(2);
    let attr = listener(AttrFlags::COMM);
    let leader = machine.own(&with(attr, AttrFlags::DISABLED));
    let sibling = machine.join(&attr, leader).unwrap();
    let (mut off, mut on) = (machine.map(leader, 1), machine.map(sibling, 1));
    // Bound to another cpu than the one where it happens.
    let elsewhere = machine.wide(&attr, 1).unwrap();
    let mut elsewhere = machine.map(elsewhere, 1);
    machine.engine.comm(machine::ME, 0, machine.now, b"me", false);
    assert_eq!(kinds(&mut off, &attr), [""; 0]);
    assert_eq!(kinds(&mut on, &attr), ["COMM"]);
    assert_eq!(kinds(&mut elsewhere, &attr), [""; 0]);
}

/// Rules H42, Q14: mmap2 hears of mappings only if some event anywhere asks for them with mmap or mmap_data.
#[test]
fn mmap2_alone_hears_of_no_mapping() {
    let mut machine = Machine::new(1);
    let attr = listener(AttrFlags::MMAP2);
    let fd = machine.own(&attr);
    let mut reader = machine.map(fd, 1);
    machine.engine.mapped(machine::ME, 0, machine.now, &code(None));
    assert_eq!(kinds(&mut reader, &attr), [""; 0]);
    let other = machine.task(200);
    let asks = machine.open_as(other, &listener(AttrFlags::MMAP), Default::default()).unwrap();
    machine.engine.mapped(machine::ME, 0, machine.now, &code(None));
    assert_eq!(kinds(&mut reader, &attr), ["MMAP2"]);
    machine.close(asks);
    machine.engine.mapped(machine::ME, 0, machine.now, &code(None));
    assert_eq!(kinds(&mut reader, &attr), [""; 0]);
}

/// Rules H52, Q15: each listener gets the file as it asked for it, and the bit in the header fits: here Linux
/// up to 6.18 lets the bit of one slip into the record of another.
#[test]
fn build_ids_are_told_to_those_who_ask() {
    let mut machine = Machine::new(1);
    let plain = listener(AttrFlags::MMAP | AttrFlags::MMAP2);
    let asks = listener(AttrFlags::MMAP | AttrFlags::MMAP2 | AttrFlags::BUILD_ID);
    let all = [plain, asks, plain].map(|attr| {
        let fd = machine.own(&attr);
        (machine.map(fd, 1), attr)
    });
    machine.engine.mapped(machine::ME, 0, machine.now, &code(Some(&[7; 20])));
    for (index, (mut reader, attr)) in all.into_iter().enumerate() {
        let bytes = reader.take();
        let Record::Mmap2(mmap) = decoded(&bytes, &attr)[0].record else { panic!("an MMAP2") };
        let has_build_id = matches!(mmap.file, MmapFile::BuildId(id) if id.as_bytes() == [7; 20]);
        assert_eq!(has_build_id, index == 1, "{index}: {:?}", mmap.file);
        assert_eq!(mmap.filename.as_bytes(), b"/bin/cat");
    }
}

/// Rules H43, H51: the trailer has what the sample type asks for; data is mapped for those who want data.
#[test]
fn the_trailer_tells_who_when_and_where() {
    let mut machine = Machine::new(1);
    let mut attr = listener(AttrFlags::MMAP_DATA | AttrFlags::SAMPLE_ID_ALL);
    attr.sample_type = SampleType::TID | SampleType::TIME | SampleType::CPU | SampleType::IDENTIFIER;
    let fd = machine.own(&attr);
    let mut reader = machine.map(fd, 1);
    let id = machine.ioctl(fd, perfuse_engine::Ioctl::Id).unwrap();
    machine.pass(1234);
    let data = Mapping { prot: 3, ..code(None) };
    machine.engine.mapped(machine::ME, 0, machine.now, &data);
    machine.engine.mapped(machine::ME, 0, machine.now, &code(None));
    let bytes = reader.take();
    let all = decoded(&bytes, &attr);
    assert_eq!(all.len(), 1, "code is for others");
    assert!(all[0].misc.contains(perfuse_engine::abi::record::Misc::MMAP_DATA));
    let trailer = all[0].sample_id;
    assert_eq!(trailer.tid.map(|tid| (tid.pid, tid.tid)), Some((100, 100)));
    assert_eq!((trailer.time, trailer.cpu), (Some(machine.now), Some(Cpu::from(0))));
    assert_eq!((trailer.identifier, trailer.id, trailer.stream_id), (Some(id), None, None));
}

/// A thread that replaces its program has its process's number from then on, as de_thread() of Linux makes it, before the new name is told.
#[test]
fn a_thread_that_execs_is_its_process() {
    let mut machine = Machine::new(1);
    let attr = listener(AttrFlags::TASK | AttrFlags::COMM);
    let fd = machine.wide(&attr, 0).unwrap();
    let mut reader = machine.map(fd, 1);
    let thread =
        machine.fork(machine::ME, 201, CloneFlags { thread: true, ..CloneFlags::default() }).unwrap();
    machine.engine.renumber(thread, Tid { pid: 100, tid: 100 });
    machine.engine.exec(thread, 0, machine.now, b"cat", false);
    machine.exit(thread);
    let bytes = reader.take();
    let all = decoded(&bytes, &attr);
    let [_, comm, exit] = &all[..] else { panic!("{all:?}") };
    let Record::Comm(comm) = comm.record else { panic!("{comm:?}") };
    assert_eq!((comm.tid.pid, comm.tid.tid, comm.name.as_bytes()), (100, 100, &b"cat"[..]));
    let Record::Exit(exit) = exit.record else { panic!("{exit:?}") };
    assert_eq!((exit.pid, exit.tid), (100, 100));
}

/// Rules Q16, Q17: an EXIT has the parent's process number twice; COMM tells of exec also without comm_exec.
#[test]
fn lives_of_tasks_are_told() {
    let mut machine = Machine::new(1);
    let attr = listener(AttrFlags::TASK | AttrFlags::COMM);
    let fd = machine.wide(&attr, 0).unwrap();
    let mut reader = machine.map(fd, 1);
    let child = machine.fork(machine::ME, 201, CloneFlags::default()).unwrap();
    machine.engine.exec(child, 0, machine.now, b"cat", false);
    machine.exit(child);
    let bytes = reader.take();
    let all = decoded(&bytes, &attr);
    let [fork, comm, exit] = &all[..] else { panic!("{all:?}") };
    let Record::Fork(fork) = fork.record else { panic!("{fork:?}") };
    assert_eq!((fork.pid, fork.ppid, fork.tid, fork.ptid), (201, 100, 201, 100));
    assert!(comm.misc.contains(perfuse_engine::abi::record::Misc::COMM_EXEC));
    let Record::Comm(comm) = comm.record else { panic!("{comm:?}") };
    assert_eq!(comm.name.as_bytes(), b"cat");
    let Record::Exit(exit) = exit.record else { panic!("{exit:?}") };
    assert_eq!((exit.pid, exit.tid, exit.ppid), (201, 201, exit.ptid));
}
