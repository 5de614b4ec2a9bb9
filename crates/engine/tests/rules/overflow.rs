//! Overflow, throttling, frequencies, timers, SIGTRAP (section I).

use crate::machine::{KERNEL, ME, Machine, Reader, USER, decoded, software, with};
use perfuse_engine::abi::record::Record;
use perfuse_engine::abi::{Attr, AttrFlags, EventType, SampleType, Software};
use perfuse_engine::{Effect, Notice, Sysctl};

fn sampling(period: u64) -> Attr {
    let mut asked = software(Software::PAGE_FAULTS);
    asked.set_period(period);
    asked
}

fn heavy(machine: &mut Machine, weight: u64) {
    machine.engine.software(0, machine.now, Software::PAGE_FAULTS, weight, 0, &USER);
}

/// The periods that samples tell.
fn periods(reader: &mut Reader, asked: &Attr) -> Vec<u64> {
    let bytes = reader.take();
    let period = |record: &Record<'_>| match record {
        Record::Sample(sample) => sample.period,
        _ => None,
    };
    decoded(&bytes, asked).iter().filter_map(|record| period(&record.record)).collect()
}

/// Rules I3, I5: told the period, every occurrence is a sample, and its period is its weight.
#[test]
fn asking_for_the_period_gives_every_occurrence() {
    let mut machine = Machine::new(1);
    let asked = Attr { sample_type: SampleType::PERIOD, ..sampling(10) };
    let fd = machine.own(&asked);
    let mut reader = machine.map(fd, 1);
    machine.fault(0, 3);
    heavy(&mut machine, 25);
    assert_eq!(periods(&mut reader, &asked), [1, 1, 1, 25]);
    // A counting event never samples.
    let counting = Attr { sample_type: SampleType::PERIOD, ..software(Software::PAGE_FAULTS) };
    let fd = machine.own(&counting);
    let mut reader = machine.map(fd, 1);
    machine.fault(0, 3);
    assert!(reader.take().is_empty());
}

/// Rules I4, I7: one heavy occurrence is as many samples as it is periods; the rest counts on.
#[test]
fn a_heavy_occurrence_overflows_several_times() {
    let mut machine = Machine::new(1);
    let fd = machine.own(&sampling(10));
    let mut reader = machine.map(fd, 1);
    heavy(&mut machine, 57);
    assert_eq!(decoded(&reader.take(), &sampling(10)).len(), 5);
    machine.fault(0, 2);
    assert!(reader.take().is_empty());
    machine.fault(0, 1);
    assert_eq!(decoded(&reader.take(), &sampling(10)).len(), 1);
}

/// Rule I6: the first sample is that of the period's last occurrence; being off does not change the phase.
#[test]
fn the_phase_survives_being_off() {
    let mut machine = Machine::new(1);
    let fd = machine.own(&sampling(10));
    let mut reader = machine.map(fd, 1);
    machine.fault(0, 9);
    assert!(reader.take().is_empty());
    machine.disable(fd);
    machine.fault(0, 50);
    machine.enable(fd);
    machine.fault(0, 1);
    assert!(!reader.take().is_empty());
}

/// Rules I10, I11: single occurrences are never too many; several overflows of one can be.
#[test]
fn only_repeated_overflows_are_throttled() {
    let mut machine = Machine::new(1);
    machine.sysctl(Sysctl::PerfEventMaxSampleRate, "1000");
    let fd = machine.own(&sampling(1));
    let mut reader = machine.map(fd, 64);
    machine.fault(0, 1000);
    assert_eq!(decoded(&reader.take(), &sampling(1)).len(), 1000);
    let asked = sampling(2);
    let fd = machine.own(&asked);
    let mut reader = machine.map(fd, 64);
    heavy(&mut machine, 100);
    // Four a tick: the record that says so comes before the sample that was too much.
    let bytes = reader.take();
    let kinds: String = decoded(&bytes, &asked)
        .iter()
        .map(|record| if matches!(record.record, Record::Throttle(_)) { 'T' } else { 'S' })
        .collect();
    assert_eq!(kinds, "SSSTS");
}

/// Rules I12, I13, I14: the whole group stands until the tick, and its leader says so.
#[test]
fn a_group_is_throttled_until_the_tick() {
    let mut machine = Machine::new(1);
    machine.sysctl(Sysctl::PerfEventMaxSampleRate, "1000");
    let leader = machine.own(&software(Software::DUMMY));
    let asked = Attr { sample_type: SampleType::ID, ..sampling(2) };
    let member = machine.join(&asked, leader).unwrap();
    let other = machine.join(&software(Software::PAGE_FAULTS), leader).unwrap();
    let mut reader = machine.map(leader, 1);
    heavy(&mut machine, 100);
    let before = [member, other].map(|fd| machine.count(fd));
    machine.pass(1000);
    machine.fault(0, 5);
    assert_eq!([member, other].map(|fd| machine.count(fd)), before);
    assert_eq!(machine.times(member), (100, 1000, 1000));
    machine.engine.tick(0, machine.now);
    machine.fault(0, 5);
    assert_eq!([member, other].map(|fd| machine.count(fd)), before.map(|count| count + 5));
    let bytes = reader.take();
    let ids: Vec<(bool, u64)> = decoded(&bytes, &software(Software::DUMMY))
        .iter()
        .filter_map(|record| match record.record {
            Record::Throttle(throttle) => Some((true, throttle.id)),
            Record::Unthrottle(throttle) => Some((false, throttle.id)),
            _ => None,
        })
        .collect();
    let id = machine.engine.id(machine.key(leader)).unwrap();
    assert_eq!(ids, [(true, id), (false, id)]);
}

/// A fault each 10 us, and ticks: for 1000 samples a second a period of 100 would be right.
fn steady(machine: &mut Machine, faults: u64) {
    for fault in 1..=faults {
        machine.pass(10_000);
        machine.fault(0, 1);
        if fault % 400 == 0 {
            machine.engine.tick(0, machine.now);
        }
    }
}

/// Rules I15, I18: a frequency starts with every occurrence, and then the period grows. Rule I16: at
/// overflows. Linux does 1, 1, 1, 30, 1844, ... for faults, much as this.
#[test]
fn a_frequency_finds_its_period() {
    let mut machine = Machine::new(1);
    let mut asked = software(Software::PAGE_FAULTS);
    asked.set_sample_freq(1000);
    asked.sample_type = SampleType::PERIOD;
    let fd = machine.own(&asked);
    let mut reader = machine.map(fd, 64);
    steady(&mut machine, 30_000);
    let periods = periods(&mut reader, &asked);
    assert_eq!(periods[0], 1);
    let last = *periods.last().unwrap();
    assert!((80..=125).contains(&last), "{periods:?}");
    // A frequency of 0 counts.
    asked.sample_period = 0;
    let fd = machine.own(&asked);
    let mut reader = machine.map(fd, 1);
    machine.fault(0, 10);
    assert_eq!((machine.count(fd), reader.take().len()), (10, 0));
}

/// Rule I17: at a tick the period follows what was counted since the last one.
#[test]
fn ticks_adjust_frequencies() {
    let mut machine = Machine::new(1);
    let mut asked = software(Software::PAGE_FAULTS);
    asked.set_sample_freq(1000);
    asked.sample_type = SampleType::PERIOD;
    let fd = machine.own(&asked);
    let mut reader = machine.map(fd, 64);
    for _ in 0..50 {
        machine.pass(4_000_000);
        heavy(&mut machine, 4000);
        machine.engine.tick(0, machine.now);
        reader.take();
    }
    heavy(&mut machine, 4000);
    let period = periods(&mut reader, &asked)[0];
    // It is 1000 by the ticks, and overflows, whose interval is that of the whole, draw it down.
    assert!((400..=1100).contains(&period), "{period}");
}

/// Rule I19: a copy starts with the period its original has.
#[test]
fn copies_start_with_the_period_that_was_found() {
    let mut machine = Machine::new(1);
    let mut asked = with(software(Software::PAGE_FAULTS), AttrFlags::INHERIT);
    asked.set_sample_freq(1000);
    asked.sample_type = SampleType::PERIOD | SampleType::TID;
    let arguments = perfuse_engine::OpenArguments { cpu: 0, ..Default::default() };
    let fd = machine.open(&asked, arguments).unwrap();
    machine.own(&software(Software::DUMMY));
    let mut reader = machine.map(fd, 64);
    steady(&mut machine, 30_000);
    let found = *periods(&mut reader, &asked).last().unwrap();
    let child = machine.fork(ME, 200, Default::default()).unwrap();
    machine.faults_of(child, 1000);
    let first = periods(&mut reader, &asked)[0];
    assert!(first.abs_diff(found) < 10, "{first} {found}");
}

/// Rules I20, I21: clocks have an interval of 10 us at least, and what they leave out is only no sample.
#[test]
fn clocks_leave_out_samples_and_not_time() {
    let mut machine = Machine::new(1);
    let mut asked = with(software(Software::CPU_CLOCK), AttrFlags::EXCLUDE_USER);
    asked.set_period(1);
    let fd = machine.own(&asked);
    let mut reader = machine.map(fd, 1);
    machine.pass(100_000);
    assert_eq!((machine.count(fd), reader.take().len()), (100_000, 0));
    let fd = machine.own(&Attr { flags: AttrFlags::empty(), ..asked });
    let mut reader = machine.map(fd, 1);
    machine.pass(100_000);
    assert_eq!(decoded(&reader.take(), &asked).len(), 10);
    let mut asked = software(Software::CPU_CLOCK);
    asked.set_sample_freq(1000);
    let fd = machine.own(&asked);
    let mut reader = machine.map(fd, 1);
    machine.pass(10_000_000);
    assert_eq!(decoded(&reader.take(), &asked).len(), 10);
}

/// Rules I22, I23: the phase of a timer survives while the task is away.
#[test]
fn timers_stand_while_the_task_does() {
    let mut machine = Machine::new(1);
    let mut asked = software(Software::TASK_CLOCK);
    asked.set_period(20_000_000);
    let fd = machine.own(&asked);
    let mut reader = machine.map(fd, 1);
    machine.pass(12_000_000);
    machine.switch(0, None);
    machine.pass(50_000_000);
    machine.switch(0, Some(ME));
    machine.pass(7_999_999);
    assert!(reader.take().is_empty());
    machine.pass(1);
    assert!(!reader.take().is_empty());
    assert_eq!(machine.count(fd), 20_000_000);
}

/// Rule I24: samples that take too long become fewer.
#[test]
fn slow_samples_become_fewer() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(crate::machine::Counters::new(1))).unwrap();
    let (pmu, _) = machine.engine.pmu_by_name("cpu").unwrap();
    machine.sysctl(Sysctl::PerfCpuTimeMaxPercent, "1");
    for _ in 0..1000 {
        machine.engine.interrupt(pmu, 0, machine.now, Some(1_000_000), &USER);
    }
    assert_eq!(machine.engine.sysctl(Sysctl::PerfEventMaxSampleRate), "250");
    assert!(machine.engine.effects().any(|effect| matches!(effect, Effect::RateLowered { .. })));
    machine.sysctl(Sysctl::PerfCpuTimeMaxPercent, "100");
    machine.sysctl(Sysctl::PerfCpuTimeMaxPercent, "50");
    machine.sysctl(Sysctl::PerfEventMaxSampleRate, "5000");
    assert_eq!(machine.engine.sysctl(Sysctl::PerfEventMaxSampleRate), "5000");
}

/// Rules I30, I31: one SIGTRAP until it is taken, with the address unless the kernel's is hidden.
#[test]
fn a_trap_is_sent_once() {
    let mut machine = Machine::new(1);
    let trap = with(sampling(1), AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC);
    let fd = machine.own(&Attr { sig_data: 77, ..trap });
    let key = machine.key(fd);
    let traps = |machine: &mut Machine| -> Vec<(u64, u64, EventType)> {
        let traps = machine.engine.effects().filter_map(|effect| match effect {
            Effect::Trap(trap) => Some((trap.addr, trap.data, trap.type_)),
            _ => None,
        });
        traps.collect()
    };
    traps(&mut machine);
    machine.fault(0, 3);
    assert_eq!(traps(&mut machine), [(0x7000, 77, EventType::SOFTWARE)]);
    machine.engine.trap_delivered(key);
    machine.fault(0, 1);
    assert_eq!(traps(&mut machine).len(), 1);
    // Without a period there are no overflows.
    let counting = with(software(Software::PAGE_FAULTS), AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC);
    machine.close(fd);
    machine.own(&counting);
    machine.fault(0, 1);
    assert_eq!(traps(&mut machine), []);
}

/// Rules I1, G26: each overflow is a signal where that was asked for; the last of a refresh as a hang-up.
#[test]
fn overflows_are_signalled() {
    let mut machine = Machine::new(1);
    let fd = machine.own(&with(sampling(1), AttrFlags::DISABLED));
    let key = machine.key(fd);
    machine.engine.set_async(key, true);
    machine.ioctl(fd, perfuse_engine::Ioctl::Refresh(2)).unwrap();
    machine.engine.effects().for_each(drop);
    machine.fault(0, 5);
    let notices: Vec<Notice> = machine
        .engine
        .effects()
        .filter_map(|effect| match effect {
            Effect::Signal(_, notice) => Some(notice),
            _ => None,
        })
        .collect();
    assert_eq!(notices, [Notice::In, Notice::Hup]);
    assert!(!perfuse_engine::CpuState::is_user(&KERNEL));
}
