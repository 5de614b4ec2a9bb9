//! `BPF_PROG_TEST_RUN`: socket filters on a packet, programs of raw tracepoints on their arguments.

use super::attr::Attr;
use super::run::{BUDGET, Surroundings};
use super::{Caller, DONE, Kernel, Reply, State};
use crate::ptrace::Tid;
use perfuse_abi::Errno;
use perfuse_bpf::map::ENOTSUPP;
use perfuse_bpf::{Fault, ProgramType};
use perfuse_engine::AtIp;
use std::time::Instant;

/// Bytes of an Ethernet header, which socket filters do not see.
const HEADER: usize = 14;
/// Bytes of a packet at most: a page without what Linux puts around it.
const MOST: usize = 4096 - 64 - 320;
/// Bytes of `struct __sk_buff`.
const CONTEXT: usize = 192;
/// Instructions of all repetitions, and what beginning one costs.
const ALL_RUNS: u64 = 400_000_000;
const BEGINNING: u64 = 100;

/// Places of results in the arguments.
const RESULT: u64 = 4;
const DATA_LEN: u64 = 12;
const DURATION: u64 = 36;
const CONTEXT_LEN: u64 = 44;

impl State {
    pub(super) fn test_run(
        &mut self,
        kernel: &mut Kernel<'_>,
        caller: &mut dyn Caller,
        attr: &Attr,
    ) -> Result<Reply, Errno> {
        attr.ends_at(76)?;
        let (in_len, out_len, context_in, context_out) =
            (attr.u32(40), attr.u32(44), attr.u64(48), attr.u64(56));
        if (in_len == 0) != (context_in == 0) || (out_len == 0) != (context_out == 0) {
            return Err(Errno::EINVAL);
        }
        let id = self.program_of(caller, attr.u32(0) as i32)?;
        match self.programs[&id].program_type {
            ProgramType::SocketFilter => self.run_filter(kernel, caller, attr, id),
            ProgramType::RawTracepoint => self.run_raw(kernel, caller, attr, id),
            _ => Err(ENOTSUPP),
        }
    }

    /// Runs a program some times on the same memory, for a thread on its cpu: its last result, and ns of a run.
    fn run_often(
        &mut self,
        kernel: &mut Kernel<'_>,
        (id, thread): (u32, (Tid, Tid)),
        context: &mut [u8],
        packet: &[u8],
        times: u32,
    ) -> Result<(u32, u32), Errno> {
        /// In a system call, which is in no program's place.
        const CALLED: AtIp = AtIp { user: false, ip: crate::SOMEWHERE_IN_KERNEL };
        let (program, maps) = (self.programs[&id].program, self.maps_of(id));
        self.before_run(&maps);
        self.draw();
        let (cpu, now) = kernel.place;
        let mut events = kernel.engine.reach(cpu, now, &CALLED);
        let mut world = Surroundings::new((cpu, &CALLED), &mut events, thread, &self.events, self.random);
        world.packet = packet;
        let (begin, mut left, mut last) = (Instant::now(), ALL_RUNS, Ok(0));
        let mut ended = Ok(());
        for _ in 0..times {
            // As if a signal had come.
            left = left.saturating_sub(BEGINNING);
            let ran = self.machine.run(program, context, &mut world, BUDGET.min(left))?;
            if left == 0 || ran.result == Err(Fault::Budget) && left < BUDGET {
                ended = Err(Errno::EINTR);
                break;
            }
            left = left.saturating_sub(ran.instructions);
            last = ran.result;
        }
        let ns = begin.elapsed().as_nanos() as u64 / u64::from(times.max(1));
        let woken = world.woken;
        self.after_run(&maps, &woken);
        ended?;
        Ok((self.result_of(id, last), u32::try_from(ns).unwrap_or(u32::MAX)))
    }

    fn run_filter(
        &mut self,
        kernel: &mut Kernel<'_>,
        caller: &mut dyn Caller,
        attr: &Attr,
        id: u32,
    ) -> Result<Reply, Errno> {
        let (len, room, data_in, data_out) =
            (attr.u32(8) as usize, attr.u32(12) as usize, attr.u64(16), attr.u64(24));
        let [flags, cpu, batch] = [64, 68, 72].map(|at| attr.u32(at));
        if flags != 0 || cpu != 0 || batch != 0 || !(HEADER..=MOST).contains(&len) {
            return Err(Errno::EINVAL);
        }
        let mut packet = vec![0; len];
        caller.read(data_in, &mut packet)?;
        let asked = context(caller, attr)?;
        let mut seen = [0; CONTEXT];
        fill(&mut seen, &packet, asked.as_ref())?;
        let whom = (id, caller.thread());
        let (result, ns) = self.run_often(kernel, whom, &mut seen, &packet[HEADER..], attr.u32(32).max(1))?;
        packet[..HEADER].fill(0);
        let mut answer = DONE;
        if data_out != 0 {
            let shown = if room != 0 && room < len { room } else { len };
            if shown < len {
                answer = Err(Errno::ENOSPC);
            }
            caller.write(data_out, &packet[..shown])?;
        }
        caller.write(attr.address_of(DATA_LEN), &(len as u32).to_ne_bytes())?;
        caller.write(attr.address_of(RESULT), &result.to_ne_bytes())?;
        caller.write(attr.address_of(DURATION), &ns.to_ne_bytes())?;
        let (room, to) = (attr.u32(44) as usize, attr.u64(56));
        if let (Some(asked), true) = (asked, answer.is_ok() && to != 0) {
            let mut told = asked;
            for kept in [8..12, 32..44, 48..68, 152..160, 164..168, 176..180] {
                told[kept.clone()].copy_from_slice(&seen[kept]);
            }
            told[160..164].copy_from_slice(&seen[..4]);
            let shown = CONTEXT.min(room);
            if shown < CONTEXT {
                answer = Err(Errno::ENOSPC);
            }
            caller.write(to, &told[..shown])?;
            caller.write(attr.address_of(CONTEXT_LEN), &(CONTEXT as u32).to_ne_bytes())?;
        }
        answer
    }

    fn run_raw(
        &mut self,
        kernel: &mut Kernel<'_>,
        caller: &mut dyn Caller,
        attr: &Attr,
        id: u32,
    ) -> Result<Reply, Errno> {
        const ARGUMENTS: u32 = 96;
        const ON_CPU: u32 = 1;
        let len = attr.u32(40);
        let is_more = attr.u64(16) != 0
            || attr.u64(24) != 0
            || attr.u64(56) != 0
            || [32, 36, 72].iter().any(|at| attr.u32(*at) != 0);
        let read = self.machine.program(self.programs[&id].program)?.verified().context_bytes;
        let (flags, cpu) = (attr.u32(64), attr.u32(68));
        if is_more || len < read || len > ARGUMENTS || flags & !ON_CPU != 0 || flags == 0 && cpu != 0 {
            return Err(Errno::EINVAL);
        }
        let mut arguments = vec![0; len as usize];
        caller.read(attr.u64(48), &mut arguments)?;
        arguments.resize(ARGUMENTS as usize, 0);
        if flags != 0 && cpu >= self.machine.maps.cpus() {
            return Err(Errno::ENXIO);
        }
        let (result, _) = self.run_often(kernel, (id, caller.thread()), &mut arguments, &[], 1)?;
        caller.write(attr.address_of(RESULT), &result.to_ne_bytes())?;
        DONE
    }
}

/// The `__sk_buff` that the caller gives or wants: `E2BIG` of something behind what is known.
fn context(caller: &dyn Caller, attr: &Attr) -> Result<Option<[u8; CONTEXT]>, Errno> {
    const PAGE: usize = 4096;
    let (len, from) = (attr.u32(40) as usize, attr.u64(48));
    if from == 0 && attr.u64(56) == 0 {
        return Ok(None);
    }
    let mut context = [0; CONTEXT];
    if from != 0 {
        if len > PAGE {
            return Err(Errno::E2BIG);
        }
        let mut given = vec![0; len];
        caller.read(from, &mut given)?;
        if given.iter().skip(CONTEXT).any(|byte| *byte != 0) {
            return Err(Errno::E2BIG);
        }
        let known = len.min(CONTEXT);
        context[..known].copy_from_slice(&given[..known]);
    }
    Ok(Some(context))
}

/// The `__sk_buff` that a filter sees: of what the caller gave the fields that may be given (`EINVAL`), and the packet's.
fn fill(seen: &mut [u8; CONTEXT], packet: &[u8], asked: Option<&[u8; CONTEXT]>) -> Result<(), Errno> {
    // mark; priority, ingress_ifindex, ifindex; cb; data_end; tstamp, wire_len, gso_segs; gso_size; hwtstamp.
    const GIVEN: [std::ops::Range<usize>; 7] = [8..12, 32..44, 48..68, 80..84, 152..168, 176..180, 184..192];
    if let Some(asked) = asked {
        let is_given = |at: &usize| GIVEN.iter().any(|given| given.contains(at));
        if (0..CONTEXT).any(|at| asked[at] != 0 && !is_given(&at)) {
            return Err(Errno::EINVAL);
        }
        *seen = *asked;
        seen[80..84].fill(0);
        seen[184..].fill(0);
    }
    let mut put = |at: usize, value: u32| seen[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    put(0, (packet.len() - HEADER) as u32);
    put(4, packet_type(packet));
    put(16, protocol(packet));
    // The loopback device.
    put(40, 1);
    Ok(())
}

/// To whom a packet is, for a device whose address is zeros.
fn packet_type(packet: &[u8]) -> u32 {
    match &packet[..6] {
        to if to.iter().all(|byte| *byte == 0xff) => 1,
        to if to[0] & 1 != 0 => 2,
        to if to.iter().all(|byte| *byte == 0) => 0,
        _ => 3,
    }
}

/// The protocol of a packet, as its two bytes stand there; of a length in that place, that of 802.2.
fn protocol(packet: &[u8]) -> u32 {
    const LEAST: u16 = 0x600;
    let told = [packet[12], packet[13]];
    let told = if u16::from_be_bytes(told) >= LEAST { told } else { [0, 4] };
    u32::from(u16::from_ne_bytes(told))
}
