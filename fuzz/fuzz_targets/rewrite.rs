//! Recordings made of arbitrary bytes: a cut of them is a recording that can be read, and with everything kept a cut of
//! it is the same; a recording can be merged with itself, or not at all; converted for an older perf it can be read, and is the same
//! when it is converted again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_abi::Release;
use perfuse_data::abi::record::BuildId;
use perfuse_data::rewrite::{BuildIdsOf, Cut, Inject, MadeCode, Supplements, Target, convert, merge, strip};
use perfuse_data::session::Object;
use perfuse_data::{PerfData, ReadOptions};
use std::io::Cursor;

const OPTIONS: ReadOptions = ReadOptions::new().with_max_section(1 << 16);

/// More than this is not written: a few bytes of zeros can unpack to very many.
const MOST: usize = 4 << 20;

/// A disk that is full at some time.
struct Disk(Cursor<Vec<u8>>);

impl std::io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.position() as usize + bytes.len() > MOST {
            true => Err(std::io::ErrorKind::StorageFull.into()),
            false => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Seek for Disk {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

fn cut(cut: &Cut, bytes: &[u8]) -> Option<Vec<u8>> {
    let data = PerfData::from_seekable(Cursor::new(bytes), OPTIONS).ok()?;
    let mut disk = Disk(Cursor::new(Vec::new()));
    cut.run(data, Target::file(&mut disk)).ok()?;
    Some(disk.0.into_inner())
}

/// Every object has a build-id, and every jitdump two functions.
struct Everything;

impl Supplements for Everything {
    fn build_id(&mut self, object: &Object) -> Option<BuildId> {
        BuildId::new(&[object.name.len() as u8; 20])
    }

    fn code(
        &mut self,
        path: &[u8],
        pid: u32,
        each: &mut dyn FnMut(MadeCode<'_>) -> std::io::Result<()>,
    ) -> std::io::Result<bool> {
        let code = MadeCode { address: u64::MAX - 10, size: 100, offset: 0xc0, time: pid.into(), path };
        each(code.clone())?;
        each(MadeCode { address: 0x1000, ..code })?;
        Ok(true)
    }
}

fuzz_target!(|bytes: &[u8]| {
    for build_ids in [BuildIdsOf::Hit, BuildIdsOf::Mapped] {
        let Ok(data) = PerfData::from_seekable(Cursor::new(bytes), OPTIONS) else { return };
        let mut disk = Disk(Cursor::new(Vec::new()));
        let inject = Inject { build_ids, code: true };
        if inject.run(data, Target::file(&mut disk), &mut Everything).is_ok() {
            let written = disk.0.into_inner();
            PerfData::from_seekable(Cursor::new(written), OPTIONS).expect("what was written can be read");
        }
    }
    if let Some(copy) = cut(&Cut::default(), bytes) {
        let again = cut(&Cut::default(), &copy).expect("what was written can be read");
        assert_eq!(copy, again);
    }
    let mut part = Cut::default();
    part.filter.comms = vec!["a".into()];
    part.filter.time = "0,1".parse().ok();
    cut(&part, bytes);
    part.events = vec!["cpu-clock".into()];
    cut(&part, bytes);
    if let Ok(data) = PerfData::from_reader(bytes, OPTIONS) {
        let mut disk = Disk(Cursor::new(Vec::new()));
        let _ = Cut::default().run(data, Target::pipe(&mut disk));
    }
    if let Ok(data) = PerfData::from_seekable(Cursor::new(bytes), OPTIONS) {
        let mut disk = Disk(Cursor::new(Vec::new()));
        if strip(data, Target::file(&mut disk)).is_ok() {
            PerfData::from_seekable(disk.0, OPTIONS).expect("what was written can be read");
        }
    }
    let converted = |bytes: &[u8], release| {
        let data = PerfData::from_seekable(Cursor::new(bytes), OPTIONS).ok()?;
        let mut disk = Disk(Cursor::new(Vec::new()));
        convert(data, Target::file(&mut disk), release).ok()?;
        Some(disk.0.into_inner())
    };
    for release in [Release::new(6, 1), Release::new(4, 1)] {
        if let Some(old) = converted(bytes, release) {
            let again = converted(&old, release).expect("what was written can be read");
            assert_eq!(old, again);
        }
    }
    let open = |_| PerfData::from_seekable(Cursor::new(bytes), OPTIONS);
    for inputs in [1, 2] {
        let mut disk = Disk(Cursor::new(Vec::new()));
        if merge(inputs, open, Target::file(&mut disk)).is_ok() {
            PerfData::from_seekable(disk.0, OPTIONS).expect("what was written can be read");
        }
    }
});
