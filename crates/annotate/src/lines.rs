//! Source lines of a function: where its code is from, with costs and, where the files are there, texts.

use crate::costs::Cost;
use perfuse_profile::Sources;
use serde::Serialize;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

/// Lines without code between two with code are shown too, if there are no more than these.
const GAP: u32 = 6;

/// Bytes of text of all lines; further ones have none.
const MOST_TEXT: usize = 16 << 20;

/// A source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Line {
    /// The file, by its index in [`files`](crate::Annotated::files).
    pub file: u32,
    /// The line, from 1.
    pub line: u32,
}

/// A source file, as far as it concerns a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SourceFile {
    /// Its path, as the debug information has it.
    pub path: String,
    /// Whether it was found, so that lines have texts.
    pub is_found: bool,
    /// Its lines in order: those that code is from, and few between those.
    pub lines: Vec<SourceLine>,
}

/// A line of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SourceLine {
    /// Its number, from 1.
    pub number: u32,
    /// Its text, if the file was found.
    pub text: Option<String>,
    /// Whether code of the function is from it.
    pub has_code: bool,
    /// The cost of that.
    pub cost: Cost,
}

impl SourceFile {
    /// A line of the file.
    pub fn line(&self, number: u32) -> Option<&SourceLine> {
        let at = self.lines.binary_search_by_key(&number, |line| line.number).ok()?;
        self.lines.get(at)
    }
}

/// Takes lines as they come.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    files: Vec<(String, BTreeMap<u32, Cost>)>,
    known: HashMap<String, u32>,
}

impl Lines {
    /// The number of a file.
    pub(crate) fn file(&mut self, path: &str) -> u32 {
        if let Some(&known) = self.known.get(path) {
            return known;
        }
        let next = self.files.len() as u32;
        self.files.push((path.to_owned(), BTreeMap::new()));
        self.known.insert(path.to_owned(), next);
        next
    }

    /// Adds the cost of an instruction of a line.
    pub(crate) fn add(&mut self, line: Line, cost: Cost) {
        if let Some((_, lines)) = self.files.get_mut(line.file as usize) {
            *lines.entry(line.line).or_default() += cost;
        }
    }

    /// All files, with texts.
    pub(crate) fn finish(self, sources: Option<&Sources>) -> Vec<SourceFile> {
        let left = Cell::new(MOST_TEXT);
        let file = |(path, costs): (String, BTreeMap<u32, Cost>)| {
            let text = sources.and_then(|sources| sources.text(&path));
            let line = |number: u32| {
                let line = text.as_ref().and_then(|text| text.line(number))?;
                left.set(left.get().checked_sub(line.len())?);
                Some(line)
            };
            let mut lines: Vec<SourceLine> = Vec::new();
            for (number, cost) in costs {
                let before = lines.last().map(|line| line.number).filter(|before| number - before <= GAP + 1);
                if let Some(before) = before.filter(|_| text.is_some()) {
                    let between = before + 1..number;
                    lines.extend(between.map(|number| SourceLine {
                        number,
                        text: line(number),
                        ..SourceLine::default()
                    }));
                }
                lines.push(SourceLine { number, text: line(number), has_code: true, cost });
            }
            SourceFile { path, is_found: text.is_some(), lines }
        };
        self.files.into_iter().map(file).collect()
    }
}
