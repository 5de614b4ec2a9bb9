//! The event language on arbitrary text: it never panics, its errors can be printed, and what it accepts
//! prints as something it accepts again and prints the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_events::{EventList, NoCatalogue};

fuzz_target!(|text: &str| {
    match text.parse::<EventList>() {
        Ok(list) => {
            let printed = list.to_string();
            let again: EventList = printed.parse().expect("what was printed can be parsed");
            assert_eq!(again.to_string(), printed);
            let _ = list.resolve(&NoCatalogue).map_err(|error| error.explain());
        }
        Err(error) => assert!(error.explain().contains('^')),
    }
});
