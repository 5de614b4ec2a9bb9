//! JSON of speedscope: <https://www.speedscope.app/file-format-schema.json>.

use crate::json::Quoted;
use crate::stacks::{Stacks, Unit};
use std::io::{self, Write};

pub(crate) fn write(stacks: &Stacks, title: &str, to: &mut dyn Write) -> io::Result<()> {
    let schema = Quoted("https://www.speedscope.app/file-format-schema.json");
    write!(to, "{{\"$schema\":{schema},\"exporter\":\"perfuse\",\"name\":{},", Quoted(title))?;
    // Threads are frames too, behind the functions.
    let mut threads: Vec<&str> = stacks.rows().iter().map(|row| row.thread.as_str()).collect();
    threads.sort_unstable();
    threads.dedup();
    threads.retain(|thread| !thread.is_empty());
    write!(to, "\"shared\":{{\"frames\":[")?;
    for (index, function) in stacks.functions().iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(to, "{comma}\n{{\"name\":{},\"file\":{}}}", Quoted(&function.name), Quoted(&function.object))?;
    }
    for (index, thread) in threads.iter().enumerate() {
        let comma = if index + stacks.functions().len() > 0 { "," } else { "" };
        write!(to, "{comma}\n{{\"name\":{}}}", Quoted(thread))?;
    }
    write!(to, "]}},\n\"profiles\":[")?;
    for (index, event) in stacks.events().iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let unit = if event.unit == Unit::Nanoseconds { "nanoseconds" } else { "none" };
        let (name, total) = (Quoted(&event.name), stacks.total(index));
        write!(
            to,
            "{comma}\n{{\"type\":\"sampled\",\"name\":{name},\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{total},\"samples\":["
        )?;
        let rows = stacks.rows_of(index);
        for (number, row) in rows.iter().enumerate() {
            let thread = threads.binary_search(&row.thread.as_str()).ok();
            let thread = thread.map(|thread| (stacks.functions().len() + thread) as u32);
            write!(to, "{}[", if number > 0 { ",\n" } else { "" })?;
            for (depth, frame) in thread.iter().chain(&row.stack).enumerate() {
                write!(to, "{}{frame}", if depth > 0 { "," } else { "" })?;
            }
            write!(to, "]")?;
        }
        write!(to, "],\n\"weights\":[")?;
        for (number, row) in rows.iter().enumerate() {
            write!(to, "{}{}", if number > 0 { "," } else { "" }, row.weight)?;
        }
        write!(to, "]}}")?;
    }
    writeln!(to, "]}}")
}
