//! The loop of a measurement: what ends a run, and who hears of orders. Nothing is measured.

use perfuse::control::Control;
use perfuse::measurement::{Lasts, Measurement, Run, Work};
use perfuse::{Command, Error, RunningCommand, Start};
use perfuse_testkit::Outcome;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

perfuse_testkit::suite! {
    measurements:
        a_command_is_waited_for_where_no_signals_are_caught,
        the_work_ends_the_command,
        a_limit_ends_the_command,
        a_command_does_not_outlive_work_that_fails,
        a_run_ends_with_the_last_of_its_processes,
        orders_are_carried_out_and_answered,
        events_start_when_the_delay_is_over;
}

const SIGTERM: i32 = 15;

fn start(words: &[&str]) -> RunningCommand {
    let held = Command::new(words[0]).args(&words[1..]).hold().expect("a child");
    held.release().expect("it starts")
}

fn forever() -> Run<'static> {
    let (began, start) = (Instant::now(), Start::AtOnce);
    Run { command: None, lasts: Lasts::Forever, began, start, timeout: None }
}

/// Notes what it is asked for, and ends at the first turn if it is told to, or at the first one after a note.
#[derive(Default)]
struct Notes {
    notes: Vec<String>,
    is_done: bool,
    ends_after_note: bool,
    fails: bool,
}

#[derive(Debug)]
struct Failed;

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        panic!("{error}")
    }
}

impl Work for Notes {
    type Error = Failed;

    fn enable(&mut self) -> Result<(), Failed> {
        self.notes.push("enable".into());
        Ok(())
    }

    fn disable(&mut self) -> Result<(), Failed> {
        self.notes.push("disable".into());
        Ok(())
    }

    fn take(&mut self, _now: Instant, _is_ending: bool) -> Result<ControlFlow<()>, Failed> {
        if self.fails { Err(Failed) } else { Ok(ControlFlow::Continue(())) }
    }

    fn go_on(&mut self, _now: Instant, _is_ending: bool) -> Result<ControlFlow<()>, Failed> {
        let ends = self.is_done || self.ends_after_note && !self.notes.is_empty();
        Ok(if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn obey(&mut self, order: perfuse::control::Order) -> Result<bool, Failed> {
        self.notes.push(format!("{order:?}"));
        Ok(false)
    }
}

fn a_command_is_waited_for_where_no_signals_are_caught() -> Outcome {
    let command = start(&["sh", "-c", "exit 7"]);
    let end = Measurement::new().pass(&Run::of(&command), &mut ()).expect("it ends");
    assert_eq!(end.command.map(|(status, _)| status.code()), Some(Some(7)));
    assert!(!end.was_stopped);
    Ok(())
}

fn the_work_ends_the_command() -> Outcome {
    let command = start(&["sleep", "1000"]);
    let mut work = Notes { is_done: true, ..Notes::default() };
    let end = Measurement::new().pass(&Run::of(&command), &mut work).expect("it ends");
    assert_eq!(end.command.map(|(status, _)| status.signal()), Some(Some(SIGTERM)));
    assert!(end.was_stopped);
    Ok(())
}

fn a_limit_ends_the_command() -> Outcome {
    let command = start(&["sleep", "1000"]);
    let run = Run { timeout: Some(Duration::from_millis(1)), ..Run::of(&command) };
    let end = Measurement::new().pass(&run, &mut ()).expect("it ends");
    assert_eq!(end.command.map(|(status, _)| status.signal()), Some(Some(SIGTERM)));
    assert!(end.was_stopped);
    Ok(())
}

fn a_command_does_not_outlive_work_that_fails() -> Outcome {
    let command = start(&["sleep", "1000"]);
    let mut work = Notes { fails: true, ..Notes::default() };
    Measurement::new().pass(&Run::of(&command), &mut work).expect_err("it fails");
    assert_eq!(command.wait().expect("its end").0.signal(), Some(SIGTERM));
    Ok(())
}

fn a_run_ends_with_the_last_of_its_processes() -> Outcome {
    let command = start(&["true"]);
    command.wait().expect("its end");
    let pids = [command.pid()];
    let end = Measurement::new().pass(&Run { lasts: Lasts::Processes(&pids), ..forever() }, &mut ());
    assert!(!end.expect("it ends").was_stopped);
    Ok(())
}

fn orders_are_carried_out_and_answered() -> Outcome {
    let (mut ours, its) = UnixStream::pair().expect("a pair of sockets");
    let answers = its.try_clone().expect("the other end").into_raw_fd();
    let control = Control::open(&format!("fd:{},{answers}", its.into_raw_fd())).expect("a channel");
    ours.write_all(b"disable\nenable\nping\nsnapshot\nenable one\nstop\n").expect("it is read");
    let mut work = Notes::default();
    let mut measurement = Measurement::new().with_control(Some(control));
    let end = measurement.pass(&forever(), &mut work).expect("it ends");
    assert!(end.was_stopped && end.command.is_none());
    let others = [r#"Ignored("snapshot")"#, r#"Switch { on: true, name: Some("one") }"#];
    assert_eq!(work.notes, [&["disable", "enable"], &others[..]].concat());
    let mut answers = vec![0; 4 * b"ack\n\0".len()];
    ours.read_exact(&mut answers).expect("answers");
    assert_eq!(answers, b"ack\n\0".repeat(4), "to what was carried out");
    Ok(())
}

fn events_start_when_the_delay_is_over() -> Outcome {
    let mut work = Notes { ends_after_note: true, ..Notes::default() };
    let run = Run { start: Start::After(Duration::from_millis(1)), ..forever() };
    Measurement::new().pass(&run, &mut work).expect("it ends");
    assert_eq!(work.notes, ["enable"]);
    Ok(())
}
