//! Suites as programs: which of their tests run, and how they end. Each test here runs this program again as a suite of its own.

use perfuse_testkit::{Outcome, need, run, tests};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

/// Names the suite that this program is to be.
const WHICH: &str = "PERFUSE_TESTKIT_SUITE";

fn main() {
    match std::env::var(WHICH).as_deref() {
        Ok("red") => run(need::nothing, &tests! { deterministic: fails, passes; smoke: passes }),
        Ok("five") => run(need::nothing, &tests! { smoke: first, second, third, fourth, fifth }),
        Ok("six") => run(need::nothing, &tests! { smoke: first, second, third, fourth, fifth, sixth }),
        Ok("witness") => run(need::nothing, &tests! { smoke: passes; witnesses: fails }),
        Ok(other) => panic!("no suite {other}"),
        Err(_) => run(
            need::nothing,
            &tests! {
                deterministic:
                    a_failure_is_not_made_good_by_tests_that_pass_later,
                    five_tests_may_need_another_try_and_six_may_not,
                    witnesses_run_where_all_are_asked_for;
            },
        ),
    }
}

fn passes() -> Outcome {
    Ok(())
}

fn fails() -> Outcome {
    panic!("as it has to")
}

/// Tests that pass at the second try.
macro_rules! at_the_second_try {
    ($($name:ident),+) => {
        $(fn $name() -> Outcome {
            static WAS_TRIED: AtomicBool = AtomicBool::new(false);
            assert!(WAS_TRIED.swap(true, Ordering::Relaxed), "not at once");
            Ok(())
        })+
    };
}
at_the_second_try!(first, second, third, fourth, fifth, sixth);

/// The end of a suite, and what it printed.
fn suite(which: &str, takes_all: bool) -> (Option<i32>, String) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(WHICH, which).env_remove("PERFUSE_TESTS");
    if takes_all {
        command.env("PERFUSE_TESTS", "all");
    }
    let Output { status, stdout, stderr } = command.output().expect("a suite");
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

fn a_failure_is_not_made_good_by_tests_that_pass_later() -> Outcome {
    let (status, told) = suite("red", false);
    assert_eq!(status, Some(101), "{told}");
    Ok(())
}

fn five_tests_may_need_another_try_and_six_may_not() -> Outcome {
    let (status, told) = suite("five", false);
    assert!(status == Some(0) && told.contains("again: first: not at once"), "{told}");
    let (status, told) = suite("six", false);
    assert!(status == Some(101) && told.contains("6 tests needed more than one try, and 5 may"), "{told}");
    Ok(())
}

fn witnesses_run_where_all_are_asked_for() -> Outcome {
    let (status, told) = suite("witness", false);
    assert!(status == Some(0) && told.contains("1 ignored"), "{told}");
    let (status, told) = suite("witness", true);
    assert_eq!(status, Some(101), "{told}");
    Ok(())
}
