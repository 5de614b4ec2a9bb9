//! A function with all that is told of it: instructions with costs, lines, inlined calls, and the names of what it jumps to and
//! calls.

use crate::code::{Arch, Decoded, Flow, MOST_BYTES, Next, Syntax};
use crate::costs::{Cost, Function};
use crate::disassemble::disassemble;
use crate::inlined::{Calls, Frame, InlinedCall};
use crate::lines::{Line, Lines, SourceFile};
use perfuse_profile::{LocalSymbols, Profile, Sources};
use perfuse_symbols::{CodeBytes, DebugInfo, Signatures, demangle};
use serde::{Serialize, Serializer};
use std::collections::HashMap;

/// A function from near. It owns all that it tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Annotated {
    /// Its name.
    pub name: String,
    /// The path of its object.
    pub object: String,
    /// Where it starts, as its object's symbols count.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
    /// The machine of its code, if there is code.
    pub arch: Option<Arch>,
    /// The cost of all of it.
    pub cost: Cost,
    /// Why there is no code; then [`instructions`](Self::instructions) are the addresses of samples, without text.
    pub no_code: Option<String>,
    /// Bytes at its end that were not taken apart, as it is too long or the file ends.
    pub cut: u64,
    /// The cost of what was cut.
    pub cut_cost: Cost,
    /// Its instructions, in order.
    pub instructions: Vec<Instruction>,
    /// The calls that were inlined into it; each comes after the one that it is in.
    pub inlined: Vec<InlinedCall>,
    /// The source files that its code is from.
    pub files: Vec<SourceFile>,
}

/// An instruction with its cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Instruction {
    /// Its address, as the object's symbols count.
    pub address: u64,
    /// Its bytes.
    #[serde(serialize_with = "as_hex")]
    pub bytes: Vec<u8>,
    /// Its text.
    pub text: String,
    /// The cost of samples in it.
    pub cost: Cost,
    /// The source line that it is from, of the innermost function that was inlined there.
    pub line: Option<Line>,
    /// The innermost inlined call that it is of, by index in [`Annotated::inlined`].
    pub inlined: Option<u32>,
    /// The address that it names.
    pub target: Option<Target>,
    /// How many instructions of the function jump to it.
    pub jumps_here: u32,
}

/// The address that an instruction names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Target {
    /// The use that it makes of it.
    pub flow: Flow,
    /// The address.
    pub address: u64,
    /// The function or variable there, if one is known.
    pub name: Option<String>,
    /// How far into it.
    pub offset: u64,
    /// The instruction there, by index, if it is one of the same function.
    pub instruction: Option<u32>,
}

fn as_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    serializer.serialize_str(&text)
}

impl Annotated {
    /// The source lines that its code is from, those that cost most first: file, line and cost.
    pub fn hottest_lines(&self) -> Vec<(Line, Cost)> {
        let files = (0..).zip(&self.files);
        let of_file = |(file, of): (u32, &SourceFile)| {
            let costs = of.lines.iter().filter(|line| line.cost.samples > 0);
            costs.map(|line| (Line { file, line: line.number }, line.cost)).collect::<Vec<_>>()
        };
        let mut lines: Vec<(Line, Cost)> = files.flat_map(of_file).collect();
        lines.sort_by_key(|&(line, cost)| (std::cmp::Reverse(cost), line));
        lines
    }

    /// The name of the address that an instruction names, as listings have it after the instruction: ` <memcpy+0x10>`. Empty where
    /// it names none.
    pub fn target_name(&self, one: &Instruction) -> String {
        let Some(target) = &one.target else { return String::new() };
        let name = match &target.name {
            Some(name) => name.as_str(),
            None if target.instruction.is_some() && target.flow == Flow::Jump => self.name.as_str(),
            None => return String::new(),
        };
        let offset = if target.offset == 0 { String::new() } else { format!("+{:#x}", target.offset) };
        let mark = if target.flow == Flow::Data { "  # " } else { " " };
        format!("{mark}<{name}{offset}>")
    }

    /// The inlined calls that cost something, those that cost most first, by their index.
    pub fn hottest_calls(&self) -> Vec<u32> {
        let costs = |index: &u32| self.inlined[*index as usize].cost;
        let mut calls: Vec<u32> =
            (0..self.inlined.len() as u32).filter(|call| costs(call).samples > 0).collect();
        calls.sort_by_key(|call| (std::cmp::Reverse(costs(call)), *call));
        calls
    }
}

/// Longer names are cut: they stand at each call.
const MOST_NAME: usize = 1024;

fn beginning(mut name: String) -> String {
    if name.len() > MOST_NAME {
        let end = (0..=MOST_NAME).rev().find(|&end| name.is_char_boundary(end));
        name.truncate(end.unwrap_or(0));
    }
    name
}

/// The parts that a function is annotated with.
#[derive(Clone, Copy, Default)]
pub struct Parts<'p> {
    /// Its code, or why there is none.
    pub code: Option<Result<&'p CodeBytes, &'p str>>,
    /// Debug information, and how much higher the object's symbols count than that.
    pub lines: Option<(&'p DebugInfo, u64)>,
    /// The symbol at an address, with how far into it that is.
    pub symbol: Option<&'p dyn Fn(u64) -> Option<(String, u64)>>,
    /// Where source files are; without it lines have no texts.
    pub sources: Option<&'p Sources>,
    /// The way in which instructions are written.
    pub syntax: Syntax,
    /// Names of inlined functions as they are in the file.
    pub is_mangled: bool,
}

/// A function with its instructions, lines, inlined calls, and costs.
pub fn annotate(function: &Function, parts: &Parts<'_>) -> Annotated {
    let (decoded, code, arch, no_code) = decode(function, parts);
    let mut annotated = Annotated {
        name: function.name.clone(),
        object: function.path.clone(),
        start: function.start,
        size: function.size,
        arch,
        cost: function.cost,
        no_code,
        cut: 0,
        cut_cost: Cost::default(),
        instructions: Vec::with_capacity(decoded.len()),
        inlined: Vec::new(),
        files: Vec::new(),
    };
    let mut at = 0;
    for Decoded { address, len, text, target, .. } in decoded {
        let bytes = code.get(at..at + len).unwrap_or_default().to_vec();
        at += len;
        let target =
            target.map(|(flow, address)| Target { flow, address, name: None, offset: 0, instruction: None });
        let (cost, line, inlined, jumps_here) = (Cost::default(), None, None, 0);
        annotated.instructions.push(Instruction {
            address,
            bytes,
            text,
            cost,
            line,
            inlined,
            target,
            jumps_here,
        });
    }
    annotated.add_costs(function, at as u64);
    annotated.add_targets(parts);
    annotated.add_lines(parts);
    annotated
}

/// The instructions of a function, its code, the machine, and why there is none of that: then the addresses of samples.
fn decode<'p>(
    function: &Function,
    parts: &Parts<'p>,
) -> (Vec<Decoded>, &'p [u8], Option<Arch>, Option<String>) {
    let why = match parts.code {
        Some(Ok(code)) => match Arch::of_elf(code.machine) {
            Some(arch) => {
                let size = usize::try_from(function.size).unwrap_or(usize::MAX).min(code.bytes.len());
                let bytes = &code.bytes[..size.min(MOST_BYTES)];
                let list = disassemble(bytes, function.start, arch, parts.syntax);
                return (list, bytes, Some(arch), None);
            }
            None => format!("instructions of machine {} of ELF are not taken apart", code.machine),
        },
        Some(Err(why)) => why.to_owned(),
        None => "it was not read".to_owned(),
    };
    let places = function.places.keys().map(|&offset| Decoded {
        address: function.start.wrapping_add(offset),
        len: 0,
        text: String::new(),
        target: None,
        next: Next::Unknown,
    });
    (places.collect(), &[], None, Some(why))
}

impl Annotated {
    /// Gives each instruction the cost of the samples in it.
    fn add_costs(&mut self, function: &Function, taken: u64) {
        let (start, has_code) = (function.start, self.no_code.is_none());
        for (&offset, &cost) in &function.places {
            let address = start.wrapping_add(offset);
            let after = self
                .instructions
                .partition_point(|one| one.address.wrapping_sub(start) <= address.wrapping_sub(start));
            match after.checked_sub(1).filter(|_| !has_code || offset < taken) {
                Some(index) => self.instructions[index].cost += cost,
                None => self.cut_cost += cost,
            }
        }
        self.cut = if has_code { function.size.saturating_sub(taken) } else { 0 };
    }

    /// Names what instructions name by address, and tells which of them are jumped to.
    fn add_targets(&mut self, parts: &Parts<'_>) {
        let (start, len) = (self.start, self.instructions.len());
        let index_of: HashMap<u64, u32> =
            (0..).zip(&self.instructions).map(|(index, one)| (one.address, index)).collect();
        let mut names: HashMap<u64, Option<(String, u64)>> = HashMap::new();
        for index in 0..len {
            let Some(target) = self.instructions[index].target.as_mut() else { continue };
            target.instruction = index_of.get(&target.address).copied();
            let is_jump = target.flow == Flow::Jump;
            // Jumps within the function need no name.
            if is_jump && target.address.wrapping_sub(start) < self.size {
                target.offset = target.address.wrapping_sub(start);
            } else if let Some(symbol) = parts.symbol {
                let named = names.entry(target.address).or_insert_with(|| symbol(target.address));
                if let Some((name, offset)) = named {
                    (target.name, target.offset) = (Some(name.clone()), *offset);
                }
            }
            if let Some(to) = target.instruction.filter(|_| is_jump) {
                self.instructions[to as usize].jumps_here += 1;
            }
        }
    }

    /// Tells lines and inlined calls.
    fn add_lines(&mut self, parts: &Parts<'_>) {
        let Some((info, shift)) = parts.lines else { return };
        let addresses: Vec<u64> =
            self.instructions.iter().map(|instruction| instruction.address.wrapping_sub(shift)).collect();
        let (mut lines, mut calls) = (Lines::default(), Calls::default());
        let mut names: HashMap<u64, String> = HashMap::new();
        // The frames of an address follow each other, the innermost first.
        let (mut chain, mut current): (Vec<Frame>, _) = (Vec::new(), usize::MAX);
        let mut told: Vec<(Option<Line>, Option<u32>)> = vec![(None, None); addresses.len()];
        info.frames(&addresses, &mut |index, frame| {
            if index != current {
                (current, chain) = (index, Vec::new());
            }
            let line = frame.file.filter(|_| frame.line != 0);
            let line = line.map(|path| Line { file: lines.file(path), line: frame.line });
            if let Some(function) = frame.function.filter(|_| frame.is_inlined) {
                names.entry(function).or_insert_with(|| {
                    let name = (frame.name)().unwrap_or_else(|| "[unknown]".to_owned());
                    beginning(if parts.is_mangled {
                        name
                    } else {
                        demangle(name, Signatures::Short).into_owned()
                    })
                });
            }
            chain.push(Frame { function: frame.function, is_inlined: frame.is_inlined, line });
            if !frame.is_inlined {
                let innermost = chain.first().and_then(|frame| frame.line);
                let call = calls.of(&chain, |function| names.get(&function).cloned().unwrap_or_default());
                told[index] = (innermost, call);
            }
        });
        for (instruction, (line, call)) in self.instructions.iter_mut().zip(told) {
            (instruction.line, instruction.inlined) = (line, call);
            calls.add(call, instruction.cost);
            if let Some(line) = line {
                lines.add(line, instruction.cost);
            }
        }
        (self.inlined, self.files) = (calls.list, lines.finish(parts.sources));
    }
}

/// Annotates functions of a profile by the files of this machine.
pub struct Annotator<'a> {
    symbols: &'a LocalSymbols,
    sources: Option<Sources>,
    syntax: Syntax,
    is_mangled: bool,
}

impl<'a> Annotator<'a> {
    /// With the files that these symbols are found in, and the sources where the debug information says that they are.
    pub fn new(symbols: &'a LocalSymbols) -> Self {
        Annotator { symbols, sources: Some(Sources::new()), syntax: Syntax::default(), is_mangled: false }
    }

    /// With sources from elsewhere, or without.
    #[must_use]
    pub fn with_sources(self, sources: Option<Sources>) -> Self {
        Annotator { sources, ..self }
    }

    /// With instructions written another way.
    #[must_use]
    pub fn with_syntax(self, syntax: Syntax) -> Self {
        Annotator { syntax, ..self }
    }

    /// With names as they are in the files.
    #[must_use]
    pub fn mangled(self, is_mangled: bool) -> Self {
        Annotator { is_mangled, ..self }
    }

    /// A function of a profile.
    pub fn annotate(&self, profile: &Profile, function: &Function) -> Annotated {
        let mut parts = Parts {
            sources: self.sources.as_ref(),
            syntax: self.syntax,
            is_mangled: self.is_mangled,
            ..Parts::default()
        };
        if function.is_made {
            let why = "it was made at run time, and no file has it";
            return annotate(function, &Parts { code: Some(Err(why)), ..parts });
        }
        let dso = self.symbols.dso(profile.object_ref(function.object));
        let code = dso.code(function.start, function.size.min(MOST_BYTES as u64));
        let why = code.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let symbol = |address: u64| {
            let found = dso.find_counted(address)?;
            let name = found.symbol.name();
            let name = if self.is_mangled { name } else { demangle(name, Signatures::Short) };
            Some((beginning(name.into_owned()), found.offset))
        };
        parts.code = Some(code.as_ref().map_err(|_| why.as_str()));
        parts.symbol = Some(&symbol);
        parts.lines = dso.debug_info();
        annotate(function, &parts)
    }
}

impl std::fmt::Debug for Annotator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Annotator").field("sources", &self.sources).finish_non_exhaustive()
    }
}
