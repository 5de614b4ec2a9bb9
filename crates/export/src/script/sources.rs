//! The text of source lines below samples.

use perfuse_data::text::LineBuffer;
use perfuse_profile::{FastMap, LocalSymbols, Sources};
use std::fmt::Write;
use std::sync::Arc;

/// Source files, and what was shown of them.
pub(super) struct SourceLines {
    sources: Sources,
    /// The source line that each thread has shown last.
    shown: FastMap<u32, (Arc<str>, u32)>,
}

impl SourceLines {
    /// Nothing was shown yet.
    pub(super) fn new(symbols: &LocalSymbols) -> Self {
        SourceLines { sources: Sources::new().sealed(symbols), shown: FastMap::default() }
    }

    /// Adds the text of a source line, unless the thread's last one was the same.
    pub(super) fn show(&mut self, text: &mut LineBuffer, tid: u32, line: Option<(Arc<str>, u32)>) {
        let Some((file, number)) = line.filter(|line| self.shown.get(&tid) != Some(line)) else { return };
        let Some(source) = self.sources.text(&file) else { return };
        let Some(line) = source.bytes(number) else { return };
        let _ = write!(text, "|{number:<8} ");
        for (index, part) in line.split(|&byte| byte == b'\t').enumerate() {
            text.push(if index == 0 { "" } else { "\t" });
            text.foreign(part);
        }
        text.push("\n");
        self.shown.insert(tid, (file, number));
    }
}
