//! Counts what a closure does: time, faults and, where there is a PMU, instructions per cycle, with intervals over runs.

use perfuse::{Group, abi::Hardware, abi::Software};

fn work() -> usize {
    (0..200_000u64).map(|number| std::hint::black_box(number.to_string().len())).sum()
}

fn main() -> Result<(), perfuse::Error> {
    let mut group = Group::new();
    let time = group.add(Software::TASK_CLOCK)?;
    let faults = group.add(Software::PAGE_FAULTS)?;
    let mut hardware = Group::new();
    let cycles = hardware.add(Hardware::CPU_CYCLES);
    let pair = cycles.and_then(|cycles| Ok((cycles, hardware.add(Hardware::INSTRUCTIONS)?)));
    let (mut times, mut missed, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..20 {
        [&mut group, &mut hardware].into_iter().try_for_each(|group| group.reset().and(group.enable()))?;
        work();
        [&mut group, &mut hardware].into_iter().try_for_each(Group::disable)?;
        let counts = group.read()?;
        times.push(counts[time].value as f64 / 1e6);
        missed.push(counts[faults].value as f64);
        if let Ok((cycles, instructions)) = &pair {
            let counts = hardware.read()?;
            ratios.push(counts[*instructions].value as f64 / counts[*cycles].value.max(1) as f64);
        }
    }
    for (name, values) in
        [("ms of task-clock", times), ("page-faults", missed), ("instructions per cycle", ratios)]
    {
        match perfuse_stat::Spread::of(values) {
            Some(spread) => println!("{name}: {:.3}, 95 % in {:.3?}", spread.mean, spread.interval95()),
            None => println!("{name}: {}", pair.as_ref().err().map_or(String::new(), ToString::to_string)),
        }
    }
    Ok(())
}
