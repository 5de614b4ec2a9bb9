//! BPF programs from arbitrary bytes: as slots, and as choices of the generator of the tests. What decodes reads and writes as text.
//! What the verifier lets through never faults and ends; what it refuses says why, and run all the same it ends within its budget
//! and touches nothing of ours.
#![no_main]

#[path = "../../crates/bpf/tests/shared/draw.rs"]
mod draw;

use libfuzzer_sys::fuzz_target;
use perfuse_abi::ByteOrder;
use perfuse_bpf::insn::{decode, encode, slots_of_bytes};
use perfuse_bpf::{
    Insn, Machine, MapKind, MapSpec, Maps, NoWorld, ProgramSpec, ProgramType, assemble, listing,
    run_unverified,
};

const TYPES: [ProgramType; 5] = [
    ProgramType::RawTracepoint,
    ProgramType::PerfEvent,
    ProgramType::Tracepoint,
    ProgramType::Kprobe,
    ProgramType::SocketFilter,
];

fn program(bytes: &[u8]) -> Option<Vec<Insn>> {
    let (first, rest) = bytes.split_first()?;
    if first & 1 == 0 {
        let slots = slots_of_bytes(rest, ByteOrder::Little);
        let insns = decode(&slots).ok()?;
        assert_eq!(encode(&insns), slots);
        return Some(insns);
    }
    let mut rest = rest.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.last().unwrap_or(&0)));
    let mut below = |limit: u32| rest.next().map_or(0, |number| number * limit >> 16);
    let around = draw::Around { map: 0, value_bytes: 48, context_bytes: 96 };
    Some(draw::Draw { below: &mut below }.program(1 + u32::from(first >> 3), &around))
}

fuzz_target!(|bytes: &[u8]| {
    let Some(insns) = program(bytes) else { return };
    assert_eq!(assemble(&listing(&insns)).as_ref(), Ok(&insns));
    let mut machine = Machine::new(Maps::new(2, 1 << 20, 1));
    let maps = [
        MapSpec::new(MapKind::Array, 4, 48, 8),
        MapSpec::new(MapKind::Hash, 8, 8, 16),
        MapSpec::new(MapKind::RingBuf, 0, 0, 4096),
        MapSpec::new(MapKind::PerfEventArray, 4, 4, 2),
        MapSpec::new(MapKind::StackTrace, 4, 80, 16),
        MapSpec::new(MapKind::Queue, 0, 8, 4),
        MapSpec::new(MapKind::ProgArray, 4, 4, 2),
    ]
    .map(|spec| machine.maps.create(spec).expect("a map"));
    let program_type = TYPES[usize::from(bytes[0] >> 1) % TYPES.len()];
    // A context is as long as a program may read.
    let mut context = vec![7; 8192];
    match machine.load(ProgramSpec { program_type, insns: &insns, maps: &maps }) {
        Ok(program) => {
            let ran = machine.run(program, &mut context, &mut NoWorld, 20_000_000).expect("a program");
            assert!(ran.result.is_ok(), "{:?}\n{}", ran.result, listing(&insns));
        }
        Err(refusal) => {
            let _ = refusal.to_string();
            let _ =
                run_unverified(&insns, &mut machine.maps, &mut context, [None, None], &mut NoWorld, 10_000);
        }
    }
});
