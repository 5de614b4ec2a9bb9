//! How call chains are best found, by a look at the programs that are to be recorded: the kernel follows frame pointers where
//! all have them; where one has none, stacks are unwound.

use crate::plan::{Chains, Target};
use perfuse::abi::regs::Arch;
use perfuse_proc::{Map, read};
use perfuse_symbols::Elf;
use perfuse_unwind::FramePointers;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// So many programs and libraries are looked at.
const MOST: usize = 200;
/// Where libraries are, if the program does not say otherwise.
const FOLDERS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// How call chains are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallChains {
    /// As a [`Choice`] says.
    Auto,
    /// So, or not at all.
    By(Option<Chains>),
}

impl CallChains {
    /// The words for that, and what they mean. Bytes may follow those with copies: `dwarf,16384`.
    pub const WORDS: [(&str, &str); 6] = [
        ("auto", "frame pointers or unwound, as the programs are built"),
        ("fp", "frame pointers, by the kernel"),
        ("unwound", "copies of the stack, unwound while recording"),
        ("dwarf", "copies of the stack, unwound when the recording is read"),
        ("lbr", "the processor's last branches"),
        ("no", "none"),
    ];
}

impl FromStr for CallChains {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST: u32 = Chains::MOST_STACK_BYTES;
        let (kind, size) = text.split_once(',').map_or((text, None), |(kind, size)| (kind, Some(size)));
        let wrong = || {
            let kinds = Self::WORDS.map(|(word, _)| word).join(", ");
            format!("wants one of {kinds}; dwarf and unwound may have ,BYTES; not '{text}'")
        };
        let bytes = |size: &str| match size.parse::<u32>() {
            Ok(bytes) if bytes > MOST => {
                Err(format!("{text}: the kernel copies at most {MOST} bytes of a stack"))
            }
            Ok(bytes) if bytes > 0 => Ok(bytes.next_multiple_of(8)),
            _ => Err(wrong()),
        };
        Ok(match (kind, size) {
            ("auto", None) => CallChains::Auto,
            ("fp", None) => CallChains::By(Some(Chains::FramePointers)),
            ("lbr", None) => CallChains::By(Some(Chains::LastBranches)),
            ("no", None) => CallChains::By(None),
            ("dwarf", None) => CallChains::By(Some(Chains::Stack(Chains::STACK_BYTES))),
            ("dwarf", Some(size)) => CallChains::By(Some(Chains::Stack(bytes(size)?))),
            ("unwound", _) => CallChains::By(Some(Chains::Unwound(size.map(bytes).transpose()?))),
            _ => return Err(wrong()),
        })
    }
}

/// How call chains are to be found, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// How.
    pub chains: Chains,
    /// Why.
    pub why: Why,
}

/// The reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// This program or library has no frame pointers.
    Without {
        /// Its file.
        path: PathBuf,
        /// The functions that were looked at.
        looked: FramePointers,
    },
    /// Programs and libraries, so many, have frame pointers.
    With(usize),
    /// No program or library was found that tells.
    Unknown,
    /// Stacks of this architecture are not unwound.
    Architecture,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.chains {
            Chains::FramePointers => "call chains by frame pointers: ",
            _ => "call chains are unwound: ",
        })?;
        match &self.why {
            Why::Without { path, looked: FramePointers { functions, with, .. } } => {
                write!(
                    f,
                    "{} has no frame pointers ({with} of {functions} functions looked at have)",
                    path.display()
                )
            }
            Why::With(1) => f.write_str("the program has them"),
            Why::With(files) => write!(f, "all {files} programs and libraries looked at have them"),
            Why::Unknown => f.write_str("no program was found to look at"),
            Why::Architecture => f.write_str("stacks of this architecture are not unwound"),
        }
    }
}

impl Choice {
    /// By the command, if it is what is recorded, with the libraries that it needs; by what the processes have mapped; or
    /// by what runs, if whole cpus are recorded. A command's name is looked for in the folders of `search`, the variable `PATH`.
    pub fn of(target: &Target, follow: Option<&[u32]>, command: &[OsString], search: &OsStr) -> Self {
        if !matches!(Arch::NATIVE, Some(Arch::X86_64 | Arch::Arm64)) {
            return Choice { chains: Chains::FramePointers, why: Why::Architecture };
        }
        let processes = |pids: &[u32]| Self::judge(pids.iter().flat_map(|&pid| mapped(pid)));
        match (target, follow) {
            (Target::Command, _) | (Target::Cpus(_), Some([])) => {
                let program = command.first().and_then(|name| program(name, search));
                Self::judge(program.into_iter().flat_map(with_libraries))
            }
            (Target::Cpus(_), Some(pids)) => processes(pids),
            (Target::Processes(pids), _) => processes(pids),
            (Target::Threads(tids), _) => {
                let pids = tids.iter().filter_map(|&tid| read::process_of(tid));
                processes(&pids.collect::<Vec<_>>())
            }
            (Target::Cpus(_), None) => processes(&read::processes()),
        }
    }

    fn judge(files: impl Iterator<Item = PathBuf>) -> Self {
        let (mut seen, mut with) = (BTreeSet::new(), 0);
        for path in files {
            if seen.len() >= MOST {
                break;
            }
            if !seen.insert(path.clone()) {
                continue;
            }
            let Some(looked) = Elf::open(&path).ok().and_then(|elf| FramePointers::of(&elf).ok()) else {
                continue;
            };
            match looked.are_there() {
                Some(false) => return Choice { chains: UNWOUND, why: Why::Without { path, looked } },
                Some(true) => with += 1,
                None => {}
            }
        }
        match with {
            0 => Choice { chains: UNWOUND, why: Why::Unknown },
            _ => Choice { chains: Chains::FramePointers, why: Why::With(with) },
        }
    }
}

const UNWOUND: Chains = Chains::Unwound(None);

/// The files with code that a process has mapped, the program first.
fn mapped(pid: u32) -> Vec<PathBuf> {
    let Ok(text) = read::maps(pid) else { return Vec::new() };
    let names =
        perfuse_proc::maps(&text).filter(|map| map.prot & Map::EXEC != 0 && map.name.starts_with(b"/"));
    let root = Path::new("/proc").join(pid.to_string()).join("root");
    let is_here = fs::metadata(&root).ok().zip(fs::metadata("/").ok()).is_none_or(|(theirs, ours)| {
        use std::os::unix::fs::MetadataExt;
        (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino())
    });
    let place = |name: &[u8]| {
        let path = Path::new(OsStr::from_bytes(name));
        if is_here { path.to_owned() } else { root.join(path.strip_prefix("/").unwrap_or(path)) }
    };
    let mut places: Vec<_> = names.map(|map| place(map.name)).collect();
    places.dedup();
    places
}

/// The file of a command: of a script that of its interpreter.
fn program(name: &OsStr, search: &OsStr) -> Option<PathBuf> {
    let mut path = found(name, search)?;
    for _ in 0..4 {
        let mut begin = [0; 256];
        let len = perfuse_files::open(&path).ok()?.read(&mut begin).ok()?;
        let Some(line) = begin[..len].strip_prefix(b"#!") else { break };
        let line = line.split(|&byte| byte == b'\n').next()?;
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let interpreter = OsStr::from_bytes(words.next()?);
        let is_env = Path::new(interpreter).file_name() == Some(OsStr::new("env"));
        let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'=')).filter(|_| is_env);
        path = named
            .map_or_else(|| found(interpreter, search), |name| found(OsStr::from_bytes(name), search))?;
    }
    Some(path)
}

/// A program by its path, or by its name in the folders of `PATH`, as an exec finds it.
fn found(name: &OsStr, search: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let mut places = std::env::split_paths(search).map(|folder| folder.join(name));
    places.find(|place| place.is_file())
}

/// A program, the libraries that it needs, and those that these need.
fn with_libraries(program: PathBuf) -> Vec<PathBuf> {
    let (mut all, mut left) = (vec![program.clone()], VecDeque::from([program]));
    while let Some(path) = left.pop_front() {
        let needed = Elf::open(&path).ok().and_then(|elf| elf.needed().ok()).unwrap_or_default();
        for name in needed.iter().filter(|name| !name.contains(&b'/')) {
            let mut places = FOLDERS.iter().map(|folder| Path::new(folder).join(OsStr::from_bytes(name)));
            let Some(place) = places.find(|place| place.is_file()) else { continue };
            if all.len() < MOST && !all.contains(&place) {
                all.push(place.clone());
                left.push_back(place);
            }
        }
    }
    all
}
