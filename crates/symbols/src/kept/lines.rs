//! Answers of debug information, kept in a file: opening, unpacking and searching the debug information of a C library takes
//! longer than all else that a report of it does. A second report, and one of another recording of the same program, finds most
//! of its addresses here, and opens no debug information if it finds all.
//!
//! A file of answers belongs to one debug file, as it is now: it names its path, inode, size and times, and is not
//! read for any other. It is read into memory as a whole, has a limit, and what is wrong in it is found when it is
//! read.

use crate::dwarf::SourceFrame;
use crate::image::FileId;
use crate::numbers::{put, put_bytes, take, take_bytes};
use crate::sealed::layout::Texts;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The beginning of the names of files of answers, before a number.
const NAME: &str = "lines-";
/// The form that they have.
const FORM: &[u8] = b"perfuse lines 1\n";
/// Addresses whose answers are kept of a debug file.
const MOST_ADDRESSES: usize = 1 << 18;
/// Larger files are not ours.
const MAX_FILE: u64 = 64 << 20;
/// Bytes of all files of answers in a folder: the ones that were written first go.
const MAX_FOLDER: u64 = 256 << 20;
/// Bytes of a frame in a file.
const FRAME: usize = 8 + 4 * 5;
/// In place of the number of a function or text that is not there.
const NONE: u32 = u32::MAX;

/// The answers of a debug file.
#[derive(Debug)]
pub(crate) struct KeptLines {
    file: PathBuf,
    /// Which debug file, as the file of answers has it at its beginning.
    facts: Vec<u8>,
    known: Answers,
    /// Those that were given since.
    new: Mutex<Vec<Answers>>,
    new_addresses: AtomicUsize,
}

/// Addresses and the frames of each.
#[derive(Debug, Default)]
struct Answers {
    texts: Texts,
    /// Where the frames of a list end.
    ends: Vec<u32>,
    frames: Vec<Frame>,
    /// By address, with the number of the list.
    at: Vec<(u64, u32)>,
}

/// A [`SourceFrame`] whose texts are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Frame {
    function: u64,
    name: u32,
    file: u32,
    line: u32,
    column: u32,
    flags: u32,
}

/// The function's number is one.
const HAS_FUNCTION: u32 = 1;
const IS_INLINED: u32 = 2;

impl KeptLines {
    /// The answers that a folder has of a debug file; none yet if there are none.
    pub(crate) fn open(folder: &Path, debug_file: &Path, id: FileId) -> Self {
        let mut hasher = DefaultHasher::new();
        debug_file.hash(&mut hasher);
        let mut facts = FORM.to_vec();
        put_bytes(&mut facts, debug_file.as_os_str().as_bytes());
        id.put(&mut facts);
        let file = folder.join(format!("{NAME}{:016x}", hasher.finish()));
        let known = read(&file, &facts).unwrap_or_else(|why| {
            log::debug!("no lines of {} from {}: {why}", debug_file.display(), file.display());
            Answers::default()
        });
        KeptLines { file, facts, known, new: Mutex::default(), new_addresses: AtomicUsize::new(0) }
    }

    /// Tells `found` of the functions at an address; `false` if it was not asked for before.
    pub(crate) fn frames(&self, address: u64, found: &mut dyn FnMut(&SourceFrame<'_>)) -> bool {
        let known = &self.known;
        let Ok(index) = known.at.binary_search_by_key(&address, |&(address, _)| address) else {
            return false;
        };
        let list = known.at[index].1 as usize;
        let start = list.checked_sub(1).map_or(0, |before| known.ends[before]);
        for frame in &known.frames[start as usize..known.ends[list] as usize] {
            let text = |number: u32| (number != NONE).then(|| known.texts.get(number));
            found(&SourceFrame {
                discriminator: 0,
                declared: &|| None,
                function: (frame.flags & HAS_FUNCTION != 0).then_some(frame.function),
                name: &|| text(frame.name).map(|name| String::from_utf8_lossy(name).into_owned()),
                is_inlined: frame.flags & IS_INLINED != 0,
                file: text(frame.file).and_then(|file| std::str::from_utf8(file).ok()),
                line: frame.line,
                column: frame.column,
            });
        }
        true
    }

    /// Takes in answers.
    pub(crate) fn add(&self, asked: Asked) {
        let answers = asked.finish();
        if self.new_addresses.fetch_add(answers.at.len(), Ordering::Relaxed) < MOST_ADDRESSES {
            self.new.lock().unwrap_or_else(PoisonError::into_inner).push(answers);
        }
    }

    /// Writes the answers that were given since they were read, with those that were there.
    pub(crate) fn keep(&self) {
        let new = std::mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner));
        if new.iter().all(|answers| answers.at.is_empty()) {
            return;
        }
        let count: usize = new.iter().map(|answers| answers.at.len()).sum();
        let is_room = count + self.known.at.len() <= MOST_ADDRESSES;
        let mut all = Asked::default();
        new.iter().chain(is_room.then_some(&self.known)).for_each(|answers| all.take_in(answers));
        let mut bytes = self.facts.clone();
        all.finish().encode(&mut bytes);
        if bytes.len() as u64 > MAX_FILE {
            return;
        }
        if let Err(error) = perfuse_files::write_private(&self.file, &bytes) {
            return log::debug!("lines are not kept in {}: {error}", self.file.display());
        }
        let room = |folder| perfuse_files::remove_oldest(folder, NAME, MAX_FOLDER);
        self.file.parent().into_iter().for_each(room);
    }
}

/// Answers that are given now.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    answers: Answers,
    texts: HashMap<Vec<u8>, u32>,
    names: HashMap<u64, u32>,
    lists: HashMap<Vec<Frame>, u32>,
    by_address: HashMap<u64, u32>,
}

impl Asked {
    /// The frames of each of these addresses, as [`DebugInfo::frames`](crate::DebugInfo::frames) tells of them.
    pub(crate) fn frames(
        addresses: &[u64],
        answer: impl FnOnce(&mut dyn FnMut(usize, &SourceFrame<'_>)),
        found: &mut dyn FnMut(usize, &SourceFrame<'_>),
    ) -> Self {
        let (mut all, mut told) = (Asked::default(), vec![Vec::new(); addresses.len()]);
        answer(&mut |index, frame| {
            told[index].push(all.frame(frame));
            found(index, frame);
        });
        for (&address, frames) in addresses.iter().zip(told) {
            all.push(address, frames);
        }
        all
    }

    fn frame(&mut self, frame: &SourceFrame<'_>) -> Frame {
        let known = frame.function.and_then(|function| self.names.get(&function).copied());
        let name = known.unwrap_or_else(|| (frame.name)().map_or(NONE, |name| self.text(name.as_bytes())));
        self.names.extend(frame.function.map(|function| (function, name)));
        let has_function = if frame.function.is_some() { HAS_FUNCTION } else { 0 };
        Frame {
            function: frame.function.unwrap_or(0),
            name,
            file: frame.file.map_or(NONE, |file| self.text(file.as_bytes())),
            line: frame.line,
            column: frame.column,
            flags: has_function | if frame.is_inlined { IS_INLINED } else { 0 },
        }
    }

    fn text(&mut self, text: &[u8]) -> u32 {
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let number = self.answers.texts.push(text);
        self.texts.insert(text.to_vec(), number);
        number
    }

    fn push(&mut self, address: u64, frames: Vec<Frame>) {
        let next = self.answers.ends.len() as u32;
        let answers = &mut self.answers;
        let list = *self.lists.entry(frames).or_insert_with_key(|frames| {
            answers.frames.extend(frames);
            answers.ends.push(answers.frames.len() as u32);
            next
        });
        self.by_address.entry(address).or_insert(list);
    }

    fn take_in(&mut self, answers: &Answers) {
        let texts: Vec<u32> =
            (0..answers.texts.len() as u32).map(|at| self.text(answers.texts.get(at))).collect();
        let text = |number: u32| texts.get(number as usize).copied().unwrap_or(NONE);
        for &(address, list) in &answers.at {
            let start = (list as usize).checked_sub(1).map_or(0, |before| answers.ends[before]);
            let frames = &answers.frames[start as usize..answers.ends[list as usize] as usize];
            let renumbered =
                |frame: &Frame| Frame { name: text(frame.name), file: text(frame.file), ..*frame };
            self.push(address, frames.iter().map(renumbered).collect());
        }
    }

    fn finish(mut self) -> Answers {
        self.answers.at = self.by_address.into_iter().collect();
        self.answers.at.sort_unstable();
        self.answers
    }
}

impl Answers {
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.texts.len() as u64);
        (0..self.texts.len() as u32).for_each(|at| put_bytes(out, self.texts.get(at)));
        for list in [self.ends.len(), self.frames.len(), self.at.len()] {
            put(out, list as u64);
        }
        self.ends.iter().for_each(|end| out.extend(end.to_le_bytes()));
        for frame in &self.frames {
            out.extend(frame.function.to_le_bytes());
            for word in [frame.name, frame.file, frame.line, frame.column, frame.flags] {
                out.extend(word.to_le_bytes());
            }
        }
        self.at.iter().for_each(|(address, _)| out.extend(address.to_le_bytes()));
        self.at.iter().for_each(|(_, list)| out.extend(list.to_le_bytes()));
    }

    /// What [`encode`](Self::encode) wrote; nothing if a number is wrong.
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut texts = Texts::default();
        for _ in 0..take(bytes)? {
            texts.push(take_bytes(bytes)?);
        }
        let counts = [take(bytes)?, take(bytes)?, take(bytes)?].map(|count| usize::try_from(count).ok());
        let [Some(lists), Some(frames), Some(addresses)] = counts else { return None };
        let ends: Vec<u32> = words(part(bytes, lists, 4)?).collect();
        let frames: Vec<Frame> =
            part(bytes, frames, FRAME)?.chunks_exact(FRAME).filter_map(Frame::decode).collect();
        let listed = part(bytes, addresses, 8)?.chunks_exact(8);
        let listed = listed.filter_map(|word| word.try_into().ok().map(u64::from_le_bytes));
        let at: Vec<(u64, u32)> = listed.zip(words(part(bytes, addresses, 4)?)).collect();
        let is_text = |number: u32| number == NONE || (number as usize) < texts.len();
        let is_right = bytes.is_empty()
            && ends.is_sorted()
            && ends.last().map_or(0, |&end| end as usize) == frames.len()
            && frames.iter().all(|frame| is_text(frame.name) && is_text(frame.file))
            && at.is_sorted_by(|one, next| one.0 < next.0)
            && at.iter().all(|&(_, list)| (list as usize) < ends.len());
        is_right.then_some(Answers { texts, ends, frames, at })
    }
}

impl Frame {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (function, rest) = bytes.split_first_chunk()?;
        let mut words = words(rest);
        let mut next = || words.next();
        Some(Frame {
            function: u64::from_le_bytes(*function),
            name: next()?,
            file: next()?,
            line: next()?,
            column: next()?,
            flags: next()?,
        })
    }
}

/// The next `count` items of `size` bytes.
fn part<'b>(bytes: &mut &'b [u8], count: usize, size: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(count.checked_mul(size)?)?;
    *bytes = rest;
    Some(taken)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).filter_map(|word| word.try_into().ok().map(u32::from_le_bytes))
}

/// The answers in a file for a debug file of these facts; without them the reason.
fn read(file: &Path, facts: &[u8]) -> Result<Answers, String> {
    let file = perfuse_files::open_private(file).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let mut rest =
        bytes.strip_prefix(facts).ok_or("they are of another debug file, or of what it was before")?;
    Answers::decode(&mut rest).ok_or_else(|| "it is damaged".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::DirBuilderExt;

    /// A folder of this user alone that goes at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("perfuse-kept-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::DirBuilder::new().mode(0o700).create(&path).expect("a folder");
            Folder(path)
        }

        fn open(&self, debug_file: &Path) -> KeptLines {
            KeptLines::open(
                &self.0,
                debug_file,
                Image::open(debug_file).expect("a file").id().expect("a file"),
            )
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    type Told = (Option<u64>, Option<String>, bool, Option<String>, u32, u32);

    fn told(frame: &SourceFrame<'_>) -> Told {
        let file = frame.file.map(str::to_owned);
        (frame.function, (frame.name)(), frame.is_inlined, file, frame.line, frame.column)
    }

    fn any_told() -> impl Strategy<Value = Told> {
        let text = || prop::option::of("[a-z<>:é ]{0,12}");
        (any::<Option<u16>>(), text(), any::<bool>(), text(), any::<u32>(), any::<u32>()).prop_map(
            |(function, name, is_inlined, file, line, column)| {
                // A function has one name.
                let name =
                    function.map_or(name, |function| (function % 3 > 0).then(|| format!("f{function}")));
                (function.map(u64::from), name, is_inlined, file, line, column)
            },
        )
    }

    /// Answers as debug information gives them.
    fn asked(all: &[(u64, Vec<Told>)]) -> Asked {
        let addresses: Vec<u64> = all.iter().map(|(address, _)| *address).collect();
        let answer = |found: &mut dyn FnMut(usize, &SourceFrame<'_>)| {
            for (index, (_, frames)) in all.iter().enumerate() {
                for (function, name, is_inlined, file, line, column) in frames {
                    found(
                        index,
                        &SourceFrame {
                            discriminator: 0,
                            declared: &|| None,
                            function: *function,
                            name: &|| name.clone(),
                            is_inlined: *is_inlined,
                            file: file.as_deref(),
                            line: *line,
                            column: *column,
                        },
                    );
                }
            }
        };
        Asked::frames(&addresses, answer, &mut |_, _| ())
    }

    fn known(kept: &KeptLines, address: u64) -> Option<Vec<Told>> {
        let mut all = Vec::new();
        kept.frames(address, &mut |frame| all.push(told(frame))).then_some(all)
    }

    proptest! {
        /// What was answered in two runs is answered in a third, and nothing else.
        #[test]
        fn answers_come_back(
            first in prop::collection::btree_map(0u64..40, prop::collection::vec(any_told(), 0..4), 0..12),
            second in prop::collection::btree_map(20u64..60, prop::collection::vec(any_told(), 0..4), 0..12),
        ) {
            let folder = Folder::new("lines");
            let debug_file = folder.0.join("program.debug");
            fs::write(&debug_file, "text").expect("written");
            for part in [&first, &second] {
                let kept = folder.open(&debug_file);
                let new: Vec<_> = part.iter().filter(|(address, _)| known(&kept, **address).is_none()).collect();
                kept.add(asked(&new.into_iter().map(|(address, told)| (*address, told.clone())).collect::<Vec<_>>()));
                kept.keep();
            }
            let kept = folder.open(&debug_file);
            for address in 0..64 {
                let expected = first.get(&address).or_else(|| second.get(&address));
                prop_assert_eq!(known(&kept, address), expected.cloned());
            }
        }

        /// Damage is found when the file is read: any answer can then be told.
        #[test]
        fn damage_is_borne(
            all in prop::collection::btree_map(0u64..9, prop::collection::vec(any_told(), 0..4), 1..9),
            at in any::<prop::sample::Index>(), value: u8,
        ) {
            let mut bytes = Vec::new();
            asked(&all.into_iter().collect::<Vec<_>>()).finish().encode(&mut bytes);
            let at = at.index(bytes.len());
            bytes[at] = value;
            let Some(known) = Answers::decode(&mut &bytes[..]) else { return Ok(()) };
            let (new, new_addresses) = (Mutex::default(), AtomicUsize::new(0));
            let kept = KeptLines { file: PathBuf::new(), facts: Vec::new(), known, new, new_addresses };
            for address in 0..9 {
                kept.frames(address, &mut |frame| drop(told(frame)));
            }
        }
    }

    #[test]
    fn another_debug_file_of_the_same_name_is_asked_itself() {
        let folder = Folder::new("lines-other");
        let debug_file = folder.0.join("program.debug");
        fs::write(&debug_file, "text").expect("written");
        let kept = folder.open(&debug_file);
        kept.add(asked(&[(7, Vec::new())]));
        assert_eq!(known(&kept, 7), None, "what was asked now is asked again");
        kept.keep();
        assert_eq!(known(&folder.open(&debug_file), 7), Some(Vec::new()));
        fs::write(&debug_file, "other text").expect("written");
        assert_eq!(known(&folder.open(&debug_file), 7), None);
    }
}
