//! Saved profiles: what is loaded can be looked at from every side, and is the same when it is saved again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_profile::{Column, Frames, Key, Least, Names, Profile, Trees, View, ViewPlan};

fuzz_target!(|bytes: &[u8]| {
    let Ok(profile) = Profile::load(bytes) else { return };
    let mut saved = Vec::new();
    profile.save(&mut saved).expect("memory takes all");
    let again = Profile::load(&saved).expect("a saved profile is loaded");
    let mut merged = profile.clone();
    // Sums of hostile files may have no room for more.
    let _ = merged.merge(&again);
    let names = Names::new(&profile, &());
    let frames = Frames::new(&names, false);
    let mut keys = profile.keys().to_vec();
    keys.extend([Key::Dso, Key::Symbol]);
    for event in 0..profile.events().len().min(8) {
        let view = View::new(&profile, &frames, event, &ViewPlan::new(&keys).with_callers());
        let trees = Trees::new(&view, true, Least::Weight(1));
        for entry in view.sorted(&[Column::Own]).into_iter().take(100) {
            keys.iter().for_each(|&key| drop(view.text(entry, key)));
            trees.of(entry);
            view.places(&names, entry);
            view.neighbours(entry);
        }
    }
    if let Some((first, last)) = profile.span_ns() {
        let part = profile.between(first..last / 2 + first / 2 + 1);
        assert!(part.samples().len() <= profile.samples().len());
    }
});
