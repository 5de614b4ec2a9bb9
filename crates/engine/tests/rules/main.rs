//! The rules of `docs/semantics.md`, played on a machine made for tests. Each file is a field of them;
//! each test cites the rules it is about.

mod accounting;
mod attr;
mod aux;
mod bpf;
mod counting;
#[path = "../shared/image.rs"]
mod image;
mod inherit;
mod ioctl;
mod kinds;
#[path = "../shared/machine.rs"]
mod machine;
mod mmap;
mod open;
mod output;
mod overflow;
mod poll;
#[path = "../shared/random.rs"]
mod random;
mod ring;
mod sample;
mod sched;
mod settings;
mod sideband;
mod state;
#[path = "../shared/tracer.rs"]
mod tracer;
mod userpage;
mod wakeup;
