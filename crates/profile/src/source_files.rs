//! Source files, as debug information names them: read to a limit, each once.

use crate::source::LocalSymbols;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Larger files are no sources.
const MOST_BYTES: u64 = 8 << 20;
/// More files, and more bytes of them, are not kept.
const MOST_FILES: usize = 4096;
const MOST_KEPT: usize = 64 << 20;
/// A line is cut after so many bytes.
const MOST_LINE: usize = 4096;

/// The name by which a source file is called: the end of its path, or all of it.
pub fn source_name(path: &str, whole: bool) -> &str {
    path.rsplit('/').next().filter(|_| !whole).unwrap_or(path)
}

/// Finds source files. Only regular files are read.
#[derive(Debug, Default)]
pub struct Sources {
    prefix: Option<PathBuf>,
    strip: usize,
    /// Has the texts that a recording has inside.
    symbols: Option<LocalSymbols>,
    kept: Cell<usize>,
    files: RefCell<HashMap<String, Option<Rc<SourceText>>>>,
}

/// A source file's text and where its lines begin.
#[derive(Debug)]
pub struct SourceText {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Sources {
    /// Files where the debug information says that they are.
    pub fn new() -> Self {
        Sources::default()
    }

    /// Files below a folder, without this many of the first folders of their path. Relative paths stay as they are.
    #[must_use]
    pub fn below(self, prefix: Option<PathBuf>, strip: usize) -> Self {
        Sources { prefix, strip, ..self }
    }

    /// With the texts that a sealed recording has inside, where it has them, unless the files are below a folder.
    #[must_use]
    pub fn sealed(self, symbols: &LocalSymbols) -> Self {
        Sources { symbols: Some(symbols.clone()), ..self }
    }

    /// Where a file is looked for.
    fn place(&self, path: &str) -> PathBuf {
        match (&self.prefix, path.strip_prefix('/')) {
            (Some(prefix), Some(rest)) => {
                let rest: PathBuf = Path::new(rest).components().skip(self.strip).collect();
                prefix.join(rest)
            }
            _ => path.into(),
        }
    }

    /// The text of a file, if it can be read.
    pub fn text(&self, path: &str) -> Option<Rc<SourceText>> {
        if let Some(known) = self.files.borrow().get(path) {
            return known.clone();
        }
        let symbols = self.symbols.as_ref().filter(|_| self.prefix.is_none());
        let sealed = symbols.and_then(|symbols| symbols.symbolizer().sealed_source(path));
        let bytes = match sealed {
            Some(text) => Some(text.to_vec()),
            None => perfuse_files::read(&self.place(path), MOST_BYTES).ok(),
        };
        let text = bytes.map(|bytes| Rc::new(SourceText::new(bytes)));
        let mut files = self.files.borrow_mut();
        let size = |text: &Option<Rc<SourceText>>| {
            text.as_ref().map_or(0, |text| text.bytes.len() + text.ends.len() * 8)
        };
        let kept: usize = self.kept.get() + size(&text);
        self.kept.set(kept);
        if files.len() >= MOST_FILES || kept > MOST_KEPT {
            files.clear();
            self.kept.set(size(&text));
        }
        files.insert(path.to_owned(), text.clone());
        text
    }
}

impl SourceText {
    fn new(bytes: Vec<u8>) -> Self {
        let ends = (0..).zip(&bytes).filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        let ends = ends.chain([bytes.len()]).collect();
        SourceText { bytes, ends }
    }

    /// A line as it is in the file, from 1, without its end. `None` behind the last. A long one is cut.
    pub fn bytes(&self, number: u32) -> Option<&[u8]> {
        let index = (number as usize).checked_sub(1)?;
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        let line = self.bytes.get(start..end)?;
        Some(&line[..line.len().min(MOST_LINE)])
    }

    /// The same as text, with spaces for tabs and none at the end.
    pub fn line(&self, number: u32) -> Option<String> {
        let line = String::from_utf8_lossy(self.bytes(number)?);
        let mut plain = String::with_capacity(line.len());
        for letter in line.trim_end().chars() {
            match letter {
                '\t' => (0..8 - plain.len() % 8).for_each(|_| plain.push(' ')),
                letter => plain.push(letter),
            }
        }
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        let text = SourceText::new(b"one\n\ttwo \r\n\nfour".to_vec());
        let lines: Vec<Option<String>> = (0..6).map(|number| text.line(number)).collect();
        let lines: Vec<Option<&str>> = lines.iter().map(Option::as_deref).collect();
        assert_eq!(lines, [None, Some("one"), Some("        two"), Some(""), Some("four"), None]);
    }

    #[test]
    fn a_prefix_takes_the_place_of_the_first_folders() {
        let sources = Sources::new().below(Some("/mnt/tree".into()), 1);
        assert_eq!(sources.place("/src/a/b.c"), Path::new("/mnt/tree/a/b.c"));
        assert_eq!(sources.place("a/b.c"), Path::new("a/b.c"));
        assert_eq!(Sources::new().place("/src/a.c"), Path::new("/src/a.c"));
    }

    #[test]
    fn a_device_is_no_source() {
        assert!(Sources::new().text("/dev/zero").is_none());
    }
}
