//! Recordings that are made of known samples, and the profiles of them.

use perfuse_abi::record::{
    Callchain, CallchainContext, Comm, Cpu, CpuMode, Decoded, Misc, Mmap2, Record, RecordFormat, Sample,
    SampleId, Tid,
};
use perfuse_abi::wire::{Text, Words};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType};
use perfuse_data::{NewEvent, PerfData, ReadOptions, Writer};
use perfuse_profile::{Key, Plan, Profile};
use std::io::Cursor;

/// Where the one object is mapped: a function is 64 bytes of it.
const START: u64 = 0x10_0000;
/// The process of all threads.
const PID: u32 = 10;

/// A sample.
pub(crate) struct Made {
    /// The number of its event.
    pub(crate) event: usize,
    pub(crate) tid: u32,
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
    pub(crate) period: u64,
    /// Offsets in the object, the innermost first.
    pub(crate) chain: Vec<u64>,
}

/// The plan by which a page's profile is made.
pub(crate) fn plan() -> Plan {
    let mut plan = Plan::new(&[Key::Comm, Key::Pid, Key::Cpu]);
    plan.times = true;
    plan
}

/// The profile of a recording of these events, threads, one object and samples.
pub(crate) fn profile(
    events: &[&str],
    threads: &[(u32, &[u8])],
    object: &[u8],
    samples: impl IntoIterator<Item = Made>,
) -> Profile {
    let usual = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID | SampleType::TIME;
    let attr = Attr {
        sample_type: usual | SampleType::CPU | SampleType::PERIOD | SampleType::CALLCHAIN,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::new(EventType::SOFTWARE)
    };
    let format = RecordFormat::of(&attr, ByteOrder::NATIVE);
    let event = |(id, name): (u64, &&str)| NewEvent { attr, name: (*name).into(), ids: vec![id] };
    let events: Vec<NewEvent> = (1..).zip(events).map(event).collect();
    let mut writer = Writer::file(Cursor::new(Vec::new()), &events).unwrap();
    let mut add = |(event, tid, time_ns, cpu): (usize, Tid, u64, u32), mut record: Record<'_>| {
        let mut sample_id = SampleId::default();
        (sample_id.tid, sample_id.time, sample_id.cpu) = (Some(tid), Some(time_ns), Some(Cpu::from(cpu)));
        sample_id.identifier = Some(event as u64 + 1);
        if let Record::Sample(sample) = &mut record {
            (sample.tid, sample.time, sample.cpu) = (sample_id.tid, sample_id.time, sample_id.cpu);
            sample.identifier = sample_id.identifier;
        }
        let misc = Misc::empty().with_cpu_mode(CpuMode::USER);
        writer.record(&Decoded { misc, record, sample_id, extra: &[] }, &format).unwrap();
    };
    for (number, (tid, name)) in threads.iter().enumerate() {
        let tid = Tid { pid: PID, tid: *tid };
        let at = (0, tid, number as u64, 0);
        add(at, Record::Comm(Comm { tid, name: Text::new(name) }));
        if number == 0 {
            let filename = Text::new(object);
            let map = Mmap2 { tid, addr: START, len: START, prot: 5, flags: 2, filename, ..Mmap2::default() };
            add(at, Record::Mmap2(map));
        }
    }
    for made in samples {
        let tid = Tid { pid: PID, tid: made.tid };
        let chain = made.chain.iter().map(|offset| START + offset);
        let words: Vec<u64> = [CallchainContext::USER.0].into_iter().chain(chain).collect();
        let mut sample = Sample::default();
        (sample.ip, sample.period) = (Some(words[1]), Some(made.period));
        sample.callchain = Some(Callchain { words: Words::from(&words[..]) });
        add((made.event, tid, made.time_ns, made.cpu), Record::Sample(sample));
    }
    let bytes = writer.finish(Vec::new()).unwrap().into_inner();
    let data = PerfData::from_seekable(Cursor::new(bytes), ReadOptions::default()).unwrap();
    Profile::read(data, plan()).unwrap()
}

/// Numbers that look random, below a limit each.
fn random() -> impl FnMut(u64) -> u64 {
    let mut random = 1u64;
    move |limit| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % limit
    }
}

/// A callchain of 1500 functions: few are near the top, and each of them calls few others.
fn chain(next: &mut impl FnMut(u64) -> u64) -> Vec<u64> {
    let (mut chain, mut at) = (Vec::new(), 0);
    for _ in 0..4 + next(12) {
        at = (at * 7 + next(3)) % 1500;
        chain.push(at * 64 + next(64));
    }
    chain.reverse();
    chain
}

/// So many samples in eight threads, of which nearly each has a callchain of its own.
pub(crate) fn many(samples: u64, name: &[u8]) -> Profile {
    let mut next = random();
    let made = (0..samples).map(|number| {
        let tid = 10 + next(8) as u32;
        let chain = chain(&mut next);
        let (time_ns, period) = ((number + 16) * 250_000, 990_000 + next(20_000));
        Made { event: 0, tid, time_ns, cpu: tid % 4, period, chain }
    });
    of_eight(name, made)
}

/// So many samples of twenty thousand callchains, some of which are there much more often than others.
#[allow(dead_code, reason = "not all tests want it")]
pub(crate) fn usual(samples: u64) -> Profile {
    let mut next = random();
    let chains: Vec<Vec<u64>> = (0..20_000).map(|_| chain(&mut next)).collect();
    let made = (0..samples).map(|number| {
        let most = next(20_000) + 1;
        let which = next(most);
        let tid = 10 + (which % 8) as u32;
        let (time_ns, period) = ((number + 16) * 250_000, 990_000 + next(20_000));
        Made { event: 0, tid, time_ns, cpu: next(4) as u32, period, chain: chains[which as usize].clone() }
    });
    of_eight(b"usual", made)
}

fn of_eight(name: &[u8], made: impl Iterator<Item = Made>) -> Profile {
    let threads: Vec<(u32, &[u8])> = (10..18).map(|tid| (tid, &name[..name.len().min(15)])).collect();
    let title = String::from_utf8_lossy(name).into_owned();
    profile(&[&title], &threads, name, made)
}
