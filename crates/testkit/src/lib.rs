//! Tools that perfuse's own tests share.
//!
//! * [`suite!`] makes a test program whose tests may say, at run time and by name, what the machine
//!   lacks: such a test is counted as ignored, never as passed.
//! * [`Sandbox`] runs a test, or a program, as an unprivileged user, under a seccomp filter that
//!   refuses `perf_event_open(2)`, or with lowered limits.
//! * [`Container`] runs a program as Docker does by default, or under gVisor.
//! * [`OwnCgroup`] is a cgroup for as long as a test runs, [`Puppet`] a child that does what it is told,
//!   [`Alone`] a lock for what there is only once. [`side_by_side`] does what may be done at the same time.
//! * [`need`] asks the machine for what a test wants; [`perf`] runs Linux's own.
//! * [`Terminal`] is one that a test reads and types at.
//! * [`work`] does things with exactly known effects, [`bpf`] loads the smallest programs, and
//!   [`signals`] catches what events send; [`wait`] waits for others.
//! * [`source`] reads sources as words and signs.
//!
//! Not published, and never part of a product.

mod alone;
mod beside;
pub mod bpf;
mod cgroup;
mod container;
pub mod need;
pub mod perf;
mod puppet;
mod sandbox;
pub mod signals;
pub mod source;
mod terminal;
pub mod tiny;
pub mod wait;
pub mod work;

pub use alone::Alone;
pub use beside::side_by_side;
pub use cgroup::OwnCgroup;
pub use container::Container;
use libtest_mimic::{Arguments, Completion, Trial};
pub use puppet::Puppet;
pub use sandbox::Sandbox;
use std::panic::catch_unwind;
use std::time::Instant;
pub use terminal::Terminal;

/// Why a test cannot run on this machine.
#[derive(Clone, Debug)]
pub struct Skip(pub String);

impl Skip {
    /// "needs `what`: `why it is not there`".
    pub fn needs(what: &str, why: impl std::fmt::Display) -> Self {
        Skip(format!("needs {what}: {why}"))
    }
}

/// The result of a test function; a failure is a panic.
pub type Outcome = Result<(), Skip>;

/// A test of a [`suite!`]: its name and its function.
pub type Test = (&'static str, fn() -> Outcome);

/// The kind of a [`suite!`]'s tests. The number of threads that an argument asks for holds for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They count events of the machine, or watch what others do to it, and want no company: one at a time. One that fails is
    /// taken once more, and says so: only a second failure is evidence against what it tests, as the machine has other work, too.
    Measurements,
    /// They look at no clock and at no other process: as many at a time as there are cpus.
    Deterministic,
}

/// Runs tests that are measurements as `cargo test` expects it of a test program, and exits.
pub fn run(tests: &[Test]) -> ! {
    run_as(Kind::Measurements, need::nothing, tests)
}

/// The same of tests of either kind that all need something. Called by [`suite!`]. Programs under test have no configuration file
/// of whoever runs them. With `PERFUSE_TIMES` in the environment each test tells how long it took.
pub fn run_as(kind: Kind, all_need: fn() -> Outcome, tests: &[Test]) -> ! {
    heed_interrupts();
    // SAFETY: there is one thread yet.
    unsafe { std::env::set_var("PERFUSE_CONFIG", "") };
    let mut arguments = Arguments::from_args();
    if kind == Kind::Measurements {
        arguments.test_threads.get_or_insert(1);
    }
    let tells_times = std::env::var_os("PERFUSE_TIMES").is_some();
    let trials = tests.iter().map(|&(name, function)| {
        Trial::ignorable_test(name, move || {
            let began = Instant::now();
            let outcome = all_need().and_then(|()| match kind {
                Kind::Measurements => measured(name, function),
                Kind::Deterministic => function(),
            });
            if tells_times {
                eprintln!("{:8.2} s {name}", began.elapsed().as_secs_f64());
            }
            match outcome {
                Ok(()) => Ok(Completion::Completed),
                Err(Skip(reason)) => {
                    eprintln!("skipped: {name}: {reason}");
                    Ok(Completion::ignored_with(reason))
                }
            }
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit()
}

/// The outcome of a measurement, taken again if it fails.
fn measured(name: &str, function: fn() -> Outcome) -> Outcome {
    catch_unwind(function).unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().map(String::as_str);
        let why = why.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
        // One line, since `.ci/run` gathers these.
        eprintln!("taken again: {name}: {}", why.replace('\n', " | "));
        function()
    })
}

/// A shell starts programs in the background with interrupts ignored, and what they start ignores them
/// too; programs under test shall not.
fn heed_interrupts() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default action is always a valid one.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// The main function of a test program (`harness = false`): `suite! { this_holds, that_too }`, each the
/// name of a `fn() -> Outcome`; `suite! { all need need::events; this_holds }`, where each of them needs something;
/// `suite! { deterministic; this_holds }`, where none of them looks at a clock or at another process ([`Kind`]).
#[macro_export]
macro_rules! suite {
    (deterministic; $($test:ident),+ $(,)?) => {
        $crate::suite! { @main Deterministic, $crate::need::nothing; $($test),+ }
    };
    (all need $need:path; $($test:ident),+ $(,)?) => {
        $crate::suite! { @main Measurements, $need; $($test),+ }
    };
    (@main $kind:ident, $need:path; $($test:ident),+) => {
        fn main() {
            let tests = [$((stringify!($test), $test as fn() -> $crate::Outcome)),+];
            $crate::run_as($crate::Kind::$kind, $need, &tests)
        }
    };
    ($($test:ident),+ $(,)?) => {
        $crate::suite! { @main Measurements, $crate::need::nothing; $($test),+ }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_measurement_is_taken_twice_at_most() {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let once = || {
            assert_ne!(TAKEN.fetch_add(1, Ordering::Relaxed), 0, "the machine\nhad other work");
            Ok(())
        };
        assert_eq!(measured("once", once).map_err(|skip| skip.0), Ok(()));
        assert_eq!(TAKEN.load(Ordering::Relaxed), 2);
        assert!(catch_unwind(|| measured("always", || panic!("never right"))).is_err());
    }
}
