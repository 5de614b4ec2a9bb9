//! Every record of a recording with what is in it: the lines of `perf report -D`. This file walks over the
//! records and prints their bytes; what is in them is printed by the modules below it.

use super::{known_name, record, sample, tool};
use crate::feature::{Feature, Section};
use crate::replay::{Groups, Replay, Step};
use crate::session::{Level, Map, Session};
use crate::text::{Hex, foreign};
use crate::tool::{Tool, kind};
use crate::{Error, Event, FileRecord, Form, Ordered, PerfData};
use perfuse_abi::record::{Decoded, Record, RecordType, Sample};
use perfuse_abi::{AttrFlags, SampleType};
use std::fmt::Write as _;
use std::io::{self, Write};

/// How a recording is dumped.
#[derive(Clone, Copy)]
pub struct DumpOptions<'a> {
    /// The name of the file.
    pub name: &'a str,
    /// Whether to say whose each sample is, and in which object.
    pub with_tasks: bool,
    /// How an object is called that holds code that its process made; `None` for other objects.
    pub made_code: fn(&Session, &Map) -> Option<String>,
}

/// Writes every record with what is in it, in the order of their times. Records that cannot be read are told to `complain`.
///
/// # Errors
///
/// Those of `out`.
pub fn dump(
    out: &mut dyn Write,
    mut data: PerfData<'_>,
    options: &DumpOptions<'_>,
    complain: &mut dyn FnMut(&Error),
) -> io::Result<()> {
    let is_pipe = matches!(data.form(), Form::Pipe);
    let mut dump = Dump {
        name: if is_pipe { "pipe".to_owned() } else { foreign(options.name).into_owned() },
        first_offset: if is_pipe { 16 } else { 0 },
        machine: String::new(),
        groups: Groups::default(),
        text: String::new(),
        options,
    };
    let by_time = is_pipe || data.events().first().is_none_or(has_trailer);
    if !by_time {
        writeln!(out, "WARNING: No sample_id_all support, falling back to unordered processing")?;
    }
    if options.with_tasks {
        writeln!(
            out,
            "# To display the perf.data header info, please use --header/--header-only options.\n#"
        )?;
    }
    dump.machine = super::machine(&mut data);
    let ordered = if by_time { Ordered::new(data) } else { Ordered::as_read(data) };
    Replay::of(ordered).each(|step| match step {
        Ok(step) => dump.entry(out, &step),
        Err(error) => {
            complain(&error);
            Ok(())
        }
    })
}

fn has_trailer(event: &Event) -> bool {
    event.attr.flags.contains(AttrFlags::SAMPLE_ID_ALL)
}

/// The fields that the events known by now have in common.
struct Layout {
    has_trailer: bool,
    sample_type: SampleType,
}

impl Layout {
    fn of(entry: &FileRecord<'_>) -> Self {
        let events: &[Event] = entry.events();
        // An event that this very record tells of is not known yet.
        let newest = usize::from(entry.kind() == kind::HEADER_ATTR);
        let events = &events[..events.len().saturating_sub(newest)];
        let types = events.iter().map(|event| event.attr.sample_type);
        Layout {
            has_trailer: events.first().is_some_and(has_trailer),
            sample_type: types.fold(SampleType::empty(), |all, more| all | more),
        }
    }
}

struct Dump<'a> {
    name: String,
    first_offset: u64,
    machine: String,
    groups: Groups,
    text: String,
    options: &'a DumpOptions<'a>,
}

impl Dump<'_> {
    fn entry(&mut self, out: &mut dyn Write, step: &Step<'_>) -> io::Result<()> {
        let (entry, layout) = (step.entry, Layout::of(step.entry));
        let (header, text) = (entry.raw.header, &mut self.text);
        let offset = Hex(entry.location.offset.saturating_sub(self.first_offset));
        let size = Hex(header.size.into());
        let _ = writeln!(text, "\n{offset}@{} [{size}]: event: {}", self.name, header.kind.0);
        bytes(text, entry.bytes());
        let (cpu, time) = match step.decoded {
            Some(decoded) => (decoded.cpu().unwrap_or(u32::MAX), decoded.time().unwrap_or(u64::MAX)),
            None if entry.is_kernel() => (u32::MAX, u64::MAX),
            None => (0, 0),
        };
        if header.kind != RecordType::SAMPLE && !layout.has_trailer {
            text.push_str("-1 -1 ");
        } else {
            if layout.sample_type.contains(SampleType::CPU) {
                let _ = write!(text, "{cpu} ");
            }
            if layout.sample_type.contains(SampleType::TIME) {
                let _ = write!(text, "{time} ");
            }
        }
        let kind = known_name(header.kind);
        let _ = write!(text, "{offset} [{size}]: PERF_RECORD_{kind}");
        match (step.decoded, &step.broken) {
            (Some(decoded), _) => self.kernel(step, decoded),
            (None, Some(error)) => {
                let _ = writeln!(text, ": {error}");
            }
            (None, None) => match entry.tool() {
                Ok(record) => {
                    if let Tool::HeaderFeature { id, bytes } = &record.tool {
                        let section = Section::decode(*id, bytes, entry.events().order(), 0);
                        if let Ok(Section { feature: Feature::Arch(name), .. }) = section {
                            self.machine = name.to_string();
                        }
                    }
                    tool::write(text, &record.tool);
                }
                Err(error) => {
                    let _ = writeln!(text, ": {error}");
                }
            },
        }
        out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }

    fn kernel(&mut self, step: &Step<'_>, decoded: &Decoded<'_>) {
        let entry = step.entry;
        let Record::Sample(sample) = &decoded.record else {
            return record::write(&mut self.text, entry.event(), decoded);
        };
        let Some(event) = entry.event() else { return };
        sample::write(&mut self.text, event, entry, decoded, sample, &self.machine);
        if self.options.with_tasks {
            let mut samples = 0;
            self.groups.deliver(entry, sample, |_, _, _| samples += 1);
            (0..samples).for_each(|_| self.task(step.session, decoded, sample));
        }
    }

    /// The process of a sample, and its place.
    fn task(&mut self, session: &Session, decoded: &Decoded<'_>, sample: &Sample<'_>) {
        let (pid, tid) = sample.tid.map_or((u32::MAX, u32::MAX), |tid| (tid.pid, tid.tid));
        let comm = session.thread(tid).map(|thread| foreign(session.comm(thread.comm)));
        let _ = match comm {
            Some(comm) => writeln!(self.text, " ... thread: {comm}:{}", tid as i32),
            None => writeln!(self.text, " ... thread: :{0}:{0}", tid as i32),
        };
        let level = Level::of(decoded.misc);
        let found = session.resolve(pid, tid, level, sample.ip.unwrap_or(0));
        let object = match found {
            Some(found) => match (self.options.made_code)(session, &found.map) {
                Some(name) => name.into(),
                None => foreign(&session.object(found.map.object).name),
            },
            None if level == Level::Hypervisor => "[hypervisor]".into(),
            None => "<not found>".into(),
        };
        let _ = writeln!(self.text, " ...... dso: {object}");
    }
}

/// Bytes as numbers and letters, sixteen on a line.
fn bytes(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let _ = writeln!(text, ".\n. ... raw event: size {} bytes", bytes.len());
    for (row, chunk) in bytes.chunks(16).enumerate() {
        let _ = write!(text, ".  {:04x}: ", row * 16);
        for &byte in chunk {
            text.push(' ');
            text.push(DIGITS[usize::from(byte >> 4)].into());
            text.push(DIGITS[usize::from(byte & 15)].into());
        }
        text.extend(std::iter::repeat_n("   ", 16 - chunk.len()));
        text.push_str("  ");
        text.extend(chunk.iter().map(|&byte| match byte {
            b' '..=b'~' => char::from(byte),
            _ => '.',
        }));
        text.extend(std::iter::repeat_n(' ', 16 - chunk.len()));
        text.push('\n');
    }
    text.push('\n');
}
