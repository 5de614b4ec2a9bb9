//! BPF programs on events (section K).

use crate::machine::{KERNEL, ME, Machine, USER, attr, decoded, software, with};
use perfuse_engine::abi::{Attr, AttrFlags, Errno, EventType, SampleType, Software};
use perfuse_engine::{
    BpfProgram, BpfQuery, CloneFlags, Effect, EventKey, Events, Hit, Ioctl, Notice, ProgramContext,
    ProgramKind, Run, State,
};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Descriptors of programs.
const FOR_OVERFLOWS: i32 = 1000;
const FOR_TRACEPOINTS: i32 = 1001;
const FOR_PROBES: i32 = 1002;
const OTHER: i32 = 1003;

/// A machine with a program of each kind, which answers with what is told it here.
fn machine() -> (Machine, Arc<AtomicU32>) {
    let mut machine = Machine::new(1);
    let answer = Arc::new(AtomicU32::new(1));
    let kinds = [ProgramKind::PerfEvent, ProgramKind::Tracepoint, ProgramKind::Kprobe, ProgramKind::Other];
    for (number, kind) in kinds.into_iter().enumerate() {
        let answer = answer.clone();
        let program = BpfProgram {
            id: 70 + number as u32,
            kind,
            wants_stacks: false,
            run: Arc::new(move |_: &ProgramContext<'_>| answer.load(Ordering::Relaxed)),
        };
        machine.world.programs.insert(FOR_OVERFLOWS + number as i32, program);
    }
    machine.engine.declare_tracepoint(5);
    (machine, answer)
}

fn set(machine: &mut Machine, fd: i32, program: i32) -> Result<u64, Errno> {
    machine.ioctl(fd, Ioctl::SetBpf(program))
}

fn tracepoint(id: u64) -> Attr {
    attr(EventType::TRACEPOINT, id)
}

fn sampling() -> Attr {
    let mut asked = software(Software::PAGE_FAULTS);
    asked.set_period(1);
    asked
}

/// Rules K1, C54: each kind of event takes one kind of program, once.
#[test]
fn programs_are_for_kinds_of_events() {
    let (mut machine, _) = machine();
    let faults = machine.own(&sampling());
    let counting = machine.own(&software(Software::PAGE_FAULTS));
    let (hits, same, more) = (tracepoint(5), tracepoint(5), tracepoint(5));
    let [hits, same, more] = [hits, same, more].map(|asked| machine.own(&asked));
    for (fd, program, answer) in [
        (faults, -1, Err(Errno::EBADF)),
        (faults, FOR_TRACEPOINTS, Err(Errno::EINVAL)),
        (faults, OTHER, Err(Errno::EINVAL)),
        (faults, FOR_OVERFLOWS, Ok(0)),
        (faults, FOR_OVERFLOWS, Err(Errno::EEXIST)),
        // That there is one is told before that the other is wrong.
        (faults, FOR_PROBES, Err(Errno::EEXIST)),
        (counting, FOR_OVERFLOWS, Ok(0)),
        (hits, FOR_OVERFLOWS, Err(Errno::EINVAL)),
        (hits, FOR_PROBES, Err(Errno::EINVAL)),
        (hits, FOR_TRACEPOINTS, Ok(0)),
        (hits, FOR_TRACEPOINTS, Err(Errno::EEXIST)),
        // Of a tracepoint the kind comes first.
        (hits, FOR_OVERFLOWS, Err(Errno::EINVAL)),
        (same, FOR_TRACEPOINTS, Err(Errno::EEXIST)),
    ] {
        assert_eq!(set(&mut machine, fd, program), answer, "{fd} {program}");
    }
    // The program goes with the event that brought it.
    machine.close(hits);
    assert_eq!(set(&mut machine, more, FOR_TRACEPOINTS), Ok(0));
    // One that wants stacks of precise samples needs whole callchains.
    machine.world.programs.get_mut(&FOR_OVERFLOWS).unwrap().wants_stacks = true;
    let mut precise = sampling();
    precise.flags = precise.flags.with_precise_ip(1);
    let fd = machine.own(&precise);
    assert_eq!(set(&mut machine, fd, FOR_OVERFLOWS), Err(Errno::EPROTO));
    precise.sample_type |= SampleType::CALLCHAIN;
    let fd = machine.own(&precise);
    assert_eq!(set(&mut machine, fd, FOR_OVERFLOWS), Ok(0));
}

/// Rules K3, I1: 0 leaves no sample, no signal, and the number of overflows that are left as it was; the
/// count goes on. Copies have the program too.
#[test]
fn a_program_decides_about_samples() {
    let (mut machine, answer) = machine();
    let asked = with(sampling(), AttrFlags::DISABLED);
    let fd = machine.own(&asked);
    let key = machine.key(fd);
    machine.engine.set_async(key, true);
    let mut reader = machine.map(fd, 1);
    set(&mut machine, fd, FOR_OVERFLOWS).unwrap();
    machine.ioctl(fd, Ioctl::Refresh(2)).unwrap();
    answer.store(0, Ordering::Relaxed);
    machine.engine.effects().for_each(drop);
    machine.fault(0, 3);
    assert_eq!((machine.count(fd), reader.take().len()), (3, 0));
    let signal = |effect: &Effect| matches!(effect, Effect::Signal(..));
    assert!(!machine.engine.effects().any(|effect| signal(&effect)));
    answer.store(8, Ordering::Relaxed);
    machine.fault(0, 3);
    assert_eq!(decoded(&reader.take(), &asked).len(), 2);
    assert_eq!((machine.count(fd), machine.state(fd)), (5, Some(State::Off)));
    let last = machine.engine.effects().filter(signal).last();
    assert_eq!(last, Some(Effect::Signal(key, Notice::Hup)));

    let asked = with(sampling(), AttrFlags::INHERIT);
    let fd = machine.open(&asked, perfuse_engine::OpenArguments { cpu: 0, ..Default::default() }).unwrap();
    let mut reader = machine.map(fd, 1);
    set(&mut machine, fd, FOR_OVERFLOWS).unwrap();
    answer.store(0, Ordering::Relaxed);
    let child = machine.fork(ME, 200, CloneFlags::default()).unwrap();
    machine.switch(0, Some(child));
    machine.fault(0, 2);
    assert_eq!((machine.count(fd), reader.take().len()), (2, 0));
}

/// Rule K32: a program knows the count and the times of its event.
#[test]
fn a_program_reads_its_event() {
    let mut machine = Machine::new(1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let run = move |context: &ProgramContext<'_>| {
        told.lock().unwrap().push((context.values, context.addr, context.cpu_state.is_user()));
        0
    };
    let program = BpfProgram { id: 1, kind: ProgramKind::PerfEvent, wants_stacks: false, run: Arc::new(run) };
    machine.world.programs.insert(1, program);
    let fd = machine.own(&sampling());
    set(&mut machine, fd, 1).unwrap();
    for addr in [0x1000, 0x2000] {
        machine.pass(50);
        machine.engine.software(0, machine.now, Software::PAGE_FAULTS, 1, addr, &USER);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen[..], [([1, 50, 50], 0x1000, true), ([2, 100, 100], 0x2000, true)]);
}

/// Rules K4, J35: an even answer of one program silences the tracepoint for all, whosever it is.
#[test]
fn a_program_silences_a_tracepoint() {
    let (mut machine, answer) = machine();
    let owner = machine.own(&with(tracepoint(5), AttrFlags::DISABLED));
    let other = machine.own(&tracepoint(5));
    set(&mut machine, owner, FOR_TRACEPOINTS).unwrap();
    for (result, expected) in [(0, 0), (2, 0), (1, 1), (3, 2)] {
        answer.store(result, Ordering::Relaxed);
        machine.engine.tracepoint(0, machine.now, &Hit::new(5, &[]), &KERNEL);
        assert_eq!(machine.count(other), expected, "{result}");
    }
    answer.store(0, Ordering::Relaxed);
    machine.close(owner);
    machine.engine.tracepoint(0, machine.now, &Hit::new(5, &[]), &USER);
    assert_eq!(machine.count(other), 3);
}

/// Rules K10, C56.
#[test]
fn the_programs_of_a_tracepoint_are_told() {
    let (mut machine, _) = machine();
    let fds = [1, 2, 3].map(|number| {
        let program = BpfProgram {
            id: number,
            kind: ProgramKind::Tracepoint,
            wants_stacks: false,
            run: Arc::new(|_: &ProgramContext<'_>| 1),
        };
        machine.world.programs.insert(number as i32, program);
        let fd = machine.own(&tracepoint(5));
        set(&mut machine, fd, number as i32).unwrap();
        fd
    });
    let ask = |machine: &mut Machine, fd, room| {
        let mut query = BpfQuery { room, ..BpfQuery::default() };
        let answer = machine.ioctl(fd, Ioctl::QueryBpf(&mut query));
        (answer, query.count, query.ids)
    };
    assert_eq!(ask(&mut machine, fds[0], 64), (Ok(0), 3, vec![1, 2, 3]));
    assert_eq!(ask(&mut machine, fds[1], 2), (Err(Errno::ENOSPC), 3, vec![1, 2]));
    assert_eq!(ask(&mut machine, fds[1], 0), (Ok(0), 3, vec![]));
    assert_eq!(ask(&mut machine, fds[1], 65), (Err(Errno::E2BIG), 0, vec![]));
    machine.close(fds[1]);
    assert_eq!(ask(&mut machine, fds[0], 64), (Ok(0), 2, vec![1, 3]));
    let faults = machine.own(&sampling());
    assert_eq!(ask(&mut machine, faults, 64).0, Err(Errno::EINVAL));
    machine.world.privileged = false;
    assert_eq!(ask(&mut machine, faults, 64).0, Err(Errno::EPERM));
    machine.world.privileged = true;
}

/// A program that writes to events and reads them, and keeps the answers.
struct Writer {
    to: Vec<EventKey>,
    answers: Mutex<Vec<Result<[u64; 3], Errno>>>,
}

impl Run for Writer {
    fn run(&self, context: &ProgramContext<'_>, events: &mut dyn Events) -> u32 {
        assert_eq!(context.task, Some(ME));
        let mut answers = self.answers.lock().unwrap();
        for &event in &self.to {
            answers.push(events.output(event, b"twelve bytes").map(|()| [0; 3]));
            answers.push(events.read(event));
        }
        0
    }
}

/// Rules K21, K30, K31: a program writes samples with its own bytes to a `BPF_OUTPUT` event that is on its cpu, wakes its readers, and
/// reads events of its task or cpu.
#[test]
fn a_program_writes_and_reads_events() {
    let mut machine = Machine::new(2);
    let mut output = software(Software::BPF_OUTPUT);
    (output.sample_type, output.wakeup) = (SampleType::RAW | SampleType::PERIOD | SampleType::ADDR, 1);
    output.set_period(1);
    let own = machine.own(&output);
    let mut ring = machine.map(own, 1);
    let of_cpu = machine.wide(&output, 0).unwrap();
    let elsewhere = machine.wide(&output, 1).unwrap();
    let off = machine.own(&with(output, AttrFlags::DISABLED));
    let counter = machine.own(&software(Software::DUMMY));
    let copied = machine.own(&with(software(Software::DUMMY), AttrFlags::INHERIT));
    let pinned = machine.own(&with(software(Software::DUMMY), AttrFlags::DISABLED | AttrFlags::PINNED));
    let child = machine.fork(ME, 200, CloneFlags::default()).unwrap();
    let arguments = perfuse_engine::OpenArguments { pid: 200, ..Default::default() };
    let other = machine.open(&software(Software::DUMMY), arguments).unwrap();
    let _ = child;
    let all = [own, of_cpu, elsewhere, off, counter, copied, pinned, other];
    let to = all.map(|fd| machine.key(fd)).to_vec();
    assert_eq!(machine.engine.is_for_programs(to[5]), Err(Errno::EOPNOTSUPP));
    let writer = Arc::new(Writer { to, answers: Mutex::default() });
    let program =
        BpfProgram { id: 1, kind: ProgramKind::PerfEvent, wants_stacks: false, run: writer.clone() };
    machine.world.programs.insert(1, program);
    let faults = machine.own(&sampling());
    set(&mut machine, faults, 1).unwrap();
    machine.poll(own);
    machine.pass(50);
    machine.fault(0, 1);
    let answers = std::mem::take(&mut *writer.answers.lock().unwrap());
    let [outputs, reads] = [0, 1].map(|odd| {
        let all = answers.iter().skip(odd).step_by(2);
        all.map(|answer| answer.as_ref().map(|values| values[0]).map_err(|errno| *errno)).collect::<Vec<_>>()
    });
    let (gone, wrong) = (Err(Errno::EOPNOTSUPP), Err(Errno::EINVAL));
    // One has no ring.
    assert_eq!(outputs, [Ok(0), Err(Errno::ENOSPC), gone, gone, wrong, wrong, wrong, wrong]);
    assert_eq!(reads, [Ok(0), Ok(0), wrong, Ok(0), Ok(0), gone, Err(Errno::EBUSY), wrong]);
    assert_eq!(answers[1], Ok([0, 50, 50]));
    let bytes = ring.take();
    let records = decoded(&bytes, &output);
    let [record] = &records[..] else { panic!("{records:?}") };
    let perfuse_engine::abi::record::Record::Sample(sample) = &record.record else { panic!("{record:?}") };
    assert_eq!((sample.period, sample.addr), (Some(0), Some(0)));
    assert_eq!(&sample.raw.as_ref().unwrap().as_bytes()[..12], b"twelve bytes");
    assert!(machine.poll(own).contains(perfuse_engine::abi::PollFlags::IN));
    assert_eq!(machine.count(own), 0);
    // A ring that is paused or full takes nothing.
    machine.ioctl(own, Ioctl::PauseOutput(true)).unwrap();
    machine.fault(0, 1);
    assert_eq!(writer.answers.lock().unwrap()[0], Err(Errno::ENOSPC));
}

/// Rule K2: a link takes its program off the event again, and lets it go.
#[test]
fn a_program_is_taken_off_again() {
    let (mut machine, answer) = machine();
    answer.store(0, Ordering::Relaxed);
    for (asked, number) in [(sampling(), FOR_OVERFLOWS), (tracepoint(5), FOR_TRACEPOINTS)] {
        let fd = machine.own(&asked);
        let key = machine.key(fd);
        let program = machine.world.programs[&number].clone();
        let run = Arc::downgrade(&program.run);
        let holders = run.strong_count();
        assert_eq!(machine.engine.attach_program(key, program.clone()), Ok(()));
        assert_eq!(machine.engine.attach_program(key, program), Err(Errno::EEXIST));
        machine.engine.detach_program(key);
        assert_eq!(run.strong_count(), holders - 1);
        assert_eq!(set(&mut machine, fd, number), Ok(0));
        machine.close(fd);
        assert_eq!(run.strong_count(), holders - 1);
        assert_eq!(
            machine.engine.attach_program(key, machine.world.programs[&number].clone()),
            Err(Errno::EBADF)
        );
    }
}

/// Rule K5: a program of a probe is for its own event, and for hits in the process that this measures.
#[test]
fn a_program_silences_its_own_probe() {
    let (mut machine, answer) = machine();
    let probes = perfuse_engine::ProbePmu::uprobe(Box::new(crate::kinds::Places));
    let probes = machine.engine.register(Box::new(probes)).unwrap();
    let (_, type_) = machine.engine.pmu_by_name("uprobe").unwrap();
    let probe = Attr { config2: 3, ..attr(type_, 0) };
    let (own, other) = (machine.own(&probe), machine.own(&probe));
    let ran = Arc::new(AtomicU32::new(0));
    let (told, said) = (ran.clone(), answer.clone());
    let run = move |_: &ProgramContext<'_>| {
        told.fetch_add(1, Ordering::Relaxed);
        said.load(Ordering::Relaxed)
    };
    let program = BpfProgram { id: 9, kind: ProgramKind::Kprobe, wants_stacks: false, run: Arc::new(run) };
    machine.world.programs.insert(9, program);
    set(&mut machine, own, 9).unwrap();
    for (result, expected) in [(0, 0), (2, 0), (1, 1), (3, 2)] {
        answer.store(result, Ordering::Relaxed);
        machine.engine.probe(probes, 0, machine.now, &Hit::new(6, &[]), &USER);
        assert_eq!(machine.count(own), expected, "{result}");
    }
    assert_eq!((machine.count(other), ran.load(Ordering::Relaxed)), (4, 4));
    let child = machine.fork(ME, 200, CloneFlags::default()).unwrap();
    machine.switch(0, Some(child));
    machine.engine.probe(probes, 0, machine.now, &Hit::new(6, &[]), &USER);
    assert_eq!(ran.load(Ordering::Relaxed), 4);
    // The same program may be on several events of the place.
    assert_eq!(set(&mut machine, other, 9), Ok(0));
}
