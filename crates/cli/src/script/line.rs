//! The lines themselves, in the columns that programs which read perf's lines expect.

use super::fields::{Field, Fields};
use crate::exit::Result;
use crate::recording::tracing::Formats;
use crate::recording::{dump, write_time};
use perfuse_abi::EventType;
use perfuse_abi::record::{Decoded, Sample};
use perfuse_data::session::{Level, Session};
use perfuse_data::{Entry, Event};
use perfuse_profile::{Frames, Located};
use std::fmt::Write as _;
use std::io::Write;

pub(super) struct Line {
    text: String,
    frames: Frames,
    digits: usize,
    hide_chains: bool,
    name_width: usize,
}

impl Line {
    pub(super) fn new(frames: Frames, digits: usize, hide_chains: bool, name_width: usize) -> Self {
        Line { text: String::new(), frames, digits, hide_chains, name_width }
    }

    pub(super) fn write(&mut self, out: &mut impl Write) -> Result<()> {
        out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }

    /// Who, where and when.
    fn start(&mut self, fields: &Fields, decoded: &Decoded<'_>, session: &Session, narrow: bool) {
        let text = &mut self.text;
        let tid = decoded.tid().unwrap_or_default();
        if fields.has(Field::Comm) {
            let comm = session.comm_of(tid.pid, tid.tid);
            let known = comm.map(|comm| String::from_utf8_lossy(session.comm(comm)));
            let comm = known.unwrap_or_else(|| format!(":{}", tid.tid as i32).into());
            let _ = if narrow { write!(text, "{comm} ") } else { write!(text, "{comm:>16} ") };
        }
        let _ = match (fields.has(Field::Pid), fields.has(Field::Tid)) {
            _ if decoded.tid().is_none() => Ok(()),
            (true, true) => write!(text, "{:>7}/{:<7} ", tid.pid as i32, tid.tid as i32),
            (true, false) => write!(text, "{:>7} ", tid.pid as i32),
            (false, true) => write!(text, "{:>5} ", tid.tid as i32),
            (false, false) => Ok(()),
        };
        if let (true, Some(cpu)) = (fields.has(Field::Cpu), decoded.cpu()) {
            let _ = write!(text, "[{:03}] ", cpu as i32);
        }
        if let (true, Some(time)) = (fields.has(Field::Time), decoded.time()) {
            let start = text.len();
            write_time(text, time, self.digits);
            let missing = if self.digits == 6 { 12usize.saturating_sub(text.len() - start) } else { 0 };
            (0..missing).for_each(|_| text.insert(start, ' '));
            text.push_str(": ");
        }
    }

    /// A record that is no sample.
    pub(super) fn side(
        &mut self,
        entry: &Entry<'_>,
        decoded: &Decoded<'_>,
        session: &Session,
        fields: Option<Fields>,
    ) {
        if let Some(fields) = fields {
            self.start(&fields, decoded, session, false);
        }
        let kind = crate::report::kind_name(entry.kind());
        let _ = write!(self.text, "PERF_RECORD_{kind}");
        dump::kernel::body(&mut self.text, decoded);
    }

    pub(super) fn sample(
        &mut self,
        event: &Event,
        fields: &Fields,
        decoded: &Decoded<'_>,
        sample: &Sample<'_>,
        session: &Session,
        formats: &Formats,
    ) {
        let chain = sample.callchain.as_ref().filter(|_| !self.hide_chains && fields.has(Field::Ip));
        self.start(fields, decoded, session, chain.is_some());
        let (text, level) = (&mut self.text, Level::of(decoded.misc));
        let tid = sample.tid.unwrap_or_default();
        let number = |name, value: Option<u64>, text: &mut String| {
            if let (true, Some(value)) = (fields.has(name), value) {
                let _ = write!(text, "{value:>16x} ");
            }
        };
        if fields.has(Field::Period) {
            let _ = write!(text, "{:>10} ", event.weight(sample));
        }
        if fields.has(Field::Event) {
            let _ = write!(text, "{:>width$}: ", fields.name, width = self.name_width);
        }
        if fields.has(Field::Trace) && event.attr.type_ == EventType::TRACEPOINT {
            let raw = sample.raw.map_or(&[][..], |raw| raw.as_bytes());
            match formats.print(event.attr.config, raw, event.format.order) {
                Some(line) => text.push_str(&line),
                None => raw.iter().for_each(|byte| {
                    let _ = write!(text, "{byte:02x} ");
                }),
            }
        }
        number(Field::Addr, sample.addr, text);
        number(Field::DataSrc, sample.data_src.map(|source| source.0), text);
        if let (true, Some(weight)) = (fields.has(Field::Weight), sample.weight) {
            let _ = write!(text, "{:>16} ", weight.bits());
        }
        number(Field::PhysAddr, sample.phys_addr, text);
        if let Some(chain) = chain {
            text.push('\n');
            let mut chain_text = std::mem::take(text);
            let mut located = Vec::with_capacity(chain.words.len());
            let task = (tid.pid, tid.tid);
            self.frames.chain(session, task, level, chain, |frame, _| located.push(frame));
            for located in located {
                let _ = write!(chain_text, "\t{:>16x}", located.place);
                self.place(&mut chain_text, fields, located);
                chain_text.push('\n');
            }
            self.text = chain_text;
        } else if fields.has(Field::Ip) || fields.has(Field::Sym) {
            let mut place = std::mem::take(text);
            let ip = sample.ip.unwrap_or(0);
            place.push(' ');
            if fields.has(Field::Ip) {
                let _ = write!(place, "{ip:>16x}");
            }
            let located = self.frames.locate(session, tid.pid, tid.tid, level, ip);
            self.place(&mut place, fields, located);
            self.text = place;
        }
        let text = &mut self.text;
        if let (true, Some(stack)) = (fields.has(Field::Brstack), &sample.branch_stack) {
            for branch in stack.entries.iter() {
                let flags = branch.flags;
                let way = match (flags.mispred(), flags.predicted()) {
                    (true, _) => 'M',
                    (_, true) => 'P',
                    _ => '-',
                };
                let (transaction, abort) =
                    (if flags.in_tx() { 'X' } else { '-' }, if flags.abort() { 'A' } else { '-' });
                let (from, to, cycles) = (branch.from, branch.to, flags.cycles());
                let _ = write!(text, " {from:#x}/{to:#x}/{way}/{transaction}/{abort}/{cycles} ");
            }
        }
        for (field, registers) in [(Field::Iregs, &sample.regs_intr), (Field::Uregs, &sample.regs_user)] {
            if let (true, Some(registers)) = (fields.has(field), registers) {
                let _ = write!(text, " ABI:{}", registers.abi.0);
                for (register, value) in registers.iter() {
                    let _ = write!(text, " r{register}:{value:#x}");
                }
            }
        }
        text.push('\n');
    }

    /// Function and object.
    fn place(&self, text: &mut String, fields: &Fields, located: Located) {
        let frame = self.frames.get(located.frame);
        if fields.has(Field::Sym) {
            match &frame.symbol {
                Some(name) => {
                    text.push(' ');
                    text.push_str(name);
                    if fields.has(Field::Symoff) {
                        let _ = write!(text, "+{:#x}", located.offset);
                    }
                }
                None => text.push_str(" [unknown]"),
            }
        }
        if fields.has(Field::Dso) {
            text.push_str(" (");
            text.push_str(self.frames.object(frame.object));
            text.push(')');
        }
    }
}
