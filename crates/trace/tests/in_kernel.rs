//! Calls summed up by programs are those that are summed up from records: the programs run here, in the interpreter.

use perfuse_abi::regs::Arch;
use perfuse_bpf::{Insn, Machine, MapId, MapSpec, Maps, ProgramId, ProgramSpec, ProgramType, World};
use perfuse_trace::{
    Call, CallQuestion, CallRecord, CallSet, CallSums, CallTexts, Calls, Element, Entries, Expr, Groups,
    InKernel, Joiner, Moment, NoRoom, OffCpu, OffCpuRow, Question, Rows, Schema, Whose, call_schema,
};
use proptest::prelude::*;
use std::collections::HashMap;

/// The thread that hits a tracepoint, and when.
#[derive(Default)]
struct Now {
    time: u64,
    pid: u32,
    tid: u32,
    cpu: u32,
    arguments: [u64; 6],
    stack: &'static [u64],
    memory: Vec<u8>,
    /// The call, as the registers have it.
    number: u64,
}

/// Where the kernel has the task of a thread.
fn task(tid: u32) -> u64 {
    0xffff_8880_0000_0000 + u64::from(tid) * 0x1000
}

/// Where the registers of the caller are.
const REGISTERS: u64 = 0xffff_c900_0000_1000;

impl World for Now {
    fn read_kernel(&mut self, addr: u64, into: &mut [u8]) -> Result<(), perfuse_abi::Errno> {
        if addr == REGISTERS + 120 {
            into.copy_from_slice(&self.number.to_ne_bytes());
            return Ok(());
        }
        let place = [112, 104, 96, 56, 72, 64].iter().position(|at| REGISTERS + at == addr);
        into.copy_from_slice(&self.arguments[place.ok_or(perfuse_abi::Errno::EFAULT)?].to_ne_bytes());
        Ok(())
    }

    /// The user's memory begins at 0x1000.
    fn read_user(&mut self, addr: u64, into: &mut [u8]) -> Result<(), perfuse_abi::Errno> {
        let from = addr.checked_sub(0x1000).ok_or(perfuse_abi::Errno::EFAULT)? as usize;
        let bytes = self.memory.get(from..from + into.len()).ok_or(perfuse_abi::Errno::EFAULT)?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn time_ns(&mut self) -> u64 {
        self.time
    }

    fn pid_tgid(&mut self) -> u64 {
        u64::from(self.pid) << 32 | u64::from(self.tid)
    }

    fn current_task(&mut self) -> u64 {
        task(self.tid)
    }

    fn cpu(&mut self) -> u32 {
        self.cpu
    }

    fn stack(&mut self, user: bool) -> Result<Vec<u64>, perfuse_abi::Errno> {
        assert!(user);
        // Threads without one are the kernel's.
        if self.stack.is_empty() { Err(perfuse_abi::Errno::EFAULT) } else { Ok(self.stack.to_vec()) }
    }

    fn comm(&mut self) -> [u8; 16] {
        let mut comm = [0; 16];
        let name = format!("thread {}", self.tid);
        comm[..name.len()].copy_from_slice(name.as_bytes());
        comm
    }
}

/// A kernel with programs.
struct Kernel<A> {
    asked: A,
    machine: Machine,
    maps: Vec<MapId>,
    programs: HashMap<&'static str, ProgramId>,
    now: Now,
}

impl Kernel<InKernel> {
    fn new(asked: InKernel) -> Self {
        let programs = asked.programs(Calls::of(Arch::X86_64), Arch::X86_64).expect("programs");
        let mut kernel = Kernel::of(asked.maps(2), programs, asked);
        kernel.asked.beginning().into_iter().for_each(|element| kernel.put(element));
        kernel
    }

    fn sums(&self) -> (CallSums, NoRoom) {
        self.asked.sums(&|map| self.read(map)).expect("maps")
    }
}

impl<A> Kernel<A> {
    fn of(maps: Vec<MapSpec>, programs: Vec<(&'static str, Vec<Insn>)>, asked: A) -> Self {
        let mut machine = Machine::new(Maps::new(2, 1 << 30, 7));
        let maps: Vec<MapId> =
            maps.into_iter().map(|spec| machine.maps.create(spec).expect("a map")).collect();
        let programs = programs.into_iter().map(|(name, insns)| {
            let spec = ProgramSpec { program_type: ProgramType::RawTracepoint, insns: &insns, maps: &maps };
            match machine.load(spec) {
                Ok(id) => (name, id),
                Err(refusal) => panic!("{name}: {refusal}\n{}", perfuse_bpf::listing(&insns)),
            }
        });
        let programs = programs.collect();
        Kernel { asked, machine, maps, programs, now: Now::default() }
    }

    fn put(&mut self, (map, key, value): Element) {
        self.machine.maps.get_mut(self.maps[map]).expect("the map").update(&key, &value, 0).expect("room");
    }

    fn hit(&mut self, name: &str, now: Now, arguments: impl AsRef<[u64]>) {
        self.now = now;
        let Some(&program) = self.programs.get(name) else { return };
        let mut context = [0; 96];
        arguments.as_ref().iter().zip(context.chunks_exact_mut(8)).for_each(|(argument, bytes)| {
            bytes.copy_from_slice(&argument.to_ne_bytes());
        });
        let ran = self.machine.run(program, &mut context, &mut self.now, 100_000).expect("a program");
        assert_eq!(ran.result, Ok(0), "{name}");
    }

    fn read(&self, map: usize) -> Result<Entries, perfuse_abi::Errno> {
        let map = self.machine.maps.get(self.maps[map])?;
        let mut entries = Vec::new();
        let mut key = map.next_key(None);
        while let Ok(found) = key {
            entries.push((found.clone(), map.lookup(&found)?));
            key = map.next_key(Some(&found));
        }
        Ok(entries)
    }
}

fn asked(whose: Whose, by_thread: bool) -> InKernel {
    let rows = if by_thread { Rows::ByThread } else { Rows::ByCall };
    InKernel { whose, asked: CallQuestion { wanted: CallSet::All, failed: false, least_ns: 0, rows } }
}

const GETPID: u64 = 39;
const EXECVE: u64 = 59;
const CLONE: u64 = 56;

#[test]
fn a_command_counts_from_its_execve_on_and_so_does_what_it_starts() {
    for by_thread in [false, true] {
        let mut kernel = Kernel::new(asked(Whose::Followed, by_thread));
        kernel.put(InKernel::thread(10, true));
        let at = |time, tid| Now { time, pid: tid, tid, cpu: tid % 2, ..Now::default() };
        // Nobody is looked for yet.
        kernel.hit("sys_enter", at(1, 10), [0, GETPID]);
        kernel.put(InKernel::look());
        // The end of the call by which it waits, one that fails, and others of a stranger.
        kernel.hit("sys_exit", at(2, 10), [0, 1]);
        kernel.hit("sys_enter", at(3, 10), [0, EXECVE]);
        kernel.hit("sys_exit", at(4, 10), [0, (-2i64) as u64]);
        kernel.hit("sys_enter", at(4, 77), [0, GETPID]);
        kernel.hit("sys_exit", at(5, 77), [0, 77]);
        assert!(kernel.sums().0.rows.is_empty());
        kernel.hit("sys_enter", at(10, 10), [0, EXECVE]);
        kernel.hit("sys_exit", at(15, 10), [0, 0]);
        kernel.hit("sys_enter", at(20, 10), [0, CLONE]);
        kernel.hit("sched_process_fork", at(21, 10), [task(10), task(11)]);
        kernel.hit("sys_exit", at(22, 11), [0, 0]);
        kernel.hit("sys_exit", at(23, 10), [0, 11]);
        kernel.hit("sys_enter", at(30, 11), [0, GETPID]);
        kernel.hit("sys_exit", at(37, 11), [0, (-38i64) as u64]);
        // It never returns.
        kernel.hit("sys_enter", at(40, 11), [0, 231]);
        kernel.hit("sched_process_exit", at(41, 11), [task(11), 1]);
        // A stranger at the same place.
        kernel.hit("sys_exit", at(42, 11), [0, 0]);
        kernel.hit("sys_enter", at(43, 11), [0, GETPID]);
        kernel.hit("sys_exit", at(44, 11), [0, 1]);
        let (sums, lost) = kernel.sums();
        assert_eq!(lost, NoRoom::default());
        let by_call = sums.by_call();
        let told: Vec<_> = [EXECVE, CLONE, GETPID]
            .map(|number| by_call.get(&number).map(|row| (row.calls(), row.failed(), row.times.sum())))
            .into();
        assert_eq!(told, [Some((1, 0, 5)), Some((1, 0, 3)), Some((1, 1, 7))]);
        assert_eq!(by_call.len(), 3);
        let named: Vec<_> = sums.names.into_iter().collect();
        assert_eq!(named, if by_thread { vec![(11, (11, "thread 11".to_owned()))] } else { vec![] });
    }
}

#[test]
fn filters_leave_what_they_say() {
    let all = asked(Whose::All(5), true);
    let some = |change: &dyn Fn(&mut InKernel)| {
        let mut asked = all.clone();
        change(&mut asked);
        let mut kernel = Kernel::new(asked);
        for (time, number, took, returned) in
            [(10, 0, 3, 4), (20, 1, 30, -9), (60, 2000, 5, -38), (70, 1, 2, -5000), (80, u64::MAX, 1, -38)]
        {
            for pid in [5, 6] {
                kernel.hit("sys_enter", Now { time, pid, tid: pid, cpu: 0, ..Now::default() }, [0, number]);
                kernel.hit(
                    "sys_exit",
                    Now { time: time + took, pid, tid: pid, cpu: 1, ..Now::default() },
                    [0, returned as u64],
                );
            }
        }
        let mut told: Vec<_> =
            kernel.sums().0.rows.into_iter().map(|((tid, number), row)| (tid, number, row.calls())).collect();
        told.sort_unstable();
        told
    };
    assert_eq!(some(&|_| {}), [(6, 0, 1), (6, 1, 2), (6, 2000, 1), (6, u64::MAX, 1)]);
    assert_eq!(some(&|asked| asked.asked.wanted = CallSet::Only([1].into())), [(6, 1, 2)]);
    assert_eq!(
        some(&|asked| asked.asked.wanted = CallSet::Not([1].into())),
        [(6, 0, 1), (6, 2000, 1), (6, u64::MAX, 1)]
    );
    assert_eq!(some(&|asked| asked.asked.failed = true), [(6, 1, 1), (6, 2000, 1), (6, u64::MAX, 1)]);
    assert_eq!(some(&|asked| asked.asked.least_ns = 3), [(6, 0, 1), (6, 1, 1), (6, 2000, 1)]);
}

#[test]
fn a_call_that_a_signal_interrupts_counts_unless_its_thread_is_killed() {
    let interrupted = |sent: &[u64], delivered: Option<u64>| {
        let mut kernel = Kernel::new(asked(Whose::All(1), false));
        let at = |time| Now { time, pid: 10, tid: 10, cpu: 0, ..Now::default() };
        kernel.hit("sys_enter", at(1), [0, 34]);
        for &signal in sent {
            kernel.hit(
                "signal_generate",
                Now { time: 2, pid: 7, tid: 7, cpu: 0, ..Now::default() },
                [signal, 0, task(10), 1, 0],
            );
        }
        kernel.hit("sys_exit", at(3), [0, (-514i64) as u64]);
        match delivered {
            Some(signal) => kernel.hit("signal_deliver", at(4), [signal, 0, 0]),
            None => kernel.hit("sys_enter", at(5), [0, 34]),
        }
        kernel.hit("sched_process_exit", at(6), [task(10), 1]);
        kernel.sums().0.by_call().get(&34).map_or(0, |row| row.failed())
    };
    // A handler; the call goes on by itself; killed; killed by the kernel for a signal that is deadly.
    let told = [(&[10][..], Some(10)), (&[][..], None), (&[9][..], Some(9)), (&[15][..], Some(9))]
        .map(|(sent, delivered)| interrupted(sent, delivered));
    assert_eq!(told, [1, 1, 0, 1]);
}

#[derive(Clone, Debug)]
enum Hit {
    Enter(u32, u64),
    Leave(u32, i64),
    Fork(u32),
    End(u32),
    Signal(u32, u64),
}

fn hits() -> impl Strategy<Value = Vec<(u64, Hit)>> {
    let numbers = prop_oneof![0..4u64, Just(9999u64)];
    let returned =
        prop_oneof![Just(0i64), -3..3i64, Just(-4), -518..-510i64, Just(-4095), Just(-4096), Just(i64::MIN)];
    let hit = prop_oneof![
        4 => (0..8u32, numbers).prop_map(|(tid, number)| Hit::Enter(tid, number)),
        5 => (0..8u32, returned).prop_map(|(tid, returned)| Hit::Leave(tid, returned)),
        1 => (0..8u32).prop_map(Hit::Fork),
        1 => (0..8u32).prop_map(Hit::End),
        1 => (0..8u32, 8..11u64).prop_map(|(tid, signal)| Hit::Signal(tid, signal)),
    ];
    proptest::collection::vec((prop_oneof![0..100u64, 0..1u64 << 40], hit), 1..120)
}

/// A name that is the thread's, as the programs see it.
fn comm(tid: u32) -> Vec<u8> {
    format!("thread {tid}").into_bytes()
}

const EXPRESSIONS: [&str; 11] =
    ["name", "nr", "pid", "tid", "comm", "ret", "error", "fd", "count", "arg1", "duration"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_by_keys_are_those_of_records(
        keys in proptest::sample::subsequence(&EXPRESSIONS[..], 0..4),
        of in proptest::option::of(proptest::sample::select(&["duration", "ret", "count", "fd", "arg1"][..])),
        spread: bool,
        all in proptest::collection::vec((0..3u32, 0..4u64, -6..6i64, 1..1u64 << 40, any::<[i32; 6]>(), 0..2u32), 1..60),
    ) {
        let calls = Calls::of(Arch::X86_64);
        let keys: Vec<Expr> = keys.iter().map(|key| key.parse().unwrap()).collect();
        let of: Option<Expr> = of.map(|of| of.parse().unwrap());
        // read, write, open, close: a 'fd' is the first argument of those that have one.
        let wanted = CallSet::Only((0..4).collect());
        let question = Question { condition: None, keys, of };
        let Some((rows, wanted)) =
            Rows::by_keys(&question.keys, question.of.as_ref(), spread, &wanted, calls)
        else {
            return Err(TestCaseError::fail(format!("{question:?}")));
        };
        let asked = CallQuestion { wanted, failed: false, least_ns: 0, rows };
        let mut kernel = Kernel::new(InKernel { whose: Whose::All(1), asked });
        let (mut joiner, mut groups, mut time) = (Joiner::default(), Groups::default(), 0);
        for (who, number, returned, took, arguments, cpu) in all {
            let tid = 100 + who;
            // Sizes are those that memory can have.
            let arguments = arguments.map(|bits| (bits.unsigned_abs() >> 1).into());
            let mut now = |passed: u64| {
                time += passed;
                (Now { time, pid: tid / 2, tid, cpu, arguments, ..Now::default() }, Moment { time, pid: tid / 2, tid, cpu: Some(cpu) })
            };
            let (entered, at) = now(1);
            kernel.hit("sys_enter", entered, [REGISTERS, number]);
            joiner.enter(at, number, arguments);
            let (left, at) = now(took);
            kernel.hit("sys_exit", left, [REGISTERS, returned as u64]);
            if returned == -4 {
                kernel.hit("signal_deliver", now(1).0, [10, 0]);
            }
            let call = joiner.exit(at, number, returned).unwrap();
            let extras = call_schema(calls.get(number));
            if let Ok(asked) = question.bind(&Schema::of_extras(&extras)) {
                groups.add(&asked, &CallRecord { call: &call, calls, comm: &comm(tid), text: &|_| None });
            }
        }
        let (told, lost) = kernel.asked.groups(&|map| kernel.read(map), calls).unwrap();
        prop_assert_eq!(lost, NoRoom::default());
        let rank = |row: &perfuse_trace::Distribution| row.count() as f64;
        let of_all = |groups: &Groups| -> Vec<_> {
            let rows = groups.rows(rank).into_iter();
            let rows = rows.map(|(key, row)| (key.to_vec(), if spread { row.clone() } else { row.without_steps() }));
            rows.collect()
        };
        prop_assert_eq!(of_all(&told), of_all(&groups));
    }

    #[test]
    fn sums_are_those_of_records(hits in hits(), by_thread: bool) {
        let mut kernel = Kernel::new(asked(Whose::Followed, by_thread));
        kernel.put(InKernel::thread(100, false));
        kernel.put(InKernel::look());
        let (mut joiner, mut sums) = (Joiner::default(), CallSums::default());
        let (mut alive, mut next, mut time) = (vec![100u32], 101, 1);
        let mut under_way: HashMap<u32, u64> = HashMap::new();
        // Calls that a signal interrupted, and the thread has not gone on.
        let mut waiting: HashMap<u32, Call> = HashMap::new();
        for (index, (passed, hit)) in hits.into_iter().enumerate() {
            time += passed;
            let pick = |which: u32| alive.get(which as usize % alive.len().max(1)).copied();
            let now = |tid| Now { time, pid: tid, tid, cpu: index as u32 % 2, ..Now::default() };
            let at = |tid| Moment { time, pid: tid, tid, cpu: None };
            match hit {
                Hit::Enter(which, number) => if let Some(tid) = pick(which) {
                    waiting.remove(&tid).iter().for_each(|call| sums.add(call, b""));
                    kernel.hit("sys_enter", now(tid), [0, number]);
                    under_way.insert(tid, number);
                    joiner.enter(at(tid), number, [0; 6]);
                },
                Hit::Leave(which, returned) => if let Some(tid) = pick(which) {
                    kernel.hit("sys_exit", now(tid), [0, returned as u64]);
                    let number = under_way.remove(&tid);
                    if let Some(call) = number.and_then(|number| joiner.exit(at(tid), number, returned)) {
                        match returned {
                            -4 | -516..=-512 => drop(waiting.insert(tid, call)),
                            _ => sums.add(&call, b""),
                        }
                    }
                },
                Hit::Signal(which, signal) => if let Some(tid) = pick(which) {
                    kernel.hit("signal_deliver", now(tid), [signal, 0]);
                    waiting.remove(&tid).iter().filter(|_| signal != 9).for_each(|call| sums.add(call, b""));
                },
                Hit::Fork(which) => if let Some(tid) = pick(which) {
                    kernel.hit("sched_process_fork", now(tid), [task(tid), task(next)]);
                    alive.push(next);
                    next += 1;
                },
                Hit::End(which) => if let Some(tid) = pick(which) {
                    kernel.hit("sched_process_exit", now(tid), [task(tid), 1]);
                    joiner.ended(tid);
                    under_way.remove(&tid);
                    alive.retain(|other| *other != tid);
                },
            }
        }
        let (told, lost) = kernel.sums();
        prop_assert_eq!(lost, NoRoom::default());
        if by_thread {
            prop_assert_eq!(told.rows, sums.rows);
        } else {
            let (mut all, told) = (sums.by_call(), told.by_call());
            all.values_mut().for_each(|row| row.times = row.times.without_steps());
            prop_assert_eq!(told, all);
        }
    }
}

/// Goes from one thread to another one; the first is in this state from now on.
fn switch(kernel: &mut Kernel<OffCpu>, time: u64, from: u32, state: u64, to: u32, stack: &'static [u64]) {
    let now = Now { time, pid: from / 10 * 10, tid: from, stack, ..Now::default() };
    kernel.hit("sched_switch", now, [0, task(from), task(to), state]);
}

#[test]
fn sleep_is_summed_up_by_thread_and_stack() {
    let off_cpu = OffCpu { whose: Whose::Followed };
    let mut kernel = Kernel::of(off_cpu.maps(), off_cpu.programs().unwrap(), off_cpu);
    kernel.put(OffCpu::thread(10, true));
    kernel.put(OffCpu::thread(20, false));
    kernel.put(OffCpu::look());
    let (one, other): (&[u64], &[u64]) = (&[0x400, 0x500], &[0x700]);
    // Before it is executed it sleeps for others' sake.
    switch(&mut kernel, 100, 10, 1, 99, one);
    switch(&mut kernel, 200, 99, 0, 10, one);
    kernel.hit("sched_process_exec", Now { time: 210, pid: 10, tid: 10, ..Now::default() }, [task(10), 10]);
    switch(&mut kernel, 300, 10, 1, 99, one);
    switch(&mut kernel, 340, 99, 1, 10, one);
    // Preempted, which is no sleep; then in an uninterruptible one; then at another stack.
    switch(&mut kernel, 400, 10, 0, 99, one);
    switch(&mut kernel, 450, 99, 1, 10, one);
    switch(&mut kernel, 500, 10, 2, 99, one);
    switch(&mut kernel, 505, 99, 1, 10, one);
    switch(&mut kernel, 600, 10, 0x2001, 20, other);
    switch(&mut kernel, 700, 20, 1, 10, &[]);
    // A thread that it starts, which sleeps to the end; 20 ends.
    kernel.hit(
        "sched_process_fork",
        Now { time: 710, pid: 10, tid: 10, ..Now::default() },
        [task(10), task(11)],
    );
    switch(&mut kernel, 720, 10, 0, 11, one);
    switch(&mut kernel, 730, 11, 1, 20, other);
    kernel.hit("sched_process_exit", Now { time: 740, pid: 20, tid: 20, ..Now::default() }, [task(20), 1]);
    switch(&mut kernel, 750, 20, 1, 99, other);
    let (rows, lost) = off_cpu.rows(&|map| kernel.read(map), 1000).unwrap();
    let row = |tid: u32, stack: &[u64], count, ns| OffCpuRow {
        pid: tid / 10 * 10,
        tid,
        stack: stack.to_vec(),
        count,
        ns,
    };
    assert_eq!(
        rows,
        [row(11, other, 1, 270), row(10, other, 1, 100), row(10, one, 2, 45), row(20, &[], 1, 30)]
    );
    assert_eq!(lost, NoRoom::default());
}

/// A call with its arguments, and the texts that are told, by the places of their arguments.
type Made = (u64, [u64; 6], &'static [(usize, &'static str)]);

#[test]
fn texts_are_copied_as_calls_begin() {
    let calls = Calls::of(Arch::X86_64);
    let mut texts = CallTexts::new(Whose::Followed, CallSet::All);
    let beginning = texts.beginning(calls, Arch::X86_64);
    let mut kernel = Kernel::of(texts.maps(), texts.programs(calls, Arch::X86_64).unwrap(), ());
    beginning.into_iter().for_each(|element| kernel.put(element));
    kernel.put(InKernel::thread(10, false));
    kernel.put(InKernel::look());
    let mut memory = vec![0; 0x1000];
    memory[..6].copy_from_slice(b"/a/one");
    memory[0x100..0x104].copy_from_slice(b"/two");
    memory[0x200..0x400].fill(b'x');
    memory[0x400..0x408].copy_from_slice(&[2, 0, 0, 80, 127, 0, 0, 1]);
    let enter = |kernel: &mut Kernel<()>, time, tid, number: u64, arguments: [u64; 6], memory: &[u8]| {
        let now = Now { time, pid: tid, tid, arguments, memory: memory.to_vec(), ..Now::default() };
        kernel.hit("sys_enter", now, [REGISTERS, number]);
    };
    let number = |name: &str| calls.number(name).unwrap();
    let (openat, rename, connect) = (number("openat"), number("rename"), number("connect"));
    let made: [Made; 5] = [
        (openat, [3, 0x1000, 0, 0, 0, 0], &[(1, "/a/one")]),
        (rename, [0x1000, 0x1100, 0, 0, 0, 0], &[(0, "/a/one"), (1, "/two")]),
        (connect, [3, 0x1400, 16, 0, 0, 0], &[(1, "{AF_INET, 127.0.0.1:80}")]),
        // Not there; and longer than what is copied.
        (openat, [3, 0x10, 0, 0, 0, 0], &[]),
        (openat, [3, 0x1200, 0, 0, 0, 0], &[]),
    ];
    for (index, (number, arguments, _)) in made.iter().enumerate() {
        enter(&mut kernel, 1000 * index as u64, 10, *number, *arguments, &memory);
        // Calls without texts, and those of strangers.
        enter(&mut kernel, 1000 * index as u64 + 1, 10, 0, [0x1000; 6], &memory);
        enter(&mut kernel, 1000 * index as u64 + 2, 77, openat, [3, 0x1000, 0, 0, 0, 0], &memory);
    }
    // Another text at the same address since then.
    memory[..6].copy_from_slice(b"/other");
    let read = |kernel: &Kernel<()>, key: &[u8]| {
        kernel.machine.maps.get(kernel.maps[CallTexts::COPIES]).expect("the map").lookup(key).ok()
    };
    for (index, (number, arguments, told)) in made.iter().enumerate().take(4) {
        let time = 1000 * index as u64 + 300;
        let found = texts.of_call((10, time), *number, arguments, calls, &|key| read(&kernel, key));
        let told: Vec<(usize, String)> = told.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
        assert_eq!(found, told, "{index}");
    }
    let (call, arguments, _) = made[4];
    let found = texts.of_call((10, 4300), call, &arguments, calls, &|key| read(&kernel, key));
    assert_eq!(found, [(1, "x".repeat(255) + "...")]);
    // An address that a call gives back, when it ends.
    let accept = number("accept");
    let arguments = [3, 0x1400, 0x1500, 0, 0, 0];
    let end = |kernel: &mut Kernel<()>, time, number, returned: i64, len: u8| {
        let mut memory = memory.clone();
        memory[0x500..0x504].copy_from_slice(&[len, 0, 0, 0]);
        let now = Now { time, pid: 10, tid: 10, arguments, memory, number, ..Now::default() };
        kernel.hit("sys_exit", now, [REGISTERS, returned as u64]);
    };
    // Those that fail, and others, have no copy, and none is mistaken for that of a call that gave nothing back.
    end(&mut kernel, 5000, accept, 4, 16);
    end(&mut kernel, 6000, accept, -11, 16);
    end(&mut kernel, 7000, openat, 4, 16);
    end(&mut kernel, 8000, accept, 4, 0);
    for (time, told) in [(5050, &[(1, "{AF_INET, 127.0.0.1:80}".to_owned())][..]), (8050, &[])] {
        assert_eq!(texts.of_end((10, time), accept, &arguments, calls, &|key| read(&kernel, key)), told);
    }
    let none = texts.of_call((77, 300), openat, &made[0].1, calls, &|key| read(&kernel, key));
    assert_eq!(none, []);
}
