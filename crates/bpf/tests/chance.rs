//! Programs by chance: whatever the verifier lets through never faults, and ends within what it looked at; whatever it does not let
//! through ends as well, and touches nothing. `PERFUSE_PROGRAMS` says how many are drawn.

#[path = "shared/draw.rs"]
mod draw;

use draw::{Around, Draw};
use perfuse_bpf::{
    Fault, Machine, MapKind, MapSpec, Maps, NoWorld, ProgramSpec, ProgramType, run_unverified,
};

fn programs() -> u64 {
    std::env::var("PERFUSE_PROGRAMS").ok().map_or(3_000, |count| count.parse().expect("a number"))
}

#[test]
fn what_is_let_through_never_faults() {
    let (mut taken, mut stopped) = (0, 0);
    let first: u64 = std::env::var("PERFUSE_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    for seed in first..first + programs() {
        let mut machine = Machine::new(Maps::new(1, 1 << 20, seed));
        let map = machine.maps.create(MapSpec::new(MapKind::Array, 4, 48, 8)).unwrap();
        let around = Around { map: map.0 as i32, value_bytes: 48, context_bytes: 96 };
        let mut below = draw::random(seed);
        let pieces = 1 + (seed % 24) as u32;
        let insns = Draw { below: &mut below }.program(pieces, &around);
        let mut context = [0u8; 96];
        context.iter_mut().for_each(|byte| *byte = below(256) as u8);
        let spec = ProgramSpec { program_type: ProgramType::RawTracepoint, insns: &insns, maps: &[] };
        match machine.load(spec) {
            Ok(program) => {
                taken += 1;
                let looked_at = machine.program(program).unwrap().verified().looked_at;
                // Each instruction of a way was looked at, and a thing or two may come between.
                let most = 2 * u64::from(looked_at) + 2;
                let ran = machine.run(program, &mut context, &mut NoWorld, most).unwrap();
                let text = perfuse_bpf::listing(&insns);
                assert!(ran.result.is_ok(), "{:?} of {most}, PERFUSE_SEED={seed}:\n{text}", ran.result);
            }
            Err(refusal) => {
                let _ = refusal.to_string();
                let arguments = [None, None];
                let ran =
                    run_unverified(&insns, &mut machine.maps, &mut context, arguments, &mut NoWorld, 10_000);
                stopped += u32::from(matches!(ran.result, Err(Fault::Budget | Fault::Access { .. })));
            }
        }
    }
    println!("{} programs: {taken} let through, {stopped} others stopped", programs());
    assert!(taken * 4 > programs(), "{taken} of {} are let through", programs());
}
