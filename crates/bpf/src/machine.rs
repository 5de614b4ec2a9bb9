//! Programs and their maps, of one owner: loaded, which verifies them, and run. The place that the embedded kernel talks to.

use crate::insn::Insn;
use crate::map::{MapId, Maps};
use crate::program::ProgramType;
use crate::verify::{self, Refusal, Verified};
use crate::vm::{Code, Fault, Run};
use crate::world::World;
use alloc::vec::Vec;
use perfuse_abi::Errno;

/// A program as it is loaded.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSpec<'a> {
    /// What it may do.
    pub program_type: ProgramType,
    /// Its instructions.
    pub insns: &'a [Insn],
    /// The maps of `map[idx:0]` and so on; `map[fd:3]` is the map with the number 3.
    pub maps: &'a [MapId],
}

/// A program that was verified, with what the verifier learned of it.
#[derive(Debug)]
pub struct Program {
    code: Code,
    verified: Verified,
    program_type: ProgramType,
}

impl Program {
    /// What it is.
    pub fn program_type(&self) -> ProgramType {
        self.program_type
    }

    /// What the verifier learned of it.
    pub fn verified(&self) -> &Verified {
        &self.verified
    }
}

/// The number of a program of a [`Machine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId(pub u32);

/// Programs and maps of one owner.
#[derive(Debug)]
pub struct Machine {
    /// The maps.
    pub maps: Maps,
    programs: Vec<Option<Program>>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// `r0`, or why there is none.
    pub result: Result<u64, Fault>,
    /// Instructions that were run, of the budget: a constant of 64 bits counts twice, and memory that helpers copy counts by words.
    /// The budget is looked at where a stretch without jumps ends.
    pub instructions: u64,
}

impl Machine {
    /// Without programs.
    pub fn new(maps: Maps) -> Self {
        Machine { maps, programs: Vec::new() }
    }

    /// Verifies a program and keeps it.
    pub fn load(&mut self, spec: ProgramSpec<'_>) -> Result<ProgramId, Refusal> {
        let verified = verify::verify(spec.program_type, spec.insns, &self.maps, spec.maps)?;
        let code = Code::new(spec.insns, spec.maps);
        let program = Some(Program { code, verified, program_type: spec.program_type });
        let id = match self.programs.iter().position(Option::is_none) {
            Some(free) => {
                self.programs[free] = program;
                free
            }
            None => {
                self.programs.push(program);
                self.programs.len() - 1
            }
        };
        Ok(ProgramId(id as u32))
    }

    /// The program with this number. `EBADF` if there is none.
    pub fn program(&self, id: ProgramId) -> Result<&Program, Errno> {
        self.programs.get(id.0 as usize).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    /// Forgets a program.
    pub fn unload(&mut self, id: ProgramId) -> Result<(), Errno> {
        self.programs.get_mut(id.0 as usize).and_then(Option::take).map(|_| ()).ok_or(Errno::EBADF)
    }

    /// Runs a program on a context, within a budget of instructions. `EBADF` if there is no such program.
    pub fn run(
        &mut self,
        id: ProgramId,
        context: &mut [u8],
        world: &mut dyn World,
        budget: u64,
    ) -> Result<Ran, Errno> {
        let Machine { maps, programs } = self;
        let of = |number: u32| programs.get(number as usize).and_then(Option::as_ref);
        let program = of(id.0).ok_or(Errno::EBADF)?;
        // Programs go on in those of their own type alone.
        let next = |number: u32| {
            of(number).filter(|next| next.program_type == program.program_type).map(|next| &next.code)
        };
        let mut run = Run::new(maps, context, world, &next, budget);
        let result = run.run(&program.code);
        Ok(Ran { result, instructions: budget - run.budget })
    }
}

/// Runs instructions that nobody verified, with these numbers in `r1` and `r2`; an argument that is `None` is the context.
///
/// For tests of the interpreter and of the verifier: whatever the instructions are, they touch nothing but the maps and the context,
/// and end with a [`Fault`] if they try.
pub fn run_unverified(
    insns: &[Insn],
    maps: &mut Maps,
    context: &mut [u8],
    arguments: [Option<u64>; 2],
    world: &mut dyn World,
    budget: u64,
) -> Ran {
    let code = Code::new(insns, &[]);
    let none = |_| None;
    let mut run = Run::new(maps, context, world, &none, budget);
    run.arguments = arguments.map(|argument| argument.unwrap_or(crate::memory::CONTEXT_POINTER));
    let result = run.run(&code);
    Ran { result, instructions: budget - run.budget }
}
