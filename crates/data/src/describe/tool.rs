//! The contents of the records that perf itself makes.

use crate::text::Hex;
use crate::text::foreign;
use crate::tool::{CpuMap, Tool, Update};
use std::fmt::Write;

/// Writes what follows the record's name. Where there is nothing to tell the line does not end, as perf's.
pub(super) fn write(text: &mut String, tool: &Tool<'_>) {
    let _ = match tool {
        Tool::FinishedRound => writeln!(text),
        Tool::FinishedInit => writeln!(text, ": unhandled!"),
        Tool::IdIndex(index) => {
            let _ = writeln!(text, " nr: {}", index.entries.len());
            let mut guests = index.guests.iter().flat_map(|guests| guests.iter());
            for entry in index.entries.iter() {
                let (cpu, tid) = (entry.cpu as i64, entry.tid as i64);
                let _ = write!(text, " ... id: {}  idx: {}  cpu: {cpu}  tid: {tid}", entry.id, entry.index);
                if let Some(guest) = guests.next() {
                    let (pid, vcpu) = (guest.machine_pid as i64, guest.vcpu as i64);
                    let _ = write!(text, "  machine_pid: {pid}  vcpu: {vcpu}");
                }
                text.push('\n');
            }
            Ok(())
        }
        Tool::AuxtraceInfo(info) => writeln!(text, " type: {}", info.kind),
        Tool::Auxtrace(aux) => writeln!(
            text,
            " size: {}  offset: {}  ref: {}  idx: {}  tid: {}  cpu: {}",
            Hex(aux.size),
            Hex(aux.offset),
            Hex(aux.reference),
            aux.index,
            aux.tid as i32,
            aux.cpu as i32
        ),
        Tool::AuxtraceError(error) => {
            let end = error.message.iter().position(|&byte| byte == 0).unwrap_or(error.message.len());
            let message = foreign(&error.message[..end]);
            let (cpu, pid, tid) = (error.cpu as i32, error.pid as i32, error.tid as i32);
            let kind = if error.kind == 1 { "instruction trace" } else { "unknown" };
            let _ = write!(text, " {kind} error type {}", error.kind);
            if let Some(time) = error.time.filter(|_| error.form != 0) {
                let _ = write!(text, " time {}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
            }
            let _ = write!(text, " cpu {cpu} pid {pid} tid {tid} ip {} code {}", Hex(error.ip), error.code);
            if let Some(guest) = error.guest.filter(|_| error.form >= 2 && error.code != 0) {
                let _ = write!(text, " machine_pid {} vcpu {}", guest.machine_pid as i32, guest.vcpu as i32);
            }
            writeln!(text, ": {message}")
        }
        Tool::ThreadMap(threads) => {
            let count = threads.len();
            let plural = if count > 1 { "s" } else { "" };
            let ids: Vec<String> = threads.iter().map(|thread| (thread.tid as i32).to_string()).collect();
            writeln!(text, " nr: {count} thread{plural}: {}\n: unhandled!", ids.join(","))
        }
        Tool::CpuMap(cpus) => writeln!(text, ": {}\n: unhandled!", list(cpus)),
        Tool::StatConfig(terms) => {
            let value = |tag| terms.iter().rfind(|term| term.tag == tag).map_or(0, |term| term.value);
            let (mode, scale, interval) = (value(0), value(2), value(1));
            let _ = writeln!(text, "\n... aggr_mode {mode}\n... scale     {scale}\n... interval  {interval}");
            writeln!(text, ": unhandled!")
        }
        Tool::Stat(stat) => writeln!(
            text,
            "\n... id {}, cpu {}, thread {}\n... value {}, enabled {}, running {}\n: unhandled!",
            stat.id, stat.cpu as i32, stat.thread as i32, stat.value, stat.enabled_ns, stat.running_ns
        ),
        Tool::StatRound(round) => {
            let kind = if round.kind == 1 { "FINAL" } else { "INTERVAL" };
            writeln!(text, "\n... time {}, type {kind}\n: unhandled!", round.time_ns)
        }
        Tool::EventUpdate(update) => {
            let _ = writeln!(text, "\n... id:    {}", update.id);
            match &update.update {
                Update::Unit(unit) => writeln!(text, "... unit:  {}", foreign(unit.as_bytes())),
                Update::Scale(scale) => writeln!(text, "... scale: {scale:.6}"),
                Update::Name(name) => writeln!(text, "... name:  {}", foreign(name.as_bytes())),
                Update::Cpus(cpus) => writeln!(text, "... {}", list(cpus)),
                _ => writeln!(text, "... unknown type"),
            }
        }
        Tool::TimeConv(conversion) => {
            let _ = write!(
                text,
                "\n... Time Shift      {}\n... Time Muliplier  {}\n... Time Zero       {}\n",
                conversion.shift, conversion.mult, conversion.zero
            );
            if let Some(cap) = &conversion.cap {
                let _ = write!(
                    text,
                    "... Time Cycles     {}\n... Time Mask       {}\n... Cap Time Zero   {}\n... Cap Time Short  {}\n",
                    cap.cycles,
                    Hex(cap.mask),
                    cap.has_zero,
                    cap.is_short
                );
            }
            writeln!(text, ": unhandled!")
        }
        _ => Ok(()),
    };
}

/// Cpus as ranges; -1 for any.
fn list(cpus: &CpuMap<'_>) -> String {
    let ranges = cpus.ranges().into_iter().map(|range| match (range.start(), range.end()) {
        (start, end) if start == end => start.to_string(),
        (start, end) => format!("{start}-{end}"),
    });
    let any = cpus.has_any().then(|| "-1".to_owned());
    any.into_iter().chain(ranges).collect::<Vec<_>>().join(",")
}
