//! The formats of all tracepoints of the running kernel: nearly every `print fmt` must be understood.

use perfuse_trace::Format;
use std::fs;
use std::path::Path;

#[test]
fn the_running_kernels_formats_are_understood() {
    let folder = Path::new("/sys/kernel/tracing/events");
    let Ok(systems) = fs::read_dir(folder) else {
        println!("no tracefs here");
        return;
    };
    let (mut count, mut unknown) = (0, Vec::new());
    for system in systems.flatten() {
        for event in fs::read_dir(system.path()).into_iter().flatten().flatten() {
            let Ok(text) = fs::read_to_string(event.path().join("format")) else { continue };
            let format = Format::parse(&text).expect("a name and a number");
            count += 1;
            if !format.is_understood() {
                unknown.push(format!(
                    "{}: {}",
                    format.name,
                    text.split("print fmt:").nth(1).unwrap_or_default()
                ));
            }
        }
    }
    for format in &unknown {
        println!("{format}");
    }
    println!("{count} formats, {} not understood", unknown.len());
    assert!(unknown.len() * 100 <= count);
}
