//! The contents of rings, on both: samples of breakpoints and of a tracepoint with all fields, and side-band of
//! names, mappings, children. Each field of each record must be the same; of what cannot be (addresses, times,
//! contents of registers) must at least be as much there.

use crate::call::{Call, Fd};
use crate::calls::tracepoints;
use crate::draw;
use crate::image::{AttrBytes, image};
use crate::machine::PAGE;
use crate::pair::{Disturbed, Pair, TAIL, WATCHED, head};
use crate::random::{Random, seeds};
use perfuse_engine::MapRequest;
use perfuse_engine::abi::read::ReadValues;
use perfuse_engine::abi::record::{Decoded, Misc, MmapFile, Record, RecordFormat, Records, Regs, Sample};
use perfuse_engine::abi::{Attr, AttrFlags, ByteOrder, EventType, ReadFormat, SampleType, Software};
use perfuse_testkit::{Outcome, Skip};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

const SEQUENCES: u64 = 500;
const CALLS: usize = 40;

pub(crate) fn compare() -> Outcome {
    let known = tracepoints().ok_or_else(|| Skip::needs("tracepoints of system calls", "there are none"))?;
    let mut kinds = BTreeMap::new();
    for seed in seeds(SEQUENCES) {
        for (kind, count) in Disturbed::until_not(|| sequence(seed, known.open)).0 {
            *kinds.entry(kind).or_insert(0) += count;
        }
    }
    eprintln!("{kinds:?}");
    let wanted = ["Sample", "Lost", "Comm", "Mmap", "Mmap2", "Fork", "Exit", "Read"];
    let missing = wanted.iter().find(|&&kind| !kinds.contains_key(kind));
    assert!(missing.is_none() || seeds(SEQUENCES).count() == 1, "no {missing:?} in {kinds:?}");
    Ok(())
}

/// The fields that all events of a sequence have in common, so that each can write to the ring of another.
struct Common {
    attr: Attr,
    tracepoint: u64,
}

/// How many records of each kind were the same.
type GroupKinds = BTreeMap<String, u64>;

fn sequence(seed: u64, tracepoint: u64) -> Result<GroupKinds, Disturbed> {
    let mut random = Random::new(seed);
    let mut pair = Pair::new(1, true);
    pair.tracepoint = Some(tracepoint);
    pair.machine.engine.declare_open_tracepoint(tracepoint);
    let common = Common { attr: fields(&mut random), tracepoint };
    let mut names = [Names::default(), Names::default()];
    let mut kinds = GroupKinds::new();
    let mut done = Vec::new();
    for number in 0..CALLS {
        let call = if number == 0 { gate(&common) } else { call(&mut random, &pair, &common) };
        done.push(call.clone());
        let answers = pair.make(&call)?;
        let history = || done.iter().map(|call| format!("{call:?}\n")).collect::<String>();
        assert_eq!(
            answers.engine,
            answers.linux,
            "the engine, and Linux; PERFUSE_SEED={seed}; {}",
            history()
        );
        if let (Call::Open { .. }, Ok(_)) = (&call, &answers.linux) {
            let event = &pair.open[pair.open.len() - 1];
            names[0].of(perfuse_sys::ioctl::id(event.linux.as_fd()).expect("it has one"));
            names[1].of(pair.machine.engine.id(pair.machine.key(event.engine)).expect("it has one"));
        }
        // A ring is looked at before it is read or given up, and in the end.
        let looks = |at: usize| match call {
            Call::SystemCalls(_) | Call::Write(_) | Call::ChildWrites(..) => random_end(&done),
            _ => done.len() == CALLS || done.len() % 8 == at,
        };
        for at in 0..pair.open.len() {
            if looks(at) {
                take(&mut pair, at, &common.attr, &mut names, &mut kinds, &|| {
                    format!("of event {at}; PERFUSE_SEED={seed}; {}", history())
                });
            }
        }
    }
    Ok(kinds)
}

fn random_end(done: &[Call]) -> bool {
    done.len() == CALLS
}

/// Compares all that is in a ring, and gives the room back.
fn take(
    pair: &mut Pair,
    at: usize,
    attr: &Attr,
    names: &mut [Names; 2],
    kinds: &mut GroupKinds,
    history: &dyn Fn() -> String,
) {
    let Some(area) = pair.open[at].areas.iter_mut().find(|area| !area.aux) else { return };
    let (head, tail) = (head(&area.linux), area.linux.load_u64(TAIL, Ordering::Acquire));
    assert_eq!(area.engine.head(), head, "heads {}", history());
    let size = area.linux.len() - PAGE;
    if size == 0 {
        return;
    }
    let mut data = vec![0; size / 8];
    area.linux.copy_words(PAGE, &mut data);
    let words = (tail / 8..head / 8).map(|word| data[word as usize % data.len()]);
    let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    area.linux.store_u64(TAIL, head, Ordering::Release);
    let other = area.engine.take();
    let [linux, engine] = names;
    let (mut linux, mut engine) = (tell(&bytes, attr, linux), tell(&other, attr, engine));
    // In which order events of different PMUs are inherited, and so end, is a matter of addresses in the kernel.
    let ends = |record: &String| record.starts_with("Exit") || record.starts_with("Read");
    for records in [&mut linux, &mut engine] {
        records.chunk_by_mut(|a, b| ends(a) && ends(b)).for_each(<[String]>::sort);
    }
    for (linux, engine) in linux.iter().zip(&engine) {
        assert_eq!(engine, linux, "a record of the engine, and Linux', {}", history());
        let kind = linux.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        *kinds.entry(kind.to_owned()).or_insert(0) += 1;
    }
    assert_eq!(engine, linux, "records {}", history());
}

/// Ids, by the order in which they are first seen.
#[derive(Default)]
pub(crate) struct Names(Vec<u64>);

impl Names {
    pub(crate) fn of(&mut self, id: u64) -> u64 {
        let known = self.0.iter().position(|&other| other == id);
        known.unwrap_or_else(|| {
            self.0.push(id);
            self.0.len() - 1
        }) as u64
    }
}

/// All records, each in words, without what cannot be the same.
pub(crate) fn tell(bytes: &[u8], attr: &Attr, names: &mut Names) -> Vec<String> {
    let format = RecordFormat::of(attr, ByteOrder::NATIVE);
    let mut all = Vec::new();
    let mut before = 0;
    for record in Records::new(bytes, ByteOrder::NATIVE) {
        let mut record = record.expect("a whole record");
        // Another program may have asked for build-ids (rule H52).
        record.header.misc.remove(Misc::MMAP_BUILD_ID);
        let record = record.decode(&format).expect("it is of the format");
        assert!(record.extra.is_empty(), "{record:?}");
        if let Some(time) = record.time() {
            assert!(time >= before, "time runs backwards at {record:?}");
            before = time;
        }
        all.push(of_record(&record, names));
    }
    all
}

fn of_record(decoded: &Decoded<'_>, names: &mut Names) -> String {
    let mut id = decoded.sample_id;
    id.time = id.time.map(|_| 0);
    for field in [&mut id.id, &mut id.stream_id, &mut id.identifier] {
        *field = field.map(|id| names.of(id));
    }
    let content = match decoded.record {
        Record::Sample(sample) => of_sample(&sample, names),
        Record::Lost(mut lost) => {
            lost.id = names.of(lost.id);
            format!("Lost {lost:?}")
        }
        Record::Fork(mut task) => {
            task.time = 0;
            format!("Fork {task:?}")
        }
        Record::Exit(mut task) => {
            task.time = 0;
            format!("Exit {task:?}")
        }
        Record::Mmap2(mut map) => {
            if let MmapFile::Inode { ino_generation, .. } = &mut map.file {
                *ino_generation = 0;
            }
            format!("Mmap2 {map:?}")
        }
        Record::Read(read) => format!("Read {:?} {}", read.tid, of_values(read.values, names)),
        other => format!("{other:?}"),
    };
    format!("{content} {:?} {id:?}", decoded.misc)
}

fn of_values(values: ReadValues<'_>, names: &mut Names) -> String {
    let times = values.times().map(|times| times.running_ns <= times.enabled_ns);
    let entries = values.entries().map(|entry| (entry.value, entry.id.map(|id| names.of(id)), entry.lost));
    format!("{times:?} {:?}", entries.collect::<Vec<_>>())
}

fn of_sample(sample: &Sample<'_>, names: &mut Names) -> String {
    let mut plain = *sample;
    plain.ip = sample.ip.map(|ip| ip >> 63);
    plain.time = sample.time.map(|_| 0);
    plain.read = None;
    plain.callchain = None;
    plain.raw = None;
    plain.regs_user = None;
    plain.regs_intr = None;
    plain.stack_user = None;
    plain.phys_addr = sample.phys_addr.map(|addr| addr.min(1));
    plain.cgroup = sample.cgroup.map(|cgroup| cgroup.min(1));
    for field in [&mut plain.identifier, &mut plain.id, &mut plain.stream_id] {
        *field = field.map(|id| names.of(id));
    }
    let read = sample.read.map(|values| of_values(values, names));
    let chain: Option<Vec<_>> =
        sample.callchain.map(|chain| chain.parts().map(|part| part.context).collect());
    let raw = sample.raw.map(|raw| {
        let mut bytes = raw.as_bytes().to_vec();
        // Flags and depth of preemption are the kernel's affair.
        bytes.iter_mut().skip(2).take(2).for_each(|byte| *byte = 0);
        bytes
    });
    let regs = |regs: Option<Regs<'_>>| regs.map(|regs| (regs.abi, regs.mask, regs.words.len()));
    let stack = sample.stack_user.map(|stack| (stack.bytes.len(), stack.dyn_size));
    let (user, intr) = (regs(sample.regs_user), regs(sample.regs_intr));
    format!("{plain:?} read {read:?} chain {chain:?} raw {raw:?} regs {user:?} {intr:?} stack {stack:?}")
}

/// An attr with the fields that samples and trailers of a sequence have.
fn fields(random: &mut Random) -> Attr {
    let mut attr = Attr { size: Attr::SIZE_VER8, ..Attr::new(EventType::SOFTWARE) };
    let no = SampleType::BRANCH_STACK | SampleType::AUX | SampleType::WEIGHT_STRUCT;
    attr.sample_type = SampleType::from_bits_retain(random.bits(25, 4)).difference(no);
    if random.one_in(4) && !attr.sample_type.contains(SampleType::WEIGHT) {
        attr.sample_type |= SampleType::WEIGHT_STRUCT;
    }
    if attr.sample_type.contains(SampleType::READ) {
        attr.sample_type |= SampleType::TID;
    }
    attr.read_format = ReadFormat::from_bits_retain(random.bits(5, 2));
    // So that all chains have the same length.
    attr.sample_max_stack = 1;
    attr.sample_regs_user = random.of(&[1, 0xff, 0x1ff]);
    attr.sample_regs_intr = random.of(&[1, 0xff, 0x1ff]);
    attr.sample_stack_user = random.of(&[8, 64, 504]);
    attr.flags.set(AttrFlags::SAMPLE_ID_ALL, random.one_in(2));
    attr
}

/// An event that asks for all side-band: whether it is produced depends on the events of all programs (rule H42).
fn gate(common: &Common) -> Call {
    let mut attr = Attr { config: Software::DUMMY.0, ..common.attr };
    attr.flags |= AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL;
    attr.flags |= AttrFlags::MMAP | AttrFlags::MMAP_DATA | AttrFlags::COMM | AttrFlags::TASK;
    Call::Open { attr: AttrBytes(image(&attr)), pid: 0, cpu: 0, group: Fd::None, flags: 0 }
}

fn open_call(random: &mut Random, pair: &Pair, common: &Common) -> Call {
    let mut attr = Attr { flags: common.attr.flags | AttrFlags::EXCLUDE_KERNEL, ..common.attr };
    match random.below(5) {
        0 | 1 => {
            let drawn = draw::breakpoint(random, WATCHED.as_ptr() as u64);
            attr.type_ = EventType::BREAKPOINT;
            (attr.bp_type, attr.config1, attr.config2) = (drawn.bp_type, drawn.config1, drawn.config2);
        }
        2 | 3 => (attr.type_, attr.config) = (EventType::TRACEPOINT, common.tracepoint),
        _ => attr.config = Software::DUMMY.0,
    }
    attr.sample_period = random.of(&[0, 1, 1, 2, 3, 7]);
    let flags = [
        AttrFlags::DISABLED,
        AttrFlags::INHERIT,
        AttrFlags::INHERIT,
        AttrFlags::INHERIT_STAT,
        AttrFlags::MMAP,
        AttrFlags::MMAP2,
        AttrFlags::COMM,
        AttrFlags::TASK,
        AttrFlags::TASK,
        AttrFlags::EXCLUDE_CALLCHAIN_USER,
        AttrFlags::EXCLUDE_CALLCHAIN_KERNEL,
    ];
    attr.flags |= flags.iter().filter(|_| random.one_in(4)).fold(AttrFlags::empty(), |all, flag| all | *flag);
    let open = pair.open.len();
    let group = if open > 1 && random.one_in(2) { Fd::Event(1 + random.below(open - 1)) } else { Fd::None };
    let flags = if random.one_in(3) { 3 } else { 0 };
    // Inherited events can be mapped only on one cpu.
    Call::Open { attr: AttrBytes(image(&attr)), pid: 0, cpu: 0, group, flags }
}

fn call(random: &mut Random, pair: &Pair, common: &Common) -> Call {
    let open = pair.open.len();
    if open == 1 || open < 6 && random.one_in(4) {
        return open_call(random, pair, common);
    }
    let unmapped = (1..open).find(|&at| pair.open[at].areas.is_empty());
    // The first one is left alone.
    let (at, flag) = (1 + random.below(open - 1), random.one_in(2));
    let kid = (!pair.kids.is_empty()).then(|| random.below(pair.kids.len()));
    let living = kid.filter(|&kid| !pair.kids[kid].ended);
    match (random.below(20), kid, living) {
        (0..=2, ..) if unmapped.is_some() => {
            let pages = random.of(&[2, 2, 3, 5]);
            let request = MapRequest { pages, offset: 0, shared: true, writable: true };
            Call::Map(unmapped.unwrap_or(at), request)
        }
        (3, ..) => Call::SetOutput(at, if flag { Fd::Event(random.below(open)) } else { Fd::None }),
        (4 | 5, ..) => Call::Write(random.of(&[1, 2, 5, 60])),
        (6 | 7, ..) => Call::SystemCalls(random.of(&[1, 2, 5, 60])),
        (8, _, Some(kid)) => Call::ChildWrites(kid, random.of(&[1, 7, 60])),
        (9, _, Some(kid)) => Call::ChildCalls(kid, random.of(&[1, 7, 60])),
        (10, _, Some(kid)) => Call::ChildEnds(kid),
        (10, Some(kid), None) => Call::Reap(kid),
        (8 | 9, _, None) => Call::Fork,
        (11 | 12, ..) => Call::Name(random.of(&["one", "another", "a name that is longer"])),
        (13 | 14, ..) => Call::MapCode,
        (15, ..) => Call::Enable(at, flag),
        (16, ..) => Call::Disable(at, flag),
        (17, ..) => Call::Period(at, random.of(&[1, 2, 5])),
        (18, ..) => Call::Pause(at, random.one_in(4)),
        (19, ..) if flag => Call::Close(at),
        _ => Call::Reset(at, flag),
    }
}
