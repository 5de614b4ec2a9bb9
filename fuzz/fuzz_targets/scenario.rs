//! Texts as scenarios of the simulated machine: what is no scenario is refused with its place in the text,
//! what is one is played to an end, and again to the same end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_sim::scenario::{Scenario, play_within};

/// Steps of the machine for one text.
const STEPS: u64 = 20_000;

fuzz_target!(|text: &str| {
    match text.parse::<Scenario>() {
        Ok(scenario) => {
            let outcome = play_within(&scenario, STEPS);
            let again = play_within(&scenario, STEPS);
            assert_eq!((outcome.text, outcome.failed), (again.text, again.failed));
        }
        Err(error) => assert!(error.line <= text.lines().count().max(1)),
    }
});
