//! Counts the system calls of each process of the machine for a second, by a BPF program that is text, and prints the busiest ones:
//! root, or CAP_BPF and CAP_PERFMON.

use perfuse::Programs;
use perfuse::bpf::{MapKind, MapSpec, assemble};
use std::{thread, time::Duration};

const COUNT: &str = "
    call get_current_pid_tgid
    r0 >>= 32
    *(u32 *)(r10 -4) = r0
    r1 = map[idx:0]
    r2 = r10
    r2 += -4
    call map_lookup_elem
    if r0 == 0 goto new
    r1 = 1
    lock *(u64 *)(r0 +0) += r1
    goto out
new:
    *(u64 *)(r10 -16) = 1
    r1 = map[idx:0]
    r2 = r10
    r2 += -4
    r3 = r10
    r3 += -16
    r4 = 0
    call map_update_elem
out:
    r0 = 0
    exit";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut programs = Programs::new(&[MapSpec::new(MapKind::Hash, 4, 8, 10_000)])?;
    programs.at_raw_tracepoint("sys_enter", &assemble(COUNT)?)?;
    thread::sleep(Duration::from_secs(1));
    programs.detach();

    let mut counts = Vec::new();
    for (pid, calls) in programs.map(0).entries()? {
        counts.push((u64::from_ne_bytes(calls[..8].try_into()?), u32::from_ne_bytes(pid[..4].try_into()?)));
    }
    counts.sort_unstable();
    for (calls, pid) in counts.iter().rev().take(10) {
        println!("{calls:9}  {pid}");
    }
    Ok(())
}
