//! Tools that perfuse's own tests share.
//!
//! * [`suite!`] makes a test program whose tests are of a [`Kind`] each, and may say, at run time and by name, what the machine
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
use std::sync::{Arc, Mutex};
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

/// What a test of a [`suite!`] looks at, which decides when it runs and what its failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It looks at no clock, at no other process, at nothing of the machine: it runs always, beside others on all cpus, and one
    /// failure is a fault.
    Deterministic,
    /// A measurement that `cargo test` takes, too: one of a handful, which show that what is built works on the kernel that runs.
    Smoke,
    /// Another program or kernel is asked, and has to agree.
    Witness,
    /// The live machine is measured, or watched.
    Measurement,
}

impl Kind {
    /// Whether it runs where nobody asks for all.
    fn is_usual(self) -> bool {
        matches!(self, Kind::Deterministic | Kind::Smoke)
    }
}

/// A test of a [`suite!`]; [`tests!`] makes a list of them.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Its name, which is its function's.
    pub name: &'static str,
    /// What it looks at.
    pub kind: Kind,
    /// It panics if it fails.
    pub function: fn() -> Outcome,
}

/// So often a test that depends on the machine may fail before it counts as failed.
const TRIES: usize = 3;

/// So many tests of a program may need more than one try.
const MAY_NEED_MORE: usize = 5;

/// Runs tests as `cargo test` expects it of a test program, and exits; all of them need something, perhaps [`need::nothing`].
///
/// Those that are [deterministic](Kind::Deterministic) run first, side by side; then the others, one at a time. Witnesses and
/// measurements are left out (told as ignored) unless `PERFUSE_TESTS` is `all`, or `--ignored` or `--include-ignored` asks for
/// them. What depends on the machine is tried three times, and says so: `again: NAME: WHY`. More than five tests that needed it
/// are a failure of the program.
///
/// Programs under test have neither configuration files nor wishes about colours of whoever runs them. With `PERFUSE_TIMES` in the
/// environment each test tells how long it took.
pub fn run(all_need: fn() -> Outcome, tests: &[Test]) -> ! {
    heed_interrupts();
    // SAFETY: there is one thread yet.
    unsafe {
        std::env::set_var("PERFUSE_CONFIG", "");
        for name in
            ["CI", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "PERFUSE_STYLE", "PERFUSE_LOG"]
        {
            std::env::remove_var(name);
        }
    }
    let arguments = Arguments::from_args();
    let tells_times = std::env::var_os("PERFUSE_TIMES").is_some();
    let takes_all = std::env::var_os("PERFUSE_TESTS").is_some_and(|tests| tests == "all");
    let again = Arc::new(Mutex::new(Vec::new()));
    let mut failed = false;
    for deterministic in [true, false] {
        let of_kind = tests.iter().filter(|test| (test.kind == Kind::Deterministic) == deterministic);
        let trials: Vec<Trial> = of_kind
            .map(|&test| {
                let again = again.clone();
                let trial = Trial::ignorable_test(test.name, move || {
                    let began = Instant::now();
                    let outcome = all_need().and_then(|()| match deterministic {
                        true => (test.function)(),
                        false => patiently(test.name, test.function, &again),
                    });
                    if tells_times {
                        eprintln!("{:8.2} s {} ({:?})", began.elapsed().as_secs_f64(), test.name, test.kind);
                    }
                    match outcome {
                        Ok(()) => Ok(Completion::Completed),
                        Err(Skip(reason)) => {
                            eprintln!("skipped: {}: {reason}", test.name);
                            Ok(Completion::ignored_with(reason))
                        }
                    }
                });
                trial.with_ignored_flag(!takes_all && !test.kind.is_usual())
            })
            .collect();
        if trials.is_empty() && !(deterministic && tests.is_empty()) {
            continue;
        }
        let mut arguments = arguments.clone();
        if !deterministic {
            arguments.test_threads.get_or_insert(1);
        }
        failed |= libtest_mimic::run(&arguments, trials).has_failed();
    }
    let again = again.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !again.is_empty() {
        eprintln!("again, before they passed or failed: {}", again.join(", "));
    }
    if again.len() > MAY_NEED_MORE {
        eprintln!("{} tests needed more than one try, and {MAY_NEED_MORE} may", again.len());
        failed = true;
    }
    std::process::exit(if failed { 101 } else { 0 })
}

/// The outcome of a test that depends on the machine. Only the last failure counts, as the machine has other work, too; a test
/// that is tried again goes into the list.
fn patiently(name: &'static str, function: fn() -> Outcome, again: &Mutex<Vec<&'static str>>) -> Outcome {
    for attempt in 1..TRIES {
        let panic = match catch_unwind(function) {
            Ok(outcome) => return outcome,
            Err(panic) => panic,
        };
        if attempt == 1 {
            again.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(name);
        }
        let why = panic.downcast_ref::<String>().map(String::as_str);
        let why = why.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
        // One line, since `.ci/run` gathers these.
        eprintln!("\nagain: {name}: {}", why.replace('\n', " | "));
    }
    function()
}

/// A shell starts programs in the background with interrupts ignored, and what they start ignores them
/// too; programs under test shall not.
fn heed_interrupts() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default action is always a valid one.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// The main function of a test program (`harness = false`), whose tests, each a `fn() -> Outcome`, stand by their [`Kind`]:
///
/// ```ignore
/// suite! {
///     all need need::events; // what each of them needs, if it is the same for all
///     deterministic: this_holds, that_too;
///     smoke: it_works_here;
///     witnesses: perf_agrees;
///     measurements: it_is_fast;
/// }
/// ```
#[macro_export]
macro_rules! suite {
    (all need $need:path; $($tests:tt)+) => {
        fn main() {
            $crate::run($need, &$crate::tests! { $($tests)+ })
        }
    };
    ($($tests:tt)+) => {
        fn main() {
            $crate::run($crate::need::nothing, &$crate::tests! { $($tests)+ })
        }
    };
}

/// A list of tests, written as in a [`suite!`]: for programs that have a main function of their own.
#[macro_export]
macro_rules! tests {
    (@kind deterministic) => { $crate::Kind::Deterministic };
    (@kind smoke) => { $crate::Kind::Smoke };
    (@kind witnesses) => { $crate::Kind::Witness };
    (@kind measurements) => { $crate::Kind::Measurement };
    ($($kind:ident: $($test:path),+ $(,)?);+ $(;)?) => {
        [$($($crate::Test { name: stringify!($test), kind: $crate::tests!(@kind $kind), function: $test }),+),+]
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_measurement_is_tried_three_times_at_most() {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let again = Mutex::new(Vec::new());
        let twice = || {
            assert!(TAKEN.fetch_add(1, Ordering::Relaxed) >= 2, "the machine\nhad other work");
            Ok(())
        };
        assert_eq!(patiently("twice", twice, &again).map_err(|skip| skip.0), Ok(()));
        assert_eq!(TAKEN.load(Ordering::Relaxed), 3);
        assert!(catch_unwind(|| patiently("never", || panic!("never right"), &Mutex::default())).is_err());
        assert_eq!(*again.lock().expect("nobody holds it"), ["twice"]);
    }

    #[test]
    fn a_list_tells_what_each_test_looks_at() {
        fn good() -> Outcome {
            Ok(())
        }
        let list =
            tests! { deterministic: good; smoke: good, need::nothing; witnesses: good; measurements: good };
        let told: Vec<_> = list.iter().map(|test| (test.name, test.kind, test.kind.is_usual())).collect();
        let kinds = [Kind::Deterministic, Kind::Smoke, Kind::Smoke, Kind::Witness, Kind::Measurement];
        let names = ["good", "good", "need::nothing", "good", "good"];
        let usual = [true, true, true, false, false];
        let expected: Vec<_> = (0..5).map(|n| (names[n], kinds[n], usual[n])).collect();
        assert_eq!(told, expected);
    }
}
