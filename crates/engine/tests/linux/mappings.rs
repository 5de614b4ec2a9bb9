//! The mappings and page faults of a program: told by Linux of a child that does little else, and by the engine of the
//! same, as its host tells it. Only known addresses are compared, as the child has other memory too.

use crate::call::{Call, Fd};
use crate::image::{AttrBytes, image};
use crate::machine::ME;
use crate::pair::{Disturbed, Pair, TAIL, head};
use crate::program::Program;
use crate::records::{Names, tell};
use perfuse_engine::abi::record::{MmapFile, Record, RecordFormat, Records};
use perfuse_engine::abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType, Software};
use perfuse_engine::{CloneFlags, MapRequest, Mapping};
use perfuse_testkit::work::Region;
use perfuse_testkit::{Outcome, Puppet};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;

const READ: i32 = 1;
const WRITE: i32 = 2;
const EXEC: i32 = 4;

/// A step of the child. Pages lie apart, as the kernel makes one mapping of neighbours that are alike.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Maps a page: of the file or of nothing, with these rights.
    Map(usize, i32, bool),
    /// Gives it others.
    Protect(usize, i32),
    /// Touches it; whether that is a fault.
    Read(usize, bool),
    Write(usize, bool),
}

use Step::{Map, Protect, Read, Write};

const STEPS: [Step; 16] = [
    Map(0, READ | EXEC, true),
    Map(2, READ, true),
    Map(4, READ | WRITE, true),
    Map(6, READ | WRITE, false),
    Map(8, READ | WRITE | EXEC, false),
    Map(10, 0, false),
    Read(2, true),
    Read(2, false),
    Write(4, true),
    // The first reading finds the page of zeros, the first writing makes one of its own.
    Read(6, true),
    Write(6, true),
    Write(6, false),
    Write(8, true),
    Protect(6, READ | EXEC),
    Protect(2, READ | WRITE),
    Map(6, READ | WRITE, false),
];

/// Events, and what they want to hear.
fn events() -> [Attr; 7] {
    let attr = |what: Software, flags| {
        let mut attr = Attr { config: what.0, size: Attr::SIZE_VER8, ..Attr::new(EventType::SOFTWARE) };
        attr.flags = flags | AttrFlags::SAMPLE_ID_ALL | AttrFlags::EXCLUDE_KERNEL;
        attr.sample_type = SampleType::TID | SampleType::TIME | SampleType::ID;
        attr
    };
    let faults = |what| {
        let mut attr = attr(what, AttrFlags::empty());
        attr.sample_type |= SampleType::ADDR | SampleType::IP | SampleType::CPU;
        attr.set_period(1);
        attr
    };
    let (code, data, more) = (AttrFlags::MMAP, AttrFlags::MMAP_DATA, AttrFlags::MMAP2);
    [
        attr(Software::DUMMY, code),
        attr(Software::DUMMY, data),
        attr(Software::DUMMY, code | data),
        attr(Software::DUMMY, data | more),
        attr(Software::DUMMY, code | data | more),
        faults(Software::PAGE_FAULTS),
        faults(Software::PAGE_FAULTS_MIN),
    ]
}

pub(crate) fn compare() -> Outcome {
    let (records, _) = Disturbed::until_not(play);
    // Three of code, eight in all for each event that hears of data, and the faults.
    eprintln!("{records:?} records are the same");
    assert!(records.iter().all(|&number| number > 2), "{records:?}");
    Ok(())
}

/// How many records of each event are the same.
fn play() -> Result<Vec<usize>, Disturbed> {
    let path = std::env::current_exe().expect("it is known");
    let file = File::open(&path).expect("it can be read");
    let region = Region::reserve(16);
    let mut pair = Pair::new(1, true);
    let of = file.as_fd();
    let mut puppet = Puppet::fork(&[], |number| match STEPS[usize::from(number) - 1] {
        Map(page, rights, file) => region.map(page, rights, file.then_some(of)),
        Protect(page, rights) => region.protect(page, rights),
        Read(page, _) => region.touch(page, false),
        Write(page, _) => region.touch(page, true),
    });
    let task = pair.machine.fork(ME, puppet.pid(), CloneFlags::default()).expect("it can fork");
    let events = events();
    let mut names = [Names::default(), Names::default()];
    for (at, attr) in events.iter().enumerate() {
        let pid = puppet.pid() as i32;
        let open = Call::Open { attr: AttrBytes(image(attr)), pid, cpu: -1, group: Fd::None, flags: 0 };
        for call in [open, Call::Map(at, MapRequest::ring(8))] {
            let answers = pair.make(&call)?;
            assert_eq!((&answers.engine, &answers.linux), (&Ok(0), &Ok(0)), "{call:?}");
        }
        let event = &pair.open[at];
        names[0].of(perfuse_sys::ioctl::id(event.linux.as_fd()).expect("it has one"));
        names[1].of(pair.machine.engine.id(pair.machine.key(event.engine)).expect("it has one"));
    }
    let meta = file.metadata().expect("it has some");
    let inode = MmapFile::Inode {
        maj: (meta.dev() >> 8 & 0xfff) as u32,
        min: (meta.dev() & 0xff | meta.dev() >> 12 & 0xfff00) as u32,
        ino: meta.ino(),
        ino_generation: 0,
    };
    let nothing = MmapFile::Inode { maj: 0, min: 0, ino: 0, ino_generation: 0 };
    let mut files = [false; 16];
    for (number, step) in STEPS.iter().enumerate() {
        puppet.act(number as u8 + 1);
        pair.run(Some(task));
        let (engine, now) = (&mut pair.machine.engine, pair.machine.now);
        match *step {
            Map(page, rights, _) | Protect(page, rights) => {
                if let Map(_, _, file) = *step {
                    files[page] = file;
                }
                let addr = region.at(page);
                // Of what has no file the offset is the address.
                let (file, name, pgoff) = match files[page] {
                    true => (inode, path.as_os_str().as_bytes(), 0),
                    false => (nothing, &b"//anon"[..], addr),
                };
                let prot = rights as u32;
                let mapping = Mapping { addr, len: 4096, pgoff, file, build_id: None, prot, flags: 2, name };
                engine.mapped(task, 0, now, &mapping);
            }
            Read(page, true) | Write(page, true) => {
                for what in [Software::PAGE_FAULTS, Software::PAGE_FAULTS_MIN] {
                    engine.software(0, now, what, 1, region.at(page), &Program);
                }
            }
            Read(..) | Write(..) => {}
        }
        pair.run(Some(ME));
    }
    let mut same = Vec::new();
    for (at, attr) in events.iter().enumerate() {
        let area = &mut pair.open[at].areas[0];
        let (head, tail) = (head(&area.linux), area.linux.load_u64(TAIL, Ordering::Acquire));
        let mut data = vec![0; (area.linux.len() - crate::machine::PAGE) / 8];
        area.linux.copy_words(crate::machine::PAGE, &mut data);
        let words = (tail / 8..head / 8).map(|word| data[word as usize % data.len()]);
        let linux: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let engine = area.engine.take();
        let [of_linux, of_engine] = &mut names;
        let linux = tell(&within(&linux, attr, &region), attr, of_linux);
        let engine = tell(&within(&engine, attr, &region), attr, of_engine);
        assert_eq!(engine, linux, "records of the engine, and Linux', of {attr}");
        same.push(linux.len());
    }
    Ok(same)
}

/// The records about what is in a region.
fn within(bytes: &[u8], attr: &Attr, region: &Region) -> Vec<u8> {
    let format = RecordFormat::of(attr, ByteOrder::NATIVE);
    let mut kept = Vec::new();
    let mut rest = bytes;
    for record in Records::new(bytes, ByteOrder::NATIVE) {
        let record = record.expect("a whole record");
        let (own, later) = rest.split_at(record.header.size.into());
        rest = later;
        let addr = match record.decode(&format).expect("it is of the format").record {
            Record::Mmap(map) => Some(map.addr),
            Record::Mmap2(map) => Some(map.addr),
            Record::Sample(sample) => sample.addr,
            _ => None,
        };
        if addr.is_some_and(|addr| region.has(addr)) {
            kept.extend(own);
        }
    }
    kept
}
