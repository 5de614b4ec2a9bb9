//! Which samples are taken, and what stands in them.

use super::*;
use perfuse::Start;
use perfuse::abi::record::{CallchainContext, CpuMode};
use perfuse_record::{Chains, Error};
use perfuse_sys::pipe;
use perfuse_testkit::Outcome;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::Duration;

pub(super) fn one_is_taken_at_each_period() -> Outcome {
    let made = make(&of_first(WORKER, "cycles"));
    assert_eq!(made.times("cycles"), ms(1..=10));
    assert_eq!((made.ended.sums.samples, made.ended.sums.lost, made.remarks.len()), (10, 0, 0));
    Ok(())
}

pub(super) fn a_term_gives_an_event_a_period_of_its_own() -> Outcome {
    let made = make(&of_first(WORKER, "cycles/period=5000000/,instructions"));
    assert_eq!(made.times("cycles/period=5000000/"), ms([5, 10]));
    // Two of them a nanosecond: each half millisecond.
    assert_eq!(made.times("instructions"), (1..=20).map(|half| half * 500).collect::<Vec<_>>());
    Ok(())
}

/// The kernel begins with short periods, and finds the right one from tick to tick.
pub(super) fn a_frequency_becomes_as_many_a_second() -> Outcome {
    let busy = "
        program worker
          compute 4s cycles=1000
        end
        start worker
    ";
    let mut plan = of_first(busy, "cycles");
    plan.rate = Rate::Frequency(500);
    let made = make(&plan);
    let times = made.times("cycles");
    let second = |n: u64| times.iter().filter(|time| **time / 1_000_000 == n).count();
    for n in 1..4 {
        assert!((499..=501).contains(&second(n)), "{n}: {}", second(n));
    }
    let periods = made.samples(|sample| sample.period.expect("a period"));
    let sum: u64 = periods.iter().map(|(_, period)| period).sum();
    assert!((3_990_000_000..=4_000_000_000).contains(&sum), "{sum}");
    Ok(())
}

pub(super) fn two_recordings_of_the_same_machine_are_the_same_bytes() -> Outcome {
    let scenario = "
        machine
          cpus 3
          counters 2
          refuses 3
          seed 7
        end
        program child
          repeat 20
            compute 700us cycles=1300 instructions=900
            fault 3
            sleep 400us
          end
        end
        program parent
          start child
          start child
          thread child
          map 0x1000 0x1000 /lib/a
          compute 5ms cycles=800
          comm other
          wait
        end
        start parent
        start parent
    ";
    let made = || {
        let mut plan =
            plan(kernel(scenario), Target::Processes(vec![100, 101]), "cycles,{instructions,faults}:S,cs");
        plan.rate = Rate::Frequency(4000);
        make(&plan)
    };
    let (first, second) = (made(), made());
    assert!(first.ended.sums.samples > 100, "{:?}", first.ended);
    assert!(first.bytes == second.bytes);
    Ok(())
}

pub(super) fn none_is_taken_before_the_delay_is_over() -> Outcome {
    let scenario = "
        program worker
          compute 2ms cycles=1000
          map 0x7f0000000000 0x2000 /lib/late
          compute 8ms cycles=1000
        end
        start worker
    ";
    let mut plan = of_first(scenario, "cycles");
    plan.start = Start::After(Duration::from_micros(4500));
    let made = make(&plan);
    assert_eq!(made.times("cycles"), [5500, 6500, 7500, 8500, 9500]);
    // Mappings made during the delay are known.
    let mapped = made.told(RecordType::MMAP2, |record| record.sample_id.time);
    assert_eq!(mapped, [Some(2_000_000)]);
    Ok(())
}

pub(super) fn a_recording_ends_when_its_target_does() -> Outcome {
    let two = "
        machine
          cpus 2
        end
        program short
          compute 3ms cycles=1000
        end
        program long
          compute 50ms cycles=1000
        end
        start short
        start long
    ";
    let made = make(&of_first(two, "cycles"));
    assert_eq!(made.ended.elapsed, Duration::from_millis(3));
    let made = make(&plan(kernel(two), Target::Threads(vec![100, 101]), "cycles"));
    assert_eq!(made.ended.elapsed, Duration::from_millis(50));
    assert_eq!(made.by_thread(), [(100, 3), (101, 50)].into());
    Ok(())
}

pub(super) fn orders_switch_them_on_and_off() -> Outcome {
    let (reading, writing) = pipe::nonblocking(true).expect("a pipe");
    let control = Control::open(&format!("fd:{}", reading.as_raw_fd())).expect("a channel");
    let writing = Arc::new(File::from(writing));
    let mut kernel = kernel(WORKER);
    for (at_us, order) in [(1500, "disable\n"), (4500, "enable\n"), (6700, "stop\n")] {
        let writing = writing.clone();
        kernel = kernel.at(at_us * 1000, move |_| (&*writing).write_all(order.as_bytes()).expect("room"));
    }
    let plan = plan(kernel, Target::Threads(vec![FIRST]), "cycles");
    let made = make_with(&plan, Some(control), u64::MAX);
    // The rest of a period goes on when the event is on again.
    assert_eq!(made.times("cycles"), ms([1, 5, 6]));
    assert!(made.ended.stopped);
    assert_eq!(made.ended.elapsed, Duration::from_micros(6700));
    Ok(())
}

pub(super) fn orders_about_single_events_are_obeyed() -> Outcome {
    let (reading, writing) = pipe::nonblocking(true).expect("a pipe");
    let control = Control::open(&format!("fd:{}", reading.as_raw_fd())).expect("a channel");
    let writing = Arc::new(File::from(writing));
    let mut kernel = kernel(WORKER);
    for (at_us, order) in [
        (500, "evlist\nevlist -g\n"),
        (1500, "disable cycles\n"),
        (4500, "enable cycles\nenable nothing\n"),
        (6700, "stop\n"),
    ] {
        let writing = writing.clone();
        kernel = kernel.at(at_us * 1000, move |_| (&*writing).write_all(order.as_bytes()).expect("room"));
    }
    let plan = plan(kernel, Target::Threads(vec![FIRST]), "cycles,task-clock");
    let made = make_with(&plan, Some(control), u64::MAX);
    assert_eq!(made.times("cycles"), ms([1, 5, 6]));
    assert_eq!(made.times("task-clock"), ms([1, 2, 3, 4, 5, 6]));
    let told = made.remarks.iter().filter_map(|remark| match remark {
        Remark::Control(line) => Some(line.as_str()),
        _ => None,
    });
    let names = ["cycles", "task-clock", "cycles", "task-clock", "control: there is no event 'nothing'"];
    assert_eq!(told.collect::<Vec<_>>(), names);
    Ok(())
}

pub(super) fn events_that_take_turns_are_sampled_in_their_turns_alone() -> Outcome {
    let one_counter = "
        machine
          counters 1
        end
        program worker
          compute 80ms cycles=1000 instructions=1000
        end
        start worker
    ";
    let mut plan = of_first(one_counter, "cycles,instructions");
    plan.rate = Rate::Period(100_000);
    let made = make(&plan);
    let turns =
        |event: &str| made.times(event).into_iter().map(|time| (time - 1) / 4000 % 2).collect::<Vec<_>>();
    let (cycles, instructions) = (turns("cycles"), turns("instructions"));
    assert_eq!((cycles.len(), instructions.len()), (400, 400));
    // Of eight milliseconds each has its own half, and nothing outside of it.
    assert!(cycles.iter().all(|turn| *turn == cycles[0]), "{cycles:?}");
    assert!(instructions.iter().all(|turn| *turn != cycles[0]), "{instructions:?}");
    Ok(())
}

pub(super) fn a_leader_tells_the_counts_of_its_group() -> Outcome {
    let scenario = "
        program worker
          repeat 5
            compute 1ms cycles=1000 instructions=3000
            fault 7
          end
        end
        start worker
    ";
    let made = make(&of_first(scenario, "{cycles,instructions,faults}:S"));
    let all = made.samples(|sample| {
        let values = sample.read.expect("the group's values");
        (0..3).map(|place| values.get(place).expect("a member").value).collect::<Vec<_>>()
    });
    // A sample of the leader at the end of each millisecond, before the faults that follow.
    let expected: Vec<_> =
        (1..=5u64).map(|n| ("cycles".to_owned(), vec![n * 1_000_000, n * 3_000_000, (n - 1) * 7])).collect();
    let named: Vec<_> = all.into_iter().map(|(name, values)| (name.replace(":S", ""), values)).collect();
    assert_eq!(named, expected);
    Ok(())
}

/// Two hardware events for one counter.
const CROWDED: &str = "
    machine
      counters 1
    end
    program worker
      compute 10ms cycles=1000 instructions=1000
    end
    start worker
";

pub(super) fn a_weak_group_that_does_not_fit_falls_apart() -> Outcome {
    let made = make(&of_first(CROWDED, "{cycles,instructions}:W"));
    assert!(made.remarks.iter().any(|remark| matches!(remark, Remark::WeakGroups(_))), "{:?}", made.remarks);
    let (cycles, instructions) = (made.times("cycles").len(), made.times("instructions").len());
    assert!(cycles > 0 && instructions > 0 && cycles + instructions <= 10, "{cycles} {instructions}");
    Ok(())
}

pub(super) fn a_group_that_does_not_fit_is_refused() -> Outcome {
    let plan = of_first(CROWDED, "{cycles,instructions}");
    match record(&plan, &mut StreamSink::new(Vec::new()), &mut (), None) {
        Err(Error::Perf(error)) => assert_eq!(error.cause(), perfuse::diagnosis::Cause::Group),
        other => panic!("{other:?}"),
    }
    Ok(())
}

pub(super) fn modifiers_leave_out_a_side() -> Outcome {
    let scenario = "
        program worker
          compute 3ms cycles=1000
          kernel 2ms cycles=1000
          compute 2ms cycles=1000
        end
        start worker
    ";
    let made = make(&of_first(scenario, "cycles:u,cycles:k,cycles"));
    assert_eq!(made.times("cycles:u"), ms([1, 2, 3, 6, 7]));
    assert_eq!(made.times("cycles:k"), ms([4, 5]));
    assert_eq!(made.times("cycles"), ms(1..=7));
    let mut modes = Vec::new();
    made.each(|name, record| {
        if name == "cycles:k" && matches!(record.record, Record::Sample(_)) {
            modes.push(record.misc.cpu_mode());
        }
    });
    assert_eq!(modes, [CpuMode::KERNEL; 2]);
    Ok(())
}

pub(super) fn the_kernel_side_is_given_up_where_it_is_refused() -> Outcome {
    let scenario = "
        unprivileged
        program worker
          compute 2ms cycles=1000
          kernel 2ms cycles=1000
        end
        start worker
    ";
    let made = make(&of_first(scenario, "cycles"));
    assert!(made.remarks.iter().any(|remark| matches!(remark, Remark::UserOnly(_))), "{:?}", made.remarks);
    assert_eq!(made.times("cycles:u"), ms([1, 2]));
    Ok(())
}

pub(super) fn the_clock_is_sampled_where_there_is_no_pmu() -> Outcome {
    let scenario = "
        machine
          no-pmu
        end
        program worker
          compute 5ms
        end
        start worker
    ";
    let mut plan = of_first(scenario, "cycles");
    plan.default_events = true;
    let made = make(&plan);
    assert!(matches!(made.remarks[..], [Remark::Clock { .. }]), "{:?}", made.remarks);
    assert_eq!(made.times("cpu-clock"), ms(1..=5));
    // With the sides that were asked for, and beside other events.
    let mut plan = of_first(scenario, "cycles:upp,task-clock");
    plan.default_events = true;
    let made = make(&plan);
    assert_eq!((made.times("cpu-clock:u"), made.times("task-clock")), (ms(1..=5), ms(1..=5)));
    Ok(())
}

/// Their samples are laid out alike, and tell their event by the field ID.
pub(super) fn clocks_beside_each_other_are_each_sampled_all_the_time() -> Outcome {
    let made = make(&of_first(WORKER, "cpu-clock,task-clock"));
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
    assert_eq!(made.times("cpu-clock"), ms(1..=10));
    assert_eq!(made.times("task-clock"), ms(1..=10));
    Ok(())
}

/// Rule I10 limits an event to so many samples in a tick; the machine's is four milliseconds.
pub(super) fn too_many_are_throttled_and_that_is_told() -> Outcome {
    let scenario = "
        set perf_event_max_sample_rate 10000
        program worker
          compute 20ms cycles=1000
        end
        start worker
    ";
    let mut plan = of_first(scenario, "cycles");
    plan.rate = Rate::Period(10_000);
    let made = make(&plan);
    let throttled = made.told(RecordType::THROTTLE, |_| ()).len();
    assert!(throttled > 0);
    assert!(made.remarks.contains(&Remark::Throttled(throttled as u64)), "{:?}", made.remarks);
    // Forty and one in each of five ticks, of four hundred that there would have been.
    assert!((200..=210).contains(&made.ended.sums.samples), "{:?}", made.ended.sums);
    Ok(())
}

pub(super) fn call_chains_begin_where_the_sample_is() -> Outcome {
    let mut plan = of_first(WORKER, "cycles:u");
    plan.chains = Some(Chains::FramePointers);
    let all = make(&plan).samples(|sample| {
        let chain = sample.callchain.expect("a callchain").words.iter().collect::<Vec<_>>();
        (sample.ip.expect("a place"), chain)
    });
    assert_eq!(all.len(), 10);
    for (_, (ip, chain)) in all {
        assert_eq!(chain[..2], [CallchainContext::USER.0, ip]);
        assert_eq!(chain.len(), 3);
    }
    Ok(())
}

/// A tracepoint that is hit with the values 0 to 3, twice.
const HITS: &str = "
    machine
      tracepoint 42
    end
    program worker
      repeat 2
        tracepoint 42 value=0
        tracepoint 42 value=1
        compute 1ms
        tracepoint 42 value=2
        tracepoint 42 value=3
      end
    end
    start worker
";

pub(super) fn a_filter_keeps_the_hits_that_match() -> Outcome {
    let values = |filter: Option<&str>| {
        let mut plan = of_first(HITS, "dummy");
        plan.events = vec![Request { filter: filter.map(str::to_owned), ..tracepoint(42) }];
        let all = make(&plan).samples(|sample| {
            let raw = sample.raw.expect("its record").as_bytes();
            u64::from_ne_bytes(raw[8..16].try_into().expect("a number"))
        });
        all.into_iter().map(|(_, value)| value).collect::<Vec<_>>()
    };
    assert_eq!(values(None), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(values(Some("value >= 2")), [2, 3, 2, 3]);
    assert_eq!(values(Some("value == 1 || value == 3")), [1, 3, 1, 3]);
    assert_eq!(values(Some("value < 3 && common_pid != 100")), [0; 0]);
    Ok(())
}

pub(super) fn a_filter_for_no_tracepoint_is_refused() -> Outcome {
    let refused = |request: Request| {
        let mut plan = of_first(HITS, "dummy");
        plan.events = vec![request];
        record(&plan, &mut StreamSink::new(Vec::new()), &mut (), None)
            .expect_err("no filter for it")
            .to_string()
    };
    let filter = Some("value == 1".to_owned());
    let cycles = requests("cycles").remove(0);
    assert_eq!(refused(Request { filter, ..cycles }), "--filter is for tracepoints, and cycles is none");
    let wrong = Request { filter: Some("vallue == 1".to_owned()), ..tracepoint(42) };
    let told = refused(wrong);
    assert!(
        told.starts_with("--filter 'vallue == 1' for sim:hit: the kernel does not understand it"),
        "{told}"
    );
    Ok(())
}

pub(super) fn an_observer_ends_the_recording() -> Outcome {
    let mut plan = of_first(WORKER, "cycles");
    plan.buffering = false;
    let made = make_with(&plan, None, 4);
    assert!(made.ended.stopped);
    assert_eq!(made.times("cycles"), ms(1..=4));
    Ok(())
}

/// The ring is that of the first event, and stays.
pub(super) fn a_pmu_that_goes_ends_its_samples() -> Outcome {
    let kernel = kernel(WORKER).at(3_500_000, |machine| assert!(machine.remove_pmu()));
    let made = make(&plan(kernel, Target::Threads(vec![FIRST]), "cpu-clock,cycles"));
    assert_eq!(made.times("cycles"), ms(1..=3));
    assert_eq!(made.times("cpu-clock"), ms(1..=10));
    Ok(())
}
