//! The way of data from a BPF program to its owner, by hand: an event, a program on its overflows, an array of `bpf-output` events, one for
//! each cpu, into whose rings the program writes, which are polled and read.
//!
//! ```text
//! cargo build -p perfuse-live --example bpf_output
//! sudo target/debug/examples/bpf_output            # Linux answers
//! perfuse run -- target/debug/examples/bpf_output  # perfuse answers, anybody
//! ```
//!
//! Both print the same.

use perfuse_abi::{Attr, Breakpoint, ByteOrder, EventType, OpenFlags, SampleType, Software};
use perfuse_bpf::{MapKind, ProgramType, assemble, insn};
use perfuse_sys::bpf::{ALL_HELPERS, Map, load};
use perfuse_sys::poll::poll;
use perfuse_sys::{Mapping, Protection, ioctl, perf_event_open, thread};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PAGE: usize = 4096;
const PAGES: usize = 8;

/// The variable that is watched.
static WATCHED: AtomicU64 = AtomicU64::new(0);

/// Counts overflows in a map, and writes two words each time: the count before, and the address that was written to.
fn program(counts: i32, outputs: i32) -> String {
    format!(
        "r6 = r1
        *(u32 *)(r10 -4) = 0
        r1 = map[fd:{counts}]
        r2 = r10
        r2 += -4
        call map_lookup_elem
        if r0 == 0 goto out
        r1 = 1
        r1 = atomic64_fetch_add((u64 *)(r0 +0), r1)
        *(u64 *)(r10 -24) = r1
        r1 = *(u64 *)(r6 +176)
        *(u64 *)(r10 -16) = r1
        r1 = r6
        r2 = map[fd:{outputs}]
        w3 = -1
        r4 = r10
        r4 += -24
        r5 = 16
        call perf_event_output
    out:
        r0 = 0
        exit"
    )
}

/// A ring of one cpu.
struct Output {
    event: OwnedFd,
    ring: Mapping,
}

impl Output {
    fn open(cpu: i32) -> Result<Self, Box<dyn std::error::Error>> {
        let mut attr = Attr::new(EventType::SOFTWARE);
        attr.config = Software::BPF_OUTPUT.0;
        attr.sample_type = SampleType::RAW;
        attr.sample_period = 1;
        attr.wakeup = 1;
        let event = perf_event_open(&mut attr, -1, cpu, None, OpenFlags::FD_CLOEXEC)?;
        let ring = Mapping::new(event.as_fd(), (1 + PAGES) * PAGE, Protection::ReadWrite, 0)?;
        Ok(Output { event, ring })
    }

    /// The words of all records that are there, which are then taken out.
    fn read(&self, told: &mut Vec<[u64; 2]>) {
        const HEAD: usize = 1024;
        const TAIL: usize = 1032;
        let head = self.ring.load_u64(HEAD, Ordering::Acquire);
        let mut tail = self.ring.load_u64(TAIL, Ordering::Relaxed);
        let at = |position: u64| PAGE + position as usize % (PAGES * PAGE);
        while tail < head {
            // Header, size of the data, the data: not at a multiple of eight.
            let half =
                |index: u64| u64::from(self.ring.load_u32(at(tail + 12 + 4 * index), Ordering::Relaxed));
            told.push([half(0) | half(1) << 32, half(2) | half(3) << 32]);
            tail += u64::from(self.ring.load_u16(at(tail + 6), Ordering::Relaxed));
        }
        self.ring.store_u64(TAIL, tail, Ordering::Release);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // An event whose overflows are known: each store to a variable.
    let mut attr = Attr::new(EventType::BREAKPOINT);
    attr.bp_type = Breakpoint::W;
    (attr.config1, attr.config2) = (WATCHED.as_ptr() as u64, 8);
    attr.sample_period = 1;
    attr.flags |= perfuse_abi::AttrFlags::EXCLUDE_KERNEL;
    let event = perf_event_open(&mut attr, 0, -1, None, OpenFlags::FD_CLOEXEC)?;

    // Events for output, one for each cpu, in an array.
    let cpus = thread::configured_cpus();
    let outputs = Map::create([MapKind::PerfEventArray.number(), 4, 4, cpus as u32, 0])?;
    let mut rings = Vec::new();
    for cpu in 0..cpus as u32 {
        let output = Output::open(cpu as i32)?;
        outputs.update(&cpu.to_ne_bytes(), &output.event.as_raw_fd().to_ne_bytes(), 0)?;
        rings.push(output);
    }

    // The program, on the event.
    let counts = Map::create([MapKind::Array.number(), 4, 8, 1, 0])?;
    let insns = assemble(&program(counts.as_raw_fd(), outputs.as_raw_fd()))?;
    let bytes = insn::to_bytes(&insns, ByteOrder::NATIVE);
    let slots: Vec<[u8; 8]> = bytes.chunks_exact(8).filter_map(|slot| slot.try_into().ok()).collect();
    let program = load(ProgramType::PerfEvent.number(), &slots, ALL_HELPERS, None, true)
        .map_err(|(errno, log)| format!("the program is refused: {errno}\n{log}"))?;
    ioctl::set_bpf(event.as_fd(), program.as_fd())?;

    for value in 1..=5 {
        WATCHED.store(value, Ordering::SeqCst);
    }
    let fds: Vec<_> = rings.iter().map(|output| output.event.as_fd()).collect();
    let ready = poll(&fds, Some(Duration::from_secs(5)))?;
    println!("ready: {}", ready.iter().any(|one| one.readable));
    let mut told = Vec::new();
    rings.iter().for_each(|output| output.read(&mut told));
    told.sort_unstable();
    for [before, addr] in told {
        println!("overflow {before}: of the variable {}", addr == WATCHED.as_ptr() as u64);
    }
    let count = counts.lookup(&[0; 4])?;
    println!("counted: {}", count.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)));
    Ok(())
}
