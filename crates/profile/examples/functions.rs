//! Prints the functions of a recording in which most of its samples were: `functions perf.data`.

use perfuse_data::PerfData;
use perfuse_profile::{LocalSymbols, Plan, Profile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "perf.data".into());
    let profile = Profile::read(PerfData::open(path)?, Plan::new(&[]))?;
    for function in profile.hottest(0, &LocalSymbols::default()).iter().take(10) {
        println!("{:5.1} %  {}", 100.0 * function.share, function.name);
    }
    Ok(())
}
