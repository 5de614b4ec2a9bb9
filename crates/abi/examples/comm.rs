//! Takes a record apart that a kernel wrote, changes it, and writes it again.

use perfuse_abi::record::{Record, RecordFormat, Records};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The attr that the event was opened with decides how its records look: these end with process and thread.
    let mut attr = Attr { sample_type: SampleType::TID, ..Attr::new(EventType::SOFTWARE) };
    attr.flags |= AttrFlags::COMM | AttrFlags::SAMPLE_ID_ALL;
    let format = RecordFormat::of(&attr, ByteOrder::Little);
    let bytes = [
        3, 0, 0, 0, 0, 0, 32, 0, // PERF_RECORD_COMM, 32 bytes
        7, 0, 0, 0, 8, 0, 0, 0, // process 7, thread 8
        b's', b'h', 0, 0, 0, 0, 0, 0, // its new name
        7, 0, 0, 0, 8, 0, 0, 0, // process and thread that wrote it
    ];
    for raw in Records::new(&bytes, ByteOrder::Little) {
        let decoded = raw?.decode(&format)?;
        let Record::Comm(comm) = &decoded.record else { continue };
        println!("thread {} is {} now", comm.tid.tid, String::from_utf8_lossy(comm.name.as_bytes()));
        let mut again = Vec::new();
        decoded.encode(&format, &mut again)?;
        assert_eq!(again, bytes);
    }
    Ok(())
}
