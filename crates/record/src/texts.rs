//! Texts that system calls were given: copied by a BPF program as the call begins ([`Copies`]), where that may be, or by the embedded
//! kernel ([`Copying`]); else read from the
//! memory of the process as soon as the entry of the call comes out of a ring.
//!
//! That is a little later than the call. A process that has ended has no memory any more, and one that has written something else
//! there has another text: this is what can be had without stopping anybody. The memory of a program that has been replaced is
//! never read: a descriptor of it stays that of the old one.

use crate::Plan;
use crate::followed::{follow, put, whose};
use perfuse::Programs;
use perfuse::abi::ByteOrder;
use perfuse::abi::record::{Decoded, RawRecord, Record, RecordFormat, RecordType};
use perfuse::abi::regs::Arch;
use perfuse::call_texts::Copying;
use perfuse_data::NewEvent;
use perfuse_trace::{
    Argument, CallSet, CallTexts, Calls, Format, LONGEST_ADDRESS, LONGEST_TEXT, Looked, RawCall, RawCalls,
    Spec, socket_address,
};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// So many calls may have texts that nobody has asked for yet, and so many processes a descriptor of their memory.
const MOST: usize = 1 << 15;
const MOST_OPEN: usize = 64;

/// By thread and the time when the call was entered; each text with the place of its argument.
type ByCall = HashMap<(u32, u64), Vec<(usize, String)>>;

/// Texts by call: its thread, and when it was entered.
#[derive(Clone, Debug, Default)]
pub struct Texts(Arc<Mutex<ByCall>>);

impl Texts {
    /// The texts of a call, by the places of its arguments.
    pub fn take(&self, tid: u32, time: u64) -> Vec<(usize, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(tid, time)).unwrap_or_default()
    }
}

/// The path of a descriptor of a process, or of the folder that it works in, as it is now.
pub fn look_at_process(pid: u32, looked: Looked) -> Option<String> {
    let link = match looked {
        Looked::Descriptor(number) => format!("/proc/{pid}/fd/{number}"),
        Looked::Folder => format!("/proc/{pid}/cwd"),
    };
    Some(std::fs::read_link(link).ok()?.to_string_lossy().into_owned())
}

/// Reads texts of calls as they come out of the rings.
#[derive(Debug)]
pub(crate) struct TextReader {
    table: &'static Calls,
    texts: Texts,
    /// The events that tell of entries of calls with texts, and of ends of those that give an address back: their ids, and how each is
    /// read.
    events: Vec<(Vec<u64>, RecordFormat, RawCalls)>,
    /// Some calls give addresses back.
    gives_back: bool,
    /// Calls that will give an address back, by thread: each with its time and arguments.
    under_way: HashMap<u32, (u64, u64, [u64; 6])>,
    memories: HashMap<u32, Memory>,
    copies: Option<Copies>,
    /// The embedded kernel copies them.
    copying: Option<Copying>,
}

/// The program that copies texts, while it runs.
#[derive(Debug)]
pub(crate) struct Copies {
    texts: CallTexts,
    programs: Programs,
}

impl Copies {
    /// Attaches the program, if that may be. It follows nobody yet, unless the whole machine is recorded.
    pub(crate) fn prepare(plan: &Plan, wanted: CallSet, table: &Calls) -> Option<Self> {
        let texts = CallTexts::new(whose(plan).ok()?, wanted);
        let mut programs = Programs::new(&texts.maps()).ok()?;
        put(&programs, texts.beginning(table, Arch::NATIVE?)).ok()?;
        for (place, insns) in texts.programs(table, Arch::NATIVE?).ok()? {
            programs.at_raw_tracepoint(place, &insns).ok()?;
        }
        Some(Copies { texts, programs })
    }
}

impl TextReader {
    pub(crate) fn new(
        plan: &Plan,
        table: &'static Calls,
        texts: Texts,
        copies: Option<Copies>,
        gives_back: bool,
    ) -> Self {
        TextReader {
            copying: plan.kernel.facts().is_embedded.then(Copying::begin),
            table,
            texts,
            events: Vec::new(),
            gives_back,
            under_way: HashMap::new(),
            memories: HashMap::new(),
            copies,
        }
    }

    /// The recording begins: of a command that waits to be executed, or of its target.
    pub(crate) fn follow(&mut self, plan: &Plan, held: Option<u32>) {
        // Where it cannot be followed, memory is read.
        if self.copies.as_ref().is_some_and(|copies| follow(&copies.programs, plan, held).is_err()) {
            self.copies = None;
        }
    }

    /// Finds the events among those of a recording: the first one of entries, and of ends, if some calls give addresses back.
    pub(crate) fn begin(&mut self, events: &[NewEvent]) {
        let found = events.iter().filter_map(|event| {
            let (system, name) = event.name.split('/').next()?.split_once(':')?;
            let format = Format::parse(std::str::from_utf8(&perfuse::tracefs::format(system, name)?).ok()?)?;
            let raw = RawCalls::of(&format!("{system}:{name}"), &format)?;
            Some((event.ids.clone(), RecordFormat::of(&event.attr, ByteOrder::NATIVE), raw))
        });
        let (entries, ends): (Vec<_>, Vec<_>) = found.partition(|(.., raw)| raw.tells_entries());
        let ends = ends.into_iter().take(usize::from(self.gives_back));
        self.events = entries.into_iter().take(1).chain(ends).collect();
    }

    /// Looks through records of a ring.
    pub(crate) fn look(&mut self, parts: &[&[u8]]) {
        let events = std::mem::take(&mut self.events);
        let Some((_, any, _)) = events.first() else { return };
        let joined;
        let mut rest = match parts {
            [one] | [one, []] => *one,
            parts => {
                joined = parts.concat();
                &joined
            }
        };
        while let Ok((record, after)) = RawRecord::split(rest, ByteOrder::NATIVE) {
            rest = after;
            let id = any.id_of(&record);
            let is_its =
                |(ids, ..): &&(Vec<u64>, RecordFormat, RawCalls)| id.is_none_or(|id| ids.contains(&id));
            let Some((_, format, raw)) =
                events.iter().find(is_its).filter(|_| record.header.kind == RecordType::SAMPLE)
            else {
                continue;
            };
            if let Ok(Decoded { record: Record::Sample(sample), .. }) = record.decode(format) {
                let data = sample.raw.as_ref().map_or(&[][..], |raw| raw.as_bytes());
                let (Some(tid), Some(time)) = (sample.tid, sample.time) else { continue };
                match raw.read(data, ByteOrder::NATIVE) {
                    Some(RawCall::Entry(number, arguments)) => {
                        self.entered((tid.pid, tid.tid), time, number, &arguments);
                    }
                    Some(RawCall::Exit(number, returned)) => {
                        self.ended((tid.pid, tid.tid), time, number, returned);
                    }
                    None => {}
                }
            }
        }
        self.events = events;
    }

    /// A call has ended that may have given an address back.
    fn ended(&mut self, (pid, tid): (u32, u32), time: u64, number: u64, returned: i64) {
        let Some((entered, of, arguments)) = self.under_way.remove(&tid) else { return };
        let Some(spec) = self.table.get(number).filter(|_| of == number && returned >= 0) else { return };
        let mut found = match &mut self.copies {
            Some(Copies { texts, programs }) => {
                let read = |key: &[u8]| programs.map(CallTexts::COPIES).lookup(key).ok();
                texts.of_end((tid, time), number, &arguments, self.table, &read)
            }
            None => Vec::new(),
        };
        let peer = spec.arguments.iter().flatten().position(Argument::is_peer);
        if let (true, None, Some(index)) = (found.is_empty(), &self.copies, peer) {
            let [address, len] = [index, index + 1].map(|at| arguments.get(at).copied().unwrap_or(0));
            let text = self.read(pid, true, &|memory| {
                let len = memory.length(len).filter(|_| address != 0)?;
                memory.socket_address(address, len)
            });
            found.extend(text.map(|text| (index, text)));
        }
        self.keep(tid, entered, found);
    }

    /// Keeps the texts of a call until somebody asks for them.
    fn keep(&self, tid: u32, time: u64, found: Vec<(usize, String)>) {
        if !found.is_empty() {
            let mut texts = self.texts.0.lock().unwrap_or_else(PoisonError::into_inner);
            if texts.len() < MOST || texts.contains_key(&(tid, time)) {
                texts.entry((tid, time)).or_default().extend(found);
            }
        }
    }

    fn entered(&mut self, (pid, tid): (u32, u32), time: u64, number: u64, arguments: &[u64; 6]) {
        let Some(spec) = self.table.get(number) else { return };
        let replaces = spec.name.starts_with("execve");
        let may_be_empty = spec.may_have_empty_path(arguments);
        let mut found = match (&mut self.copies, &self.copying) {
            (Some(Copies { texts, programs }), _) => {
                let read = |key: &[u8]| programs.map(CallTexts::COPIES).lookup(key).ok();
                texts.of_call((tid, time), number, arguments, self.table, &read)
            }
            (None, Some(copying)) => copied(spec, copying.take(tid, time)),
            (None, None) => Vec::new(),
        };
        for (index, argument) in spec.arguments.iter().flatten().enumerate() {
            let address = arguments.get(index).copied().unwrap_or(0);
            if argument.is_text() && address != 0 && found.iter().all(|(known, _)| *known != index) {
                let text = match argument.is_socket_address() {
                    true => {
                        let len = arguments.get(index + 1).map_or(0, |len| *len as u32 as usize);
                        self.read(pid, !replaces, &|memory| memory.socket_address(address, len))
                    }
                    false => self.read(pid, !replaces, &|memory| memory.text(address)),
                };
                let text = text.filter(|text| may_be_empty || !text.is_empty());
                found.extend(text.map(|text| (index, text)));
            }
        }
        if spec.arguments.iter().flatten().any(Argument::is_peer) && self.under_way.len() < MOST {
            self.under_way.insert(tid, (time, number, *arguments));
        }
        self.keep(tid, time, found);
    }

    /// What is in the memory of a process. A descriptor that is there already is that of the memory before an exec.
    fn read(&mut self, pid: u32, may_open: bool, read: &dyn Fn(&Memory) -> Option<String>) -> Option<String> {
        if let Some(memory) = self.memories.get(&pid) {
            if let Some(text) = read(memory) {
                return Some(text);
            }
            self.memories.remove(&pid);
        }
        if !may_open {
            return None;
        }
        let memory = Memory::of(pid)?;
        let text = read(&memory);
        if self.memories.len() >= MOST_OPEN {
            self.memories.clear();
        }
        self.memories.insert(pid, memory);
        text
    }
}

/// The texts of a call as they are shown.
fn copied(spec: &Spec, texts: Vec<(usize, Vec<u8>)>) -> Vec<(usize, String)> {
    let arguments = spec.arguments.as_deref().unwrap_or_default();
    let shown = texts.into_iter().filter_map(|(index, bytes)| {
        let text = match arguments.get(index)?.is_socket_address() {
            true => socket_address(&bytes)?,
            false => until_nul(&bytes),
        };
        Some((index, text))
    });
    shown.collect()
}

/// The text that bytes begin with, and what tells that it goes on.
fn until_nul(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let cut = if text.len() == LONGEST_TEXT { "..." } else { "" };
    String::from_utf8_lossy(text).into_owned() + cut
}

/// The memory of a process, and where told, which of its pages are there.
#[derive(Debug)]
struct Memory {
    bytes: File,
    pages: Option<File>,
}

impl Memory {
    fn of(pid: u32) -> Option<Self> {
        let bytes = File::open(format!("/proc/{pid}/mem")).ok()?;
        Some(Memory { bytes, pages: File::open(format!("/proc/{pid}/pagemap")).ok() })
    }

    /// The text at an address, up to a NUL. It is read from pages that are there alone: the call has read it, so that the others
    /// are those of another program by now, or somebody fills them who would be waited for.
    fn text(&self, address: u64) -> Option<String> {
        let mut bytes = [0; LONGEST_TEXT];
        let count = self.bytes(address, &mut bytes).filter(|&count| count > 0)?;
        Some(until_nul(&bytes[..count]))
    }

    /// A length that a call has written.
    fn length(&self, address: u64) -> Option<usize> {
        let mut bytes = [0; 4];
        (self.bytes(address, &mut bytes)? == 4).then(|| u32::from_ne_bytes(bytes) as usize)
    }

    /// A socket's address of so many bytes.
    fn socket_address(&self, address: u64, len: usize) -> Option<String> {
        let mut bytes = [0; LONGEST_ADDRESS];
        let bytes = &mut bytes[..len.min(LONGEST_ADDRESS)];
        if self.bytes(address, bytes)? == bytes.len() { socket_address(bytes) } else { None }
    }

    /// Reads memory; how many bytes could be had.
    fn bytes(&self, address: u64, bytes: &mut [u8]) -> Option<usize> {
        let at_hand = self.pages.as_ref().map_or(bytes.len(), |pages| {
            perfuse_proc::read::at_hand(pages, address, bytes.len(), false, perfuse_sys::page_size())
        });
        self.bytes.read_at(&mut bytes[..at_hand], address).ok()
    }
}
