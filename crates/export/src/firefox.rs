//! The processed profile format of the Firefox Profiler, <https://profiler.firefox.com>, version 49, with Gecko's version 24: that which
//! samply writes; newer front ends bring it up to date when they load it. A thread is a track with samples at their times, for each
//! event another.

mod source;

pub(crate) use source::Source;

use crate::json::Quoted;
use crate::stacks::Unit;
use crate::strings::Strings;
use source::{Frame, Sample, Thread};
use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, Write};

const VERSION: u32 = 49;
const GECKO_VERSION: u32 = 24;
/// The categories of frames: that of no frame, which has to be there, then programs and the kernel, as the profiler's own converter of
/// `perf script` calls and paints them.
const CATEGORIES: [(&str, &str); 3] = [("Other", "grey"), ("User", "yellow"), ("Kernel", "orange")];

/// A section of facts that the front end shows, and the label of each event in it, by the number that labels of threads have.
pub(crate) const EVENTS: (&str, &str) = ("perfuse", "Event");

/// Writes a profile under a title.
pub(crate) fn write(source: &Source, title: &str, to: &mut dyn Write) -> io::Result<()> {
    write!(to, "{{\"meta\":{{\"categories\":[")?;
    for (at, (name, colour)) in CATEGORIES.iter().enumerate() {
        let comma = comma(at);
        write!(to, "{comma}{{\"name\":\"{name}\",\"color\":\"{colour}\",\"subcategories\":[\"Other\"]}}")?;
    }
    let interval = millis(source.interval_ns);
    let product = Quoted(title);
    write!(
        to,
        "],\"debug\":false,\"extensions\":{{\"length\":0,\"baseURL\":[],\"id\":[],\"name\":[]}},\"importedFrom\":\"perfuse\",\
         \"interval\":{interval},\"markerSchema\":[],\"preprocessedProfileVersion\":{VERSION},\"processType\":0,\"product\":{product},\
         \"sampleUnits\":{{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"}},\"startTime\":0,\"stackwalk\":1,\
         \"symbolicated\":true,\"usesOnlyOneStackType\":true,\"sourceCodeIsNotOnSearchfox\":true,\"version\":{GECKO_VERSION},\n\"extra\":[{{\"label\":\"{}\",\"entries\":[",
        EVENTS.0
    )?;
    for (at, event) in source.events.iter().enumerate() {
        let (comma, event) = (comma(at), Quoted(event));
        write!(to, "{comma}{{\"label\":\"{}\",\"format\":\"string\",\"value\":{event}}}", EVENTS.1)?;
    }
    write!(to, "]}}]}},\n\"libs\":[")?;
    for (at, lib) in source.libs.iter().enumerate() {
        let (name, path) = (Quoted(&lib.name), Quoted(&lib.path));
        let code_id = lib.build_id.as_deref().map_or("null".to_owned(), |id| format!("\"{id}\""));
        write!(
            to,
            "{}\n{{\"name\":{name},\"path\":{path},\"debugName\":{name},\"debugPath\":{path},\"breakpadId\":\"{}\",\"codeId\":{code_id},\"arch\":null}}",
            comma(at),
            breakpad_id(lib.build_id.as_deref())
        )?;
    }
    write!(to, "],\n\"threads\":[")?;
    for (at, thread) in source.threads.iter().enumerate() {
        writeln!(to, "{}", comma(at))?;
        write_thread(source, thread, to)?;
    }
    writeln!(to, "],\n\"pages\":[],\"profilerOverhead\":[],\"counters\":[]}}")
}

/// The tables of one thread: all that its samples refer to, and no more.
#[derive(Default)]
struct Tables {
    /// By the stack around each, and its frame; that frame's number in the source.
    stacks: Vec<(Option<u32>, u32)>,
    stack_numbers: HashMap<(Option<u32>, u32), u32>,
    frames: Numbered,
    functions: Numbered,
    libs: Numbered,
    /// By library and address.
    symbols: Vec<(u32, u64, u64, u32)>,
    symbol_numbers: HashMap<(u32, u64), u32>,
}

/// Numbers of the source by those of a thread.
#[derive(Default)]
struct Numbered {
    list: Vec<u32>,
    numbers: HashMap<u32, u32>,
}

impl Numbered {
    fn number(&mut self, of: u32) -> u32 {
        *self.numbers.entry(of).or_insert_with(|| {
            self.list.push(of);
            self.list.len() as u32 - 1
        })
    }
}

impl Tables {
    /// The number of a stack, all of whose frames are in the tables then; `None` for one without any.
    fn stack(&mut self, source: &Source, frames: &[u32]) -> Option<u32> {
        let mut around = None;
        for &frame in frames {
            let next = self.stacks.len() as u32;
            let number = *self.stack_numbers.entry((around, frame)).or_insert(next);
            if number == next {
                self.stacks.push((around, self.frames.number(frame)));
                let frame = &source.frames[frame as usize];
                self.functions.number(frame.function);
                let lib = source.functions[frame.function as usize].lib;
                if let Some(lib) = lib {
                    self.libs.number(lib);
                }
                if let (Some(lib), Some((start, size))) = (lib, frame.symbol) {
                    let next = self.symbols.len() as u32;
                    if *self.symbol_numbers.entry((lib, start)).or_insert(next) == next {
                        self.symbols.push((lib, start, size, frame.function));
                    }
                }
            }
            around = Some(number);
        }
        around
    }
}

fn write_thread(source: &Source, thread: &Thread, to: &mut dyn Write) -> io::Result<()> {
    let mut tables = Tables::default();
    let stacks: Vec<Option<u32>> = thread
        .samples
        .iter()
        .map(|sample| tables.stack(source, &source.stacks[sample.stack as usize]))
        .collect();
    let frames: Vec<&Frame> = tables.frames.list.iter().map(|&at| &source.frames[at as usize]).collect();
    let functions: Vec<_> = tables.functions.list.iter().map(|&at| &source.functions[at as usize]).collect();
    let lib_of = |function: u32| source.functions[function as usize].lib;
    let mut strings = Strings::default();

    let (name, process, pid, tid) =
        (Quoted(&thread.name), Quoted(&thread.process), thread.pid, &thread.label());
    let times = |sample: &Sample| millis(sample.time_ns);
    let (first, last) =
        (thread.samples.first().map_or("0".into(), times), thread.samples.last().map_or("0".into(), times));
    write!(
        to,
        "{{\"processType\":\"default\",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":{first},\"unregisterTime\":{last},\
         \"pausedRanges\":[],\"name\":{name},\"processName\":{process},\"isMainThread\":{},\"pid\":\"{pid}\",\"tid\":{tid},\n\
         \"samples\":{{\"length\":{},\"stack\":",
        thread.is_main(),
        stacks.len()
    )?;
    column(to, stacks.iter().map(|stack| or_null(*stack)))?;
    write!(to, ",\n\"time\":")?;
    column(to, thread.samples.iter().map(times))?;
    let is_time = thread.unit == Unit::Nanoseconds;
    write!(to, ",\n\"weightType\":\"{}\",\"weight\":", if is_time { "tracing-ms" } else { "samples" })?;
    let weight = |sample: &Sample| {
        if is_time { millis(sample.weight) } else { sample.weight.to_string() }
    };
    column(to, thread.samples.iter().map(weight))?;
    write!(
        to,
        "}},\n\"markers\":{{\"length\":0,\"category\":[],\"data\":[],\"endTime\":[],\"name\":[],\"phase\":[],\"startTime\":[]}}"
    )?;

    let kind = |frame: u32| if frames[frame as usize].is_kernel { 2 } else { 1 };
    write!(to, ",\n\"stackTable\":{{\"length\":{},\"prefix\":", tables.stacks.len())?;
    column(to, tables.stacks.iter().map(|(around, _)| or_null(*around)))?;
    write!(to, ",\"frame\":")?;
    column(to, tables.stacks.iter().map(|(_, frame)| *frame))?;
    write!(to, ",\"category\":")?;
    column(to, tables.stacks.iter().map(|(_, frame)| kind(*frame)))?;
    write!(to, ",\"subcategory\":")?;
    column(to, tables.stacks.iter().map(|_| 0))?;

    write!(to, "}},\n\"frameTable\":{{\"length\":{},\"address\":", frames.len())?;
    column(to, frames.iter().map(|frame| frame.address.map_or("-1".to_owned(), |at| at.to_string())))?;
    write!(to, ",\"inlineDepth\":")?;
    column(to, frames.iter().map(|frame| frame.inline_depth))?;
    write!(to, ",\"category\":")?;
    column(to, (0..frames.len() as u32).map(kind))?;
    write!(to, ",\"func\":")?;
    column(to, frames.iter().map(|frame| tables.functions.numbers[&frame.function]))?;
    write!(to, ",\"nativeSymbol\":")?;
    column(
        to,
        frames.iter().map(|frame| {
            let place = lib_of(frame.function).zip(frame.symbol);
            or_null(place.and_then(|(lib, (start, _))| tables.symbol_numbers.get(&(lib, start))))
        }),
    )?;
    write!(to, ",\"line\":")?;
    column(to, frames.iter().map(|frame| or_null(frame.line)))?;
    for nothing in ["column", "innerWindowID", "implementation"] {
        write!(to, ",\"{nothing}\":")?;
        column(to, frames.iter().map(|_| "null"))?;
    }
    write!(to, ",\"subcategory\":")?;
    column(to, frames.iter().map(|_| 0))?;

    write!(to, "}},\n\"funcTable\":{{\"length\":{},\"name\":", functions.len())?;
    column(to, functions.iter().map(|function| strings.number(&function.name)))?;
    for never in ["isJS", "relevantForJS"] {
        write!(to, ",\"{never}\":")?;
        column(to, functions.iter().map(|_| false))?;
    }
    write!(to, ",\"resource\":")?;
    let resource =
        |lib: Option<u32>| lib.map_or("-1".to_owned(), |lib| tables.libs.numbers[&lib].to_string());
    column(to, functions.iter().map(|function| resource(function.lib)))?;
    write!(to, ",\"fileName\":")?;
    column(
        to,
        functions.iter().map(|function| or_null(function.file.as_deref().map(|file| strings.number(file)))),
    )?;
    for nothing in ["lineNumber", "columnNumber"] {
        write!(to, ",\"{nothing}\":")?;
        column(to, functions.iter().map(|_| "null"))?;
    }

    write!(to, "}},\n\"resourceTable\":{{\"length\":{},\"lib\":", tables.libs.list.len())?;
    column(to, tables.libs.list.iter())?;
    write!(to, ",\"name\":")?;
    column(to, tables.libs.list.iter().map(|&lib| strings.number(&source.libs[lib as usize].name)))?;
    write!(to, ",\"host\":")?;
    column(to, tables.libs.list.iter().map(|_| "null"))?;
    write!(to, ",\"type\":")?;
    column(to, tables.libs.list.iter().map(|_| 1))?;

    write!(to, "}},\n\"nativeSymbols\":{{\"length\":{},\"libIndex\":", tables.symbols.len())?;
    column(to, tables.symbols.iter().map(|(lib, ..)| *lib))?;
    write!(to, ",\"address\":")?;
    column(to, tables.symbols.iter().map(|(_, start, ..)| *start))?;
    write!(to, ",\"functionSize\":")?;
    column(to, tables.symbols.iter().map(|(_, _, size, _)| or_null(Some(size).filter(|size| **size > 0))))?;
    write!(to, ",\"name\":")?;
    let function_name = |function: &u32| source.functions[*function as usize].name.as_str();
    column(to, tables.symbols.iter().map(|(.., function)| strings.number(function_name(function))))?;
    write!(to, "}},\n\"stringArray\":")?;
    column(to, strings.list().iter().map(|text| Quoted(text)))?;
    write!(to, "}}")
}

/// Writes a list.
fn column(to: &mut dyn Write, values: impl IntoIterator<Item = impl Display>) -> io::Result<()> {
    write!(to, "[")?;
    for (at, value) in values.into_iter().enumerate() {
        write!(to, "{}{value}", comma(at))?;
    }
    write!(to, "]")
}

fn comma(at: usize) -> &'static str {
    if at == 0 { "" } else { "," }
}

fn or_null(number: Option<impl Display>) -> String {
    number.map_or("null".to_owned(), |number| number.to_string())
}

/// Milliseconds with all digits of nanoseconds.
fn millis(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

/// The name of a build by which symbol servers know it: the first 16 bytes of the build-id as a GUID, whose first three fields are
/// turned round, and an age.
fn breakpad_id(build_id: Option<&str>) -> String {
    let hex: Vec<&str> =
        build_id.into_iter().flat_map(|id| (0..id.len() / 2).map(|at| &id[2 * at..][..2])).collect();
    let byte = |at: usize| hex.get(at).copied().unwrap_or("00");
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let id: String = order.into_iter().map(byte).collect();
    format!("{}0", id.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_has_the_name_that_symbol_servers_know() {
        let id = breakpad_id(Some("0123456789abcdef0123456789abcdef01234567"));
        assert_eq!(id, "67452301AB89EFCD0123456789ABCDEF0");
        assert_eq!(breakpad_id(None), "0".repeat(33));
    }

    #[test]
    fn no_digit_of_a_time_is_lost() {
        assert_eq!([millis(0), millis(1_234_567_890)], ["0.000000", "1234.567890"]);
    }
}
