//! The text of `perf script`: a line with thread, process, cpu, time, period and event for each sample, its callchain below it, and an empty
//! line. perf, simpleperf and older perfs write it in many ways; fields that are not there are left out.

use super::{Import, ImportError, MAX_LINE, Sample};
use std::io::{BufRead, Read};

/// The words of a line up to its event are no more.
const MAX_WORDS: usize = 24;

/// The line of a sample.
#[derive(Debug, Default, PartialEq)]
struct Header<'l> {
    comm: &'l str,
    pid: Option<u32>,
    tid: u32,
    cpu: Option<u32>,
    time_ns: Option<u64>,
    period: Option<u64>,
    event: &'l str,
    /// All that stands behind the event.
    rest: &'l str,
}

/// A frame: address, function, object.
#[derive(Debug, PartialEq)]
struct Frame<'l> {
    address: u64,
    symbol: &'l str,
    object: &'l str,
}

/// Whether a line is that of a sample, with a time.
pub(super) fn is_header(line: &str) -> bool {
    !line.starts_with('#')
        && header(line).is_some_and(|header| header.time_ns.is_some() && !header.event.is_empty())
}

pub(super) fn read(mut from: impl BufRead) -> Result<Import, ImportError> {
    let mut import = Import::new();
    let mut sample: Option<Sample> = None;
    let (mut frames, mut own) = (Vec::new(), None);
    // Inlined functions, whose object is that of the frame that comes behind them.
    let mut inlined: Vec<String> = Vec::new();
    let mut bytes = Vec::new();
    for line in 1.. {
        let at = |error: ImportError| ImportError { line: error.line.or(Some(line)), ..error };
        bytes.clear();
        let read = from.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
        let is_end = read.map_err(|why| at(why.into()))? == 0;
        if bytes.len() as u64 == MAX_LINE && bytes.last() != Some(&b'\n') {
            return Err(at(ImportError::new("longer than 1 MiB")));
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        let next = if text.starts_with('#') { None } else { header(text) };
        if is_end || next.is_some() {
            // The sample before is whole.
            for name in inlined.drain(..) {
                frames.push(import.function(&name, "", 0).map_err(at)?);
            }
            if frames.is_empty() {
                frames.extend(own.take());
            }
            if let Some(mut done) = sample.take() {
                done.stack = import.stack(&frames).map_err(at)?;
                import.add(done).map_err(at)?;
            }
            frames.clear();
        }
        if is_end {
            break;
        }
        if let Some(next) = next {
            let event = if next.event.is_empty() { "samples" } else { next.event };
            let weight = next.period.unwrap_or(1);
            let sum = Sample {
                event: import.event(event),
                thread: import.text(next.comm).map_err(at)?,
                pid: next.pid.unwrap_or(next.tid),
                tid: next.tid,
                cpu: next.cpu,
                time_ns: next.time_ns,
                stack: 0,
                count: 1,
                weight,
            };
            sample = Some(sum);
            own = match frame(next.rest) {
                Some(frame) => Some(import.function(frame.symbol, frame.object, frame.address).map_err(at)?),
                None => None,
            };
            continue;
        }
        if sample.is_none() || text.is_empty() {
            continue;
        }
        let Some(Frame { address, symbol, object }) = frame(text) else { continue };
        if object == "inlined" {
            import.keep(symbol.len() + 32).map_err(at)?;
            inlined.push(symbol.to_owned());
            continue;
        }
        for name in inlined.drain(..) {
            frames.push(import.function(&name, object, address).map_err(at)?);
        }
        frames.push(import.function(symbol, object, address).map_err(at)?);
        if frames.len() > super::MAX_DEPTH {
            return Err(at(ImportError::new("a stack of more than 16384 frames")));
        }
    }
    if import.samples.is_empty() {
        return Err(ImportError::new(
            "no line is that of a sample, such as 'prog 12/13 [001] 5.000001: 1 cycles:'",
        ));
    }
    Ok(import)
}

/// The parts of a sample's line, if it is one.
fn header(line: &str) -> Option<Header<'_>> {
    let is_indented = line.starts_with([' ', '\t']);
    let mut words = Words::of(line);
    let all: Vec<(usize, &str)> = words.by_ref().take(MAX_WORDS).collect();
    let time = all.iter().position(|(_, word)| seconds(word).is_some());
    let (before, after) = match time {
        Some(at) => (&all[..at], &all[at + 1..]),
        // Without a time: names of threads begin such lines, and an event ends them.
        None if !is_indented => {
            let event = all.iter().rposition(|(_, word)| word.ends_with(':') && word.len() > 1)?;
            let period = event.checked_sub(1).filter(|at| all[*at].1.parse::<u64>().is_ok() && *at > 1);
            let first = period.unwrap_or(event);
            (&all[..first], &all[first..])
        }
        None => return None,
    };
    let mut header = Header { time_ns: time.and_then(|at| seconds(all[at].1)), ..Header::default() };
    let mut numbers = None;
    for (index, (_, word)) in before.iter().enumerate().rev().take(4) {
        if let Some(cpu) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            header.cpu = cpu.parse().ok();
        } else if let Some(ids) = ids(word) {
            numbers = Some((index, ids));
            break;
        }
    }
    let (index, (pid, tid)) = numbers?;
    (header.pid, header.tid) = (pid, tid);
    let end = before[index].0;
    header.comm = line[..end].trim();
    let mut after = after.iter();
    let mut word = after.next();
    if let Some(period) = word.and_then(|(_, word)| word.parse().ok()) {
        header.period = Some(period);
        word = after.next();
    }
    if let Some((start, event)) = word {
        // The name may be in quotes or have parts of its own with a colon; a colon ends it.
        if let Some(name) = event.strip_suffix(':') {
            header.event = name;
            header.rest = line[start + event.len()..].trim();
        } else {
            header.rest = line[*start..].trim();
        }
    }
    Some(header)
}

/// A process and a thread, or a thread alone.
fn ids(word: &str) -> Option<(Option<u32>, u32)> {
    // perf writes numbers of threads that are gone as -1.
    let number = |text: &str| match text.parse::<i64>() {
        Ok(number) if number >= -1 => u32::try_from(number).ok().or(Some(u32::MAX)),
        _ => None,
    };
    match word.split_once('/') {
        Some((pid, tid)) => Some((Some(number(pid)?), number(tid)?)),
        None => Some((None, number(word)?)),
    }
}

/// A time in seconds with a colon behind it, in nanoseconds.
fn seconds(word: &str) -> Option<u64> {
    let (whole, part) = word.strip_suffix(':')?.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 9 {
        return None;
    }
    let part = part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

/// The parts of a frame: `addr symbol+0xoffset (object)`.
fn frame(line: &str) -> Option<Frame<'_>> {
    let line = line.trim();
    let (address, rest) = line.split_once([' ', '\t'])?;
    let digits = address.strip_prefix("0x").unwrap_or(address);
    let address = u64::from_str_radix(digits, 16).ok()?;
    let rest = rest.trim();
    let inner = rest.strip_suffix(')')?;
    let open = object_at(inner)?;
    let (symbol, object) = (rest[..open].trim(), &inner[open + 1..]);
    Some(Frame { address, symbol: without_offset(symbol), object })
}

/// The bracket in which an object begins. Its path may have brackets, and so may the function: behind a place in a function it is the next
/// one, else the last that a path or a name in brackets follows.
fn object_at(inner: &str) -> Option<usize> {
    let behind_offset = inner.match_indices("+0x").find_map(|(at, sign)| {
        let rest = &inner[at + sign.len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        (digits > 0 && rest[digits..].starts_with(" (")).then_some(at + sign.len() + digits + 1)
    });
    let before = |text: &str| inner.rfind(text).map(|at| at + 1);
    // An object's name may end with a remark in brackets of its own.
    let whole = inner.strip_suffix(" (deleted)").or(inner.strip_suffix(" (deleted")).unwrap_or(inner);
    behind_offset.or_else(|| before(" (/").max(before(" (["))).or_else(|| whole.rfind('('))
}

/// A function without the place in it.
fn without_offset(symbol: &str) -> &str {
    match symbol.rsplit_once("+0x") {
        Some((name, offset)) if !name.is_empty() && offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            name
        }
        _ => symbol,
    }
}

/// Words of a line, and where each starts.
struct Words<'l> {
    line: &'l str,
    at: usize,
}

impl<'l> Words<'l> {
    fn of(line: &'l str) -> Self {
        Words { line, at: 0 }
    }
}

impl<'l> Iterator for Words<'l> {
    type Item = (usize, &'l str);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.line[self.at..];
        let start = self.at + rest.find(|letter: char| !letter.is_whitespace())?;
        let rest = &self.line[start..];
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.at = start + length;
        Some((start, &rest[..length]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread, process and thread, cpu, time, period, event.
    type Facts<'l> = (&'l str, Option<u32>, u32, Option<u32>, Option<u64>, Option<u64>, &'l str);

    fn facts(line: &str) -> Facts<'_> {
        let Header { comm, pid, tid, cpu, time_ns, period, event, .. } = header(line).expect(line);
        (comm, pid, tid, cpu, time_ns, period, event)
    }

    #[test]
    fn lines_of_samples_in_all_the_ways_they_are_written() {
        for (line, expected) in [
            (
                "java 25607 4794564.109216: cycles:",
                ("java", None, 25607, None, Some(4794564109216000), None, "cycles"),
            ),
            (
                "java 12688 [002] 6544038.708352: cpu-clock:",
                ("java", None, 12688, Some(2), Some(6544038708352000), None, "cpu-clock"),
            ),
            (
                "V8 WorkerThread 24636/25607 [000] 94564.109216: cycles:ppp:",
                ("V8 WorkerThread", Some(24636), 25607, Some(0), Some(94564109216000), None, "cycles:ppp"),
            ),
            (
                "Gecko\t25122 [007] 115539.936601:\t\t1000000 task-clock:u:",
                ("Gecko", None, 25122, Some(7), Some(115539936601000), Some(1000000), "task-clock:u"),
            ),
            (
                "FS Broker 5858  5791/5860  30171.917889:    4612247 cycles:ppp: ",
                ("FS Broker 5858", Some(5791), 5860, None, Some(30171917889000), Some(4612247), "cycles:ppp"),
            ),
            (
                "       perf  3121  1.000000001:          1 sched:sched_switch: prev_comm=a b: 12 ==> x",
                ("perf", None, 3121, None, Some(1000000001), Some(1), "sched:sched_switch"),
            ),
            (
                ":-1    -1 [001]  5.5: 3 cycles:  ffffffff81 x ([k])",
                (":-1", None, u32::MAX, Some(1), Some(5500000000), Some(3), "cycles"),
            ),
            ("prog 12 250 cpu-clock:", ("prog", None, 12, None, None, Some(250), "cpu-clock")),
        ] {
            assert_eq!(facts(line), expected, "{line}");
        }
        for line in ["", "\t  40010 main+0x3 (/bin/x)", "        7f12 foo (/lib/x.so)", "main;a;b 3"] {
            assert_eq!(header(line), None, "{line}");
        }
    }

    #[test]
    fn frames_in_all_the_ways_they_are_written() {
        for (line, (address, symbol, object)) in [
            ("\t 40010 main+0x3 (/bin/x)", (0x40010, "main", "/bin/x")),
            (
                "ffffffff8102 do_sys (inline+0x1)+0x5 ([kernel.kallsyms])",
                (0xffffffff8102, "do_sys (inline+0x1)", "[kernel.kallsyms]"),
            ),
            (
                "7f01 a::b(int, char (*)[2])+0x1f (/usr/lib/libx.so (deleted))",
                (0x7f01, "a::b(int, char (*)[2])", "/usr/lib/libx.so (deleted)"),
            ),
            ("7f01 [unknown] ([unknown])", (0x7f01, "[unknown]", "[unknown]")),
            ("7f01 leaf+0x2 (/a/Files (x86)/w)", (0x7f01, "leaf", "/a/Files (x86)/w")),
            ("7f01 f(char (*)[2]) (/a/Files (x86)/w)", (0x7f01, "f(char (*)[2])", "/a/Files (x86)/w")),
            ("7f01 f (inlined)", (0x7f01, "f", "inlined")),
        ] {
            assert_eq!(frame(line), Some(Frame { address, symbol, object }), "{line}");
        }
        assert_eq!(frame("file.c:12"), None);
    }
}
