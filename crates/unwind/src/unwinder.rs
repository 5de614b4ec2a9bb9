//! From the steps of a replay to records with whole callchains.

use crate::code;
use crate::objects::{Object, Objects};
use crate::registers::{Registers, address, fp, ip, sp};
use crate::rules::Rule;
use crate::stack::{End, Stack};
use perfuse_abi::ByteOrder;
use perfuse_abi::record::{Callchain, CallchainContext, Decoded, Record, Sample};
use perfuse_abi::regs::Arch;
use perfuse_abi::wire::Words;
use perfuse_data::replay::{Step, is_to_be_unwound};
use perfuse_data::session::{Level, Map, Session};
use perfuse_symbols::Symbolizer;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Rules that are remembered; then they are looked up again.
const MOST_RULES: usize = 1 << 18;
/// Instructions that are followed for each stack in the long run, and at once.
const FOLLOWED: usize = 4000;
const MOST_FOLLOWED: usize = 1 << 25;
/// The size of a page of x86-64, whose code alone is followed.
const PAGE_BYTES: usize = 4096;
/// Mappings that are remembered; then they are looked up again.
const MOST_MAPS: usize = 1 << 16;

/// Unwinds samples.
pub struct Unwinder {
    objects: Objects,
    arch: Option<Arch>,
    most: usize,
    /// By the state of the maps and the start of the mapping.
    maps: HashMap<(u64, u64), Option<Arc<Object>>>,
    /// By object and address.
    rules: HashMap<(u32, u64), Option<Arc<Rule>>>,
    /// Of code without tables, by the state of the maps, the address, and the last bits of the registers that frames are counted from.
    by_code: HashMap<(u64, u64, u64), Option<Arc<Rule>>>,
    /// Whether an address may be one that is returned to, by the state of the maps.
    returns: HashMap<(u64, u64), bool>,
    /// Instructions that may be followed, each a thirtieth of a microsecond: stacks of noise would take any time.
    budget: usize,
    ends: HashMap<End, u64>,
    most_copied: usize,
}

impl Unwinder {
    /// The most frames of a program's part, if nothing else is said: as many as the kernel samples.
    pub const MOST: usize = 127;

    /// With the files that a symbolizer finds; `machine` is what `uname -m` said where the recording was made.
    pub fn new(symbolizer: Arc<Symbolizer>, machine: &str) -> Self {
        Self::with(Objects::of(symbolizer), Arch::from_machine(machine).or(Arch::NATIVE))
    }

    /// Of processes that run on this machine, with the files that they have mapped, as far as this user may open them: those
    /// below `/proc/PID/root`, then those of the same name here. Where a mapping's build-id is known a file has to have it. Names
    /// are not looked at, and neither are debug files.
    pub fn of_running() -> Self {
        Self::with(Objects::of_running(), Arch::NATIVE)
    }

    fn with(objects: Objects, arch: Option<Arch>) -> Self {
        Unwinder {
            objects,
            arch,
            most: Self::MOST,
            maps: HashMap::new(),
            rules: HashMap::new(),
            by_code: HashMap::new(),
            returns: HashMap::new(),
            budget: MOST_FOLLOWED,
            ends: HashMap::new(),
            most_copied: 0,
        }
    }

    /// With at most so many frames of a program's part.
    #[must_use]
    pub fn with_most(self, most: usize) -> Self {
        Unwinder { most, ..self }
    }

    pub(crate) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// How many stacks ended in which way.
    pub fn ends(&self) -> impl Iterator<Item = (End, u64)> + '_ {
        self.ends.iter().map(|(&end, &count)| (end, count))
    }

    /// The most bytes that were copied of a stack.
    pub fn most_copied(&self) -> usize {
        self.most_copied
    }

    /// The record of a step with the callchain unwound, if it is a sample that is to be. `chain` is room for it.
    ///
    /// The chain is perf's: the kernel's part, then the program's, of which callers are told by the address before the one that is
    /// returned to.
    pub fn unwind<'c>(&mut self, step: &'c Step<'_>, chain: &'c mut Vec<u64>) -> Option<Decoded<'c>> {
        let (decoded, sample, event) = (step.decoded?, step.sample()?, step.entry.event()?);
        if !is_to_be_unwound(&event.attr) {
            return None;
        }
        self.sample(step.session, sample, event.format.order, chain)?;
        let mut sample = *sample;
        sample.callchain = Some(Callchain { words: Words::from(&chain[..]) });
        Some(Decoded { record: Record::Sample(sample), ..*decoded })
    }

    /// Puts the callchain of a sample into `chain`. `None` if it has it already, or no registers.
    pub fn sample(
        &mut self,
        session: &Session,
        sample: &Sample<'_>,
        order: ByteOrder,
        chain: &mut Vec<u64>,
    ) -> Option<End> {
        let is_user = |word| CallchainContext::of(word) == Some(CallchainContext::USER);
        let sampled = sample.callchain.as_ref()?;
        let registers = Registers::of(sample.regs_user.as_ref()?, self.arch?)?;
        if sampled.words.iter().any(is_user) {
            return None;
        }
        let tid = sample.tid.unwrap_or_default();
        chain.clear();
        chain.extend(sampled.words.iter());
        chain.push(CallchainContext::USER.0);
        let bytes = sample.stack_user.as_ref().map_or(&[][..], |stack| stack.copied());
        self.most_copied = self.most_copied.max(bytes.len());
        let stack = Stack { start: registers.sp()?, bytes, order };
        let end = self.walk(session, (tid.pid, tid.tid), registers, &stack, chain);
        *self.ends.entry(end).or_default() += 1;
        Some(end)
    }

    /// Puts where the program was into `chain`, behind what was sampled: for programs whose stacks are not unwound. `None` if
    /// there is no such place.
    pub(crate) fn place(&self, sample: &Sample<'_>, chain: &mut Vec<u64>) -> Option<End> {
        let is_user = |word| CallchainContext::of(word) == Some(CallchainContext::USER);
        let sampled = sample.callchain.as_ref().filter(|chain| !chain.words.iter().any(is_user))?;
        let place = sample.regs_user.as_ref()?.get(self.arch?.ip())?;
        chain.clear();
        chain.extend(sampled.words.iter());
        chain.extend([CallchainContext::USER.0, place]);
        Some(End::Unknown)
    }

    /// Adds the addresses of a program's part to `chain`.
    pub fn walk(
        &mut self,
        session: &Session,
        (pid, tid): (u32, u32),
        mut registers: Registers,
        stack: &Stack<'_>,
        chain: &mut Vec<u64>,
    ) -> End {
        let space = Space { session, pid, tid, maps: session.maps_of(pid, tid).id() };
        let maps = space.maps;
        self.budget = (self.budget + FOLLOWED).min(MOST_FOLLOWED);
        let mut is_exact = true;
        for _ in 0..self.most {
            let Some(at) = registers.ip() else { return End::Unknown };
            // A call may be the last instruction of a function: what follows is another one.
            let place = if is_exact { at } else { at.wrapping_sub(1) };
            chain.push(place);
            let found = session.resolve(pid, tid, Level::User, place);
            let object = found.and_then(|found| self.object(session, (maps, pid), &found.map));
            let rule = object.as_ref().zip(found).and_then(|(object, found)| self.rule(object, found.place));
            let caller = match (rule, &object) {
                (Some(rule), _) => {
                    let caller = rule.apply(&registers, stack, is_exact);
                    is_exact = rule.is_signal;
                    caller
                }
                _ if found.is_none() && !is_exact => Err(End::NoTable),
                _ => {
                    let caller = self.by_code(&space, at, &registers, (stack, is_exact));
                    is_exact = false;
                    // Where code keeps no frame pointer, the register has anything: what is found from known code must be code.
                    caller.unwrap_or_else(|| {
                        by_frame_pointer(&registers, stack).and_then(|caller| {
                            let back = caller.ip().map_or(0, |back| back.wrapping_sub(1));
                            let to = session.resolve(pid, tid, Level::User, back);
                            let fits = to.map_or(found.is_none(), |to| to.map.may_be_code());
                            fits.then_some(caller).ok_or(End::NoTable)
                        })
                    })
                }
            };
            registers = match caller {
                Ok(caller) => caller,
                Err(end) => return end,
            };
        }
        End::Most
    }

    fn rule(&mut self, object: &Arc<Object>, place: u64) -> Option<Arc<Rule>> {
        if let Some(known) = self.rules.get(&(object.number, place)) {
            return known.clone();
        }
        let rule = object.rule(place).map(Arc::new);
        if self.rules.len() >= MOST_RULES {
            self.rules.clear();
        }
        self.rules.insert((object.number, place), rule.clone());
        rule
    }

    /// The caller by what the code at an address is going to do; `None` where that tells nothing.
    fn by_code(
        &mut self,
        space: &Space<'_>,
        at: u64,
        registers: &Registers,
        (stack, is_exact): (&Stack<'_>, bool),
    ) -> Option<Result<Registers, End>> {
        if registers.arch != Arch::X86_64 {
            return None;
        }
        let low = |number| registers.get(number).map(|value| value & 15);
        let lowest = low(sp(registers.arch))? << 8 | low(fp(registers.arch)).unwrap_or(0xff);
        let key = (space.maps, at, lowest << 1 | u64::from(is_exact));
        let rule = match self.by_code.get(&key) {
            Some(known) => known.clone(),
            None => {
                let mut budget = self.budget;
                let read = &mut |from, into: &mut [u8]| self.read(space, from, into);
                let rule = code::rule(read, at, &low, is_exact, &mut budget).map(Arc::new);
                self.budget = budget;
                if self.by_code.len() >= MOST_RULES {
                    self.by_code.clear();
                }
                self.by_code.insert(key, rule.clone());
                rule
            }
        };
        let caller = match rule?.apply(registers, stack, is_exact) {
            Ok(caller) => caller,
            // The frame ends where nothing is copied any more.
            Err(End::Stack) => return Some(Err(End::Stack)),
            Err(_) => return None,
        };
        self.is_return_address(space, caller.ip()?).then_some(Ok(caller))
    }

    /// Whether an address may be one that is returned to: there is a call before it, or code that a process made, where interpreters put
    /// other ones.
    fn is_return_address(&mut self, space: &Space<'_>, back: u64) -> bool {
        let key = (space.maps, back);
        if let Some(&known) = self.returns.get(&key) {
            return known;
        }
        let Space { session, pid, tid, maps } = *space;
        let found = session.resolve(pid, tid, Level::User, back.wrapping_sub(1));
        let is_made = found.is_some_and(|found| {
            found.map.may_be_code() && self.object(session, (maps, pid), &found.map).is_none()
        });
        let is_one = is_made || {
            let mut before = [0; 7];
            let len = self.read(space, back.wrapping_sub(before.len() as u64), &mut before);
            code::is_call_before(&before[..len])
        };
        if self.returns.len() >= MOST_RULES {
            self.returns.clear();
        }
        self.returns.insert(key, is_one);
        is_one
    }

    /// Reads code at an address: from the file that is mapped there, or, of a process that runs, from its memory. Tells how many bytes
    /// there are.
    fn read(&mut self, space: &Space<'_>, at: u64, into: &mut [u8]) -> usize {
        let Space { session, pid, tid, maps } = *space;
        let Some(found) = session.resolve(pid, tid, Level::User, at) else { return 0 };
        let left = found.map.end.saturating_sub(at).min(into.len() as u64) as usize;
        let into = &mut into[..left];
        match self.object(session, (maps, pid), &found.map) {
            Some(object) => object.code(found.place, into),
            None if self.objects.are_running() && found.map.may_be_code() => {
                // Pages that are not there may be filled by somebody who never does: nobody waits for him.
                let there = perfuse_proc::read::bytes_at_hand(pid, at, into.len(), false, PAGE_BYTES);
                let memory = File::open(format!("/proc/{pid}/mem"));
                memory.and_then(|memory| memory.read_at(&mut into[..there], at)).unwrap_or(0)
            }
            None => 0,
        }
    }

    /// The object of a mapping, if it has tables or code that is followed.
    fn object(&mut self, session: &Session, (maps, pid): (u64, u32), map: &Map) -> Option<Arc<Object>> {
        if let Some(known) = self.maps.get(&(maps, map.start)) {
            return known.clone();
        }
        let object = self.objects.get(session.object(map.object), map, pid);
        if self.maps.len() >= MOST_MAPS {
            self.maps.clear();
        }
        self.maps.insert((maps, map.start), object.clone());
        object
    }
}

/// The memory of a thread's process.
#[derive(Clone, Copy)]
struct Space<'s> {
    session: &'s Session,
    pid: u32,
    tid: u32,
    /// The state of its maps.
    maps: u64,
}

/// The caller by the frame pointer.
fn by_frame_pointer(registers: &Registers, stack: &Stack<'_>) -> Result<Registers, End> {
    let arch = registers.arch;
    let frame = registers.get(fp(arch)).ok_or(End::Unknown)?;
    if frame == 0 {
        return Err(End::Root);
    }
    if frame < registers.sp().unwrap_or(0) {
        return Err(End::NoTable);
    }
    let (next, back) = (stack.word(frame), frame.checked_add(8).and_then(|at| stack.word(at)));
    let (Some(next), Some(back)) = (next, back) else { return Err(End::Stack) };
    let back = address(arch, back);
    if back == 0 {
        return Err(End::Root);
    }
    let mut caller = *registers;
    caller.set(fp(arch), next);
    caller.set(sp(arch), frame.wrapping_add(16));
    caller.set(ip(arch), back);
    Ok(caller)
}
