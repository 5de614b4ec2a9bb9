//! The lines themselves, in the columns that programs which read perf's lines expect.

use super::counts::Counts;
use super::places::{self, Places, Space};
use super::sources::SourceLines;
use super::{Decode, Sample, blocks, extras, json};
use perfuse_abi::record::{self, CallchainContext, Decoded, Misc, Record, RecordType, Weight};
use perfuse_abi::{EventType, Software};
use perfuse_data::describe::{self, Field, Fields};
use perfuse_data::replay::{Formats, callstack, rest_of_chain};
use perfuse_data::session::{Level, Session};
use perfuse_data::text::LineBuffer;
use perfuse_data::{Event, FileRecord};
use perfuse_profile::{Lookup, Placed, level_of};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

/// How times are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// As they are in the recording.
    #[default]
    Recorded,
    /// Since the first line.
    SinceStart,
    /// Since the line before.
    SinceLast,
}

/// The time of day of a recording's moments.
#[derive(Clone, Copy, Debug)]
pub struct TimeOfDay {
    /// Nanoseconds since 1970, at some moment.
    pub wall_ns: u64,
    /// The same moment by the clock of the recording.
    pub clock_ns: u64,
    /// The date and time of a moment since 1970 where this is read, without the fraction of its second.
    pub local_time: fn(Duration) -> String,
}

/// The form of lines.
#[derive(Clone, Debug, Default)]
pub struct LinesOptions {
    /// Times with nine digits in place of six.
    pub nanoseconds: bool,
    /// How times are printed.
    pub clock: Clock,
    /// At most so many frames of a callchain.
    pub max_stack: usize,
    /// Each sample as an object of JSON.
    pub json: bool,
    /// The machine of the recording, as `uname -m` says it: it names registers.
    pub machine: String,
    /// For [`Field::Tod`]; without it that is left out.
    pub time_of_day: Option<TimeOfDay>,
    /// Callchains end with functions of these names.
    pub stop_at: Vec<String>,
    /// Takes the first instruction of code apart; without it, fields that tell of it are left out.
    pub decode: Option<Decode>,
    /// Show at most so many of the blocks of code that ran between a sample's branches.
    pub max_blocks: Option<usize>,
}

/// The lines, made one after the other, and held until they are taken.
pub struct Lines {
    text: LineBuffer,
    places: Places,
    options: LinesOptions,
    first_time: Option<u64>,
    last_time: Option<u64>,
    /// Columns of the events' names.
    name_width: usize,
    /// Width of the data sources printed so far.
    source_width: usize,
    sources: SourceLines,
    counts: Counts,
}

impl Lines {
    /// No lines yet; `lookup` names places.
    pub fn new(lookup: Lookup, options: LinesOptions) -> Self {
        Lines {
            sources: SourceLines::new(lookup.symbols()),
            counts: Counts::default(),
            text: LineBuffer::default(),
            places: Places::new(lookup),
            options,
            first_time: None,
            last_time: None,
            name_width: 0,
            source_width: 0,
        }
    }

    /// The bytes of lines that wait to be taken.
    pub fn bytes(&self) -> usize {
        self.text.0.len()
    }

    /// Hands over the lines that wait, and forgets them.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn take(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.text.0)?;
        self.text.0.clear();
        Ok(())
    }

    /// Names events in a column of this width from now on.
    pub fn align_names(&mut self, columns: usize) {
        self.name_width = columns;
    }

    /// The place of a sample: its function and object.
    pub fn locate(
        &mut self,
        event: &Event,
        decoded: &Decoded<'_>,
        sample: &record::Sample<'_>,
        session: &Session,
    ) -> Placed {
        let space = Space::of(session, &event.attr, sample);
        self.places.locate(&space, Level::of(decoded.misc), sample.ip.unwrap_or(0))
    }

    /// The names of places come from it.
    pub fn lookup(&self) -> &Lookup {
        &self.places.lookup
    }

    /// The beginning of a line: task, cpu, time and event.
    fn start(&mut self, fields: &Fields, decoded: &Decoded<'_>, kind: RecordType, session: &Session) {
        let text = &mut self.text;
        let (pid, tid) = decoded.tid().map_or((u32::MAX, u32::MAX), |tid| (tid.pid, tid.tid));
        // The name is that of the task the record is about.
        let named = match &decoded.record {
            Record::Comm(comm) => comm.tid.tid,
            Record::Fork(task) | Record::Exit(task) => task.tid,
            Record::Mmap(mmap) => mmap.tid.tid,
            Record::Mmap2(mmap) => mmap.tid.tid,
            Record::Namespaces(namespaces) => namespaces.tid.tid,
            _ => tid,
        };
        if fields.has(Field::Comm) {
            let width = if fields.has(Field::Ip) && fields.has_chains { 0 } else { 16 };
            text.right(&session.name_of(named), width);
            text.push(" ");
        }
        match (fields.has(Field::Pid), fields.has(Field::Tid)) {
            (true, true) => {
                text.id(pid, 5);
                text.push("/");
                let _ = write!(text, "{:<5}", tid as i32);
                text.push(" ");
            }
            (true, false) => {
                text.id(pid, 5);
                text.push(" ");
            }
            (false, true) => {
                text.id(tid, 5);
                text.push(" ");
            }
            (false, false) => {}
        }
        if fields.has(Field::Cpu) {
            text.push("[");
            match decoded.cpu() {
                Some(cpu) if cpu as i32 >= 0 => text.zeros(cpu.into(), 3),
                _ => text.push("-01"),
            }
            text.push("] ");
        }
        if fields.has(Field::Misc) {
            misc(text, decoded.misc, kind);
        }
        if fields.has(Field::Tod) {
            self.time_of_day(decoded.time().unwrap_or(0));
        }
        if fields.has(Field::Time) {
            self.time(decoded.time().unwrap_or(u64::MAX));
        }
    }

    /// The time by the clock of the wall, if the recording tells it.
    fn time_of_day(&mut self, time: u64) {
        let Some(TimeOfDay { wall_ns, clock_ns, local_time }) = self.options.time_of_day else { return };
        let now = Duration::from_nanos(wall_ns.saturating_add(time).saturating_sub(clock_ns));
        let (fraction, digits) =
            if self.options.nanoseconds { (now.subsec_nanos(), 9) } else { (now.subsec_micros(), 6) };
        let date = local_time(now);
        let _ = write!(self.text, "{date}.{fraction:0digits$} ");
    }

    fn time(&mut self, time: u64) {
        let time = match self.options.clock {
            Clock::Recorded => time,
            Clock::SinceStart => time.wrapping_sub(*self.first_time.get_or_insert(time)),
            Clock::SinceLast => time.wrapping_sub(self.last_time.replace(time).unwrap_or(time)),
        };
        let (seconds, fraction) = (time / 1_000_000_000, time % 1_000_000_000);
        if self.options.nanoseconds {
            self.text.decimal(seconds, 5);
            self.text.push(".");
            self.text.zeros(fraction, 9);
        } else {
            self.text.decimal(seconds, 5);
            self.text.push(".");
            self.text.zeros(fraction / 1000, 6);
        }
        self.text.push(": ");
    }

    /// A record that is no sample; with the fields that a line begins with, if it is of an event.
    pub fn record(
        &mut self,
        entry: &FileRecord<'_>,
        decoded: &Decoded<'_>,
        session: &Session,
        fields: Option<&Fields>,
    ) {
        if let Some(fields) = fields {
            self.start(fields, decoded, entry.kind(), session);
        }
        let mut line = String::new();
        describe::write_record(&mut line, entry.kind(), decoded);
        self.text.again(line.as_bytes());
    }

    /// A line of its own.
    pub fn plain(&mut self, line: &'static str) {
        self.text.push(line);
        self.text.push("\n");
    }

    /// A record that perf has written itself: of those, counts have lines.
    pub fn tool(&mut self, entry: &FileRecord<'_>, formats: &Formats) {
        let lines = self.counts.take(entry, formats, self.options.json).unwrap_or_default();
        self.text.again(lines.as_bytes());
    }

    /// A sample.
    pub fn sample(&mut self, one: &Sample<'_>) {
        let Sample { event, fields, decoded, sample, session, .. } = *one;
        if self.options.json {
            return json::write(
                &mut self.text,
                &mut self.places,
                one,
                (self.options.max_stack, &self.options.stop_at),
                &self.options.machine,
            );
        }
        self.start(fields, decoded, RecordType::SAMPLE, session);
        let Lines { text, places, options, source_width, .. } = self;
        if fields.has(Field::Period) {
            text.decimal(one.period, 10);
            text.push(" ");
        }
        if fields.has(Field::Event) {
            text.right(&fields.name, self.name_width);
            text.push(": ");
        }
        let space = Space::of(session, &event.attr, sample);
        let level = Level::of(decoded.misc);
        if let (true, EventType::TRACEPOINT, Some(raw)) =
            (fields.has(Field::Trace), event.attr.type_, &sample.raw)
        {
            let places = RefCell::new(&mut *places);
            let symbol = |address| places.borrow_mut().kernel_symbol(&space, address);
            match one.formats.print(event.attr.config, raw.as_bytes(), event.format.order, &symbol) {
                Some(line) => text.foreign(&line),
                None => extras::bytes(text, raw.as_bytes()),
            }
        }
        let style = places::style(fields);
        if let (true, Some(address)) = (fields.has(Field::Addr), sample.addr) {
            text.hex(address, 16);
            if tells_code(event) {
                let level = places.level_of(&space, level, address);
                places.place(text, style, &space, level, address);
            }
        }
        if let (true, Some(source)) = (fields.has(Field::DataSrc), sample.data_src) {
            let start = text.0.len();
            extras::data_source(text, source);
            *source_width = (*source_width).max(text.0.len() - start);
            text.spaces(*source_width - (text.0.len() - start));
        }
        if let Some(weight) = sample.weight {
            let (first, second, third) = match weight {
                Weight::Full(weight) => (weight, 0, 0),
                Weight::Struct { var1, var2, var3 } => (var1.into(), var2, var3),
            };
            let numbers =
                [(Field::Weight, first), (Field::InsLat, second.into()), (Field::RetireLat, third.into())];
            for (_, number) in numbers.iter().filter(|(field, _)| fields.has(*field)) {
                text.decimal(*number, 16);
            }
        }
        if let (true, Some(id)) = (fields.has(Field::Cgroup), sample.cgroup) {
            text.push(" ");
            text.foreign(session.cgroup(id).unwrap_or(b"unknown"));
        }
        if fields.has(Field::Ip) {
            match sample.callchain.as_ref().filter(|_| fields.has_chains) {
                Some(chain) => {
                    text.push("\n");
                    let most = if chain.is_broken() { 0 } else { options.max_stack };
                    let ends = Ends { most, stop_at: &options.stop_at };
                    match callstack(&event.attr, sample, chain) {
                        Some(words) => frames(text, places, style, &space, level, words, ends),
                        None => {
                            let rest = rest_of_chain(&event.attr, sample, chain, &options.machine);
                            let words = chain.words.iter().chain(rest);
                            frames(text, places, style, &space, level, words, ends);
                        }
                    }
                }
                None => {
                    let address = sample.ip.unwrap_or(0);
                    text.push(" ");
                    text.hex(address, 16);
                    places.place(text, style, &space, level, address);
                }
            }
        }
        if fields.has(Field::Iregs) {
            extras::registers(text, sample.regs_intr.as_ref(), &options.machine);
        }
        if fields.has(Field::Uregs) {
            extras::registers(text, sample.regs_user.as_ref(), &options.machine);
        }
        if let Some(stack) = &sample.branch_stack {
            extras::branches(text, places, fields, &space, level, stack);
        }
        let is_bpf =
            event.attr.type_ == EventType::SOFTWARE && Software(event.attr.config) == Software::BPF_OUTPUT;
        if let (true, true, Some(raw)) = (is_bpf, fields.has(Field::BpfOutput), &sample.raw) {
            extras::bpf_output(text, raw.as_bytes());
        }
        if [Field::Insnlen, Field::Insn, Field::Disasm].into_iter().any(|field| fields.has(field)) {
            let address = sample.ip.unwrap_or(0);
            let found = options.decode.and_then(|decode| places.instruction(&space, level, address, decode));
            extras::instruction(text, fields, found.as_deref());
        }
        if let (Some(form), Some(decode)) = (blocks::Form::of(fields), self.options.decode) {
            let lines = blocks::Lines {
                text: &mut self.text,
                places: &mut self.places,
                sources: &mut self.sources,
                most: self.options.max_blocks,
            };
            blocks::write(lines, one, &space, form, decode);
        }
        let text = &mut self.text;
        if let (true, Some(address)) = (fields.has(Field::PhysAddr), sample.phys_addr) {
            text.hex(address, 16);
        }
        let sizes =
            [(Field::DataPageSize, sample.data_page_size), (Field::CodePageSize, sample.code_page_size)];
        for (field, size) in sizes {
            if let (true, Some(size)) = (fields.has(field), size) {
                text.push(" ");
                text.foreign(&describe::page_size(size));
            }
        }
        text.push("\n");
        if let (true, Some(address)) = (fields.has(Field::Srccode), sample.ip) {
            let located = self.places.locate(&space, level, address);
            self.sources.show(&mut self.text, sample.tid.unwrap_or_default().tid, located.line);
        }
    }
}

/// Whether the address of an event's samples is looked up as well.
fn tells_code(event: &Event) -> bool {
    let faults = [Software::PAGE_FAULTS, Software::PAGE_FAULTS_MIN, Software::PAGE_FAULTS_MAJ];
    event.attr.type_ == EventType::SOFTWARE && faults.contains(&Software(event.attr.config))
}

/// The flags of a record's header, as letters.
fn misc(text: &mut LineBuffer, misc: Misc, kind: RecordType) {
    let start = text.0.len();
    let bits = misc.bits();
    for (mode, letter) in [(1, "K"), (2, "U"), (3, "H"), (4, "G"), (5, "g")] {
        if bits & mode == mode {
            text.push(letter);
        }
    }
    match kind {
        RecordType::MMAP | RecordType::MMAP2 if misc.contains(Misc::MMAP_DATA) => text.push("M"),
        RecordType::COMM if misc.contains(Misc::COMM_EXEC) => text.push("E"),
        RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE if misc.contains(Misc::SWITCH_OUT) => {
            text.push("S");
            if misc.contains(Misc::SWITCH_OUT_PREEMPT) {
                text.push("p");
            }
        }
        _ => {}
    }
    text.spaces(6usize.saturating_sub(text.0.len() - start).max(1));
}

/// Where callchains end.
#[derive(Clone, Copy)]
struct Ends<'a> {
    /// After so many frames.
    most: usize,
    /// With functions of these names.
    stop_at: &'a [String],
}

/// The frames of a callchain, callee first; a marker, which is no address, tells the level of the next ones.
fn frames(
    text: &mut LineBuffer,
    places: &mut Places,
    style: usize,
    space: &Space<'_>,
    level: Level,
    words: impl Iterator<Item = u64>,
    ends: Ends<'_>,
) {
    // There are no frames of a user's part that comes later.
    let (mut level, mut left) = (Some(level), ends.most);
    for word in words {
        if let Some(context) = CallchainContext::of(word) {
            level = level_of(context);
        } else if left == 0 {
            break;
        } else if let Some(level) = level {
            left -= 1;
            places.place(text, style | places::CHAIN, space, level, word);
            if !ends.stop_at.is_empty() {
                let located = places.locate(space, level, word);
                let name = located.symbol.as_deref();
                if ends.stop_at.iter().any(|stop| Some(stop.as_str()) == name) {
                    break;
                }
            }
        }
    }
}
