//! What a scenario shows: counts, records, and a diagram of who ran and what counted.

use super::play::Stage;
use perfuse_abi::record::{Decoded, Record, RecordFormat, RecordType, Records};
use perfuse_abi::{ByteOrder, ReadFormat};
use perfuse_engine::TaskId;
use std::fmt::Write;

/// A table of all events.
pub(super) fn counts(stage: &mut Stage) -> String {
    let mut rows = vec![["event", "count", "enabled", "counting", "share"].map(str::to_owned)];
    let events: Vec<_> =
        stage.events.iter().map(|event| (event.name.clone(), event.fd, event.attr)).collect();
    for (name, fd, attr) in events {
        let cells = match fd.and_then(|fd| stage.machine.read(fd)) {
            Err(errno) => [format!("{errno:?}"), String::new(), String::new(), String::new()],
            Ok(words) if words.is_empty() => ["error state", "", "", ""].map(str::to_owned),
            Ok(words) => {
                // In a group the number of members comes first, and the value after the times.
                let group = attr.read_format.contains(ReadFormat::GROUP);
                let (value, enabled, running) =
                    if group { (words[3], words[1], words[2]) } else { (words[0], words[1], words[2]) };
                let share = match (running * 100).checked_div(enabled) {
                    Some(share) => format!("{share} %"),
                    None => "-".to_owned(),
                };
                [value.to_string(), time(enabled), time(running), share]
            }
        };
        let [count, enabled, running, share] = cells;
        rows.push([name, count, enabled, running, share]);
    }
    table(&rows)
}

/// The first column to the left, the others to the right.
fn table(rows: &[[String; 5]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            // Writing to a string does not fail.
            let _ = write!(line, "  {cell:>width$}");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn time(ns: u64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000)
}

/// The records of rings.
pub(super) fn records(stage: &Stage, only: Option<&str>) -> String {
    let mut text = String::new();
    for event in stage.events.iter().filter(|event| event.reader.is_some()) {
        if only.is_some_and(|only| only != event.name) {
            continue;
        }
        let format = RecordFormat::of(&event.attr, ByteOrder::NATIVE);
        let _ = writeln!(text, "records of {}:", event.name);
        for record in Records::new(&event.bytes, ByteOrder::NATIVE) {
            match record
                .map_err(|error| error.to_string())
                .and_then(|record| record.decode(&format).map_err(|error| error.to_string()))
            {
                Ok(decoded) => {
                    let _ = writeln!(text, "  {}", line(&decoded));
                }
                Err(error) => {
                    let _ = writeln!(text, "  {error}");
                }
            }
        }
    }
    text
}

fn kind(kind: RecordType) -> String {
    kind.header_name()
        .map_or_else(|| kind.0.to_string(), |name| name.trim_start_matches("PERF_RECORD_").to_owned())
}

/// A record in one line: what is there, by name.
fn line(decoded: &Decoded<'_>) -> String {
    let mut line = kind(decoded.record.kind());
    if let Some(at) = decoded.time() {
        let _ = write!(line, " at {}", time(at));
    }
    let Record::Sample(sample) = decoded.record else {
        let _ = write!(line, " {:?}", decoded.record);
        return line;
    };
    if let Some(tid) = sample.tid {
        let _ = write!(line, " {}/{}", tid.pid, tid.tid);
    }
    for (name, value) in [("ip", sample.ip), ("addr", sample.addr)] {
        if let Some(value) = value {
            let _ = write!(line, " {name} {value:#x}");
        }
    }
    for (name, value) in
        [("id", sample.id.or(sample.identifier)), ("stream", sample.stream_id), ("period", sample.period)]
    {
        if let Some(value) = value {
            let _ = write!(line, " {name} {value}");
        }
    }
    if let Some(cpu) = sample.cpu {
        let _ = write!(line, " cpu {}", cpu.cpu);
    }
    if let Some(read) = sample.read {
        let values: Vec<_> = read.entries().map(|entry| entry.value.to_string()).collect();
        let _ = write!(line, " values {}", values.join(" "));
    }
    if let Some(chain) = sample.callchain {
        let ips: Vec<_> = chain.words.iter().map(|ip| format!("{ip:#x}")).collect();
        let _ = write!(line, " chain {}", ips.join(" "));
    }
    line
}

/// Time from left to right: who ran on each cpu, and when each event counted.
pub(super) fn schedule(stage: &Stage) -> String {
    let looks = &stage.looks;
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else {
        return "nothing has run yet\n".to_owned();
    };
    let mut tasks: Vec<TaskId> = Vec::new();
    let mut letter = |task: TaskId| {
        let index = tasks.iter().position(|known| *known == task).unwrap_or_else(|| {
            tasks.push(task);
            tasks.len() - 1
        });
        (b'A' + (index % 26) as u8) as char
    };
    let names = (0..stage.machine.setup().cpus).map(|cpu| format!("cpu {cpu}"));
    let width = names.chain(stage.events.iter().map(|event| event.name.clone())).map(|name| name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = format!("{:width$}  {} to {}\n", "", time(*first), time(*last));
    for cpu in 0..stage.machine.setup().cpus {
        let turns: Vec<_> = stage.machine.schedule.iter().filter(|turn| turn.cpu == cpu).collect();
        // Just before the look: what was there when it came.
        let at =
            |look: &u64| turns.iter().take_while(|turn| turn.at < *look).last().and_then(|turn| turn.task);
        let row: String = looks.iter().map(|look| at(look).map_or('.', &mut letter)).collect();
        let _ = writeln!(text, "{:<width$}  {row}", format!("cpu {cpu}"));
    }
    for event in &stage.events {
        let row: String = event.active.iter().map(|active| if *active { '#' } else { '.' }).collect();
        let _ = writeln!(text, "{:<width$}  {row}", event.name);
    }
    for (index, task) in tasks.iter().enumerate() {
        let name = match stage.machine.name(*task) {
            "" => "has ended",
            name => name,
        };
        let _ = writeln!(
            text,
            "{:width$}  {} is task {}, {name}",
            "",
            (b'A' + (index % 26) as u8) as char,
            task.0
        );
    }
    text
}
