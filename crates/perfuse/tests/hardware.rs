//! Hardware counters: what only a PMU shows. Every test skips where there is none; the arm64 machine of
//! `.ci/cross-test` has an emulated one, whose counts are exact. Rules are those of `docs/semantics`.

use perfuse::abi::{Hardware, SampleType, Software, record::Record};
use perfuse::{Builder, Count, Counter, Errno, Group, Sampler, Scaled};
use perfuse_testkit::work::{Pages, SPIN_INSTRUCTIONS, burn, spin, system_calls};
use perfuse_testkit::{Outcome, Skip, need, suite};
use std::time::Duration;

/// An event of user space. Skips where the machine does not have it.
fn event(event: Hardware) -> Result<Builder, Skip> {
    need::hardware_pmu()?;
    let builder = Counter::builder(event).user_only();
    builder.open().map_err(|error| Skip::needs(&perfuse::Event::from(event).to_string(), error))?;
    Ok(builder)
}

fn cycles() -> Result<Builder, Skip> {
    event(Hardware::CPU_CYCLES)
}

/// In the virtual machine that runs the tests, time and counts follow the instructions that ran.
fn emulated() -> bool {
    std::env::var_os("PERFUSE_VM").is_some()
}

fn read(counter: &Counter) -> Count {
    counter.read().expect("read")
}

/// The count of `counter` for `work`, which is done once before, so that its code has been fetched.
fn counted(counter: &mut Counter, work: impl Fn()) -> u64 {
    work();
    counter.reset().expect("reset");
    counter.enable().expect("enable");
    work();
    counter.disable().expect("disable");
    read(counter).value
}

fn instructions_of_a_loop_are_exact() -> Outcome {
    let mut instructions = event(Hardware::INSTRUCTIONS)?.open().expect("instructions");
    let rounds = [100_000, 1_000_000];
    let once = rounds.map(|rounds| counted(&mut instructions, || spin(rounds)));
    let again = rounds.map(|rounds| counted(&mut instructions, || spin(rounds)));
    let expected = (rounds[1] - rounds[0]) * SPIN_INSTRUCTIONS;
    // Real cpus count one more for every interrupt.
    let tolerance = if emulated() { 0 } else { 2000 };
    assert!((once[1] - once[0]).abs_diff(expected) <= tolerance, "{once:?}, {expected} between them");
    assert!(once[1].abs_diff(again[1]) <= tolerance, "{once:?} and {again:?}");
    // Around the loop stand the two calls that switch the counter.
    assert!(once[0] - rounds[0] * SPIN_INSTRUCTIONS < 10_000, "{once:?}");
    Ok(())
}

fn cycles_follow_the_work() -> Outcome {
    let mut cycles = cycles()?.open().expect("cycles");
    let short = counted(&mut cycles, || spin(500_000));
    let long = counted(&mut cycles, || spin(5_000_000));
    let ratio = long as f64 / short as f64;
    // Ten times the work, at a frequency that may change meanwhile.
    assert!((5.0..20.0).contains(&ratio), "{short} and {long}");
    assert_eq!(read(&cycles).scaled(), Scaled::Exact(long));
    Ok(())
}

fn user_and_kernel_are_told_apart() -> Outcome {
    cycles()?;
    let open = |sides: fn(Builder) -> Builder| sides(Counter::builder(Hardware::CPU_CYCLES)).open();
    let sides = [Builder::user_only, Builder::kernel_only, Builder::user_and_kernel].map(open);
    let [Ok(user), Ok(kernel), Ok(both)] = sides else {
        return Err(Skip::needs("to count the kernel", "refused"));
    };
    let mut counters = [user, kernel, both];
    let mut count = |work: &dyn Fn()| {
        work();
        perfuse::Perf::linux().enable_own_events().expect("prctl");
        work();
        perfuse::Perf::linux().disable_own_events().expect("prctl");
        let values = counters.each_ref().map(|counter| read(counter).value);
        counters.iter_mut().for_each(|counter| counter.reset().expect("reset"));
        values
    };
    let [user, kernel, both] = count(&|| spin(10_000_000));
    // The kernel's part are the ticks, which an emulator may make long.
    assert!(user > kernel && both > user, "a loop: {user} {kernel} {both}");
    let [user, kernel, both] = count(&|| system_calls(20_000));
    assert!(kernel > user / 4 && both > kernel, "calls: {user} {kernel} {both}");
    Ok(())
}

fn a_group_is_on_together() -> Outcome {
    let mut group = Group::new();
    let cycles = group.add_built(cycles()?).expect("cycles");
    let clock = group.add_built(Counter::builder(Software::TASK_CLOCK).user_only()).expect("the task clock");
    let faults = group.add_built(Counter::builder(Software::PAGE_FAULTS).user_only()).expect("page faults");
    let second = group.add_built(self::cycles()?).expect("cycles");
    let pages = Pages::map(50);
    for _ in 0..2 {
        group.reset().expect("reset");
        pages.forget();
        group.enable().expect("enable");
        pages.touch();
        spin(1_000_000);
        group.disable().expect("disable");
    }
    let counts = group.read().expect("read");
    assert_eq!(counts[faults].value, 50);
    assert!(counts[clock].value > 0 && counts[cycles].value > 1_000_000, "{counts:?}");
    assert!(counts.iter().all(|(_, count)| count.running_ns == counts[cycles].running_ns));
    // Both count the same cycles, but for the moments between switching one and the other.
    assert!(counts[cycles].value.abs_diff(counts[second].value) < counts[cycles].value / 10, "{counts:?}");
    Ok(())
}

/// Counters of cycles that all run at once, found by opening more until they take turns.
fn counters_at_once() -> Result<usize, Skip> {
    for number in 1..=64 {
        let mut counters = Vec::new();
        for _ in 0..=number {
            counters.push(cycles()?.enabled(true).open().expect("cycles"));
        }
        burn(Duration::from_millis(20));
        if counters.iter().any(|counter| !matches!(read(counter).scaled(), Scaled::Exact(_))) {
            return Ok(number);
        }
    }
    Err(Skip::needs("a PMU with an end", "64 events run at once"))
}

fn more_events_than_counters_take_turns() -> Outcome {
    // Rules C25 to C27.
    let at_once = counters_at_once()?;
    let number = at_once + 5;
    let mut counters = Vec::new();
    for _ in 0..number {
        counters.push(cycles()?.enabled(true).open().expect("cycles"));
    }
    burn(Duration::from_millis(800));
    counters.iter_mut().for_each(|counter| counter.disable().expect("disable"));
    let (mut values, mut shares) = (Vec::new(), 0.0);
    for counter in &counters {
        let Scaled::Estimate { value, share } = read(counter).scaled() else {
            panic!("{:?} of {:?}", read(counter).scaled(), read(counter));
        };
        // Whenever somebody else ran in between, turns start anew, so they are not quite fair.
        assert!((0.1..0.95).contains(&share), "{share}");
        shares += share;
        values.push(value as f64);
    }
    // All counters are always in use.
    assert!((shares - at_once as f64).abs() < 0.3, "{at_once} counters gave {shares} shares");
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    // Work is even, so every estimate is about the same.
    assert!(values.iter().all(|value| (value / mean - 1.0).abs() < 0.2), "{values:?}");
    Ok(())
}

fn a_group_larger_than_the_pmu_never_runs() -> Outcome {
    // The arm64 driver lets a group in whose leader is off, though it can never be placed; others refuse
    // the member that is too many (rule B29).
    let at_once = counters_at_once()?;
    let mut group = Group::new();
    for _ in 0..at_once {
        group.add_built(cycles()?).expect("it fits");
    }
    let one_too_many = group.add_built(cycles()?);
    group.enable().expect("enable");
    spin(1_000_000);
    group.disable().expect("disable");
    let counts = group.read().expect("read");
    let Ok(one_too_many) = one_too_many else {
        assert_eq!(one_too_many.expect_err("refused").errno(), Errno::EINVAL);
        assert!(counts.iter().all(|(_, count)| matches!(count.scaled(), Scaled::Exact(_))));
        return Ok(());
    };
    assert!(counts.iter().all(|(_, count)| count.scaled() == Scaled::NeverRan), "{counts:?}");
    assert_eq!(counts[one_too_many].scaled().value(), None, "0 is not a count");
    group.remove(one_too_many);
    group.enable().expect("enable");
    spin(1_000_000);
    group.disable().expect("disable");
    let counts = group.read().expect("read");
    assert!(counts.iter().all(|(_, count)| count.value > 0), "{counts:?}");
    Ok(())
}

fn a_pinned_event_beyond_the_pmu_cannot_be_read() -> Outcome {
    // Rules C12.5 and E1.
    let at_once = counters_at_once()?;
    let mut counters = Vec::new();
    for _ in 0..at_once + 2 {
        counters.push(cycles()?.pinned(true).enabled(true).open().expect("cycles"));
    }
    spin(100_000);
    let (on, off) = counters.split_at(at_once);
    for counter in on {
        assert!(matches!(read(counter).scaled(), Scaled::Exact(1..)), "{:?}", read(counter));
    }
    for counter in off {
        let error = counter.read().expect_err("it is not on the PMU");
        assert_eq!(error.errno(), Errno::ENODATA, "{error:#}");
        assert!(error.to_string().contains("pinned"), "{error}");
    }
    // One that leaves makes room for one that asks again (rule C46).
    drop(counters.remove(0));
    let last = counters.last_mut().expect("counters");
    last.enable().expect("enable");
    spin(100_000);
    assert!(read(last).value > 0);
    Ok(())
}

fn an_exclusive_event_is_alone() -> Outcome {
    // Rule C15: two flexible ones that exclude each other take turns.
    let exclusive = cycles()?.exclusive(true).enabled(true).open().expect("cycles");
    let other = cycles()?.enabled(true).open().expect("cycles");
    burn(Duration::from_millis(400));
    let shares = [exclusive, other].map(|counter| {
        let count = read(&counter);
        count.running_ns as f64 / count.enabled_ns as f64
    });
    assert!(shares.iter().all(|share| (0.1..0.9).contains(share)), "{shares:?}");
    assert!(shares[0] + shares[1] < 1.05, "never both: {shares:?}");
    Ok(())
}

fn user_space_reads_agree_with_the_call() -> Outcome {
    // Rules F32 to F35. On arm64 the kernel has to be asked for it; with both bits for all 64 bits.
    let arm = cfg!(target_arch = "aarch64");
    let _sysctl = if arm { Some(need::Sysctl::is("kernel/perf_user_access", 1)?) } else { None };
    for config1 in if arm { &[2u64, 3][..] } else { &[0] } {
        let builder = cycles()?.with(|attr| attr.config1 = *config1);
        let mut counter = builder.open().expect("cycles").into_user_counter().expect("its page");
        if !counter.is_allowed() {
            return Err(Skip::needs("counters that user space may read", "the kernel does not let it"));
        }
        assert_eq!(counter.try_read(), None, "not while it is off");
        counter.counter().enable().expect("enable");
        let mut last = 0;
        for _ in 0..1000 {
            spin(1000);
            // One reading between two others, each later than the one before.
            let before = read(counter.counter()).value;
            let between = (0..100).find_map(|_| counter.try_read()).expect("it is on a counter");
            let after = read(counter.counter()).value;
            assert!(before <= between.value && between.value <= after, "{before} {between:?} {after}");
            assert!(between.value > last && between.running_ns <= between.enabled_ns);
            last = between.value;
        }
        assert!(counter.read().expect("read").value >= last);
        if counter.time_conversion().is_some() {
            let (call, own) = (read(counter.counter()), counter.try_read().expect("it is on a counter"));
            let apart = own.enabled_ns.abs_diff(call.enabled_ns);
            assert!(apart < 100_000_000, "{apart} ns between two readings one after the other");
        }
        counter.counter().disable().expect("disable");
        assert_eq!(counter.try_read(), None);
        assert_eq!(counter.read().expect("read").value, read(counter.counter()).value);
    }
    Ok(())
}

fn a_software_event_is_read_by_the_call() -> Outcome {
    let faults = Counter::builder(Software::PAGE_FAULTS).user_only().enabled(true);
    let mut counter = match faults.open() {
        Ok(counter) => counter.into_user_counter().expect("its page"),
        Err(error) => return Err(Skip::needs("to count one's own page faults", error)),
    };
    Pages::map(10).touch();
    assert_eq!((counter.try_read(), counter.is_allowed()), (None, false));
    counter.counter().disable().expect("disable");
    let value = counter.read().expect("read").value;
    assert!(value >= 10 && read(counter.counter()).value == value);
    assert_eq!(read(&counter.into_counter()).value, value);
    let inherited = Counter::builder(Software::PAGE_FAULTS).user_only().inherit(perfuse::Inherit::All);
    let error = inherited.open().expect("page faults").into_user_counter().expect_err("rule F1");
    assert_eq!(error.errno(), Errno::EINVAL);
    Ok(())
}

/// Number of samples, and the sum of their periods.
fn taken(sampler: &mut Sampler) -> (u64, u64) {
    let mut taken = (0, 0);
    for entry in sampler.batch().iter() {
        if let Record::Sample(sample) = entry.decode().expect("a record").record {
            taken = (taken.0 + 1, taken.1 + sample.period.expect("a period"));
        }
    }
    taken
}

fn overflows_come_every_so_many_cycles() -> Outcome {
    // Rule N2. In the kernel too, so that where an overflow is noticed makes no difference.
    cycles()?;
    let fields = SampleType::IP | SampleType::PERIOD;
    let period = 1_000_000;
    let builder = Counter::builder(Hardware::CPU_CYCLES).period(period).sample(fields);
    let mut sampler = Sampler::builder().event(builder).open().expect("a sampler");
    sampler.enable().expect("enable");
    burn(Duration::from_millis(300));
    sampler.disable().expect("disable");
    let count = read(sampler.sources()[0].counter());
    let (samples, periods) = taken(&mut sampler);
    let expected = count.value as f64 / period as f64;
    assert!((samples as f64 - expected).abs() <= 1.0 + expected * 0.02, "{samples} of {expected}");
    assert_eq!((periods, count.lost.unwrap_or(0)), (samples * period, 0));
    Ok(())
}

fn a_frequency_is_approached() -> Outcome {
    // Rules I15 to I18. The first samples come fast, until the period is found.
    let builder = cycles()?.frequency(1000).sample(SampleType::IP | SampleType::PERIOD);
    let mut sampler = Sampler::builder().event(builder).open().expect("a sampler");
    sampler.enable().expect("enable");
    let burnt = burn(Duration::from_millis(500)).as_millis() as u64;
    sampler.disable().expect("disable");
    let (samples, _) = taken(&mut sampler);
    assert!((burnt / 4..burnt * 3).contains(&samples), "{samples} samples in {burnt} ms");
    Ok(())
}

fn precision_is_taken_as_far_as_it_goes() -> Outcome {
    let builder = cycles()?.period(100_000).sample(SampleType::IP);
    let counter = builder.clone().most_precise().open().expect("less precise, if it must be");
    let level = counter.attr().flags.precise_ip();
    assert!(level <= 3);
    let given_up: Vec<_> = counter.given_up().iter().map(|given_up| given_up.what.as_str()).collect();
    assert_eq!(given_up.contains(&"precise_ip"), level < 3, "{given_up:?} at level {level}");
    for required in 0..=3u8 {
        assert_eq!(builder.clone().precise(required).open().is_ok(), required <= level, "level {required}");
    }
    Ok(())
}

suite! {
    measurements:
        instructions_of_a_loop_are_exact,
        cycles_follow_the_work,
        user_and_kernel_are_told_apart,
        a_group_is_on_together,
        more_events_than_counters_take_turns,
        a_group_larger_than_the_pmu_never_runs,
        a_pinned_event_beyond_the_pmu_cannot_be_read,
        an_exclusive_event_is_alone,
        user_space_reads_agree_with_the_call,
        a_software_event_is_read_by_the_call,
        overflows_come_every_so_many_cycles,
        a_frequency_is_approached,
        precision_is_taken_as_far_as_it_goes;
}
