//! Linux and this crate, asked the same: programs are verified by both, and run by both where both let them through; calls on maps
//! are made on both. Where the two differ, Linux is right, or the test says why it may be.
//!
//! `PERFUSE_SEED=n` begins with the program n, `PERFUSE_PROGRAMS=m` draws m of them.

#[path = "../shared/draw.rs"]
mod draw;
mod maps;
mod verdicts;

use perfuse_abi::{ByteOrder, Errno};
use perfuse_bpf::insn::{Constant, to_bytes};
use perfuse_bpf::{Insn, ProgramType};
use perfuse_testkit::{Outcome, Skip, need, suite};
use std::os::fd::{AsRawFd, OwnedFd};

suite! {
    all need may_load;
    witnesses:
        programs_by_chance_have_equal_results,
        verdicts::programs_are_let_through_or_refused_alike,
        maps::calls_are_answered_alike,
        maps::declarations_are_answered_alike;
}

fn may_load() -> Outcome {
    need::root()?;
    let exit = perfuse_bpf::assemble("r0 = 0; exit").expect("a program");
    load(ProgramType::SocketFilter, &exit).map_err(|(errno, _)| Skip::needs("BPF", errno))?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if release.starts_with("6.18.") { Ok(()) } else { Err(Skip::needs("Linux 6.18", release.trim())) }
}

/// Loads into Linux.
fn load(program_type: ProgramType, insns: &[Insn]) -> Result<OwnedFd, (Errno, String)> {
    let order = if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };
    let bytes = to_bytes(insns, order);
    let slots: Vec<[u8; 8]> = bytes.chunks_exact(8).map(|slot| slot.try_into().expect("eight")).collect();
    perfuse_sys::bpf::load(program_type.number(), &slots, perfuse_sys::bpf::ALL_HELPERS, None, true)
}

/// With Linux's descriptor of the map in place of ours.
fn with_map(insns: &[Insn], ours: i32, theirs: i32) -> Vec<Insn> {
    let mut insns = insns.to_vec();
    for insn in &mut insns {
        if let Insn::Constant { value: Constant::Map(fd) | Constant::MapValue(fd, _), .. } = insn {
            if *fd == ours {
                *fd = theirs;
            }
        }
    }
    insns
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |value| value.parse().expect("a number"))
}

fn programs_by_chance_have_equal_results() -> Outcome {
    use perfuse_bpf::{Machine, MapKind, MapSpec, Maps, NoWorld, ProgramSpec};
    let theirs = perfuse_sys::bpf::Map::create([MapKind::Array.number(), 4, 48, 8, 0]).expect("a map");
    let (first, programs) = (number("PERFUSE_SEED", 0), number("PERFUSE_PROGRAMS", 500));
    let (mut both, mut ours_only, mut theirs_only, mut neither) = (0, Vec::new(), Vec::new(), 0);
    for seed in first..first + programs {
        let mut machine = Machine::new(Maps::new(1, 1 << 20, seed));
        let map = machine.maps.create(MapSpec::new(MapKind::Array, 4, 48, 8)).expect("a map");
        let around = draw::Around { map: map.0 as i32, value_bytes: 48, context_bytes: 96 };
        let mut below = draw::random(seed);
        let insns = draw::Draw { below: &mut below }.program(1 + (seed % 24) as u32, &around);
        let mut context = [0u8; 96];
        context.iter_mut().for_each(|byte| *byte = below(256) as u8);
        let fd = load(ProgramType::RawTracepoint, &with_map(&insns, map.0 as i32, theirs.as_raw_fd()));
        let spec = ProgramSpec { program_type: ProgramType::RawTracepoint, insns: &insns, maps: &[] };
        let text = || format!("PERFUSE_SEED={seed}:\n{}", perfuse_bpf::listing(&insns));
        match (machine.load(spec), fd) {
            (Ok(ours), Ok(fd)) => {
                both += 1;
                for index in 0..8u32 {
                    theirs.update(&index.to_ne_bytes(), &[0; 48], 0).expect("zeros");
                }
                use std::os::fd::AsFd;
                let (result, _) = perfuse_sys::bpf::test_run(fd.as_fd(), &[], &context, 0).expect("a run");
                let ran = machine.run(ours, &mut context, &mut NoWorld, 1_000_000).expect("a program");
                // Pointers are other numbers here, so what comes of them is not compared.
                if !draw::shows_pointers(&insns) {
                    assert_eq!(ran.result.map(|value| value as u32), Ok(result), "{}", text());
                    for index in 0..8u32 {
                        let key = index.to_ne_bytes();
                        let found = machine.maps.get(map).expect("the map").lookup(&key).expect("a value");
                        assert_eq!(found, theirs.lookup(&key).expect("a value"), "value {index}, {}", text());
                    }
                }
            }
            (Ok(_), Err((_, log))) => {
                let last = log.lines().rev().find(|line| !line.starts_with("processed")).unwrap_or_default();
                ours_only.push(format!("{last} PERFUSE_SEED={seed}"));
            }
            (Err(refusal), Ok(_)) => theirs_only.push(format!(
                "{} PERFUSE_SEED={seed}",
                refusal.to_string().lines().next().unwrap_or_default()
            )),
            (Err(_), Err(_)) => neither += 1,
        }
    }
    println!(
        "{programs} programs: both let {both} through, neither {neither}, Linux alone {}, we alone {}",
        theirs_only.len(),
        ours_only.len()
    );
    for told in theirs_only.iter().take(12) {
        println!("  Linux alone: {told}");
    }
    for told in ours_only.iter().take(12) {
        println!("  we alone: {told}");
    }
    assert!(both * 4 > programs, "{both} of {programs}");
    assert!(theirs_only.len() as u64 * 50 < both, "we refuse too much");
    // Where we know more of numbers (each byte of a constant on the stack), ways are dead here that Linux still goes.
    assert!(ours_only.len() as u64 * 10 < both, "we let too much through");
    Ok(())
}
