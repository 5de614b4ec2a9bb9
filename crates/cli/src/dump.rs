//! `perfuse dump`: where each thread of a process is now.

use crate::common::processes::{self, Processes};
use crate::exit::{FAILED, Failure, Result};
use crate::recording;
use crate::term::foreign::foreign;
use crate::term::out::{self, say};
use perfuse_abi::record::Regs;
use perfuse_live::look::{Looked, look};
use perfuse_profile::LocalSymbols;
use perfuse_unwind::{End, RunningFrame, RunningStacks};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Options of `perfuse dump`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse dump -p 1234\n  perfuse dump -p 1234 --max-stack 20\n  perfuse dump -p 1234 --json | jq '.threads[].frames[0].function'"
)]
pub(crate) struct Args {
    /// The process, by number or name
    #[arg(short, long, value_name = "PID|NAME", required = true)]
    pid: Vec<Processes>,
    /// Only these threads
    #[arg(short, long, value_name = "TID,...", value_delimiter = ',')]
    tid: Vec<u32>,
    /// Follow at most so many frames
    #[arg(long, value_name = "NUMBER", default_value_t = 127)]
    max_stack: usize,
    /// Copy at most so many KiB of each stack
    #[arg(long, value_name = "KIB", default_value_t = 512)]
    stack_size: usize,
    /// Leave out functions that were inlined
    #[arg(long)]
    no_inline: bool,
    /// One JSON object for each process (schema perfuse.dump/1)
    #[arg(long)]
    json: bool,
}

/// Runs `perfuse dump`.
pub(crate) fn run(args: &Args) -> Result {
    let mut out = out::stdout();
    let pids = processes::all(&args.pid);
    let mut refused = 0;
    for (index, &pid) in pids.iter().enumerate() {
        if let Err(failure) = process(&mut out, args, pid, index > 0) {
            if pids.len() == 1 || failure.is_unread() {
                return Err(failure);
            }
            refused += 1;
            say(failure);
        }
    }
    out.flush()?;
    Ok(if refused == 0 { ExitCode::SUCCESS } else { FAILED.into() })
}

fn process(out: &mut impl Write, args: &Args, pid: u32, is_next: bool) -> Result<()> {
    let failed =
        |why: &dyn std::fmt::Display| Failure::new(format_args!("process {pid} cannot be looked at: {why}"));
    let mut threads = look(pid, args.stack_size.saturating_mul(1024)).map_err(|error| failed(&error))?;
    if let Some(tid) = args.tid.iter().find(|tid| threads.iter().all(|thread| thread.tid != **tid)) {
        return Err(failed(&format_args!("it has no thread {tid}")));
    }
    threads.retain(|thread| args.tid.is_empty() || args.tid.contains(&thread.tid));
    let mut options = recording::symbol_options(false);
    options.live = true;
    let symbols = LocalSymbols::from(options).symbolizer().clone();
    let mut stacks = RunningStacks::of(pid, symbols, args.max_stack).map_err(|error| failed(&error))?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = command.split(|&byte| byte == 0).filter(|word| !word.is_empty()).collect();
    let command = foreign(&words.join(&b' ')).into_owned();
    let told: Vec<Thread<'_>> =
        threads.iter().map(|thread| Thread::of(thread, &mut stacks, args.no_inline)).collect();
    if args.json {
        let threads: Vec<Value> = told.iter().map(Thread::json).collect();
        let object = json!({"schema": "perfuse.dump/1", "pid": pid, "command": command, "threads": threads});
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "{}process {pid}: {command}", if is_next { "\n" } else { "" })?;
    told.iter().try_for_each(|thread| thread.write(out))?;
    Ok(())
}

/// A thread with its stack.
struct Thread<'l> {
    looked: &'l Looked,
    frames: Vec<RunningFrame>,
    /// How the stack ended; none of a thread whose stack was not seen.
    end: Option<End>,
}

impl<'l> Thread<'l> {
    fn of(looked: &'l Looked, stacks: &mut RunningStacks, no_inline: bool) -> Self {
        let (mut frames, mut end) = (Vec::new(), None);
        if let Some(regs) = &looked.registers {
            let regs = Regs { abi: regs.abi, mask: regs.mask, words: regs.words[..].into() };
            if let Some((chain, ended)) = stacks.unwind(&regs, &looked.stack) {
                frames = chain.iter().flat_map(|&address| stacks.frames(address)).collect();
                frames.retain(|frame| !(no_inline && frame.is_inlined));
                end = Some(ended);
            }
        }
        Thread { looked, frames, end }
    }

    fn state(&self) -> &'static str {
        match self.looked.state {
            'R' => "running",
            'S' => "sleeping",
            'D' => "in an uninterruptible sleep",
            'T' => "stopped",
            't' => "traced",
            'I' => "idle",
            _ => "in an unknown state",
        }
    }

    /// The reason why there is no more of the stack.
    fn rest(&self) -> Option<&'static str> {
        match self.end {
            Some(End::Root) => None,
            Some(End::Most) => Some("more callers: --max-stack"),
            Some(End::Stack) => Some("more of the stack: --stack-size"),
            Some(_) => Some("callers are not known: code without unwinding tables and frame pointers"),
            None if self.looked.registers.is_some() => {
                Some("a program of 32 bits, whose stacks are not unwound")
            }
            None => Some("it did not stop, so its stack is not seen"),
        }
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let name = foreign(&self.looked.name);
        writeln!(out, "\nthread {} \"{name}\": {}", self.looked.tid, self.state())?;
        let mut number = 0;
        for function in &self.looked.kernel {
            writeln!(out, "  #{number:<3} {} ([kernel])", foreign(function))?;
            number += 1;
        }
        for frame in &self.frames {
            let function = match &frame.function {
                Some(function) => foreign(function).into_owned(),
                None => format!("{:#x}", frame.address),
            };
            let place = match &frame.line {
                Some((file, line)) => format!(" at {}:{line}", foreign(file)),
                None => String::new(),
            };
            let object = frame.object.file_name().unwrap_or(frame.object.as_os_str());
            let object = match frame.is_inlined {
                true => " (inlined)".to_owned(),
                false if object.is_empty() => String::new(),
                false => format!(" ({})", foreign(object.as_bytes())),
            };
            writeln!(out, "  #{number:<3} {function}{object}{place}")?;
            number += 1;
        }
        self.rest().map_or(Ok(()), |rest| writeln!(out, "  ... {rest}"))
    }

    fn json(&self) -> Value {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let frames = self.frames.iter().map(|frame| {
            json!({
                "address": format!("{:#x}", frame.address),
                "function": frame.function,
                "offset": frame.offset,
                "object": text(frame.object.as_os_str().as_bytes()),
                "file": frame.line.as_ref().map(|(file, _)| file),
                "line": frame.line.as_ref().map(|(_, line)| line),
                "inlined": frame.is_inlined,
            })
        });
        json!({
            "tid": self.looked.tid,
            "name": text(&self.looked.name),
            "state": self.looked.state.to_string(),
            "kernel": self.looked.kernel,
            "frames": frames.collect::<Vec<_>>(),
            "incomplete": self.rest(),
        })
    }
}
