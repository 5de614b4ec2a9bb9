//! The files of `/proc/sys/kernel` and `/sys/bus/event_source` (sections L, M).

use crate::machine::{Machine, software};
use perfuse_engine::abi::{Attr, Errno, EventType, SampleType, Software};
use perfuse_engine::{Config, Engine, OpenArguments, Sysctl};

/// Rules L1, L2, L4: values and their ranges.
#[test]
fn settings_take_numbers_in_range() {
    let mut machine = Machine::new(1);
    let defaults = Sysctl::ALL.map(|which| machine.engine.sysctl(which));
    assert_eq!(defaults, ["2", "516", "100000", "25", "127", "8"]);
    let mut set = |which, text: &str| {
        machine.engine.set_sysctl(which, text)?;
        Ok(machine.engine.sysctl(which))
    };
    for (text, value) in
        [("-1\n", "-1"), ("0x3", "3"), ("1 7", "1"), ("", "1"), ("-2147483648", "-2147483648")]
    {
        assert_eq!(set(Sysctl::PerfEventParanoid, text).as_deref(), Ok(value));
    }
    for text in ["x", "2147483648", "-"] {
        assert_eq!(set(Sysctl::PerfEventParanoid, text), Err(Errno::EINVAL));
    }
    assert_eq!(set(Sysctl::PerfEventMlockKb, "-5").as_deref(), Ok("-5"));
    for (text, right) in [("0", true), ("100", true), ("101", false), ("-1", false)] {
        assert_eq!(set(Sysctl::PerfCpuTimeMaxPercent, text).is_ok(), right);
    }
}

/// Rule L3: the rate cannot be set while it is not limited.
#[test]
fn the_rate_is_set_while_it_is_limited() {
    let mut machine = Machine::new(1);
    let mut set = |which, text| machine.engine.set_sysctl(which, text);
    assert_eq!(set(Sysctl::PerfEventMaxSampleRate, "0"), Err(Errno::EINVAL));
    assert_eq!(set(Sysctl::PerfEventMaxSampleRate, "1"), Ok(()));
    for percent in ["0", "100"] {
        set(Sysctl::PerfCpuTimeMaxPercent, percent).unwrap();
        assert_eq!(set(Sysctl::PerfEventMaxSampleRate, "1000"), Err(Errno::EINVAL));
    }
}

/// Rules L5, L6: settings of callchains stay while there are some.
#[test]
fn callchains_hold_their_settings() {
    let mut machine = Machine::new(1);
    let asked = Attr { sample_type: SampleType::CALLCHAIN, ..software(Software::DUMMY) };
    let fd = machine.own(&asked);
    for which in [Sysctl::PerfEventMaxStack, Sysctl::PerfEventMaxContextsPerStack] {
        let same = machine.engine.sysctl(which);
        assert_eq!(machine.engine.set_sysctl(which, &same), Err(Errno::EBUSY));
        assert_eq!(machine.engine.set_sysctl(which, "655361"), Err(Errno::EINVAL));
    }
    machine.close(fd);
    assert_eq!(machine.engine.set_sysctl(Sysctl::PerfEventMaxStack, "655360"), Ok(()));
    assert_eq!(machine.engine.set_sysctl(Sysctl::PerfEventMaxContextsPerStack, "0"), Ok(()));
}

/// Settings of a kernel below hold, whatever would refuse to write them.
#[test]
fn settings_of_the_kernel_below_are_followed() {
    let mut machine = Machine::new(1);
    let asked = Attr { sample_type: SampleType::CALLCHAIN, ..software(Software::DUMMY) };
    let _chains = machine.own(&asked);
    machine.engine.set_sysctl(Sysctl::PerfCpuTimeMaxPercent, "100").unwrap();
    for (which, text) in [(Sysctl::PerfEventMaxStack, "5"), (Sysctl::PerfEventMaxSampleRate, "500")] {
        assert_eq!(machine.engine.follow_sysctl(which, &format!("{text}\n")), Ok(()));
        assert_eq!(machine.engine.sysctl(which), text);
        assert_eq!(machine.engine.follow_sysctl(which, "-1"), Err(Errno::EINVAL));
        assert_eq!(machine.engine.sysctl(which), text);
    }
    let deeper = Attr { sample_max_stack: 6, ..asked };
    assert_eq!(machine.open(&deeper, OpenArguments::default()).err(), Some(Errno::EOVERFLOW));
}

/// Rule M1: the files of a PMU.
#[test]
fn pmus_show_their_type_and_interval() {
    let mut engine = Engine::new(Config { hz: 1000, ..Config::default() });
    let (pmu, type_) = engine.pmu_by_name("software").unwrap();
    assert_eq!(type_, EventType::SOFTWARE);
    let files: Vec<_> =
        engine.device_files(pmu).into_iter().map(|file| (file.path, file.text, file.mode)).collect();
    let interval = "perf_event_mux_interval_ms".to_string();
    assert_eq!(files[0], ("type".into(), "1\n".into(), 0o444));
    assert_eq!(files[1], (interval, "1\n".into(), 0o644));
    assert_eq!(engine.set_mux_interval_ms(pmu, 0), Err(Errno::EINVAL));
    engine.set_mux_interval_ms(pmu, 7).unwrap();
    assert_eq!(engine.device_files(pmu)[1].text, "7\n");
}

/// Rule M2: which PMUs there are; the clocks have types and no directories.
#[test]
fn clocks_have_no_directory() {
    let engine = Engine::new(Config::default());
    let names: Vec<(&str, u32)> = engine.devices().map(|(_, name, type_)| (name, type_.0)).collect();
    assert_eq!(names, [("software", 1), ("tracepoint", 2), ("breakpoint", 5)]);
    assert_eq!(engine.pmu_by_name("cpu_clock").unwrap().1, EventType(6));
    assert_eq!(engine.pmu_by_name("task_clock").unwrap().1, EventType(7));
}
