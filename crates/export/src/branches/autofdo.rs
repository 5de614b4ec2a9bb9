//! LLVM's sample profile as text: for each function how often its lines were run, by their distance from the line of its
//! declaration, what they called, and the functions that were inlined there. The counts of lines are those of `llvm-profgen`: code on one line was run as often as
//! the instruction of it that was run most often. A total is that of its lines, as instructions are not counted here.

use super::{Branches, BranchesWritten};
use perfuse_profile::symbols::Dso;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Addresses that are asked for at once.
const PIECE: u64 = 1 << 16;
/// Bytes of code that are looked at.
const MAX_CODE: u64 = 64 << 20;
/// Functions that are inlined in each other are no deeper.
const MAX_DEPTH: usize = 512;

/// A line of a function: its distance from the declaration, and what tells blocks of one line apart.
type Line = (u32, u32);

/// A function, or one that was inlined.
#[derive(Debug, Default)]
struct Function {
    head: u64,
    lines: BTreeMap<Line, (u64, BTreeMap<String, u64>)>,
    inlined: BTreeMap<Line, BTreeMap<String, Function>>,
}

impl Function {
    fn total(&self) -> u64 {
        let own = self.lines.values().map(|(count, _)| *count);
        let inlined = self.inlined.values().flat_map(BTreeMap::values).map(Function::total);
        own.chain(inlined).fold(0, u64::saturating_add)
    }

    fn write(&self, name: &str, depth: usize, to: &mut dyn Write) -> io::Result<()> {
        match depth {
            0 => writeln!(to, "{name}:{}:{}", self.total(), self.head)?,
            _ => writeln!(to, "{name}:{}", self.total())?,
        }
        let blanks = depth + 1;
        for (line, (count, calls)) in &self.lines {
            write!(to, "{:blanks$}{}: {count}", "", text(*line))?;
            for (callee, count) in calls {
                write!(to, " {callee}:{count}")?;
            }
            writeln!(to)?;
        }
        for (line, functions) in &self.inlined {
            for (name, function) in functions {
                write!(to, "{:blanks$}{}: ", "", text(*line))?;
                function.write(name, depth + 1, to)?;
            }
        }
        Ok(())
    }
}

fn text((offset, discriminator): Line) -> String {
    match discriminator {
        0 => offset.to_string(),
        _ => format!("{offset}.{discriminator}"),
    }
}

/// A function at an address, as debug information tells it.
#[derive(Clone, Debug)]
struct Frame {
    name: String,
    line: Line,
    /// How many copies of the code the compiler has made, of which each is run as often as its part.
    copies: u64,
}

/// The functions at addresses, the outermost first. Those whose names or lines are not known are none.
fn frames(dso: &Dso, addresses: &[u64]) -> Vec<Option<Vec<Frame>>> {
    let mut found: Vec<Option<Vec<Frame>>> = vec![None; addresses.len()];
    let mut is_whole = vec![true; addresses.len()];
    let Some((info, shift)) = dso.debug_info() else { return found };
    let addresses: Vec<u64> = addresses.iter().map(|address| address.wrapping_sub(shift)).collect();
    let mut names: BTreeMap<u64, Option<(String, u32)>> = BTreeMap::new();
    info.frames_of_file(&addresses, &mut |index, frame| {
        let stack = found[index].get_or_insert_with(Vec::new);
        let known = frame.function.and_then(|function| {
            let known = names.entry(function).or_insert_with(|| {
                let name = (frame.name)()?;
                Some((canonical(&name)?.to_owned(), (frame.declared)()?))
            });
            known.clone()
        });
        match known {
            Some((name, declared)) if frame.line > 0 && stack.len() < MAX_DEPTH => {
                // The format keeps 16 bits of it.
                let offset = frame.line.wrapping_sub(declared) & 0xffff;
                let line = (offset, base_discriminator(frame.discriminator));
                stack.push(Frame { name, line, copies: copies(frame.discriminator) });
            }
            _ => is_whole[index] = false,
        }
    });
    for (stack, is_whole) in found.iter_mut().zip(is_whole) {
        if let Some(stack) = stack {
            stack.reverse();
        }
        if !is_whole || stack.as_ref().is_some_and(Vec::is_empty) {
            *stack = None;
        }
    }
    found
}

/// The name of a function before optimizations gave it another; none for one that would break its line.
fn canonical(name: &str) -> Option<&str> {
    let mut name = name;
    for ending in [".llvm.", ".part.", ".__uniq."] {
        name = name.find(ending).map_or(name, |at| &name[..at]);
    }
    let breaks = |letter: char| letter.is_whitespace() || letter.is_control();
    (!name.is_empty() && !name.contains(breaks)).then_some(name)
}

/// The first of the three numbers that compilers put into one: 0, or five bits, or twelve.
fn base_discriminator(discriminator: u32) -> u32 {
    match discriminator & 1 {
        1 => 0,
        _ => prefixed(discriminator),
    }
}

fn prefixed(number: u32) -> u32 {
    if number & 1 == 1 {
        return 0;
    }
    let number = number >> 1;
    match number & 0x20 {
        0 => number & 0x1f,
        _ => number >> 1 & 0xfe0 | number & 0x1f,
    }
}

/// The second of them.
fn copies(discriminator: u32) -> u64 {
    let next = match (discriminator & 1, discriminator & 0x40) {
        (1, _) => discriminator >> 1,
        (_, 0) => discriminator >> 7,
        _ => discriminator >> 14,
    };
    prefixed(next).max(1).into()
}

#[derive(Default)]
struct Profile(BTreeMap<String, Function>);

impl Profile {
    /// The function that an address is in by its stack, and its line there.
    fn leaf(&mut self, stack: &[Frame]) -> Option<(&mut Function, Line)> {
        let (first, rest) = stack.split_first()?;
        let mut function = self.0.entry(first.name.clone()).or_default();
        let mut line = first.line;
        for frame in rest {
            function = function.inlined.entry(line).or_default().entry(frame.name.clone()).or_default();
            line = frame.line;
        }
        Some((function, line))
    }
}

/// How often code was run, without overlaps: first and last address.
fn apart(stretches: &[(u64, u64, u64)]) -> Vec<(u64, u64, u64)> {
    let mut changes: BTreeMap<u64, i128> = BTreeMap::new();
    for &(first, last, count) in stretches {
        *changes.entry(first).or_default() += i128::from(count);
        *changes.entry(last + 1).or_default() -= i128::from(count);
    }
    let mut count = 0;
    let mut apart = Vec::new();
    let mut before = None;
    for (address, change) in changes {
        if let Some(first) = before.filter(|_| count > 0) {
            apart.push((first, address - 1, u64::try_from(count).unwrap_or(u64::MAX)));
        }
        count += change;
        before = Some(address);
    }
    apart
}

pub(super) fn write(
    of: &Branches,
    program: u32,
    dso: &Dso,
    to: &mut dyn Write,
) -> io::Result<BranchesWritten> {
    let mut profile = Profile::default();
    let mut left = MAX_CODE;
    // Each byte is asked for: those within an instruction are of its line.
    for (first, last, count) in apart(&of.stretches_of(program, dso)) {
        let mut next = first;
        while next <= last && left > 0 {
            let end = last.min(next.saturating_add(PIECE.min(left) - 1));
            let addresses: Vec<u64> = (next..=end).collect();
            left -= addresses.len() as u64;
            for stack in frames(dso, &addresses).into_iter().flatten() {
                let count = count.saturating_mul(stack.last().map_or(1, |leaf| leaf.copies));
                if let Some((function, line)) = profile.leaf(&stack) {
                    let known = &mut function.lines.entry(line).or_default().0;
                    *known = count.max(*known);
                }
            }
            next = end + 1;
        }
    }
    let mut calls: BTreeMap<(u64, String), u64> = BTreeMap::new();
    let mut entered: BTreeMap<u64, Vec<(Option<u64>, u64)>> = BTreeMap::new();
    for ((from, to), taken) in &of.taken {
        let Some((_, target)) = to.filter(|(of, _)| *of == program) else { continue };
        let from = from.filter(|(of, _)| *of == program).map(|(_, address)| address);
        entered.entry(target).or_default().push((from, taken.count));
    }
    // Calls are branches to the first byte of a function.
    entered.retain(|target, _| dso.find_counted(*target).is_some_and(|found| found.offset == 0));
    let targets: Vec<u64> = entered.keys().copied().collect();
    for (stack, branches) in frames(dso, &targets).into_iter().zip(entered.values()) {
        let Some(outermost) = stack.and_then(|stack| stack.into_iter().next()) else { continue };
        for &(from, count) in branches {
            profile.0.entry(outermost.name.clone()).or_default().head += count;
            if let Some(from) = from {
                *calls.entry((from, outermost.name.clone())).or_default() += count;
            }
        }
    }
    let callers: Vec<u64> = calls.keys().map(|(from, _)| *from).collect();
    for (stack, ((_, callee), count)) in frames(dso, &callers).into_iter().zip(calls) {
        if let Some((function, line)) = stack.as_deref().and_then(|stack| profile.leaf(stack)) {
            let (run, callees) = function.lines.entry(line).or_default();
            *callees.entry(callee).or_default() += count;
            // A line that called was run, also where no stretch of code before it is known.
            *run = (*run).max(callees.values().sum());
        }
    }
    let mut functions: Vec<(&String, &Function)> = profile.0.iter().collect();
    functions.sort_by_key(|(name, function)| (std::cmp::Reverse(function.total()), *name));
    for (name, function) in &functions {
        function.write(name, 0, to)?;
    }
    let own = of.taken.iter().filter(|((from, _), _)| from.is_some_and(|(of, _)| of == program));
    Ok(BranchesWritten { told: own.map(|(_, taken)| taken.count).sum(), functions: functions.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminators_are_taken_apart_as_llvm_puts_them_together() {
        // Base 0; base 1; base 31, base 32; base 2 and three copies.
        assert_eq!([0, 2, 62, 192].map(base_discriminator), [0, 1, 31, 32]);
        assert_eq!([0, 2, 4 | 6 << 7].map(copies), [1, 1, 3]);
        assert_eq!((base_discriminator(4 | 6 << 7), base_discriminator(1)), (2, 0));
    }

    #[test]
    fn code_that_was_run_by_several_is_counted_for_each() {
        let stretches = [(10, 19, 3), (15, 30, 2), (40, 40, 1)];
        assert_eq!(apart(&stretches), [(10, 14, 3), (15, 19, 5), (20, 30, 2), (40, 40, 1)]);
    }

    #[test]
    fn names_are_those_of_the_source() {
        assert_eq!(canonical("_ZN1a1bEv.llvm.123"), Some("_ZN1a1bEv"));
        assert_eq!(canonical("f.part.0"), Some("f"));
        assert_eq!(canonical("f.cold"), Some("f.cold"));
        assert_eq!(canonical("a b"), None);
    }

    #[test]
    fn functions_in_functions_are_indented() {
        let mut profile = Profile::default();
        let frame = |name: &str, line| Frame { name: name.into(), line, copies: 1 };
        let stack = [frame("main", (3, 1)), frame("g", (2, 0)), frame("h", (0, 0))];
        for depth in 1..=3 {
            profile.leaf(&stack[..depth]).unwrap().0.lines.entry(stack[depth - 1].line).or_default().0 = 5;
        }
        let call = profile.leaf(&[frame("main", (4, 0))]).unwrap().0;
        call.lines.entry((4, 0)).or_default().1.insert("far".into(), 2);
        let mut text = Vec::new();
        profile.0["main"].write("main", 0, &mut text).unwrap();
        let expected = "main:15:0\n 3.1: 5\n 4: 0 far:2\n 3.1: g:10\n  2: 5\n  2: h:5\n   0: 5\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
