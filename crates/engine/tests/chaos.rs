//! Everything at once: random calls of programs and random things that happen on the machine, and what
//! must be true after each (the invariants of `docs/semantics.md`): nothing panics, times never run
//! backwards, nobody counts longer than he is enabled, a group counts as a whole or not at all, what was
//! counted is nowhere lost, rings hold whole records.
//!
//! `PERFUSE_SEED=n` plays only that sequence again, `PERFUSE_STEPS=n` sets how many steps all have.

#[path = "shared/machine.rs"]
mod machine;
#[path = "shared/random.rs"]
mod random;

use machine::{Counters, Machine, Reader, USER, attr, records, software, with};
use perfuse_engine::abi::{Attr, AttrFlags, EventType, OpenFlags, ReadFormat, SampleType, Software};
use perfuse_engine::{
    CgroupId, CloneFlags, EventKey, Ioctl, Leaving, OpenArguments, State, TaskFacts, TaskId,
};
use random::Random;
use std::collections::BTreeMap;

/// Steps of a sequence, and of all.
const LENGTH: u64 = 2_000;
const STEPS: u64 = 1_000_000;

#[test]
fn nothing_breaks() {
    let seeds = random::seeds(random::asked("PERFUSE_STEPS").unwrap_or(STEPS) / LENGTH);
    let mut opened = 0;
    for seed in seeds.clone() {
        let mut chaos = Chaos::new(seed);
        for _ in 0..LENGTH {
            chaos.step();
            chaos.check();
        }
        opened += chaos.opened;
    }
    // Most of what programs ask for here is right.
    assert!(opened > (seeds.end - seeds.start) * LENGTH / 100, "{opened}");
}

struct Chaos {
    seed: u64,
    random: Random,
    machine: Machine,
    tasks: Vec<TaskId>,
    running: BTreeMap<u32, TaskId>,
    fds: Vec<i32>,
    attrs: BTreeMap<i32, Attr>,
    readers: Vec<(i32, Reader)>,
    /// Enabled and running at the last look.
    times: BTreeMap<i32, (u64, u64)>,
    next_pid: u32,
    opened: u64,
    steps: u64,
}

const CPUS: u32 = 3;
/// Events that are open at once.
const MOST: usize = 16;

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut machine = Machine::new(CPUS);
        machine.engine.register(Box::new(Counters::new(3))).expect("the type is free");
        for cgroup in 2..5 {
            machine.engine.add_cgroup(CgroupId(cgroup), CgroupId(cgroup / 2));
            machine.world.cgroups.insert(1000 + cgroup as i32, CgroupId(cgroup));
        }
        Chaos {
            seed,
            random: Random::new(seed),
            machine,
            tasks: vec![machine::ME],
            running: BTreeMap::from([(0, machine::ME)]),
            fds: Vec::new(),
            attrs: BTreeMap::new(),
            readers: Vec::new(),
            times: BTreeMap::new(),
            next_pid: 200,
            opened: 0,
            steps: 0,
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        let cpu = self.random.below(CPUS as usize) as u32;
        let now = self.machine.now;
        match self.random.below(30) {
            0..=3 if self.fds.len() < MOST => self.open(),
            0..=4 if !self.fds.is_empty() => {
                let at = self.random.below(self.fds.len());
                let fd = self.fds.remove(at);
                self.times.remove(&fd);
                self.attrs.remove(&fd);
                self.machine.close(fd);
            }
            5..=9 if !self.fds.is_empty() => self.ioctl(),
            10 if !self.fds.is_empty() => {
                let (fd, pages) = (self.random.of(&self.fds), self.random.of(&[1, 2, 8]));
                // A ring has one reader.
                let mapped = self.readers.iter().any(|(other, _)| *other == fd);
                let reader = if mapped { None } else { self.machine.try_map(fd, pages) };
                self.readers.extend(reader.map(|reader| (fd, reader)));
            }
            11 if !self.readers.is_empty() => {
                let at = self.random.below(self.readers.len());
                let (fd, _) = self.readers.remove(at);
                if self.fds.contains(&fd) {
                    let key = self.machine.key(fd);
                    self.machine.engine.munmap(key, now);
                }
            }
            12..=16 => self.switch(cpu),
            17 => self.fork(cpu),
            18 => self.exit(cpu),
            19 => {
                if let Some(task) = self.running.get(&cpu).copied() {
                    let fresh = self.random.one_in(4);
                    self.machine.engine.exec(task, cpu, now, b"new", fresh);
                }
            }
            20 => {
                let (task, cgroup) = (self.random.of(&self.tasks), self.random.of(&[1, 2, 3, 4]));
                self.machine.engine.move_to_cgroup(task, CgroupId(cgroup), now);
            }
            21 if self.random.one_in(20) && cpu > 0 => {
                self.machine.engine.cpu_offline(cpu, now);
                self.machine.engine.cpu_online(cpu);
            }
            22..=25 => {
                let count = self.random.below(4) as u64;
                self.machine.fault(cpu, count);
            }
            26 => self.machine.engine.tick(cpu, now),
            27 => {
                let event = self.random.of(&[Software::CPU_MIGRATIONS, Software::ALIGNMENT_FAULTS]);
                self.machine.engine.software(cpu, now, event, 1000, 0, &USER);
            }
            _ => {
                let ns = self.random.of(&[1, 1000, 100_000, 5_000_000]);
                self.machine.pass(ns);
            }
        }
        self.machine.engine.effects().for_each(drop);
    }

    fn open(&mut self) {
        let random = &mut self.random;
        let mut asked = match random.below(5) {
            0 => software(Software::PAGE_FAULTS),
            1 => {
                software(random.of(&[Software::DUMMY, Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS]))
            }
            2 => software(random.of(&[Software::CPU_CLOCK, Software::TASK_CLOCK])),
            _ => attr(EventType::RAW, random.below(5) as u64),
        };
        let flags = [
            AttrFlags::DISABLED,
            AttrFlags::INHERIT,
            AttrFlags::INHERIT_STAT,
            AttrFlags::PINNED,
            AttrFlags::EXCLUSIVE,
            AttrFlags::ENABLE_ON_EXEC,
            AttrFlags::TASK,
            AttrFlags::COMM,
            AttrFlags::CONTEXT_SWITCH,
            AttrFlags::WRITE_BACKWARD,
            AttrFlags::SAMPLE_ID_ALL,
        ];
        for flag in flags {
            asked = if random.one_in(6) { with(asked, flag) } else { asked };
        }
        if random.one_in(3) {
            asked.set_period(random.of(&[1, 3, 1000, 100_000]));
            asked.sample_type = SampleType::TID | SampleType::TIME | SampleType::ID;
            if random.one_in(3) {
                asked.sample_type |= SampleType::READ | SampleType::CALLCHAIN;
            }
        } else if random.one_in(6) {
            asked.set_sample_freq(1000);
        }
        if random.one_in(4) {
            asked.read_format |= ReadFormat::GROUP;
        }
        let cgroup = random.one_in(10);
        let (pid, cpu) = match random.below(4) {
            0 => (-1, random.below(CPUS as usize) as i32),
            1 => (random.of(&self.tasks).0 as i32, random.below(CPUS as usize) as i32),
            _ => (random.of(&self.tasks).0 as i32, -1),
        };
        let group_fd = if !self.fds.is_empty() && random.one_in(3) { random.of(&self.fds) } else { -1 };
        let arguments = OpenArguments {
            pid: if cgroup { 1002 + random.below(3) as i32 } else { pid },
            cpu: if cgroup { cpu.max(0) } else { cpu },
            group_fd,
            flags: if cgroup { OpenFlags::PID_CGROUP } else { OpenFlags::empty() },
        };
        if let Ok(fd) = self.machine.open(&asked, arguments) {
            self.fds.push(fd);
            self.attrs.insert(fd, asked);
            self.opened += 1;
        }
    }

    fn ioctl(&mut self) {
        let (fd, other) = (self.random.of(&self.fds), self.random.of(&self.fds));
        let group = self.random.one_in(2);
        let other = self.machine.key(other);
        let ioctl = match self.random.below(8) {
            0 | 1 => Ioctl::Enable { group },
            2 => Ioctl::Disable { group },
            3 => Ioctl::Reset { group },
            4 => Ioctl::Refresh(self.random.of(&[0, 1, 2])),
            5 => Ioctl::Period(self.random.of(&[1, 10, 50_000])),
            6 => Ioctl::SetOutput(group.then_some(other)),
            _ => Ioctl::PauseOutput(group),
        };
        // Many are refused, as they should be.
        let _ = self.machine.ioctl(fd, ioctl);
    }

    fn switch(&mut self, cpu: u32) {
        let idle: Vec<TaskId> = self
            .tasks
            .iter()
            .copied()
            .filter(|task| !self.running.values().any(|other| other == task))
            .collect();
        let next = if idle.is_empty() || self.random.one_in(5) { None } else { Some(self.random.of(&idle)) };
        let leaving = self.random.of(&[Leaving::Sleeps, Leaving::Preempted]);
        self.machine.engine.switch(cpu, self.machine.now, leaving, next, &machine::KERNEL);
        match next {
            Some(next) => self.running.insert(cpu, next),
            None => self.running.remove(&cpu),
        };
    }

    fn fork(&mut self, cpu: u32) {
        let Some(parent) = self.running.get(&cpu).copied() else { return };
        if self.tasks.len() > 12 {
            return;
        }
        let pid = self.next_pid;
        self.next_pid += 1;
        let child = TaskId(pid.into());
        let flags = CloneFlags { thread: self.random.one_in(2), clear_sighand: false };
        let facts = TaskFacts::new(pid, pid);
        let forked = self.machine.engine.fork(parent, child, facts, flags, cpu, self.machine.now);
        if forked.is_ok() {
            self.machine.world.tasks.insert(pid, child);
            self.tasks.push(child);
        }
    }

    fn exit(&mut self, cpu: u32) {
        let Some(task) = self.running.get(&cpu).copied().filter(|task| *task != machine::ME) else { return };
        let now = self.machine.now;
        self.machine.engine.exit(task, Some(machine::ME), cpu, now);
        self.machine.engine.switch(cpu, now, Leaving::Sleeps, None, &machine::KERNEL);
        self.running.remove(&cpu);
        self.tasks.retain(|other| *other != task);
        if self.random.one_in(2) {
            self.machine.engine.reap(task, now);
        }
    }

    fn check(&mut self) {
        let place = format!("PERFUSE_SEED={} step {}", self.seed, self.steps);
        for &fd in &self.fds {
            let attr = self.attrs[&fd];
            let Ok(words) = self.machine.words(fd) else { continue };
            if words.is_empty() {
                continue;
            }
            let (enabled, running) = (words[1], words[2]);
            assert!(running <= enabled, "{place}: {fd} counted {running} of {enabled}");
            let before = self.times.insert(fd, (enabled, running)).unwrap_or_default();
            // Without copies in children: a group's leader may change, and children come and go.
            let alone =
                !attr.flags.contains(AttrFlags::INHERIT) && !attr.read_format.contains(ReadFormat::GROUP);
            if alone {
                assert!(before.0 <= enabled && before.1 <= running, "{place}: {fd} {before:?} {words:?}");
            }
        }
        for (fd, reader) in &mut self.readers {
            let backward =
                self.attrs.get(fd).is_none_or(|attr| attr.flags.contains(AttrFlags::WRITE_BACKWARD));
            if !backward {
                let bytes = reader.take();
                let sizes: usize = records(&bytes).iter().map(|record| usize::from(record.header.size)).sum();
                assert_eq!(sizes, bytes.len(), "{place}: whole records");
            }
        }
        self.groups(&place);
    }

    /// A group is on a cpu as a whole or not at all (rule C13).
    fn groups(&self, place: &str) {
        let engine = &self.machine.engine;
        for &fd in &self.fds {
            let key: EventKey = self.machine.key(fd);
            let members = engine.group(key);
            let states: Vec<State> = members.iter().filter_map(|&member| engine.state(member)).collect();
            let leader_on = states.first() == Some(&State::Active);
            for (member, state) in members.iter().zip(&states).skip(1) {
                assert!(
                    *state != State::Active || leader_on,
                    "{place}: {member:?} counts without its leader"
                );
                assert!(
                    *state != State::Inactive || !leader_on,
                    "{place}: {member:?} is left out of its group: {states:?}"
                );
            }
        }
    }
}
