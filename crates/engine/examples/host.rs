//! A host in a few lines: a PMU that counts bananas, a task that eats them, and a program that asks how
//! many.

use perfuse_engine::abi::wire::{Layout, Writer};
use perfuse_engine::abi::{Attr, ByteOrder, Errno};
use perfuse_engine::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Eaten so far.
static BANANAS: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct BananaPmu;

impl Pmu for BananaPmu {
    fn info(&self) -> PmuInfo {
        PmuInfo::hardware("banana")
    }

    fn event_init(&mut self, hw: &mut Hw, _whom: &Whom, _group: &[&Hw]) -> Result<(), Errno> {
        // Only this PMU is asked for its type; it knows one event, and cannot sample.
        if hw.attr.config == 0 && !hw.is_sampling() { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn add(&mut self, _cx: &mut Cx<'_>, hw: &mut Hw, _start: bool) -> Result<(), Errno> {
        hw.prev = BANANAS.load(Ordering::Relaxed);
        hw.stopped = false;
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.stop(cx, hw);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, hw: &mut Hw) {
        let now = BANANAS.load(Ordering::Relaxed);
        hw.count += now - hw.prev;
        hw.prev = now;
    }
}

/// Everybody may do everything here, and nobody has descriptors.
struct World;

impl Host for World {
    fn capable(&self, _caller: TaskId, _capability: Capability) -> bool {
        true
    }

    fn may_access(&self, _caller: TaskId, _target: TaskId, _access: Access) -> bool {
        true
    }

    fn find_task(&self, _caller: TaskId, pid: u32) -> Option<TaskId> {
        Some(TaskId(pid.into()))
    }

    fn event_of(&self, _caller: TaskId, _fd: i32) -> Option<EventKey> {
        None
    }

    fn allocate(&mut self, _caller: TaskId, _pages: usize) -> Result<Arc<dyn Memory>, Errno> {
        Err(Errno::ENOMEM)
    }
}

fn main() -> Result<(), Errno> {
    let (monkey, scheduler) = (TaskId(1), Place::default());
    let mut engine = Engine::new(Config::default());
    engine.register(Box::new(BananaPmu))?;
    engine.add_task(monkey, TaskFacts::new(1, 1));

    // perf_event_open({type of "banana"}, the monkey, any cpu)
    let (_, type_) = engine.pmu_by_name("banana").ok_or(Errno::ENOENT)?;
    let mut bytes = Vec::new();
    let mut attr = Attr { size: Attr::SIZE_VER8, ..Attr::new(type_) };
    attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).map_err(|_| Errno::EFAULT)?;
    let event = engine.open(&mut World, monkey, 0, &mut bytes, OpenArguments::default())?;

    // The monkey runs from 10 to 20; then somebody else eats.
    engine.switch(0, 10, Leaving::Sleeps, Some(monkey), &scheduler);
    BANANAS.fetch_add(3, Ordering::Relaxed);
    engine.switch(0, 20, Leaving::Sleeps, None, &scheduler);
    BANANAS.fetch_add(100, Ordering::Relaxed);

    let mut answer = Vec::new();
    engine.read(event, 30, 8, &mut answer)?;
    assert_eq!(answer, 3u64.to_ne_bytes());
    println!("the monkey ate 3 bananas");
    Ok(())
}
