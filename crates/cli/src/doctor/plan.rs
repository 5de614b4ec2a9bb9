//! `--for`: whether one perfuse command line would work here, found out by opening exactly what it
//! would open.

use super::json;
use super::report::{Reason, Verdict};
use super::text::{Script, remedies, wrapped};
use crate::cli::{Cli, Subcommand};
use crate::common::events;
use crate::common::kernel::{self, KernelOption};
use crate::exit::{Failure, Result};
use crate::habits;
use crate::stat::{self, Rehearsed};
use clap::Parser;
use perfuse::abi::{BranchSampleType, SampleType};
use perfuse::{
    Builder, Command, Error, HeldCommand, Inherit, Sampler, Scope, Target, online_cpus, parse_cpu_list,
};
use serde_json::json;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// What of `perfuse record` decides what is opened, with perf's letters. The command itself, when it
/// comes, brings its own options, which then take this struct's place.
#[derive(Debug, Parser)]
#[command(name = "record", no_binary_name = true)]
struct Record {
    /// Events to sample
    #[arg(short = 'e', long = "event")]
    events: Vec<String>,
    /// Every process
    #[arg(short = 'a', long)]
    all_cpus: bool,
    /// These cpus
    #[arg(short = 'C', long)]
    cpu: Option<String>,
    /// These processes
    #[arg(short = 'p', long, value_delimiter = ',')]
    pid: Vec<u32>,
    /// These threads
    #[arg(short = 't', long, value_delimiter = ',')]
    tid: Vec<u32>,
    /// Samples per second
    #[arg(short = 'F', long)]
    freq: Option<u64>,
    /// Occurrences per sample
    #[arg(short = 'c', long)]
    count: Option<u64>,
    /// Callchains
    #[arg(short = 'g')]
    callchains: bool,
    /// Callchains of this kind
    #[arg(long)]
    call_graph: Option<String>,
    /// Branch records
    #[arg(short = 'b', long)]
    branch_any: bool,
    /// Data addresses
    #[arg(short = 'd', long)]
    data: bool,
    /// Raw tracepoint data
    #[arg(short = 'R', long)]
    raw_samples: bool,
    /// Pages of each ring
    #[arg(short = 'm', long)]
    mmap_pages: Option<usize>,
    /// Not what the tasks start
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// Where the samples would go
    #[arg(short = 'o', long)]
    output: Option<OsString>,
    #[command(flatten)]
    kernel: KernelOption,
    /// The command
    #[arg(trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Tries the plan and tells the result.
pub(super) fn run(line: &str, as_json: bool) -> Result {
    let words = split(line).ok_or_else(|| Failure::usage("--for: a quotation mark is missing"))?;
    let words = match words.first().map(String::as_str) {
        Some("perfuse" | "perf") => &words[1..],
        _ => &words[..],
    };
    let tried = match words.first().map(String::as_str) {
        Some("stat") => {
            match habits::parse_from(std::iter::once("perfuse").chain(words.iter().map(String::as_str))) {
                Ok(Cli { subcommand: Subcommand::Stat(args) }) => stat::rehearse(&args)?,
                Ok(_) => return Err(Failure::usage("--for: this is no plan for stat")),
                Err(error) => return Err(Failure::usage(error)),
            }
        }
        Some("record" | "top") => {
            let mut record = Record::try_parse_from(&words[1..]).map_err(Failure::usage)?;
            record.kernel.decide()?;
            // Without anybody to watch all are watched.
            record.all_cpus |= record.is_without_target();
            record.rehearse()?
        }
        Some(other) => {
            return Err(Failure::usage(format_args!(
                "--for: plans are for stat, record and top, not {other}"
            )));
        }
        None => return Err(Failure::usage("--for: the command line is empty")),
    };
    tell(line, as_json, &tried)
}

/// Splits as a shell does, quotation marks and backslashes included, but nothing else. `None` where a
/// quotation mark stays open.
fn split(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

impl Record {
    fn is_without_target(&self) -> bool {
        self.command.is_empty() && self.pid.is_empty() && self.tid.is_empty() && self.cpu.is_none()
    }

    /// Opens each event with its rings on every target, and closes it again.
    fn rehearse(&self) -> Result<Vec<Rehearsed>> {
        // Perf records cycles, and by cpu-clock where there are none.
        let chosen = !self.events.is_empty();
        let lists = if chosen { self.events.clone() } else { vec!["cycles".to_owned()] };
        let held = self.held()?;
        let targets = self.targets(held.as_ref())?;
        let mut tried = Vec::new();
        for list in &lists {
            for spec in events::resolve(list, &events::machine())?.into_iter().flat_map(|set| set.events) {
                let Some(builder) = Builder::from_spec(&spec) else { continue };
                let error = self.open(&builder, &targets).err();
                tried.push(Rehearsed { event: spec.name, error, required: chosen });
            }
        }
        if !chosen && tried.iter().all(|tried| tried.error.is_some()) {
            let error = self.open(&Builder::new(perfuse::abi::Software::CPU_CLOCK), &targets).err();
            tried.push(Rehearsed {
                event: "cpu-clock (in place of cycles)".to_owned(),
                error,
                required: true,
            });
        }
        Ok(tried)
    }

    /// The command, made but not run.
    fn held(&self) -> Result<Option<HeldCommand>> {
        let Some((program, arguments)) = self.command.split_first() else { return Ok(None) };
        Command::new(program).args(arguments).hold().map(Some).map_err(Failure::new)
    }

    fn targets(&self, held: Option<&HeldCommand>) -> Result<Vec<Target>> {
        let cpus = match &self.cpu {
            Some(list) => {
                parse_cpu_list(list).ok_or_else(|| Failure::usage("-C wants cpus such as 0-3,8"))?
            }
            None => online_cpus(),
        };
        if self.all_cpus || self.cpu.is_some() {
            return Ok(cpus.into_iter().map(Target::cpu).collect());
        }
        let threads: Vec<u32> = if let Some(held) = held {
            vec![held.pid()]
        } else if !self.pid.is_empty() {
            let scope = Scope::processes(&self.pid).map_err(Failure::new)?;
            scope.slots().iter().filter_map(perfuse::Slot::tid).collect()
        } else {
            self.tid.clone()
        };
        // Rings of events that are inherited belong to a cpu (rule F1).
        let on_each_cpu = |tid: u32| cpus.iter().map(move |cpu| Target::thread(tid).on_cpu(*cpu));
        Ok(threads.into_iter().flat_map(on_each_cpu).collect())
    }

    /// One event with a ring on every target, all at once.
    fn open(&self, event: &Builder, targets: &[Target]) -> perfuse::Result<()> {
        let mut fields = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD;
        let chains = self.callchains || self.call_graph.is_some();
        for (wanted, field) in [
            (chains, SampleType::CALLCHAIN),
            (self.branch_any, SampleType::BRANCH_STACK),
            (self.data, SampleType::ADDR | SampleType::DATA_SRC),
            (self.raw_samples, SampleType::RAW),
        ] {
            fields.set(field, wanted);
        }
        let inherit = !(self.no_inherit || self.all_cpus || self.cpu.is_some());
        let event = match (self.count, self.freq) {
            (Some(count), _) => event.clone().period(count),
            (None, freq) => event.clone().frequency(freq.unwrap_or(4000)),
        };
        let event = event.sample(fields).inherit(if inherit { Inherit::All } else { Inherit::No });
        let branches = if self.branch_any { BranchSampleType::ANY } else { BranchSampleType::empty() };
        let event = event.with(|attr| attr.branch_sample_type |= branches);
        let mut open = Vec::new();
        for target in targets {
            let builder = Sampler::builder().target(target.clone()).event(event.clone());
            open.push(match self.mmap_pages {
                Some(pages) => builder.exactly_pages(pages).open()?,
                None => builder.open()?,
            });
        }
        Ok(())
    }
}

/// Prints the result; the exit status says it too.
fn tell(line: &str, as_json: bool, tried: &[Rehearsed]) -> Result {
    // What was asked for must work; of what comes by default, something.
    let refused = |tried: &&Rehearsed| tried.required && tried.error.is_some();
    let possible = !tried.iter().any(|t| refused(&t)) && tried.iter().any(|t| t.error.is_none());
    let mut out = Vec::new();
    if as_json {
        let events: Vec<_> = tried
            .iter()
            .map(|tried| {
                let reason = tried.error.as_ref().map(Reason::from);
                json!({
                    "name": tried.event,
                    "required": tried.required,
                    "ok": tried.error.is_none(),
                    "reason": reason.as_ref().map(json::reason),
                })
            })
            .collect();
        let value = json!({ "schema": "perfuse.doctor.plan/1", "plan": line, "possible": possible, "kernel": perfuse::kernel::current().name(), "events": events });
        writeln!(out, "{value:#}")?;
    } else {
        let script = Script::of_the_locale();
        print(&mut out, script, tried)?;
        let verdict = if possible { Verdict::Yes } else { Verdict::No };
        let answer = match (possible, tried.iter().any(|tried| tried.error.is_some())) {
            (true, false) => "this works here",
            (true, true) => "this works here, in part",
            (false, _) => "this does not work here",
        };
        let who = if kernel::is_embedded() { ", measured by perfuse itself" } else { "" };
        writeln!(out, " {} {answer}{who}: {}", script.sign(verdict), script.text(line))?;
    }
    anstream::stdout().write_all(&out)?;
    Ok(ExitCode::from(u8::from(!possible)))
}

/// The events, those that are refused for the same reason together.
fn print(out: &mut Vec<u8>, script: Script, tried: &[Rehearsed]) -> std::io::Result<()> {
    let mut rest = tried;
    while let Some(first) = rest.first() {
        let verdict = match (&first.error, first.required) {
            (None, _) => Verdict::Yes,
            (Some(_), true) => Verdict::No,
            (Some(_), false) => Verdict::Partly,
        };
        let cause = |tried: &Rehearsed| tried.error.as_ref().map(Error::cause);
        let alike = rest.iter().take_while(|tried| cause(tried) == cause(first)).count();
        let names: Vec<_> = rest[..alike].iter().map(|tried| tried.event.as_str()).collect();
        write!(out, "   {} ", script.sign(verdict))?;
        let from = 4 + script.sign_width();
        wrapped(out, &script.text(&names.join(", ")), from)?;
        if let Some(error) = &first.error {
            write!(out, "{:from$}", "")?;
            wrapped(out, &script.text(&error.to_string()), from)?;
            remedies(out, script, &error.diagnosis().remedies, from)?;
        }
        rest = &rest[alike..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_as_a_shell_sees_them() {
        let words = split(r#"record -e 'a, b' -- sh -c "x \"y\"" z\ z ''"#).unwrap();
        assert_eq!(words, ["record", "-e", "a, b", "--", "sh", "-c", "x \"y\"", "z z", ""]);
        assert_eq!(split("stat 'open"), None);
        assert_eq!(split("  ").unwrap(), [""; 0]);
    }
}
