//! Texts that calls are given, copied by a program as the call begins: by the time somebody reads its record, the process may have
//! ended, or have another text there. Addresses that calls give back (`accept`, `recvfrom`) are copied as they end.
//!
//! Each thread has a number of places that it fills in turn. Whoever reads records of entries looks for the copy by the call, the address
//! and the time. A text that is not in memory yet (the call itself fetches it) cannot be copied.

use super::keys::registers;
use super::text::{END, ENTER, FORK, LEAVE, LOOK, insert, store, unknown};
use super::{Element, InKernel, NUMBERS, Whose, assembled, word};
use crate::calls::address::{LONGEST_ADDRESS, socket_address};
use crate::calls::table::{Argument, CallSet, Calls};
use perfuse_abi::regs::Arch;
use perfuse_bpf::map::flag::NO_PREALLOC;
use perfuse_bpf::{AssembleError, Insn, MapKind, MapSpec};
use std::collections::HashMap;

/// Numbers of the maps; the first ones are those of [`InKernel`].
const KINDS: usize = 3;
const COPIES: usize = 4;

/// Of a thread the map has how many calls it has made, a word of no use, and its state.
const THREAD_BYTES: usize = 24;

/// A call's arguments that are texts: at most so many, each in a word of the map.
const MOST_TEXTS: usize = 3;
const KIND_BYTES: usize = 4 * 4;
const PEER: usize = 4 * MOST_TEXTS;

/// Longer texts are cut.
const LONGEST: usize = 256;

/// Before a text: the call, the address, the time, and the length of what follows.
const HEAD: usize = 32;

/// So many bytes below the end of the stack a copy is made.
const BELOW: usize = 16 + HEAD + LONGEST;

/// Places of a thread.
const PLACES: u64 = 1 << 13;

/// A copy is that of a record if no more lies between them, in nanoseconds.
const APART_NS: u64 = 1_000_000;

/// Copies are looked for in so many places around the one that is expected.
const AROUND: u64 = 8;

/// The same of a thread that is new: a command may have been looked for in so many folders of `PATH` before it was found.
const AT_FIRST: u64 = 64;

/// The program that copies texts, and where copies are expected.
#[derive(Clone, Debug)]
pub struct CallTexts {
    whose: Whose,
    wanted: CallSet,
    /// By thread, the number of its next call.
    next: HashMap<u32, u64>,
}

/// So many threads have a next call; of others the search begins anew.
const MOST_THREADS: usize = 1 << 14;

/// Copies the register whose place, and one more, is in `r1` to so many bytes below the end of the stack.
fn read_register(below: usize) -> String {
    format!("r3 = r9\nr3 += r1\nr3 += -1\nr1 = r10\nr1 += -{below}\nr2 = 8\ncall probe_read_kernel")
}

impl CallTexts {
    /// Of these calls, as far as they are given texts.
    pub fn new(whose: Whose, wanted: CallSet) -> Self {
        CallTexts { whose, wanted, next: HashMap::new() }
    }

    /// The number of the map with the copies.
    pub const COPIES: usize = COPIES;

    /// The maps, to be made in this order.
    pub fn maps(&self) -> Vec<MapSpec> {
        let growing =
            |key, value| MapSpec { flags: NO_PREALLOC, ..MapSpec::new(MapKind::Hash, key, value, 1 << 16) };
        vec![
            growing(8, THREAD_BYTES as u32),
            growing(4, 8),
            MapSpec::new(MapKind::Array, 4, 24, 1),
            MapSpec::new(MapKind::Array, 4, NUMBERS * KIND_BYTES as u32, 1),
            MapSpec::new(MapKind::LruHash, 8, (HEAD + LONGEST) as u32, 1 << 15),
        ]
    }

    /// Where the texts of a call are: of each the place of its register, the place of the register with its length, and of its argument.
    /// Behind them, where an address is that the call gives back, and where its length is.
    fn kinds(&self, number: u64, calls: &Calls, arch: Arch) -> [u8; KIND_BYTES] {
        let mut kinds = [0; KIND_BYTES];
        let spec = calls.get(number).filter(|_| self.wanted.has(number));
        let arguments = spec.iter().flat_map(|spec| spec.arguments.iter().flatten()).enumerate();
        let registers = registers(arch);
        if let Some((index, _)) = arguments.clone().find(|(_, argument)| argument.is_peer()) {
            let [address, len] =
                [index, index + 1].map(|index| registers.get(index).map_or(0, |at| *at as u8 + 1));
            (kinds[PEER], kinds[PEER + 1]) = (address, len);
        }
        let texts = arguments.filter(|(_, argument)| argument.is_text());
        for ((index, argument), kind) in texts.take(MOST_TEXTS).zip(kinds.chunks_exact_mut(4)) {
            // One more, so that nothing is 0; all of them fit.
            let place = |index: usize| registers.get(index).map_or(0, |at| *at as u8 + 1);
            kind[0] = place(index);
            kind[1] = if argument.is_socket_address() { place(index + 1) } else { 0 };
            kind[2] = index as u8;
        }
        kinds
    }

    /// What the maps hold before the programs run.
    pub fn beginning(&self, calls: &Calls, arch: Arch) -> Vec<Element> {
        let kinds = (0..NUMBERS).flat_map(|number| self.kinds(number.into(), calls, arch)).collect();
        vec![(KINDS, vec![0; 4], kinds)]
    }

    /// The programs, each with the name of the tracepoint that runs it.
    ///
    /// # Errors
    ///
    /// None of this crate's own making.
    pub fn programs(
        &self,
        calls: &Calls,
        arch: Arch,
    ) -> Result<Vec<(&'static str, Vec<Insn>)>, AssembleError> {
        let mut texts = vec![(ENTER, self.enter()), (END, InKernel::forget(""))];
        if !self.wanted.within(&calls.with_peers()).is_empty() {
            texts.push((LEAVE, self.exit(arch)));
        }
        if self.whose == Whose::Followed {
            texts.push((FORK, InKernel::born(THREAD_BYTES)));
        }
        assembled(texts)
    }

    fn enter(&self) -> String {
        let texts: String = (0..MOST_TEXTS).map(Self::copy).collect();
        self.at_call(0, "r6 = *(u64 *)(r1 +8)\nr9 = *(u64 *)(r1 +0)", &texts)
    }

    /// As a call ends that gives an address back. The number of the call is among the registers.
    fn exit(&self, arch: Arch) -> String {
        let number = match arch {
            Arch::X86_64 => 120,
            _ => 280,
        };
        let read = format!(
            "r9 = *(u64 *)(r1 +0)
             r2 = *(u64 *)(r1 +8)
             if r2 s< 0 goto out
             r1 = {}
             {}
             r6 = *(u32 *)(r10 -8)",
            number + 1,
            read_register(8)
        );
        let (address, len, text) = (BELOW - 8, BELOW - 24, BELOW - HEAD);
        let copy = format!(
            "{}
             r1 = *(u8 *)(r8 +{})
             {}
             r3 = *(u64 *)(r10 -{len})
             *(u64 *)(r10 -{len}) = 0
             r1 = r10
             r1 += -{len}
             r2 = 4
             call probe_read_user
             if r0 != 0 goto out
             r2 = *(u32 *)(r10 -{len})
             if r2 == 0 goto none
             if r2 <= {LONGEST_ADDRESS} goto fits
             r2 = {LONGEST_ADDRESS}
             fits:
             *(u64 *)(r10 -{len}) = r2
             r1 = r10
             r1 += -{text}
             r3 = *(u64 *)(r10 -{address})
             call probe_read_user
             if r0 != 0 goto out
             none:
             {}",
            read_register(address),
            PEER + 1,
            read_register(len),
            Self::keep(MOST_TEXTS),
        );
        self.at_call(PEER, &read, &copy)
    }

    /// The steps at a call whose kind at this place is not 0: `read` has its number in `r6` and the registers in `r9`; `copy` finds its
    /// kind in `r1`, and as told for [`copy`](Self::copy).
    fn at_call(&self, kind: usize, read: &str, copy: &str) -> String {
        // The first call of a thread that waits is the one by which it is executed.
        let (find, forget) = unknown(self.whose, "0");
        let zeros: String = (0..(HEAD + LONGEST) / 8).map(|word| store(BELOW - word * 8, "0")).collect();
        format!(
            "{read}
             if r6 > {last} goto out
             r8 = map[idx:{KINDS}][0]+0
             r1 = r6
             r1 *= {KIND_BYTES}
             r8 += r1
             r1 = *(u8 *)(r8 +{kind})
             if r1 == 0 goto out
             {LOOK}
             if r0 != 0 goto known
             {find}
             {insert}
             {forget}
             {LOOK}
             if r0 == 0 goto out
             known:
             r1 = *(u64 *)(r0 +0)
             r2 = r1
             r2 += 1
             *(u64 *)(r0 +0) = r2
             r7 = r1
             r7 &= {places}
             {zeros}
             *(u64 *)(r10 -{BELOW}) = r6
             call ktime_get_ns
             *(u64 *)(r10 -{time}) = r0
             r1 = *(u8 *)(r8 +{kind})
             {copy}
             out: r0 = 0
             exit",
            last = NUMBERS - 1,
            insert = insert(THREAD_BYTES),
            places = PLACES - 1,
            time = BELOW - 16,
        )
    }

    /// Copies a text: `r6` is the call, `r7` the place, `r8` the kinds, `r9` the registers; the copy is made [`BELOW`] the end of the stack.
    fn copy(index: usize) -> String {
        let (kind, address, len, text) = (4 * index, BELOW - 8, BELOW - 24, BELOW - HEAD);
        format!(
            "r1 = *(u8 *)(r8 +{kind})
             if r1 == 0 goto out
             {read_address}
             r1 = *(u8 *)(r8 +{len_kind})
             if r1 != 0 goto address{index}
             r1 = r10
             r1 += -{text}
             r2 = {LONGEST}
             r3 = *(u64 *)(r10 -{address})
             call probe_read_user_str
             if r0 s<= 0 goto next{index}
             goto read{index}
             address{index}:
             {read_len}
             r2 = *(u32 *)(r10 -{len})
             if r2 == 0 goto next{index}
             if r2 <= {LONGEST_ADDRESS} goto fits{index}
             r2 = {LONGEST_ADDRESS}
             fits{index}:
             *(u64 *)(r10 -{len}) = r2
             r1 = r10
             r1 += -{text}
             r3 = *(u64 *)(r10 -{address})
             call probe_read_user
             if r0 != 0 goto next{index}
             r0 = *(u64 *)(r10 -{len})
             read{index}:
             *(u64 *)(r10 -{len}) = r0
             {keep}
             next{index}:\n",
            len_kind = kind + 1,
            read_address = read_register(address),
            read_len = read_register(len),
            keep = Self::keep(index),
        )
    }

    /// Puts a copy into the map.
    fn keep(index: usize) -> String {
        format!(
            "call get_current_pid_tgid
             *(u32 *)(r10 -8) = r0
             r1 = r7
             r1 <<= 2
             r1 += {index}
             *(u32 *)(r10 -4) = r1
             r1 = map[idx:{COPIES}]
             r2 = r10
             r2 += -8
             r3 = r10
             r3 += -{BELOW}
             r4 = 0
             call map_update_elem"
        )
    }

    /// The texts of a call whose entry a record tells, by the places of their arguments, as far as they could be copied. `read` has the
    /// value of a key of [`COPIES`](Self::COPIES).
    pub fn of_call(
        &mut self,
        (tid, time): (u32, u64),
        number: u64,
        arguments: &[u64; 6],
        calls: &Calls,
        read: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Vec<(usize, String)> {
        let spec = calls.get(number).filter(|_| self.wanted.has(number));
        let arguments =
            spec.iter().flat_map(|spec| spec.arguments.iter().flatten()).zip(arguments).enumerate();
        let texts = arguments.filter(|(_, (argument, _))| argument.is_text()).take(MOST_TEXTS);
        let texts = texts.zip(0..).map(|((at, (kind, address)), place)| (at, place, *kind, *address));
        self.found((tid, time), number, &texts.collect::<Vec<_>>(), read)
    }

    /// The address that a call has given back whose end a record tells, with the place of its argument. Told as those of
    /// [`of_call`](Self::of_call).
    pub fn of_end(
        &mut self,
        (tid, time): (u32, u64),
        number: u64,
        arguments: &[u64; 6],
        calls: &Calls,
        read: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Vec<(usize, String)> {
        let spec = calls.get(number).filter(|_| self.wanted.has(number));
        let arguments =
            spec.iter().flat_map(|spec| spec.arguments.iter().flatten()).zip(arguments).enumerate();
        let peer = arguments.filter(|(_, (argument, _))| argument.is_peer()).take(1);
        let peer = peer.map(|(at, (kind, address))| (at, MOST_TEXTS as u32, *kind, *address));
        self.found((tid, time), number, &peer.collect::<Vec<_>>(), read)
    }

    /// The copies of arguments, each with its place, the number of its copy, and its address.
    fn found(
        &mut self,
        (tid, time): (u32, u64),
        number: u64,
        texts: &[(usize, u32, Argument, u64)],
        read: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Vec<(usize, String)> {
        if texts.is_empty() {
            return Vec::new();
        }
        if self.next.len() >= MOST_THREADS {
            self.next.clear();
        }
        let known = self.next.get(&tid).copied();
        let (expected, around) = known.map_or((0, AT_FIRST), |expected| (expected, AROUND));
        let key = |place: u64, index: u32| {
            [tid, ((place % PLACES) as u32) << 2 | index].map(u32::to_ne_bytes).concat()
        };
        // The one that is expected, then those after it and before it; then those of that time.
        let near = |place: u64, around: u64| {
            (0..around).flat_map(move |far| [place.wrapping_add(far), place.wrapping_sub(far + 1)])
        };
        let (_, index, ..) = texts[0];
        let far = || of_time(expected, time, &|place| Some(word(&read(&key(place, index))?, 16)));
        let far = std::iter::once_with(far).flatten().flat_map(|place| near(place, AROUND));
        for place in near(expected, around).chain(far) {
            let copies = texts.iter().filter_map(|(argument, index, kind, address)| {
                let copy = read(&key(place, *index))?;
                let is_its = word(&copy, 0) == number
                    && word(&copy, 8) == *address
                    && word(&copy, 16).abs_diff(time) < APART_NS;
                is_its.then_some((*argument, *kind, copy))
            });
            let copies: Vec<_> = copies.collect();
            if !copies.is_empty() {
                self.next.insert(tid, place.wrapping_add(1));
                return copies
                    .iter()
                    .filter_map(|(at, kind, copy)| Some((*at, text_of(*kind, copy)?)))
                    .collect();
            }
        }
        self.next.insert(tid, expected.wrapping_add(1));
        Vec::new()
    }
}

/// The last place that was filled up to a time, looked for from another one on: a thread that went to another cpu has its next calls in
/// another ring, which may be read before.
fn of_time(from: u64, time: u64, time_at: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
    let begun = time_at(from).or_else(|| time_at(from.wrapping_sub(1)))?;
    let is_later = begun < time;
    // Whether a place is on the same side of the time as the first one, and not of a turn before.
    let is_short = |place: u64| {
        time_at(place).is_some_and(|at| if is_later { (begun..=time).contains(&at) } else { at > time })
    };
    let place = |far: u64| if is_later { from.wrapping_add(far) } else { from.wrapping_sub(far) };
    let (mut near, mut step) = (0, 1);
    while step < PLACES && is_short(place(near + step)) {
        (near, step) = (near + step, 2 * step);
    }
    while step > 1 {
        step /= 2;
        if is_short(place(near + step)) {
            near += step;
        }
    }
    Some(place(near))
}

/// The text of a copy.
fn text_of(kind: Argument, copy: &[u8]) -> Option<String> {
    let bytes = copy.get(HEAD..)?.get(..usize::try_from(word(copy, 24)).ok()?)?;
    if kind.is_socket_address() || kind.is_peer() {
        return socket_address(bytes);
    }
    let text = bytes.split(|byte| *byte == 0).next()?;
    let cut = if text.len() + 1 >= LONGEST { "..." } else { "" };
    Some(String::from_utf8_lossy(text).into_owned() + cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_by_its_time() {
        // Places 100 to 4999 are filled, one each 10 ns; of one nothing could be copied, and a turn before filled those behind.
        let time_at = |place: u64| match place {
            1234 => None,
            100..5000 => Some(place * 10),
            5000..8000 => Some(place / 10),
            _ => None,
        };
        for (from, time, found) in [
            (200, 30_005, 3000),
            (4000, 2_001, 201),
            (100, 60_000, 4999),
            (300, 3_000, 300),
            (1235, 20_000, 2000),
        ] {
            let place = of_time(from, time, &time_at).expect("a place");
            assert!(place.abs_diff(found) <= 1, "{from} {time}: {place}");
        }
        assert_eq!(of_time(20, 5, &time_at), None);
    }
}
