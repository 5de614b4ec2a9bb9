//! BOLT's fdata: a line for each branch, from where to where, how often it was not foreseen, and how often it was taken. A place is
//! `1 FUNCTION OFFSET` with digits of base 16, or `0 [unknown] 0` outside of the program.

use super::{Branches, BranchesWritten};
use perfuse_profile::symbols::{Dso, Elf};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

const OUTSIDE: &str = "0 [unknown] 0";

/// Names of functions as BOLT calls them.
struct Names<'d> {
    dso: &'d Dso,
    /// By the address of a function that is of one source file alone, and its name: which it is of those with this name.
    locals: HashMap<(u64, Box<[u8]>), usize>,
}

impl<'d> Names<'d> {
    fn new(dso: &'d Dso) -> Self {
        let binary = dso.debug_sources().binary.as_deref();
        let table = binary.and_then(|path| Elf::open(path).ok()).and_then(|elf| elf.local_symbols().ok());
        let mut locals = HashMap::new();
        let mut counts: HashMap<Box<[u8]>, usize> = HashMap::new();
        for symbol in table.iter().flat_map(|table| table.iter()) {
            let name: Box<[u8]> = symbol.raw_name().into();
            let count = counts.entry(name.clone()).or_default();
            *count += 1;
            locals.insert((symbol.start, name), *count);
        }
        Names { dso, locals }
    }

    /// The function at an address, and how far into it that is. A name that would break its line is none.
    fn at(&self, address: u64) -> Option<(String, u64)> {
        let found = self.dso.find_counted(address)?;
        let (start, raw) = (found.symbol.start, found.symbol.raw_name());
        let name = std::str::from_utf8(raw).ok().filter(|name| !name.chars().any(char::is_control))?;
        // A blank ends a name, and a backslash stands before what is none.
        let mut escaped = name.replace('\\', "\\\\").replace(' ', "\\ ");
        if let Some(number) = self.locals.get(&(start, Box::from(raw))) {
            escaped += &format!("/{number}");
        }
        Some((escaped, found.offset))
    }
}

pub(super) fn write(
    of: &Branches,
    program: u32,
    dso: &Dso,
    to: &mut dyn Write,
) -> io::Result<BranchesWritten> {
    let names = Names::new(dso);
    let text = |place: &Option<(String, u64)>| match place {
        Some((name, offset)) => format!("1 {name} {offset:x}"),
        None => OUTSIDE.to_owned(),
    };
    let mut functions = BTreeSet::new();
    let mut written = BranchesWritten::default();
    if !of.has_branches() {
        // Events are told for whoever reads it.
        let events = of.events.iter().map(|name| name.replace(|letter: char| letter.is_whitespace(), "_"));
        writeln!(to, "no_lbr {}", events.collect::<Vec<_>>().join(" "))?;
        let mut lines: BTreeMap<(String, u64), u64> = BTreeMap::new();
        for (&(_, address), count) in of.samples.iter().filter(|((of, _), _)| *of == program) {
            if let Some(place) = names.at(address) {
                *lines.entry(place).or_default() += count;
            }
        }
        for ((name, offset), count) in lines {
            writeln!(to, "1 {name} {offset:x} {count}")?;
            written.told += count;
            functions.insert(name);
        }
        written.functions = functions.len();
        return Ok(written);
    }
    let mut lines: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for ((from, to), taken) in &of.taken {
        let own = |place: &Option<(u32, u64)>| {
            place.filter(|(of, _)| *of == program).and_then(|(_, address)| names.at(address))
        };
        let (from, to) = (own(from), own(to));
        if from.is_none() && to.is_none() {
            continue;
        }
        let sums = lines.entry((from, to)).or_default();
        *sums = (sums.0 + taken.missed, sums.1 + taken.count);
    }
    for ((from, target), (missed, count)) in lines {
        writeln!(to, "{} {} {missed} {count}", text(&from), text(&target))?;
        written.told += count;
        functions.extend([from, target].into_iter().flatten().map(|(name, _)| name));
    }
    written.functions = functions.len();
    Ok(written)
}
