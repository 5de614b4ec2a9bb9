//! Registers of a stopped tracee: what samples, system calls and stack walks take from them, the same for
//! every architecture that is known here.

use crate::proc;
use crate::ptrace::{self, CallStop, Tid};
use crate::remote;
pub use crate::width::Width;
use perfuse_abi::Errno;
use perfuse_abi::record::RegsAbi;
use perfuse_abi::regs::Arch;

/// `NT_PRSTATUS`.
const GENERAL: i32 = 1;
/// `NT_ARM_SYSTEM_CALL`: the number of the system call that is about to be done.
const SYSTEM_CALL: i32 = 0x404;

#[cfg(target_arch = "x86_64")]
pub(crate) const WORDS: usize = 27;
#[cfg(target_arch = "aarch64")]
pub(crate) const WORDS: usize = 34;

/// `socketcall(2)` of i386.
const SOCKETCALL: u64 = 102;

/// The architecture that this is compiled for.
#[cfg(target_arch = "x86_64")]
pub const ARCH: Arch = Arch::X86_64;
/// The architecture that this is compiled for.
#[cfg(target_arch = "aarch64")]
pub const ARCH: Arch = Arch::Arm64;

/// The general registers of a tracee, in the kernel's `struct user_regs_struct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    words: [u64; WORDS],
    bytes: usize,
    width: Width,
}

/// Places in `struct user_regs_struct`, and the instruction that calls the system.
#[cfg(target_arch = "x86_64")]
mod at {
    pub(super) const FRAME: usize = 4;
    pub(super) const RESULT: usize = 10;
    pub(super) const CALL: usize = 15;
    pub(super) const IP: usize = 16;
    pub(super) const CODE_SEGMENT: usize = 17;
    pub(super) const STACK: usize = 19;
    /// rdi, rsi, rdx, r10, r8, r9.
    pub(super) const ARGUMENTS: [usize; 6] = [14, 13, 12, 7, 9, 8];
    /// ebx, ecx, edx, esi, edi, ebp.
    pub(super) const NARROW_ARGUMENTS: [usize; 6] = [5, 11, 12, 13, 14, 4];
    /// ebx ecx edx esi edi ebp eax ds es fs gs orig_eax eip cs eflags esp ss: the registers of a 32-bit program.
    pub(super) const NARROW: [usize; 17] = [5, 11, 12, 13, 14, 4, 10, 23, 24, 25, 26, 15, 16, 17, 18, 19, 20];
    /// In the order of `perf_regs.h`: AX, BX, CX, DX, SI, DI, BP, SP, IP, FLAGS, CS, SS, DS, ES, FS, GS,
    /// R8 to R15.
    pub(super) const SAMPLED: [usize; 24] =
        [10, 5, 11, 12, 13, 14, 4, 19, 16, 18, 17, 20, 23, 24, 25, 26, 9, 8, 7, 6, 3, 2, 1, 0];
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    pub(super) const NUMBERED: [usize; 16] = [10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0];
    pub(super) const INSTRUCTION: &[u8] = &[0x0f, 0x05];
    /// `int 0x80`, which stands even behind the faster ones of the vdso.
    pub(super) const NARROW_INSTRUCTION: &[u8] = &[0xcd, 0x80];
}

#[cfg(target_arch = "aarch64")]
mod at {
    pub(super) const FRAME: usize = 29;
    pub(super) const LINK: usize = 30;
    pub(super) const RESULT: usize = 0;
    pub(super) const CALL: usize = 8;
    pub(super) const IP: usize = 32;
    pub(super) const STACK: usize = 31;
    pub(super) const ARGUMENTS: [usize; 6] = [0, 1, 2, 3, 4, 5];
    pub(super) const NARROW_ARGUMENTS: [usize; 6] = ARGUMENTS;
    pub(super) const INSTRUCTION: &[u8] = &[0x01, 0x00, 0x00, 0xd4];
    pub(super) const NARROW_INSTRUCTION: &[u8] = &[0x00, 0x00, 0x00, 0xef];
}

/// A call that a thread was seen to sleep in. On arm64 a call's result takes the place of its first argument, which only
/// kernels before 6.12.117 show afterwards: on others a call can be begun again if it was looked at before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenCall {
    number: u64,
    arguments: [u64; 6],
    stack: u64,
    ip: u64,
}

impl SeenCall {
    /// The one that a thread is in now, by `/proc/PID/syscall`; `None` if it runs, or is in none.
    pub(crate) fn of(tid: Tid) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{tid}/syscall")).ok()?;
        let mut words = text.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = next()?;
        }
        Some(SeenCall { number, arguments, stack: next()?, ip: next()? })
    }

    /// Whether a thread that has these registers has just ended it.
    fn is_behind(&self, registers: &Registers) -> bool {
        let others = (1..6).all(|index| registers.argument(index) == self.arguments[index]);
        others && (self.number, self.stack, self.ip) == (registers.call(), registers.stack(), registers.ip())
    }

    /// The first argument of the call behind which a stopped thread is: as the kernel tells of those in a call, which the
    /// thread is for as long as this takes, or as it was seen before.
    fn lost_argument(tid: Tid, registers: &Registers, seen: Option<&SeenCall>) -> Option<u64> {
        ptrace::set_register_set(tid, SYSTEM_CALL, &[registers.call()], 4).ok()?;
        let told = SeenCall::of(tid).map(|call| call.arguments[0]);
        ptrace::set_register_set(tid, SYSTEM_CALL, &[u64::MAX], 4).ok()?;
        let told = told.filter(|told| *told != registers.words[0]);
        told.or_else(|| seen.filter(|seen| seen.is_behind(registers)).map(|seen| seen.arguments[0]))
    }
}

impl Registers {
    /// Those of a stopped tracee.
    pub fn of(tid: Tid) -> Result<Self, Errno> {
        let mut words = [0; WORDS];
        let bytes = ptrace::get_register_set(tid, GENERAL, &mut words)?;
        let mut registers = Registers { words, bytes, width: Width::Native };
        if registers.is_narrow() {
            registers.width = Width::Narrow;
            registers.widen();
        }
        Ok(registers)
    }

    /// The same, of a thread in a system call that was made in this way: 64-bit programs can make calls of 32-bit
    /// ones.
    pub fn in_call(tid: Tid, width: Width) -> Result<Self, Errno> {
        Registers::of(tid).map(|registers| Registers { width, ..registers })
    }

    /// Gives them to a stopped tracee. A 32-bit arm program's stay as they are: `EOPNOTSUPP`.
    pub fn give(&self, tid: Tid) -> Result<(), Errno> {
        let words = if self.is_narrow() { self.narrowed()? } else { self.words };
        ptrace::set_register_set(tid, GENERAL, &words, self.bytes)
    }

    /// All of them, where they stand here.
    pub(crate) fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    /// Other [words](Self::words) of the same tracee.
    pub(crate) fn with_words(&self, words: [u64; WORDS]) -> Self {
        Registers { words, ..*self }
    }

    /// Whether the call may be one of many behind one number, of 32-bit programs: `socketcall(2)`.
    pub(crate) fn may_be_one_of_many(&self) -> bool {
        cfg!(target_arch = "x86_64") && self.call() == SOCKETCALL
    }

    /// It is a 32-bit program.
    pub fn is_narrow(&self) -> bool {
        self.bytes < size_of_val(&self.words)
    }

    /// The registers of a 32-bit program stand in the places of those that they are part of.
    #[cfg(target_arch = "x86_64")]
    fn widen(&mut self) {
        let narrow = self.halves();
        self.words = [0; WORDS];
        for (place, value) in at::NARROW.into_iter().zip(narrow) {
            self.words[place] = value.into();
        }
    }

    /// The registers as a 32-bit program has them.
    #[cfg(target_arch = "x86_64")]
    fn narrowed(&self) -> Result<[u64; WORDS], Errno> {
        let mut words = [0; WORDS];
        for (index, place) in at::NARROW.into_iter().enumerate() {
            words[index / 2] |= u64::from(self.words[place] as u32) << (32 * (index % 2));
        }
        Ok(words)
    }

    #[cfg(target_arch = "aarch64")]
    fn narrowed(&self) -> Result<[u64; WORDS], Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The registers of a 32-bit program stand in the places of those that they are part of.
    #[cfg(target_arch = "aarch64")]
    fn widen(&mut self) {
        let narrow = self.halves();
        self.words = [0; WORDS];
        for (place, value) in narrow.into_iter().take(13).enumerate() {
            self.words[place] = value.into();
        }
        (self.words[at::STACK], self.words[at::LINK]) = (narrow[13].into(), narrow[14].into());
        (self.words[at::IP], self.words[at::FRAME]) = (narrow[15].into(), narrow[11].into());
    }

    fn halves(&self) -> [u32; 18] {
        std::array::from_fn(|index| (self.words[index / 2] >> (32 * (index % 2))) as u32)
    }

    /// The instruction pointer.
    pub fn ip(&self) -> u64 {
        self.words[at::IP]
    }

    /// Sets the instruction pointer.
    pub fn set_ip(&mut self, ip: u64) {
        self.words[at::IP] = ip;
    }

    /// The stack pointer.
    pub fn stack(&self) -> u64 {
        self.words[at::STACK]
    }

    /// Sets the stack pointer.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn set_stack(&mut self, stack: u64) {
        self.words[at::STACK] = stack;
    }

    /// A register by the number that instructions have for it.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn numbered(&self, number: u8) -> u64 {
        self.words[at::NUMBERED[usize::from(number & 15)]]
    }

    /// Where a function without a frame of its own returns to, if a register has it.
    pub fn link(&self) -> Option<u64> {
        #[cfg(target_arch = "aarch64")]
        return Some(self.words[at::LINK]);
        #[cfg(target_arch = "x86_64")]
        None
    }

    /// Whether a thread has just come to where it stands by a return, as far as that can be seen: the address is still in the register
    /// for it, or below the stack.
    pub(crate) fn have_returned(&self, tid: Tid) -> bool {
        if let Some(link) = self.link() {
            return link == self.ip();
        }
        let mut below = [0; 8];
        if crate::remote::read_exact(tid, self.stack().wrapping_sub(8), &mut below).is_err() {
            return true;
        }
        let word = u64::from_le_bytes(below);
        // 32-bit functions that return a struct take an argument away with it.
        let halves = [word & u64::from(u32::MAX), word >> 32];
        word == self.ip() || self.abi() == RegsAbi::ABI_32 && halves.contains(&self.ip())
    }

    /// The frame pointer.
    pub fn frame(&self) -> u64 {
        self.words[at::FRAME]
    }

    /// How the system call was made, or would be.
    pub fn width(&self) -> Width {
        self.width
    }

    /// The number of the system call at whose entry the tracee is, in its own way to make calls; at its exit the
    /// architecture may have lost it.
    pub fn call(&self) -> u64 {
        self.words[at::CALL]
    }

    /// Whether a stopped tracee is in a system call: it was not interrupted in its own code.
    pub(crate) fn in_system_call(&self, tid: Tid) -> bool {
        // gVisor is not known to show calls that are over as such.
        self.shows_a_call(tid) && (proc::shows_the_dead() || self.width_of_call(tid).is_some())
    }

    /// Whether the system call whose entry or exit the tracee is at may map files, or make mapped ones executable; of a
    /// 32-bit caller any may.
    pub(crate) fn maps_memory(&self) -> bool {
        let maps = [libc::SYS_mmap, libc::SYS_mprotect].contains(&(self.call() as libc::c_long));
        maps || self.is_narrow()
    }

    /// Whether the system call that the tracee is in ends it.
    pub(crate) fn ends_thread(&self) -> bool {
        let (exit, exit_group) = match self.width {
            Width::Native => (libc::SYS_exit, libc::SYS_exit_group),
            Width::Narrow => (1, 252),
        };
        [exit, exit_group].contains(&(self.call() as libc::c_long))
    }

    fn shows_a_call(&self, tid: Tid) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let _ = tid;
            // Of 32-bit programs too: Linux shows the number as one with a sign.
            self.words[at::CALL] as i32 >= 0
        }
        #[cfg(target_arch = "aarch64")]
        {
            let mut call = [0u64];
            let got = ptrace::get_register_set(tid, SYSTEM_CALL, &mut call);
            got.is_ok_and(|bytes| bytes >= 4) && call[0] as i32 >= 0
        }
    }

    fn place_of(&self, argument: usize) -> usize {
        match self.width {
            Width::Native => at::ARGUMENTS[argument],
            Width::Narrow => at::NARROW_ARGUMENTS[argument],
        }
    }

    /// An argument of a system call, at its entry.
    pub fn argument(&self, index: usize) -> u64 {
        self.width.argument(self.words[self.place_of(index)])
    }

    /// Sets an argument.
    pub fn set_argument(&mut self, index: usize, value: u64) {
        self.words[self.place_of(index)] = self.width.argument(value);
    }

    /// The result of a system call: a number, or minus an errno.
    pub fn result(&self) -> i64 {
        let word = self.words[at::RESULT] as i64;
        // Addresses beyond 2 GiB are no negative numbers.
        let errno = i64::from(word as i32);
        if self.is_narrow() && (-4095..0).contains(&errno) { errno } else { word }
    }

    /// Where in a system call a thread is that [stopped for it](ptrace::Status::Syscall), for kernels that do not
    /// [tell](ptrace::call_stop), as gVisor's. `has_begun`: at the stop before one began.
    pub(crate) fn call_stop(&self, has_begun: bool) -> CallStop {
        // A call that begins has no result yet; on arm64 a register tells.
        #[cfg(target_arch = "x86_64")]
        let begins = !has_begun && self.result() == -i64::from(libc::ENOSYS);
        #[cfg(target_arch = "aarch64")]
        let begins = !has_begun && self.words[7] == 0;
        match begins {
            true => CallStop::Entry {
                number: self.call(),
                arguments: std::array::from_fn(|index| self.argument(index)),
            },
            false => CallStop::Exit { result: self.result() },
        }
    }

    /// The answer of a system call, or its errno.
    pub(crate) fn answer(&self) -> Result<u64, Errno> {
        match self.result() {
            error @ -4095..=-1 => Err(Errno(-error as i32)),
            answer => Ok(answer as u64),
        }
    }

    /// Sets the result of a system call.
    pub fn set_result(&mut self, result: i64) {
        self.words[at::RESULT] = result as u64;
    }

    /// At the entry of a system call: the tracee is to do this one (a number of this program's), with these
    /// registers. `None`: none, its result is what is set.
    pub fn replace_call(&mut self, tid: Tid, call: Option<libc::c_long>) -> Result<(), Errno> {
        let call = call.map_or(Ok(u64::MAX), |call| self.width.number_of(call))?;
        #[cfg(target_arch = "x86_64")]
        {
            self.words[at::CALL] = call;
            self.give(tid)
        }
        // The number has a place of its own; the register in which it came stays as it is.
        #[cfg(target_arch = "aarch64")]
        {
            self.give(tid)?;
            ptrace::set_register_set(tid, SYSTEM_CALL, &[call], 4)
        }
    }

    /// The instruction with which the program calls the system.
    pub(crate) fn call_instruction(&self) -> &'static [u8] {
        if self.is_narrow() { at::NARROW_INSTRUCTION } else { at::INSTRUCTION }
    }

    /// Registers with which a tracee that is stopped outside of any system call does one, its
    /// [instruction](Self::call_instruction) at `site`. `EOPNOTSUPP`: one that 32-bit programs are not known to have.
    pub(crate) fn calling(
        &self,
        site: u64,
        call: libc::c_long,
        mut arguments: [u64; 6],
    ) -> Result<Self, Errno> {
        let width = if self.is_narrow() { Width::Narrow } else { Width::Native };
        let mut registers = Registers { width, ..*self };
        let number = width.number_of(call)?;
        if (width, call) == (Width::Narrow, libc::SYS_mmap) {
            arguments[5] >>= 12;
        }
        registers.set_ip(site);
        arguments.into_iter().enumerate().for_each(|(index, value)| registers.set_argument(index, value));
        #[cfg(target_arch = "x86_64")]
        {
            registers.words[at::RESULT] = number;
            // It came from no system call, so none is begun again.
            registers.words[at::CALL] = u64::MAX;
        }
        #[cfg(target_arch = "aarch64")]
        {
            registers.words[at::CALL] = number;
        }
        Ok(registers)
    }

    /// Where on the stack a function may be told where to return to; `None` where a register tells it. What lies right below the
    /// stack belongs to the program.
    pub(crate) fn return_slot(&self) -> Option<u64> {
        cfg!(target_arch = "x86_64").then(|| self.stack().wrapping_sub(136) & !7)
    }

    /// The same for a call behind which a function returns: to this place, which its [slot](Self::return_slot) has.
    pub(crate) fn returning_to(&self, place: u64) -> Self {
        let mut registers = *self;
        #[cfg(target_arch = "x86_64")]
        {
            let _ = place;
            registers.words[at::STACK] = self.return_slot().unwrap_or_default();
        }
        #[cfg(target_arch = "aarch64")]
        {
            registers.words[at::LINK] = place;
        }
        registers
    }

    /// Whether a system call has just ended with `EINTR`, as far as registers tell.
    pub(crate) fn was_interrupted(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        let in_call = self.words[at::CALL] as i32 >= 0;
        // The 32-bit ones of arm cannot be changed.
        #[cfg(target_arch = "aarch64")]
        let in_call = !self.is_narrow();
        in_call && self.result() == -i64::from(libc::EINTR)
    }

    /// The result of a system call that has just ended, if that counts bytes or messages, as far as registers tell. Those of
    /// arm64 do not tell whether there was a call: there a transfer that a stop cuts short stays short.
    pub(crate) fn transferred(&self) -> Option<u64> {
        #[cfg(target_arch = "x86_64")]
        let in_call = self.words[at::CALL] as i32 >= 0;
        #[cfg(target_arch = "aarch64")]
        let in_call = false;
        u64::try_from(self.result()).ok().filter(|done| in_call && *done > 0)
    }

    /// Whether a call that answered this was interrupted: the errors of which the program sees only the last one.
    pub(crate) fn is_interruption(result: i64) -> bool {
        const EINTR: i64 = libc::EINTR as i64;
        // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
        matches!(-result, 512 | 513 | 514 | 516 | EINTR)
    }

    /// Whether the kernel begins a call that answered this again by itself, unless a signal with a handler comes first.
    pub(crate) fn is_restart(result: i64) -> bool {
        Self::is_interruption(result) && result != -i64::from(libc::EINTR)
    }

    /// Of a call that has [just ended](Self::ended_call): registers with which this one is made in its place, or the same
    /// with other arguments.
    pub(crate) fn doing(&self, call: Option<libc::c_long>, arguments: [u64; 6]) -> Result<Self, Errno> {
        let number = call.map_or(Ok(self.call()), |call| self.width.number_of(call))?;
        let mut registers = *self;
        let len = if self.width == Width::Narrow { at::NARROW_INSTRUCTION } else { at::INSTRUCTION }.len();
        registers.set_ip(self.ip() - len as u64);
        arguments.into_iter().enumerate().for_each(|(index, value)| registers.set_argument(index, value));
        #[cfg(target_arch = "x86_64")]
        registers.set_result(number as i64);
        #[cfg(target_arch = "aarch64")]
        {
            registers.words[at::CALL] = number;
        }
        Ok(registers)
    }

    /// How the system call was made behind whose instruction a stopped tracee stands, if it stands there.
    fn width_of_call(&self, tid: Tid) -> Option<Width> {
        let mut code = vec![0; self.call_instruction().len()];
        remote::read_exact(tid, self.ip().wrapping_sub(code.len() as u64), &mut code).ok()?;
        match code.as_slice() {
            at::NARROW_INSTRUCTION => Some(Width::Narrow),
            at::INSTRUCTION => Some(Width::Native),
            _ => None,
        }
    }

    /// The call that has [just ended](Self::was_interrupted), if there was one and its arguments are known: registers that
    /// have them, and what this program calls it, if that is known. `seen`: the call that the thread slept in last.
    pub(crate) fn ended_call(
        &self,
        tid: Tid,
        seen: Option<&SeenCall>,
    ) -> Option<(Self, Option<libc::c_long>)> {
        let width = self.width_of_call(tid)?;
        let mut registers = Registers { width, ..*self };
        if cfg!(target_arch = "aarch64") {
            registers.words[0] = SeenCall::lost_argument(tid, self, seen)?;
        }
        #[cfg(target_arch = "x86_64")]
        if let (Width::Narrow, Some((call, arguments))) = (width, registers.behind_one_number(tid)) {
            let mut registers = registers;
            arguments.into_iter().enumerate().for_each(|(index, value)| registers.set_argument(index, value));
            return Some((registers, Some(call)));
        }
        Some((registers, width.call(registers.call())))
    }

    /// Calls of 32-bit programs that are all one, which has the arguments of the other: `socketcall(2)`, in memory, and
    /// `ipc(2)`.
    #[cfg(target_arch = "x86_64")]
    fn behind_one_number(&self, tid: Tid) -> Option<(libc::c_long, [u64; 6])> {
        const IPC: u64 = 117;
        const SEMTIMEDOP: u64 = 4;
        let which = self.argument(0);
        match self.call() {
            SOCKETCALL => {
                let (call, count) = match which {
                    3 => (libc::SYS_connect, 3),
                    5 => (libc::SYS_accept, 3),
                    9 => (libc::SYS_sendto, 4),
                    10 => (libc::SYS_recvfrom, 4),
                    11 => (libc::SYS_sendto, 6),
                    12 => (libc::SYS_recvfrom, 6),
                    16 => (libc::SYS_sendmsg, 3),
                    17 => (libc::SYS_recvmsg, 3),
                    18 => (libc::SYS_accept4, 4),
                    _ => return None,
                };
                let mut bytes = [0; 24];
                remote::read_exact(tid, self.argument(1), &mut bytes[..4 * count]).ok()?;
                let word =
                    |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
                Some((call, std::array::from_fn(|index| word(4 * index).into())))
            }
            IPC if which & 0xffff == SEMTIMEDOP => {
                let [set, count, _, operations, timeout] = [1, 2, 3, 4, 5].map(|index| self.argument(index));
                Some((libc::SYS_semtimedop, [set, operations, count, timeout, 0, 0]))
            }
            _ => None,
        }
    }

    /// A call that has [just ended](Self::was_interrupted), with such arguments, is begun again when its thread goes on,
    /// unless a signal with a handler comes first. (On arm64 that has to be [undone](Self::end_with) then.)
    pub(crate) fn restart_call(&mut self, tid: Tid, of_call: &Registers) -> Result<(), Errno> {
        // The kernel knows the arguments, and does the rest: ERESTARTNOHAND.
        #[cfg(target_arch = "x86_64")]
        {
            let _ = of_call;
            self.set_result(-514);
        }
        #[cfg(target_arch = "aarch64")]
        {
            self.words[0] = of_call.argument(0);
            self.words[at::IP] -= at::INSTRUCTION.len() as u64;
        }
        self.give(tid)
    }

    /// Given to a tracee that is behind the call at whose entry it had these registers, and has not done it: it makes
    /// the call again when it goes on.
    pub(crate) fn make_again(mut self, tid: Tid) -> Result<(), Errno> {
        self.words[at::IP] -= self.call_instruction().len() as u64;
        #[cfg(target_arch = "x86_64")]
        {
            self.words[at::RESULT] = self.words[at::CALL];
            // It came from no system call, so none is begun again.
            self.words[at::CALL] = u64::MAX;
        }
        self.give(tid)
    }

    /// Such a call, begun again or not, is not: this is what it answers.
    pub(crate) fn end_with(&mut self, tid: Tid, result: i64) -> Result<(), Errno> {
        #[cfg(target_arch = "aarch64")]
        if !self.was_interrupted() {
            self.words[at::IP] += at::INSTRUCTION.len() as u64;
        }
        self.end_for_good(tid, result)
    }

    /// The same of a call behind which these registers are.
    pub(crate) fn end_for_good(&mut self, tid: Tid, result: i64) -> Result<(), Errno> {
        // Later looks find a call that cannot be begun again.
        #[cfg(target_arch = "x86_64")]
        {
            self.words[at::CALL] = u64::MAX;
        }
        self.set_result(result);
        self.give(tid)
    }

    /// The width of these registers, as samples name it.
    pub fn abi(&self) -> RegsAbi {
        #[cfg(target_arch = "x86_64")]
        let narrow = self.is_narrow() || self.words[at::CODE_SEGMENT] == 0x23;
        #[cfg(target_arch = "aarch64")]
        let narrow = self.is_narrow();
        if narrow { RegsAbi::ABI_32 } else { RegsAbi::ABI_64 }
    }

    /// A register by its number in `perf_regs.h`; 0 for one that is not there.
    #[cfg(target_arch = "x86_64")]
    pub fn sampled(&self, number: u32) -> u64 {
        at::SAMPLED.get(number as usize).map_or(0, |&place| self.words[place])
    }

    /// A register by its number in `perf_regs.h`; 0 for one that is not there.
    #[cfg(target_arch = "aarch64")]
    pub fn sampled(&self, number: u32) -> u64 {
        match number {
            0..=32 => self.words[number as usize],
            _ => 0,
        }
    }
}
