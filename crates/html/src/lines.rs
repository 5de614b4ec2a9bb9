//! Source lines of the hottest functions: which ones samples were in, and their text where the file is there when the page is made.
//! Only files whose names end as those of sources do are read: a program's debug information can name any file.

use perfuse_profile::{FrameId, Frames, Sources};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Lines with samples beyond this are left out, those with the fewest samples first.
const MOST_LINES: usize = 2000;
/// Bytes of text of all lines.
const MOST_TEXT: usize = 192 << 10;
/// A longer line is cut.
const LONGEST: usize = 240;
/// Lines that are shown before and behind one with samples.
const AROUND: u32 = 3;

/// The endings of names of sources.
const ENDINGS: &[&str] = &[
    "S", "ad", "adb", "asm", "c", "c++", "cc", "cpp", "cr", "cs", "cu", "cxx", "d", "def", "f", "f90", "for",
    "fs", "go", "h", "h++", "hh", "hpp", "hs", "hxx", "i", "inc", "inl", "ipp", "java", "jl", "js", "kt",
    "l", "lua", "m", "ml", "mm", "nim", "odin", "pas", "php", "pl", "pm", "py", "pyx", "rb", "rs", "s",
    "scala", "swift", "tcc", "ts", "v", "vala", "y", "zig",
];

/// A line of a function that samples were in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) named: u32,
    pub(crate) file: u32,
    pub(crate) number: u32,
}

/// A file, and the text of its lines that are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: BTreeMap<u32, String>,
}

/// Lines by function, file and number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    pub(crate) list: Vec<Line>,
    pub(crate) files: Vec<SourceFile>,
    /// Lines with samples that were left out.
    pub(crate) left_out: usize,
    of_frames: HashMap<FrameId, u32>,
}

impl Lines {
    /// Of the frames that samples were in: the number of the function of each, and its samples.
    pub(crate) fn new(
        frames: &Frames,
        sources: Option<&Sources>,
        sampled: &BTreeMap<FrameId, (u32, u64)>,
    ) -> Self {
        let with_line = sampled.iter().filter_map(|(id, (named, samples))| {
            let (path, number) = frames.source(frames.get(*id))?;
            Some((*id, (*named, path, number), *samples))
        });
        let with_line: Vec<_> = with_line.collect();
        let mut sums: BTreeMap<(u32, &str, u32), u64> = BTreeMap::new();
        for (_, line, samples) in &with_line {
            *sums.entry(*line).or_default() += samples;
        }
        let mut hottest: Vec<_> = sums.into_iter().collect();
        hottest.sort_by_key(|(line, samples)| (Reverse(*samples), *line));
        let left_out = hottest.len().saturating_sub(MOST_LINES);
        hottest.truncate(MOST_LINES);
        let paths: BTreeSet<&str> = hottest.iter().map(|((_, path, _), _)| *path).collect();
        let numbers: HashMap<&str, u32> = paths.iter().copied().zip(0..).collect();
        let line = |(named, path, number): (u32, &str, u32)| Line { named, file: numbers[path], number };
        let mut files: Vec<SourceFile> = paths
            .iter()
            .map(|path| SourceFile { path: (*path).to_owned(), ..SourceFile::default() })
            .collect();
        let mut left = MOST_TEXT;
        let hot = || hottest.iter().map(|(of, _)| line(*of));
        for around in 0..=AROUND {
            for Line { file, number, .. } in hot() {
                let last = number.saturating_add(around);
                for number in [number.saturating_sub(around), last] {
                    files[file as usize].read(number, sources, &mut left);
                }
            }
        }
        let mut list: Vec<Line> = hot().collect();
        list.sort_unstable();
        let place = |of: &Line| list.binary_search(of).ok().map(|at| at as u32);
        let known = |path: &str| numbers.contains_key(path);
        let of_frames = with_line.iter().filter(|(_, (_, path, _), _)| known(path));
        let of_frames = of_frames.filter_map(|(id, of, _)| Some((*id, place(&line(*of))?))).collect();
        Lines { list, files, left_out, of_frames }
    }

    /// The line of a frame.
    pub(crate) fn of(&self, frame: FrameId) -> Option<u32> {
        self.of_frames.get(&frame).copied()
    }
}

impl SourceFile {
    fn read(&mut self, number: u32, sources: Option<&Sources>, left: &mut usize) {
        let ending =
            self.path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
        if !ending.is_some_and(|ending| ENDINGS.contains(&ending)) || self.text.contains_key(&number) {
            return;
        }
        let text = sources.and_then(|sources| sources.text(&self.path));
        let Some(mut line) = text.and_then(|text| text.line(number)) else { return };
        if let Some((end, _)) = line.char_indices().nth(LONGEST) {
            line.truncate(end);
            line.push('…');
        }
        // About what it takes in the page.
        let takes = line.len() + 8;
        if let Some(rest) = left.checked_sub(takes) {
            *left = rest;
            self.text.insert(number, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_in_order_and_files_that_are_no_sources_stay_unread() {
        assert!(ENDINGS.is_sorted());
        let own = env!("CARGO_MANIFEST_DIR");
        let read = |path: String, number| {
            let mut file = SourceFile { path, ..SourceFile::default() };
            let mut left = 1000;
            file.read(number, Some(&Sources::new()), &mut left);
            (file.text.into_values().next(), left)
        };
        let (first, left) = read(format!("{own}/src/lines.rs"), 1);
        assert!(first.is_some_and(|text| text.starts_with("//! Source lines")) && left < 1000);
        assert_eq!(read(format!("{own}/Cargo.toml"), 1), (None, 1000));
        assert_eq!(read(format!("{own}/src/lines.rs"), 1_000_000), (None, 1000));
    }
}
