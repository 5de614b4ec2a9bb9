//! Prints a process's threads and the files whose code it has mapped, `code PID`; without a number, its own.

use perfuse_proc::{Map, maps, read};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pid = match std::env::args().nth(1) {
        Some(pid) => pid.parse()?,
        None => std::process::id(),
    };
    for tid in read::threads(pid)? {
        println!("thread {tid} {}", String::from_utf8_lossy(&read::name(tid)));
    }
    for map in maps(&read::maps(pid)?).filter(|map| map.prot & Map::EXEC != 0) {
        println!("{:#x} {:6} KiB {}", map.start, map.len() / 1024, String::from_utf8_lossy(map.name));
    }
    Ok(())
}
