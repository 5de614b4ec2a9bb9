//! A program that counts by process: written as text, refused once and told why, verified, run, and its map read.
//!
//! ```text
//! cargo run -p perfuse-bpf --example count
//! ```

use perfuse_bpf::{Machine, MapKind, MapSpec, Maps, ProgramSpec, ProgramType, World, assemble, listing};

/// Two processes take turns.
struct Turns(u64);

impl World for Turns {
    fn pid_tgid(&mut self) -> u64 {
        self.0 += 1;
        (100 + self.0 % 2) << 32
    }
}

const PROGRAM: &str = "
    call get_current_pid_tgid
    r0 >>= 32
    *(u32 *)(r10 -4) = r0
    r1 = map[idx:0]
    r2 = r10
    r2 += -4
    call map_lookup_elem
    if r0 != 0 goto there
    *(u64 *)(r10 -16) = 1
    r1 = map[idx:0]
    r2 = r10
    r2 += -4
    r3 = r10
    r3 += -16
    r4 = 0
    call map_update_elem
    goto out
there:
    r1 = 1
    lock *(u64 *)(r0 +0) += r1
out:
    r0 = 0
    exit";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut machine = Machine::new(Maps::new(1, 1 << 20, 7));
    let maps = [machine.maps.create(MapSpec::new(MapKind::Hash, 4, 8, 100))?];
    let spec = |insns| ProgramSpec { program_type: ProgramType::Tracepoint, insns, maps: &maps };

    // Without the comparison, the value of a key that is not there would be read through null.
    let before = PROGRAM.split("if r0").next().unwrap_or_default();
    let careless = assemble(&format!("{before} r0 = *(u64 *)(r0 +0); exit"))?;
    println!("refused: {}\n", machine.load(spec(&careless)).expect_err("null is possible"));

    let insns = assemble(PROGRAM)?;
    print!("{}", listing(&insns));
    let program = machine.load(spec(&insns))?;
    println!("\nverified: {:?}", machine.program(program)?.verified());

    let mut world = Turns(0);
    for _ in 0..11 {
        machine.run(program, &mut [0; 64], &mut world, 10_000)?.result?;
    }
    let counts = machine.maps.get(maps[0])?;
    let mut key = counts.next_key(None);
    while let Ok(pid) = key {
        println!("process {}: {:?}", u32::from_ne_bytes(pid[..4].try_into()?), counts.lookup(&pid)?);
        key = counts.next_key(Some(&pid));
    }
    Ok(())
}
