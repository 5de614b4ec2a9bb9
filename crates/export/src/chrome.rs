//! JSON of Chrome's trace events, which Perfetto opens too. A profile has sums, no times: callees lie within their callers, side by
//! side, as wide as their weights. Each event is a track of its own; one occurrence is one nanosecond.

use crate::json::Quoted;
use crate::stacks::Stacks;
use crate::tree::Tree;
use std::io::{self, Write};

pub(crate) fn write(stacks: &Stacks, title: &str, to: &mut dyn Write) -> io::Result<()> {
    let title = Quoted(title);
    write!(
        to,
        "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{{\"name\":{title}}}}}"
    )?;
    for (index, event) in stacks.events().iter().enumerate() {
        let (thread, name) = (index + 1, Quoted(&event.name));
        write!(
            to,
            ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{thread},\"name\":\"thread_name\",\"args\":{{\"name\":{name}}}}}"
        )?;
        for node in &Tree::new(stacks, index).nodes {
            let (name, object) = (Quoted(&node.name), Quoted(&node.object));
            let (start, length, samples) = (micros(node.start), micros(node.weight), node.samples);
            write!(
                to,
                ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{thread},\"ts\":{start},\"dur\":{length},\"name\":{name},\"args\":{{\"object\":{object},\"samples\":{samples}}}}}"
            )?;
        }
    }
    writeln!(to, "]}}")
}

/// Microseconds with all digits of nanoseconds.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
