//! Recordings from arbitrary bytes: reading never panics, never hangs, takes no memory that the bytes do not
//! account for; what is taken apart can be written, and is then the bytes it came from.
//!
//! An input is a file. It is read as a file and as a pipe, unpacked and not, in its order and by time; by
//! time it is replayed into processes and maps.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_data::abi::record::Record;
use perfuse_data::session::{Level, Session};
use perfuse_data::tool::kind;
use perfuse_data::{Ordered, PerfData, ReadOptions};
use std::io::{Cursor, Read};

/// Records that are looked at: a few bytes of zeros can unpack to very many.
const MOST: usize = 20_000;

const UNPACKED: ReadOptions = ReadOptions::new().with_unpack(true).with_max_section(1 << 20);
const PACKED: ReadOptions = ReadOptions::new().with_unpack(false).with_max_section(1 << 20);

fn sections(data: &mut PerfData<'_>) {
    let ids: Vec<_> = data.features().collect();
    for id in ids {
        let order = data.order();
        let bytes = match data.feature_bytes(id) {
            Ok(Some(bytes)) => bytes.to_vec(),
            Ok(None) => panic!("{id} is listed"),
            Err(_) => continue,
        };
        if let Ok(Some(section)) = data.feature(id) {
            let mut again = Vec::new();
            section.encode(order, &mut again).expect("what was read can be written");
            assert_eq!(again, bytes, "{id}");
            let _ = format!("{section:?}");
        }
    }
}

fn records(mut data: PerfData<'_>) {
    sections(&mut data);
    let order = data.order();
    for index in 0..MOST {
        match data.next() {
            Ok(Some(entry)) => {
                let bytes = entry.bytes();
                let mut again = Vec::new();
                let _ = (entry.event().map(|event| &event.name), entry.time());
                if entry.is_kernel() {
                    if let (Ok(decoded), Some(format)) = (entry.decode(), entry.format()) {
                        decoded.encode(format, &mut again).expect("what was read can be written");
                        assert_eq!(again, bytes);
                    }
                } else if let Ok(record) = entry.tool() {
                    // A size that overflowed cannot be written as it was, nor can one above 64 KiB.
                    let usual = bytes.len() == usize::from(entry.raw.header.size);
                    if usual && record.encode(order, &mut again).is_ok() {
                        assert_eq!(again, bytes);
                    }
                }
                if entry.kind() == kind::AUXTRACE && index % 2 == 0 {
                    let _ = data.payload().read(&mut [0; 32]);
                }
            }
            Ok(None) => break,
            Err(error) => {
                let _ = error.to_string();
            }
        }
    }
    sections(&mut data);
    let _ = format!("{:?} {:?}", data.events(), data.problems());
}

/// By time, into processes and maps.
fn replay(data: PerfData<'_>) {
    let mut ordered = Ordered::with_limit(data, 4096);
    let mut session = Session::new();
    for _ in 0..MOST {
        match ordered.next() {
            Ok(Some(entry)) => {
                let Ok(decoded) = entry.decode() else { continue };
                session.apply(&decoded);
                let Record::Sample(sample) = &decoded.record else { continue };
                let (tid, ip) = (sample.tid.unwrap_or_default(), sample.ip.unwrap_or_default());
                if let Some(found) = session.resolve(tid.pid, tid.tid, Level::of(decoded.misc), ip) {
                    assert!(found.map.start <= ip && ip < found.map.end);
                    let _ = session.object(found.map.object);
                }
                session.kernel_text().apply(ip, &mut [0; 16]);
            }
            Ok(None) => break,
            Err(_) => {}
        }
    }
    for (_, maps) in session.processes() {
        let maps: Vec<_> = maps.iter().collect();
        assert!(maps.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
}

fuzz_target!(|bytes: &[u8]| {
    for options in [UNPACKED, PACKED] {
        if let Ok(data) = PerfData::from_seekable(Cursor::new(bytes), options) {
            records(data);
        }
    }
    if let Ok(data) = PerfData::from_reader(bytes, UNPACKED) {
        records(data);
    }
    if let Ok(data) = PerfData::from_seekable(Cursor::new(bytes), UNPACKED) {
        replay(data);
    }
});
