//! Keeps count of the records on their way from a ring to the file: samples, losses, the first and last time,
//! and the files that were mapped. Headers and times are looked at in place; only rare records are taken apart.

use crate::clocks::Clocks;
use crate::plan::Plan;
use perfuse::abi::ByteOrder;
use perfuse::abi::record::{
    BpfEventType, Header, Misc, MmapFile, RawRecord, Record, RecordFormat, RecordType,
};
use perfuse_symbols::BuildId;
use std::collections::BTreeMap;

/// Sums over all that was recorded.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) samples: u64,
    /// The time that samples of clocks stand for, over all files.
    pub(crate) clocks: Clocks,
    /// Some samples do not tell when they were taken.
    untimed: bool,
    /// Records that found no room in a ring, as the kernel's own records tell.
    pub(crate) lost: u64,
    /// Samples that the hardware lost.
    pub(crate) lost_samples: u64,
    pub(crate) throttled: u64,
    /// Tasks that were born.
    pub(crate) births: u64,
    /// Times of samples.
    pub(crate) first_ns: Option<u64>,
    pub(crate) last_ns: Option<u64>,
    /// Mapped files by name.
    pub(crate) files: BTreeMap<Vec<u8>, MappedFile>,
    /// Modules of the kernel with build-ids, by file.
    pub(crate) modules: BTreeMap<Vec<u8>, BuildId>,
    /// Ids of BPF programs that were loaded and nobody has looked at yet.
    pub(crate) programs: Vec<u32>,
    /// Bytes that were no records.
    pub(crate) corrupt: u64,
}

/// What is known of a mapped file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MappedFile {
    /// Its build-id, which the kernel told.
    Identified(Vec<u8>),
    /// The process that mapped it, and device and inode, if they were told.
    Mapped(u32, Option<((u32, u32), u64)>),
}

impl Tally {
    /// Of nothing yet.
    pub(crate) fn of(plan: &Plan, clocks: Clocks) -> Self {
        let untimed = plan.events.iter().any(|request| request.spec.options.time == Some(false));
        Tally { untimed, clocks, ..Tally::default() }
    }

    /// Looks at records as they lie in a ring, in two parts, and says how many bytes are whole records.
    pub(crate) fn look(&mut self, first: &[u8], second: &[u8], format: &RecordFormat) -> usize {
        let total = first.len() + second.len();
        let mut at = 0;
        let (mut first_sample, mut last_sample) = (None, None);
        while at + Header::SIZE <= total {
            // Records are aligned to 8 bytes, so a header does not lie across the parts; a body may.
            let rest = if at < first.len() { &first[at..] } else { &second[at - first.len()..] };
            let Some(header) = Header::peek(rest, ByteOrder::NATIVE) else { break };
            let size = usize::from(header.size);
            if size < Header::SIZE || at + size > total {
                break;
            }
            if header.kind == RecordType::SAMPLE {
                self.samples += 1;
                if !self.clocks.is_empty() {
                    with_body(first, second, header, at, |raw| self.clocks.sample(&raw));
                }
                first_sample.get_or_insert((header, at));
                last_sample = Some((header, at));
            } else {
                with_body(first, second, header, at, |raw| self.other(&raw, format));
            }
            at += size;
        }
        // A ring is in order, from either end.
        for (header, at) in first_sample.into_iter().chain(last_sample).filter(|_| !self.untimed) {
            let time = with_body(first, second, header, at, |raw| format.time_of(&raw));
            self.last_ns = self.last_ns.max(time);
            self.first_ns = [self.first_ns, time].into_iter().flatten().min();
        }
        self.corrupt += (total - at) as u64;
        at
    }

    fn other(&mut self, raw: &RawRecord<'_>, format: &RecordFormat) {
        match raw.header.kind {
            RecordType::THROTTLE => self.throttled += 1,
            RecordType::FORK => self.births += 1,
            RecordType::MMAP | RecordType::MMAP2 if raw.header.misc.contains(Misc::MMAP_DATA) => {}
            RecordType::LOST
            | RecordType::LOST_SAMPLES
            | RecordType::BPF_EVENT
            | RecordType::MMAP
            | RecordType::MMAP2 => {
                // A record that cannot be taken apart is none the less recorded.
                if let Ok(decoded) = raw.decode(format) {
                    self.told(&decoded.record);
                }
            }
            _ => {}
        }
    }

    fn told(&mut self, record: &Record<'_>) {
        match record {
            Record::Lost(lost) => {
                log::warn!("a ring was full: {} records are lost", lost.lost);
                self.lost += lost.lost;
            }
            Record::LostSamples(lost) => {
                log::warn!("the hardware lost {lost} samples");
                self.lost_samples += lost;
            }
            Record::BpfEvent(event) if event.kind == BpfEventType::PROG_LOAD => self.programs.push(event.id),
            Record::Mmap(map) => self.file(map.filename.as_bytes(), MappedFile::Mapped(map.tid.pid, None)),
            Record::Mmap2(map) => {
                let file = match &map.file {
                    MmapFile::BuildId(id) => MappedFile::Identified(id.as_bytes().to_vec()),
                    MmapFile::Inode { maj, min, ino, .. } => {
                        MappedFile::Mapped(map.tid.pid, Some(((*maj, *min), *ino)))
                    }
                };
                self.file(map.filename.as_bytes(), file);
            }
            _ => {}
        }
    }

    /// Remembers a file; names in brackets and the like are none.
    pub(crate) fn file(&mut self, name: &[u8], file: MappedFile) {
        let special = [&b"//"[..], b"/memfd:", b"/dev/", b"/SYSV", b"/[aio]"];
        if !name.starts_with(b"/") || special.iter().any(|start| name.starts_with(start)) {
            return;
        }
        match self.files.get_mut(name) {
            Some(known @ MappedFile::Mapped(..)) if matches!(file, MappedFile::Identified(_)) => {
                *known = file
            }
            Some(_) => {}
            None => drop(self.files.insert(name.to_vec(), file)),
        }
    }
}

/// Calls `f` with a record; one that lies across the parts is put together.
fn with_body<T>(
    first: &[u8],
    second: &[u8],
    header: Header,
    at: usize,
    f: impl FnOnce(RawRecord<'_>) -> T,
) -> T {
    let (start, end) = (at + Header::SIZE, at + usize::from(header.size));
    if end <= first.len() {
        f(RawRecord { header, body: &first[start..end] })
    } else if start >= first.len() {
        f(RawRecord { header, body: &second[start - first.len()..end - first.len()] })
    } else {
        let body = [&first[start..], &second[..end - first.len()]].concat();
        f(RawRecord { header, body: &body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse::abi::SampleType;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0u16.to_ne_bytes());
        bytes.extend((8 + 8 * words.len() as u16).to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn records_are_counted_wherever_the_ring_ends() {
        let sample_type = SampleType::IDENTIFIER | SampleType::TIME;
        let format = RecordFormat { sample_type, sample_id_all: true, ..RecordFormat::default() };
        let stream =
            [record(9, &[1, 100]), record(2, &[1, 5, 0, 1]), record(9, &[1, 300]), record(5, &[0; 3])]
                .concat();
        for cut in (0..=stream.len()).step_by(8) {
            let mut tally = Tally::default();
            assert_eq!(tally.look(&stream[..cut], &stream[cut..], &format), stream.len());
            assert_eq!((tally.samples, tally.lost, tally.throttled), (2, 5, 1));
            assert_eq!((tally.first_ns, tally.last_ns), (Some(100), Some(300)));
            assert_eq!(tally.corrupt, 0);
        }
    }

    #[test]
    fn the_first_and_the_last_time_are_those_of_all_rings() {
        let sample_type = SampleType::IDENTIFIER | SampleType::TIME;
        let format = RecordFormat { sample_type, ..RecordFormat::default() };
        let mut tally = Tally::default();
        for times in [&[300, 400][..], &[100, 350, 500], &[450, 200], &[]] {
            let ring: Vec<u8> = times.iter().flat_map(|&time| record(9, &[1, time])).collect();
            tally.look(&ring, &[], &format);
        }
        assert_eq!((tally.first_ns, tally.last_ns), (Some(100), Some(500)));
    }

    #[test]
    fn a_record_that_is_not_whole_is_not_passed_on() {
        let stream = [record(9, &[1, 100]), record(9, &[1, 200])].concat();
        for cut in [32, 40] {
            let mut tally = Tally::default();
            assert_eq!(tally.look(&stream[..cut], &[], &RecordFormat::default()), 24);
            assert_eq!((tally.samples, tally.corrupt), (1, cut as u64 - 24));
        }
    }

    #[test]
    fn what_is_no_record_is_not_passed_on() {
        let mut stream = record(9, &[1, 100]);
        let good = stream.len();
        stream.extend([0; 16]);
        let mut tally = Tally::default();
        assert_eq!(tally.look(&stream, &[], &RecordFormat::default()), good);
        assert_eq!(tally.corrupt, 16);
    }
}
