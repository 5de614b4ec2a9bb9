//! Folded stacks of arbitrary bytes: reading never panics, and what was read is written in all formats, with the same total.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_export::{Format, Stacks};

fuzz_target!(|bytes: &[u8]| {
    let Ok(stacks) = Stacks::from_folded(bytes) else { return };
    for (format, _) in Format::ALL {
        let mut written = Vec::new();
        stacks.write(*format, "input", &mut written).expect("memory takes all");
        if *format == Format::Folded {
            let again = Stacks::from_folded(written.as_slice()).expect("what was written is read");
            assert_eq!(again.total(0), stacks.total(0));
        }
    }
});
