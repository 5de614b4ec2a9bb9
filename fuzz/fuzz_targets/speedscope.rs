//! Profiles of speedscope of arbitrary bytes: reading never panics, and what was read becomes a recording with the same sums.
#![no_main]

#[path = "shared/import.rs"]
mod import;

use libfuzzer_sys::fuzz_target;
use perfuse_export::ImportFormat;

fuzz_target!(|bytes: &[u8]| import::check(ImportFormat::Speedscope, bytes));
