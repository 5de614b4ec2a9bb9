//! Follows what a command starts, in an async runtime, by whichever kernel can: `follow sh -c 'ls; date'`.

use perfuse::abi::{AttrFlags, SampleType, Software, record::Record};
use perfuse::{Command, Perf, RingOptions, SamplerSet, Scope};
use std::error::Error;
use tokio::io::{Interest, unix::AsyncFd};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    if words.is_empty() {
        words = ["sh", "-c", "(:); (:)"].map(Into::into).to_vec();
    }
    let command = Command::new(&words[0]).args(&words[1..]).hold()?;
    let event = Perf::available().counter(Software::DUMMY).user_only().enable_on_exec(true);
    let event = event.sample(SampleType::TID | SampleType::TIME).with(|attr| {
        attr.flags |= AttrFlags::TASK | AttrFlags::COMM;
        attr.set_wakeup_watermark(1);
    });
    let set = SamplerSet::open(&Scope::command(&command), &[event.into()], RingOptions::default())?;
    let running = command.release()?;
    #[allow(deprecated, reason = "tokio 1.54 has an unsafe one too; the set keeps its descriptor")]
    let mut set = AsyncFd::with_interest(set, Interest::READABLE)?;
    while !set.get_ref().is_over() {
        set.readable_mut().await?.clear_ready();
        set.get_ref().acknowledge_all()?;
        for record in set.get_mut().settled().iter() {
            match record.decode()?.record {
                Record::Fork(task) => println!("{} starts {}", task.ppid, task.pid),
                Record::Comm(comm) => {
                    println!("{} is {}", comm.tid.pid, String::from_utf8_lossy(comm.name.as_bytes()))
                }
                Record::Exit(task) => println!("{} ends", task.pid),
                _ => {}
            }
        }
    }
    println!("{}", running.wait()?.0);
    Ok(())
}
