//! Object files of BPF programs from arbitrary bytes, fitted to no types and to their own as those of a kernel. What is read stays within
//! its limits, and the verifier says something to each program.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_bpf::object::{Object, Target, types};
use perfuse_bpf::{Machine, Maps, ProgramSpec};

fuzz_target!(|bytes: &[u8]| {
    let own = types(bytes).ok().flatten();
    for types in [None, own.as_ref()] {
        let Ok(object) = Object::parse(bytes, &Target { types, ..Target::new(2) }) else { continue };
        let slots: usize =
            object.programs.iter().flat_map(|program| &program.insns).map(|insn| insn.slots()).sum();
        assert!(slots <= 1_000_000, "{slots} slots");
        let mut machine = Machine::new(Maps::new(2, 1 << 20, 1));
        let Ok(maps) = object.maps_in(&mut machine.maps) else { continue };
        for program in object.programs.iter().filter(|program| program.insns.len() < 200).take(4) {
            let Some(program_type) = program.program_type else { continue };
            if let Err(refusal) =
                machine.load(ProgramSpec { program_type, insns: &program.insns, maps: &maps })
            {
                assert!(!refusal.to_string().is_empty());
            }
        }
    }
});
