//! Pid namespaces below this process's: callers there have numbers of their own for tasks, and records tell those
//! (rules B12, H1). And the namespaces of all kinds that records of namespaces tell.

use super::Machine;
use crate::proc::{self, Namespace};
use crate::ptrace::Tid;
use perfuse_abi::record::NamespaceLink;
use perfuse_engine::{PidNamespace, TaskId};
use std::collections::{BTreeMap, HashMap};

/// Those that callers have come from.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    depths: BTreeMap<PidNamespace, usize>,
    callers: BTreeMap<TaskId, PidNamespace>,
    tasks: HashMap<(PidNamespace, Tid), TaskId>,
    numbers: BTreeMap<(TaskId, PidNamespace), Tid>,
}

impl Namespaces {
    pub(crate) fn any(&self) -> bool {
        !self.depths.is_empty()
    }

    pub(crate) fn of(&self, caller: TaskId) -> PidNamespace {
        self.callers.get(&caller).copied().unwrap_or_default()
    }

    /// A task is gone.
    pub(crate) fn forget(&mut self, task: TaskId) {
        self.callers.remove(&task);
        let all = (task, PidNamespace(0))..=(task, PidNamespace(u64::MAX));
        let gone: Vec<_> = self.numbers.range(all).map(|(&(_, namespace), &tid)| (namespace, tid)).collect();
        for (namespace, tid) in gone {
            self.numbers.remove(&(task, namespace));
            if self.tasks.get(&(namespace, tid)) == Some(&task) {
                self.tasks.remove(&(namespace, tid));
            }
        }
    }
}

/// The namespaces that tasks are in, once an event wants records of them.
#[derive(Debug, Default)]
pub(super) struct Links(Option<BTreeMap<TaskId, [NamespaceLink; 7]>>);

impl Links {
    pub(super) fn are_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// A task is gone.
    pub(super) fn forget(&mut self, task: TaskId) {
        if let Some(links) = &mut self.0 {
            links.remove(&task);
        }
    }
}

impl Machine {
    /// An event wants records of the namespaces of this task and its children. Those where it is are not told.
    pub(super) fn want_namespaces(&mut self, task: TaskId) {
        self.links.0.get_or_insert_default();
        if let Some(tid) = self.tasks.get(&task).map(|known| known.tid) {
            self.know_namespaces(task, tid);
        }
    }

    /// Notes where a task is, if that is wanted. A record of it follows if it is new.
    pub(super) fn know_namespaces(&mut self, task: TaskId, tid: Tid) {
        let Some(known) = &mut self.links.0 else { return };
        if let Some(links) = proc::namespaces(tid) {
            known.insert(task, links);
            self.engine.know_namespaces(task, links);
        }
    }

    /// A stopped task may be in others than before: that is told.
    pub(super) fn tell_namespaces(&mut self, task: TaskId) {
        let before = self.links.0.as_ref().and_then(|links| links.get(&task)).copied();
        let Some((before, tid)) = before.zip(self.tasks.get(&task).map(|known| known.tid)) else { return };
        self.know_namespaces(task, tid);
        let links = self.links.0.as_ref().and_then(|links| links.get(&task)).copied();
        if let Some(links) = links.filter(|links| *links != before) {
            let now = self.now();
            self.within(task, now, |engine, cpu| engine.set_namespaces(task, cpu, now, &links));
        }
    }

    /// A caller is in a namespace below this process's.
    pub(crate) fn comes_from(&mut self, caller: TaskId, namespace: Namespace) {
        let id = PidNamespace(namespace.id);
        let namespaces = &mut self.world.namespaces;
        namespaces.callers.insert(caller, id);
        if namespaces.depths.insert(id, namespace.depth).is_none() {
            let tasks: Vec<TaskId> = self.tasks.keys().copied().collect();
            tasks.into_iter().for_each(|task| self.see(task, None));
        }
    }

    /// The thread that has a number in a namespace, if it is known.
    pub(crate) fn tid_in(&self, namespace: Namespace, number: Tid) -> Option<Tid> {
        let task = self.world.namespaces.tasks.get(&(PidNamespace(namespace.id), number))?;
        self.tasks.get(task).map(|known| known.tid)
    }

    /// The engine is told what numbers a task has, where it is seen. It is in all namespaces of the task that made it.
    pub(super) fn see(&mut self, task: TaskId, maker: Option<TaskId>) {
        if !self.world.namespaces.any() {
            return;
        }
        let Some(tid) = self.tasks.get(&task).map(|known| known.tid) else { return };
        let Some((pids, tids)) = proc::numbers(tid) else { return };
        let namespaces = &mut self.world.namespaces;
        for (&namespace, &depth) in &namespaces.depths {
            let (Some(&pid), Some(&own)) = (pids.get(depth), tids.get(depth)) else { continue };
            let seen = maker.is_some_and(|maker| namespaces.numbers.contains_key(&(maker, namespace)))
                || proc::namespace_above(tid, tids.len() - 1 - depth) == Some(namespace.0);
            if seen {
                let numbers = perfuse_abi::record::Tid { pid: pid as u32, tid: own as u32 };
                self.engine.set_seen_from(task, namespace, numbers);
                namespaces.tasks.insert((namespace, own), task);
                namespaces.numbers.insert((task, namespace), own);
            }
        }
    }
}
