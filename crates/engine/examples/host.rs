//! A host in fifty lines: a PMU that counts bananas, a task that eats them, and a program that asks how many.

use perfuse_engine::abi::wire::{Layout, Writer};
use perfuse_engine::abi::{Attr, AttrFlags, ByteOrder, Errno};
use perfuse_engine::{AtIp, Pmu, PmuInfo, Target, TaskFacts, TaskId};
use perfuse_engine::{Config, Cx, Engine, Host, Hw, Leaving, OpenArguments};
use std::sync::atomic::{AtomicU64, Ordering};

/// Eaten so far by all: the hardware would know.
static BANANAS: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct BananaPmu;

impl Pmu for BananaPmu {
    fn info(&self) -> PmuInfo {
        PmuInfo::hardware("banana")
    }

    // Only this PMU is asked for its type; it knows one event, and cannot sample.
    fn event_init(&mut self, hw: &mut Hw, _: &Target, _: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.config == 0 && !hw.is_sampling() { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, _start: bool) -> Result<(), Errno> {
        hw.prev = BANANAS.load(Ordering::Relaxed);
        self.start(cx, hw, false);
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.stop(cx, hw); // which reads
    }

    fn read(&mut self, _: &mut Cx<'_>, hw: &mut Hw) {
        let now = BANANAS.load(Ordering::Relaxed);
        hw.count += now - std::mem::replace(&mut hw.prev, now);
    }
}

/// Each task may measure itself; there are no descriptors and no rings here.
struct World;

impl Host for World {}

fn main() -> Result<(), Errno> {
    let (monkey, scheduler) = (TaskId(1), AtIp::default());
    let mut engine = Engine::new(Config::default());
    engine.register(Box::new(BananaPmu))?;
    engine.add_task(monkey, TaskFacts::new(1, 1));

    // perf_event_open({type of "banana", exclude_kernel}, 0: the monkey itself, any cpu)
    let (_, type_) = engine.pmu_by_name("banana").ok_or(Errno::ENOENT)?;
    let mut attr = Attr { size: Attr::SIZE_VER8, flags: AttrFlags::EXCLUDE_KERNEL, ..Attr::new(type_) };
    let mut bytes = Vec::new();
    attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).map_err(|_| Errno::EFAULT)?;
    let event = engine.open(&mut World, monkey, 0, &mut bytes, OpenArguments::default())?;

    // The monkey runs from 10 to 20 ns; then another one eats.
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
