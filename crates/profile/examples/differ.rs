//! Opens two recordings and prints the functions whose share has changed most.
//!
//! `cargo run -p perfuse-profile --example differ -- perf.data.old perf.data`

use perfuse_data::PerfData;
use perfuse_profile::{Frames, Key, LocalSymbols, Names, Plan, Profile, View, ViewPlan, difference};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files = std::env::args_os().skip(1);
    let (Some(before), Some(after)) = (files.next(), files.next()) else {
        return Err("wants two recordings".into());
    };
    let before = Profile::read(PerfData::open(before)?, Plan::new(&[]))?;
    let after = Profile::read(PerfData::open(after)?, Plan::new(&[]))?;

    let symbols = LocalSymbols::default();
    let frames = [&before, &after].map(|profile| Frames::new(&Names::new(profile, &symbols), false));
    let keys = [Key::Dso, Key::Symbol];
    let before = View::new(&before, &frames[0], 0, &ViewPlan::new(&keys));
    let after = View::new(&after, &frames[1], 0, &ViewPlan::new(&keys));
    for entry in difference(&before, &after, &keys).iter().filter(|entry| entry.growth() != 0.0).take(10) {
        let [old, new] = entry.shares.map(|share| 100.0 * share);
        println!("{old:6.2} % -> {new:6.2} %  {}", entry.texts.join(" "));
    }
    Ok(())
}
