//! Stacks that are unwound while they are recorded: records on their way from rings to a file.
//!
//! Rings of several cpus are not ordered among each other: a mapping may lie in one, and a sample in it in another that is
//! read before. So records wait, as those who read a recording have them wait, until all rings have been read once more;
//! then they go on by time, and each sample finds the mappings of its moment.

use crate::stack::End;
use crate::unwinder::Unwinder;
use perfuse_abi::record::{Callchain, Decoded, RawRecord, Record, RecordFormat, RecordType, Sample};
use perfuse_abi::wire::Words;
use perfuse_abi::{Attr, AttrFlags, ByteOrder, SampleType};
use perfuse_data::replay::is_to_be_unwound;
use perfuse_data::session::Session;
use std::collections::HashMap;

/// Frames of a program's part, unless the event says how many: those of deep recursions too, whose roots are asked for. Linux
/// itself records 127.
const MOST_FRAMES: usize = 1024;

/// Unwinds samples between rings and a recording, which then has whole callchains, and no registers and copies of stacks.
pub struct Recording {
    unwinder: Unwinder,
    /// Processes and mappings, as of the record that went on last.
    session: Session,
    events: HashMap<u64, Event>,
    /// The event of records that do not tell theirs.
    first: Option<Event>,
    waiting: Waiting,
    /// Reused from sample to sample.
    chain: Vec<u64>,
    sums: Sums,
    /// Bytes that were no records.
    broken: u64,
}

/// How stacks ended that were unwound while they were recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sums {
    /// Stacks.
    pub stacks: u64,
    /// Those that are deeper than what was copied of them.
    pub deeper: u64,
    /// Those that have more frames than are recorded of each.
    pub longer: u64,
    /// Those that end in code without tables and frame pointers, or where a table says no sense.
    pub lost: u64,
}

impl Sums {
    /// Stacks that lack their outermost callers.
    pub fn incomplete(&self) -> u64 {
        self.deeper + self.longer + self.lost
    }

    fn add(&mut self, end: End) {
        self.stacks += 1;
        match end {
            End::Root => {}
            End::Stack => self.deeper += 1,
            End::Most => self.longer += 1,
            End::NoTable | End::Unknown | End::Loop => self.lost += 1,
        }
    }
}

/// How records of an event come, and how they go on.
#[derive(Clone, Copy, Debug)]
struct Event {
    comes: RecordFormat,
    goes: RecordFormat,
    /// Frames of a program's part, at most; 0 if samples go on as they come.
    most: usize,
}

impl Event {
    /// In the byte order of this machine, whose kernel makes the records.
    fn of(comes: &Attr, goes: &Attr) -> Self {
        let most = match comes.sample_max_stack {
            _ if !is_to_be_unwound(comes) || is_to_be_unwound(goes) => 0,
            0 => MOST_FRAMES,
            most => most.into(),
        };
        let format = |attr| RecordFormat::of(attr, ByteOrder::NATIVE);
        Event { comes: format(comes), goes: format(goes), most }
    }
}

/// Records that wait.
#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    records: Vec<Entry>,
    /// The time of the newest, of now and of when rings had been read before.
    newest: u64,
    before: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    start: usize,
    len: usize,
}

impl Recording {
    /// Of no events yet.
    pub fn new(unwinder: Unwinder) -> Self {
        Recording {
            unwinder,
            session: Session::new(),
            events: HashMap::new(),
            first: None,
            waiting: Waiting::default(),
            chain: Vec::new(),
            sums: Sums::default(),
            broken: 0,
        }
    }

    /// The attr that tells of an event's records once they are unwound: with a callchain of both sides, without a copy of the
    /// stack, and with registers only if they are wanted for themselves.
    pub fn attr(attr: &Attr, keeps_registers: bool) -> Attr {
        let mut attr = *attr;
        attr.sample_type -= SampleType::STACK_USER;
        attr.sample_stack_user = 0;
        if !keeps_registers {
            attr.sample_type -= SampleType::REGS_USER;
            attr.sample_regs_user = 0;
        }
        attr.flags -= AttrFlags::EXCLUDE_CALLCHAIN_USER;
        attr
    }

    /// Adds an event with the ids of its records: those come as the first attr says, and go on as the second. Its samples are
    /// unwound if only the first has copies of stacks. Records that tell no id are those of the event that was added first.
    pub fn add(&mut self, ids: impl IntoIterator<Item = u64>, comes: &Attr, goes: &Attr) {
        let event = Event::of(comes, goes);
        self.first.get_or_insert(event);
        self.events.extend(ids.into_iter().map(|id| (id, event)));
    }

    /// Takes in what ran before: processes and mappings.
    pub fn tell(&mut self, record: &Decoded<'_>) {
        self.session.apply(record);
    }

    /// Takes whole records as they lie in a ring, in two parts. They wait.
    pub fn take(&mut self, first: &[u8], second: &[u8]) {
        let begun = self.take_whole(first);
        let mut rest = second;
        if !begun.is_empty() {
            // A record that lies in both parts.
            let both = [begun, &second[..second.len().min(u16::MAX.into())]].concat();
            let Ok((raw, _)) = RawRecord::split(&both, ByteOrder::NATIVE) else {
                self.broken += (begun.len() + second.len()) as u64;
                return;
            };
            let len = usize::from(raw.header.size);
            self.wait(&raw, &both[..len]);
            rest = &second[len - begun.len()..];
        }
        self.broken += self.take_whole(rest).len() as u64;
    }

    /// Takes the whole records that these bytes begin with, and gives the rest.
    fn take_whole<'b>(&mut self, mut bytes: &'b [u8]) -> &'b [u8] {
        while let Ok((raw, rest)) = RawRecord::split(bytes, ByteOrder::NATIVE) {
            self.wait(&raw, &bytes[..raw.header.size.into()]);
            bytes = rest;
        }
        bytes
    }

    /// Has a record wait. Of a copy of a stack only what was copied is kept: the room that was left for it is many times larger.
    fn wait(&mut self, raw: &RawRecord<'_>, bytes: &[u8]) {
        let event = event_of(&self.events, self.first, raw);
        let time = event.and_then(|event| event.comes.time_of(raw));
        let waiting = &mut self.waiting;
        let start = waiting.bytes.len();
        let unwound = event.filter(|event| event.most > 0 && raw.header.kind == RecordType::SAMPLE);
        if unwound.and_then(|event| shortened(raw, &event, &mut waiting.bytes)).is_none() {
            waiting.bytes.truncate(start);
            waiting.bytes.extend_from_slice(bytes);
        }
        let time = time.unwrap_or(waiting.newest);
        waiting.newest = waiting.newest.max(time);
        waiting.records.push(Entry { time, start, len: waiting.bytes.len() - start });
    }

    /// All rings have been read once more: what came before the time at which they had been read before is added to `out`,
    /// by time, with whole callchains.
    pub fn round(&mut self, out: &mut Vec<u8>) {
        let until = std::mem::replace(&mut self.waiting.before, self.waiting.newest);
        self.go_on(until, out);
    }

    /// Nothing more comes, or nobody waits for it: adds all records to `out`.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.waiting.before = self.waiting.newest;
        self.go_on(u64::MAX, out);
    }

    /// Whether records wait.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.records.is_empty()
    }

    /// How stacks ended until now.
    pub fn sums(&self) -> Sums {
        self.sums
    }

    /// Bytes that were no records, which did not go on.
    pub fn broken(&self) -> u64 {
        self.broken
    }

    fn go_on(&mut self, until: u64, out: &mut Vec<u8>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        // Records of one ring stay in their order.
        waiting.records.sort_by_key(|entry| entry.time);
        let due = waiting.records.partition_point(|entry| entry.time <= until);
        for &Entry { start, len, .. } in &waiting.records[..due] {
            self.pass(&waiting.bytes[start..start + len], out);
        }
        waiting.records.drain(..due);
        // Those that are left keep the order in which they came.
        waiting.records.sort_unstable_by_key(|entry| entry.start);
        let mut len = 0;
        for entry in &mut waiting.records {
            waiting.bytes.copy_within(entry.start..entry.start + entry.len, len);
            entry.start = len;
            len += entry.len;
        }
        waiting.bytes.truncate(len);
        self.waiting = waiting;
    }

    /// Adds a record to `out` as it is to be recorded, and takes in what it tells.
    fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Ok((raw, _)) = RawRecord::split(bytes, ByteOrder::NATIVE) else { return };
        let Some(event) = event_of(&self.events, self.first, &raw) else {
            return out.extend_from_slice(bytes);
        };
        match raw.header.kind {
            RecordType::SAMPLE if event.most > 0 => {
                if self.sample(&raw, &event, out).is_none() {
                    // Its format is not that of the recording.
                    self.broken += bytes.len() as u64;
                }
            }
            RecordType::MMAP | RecordType::MMAP2 | RecordType::COMM | RecordType::FORK | RecordType::EXIT => {
                if let Ok(decoded) = raw.decode(&event.comes) {
                    self.session.apply(&decoded);
                }
                out.extend_from_slice(bytes);
            }
            _ => out.extend_from_slice(bytes),
        }
    }

    fn sample(&mut self, raw: &RawRecord<'_>, event: &Event, out: &mut Vec<u8>) -> Option<()> {
        let mut decoded = Decoded::from(Record::Switch);
        decoded.fill(raw, &event.comes).ok()?;
        let Decoded { misc, record: Record::Sample(mut sample), sample_id, extra } = decoded else {
            return None;
        };
        let (unwinder, chain) = (&mut self.unwinder, &mut self.chain);
        unwinder.set_most(event.most);
        let end = unwinder.sample(&self.session, &sample, event.comes.order, chain);
        let end = end.or_else(|| unwinder.place(&sample, chain));
        end.into_iter().for_each(|end| self.sums.add(end));
        let sampled = sample.callchain;
        if end.is_some() {
            sample.callchain = Some(Callchain { words: Words::from(&self.chain[..]) });
        }
        sample.stack_user = None;
        if !event.goes.sample_type.contains(SampleType::REGS_USER) {
            sample.regs_user = None;
        }
        let encode = |sample: Sample<'_>, out: &mut Vec<u8>| {
            let decoded = Decoded { misc, record: Record::Sample(sample), sample_id, extra };
            decoded.encode(&event.goes, out).ok()
        };
        // The callchain may have no room beside large raw data.
        encode(sample, out).or_else(|| {
            sample.callchain = sampled;
            encode(sample, out)
        })
    }
}

/// Adds a sample whose copy of the stack is as long as what was copied, if it is of the event's format.
fn shortened(raw: &RawRecord<'_>, event: &Event, out: &mut Vec<u8>) -> Option<()> {
    let mut decoded = Decoded::from(Record::Switch);
    decoded.fill(raw, &event.comes).ok()?;
    let Record::Sample(sample) = &mut decoded.record else { return None };
    let stack = sample.stack_user.as_mut()?;
    let copied = stack.copied().len().next_multiple_of(8).min(stack.bytes.len());
    stack.bytes = &stack.bytes[..copied];
    decoded.encode(&event.comes, out).ok()
}

fn event_of(events: &HashMap<u64, Event>, first: Option<Event>, raw: &RawRecord<'_>) -> Option<Event> {
    let first = first?;
    let id = if events.len() > 1 { first.comes.id_of(raw) } else { None };
    Some(id.and_then(|id| events.get(&id)).copied().unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_abi::EventType;
    use perfuse_abi::record::{CallchainContext, Comm, CpuMode, Misc, Mmap2, Regs, RegsAbi, Tid, UserStack};
    use perfuse_abi::regs::Arch;
    use proptest::collection::vec;

    /// The numbers of the frame pointer, the stack pointer and the place, as the kernel of this machine has them.
    fn registers() -> Option<[u32; 3]> {
        let arch = Arch::NATIVE?;
        match arch {
            Arch::X86_64 => Some([6, arch.sp(), arch.ip()]),
            Arch::Arm64 => Some([29, arch.sp(), arch.ip()]),
            _ => None,
        }
    }

    fn attr() -> Attr {
        let mut attr = Attr::new(EventType::SOFTWARE);
        attr.sample_type = SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CALLCHAIN
            | SampleType::REGS_USER
            | SampleType::STACK_USER;
        attr.flags |= AttrFlags::SAMPLE_ID_ALL | AttrFlags::EXCLUDE_CALLCHAIN_USER;
        attr.sample_regs_user = registers().into_iter().flatten().fold(0, |mask, bit| mask | 1 << bit);
        attr.sample_stack_user = 64;
        attr
    }

    const TID: Tid = Tid { pid: 9, tid: 9 };

    fn encoded(record: Record<'_>, (id, time, misc): (u64, u64, Misc), attr: &Attr) -> Vec<u8> {
        let mut decoded = Decoded { misc, ..Decoded::from(record) };
        decoded.sample_id.identifier = Some(id);
        decoded.sample_id.tid = Some(TID);
        decoded.sample_id.time = Some(time);
        let mut bytes = Vec::new();
        decoded.encode(&RecordFormat::of(attr, ByteOrder::NATIVE), &mut bytes).expect("it fits");
        bytes
    }

    /// A sample at 0x1010, called from 0x1020 and that from 0x1030, where the program began; the kernel was at 7.
    fn sample(id: u64, time: u64, copied: u64, attr: &Attr) -> Vec<u8> {
        let stack = [0x7010u64, 0x1021, 0x7020, 0x1031, 0, 0, 0, 0].map(u64::to_ne_bytes).concat();
        let [fp, sp, ip] = registers().expect("an architecture that is unwound");
        let mut words = [(fp, 0x7000u64), (sp, 0x7000), (ip, 0x1010)];
        words.sort_unstable();
        let words = words.map(|(_, word)| word);
        let kernel = [CallchainContext::KERNEL.0, 7];
        let mut sample = Sample::default();
        (sample.identifier, sample.ip) = (Some(id), Some(7));
        (sample.tid, sample.time) = (Some(TID), Some(time));
        sample.callchain = Some(Callchain { words: Words::from(&kernel[..]) });
        if attr.sample_type.contains(SampleType::STACK_USER) {
            let mask = attr.sample_regs_user;
            sample.regs_user = Some(Regs { abi: RegsAbi::ABI_64, mask, words: Words::from(&words[..]) });
            let mut copy = UserStack::default();
            (copy.bytes, copy.dyn_size) = (&stack, copied);
            sample.stack_user = Some(copy);
        }
        encoded(Record::Sample(sample), (id, time, Misc::empty().with_cpu_mode(CpuMode::KERNEL)), attr)
    }

    /// A mapping of all that is called, of a file that is not there.
    fn mapping(id: u64, time: u64, start: u64, attr: &Attr) -> Vec<u8> {
        let filename = (&b"/nowhere/program"[..]).into();
        let map = Mmap2 { tid: TID, addr: start, len: 0x1000, pgoff: 0, filename, ..Mmap2::default() };
        encoded(Record::Mmap2(map), (id, time, Misc::empty().with_cpu_mode(CpuMode::USER)), attr)
    }

    fn exec(id: u64, time: u64, attr: &Attr) -> Vec<u8> {
        let comm = Comm { tid: TID, name: (&b"other"[..]).into() };
        encoded(Record::Comm(comm), (id, time, Misc::COMM_EXEC), attr)
    }

    /// Of one event that is unwound, with the id 1.
    fn recording() -> Recording {
        let mut recording = Recording::new(Unwinder::of_running());
        recording.add([1], &attr(), &Recording::attr(&attr(), false));
        recording
    }

    /// Times of records, with the callchains of samples.
    fn read(bytes: &[u8], attr: &Attr) -> Vec<(u64, Vec<u64>)> {
        let (format, mut rest, mut all) = (RecordFormat::of(attr, ByteOrder::NATIVE), bytes, Vec::new());
        while !rest.is_empty() {
            let (raw, after) = RawRecord::split(rest, ByteOrder::NATIVE).expect("a record");
            let decoded = raw.decode(&format).expect("its format");
            let mut chain = Vec::new();
            if let Record::Sample(sample) = &decoded.record {
                assert!(sample.regs_user.is_none() && sample.stack_user.is_none());
                chain = sample.callchain.iter().flat_map(|chain| chain.words.iter()).collect();
            }
            all.push((decoded.time().expect("a time"), chain));
            rest = after;
        }
        all
    }

    fn whole() -> Vec<u64> {
        let (kernel, user) = (CallchainContext::KERNEL.0, CallchainContext::USER.0);
        vec![kernel, 7, user, 0x1010, 0x1020, 0x1030]
    }

    #[test]
    fn a_sample_finds_the_mappings_of_its_moment_whichever_ring_is_read_first() {
        if registers().is_none() {
            return;
        }
        let (attr, mut recording, mut out) = (attr(), recording(), Vec::new());
        let goes = Recording::attr(&attr, false);
        recording.take(&sample(1, 200, 64, &attr), &[]);
        // The mapping is there when all have been read: it waits too, as others may have earlier ones.
        recording.take(&mapping(1, 100, 0x1000, &attr), &[]);
        recording.round(&mut out);
        assert!(out.is_empty() && recording.is_waiting());
        // A program that was executed later has none of it, and is read before the sample goes on.
        recording.take(&[exec(1, 300, &attr), mapping(1, 310, 0x9000, &attr)].concat(), &[]);
        recording.take(&sample(1, 250, 64, &attr), &[]);
        recording.round(&mut out);
        assert_eq!(read(&out, &goes), [(100, vec![]), (200, whole())]);
        out.clear();
        recording.finish(&mut out);
        assert_eq!(read(&out, &goes), [(250, whole()), (300, vec![]), (310, vec![])]);
        assert!(!recording.is_waiting());
        assert_eq!(recording.sums(), Sums { stacks: 2, ..Sums::default() });
    }

    #[test]
    fn records_are_whole_wherever_the_ring_ends() {
        if registers().is_none() {
            return;
        }
        let attr = attr();
        let stream = [mapping(1, 100, 0x1000, &attr), sample(1, 200, 64, &attr)].concat();
        for cut in (0..=stream.len()).step_by(8) {
            let (mut recording, mut out) = (recording(), Vec::new());
            recording.take(&stream[..cut], &stream[cut..]);
            recording.finish(&mut out);
            let goes = Recording::attr(&attr, false);
            assert_eq!(read(&out, &goes), [(100, vec![]), (200, whole())], "{cut}");
        }
    }

    #[test]
    fn room_without_a_copy_does_not_wait() {
        if registers().is_none() {
            return;
        }
        let (attr, mut recording) = (attr(), recording());
        for (copied, spared) in [(64, 0), (33, 24), (16, 48), (0, 64 + 8)] {
            let bytes = sample(1, 1, copied, &attr);
            let before = recording.waiting.bytes.len();
            recording.take(&bytes, &[]);
            assert_eq!(recording.waiting.bytes.len() - before, bytes.len() - spared, "{copied}");
        }
    }

    #[test]
    fn what_there_is_of_a_stack_is_kept_and_counted() {
        if registers().is_none() {
            return;
        }
        let (attr, mut recording, mut out) = (attr(), recording(), Vec::new());
        let goes = Recording::attr(&attr, false);
        // Where nothing is mapped a frame is followed once.
        recording.take(&sample(1, 1, 64, &attr), &[]);
        recording.take(&[mapping(1, 2, 0x1000, &attr), sample(1, 3, 16, &attr)].concat(), &[]);
        recording.finish(&mut out);
        let chains = read(&out, &goes);
        assert_eq!([&chains[0].1[..], &chains[2].1], [&whole()[..5]; 2]);
        let sums = recording.sums();
        assert_eq!((sums.stacks, sums.deeper, sums.lost, sums.incomplete()), (2, 1, 1, 2));
    }

    #[test]
    fn a_guessed_caller_is_code() {
        if registers().is_none() {
            return;
        }
        let (attr, known) = (attr(), &whole()[..4]);
        // The place of the sample is mapped as code; the callers are nowhere, in data, in code.
        for (prot, chain) in [(None, known), (Some(3), known), (Some(5), &whole()[..])] {
            let part = |start, len, prot| {
                let filename = (&b"/nowhere/program"[..]).into();
                let map = Mmap2 { tid: TID, addr: start, len, prot, filename, ..Mmap2::default() };
                let misc = Misc::empty().with_cpu_mode(CpuMode::USER);
                encoded(Record::Mmap2(map), (1, 1, misc), &attr)
            };
            let (mut recording, mut out) = (recording(), Vec::new());
            recording.take(&part(0x1000, 0x18, 5), &[]);
            prot.into_iter().for_each(|prot| recording.take(&part(0x1018, 0x100, prot), &[]));
            recording.take(&sample(1, 2, 64, &attr), &[]);
            recording.finish(&mut out);
            let read = read(&out, &Recording::attr(&attr, false));
            assert_eq!(read.last().expect("a sample").1, chain, "{prot:?}");
        }
    }

    #[test]
    fn other_events_go_on_as_they_come() {
        if registers().is_none() {
            return;
        }
        let mut other = attr();
        other.sample_type -= SampleType::STACK_USER | SampleType::REGS_USER;
        let mut recording = recording();
        recording.add([2], &other, &other);
        let bytes = [sample(2, 5, 0, &other), mapping(2, 6, 0x1000, &other)].concat();
        let mut out = Vec::new();
        recording.take(&bytes, &[]);
        recording.finish(&mut out);
        assert_eq!(out, bytes);
        assert_eq!((recording.sums(), recording.broken()), (Sums::default(), 0));
    }

    #[test]
    fn the_attr_tells_what_the_records_have() {
        let goes = Recording::attr(&attr(), false);
        let gone = SampleType::STACK_USER | SampleType::REGS_USER;
        assert_eq!(goes.sample_type, attr().sample_type - gone);
        assert!(!goes.flags.contains(AttrFlags::EXCLUDE_CALLCHAIN_USER) && !is_to_be_unwound(&goes));
        assert_eq!((goes.sample_regs_user, goes.sample_stack_user), (0, 0));
        let kept = Recording::attr(&attr(), true);
        assert!(kept.sample_type.contains(SampleType::REGS_USER) && !is_to_be_unwound(&kept));
    }

    proptest::proptest! {
        #[test]
        fn bytes_in_any_order_end(pieces in vec((0u16..14, vec(0u8.., 0..300)), 0..12)) {
            let (mut recording, mut out) = (recording(), Vec::new());
            for (kind, body) in pieces {
                let mut bytes = u32::from(kind).to_ne_bytes().to_vec();
                bytes.extend(2u16.to_ne_bytes());
                bytes.extend((8 + body.len() as u16).to_ne_bytes());
                bytes.extend(body);
                recording.take(&bytes, &[]);
                recording.round(&mut out);
            }
            recording.take(&[1, 2, 3], &[]);
            recording.finish(&mut out);
            assert!(!recording.is_waiting() && recording.broken() >= 3);
        }
    }
}
