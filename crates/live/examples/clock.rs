//! Counts the time of a command and all that it starts without the kernel's perf_events: `clock [COMMAND]`.

use perfuse_engine::{OpenArguments, TaskId};
use perfuse_live::machine::{Machine, Rights, Settings};
use perfuse_live::supervisor::{Front, Supervisor};
use perfuse_sys::abi::wire::{Layout, Writer};
use perfuse_sys::abi::{Attr, AttrFlags, ByteOrder, EventType, Software};
use std::sync::{Arc, Mutex};

struct Nothing;

impl Front for Nothing {}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut command: Vec<_> = std::env::args_os().skip(1).collect();
    if command.is_empty() {
        command = vec!["true".into()];
    }
    let machine = Arc::new(Mutex::new(Machine::new(Settings::default())));
    let mut supervisor = Supervisor::new(machine.clone(), 0)?;
    let held = perfuse_sys::process::spawn(&command[0], &command).map_err(perfuse_sys::io_error)?;
    supervisor.seize(held.pid(), held.pid())?;

    let mut attr = Attr { config: Software::TASK_CLOCK.0, ..Attr::new(EventType::SOFTWARE) };
    (attr.size, attr.flags) = (Attr::SIZE_VER8, AttrFlags::INHERIT);
    let mut bytes = Vec::new();
    attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE))?;
    let arguments = OpenArguments { pid: held.pid(), ..OpenArguments::default() };
    let event = machine.lock().unwrap().open(TaskId(0), &mut bytes, arguments, None, Rights::OWN)?;

    // Its exec is a stop that this thread has to handle meanwhile.
    let release = std::thread::spawn(move || held.release().map(drop));
    supervisor.run(&mut Nothing)?;
    release.join().unwrap().map_err(perfuse_sys::io_error)?;
    let mut count = Vec::new();
    machine.lock().unwrap().read(event, 8, &mut count)?;
    println!("{} ns", u64::from_ne_bytes(count[..8].try_into()?));
    Ok(())
}
