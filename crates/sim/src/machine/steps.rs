//! Steps of programs that take no time.

use super::cpu_state::SimCpuState;
use super::{Machine, Mapped};
use crate::program::{Cursor, Step};
use perfuse_engine::abi::Software;
use perfuse_engine::abi::record::MmapFile;
use perfuse_engine::{CloneFlags, EventKey, Hit, Leaving, Mapping, TaskFacts, TaskId, Watch};

impl Machine {
    /// Does the step at hand of a cpu's task, if it takes no time.
    pub(super) fn quick_step(&mut self, cpu: u32) -> bool {
        let Some(task) = self.cpus[cpu as usize].current else { return false };
        let Some(own) = self.tasks.get_mut(&task) else { return false };
        if own.left_ns.is_some() {
            return false;
        }
        let step = own.cursor.step();
        let pid = own.pid;
        match step {
            Some(Step::Compute { ns, .. }) => {
                own.left_ns = Some(ns);
                return true;
            }
            Some(Step::Wait) if own.children > 0 => {
                own.waits = true;
                self.put(cpu, None, Leaving::Sleeps);
                return true;
            }
            None | Some(Step::Exit) => {
                self.exit(task, cpu);
                return true;
            }
            _ => own.cursor.advance(),
        }
        let doing = SimCpuState { user: true, idle: false, place: self.tasks[&task].cursor.place(), pid };
        let now = self.now;
        match step {
            Some(Step::Fault { count, major, addr }) => {
                for number in 0..self.spend(count) {
                    let addr = addr.wrapping_add(number.wrapping_mul(4096));
                    let kind = if major { Software::PAGE_FAULTS_MAJ } else { Software::PAGE_FAULTS_MIN };
                    self.engine.software(cpu, now, Software::PAGE_FAULTS, 1, addr, &doing);
                    self.engine.software(cpu, now, kind, 1, addr, &doing);
                }
            }
            Some(Step::Sleep(ns)) => {
                if let Some(own) = self.tasks.get_mut(&task) {
                    own.wakes_at = Some(now.saturating_add(ns));
                }
                self.put(cpu, None, Leaving::Sleeps);
            }
            Some(Step::Start { program, thread }) => self.start(task, cpu, &program, thread),
            Some(Step::Prctl(enable)) => self.engine.prctl(task, enable, now),
            Some(Step::Enter(cgroup)) => self.move_to_cgroup(task, cgroup),
            Some(Step::Exec { program: name, fresh }) => {
                if let (Some(own), Some(program)) = (self.tasks.get_mut(&task), self.programs.get(&name)) {
                    own.cursor = Cursor::new(program.steps.clone());
                    own.name.clone_from(&name);
                    own.program.clone_from(&name);
                }
                self.engine.exec(task, cpu, now, name.as_bytes(), fresh);
                let process = self.tasks[&task].process;
                self.mapped.remove(&process);
            }
            Some(Step::Comm(name)) => {
                self.engine.comm(task, cpu, now, name.as_bytes(), false);
                if let Some(own) = self.tasks.get_mut(&task) {
                    own.name = name;
                }
            }
            Some(Step::Map { addr, len, executable, name }) => {
                let mapping = Mapping {
                    addr,
                    len,
                    pgoff: 0,
                    file: MmapFile::Inode { maj: 8, min: 1, ino: 1, ino_generation: 0 },
                    build_id: None,
                    prot: if executable { 5 } else { 3 },
                    flags: 2,
                    name: name.as_bytes(),
                };
                self.engine.mapped(task, cpu, now, &mapping);
                let process = self.tasks[&task].process;
                let mapped = Mapped { addr, len, executable, name };
                self.mapped.entry(process).or_default().push(mapped);
            }
            Some(Step::Touch { addr, len, write }) => self.touch(cpu, addr, len, write, &doing),
            Some(Step::Tracepoint { id, count, value }) => {
                let record = crate::tracing::record(id, pid, value);
                let hit = Hit { count, ..Hit::new(id, &record) };
                self.engine.tracepoint(cpu, now, &hit, &doing);
            }
            _ => {}
        }
        self.carry_out();
        true
    }

    pub(super) fn start(&mut self, parent: TaskId, cpu: u32, program: &str, thread: bool) {
        let Some(program) = self.programs.get(program).cloned() else { return };
        if self.tasks.len() >= self.setup.most_tasks {
            return;
        }
        let process = if thread { Some(self.tasks[&parent].process) } else { None };
        let child = self.new_task(&program, Some(parent), process);
        let (pid, process) = (self.tasks[&child].pid, self.tasks[&child].process);
        let flags = CloneFlags { thread, clear_sighand: false };
        let cgroup = self.tasks[&child].cgroup;
        let facts = TaskFacts { cgroup, ..TaskFacts::new(process, pid) };
        if self.engine.fork(parent, child, facts, flags, cpu, self.now).is_err() {
            self.tasks.remove(&child);
            return;
        }
        if let Some(own) = self.tasks.get_mut(&parent) {
            own.children += 1;
        }
        if !thread {
            let mapped = self.mapped(self.tasks[&parent].process).to_vec();
            self.mapped.insert(process, mapped);
        }
        self.make_ready(child);
    }

    pub(super) fn exit(&mut self, task: TaskId, cpu: u32) {
        let parent = self.tasks[&task].parent;
        self.engine.exit(task, parent, cpu, self.now);
        self.carry_out();
        self.put(cpu, None, Leaving::Sleeps);
        self.engine.reap(task, self.now);
        let process = self.tasks.remove(&task).map(|task| task.process);
        if let Some(process) = process.filter(|pid| self.tasks.values().all(|task| task.process != *pid)) {
            self.mapped.remove(&process);
        }
        if let Some((parent, own)) = parent.and_then(|parent| Some((parent, self.tasks.get_mut(&parent)?))) {
            own.children -= 1;
            if own.waits && own.children == 0 {
                own.waits = false;
                self.make_ready(parent);
            }
        }
    }

    fn touch(&mut self, cpu: u32, addr: u64, len: u64, write: bool, doing: &SimCpuState) {
        let hit = |watch: &&Watch| {
            let kind = watch.kind;
            watch.cpu == cpu
                && (kind & 2 != 0 && write || kind & 1 != 0 && !write)
                && addr < watch.addr.saturating_add(watch.len)
                && watch.addr < addr.saturating_add(len)
        };
        let events: Vec<EventKey> = self.watches.values().filter(hit).map(|watch| watch.event).collect();
        for event in events {
            self.engine.breakpoint(event, cpu, self.now, doing);
        }
    }
}
