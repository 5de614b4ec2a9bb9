//! From a plan to counts by the library alone, with the embedded kernel, which everybody may use: runs, recordings of counts
//! and their replay, plans that are refused.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use perfuse::Perf;
use perfuse_data::PerfData;
use perfuse_events::Machine;
use perfuse_stat::{Destination, Error, Exit, Observer, Plan, Report, Requests, Target, count, replay};
use perfuse_testkit::{Outcome, need, suite};
use std::io;
use std::path::PathBuf;

suite! {
    smoke:
        each_run_of_a_command_is_a_reading;
    measurements:
        recorded_counts_are_replayed_as_they_were,
        an_observer_that_takes_no_more_ends_the_measurement,
        a_command_that_cannot_be_executed_is_told,
        a_step_before_a_run_that_fails_is_told;
}

/// Counts of a command that a kernel without a PMU has.
fn plan(command: &[&str]) -> Plan {
    let mut requests = Requests::default();
    requests.add("task-clock:u,page-faults:u", &Machine::new()).expect("events of every kernel");
    let mut plan = Plan::new(Target::Command, command.iter().map(Into::into).collect(), requests.all);
    plan.kernel = Perf::embedded().expect("one for this architecture");
    plan
}

/// The values of each event, by run.
fn values(report: &Report) -> Vec<Vec<u64>> {
    let readings = report.events.iter().map(|event| event.rows[0].readings());
    readings.map(|readings| readings.iter().map(|reading| reading.value).collect()).collect()
}

fn each_run_of_a_command_is_a_reading() -> Outcome {
    need::ptrace()?;
    let mut plan = plan(&["sh", "-c", "exit 3"]);
    plan.runs = Some(3);
    let report = count(&plan, &mut (), None, None).expect("counts").expect("three runs");
    assert_eq!(report.exit, Some(Exit::Code(3)));
    assert_eq!(report.runs.len(), 3);
    for (event, values) in report.events.iter().zip(values(&report)) {
        assert_eq!(values.len(), 3, "{}", event.name);
        assert!(values.iter().all(|&value| value > 0), "{}: {values:?}", event.name);
        let spread = event.rows[0].spread().expect("readings");
        let (least, most) = (values.iter().min().unwrap(), values.iter().max().unwrap());
        assert!((*least as f64..=*most as f64).contains(&spread.mean), "{spread:?} of {values:?}");
    }
    assert!(report.runs.iter().all(|run| run.wall_ns > 0 && run.usage.is_some()));
    Ok(())
}

/// A file, until the test ends.
struct Recording(PathBuf);

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn recorded_counts_are_replayed_as_they_were() -> Outcome {
    need::ptrace()?;
    let path = std::env::temp_dir().join(format!("perfuse-stat-{}", std::process::id()));
    let recording = Recording(path.clone());
    let mut destination = Destination::File(path);
    let made = count(&plan(&["true"]), &mut (), None, Some(&mut destination)).expect("counts");
    let made = made.expect("a run");
    let mut data = PerfData::open(&recording.0).expect("a recording");
    let replayed = replay(&mut data, None, "it", |_| Ok(())).expect("counts");
    let (replayed, intervals) = replayed.expect("counts in the recording");
    assert_eq!(intervals, 0);
    assert_eq!(values(&replayed), values(&made));
    let names = |report: &Report| report.events.iter().map(|event| event.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&replayed), names(&made));
    Ok(())
}

fn an_observer_that_takes_no_more_ends_the_measurement() -> Outcome {
    need::ptrace()?;
    struct Full;

    impl Observer for Full {
        fn interval(&mut self, _: &Report) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    let mut plan = plan(&["sleep", "1000"]);
    plan.interval = Some(std::time::Duration::from_millis(1));
    let ended = count(&plan, &mut Full, None, None);
    assert!(
        matches!(&ended, Err(Error::Io(error)) if error.kind() == io::ErrorKind::StorageFull),
        "{ended:?}"
    );
    Ok(())
}

fn a_command_that_cannot_be_executed_is_told() -> Outcome {
    need::ptrace()?;
    let ended = count(&plan(&["/nowhere/at/all"]), &mut (), None, None);
    assert!(matches!(&ended, Err(Error::Start(_))), "{ended:?}");
    Ok(())
}

fn a_step_before_a_run_that_fails_is_told() -> Outcome {
    need::ptrace()?;
    let mut plan = plan(&["true"]);
    plan.pre = Some("exit 5".into());
    let ended = count(&plan, &mut (), None, None);
    assert!(matches!(&ended, Err(Error::Hook(words)) if words.starts_with("--pre")), "{ended:?}");
    Ok(())
}
