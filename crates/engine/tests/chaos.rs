//! A million steps of chaos (see `shared/chaos.rs`).
//!
//! `PERFUSE_SEED=n` plays only that sequence again, `PERFUSE_STEPS=n` sets how many steps all have.

#[path = "shared/chaos.rs"]
mod chaos;
#[path = "shared/image.rs"]
mod image;
#[path = "shared/machine.rs"]
mod machine;
#[path = "shared/random.rs"]
mod random;
#[path = "shared/tracer.rs"]
mod tracer;

use chaos::Chaos;
use random::Random;

/// Steps of a sequence, and of all.
const LENGTH: u64 = 2_000;
const STEPS: u64 = 1_000_000;

#[test]
fn nothing_breaks() {
    let seeds = random::seeds(random::asked("PERFUSE_STEPS").unwrap_or(STEPS) / LENGTH);
    let mut opened = 0;
    for seed in seeds.clone() {
        let mut chaos = Chaos::new(Random::new(seed), format!("PERFUSE_SEED={seed}"));
        chaos.play(LENGTH);
        opened += chaos.opened;
    }
    // Much of what programs ask for here is right.
    assert!(opened > (seeds.end - seeds.start) * LENGTH / 100, "{opened}");
}
