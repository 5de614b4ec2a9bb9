//! BPF: nanoseconds of an instruction, ours against the kernel's (where it compiles programs: against machine code) and the crate
//! rbpf's interpreter; milliseconds to verify 1 000 instructions, ours against the kernel's.

use crate::measure::{Contestant, compare};
use perfuse_bpf::insn::to_bytes;
use perfuse_bpf::{
    ByteOrder, Insn, Machine, MapKind, MapSpec, Maps, NoWorld, ProgramSpec, ProgramType, assemble,
};
use std::os::fd::AsFd;
use std::time::Instant;

const TURNS: u32 = 10_000;

/// Arithmetic, and a loop around it.
const ARITHMETIC: &str = "r0 = 1; r2 = 7; r1 = 0
    again: r0 += r2; r0 ^= r1; r2 <<= 1; r2 |= 1; r0 *= 3; w2 -= w1; r0 >>= 1; r1 += 1; if r1 < 10000 goto again; exit";
/// Words of the stack.
const MEMORY: &str = "*(u64 *)(r10 -8) = 1; *(u64 *)(r10 -16) = 2; r1 = 0
    again: r2 = *(u64 *)(r10 -8); r3 = *(u64 *)(r10 -16); r2 += r3; *(u64 *)(r10 -8) = r2; *(u32 *)(r10 -16) = r1
    r1 += 1; if r1 < 10000 goto again; r0 = *(u64 *)(r10 -8); exit";

fn bytes(insns: &[Insn]) -> Vec<u8> {
    let order = if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };
    to_bytes(insns, order)
}

fn slots(insns: &[Insn]) -> Vec<[u8; 8]> {
    bytes(insns).chunks_exact(8).map(|slot| slot.try_into().expect("eight bytes")).collect()
}

fn speed(title: &str, text: &str, per_turn: u32) {
    let insns = assemble(text).expect("a program");
    let run = f64::from(TURNS * per_turn);
    let mut machine = Machine::new(Maps::new(1, 1 << 20, 1));
    let spec = ProgramSpec { program_type: ProgramType::RawTracepoint, insns: &insns, maps: &[] };
    let program = machine.load(spec).expect("it is safe");
    let mut contestants = vec![Contestant::timed("perfuse-bpf, ns an instruction", move || {
        let start = Instant::now();
        let ran = machine.run(program, &mut [0; 96], &mut NoWorld, u64::MAX).expect("a program");
        ran.result.expect("a result");
        start.elapsed().as_nanos() as f64 / run
    })];
    let raw = bytes(&insns);
    contestants.push(Contestant::timed("rbpf's interpreter", move || {
        let vm = rbpf::EbpfVmNoData::new(Some(&raw)).expect("a program");
        let start = Instant::now();
        vm.execute_program().expect("a result");
        start.elapsed().as_nanos() as f64 / run
    }));
    if let Ok(fd) = perfuse_sys::bpf::load(
        ProgramType::SocketFilter.number(),
        &slots(&insns),
        perfuse_sys::bpf::ALL_HELPERS,
        None,
        false,
    ) {
        contestants.push(Contestant::timed("Linux, as it runs programs here", move || {
            let (_, ns) = perfuse_sys::bpf::test_run(fd.as_fd(), &[0; 64], &[], 10).expect("a run");
            f64::from(ns) / run
        }));
    }
    compare(title, 11, contestants);
}

/// 1 000 instructions as tracing programs have them: keys, lookups, comparisons with null, counters, bounded indices.
fn verifier() {
    let one = "
        r2 = *(u64 *)(r6 +8); *(u32 *)(r10 -4) = 0; *(u64 *)(r10 -16) = r2
        r1 = MAP; r2 = r10; r2 += -16; call map_lookup_elem; if r0 == 0 goto lN
        r3 = *(u64 *)(r6 +16); r3 &= 7; r0 += r3; r1 = *(u8 *)(r0 +0); r1 += 1; *(u8 *)(r0 +0) = r1
        lN: r7 = 0";
    let program = |map: i32| {
        let body: String = (0..58)
            .map(|n| one.replace("MAP", &format!("map[fd:{map}]")).replace("lN", &format!("l{n}")) + "\n")
            .collect();
        assemble(&format!("r6 = r1; r7 = 0; {body} r0 = 0; exit")).expect("a program")
    };
    let mut maps = Maps::new(1, 1 << 20, 1);
    let map = maps.create(MapSpec::new(MapKind::Hash, 8, 8, 64)).expect("a map");
    let insns = program(map.0 as i32);
    println!("the program has {} instructions", insns.len());
    let verify = move || {
        perfuse_bpf::verify(ProgramType::RawTracepoint, &insns, &maps, &[]).expect("it is safe");
    };
    let mut contestants = vec![Contestant::calls("perfuse-bpf, to verify it", 10, verify)];
    if let Ok(map) = perfuse_sys::bpf::Map::create([MapKind::Hash.number(), 8, 8, 64, 0]) {
        let slots = slots(&program(std::os::fd::AsRawFd::as_raw_fd(&map)));
        contestants.push(Contestant::calls("Linux, to verify and compile it", 10, move || {
            let _ = &map;
            perfuse_sys::bpf::load(
                ProgramType::RawTracepoint.number(),
                &slots,
                perfuse_sys::bpf::ALL_HELPERS,
                None,
                false,
            )
            .expect("it is safe");
        }));
    }
    compare("bpf: verifying 1 000 instructions", 11, contestants);
}

pub fn all() {
    speed("bpf: arithmetic", ARITHMETIC, 9);
    speed("bpf: memory", MEMORY, 7);
    verifier();
}
