//! Helpers carried out: what `call bpf_…` does to memory, maps and the world.

use super::{Code, Run};
use crate::helper::number;
use crate::map::{MapId, MapKind};
use crate::memory::{Reservation, function_of, is_own, map_of};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use perfuse_abi::Errno;

/// What a helper did.
pub(crate) enum Done<'w> {
    /// `r0` is this.
    Number(u64),
    /// The run goes on in this program.
    Program(&'w Code),
    /// A function of the program is called some times first.
    Turns(Turns),
}

/// Calls of a function that a helper makes (`bpf_loop`).
#[derive(Debug)]
pub(crate) struct Turns {
    /// The slot of the function.
    pub(crate) function: usize,
    /// Calls that are over.
    pub(crate) made: u64,
    wanted: u64,
    data: u64,
}

impl Turns {
    /// The arguments of the next call; `None` after the last.
    pub(crate) fn arguments(&self) -> Option<[u64; 4]> {
        (self.made < self.wanted).then_some([self.made, self.data, 0, 0])
    }
}

/// `bpf_loop` refuses more.
const MOST_TURNS: u64 = 1 << 23;
/// The cpu that runs the program, as an index of events.
const THIS_CPU: u64 = 0xffff_ffff;
const INDEX: u64 = 0xffff_ffff;
const USER_STACK: u64 = 1 << 8;
const SKIP: u64 = 0xff;

fn result(result: Result<u64, Errno>) -> u64 {
    result.unwrap_or_else(|errno| (-i64::from(errno.0)) as u64)
}

fn done(outcome: Result<(), Errno>) -> u64 {
    result(outcome.map(|()| 0))
}

/// Carries out a call. `None` if its arguments are none that the verifier lets through.
pub(crate) fn helper<'w>(run: &mut Run<'_, 'w>, id: u32, args: [u64; 5]) -> Option<Done<'w>> {
    let [a, b, c, d, e] = args;
    let value = match id {
        number::MAP_LOOKUP_ELEM | number::MAP_LOOKUP_PERCPU_ELEM => {
            let cpu = if id == number::MAP_LOOKUP_ELEM { run.world.cpu() } else { c as u32 };
            let map = map_of(a)?;
            let key = key(run, map, b)?;
            let cell = run.memory.maps.get_mut(map).ok()?.cell(&key, cpu);
            cell.and_then(|cell| run.memory.value_pointer(map, cell)).unwrap_or(0)
        }
        number::MAP_UPDATE_ELEM => {
            let (map, cpu) = (map_of(a)?, run.world.cpu());
            let (key, value) = (key(run, map, b)?, value(run, map, c)?);
            let map = run.memory.maps.get_mut(map).ok().filter(|map| map.is_writable_by_programs())?;
            done(map.set(&key, &value, d, Some(cpu)))
        }
        number::MAP_DELETE_ELEM => {
            let map = map_of(a)?;
            let key = key(run, map, b)?;
            done(run.memory.maps.get_mut(map).ok()?.unset(&key))
        }
        number::MAP_PUSH_ELEM => {
            let map = map_of(a)?;
            let value = value(run, map, b)?;
            done(run.memory.maps.get_mut(map).ok()?.push(&value, c))
        }
        number::MAP_POP_ELEM | number::MAP_PEEK_ELEM => {
            let map = run.memory.maps.get_mut(map_of(a)?).ok()?;
            let len = map.spec().value_size as usize;
            let popped = map.pop(id == number::MAP_POP_ELEM);
            let into = run.memory.bytes_mut(b, len)?;
            match popped {
                Ok(value) => {
                    into.copy_from_slice(&value);
                    0
                }
                Err(errno) => {
                    into.fill(0);
                    result(Err(errno))
                }
            }
        }
        number::KTIME_GET_NS | number::KTIME_GET_COARSE_NS => run.world.time_ns(),
        number::KTIME_GET_BOOT_NS => run.world.boot_time_ns(),
        number::KTIME_GET_TAI_NS => run.world.tai_ns(),
        number::JIFFIES64 => run.world.jiffies(),
        number::GET_PRANDOM_U32 => u64::from(run.world.random()),
        number::GET_SMP_PROCESSOR_ID => u64::from(run.world.cpu()),
        number::GET_NUMA_NODE_ID => u64::from(run.world.numa_node()),
        number::GET_CURRENT_PID_TGID => run.world.pid_tgid(),
        number::GET_CURRENT_UID_GID => run.world.uid_gid(),
        number::GET_CURRENT_TASK => run.world.current_task(),
        number::GET_CURRENT_CGROUP_ID => run.world.cgroup_id(),
        number::GET_CURRENT_ANCESTOR_CGROUP_ID => run.world.ancestor_cgroup_id(a as u32),
        number::CURRENT_TASK_UNDER_CGROUP => {
            let cgroup = run.memory.maps.get(map_of(a)?).ok()?.handle(b & u64::from(u32::MAX));
            let cgroup = cgroup.map_err(|errno| if errno == Errno::ENOENT { Errno::EAGAIN } else { errno });
            result(cgroup.map(|cgroup| run.world.is_under_cgroup(cgroup).into()))
        }
        number::GET_FUNC_IP => run.world.function_address(),
        number::GET_ATTACH_COOKIE => run.world.cookie(),
        number::SEND_SIGNAL | number::SEND_SIGNAL_THREAD => {
            done(run.world.send_signal(a as u32, id == number::SEND_SIGNAL_THREAD))
        }
        number::GET_CURRENT_COMM => {
            let comm = run.world.comm();
            let into = run.memory.bytes_mut(a, b as usize)?;
            into.fill(0);
            let len = into.len().min(comm.len());
            into[..len].copy_from_slice(&comm[..len]);
            if let Some(last) = into.last_mut() {
                *last = 0;
            }
            0
        }
        number::TRACE_PRINTK => {
            let text = print(run, a, b as usize, [c, d, e])?;
            run.world.print(&text);
            text.len() as u64
        }
        number::PROBE_READ
        | number::PROBE_READ_USER
        | number::PROBE_READ_KERNEL
        | number::PROBE_READ_STR
        | number::PROBE_READ_USER_STR
        | number::PROBE_READ_KERNEL_STR => probe_read(run, id, a, b as usize, c)?,
        number::STRTOL | number::STRTOUL => parse(run, id == number::STRTOL, [a, b, c, d])?,
        number::STRNCMP => compare(run, a, b as usize, c)?,
        number::TAIL_CALL => {
            let map = run.memory.maps.get(map_of(b)?).ok()?;
            if map.spec().kind != MapKind::ProgArray {
                return None;
            }
            let program = map.handle(c & INDEX).ok().and_then(|handle| (run.programs)(handle));
            match program {
                Some(code) => return Some(Done::Program(code)),
                None => result(Err(Errno::ENOENT)),
            }
        }
        number::PERF_EVENT_OUTPUT => {
            let data = bytes(run, d, e as usize)?;
            let event = event(run, map_of(b)?, c);
            done(event.and_then(|event| run.world.event_output(event, &data)))
        }
        number::PERF_EVENT_READ => {
            let event = event(run, map_of(a)?, b);
            result(event.and_then(|event| run.world.event_read(event)).map(|values| values[0]))
        }
        number::PERF_EVENT_READ_VALUE => {
            let event = event(run, map_of(a)?, b);
            let read = event.and_then(|event| run.world.event_read(event));
            values(run, read, c, d as usize)?
        }
        number::PERF_PROG_READ_VALUE => {
            let own = run.world.own_event();
            values(run, own, b, c as usize)?
        }
        number::READ_BRANCH_RECORDS => branches(run, b, c as usize, d)?,
        number::GET_STACKID => {
            const KNOWN: u64 = SKIP | USER_STACK | 1 << 9 | 1 << 10;
            let stack =
                if c & !KNOWN != 0 { Err(Errno::EINVAL) } else { run.world.stack(c & USER_STACK != 0) };
            let map = run.memory.maps.get_mut(map_of(b)?).ok()?;
            let kept = stack.and_then(|frames| {
                let rest = frames.get((c & SKIP) as usize..).filter(|rest| !rest.is_empty());
                map.stack_id(rest.ok_or(Errno::EFAULT)?, c)
            });
            result(kept.map(u64::from))
        }
        number::GET_STACK => {
            let into_len = c as usize;
            let stack = match d {
                flags if flags & !(SKIP | USER_STACK | 1 << 11) != 0 => Err(Errno::EINVAL),
                _ if into_len % 8 != 0 => Err(Errno::EINVAL),
                flags => run.world.stack(flags & USER_STACK != 0),
            };
            let into = run.memory.bytes_mut(b, into_len)?;
            into.fill(0);
            let written = stack.and_then(|frames| {
                let rest = frames.get((d & SKIP) as usize..).ok_or(Errno::EFAULT)?;
                let frames = rest.iter().take(into.len() / 8);
                let written = frames.len() * 8;
                into.chunks_exact_mut(8)
                    .zip(frames)
                    .for_each(|(to, frame)| to.copy_from_slice(&frame.to_ne_bytes()));
                Ok(written as u64)
            });
            result(written)
        }
        number::SKB_LOAD_BYTES => {
            let into = run.memory.bytes_mut(c, d as usize)?;
            let read = u32::try_from(b).map_err(|_| Errno::EFAULT).and_then(|at| run.world.packet(at, into));
            if read.is_err() {
                run.memory.bytes_mut(c, d as usize)?.fill(0);
            }
            done(read)
        }
        number::RINGBUF_OUTPUT
        | number::RINGBUF_RESERVE
        | number::RINGBUF_SUBMIT
        | number::RINGBUF_DISCARD => ring(run, id, args)?,
        number::RINGBUF_QUERY => {
            let ring = run.memory.maps.get_mut(map_of(a)?).ok()?.ring()?;
            let (consumer, producer) = ring.positions();
            match b {
                0 => producer.wrapping_sub(consumer),
                1 => ring.size(),
                2 => consumer,
                3 => producer,
                _ => 0,
            }
        }
        number::LOOP => match (a, d) {
            (_, flags) if flags != 0 => result(Err(Errno::EINVAL)),
            (turns, _) if turns as u32 as u64 > MOST_TURNS => result(Err(Errno::E2BIG)),
            (turns, _) => {
                let turns = Turns { function: function_of(b)?, made: 0, wanted: turns & INDEX, data: c };
                return Some(Done::Turns(turns));
            }
        },
        _ => return None,
    };
    Some(Done::Number(value))
}

/// A copy of memory, which costs as many instructions as it has words.
fn bytes(run: &mut Run<'_, '_>, pointer: u64, len: usize) -> Option<Vec<u8>> {
    run.budget = run.budget.saturating_sub(len as u64 / 8);
    if len == 0 {
        return Some(Vec::new());
    }
    run.memory.bytes(pointer, len).map(<[u8]>::to_vec)
}

fn key(run: &mut Run<'_, '_>, map: MapId, pointer: u64) -> Option<Vec<u8>> {
    let spec = run.memory.maps.get(map).ok()?.spec();
    let len = spec.key_size as usize;
    if spec.kind == MapKind::LpmTrie {
        // A look for each bit.
        run.budget = run.budget.saturating_sub((len * len) as u64);
    }
    bytes(run, pointer, len)
}

fn value(run: &mut Run<'_, '_>, map: MapId, pointer: u64) -> Option<Vec<u8>> {
    let len = run.memory.maps.get(map).ok()?.spec().value_size as usize;
    bytes(run, pointer, len)
}

/// The owner's number of the event that flags name (rule K30).
fn event(run: &mut Run<'_, '_>, map: MapId, flags: u64) -> Result<u32, Errno> {
    if flags & !INDEX != 0 {
        return Err(Errno::EINVAL);
    }
    let at = if flags == THIS_CPU { u64::from(run.world.cpu()) } else { flags };
    run.memory.maps.get(map)?.handle(at)
}

/// `struct bpf_perf_event_value` (rule K31): zeros on errors.
fn values(run: &mut Run<'_, '_>, values: Result<[u64; 3], Errno>, pointer: u64, len: usize) -> Option<u64> {
    let into = run.memory.bytes_mut(pointer, len)?;
    into.fill(0);
    let values = if len == 24 { values } else { Err(Errno::EINVAL) };
    if let Ok(values) = &values {
        into.chunks_exact_mut(8).zip(values).for_each(|(to, value)| to.copy_from_slice(&value.to_ne_bytes()));
    }
    Some(result(values.map(|_| 0)))
}

fn branches(run: &mut Run<'_, '_>, pointer: u64, len: usize, flags: u64) -> Option<u64> {
    const ASKS_SIZE: u64 = 1;
    const ENTRY: usize = 24;
    if flags & !ASKS_SIZE != 0 {
        return Some(result(Err(Errno::EINVAL)));
    }
    let branches = match run.world.branches() {
        Ok(branches) => branches,
        Err(errno) => return Some(result(Err(errno))),
    };
    if flags == ASKS_SIZE {
        return Some(branches.len() as u64);
    }
    if pointer == 0 || len % ENTRY != 0 {
        return Some(result(Err(Errno::EINVAL)));
    }
    let len = len.min(branches.len());
    run.memory.bytes_mut(pointer, len)?.copy_from_slice(&branches[..len]);
    Some(len as u64)
}

fn ring(run: &mut Run<'_, '_>, id: u32, [a, b, c, d, _]: [u64; 5]) -> Option<u64> {
    const NO_WAKEUP: u64 = 1;
    const FORCE_WAKEUP: u64 = 2;
    let (ring, at, content, discarded, flags) = match id {
        number::RINGBUF_RESERVE => {
            let map = map_of(a)?;
            let ring = run.memory.maps.get_mut(map).ok()?.ring()?;
            let at = if c == 0 { ring.reserve(b) } else { None };
            return Some(at.map_or(0, |at| {
                let bytes = vec![0; b as usize].into_boxed_slice();
                run.memory.reserve(Reservation { ring: map, at, bytes, open: true })
            }));
        }
        number::RINGBUF_OUTPUT => {
            let (map, data) = (map_of(a)?, bytes(run, b, c as usize)?);
            if d & !(NO_WAKEUP | FORCE_WAKEUP) != 0 {
                return Some(result(Err(Errno::EINVAL)));
            }
            let ring = run.memory.maps.get_mut(map).ok()?.ring()?;
            let Some(at) = ring.reserve(c) else { return Some(result(Err(Errno::EAGAIN))) };
            (map, at, data.into_boxed_slice(), false, d)
        }
        _ => {
            let reservation = run.memory.reservation(a)?;
            reservation.open = false;
            let content = core::mem::take(&mut reservation.bytes);
            (reservation.ring, reservation.at, content, id == number::RINGBUF_DISCARD, b)
        }
    };
    let waits = run.memory.maps.get_mut(ring).ok()?.ring()?.commit(at, &content, discarded);
    if flags & FORCE_WAKEUP != 0 || waits && flags & NO_WAKEUP == 0 {
        run.world.ring_wakes(ring);
    }
    Some(0)
}

/// Reads memory by address; what cannot be read gives zeros.
fn probe_read(run: &mut Run<'_, '_>, id: u32, pointer: u64, len: usize, addr: u64) -> Option<u64> {
    let is_text =
        matches!(id, number::PROBE_READ_STR | number::PROBE_READ_USER_STR | number::PROBE_READ_KERNEL_STR);
    let of_user = matches!(id, number::PROBE_READ_USER | number::PROBE_READ_USER_STR);
    run.budget = run.budget.saturating_sub(len as u64 / 8);
    if len == 0 {
        return Some(0);
    }
    // Before there is memory of that size for it.
    run.memory.bytes(pointer, len)?;
    let mut read = vec![0; len];
    let fetch = |run: &mut Run<'_, '_>, addr: u64, into: &mut [u8]| match of_user {
        false if is_own(addr) => {
            let found = run.memory.bytes(addr, into.len()).ok_or(Errno::EFAULT)?;
            into.copy_from_slice(found);
            Ok(())
        }
        true => run.world.read_user(addr, into),
        // The old helpers take addresses of either side.
        false if matches!(id, number::PROBE_READ | number::PROBE_READ_STR) && addr >> 47 == 0 => {
            run.world.read_user(addr, into)
        }
        false => run.world.read_kernel(addr, into),
    };
    let got = if is_text {
        text(len, |at, into| fetch(run, addr.wrapping_add(at as u64), into), &mut read)
    } else {
        fetch(run, addr, &mut read).map(|()| 0)
    };
    if got.is_err() {
        read.fill(0);
    }
    run.memory.bytes_mut(pointer, len)?.copy_from_slice(&read);
    Some(result(got))
}

/// Reads a text up to its zero, which is always put at the end; its length with that. Whole reads first, bytes at borders.
fn text(
    len: usize,
    mut fetch: impl FnMut(usize, &mut [u8]) -> Result<(), Errno>,
    into: &mut [u8],
) -> Result<u64, Errno> {
    const STEP: usize = 64;
    let mut at = 0;
    while at < len {
        let end = len.min(at + STEP);
        if fetch(at, &mut into[at..end]).is_err() {
            // The text may end before what cannot be read.
            for i in at..end {
                fetch(i, &mut into[i..=i])?;
                if into[i] == 0 {
                    break;
                }
            }
        }
        if let Some(zero) = into[at..end].iter().position(|byte| *byte == 0) {
            into[at + zero..].fill(0);
            return Ok((at + zero + 1) as u64);
        }
        at = end;
    }
    into[len - 1] = 0;
    Ok(len as u64)
}

/// `bpf_strtol`, `bpf_strtoul`.
fn parse(run: &mut Run<'_, '_>, signed: bool, [a, b, flags, to]: [u64; 4]) -> Option<u64> {
    let text = bytes(run, a, b as usize)?;
    let parsed = parse_number(&text, signed, flags);
    if let Ok((value, _)) = parsed {
        run.memory.bytes_mut(to, 8)?.copy_from_slice(&value.to_ne_bytes());
    }
    Some(result(parsed.map(|(_, used)| used)))
}

fn parse_number(text: &[u8], signed: bool, flags: u64) -> Result<(u64, u64), Errno> {
    let base = match flags & 0x1f {
        0 | 8 | 10 | 16 if flags & !0x1f == 0 => flags as u32,
        _ => return Err(Errno::EINVAL),
    };
    let spaces = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let mut rest = &text[spaces..];
    let negative = rest.first() == Some(&b'-');
    if negative {
        rest = &rest[1..];
    }
    let (base, prefix) = match (base, rest) {
        (0 | 16, [b'0', b'x' | b'X', ..]) => (16, 2),
        (0, [b'0', ..]) => (8, 0),
        (0, _) => (10, 0),
        (base, _) => (base, 0),
    };
    rest = &rest[prefix..];
    let digits = rest.iter().take_while(|byte| char::from(**byte).is_digit(base)).count();
    if digits == 0 {
        return Err(Errno::EINVAL);
    }
    let mut value = 0u64;
    for byte in &rest[..digits] {
        let digit = u64::from(char::from(*byte).to_digit(base).unwrap_or(0));
        let next = value.checked_mul(u64::from(base)).and_then(|value| value.checked_add(digit));
        value = next.ok_or(Errno::ERANGE)?;
    }
    let value = match (signed, negative) {
        (false, true) => return Err(Errno::EINVAL),
        (false, false) => value,
        (true, false) => i64::try_from(value).map_err(|_| Errno::ERANGE)? as u64,
        (true, true) if value > 1 << 63 => return Err(Errno::ERANGE),
        (true, true) => value.wrapping_neg(),
    };
    Ok((value, (spaces + usize::from(negative) + prefix + digits) as u64))
}

/// `bpf_strncmp`: the second text ends with its zero.
fn compare(run: &mut Run<'_, '_>, a: u64, len: usize, b: u64) -> Option<u64> {
    let first = bytes(run, a, len)?;
    for (i, byte) in first.into_iter().enumerate() {
        let other = *run.memory.bytes(b.wrapping_add(i as u64), 1)?.first()?;
        if byte != other {
            return Some((i64::from(byte) - i64::from(other)) as u64);
        }
        if byte == 0 {
            break;
        }
    }
    Some(0)
}

/// The text of `bpf_trace_printk`: `%d %i %u %x %X %p %c %s %%` with any of `l`, `ll`.
fn print(run: &mut Run<'_, '_>, format: u64, len: usize, args: [u64; 3]) -> Option<String> {
    let format = bytes(run, format, len)?;
    let mut text = String::new();
    let mut args = args.into_iter();
    let mut bytes_left = format.split(|byte| *byte == 0).next()?.iter().copied().peekable();
    while let Some(byte) = bytes_left.next() {
        if byte != b'%' {
            text.push(char::from(byte));
            continue;
        }
        let mut longs = 0;
        let kind = loop {
            match bytes_left.next() {
                Some(b'l') => longs += 1,
                Some(b'0'..=b'9' | b'#' | b'-' | b' ' | b'+') => {}
                other => break other,
            }
        };
        let mut next = || args.next().unwrap_or(0);
        match (kind, longs) {
            (Some(b'%'), _) => text.push('%'),
            (Some(b'd' | b'i'), 0) => text += &format!("{}", next() as i32),
            (Some(b'd' | b'i'), _) => text += &format!("{}", next() as i64),
            (Some(b'u'), 0) => text += &format!("{}", next() as u32),
            (Some(b'u'), _) => text += &format!("{}", next()),
            (Some(b'x' | b'X'), 0) => text += &format!("{:x}", next() as u32),
            (Some(b'x' | b'X' | b'p'), _) => text += &format!("{:x}", next()),
            (Some(b'c'), _) => text.push(char::from(next() as u8)),
            (Some(b's'), _) => {
                let addr = next();
                let mut found = [0; 64];
                let fetched = match is_own(addr) {
                    true => self::text(
                        64,
                        |at, into| {
                            let bytes = run.memory.bytes(addr.wrapping_add(at as u64), into.len());
                            bytes.map(|bytes| into.copy_from_slice(bytes)).ok_or(Errno::EFAULT)
                        },
                        &mut found,
                    ),
                    false => self::text(
                        64,
                        |at, into| run.world.read_kernel(addr.wrapping_add(at as u64), into),
                        &mut found,
                    ),
                };
                let len = fetched.unwrap_or(1) as usize - 1;
                text += &String::from_utf8_lossy(&found[..len]);
            }
            _ => return None,
        }
    }
    Some(text)
}
