//! Plays a scenario: three events share two counters, each for two thirds of the time.

use perfuse_sim::scenario::{self, Scenario};

const TEXT: &str = "
machine
  counters 2
end
program worker
  compute 60ms cycles=3000 instructions=2000
end
start worker
open a cycles on worker
open b instructions on worker
open c cycles on worker
run 60ms
show counts
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scenario: Scenario = TEXT.parse()?;
    let outcome = scenario::play(&scenario);
    print!("{}", outcome.text);
    Ok(())
}
