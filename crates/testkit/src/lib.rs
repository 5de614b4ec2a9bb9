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
    /// They count events of the machine, or watch what others do to it, and want no company: one at a time.
    Measurements,
    /// They look at no clock and at no other process: as many at a time as there are cpus.
    Deterministic,
}

/// Runs tests that are measurements as `cargo test` expects it of a test program, and exits.
pub fn run(tests: &[Test]) -> ! {
    run_as(Kind::Measurements, need::nothing, tests)
}

/// The same of tests of either kind that all need something. Called by [`suite!`].
pub fn run_as(kind: Kind, all_need: fn() -> Outcome, tests: &[Test]) -> ! {
    heed_interrupts();
    let mut arguments = Arguments::from_args();
    if kind == Kind::Measurements {
        arguments.test_threads.get_or_insert(1);
    }
    let trials = tests.iter().map(|&(name, function)| {
        Trial::ignorable_test(name, move || match all_need().and_then(|()| function()) {
            Ok(()) => Ok(Completion::Completed),
            Err(Skip(reason)) => {
                eprintln!("skipped: {name}: {reason}");
                Ok(Completion::ignored_with(reason))
            }
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit()
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
