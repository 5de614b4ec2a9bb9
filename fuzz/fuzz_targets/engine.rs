//! The engine on a machine where everything happens that the bytes say: calls of programs with attrs of any
//! size and content, filters, ioctls, readers that spoil their rings, switches, forks, faults, interrupts,
//! PMUs that go. The invariants are then checked by the same code as in the engine's own test `chaos`.
#![no_main]

#[path = "../../crates/engine/tests/shared/chaos.rs"]
mod chaos;
#[path = "../../crates/engine/tests/shared/image.rs"]
mod image;
#[path = "../../crates/engine/tests/shared/machine.rs"]
mod machine;
#[path = "../../crates/engine/tests/shared/random.rs"]
mod random;
#[path = "../../crates/engine/tests/shared/tracer.rs"]
mod tracer;

use libfuzzer_sys::fuzz_target;

/// An input needs no more steps to reach a state.
const STEPS: u64 = 500;

fuzz_target!(|bytes: &[u8]| {
    chaos::Chaos::new(random::Random::of_bytes(bytes), "fuzz".to_owned()).play(STEPS);
});
