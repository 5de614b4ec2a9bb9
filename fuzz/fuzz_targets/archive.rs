//! Archives of arbitrary bytes, bare ones and within every form of compression: nothing is written outside of the store and the
//! folder of the recording.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_symbols::BuildIdStore;
use perfuse_symbols::archive::unpack;
use std::fs;

fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir().join(format!("perfuse-fuzz-archive-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let (here, store) = (folder.join("here"), BuildIdStore::at(folder.join("store")));
    fs::create_dir_all(&here).expect("a folder");
    let _ = unpack(bytes, &store, &here);
    for entry in fs::read_dir(&folder).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        assert!(name == "here" || name == "store", "{name:?}");
    }
    for entry in fs::read_dir(&here).expect("a folder") {
        assert!(entry.expect("an entry").file_type().expect("a type").is_file());
    }
    for stored in store.list().expect("a list") {
        assert!(store.name_of(&stored.id).is_some());
    }
    let _ = fs::remove_dir_all(&folder);
});
