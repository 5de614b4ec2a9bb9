//! `perfuse evlist` and `perfuse buildid-list`: what a recording consists of.

use crate::exit::{Failure, Result};
use crate::recording::{self, Input};
use crate::term::foreign::foreign;
use crate::term::out;
use perfuse_abi::record::Record;
use perfuse_abi::{AttrFlags, EventType};
use perfuse_data::Form;
use perfuse_data::describe;
use perfuse_data::feature::{Feature, FeatureId, Section};
use perfuse_data::replay::{Formats, Replay, event_names};
use perfuse_data::session::{Level, Object, ObjectId};
use perfuse_symbols::{BuildId, KernelSymbols, read_modules};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

/// Options of `perfuse evlist`.
#[derive(Debug, clap::Args)]
pub(crate) struct Evlist {
    #[command(flatten)]
    input: Input,
    /// Also how each was opened
    #[arg(short, long)]
    verbose: bool,
    /// Also how often or at which period each sampled
    #[arg(short = 'F', long)]
    freq: bool,
    /// The groups, each on a line
    #[arg(short, long, conflicts_with_all = ["verbose", "freq"])]
    group: bool,
    /// Also the fields of tracepoints
    #[arg(long)]
    trace_fields: bool,
}

/// Lists the events.
pub(crate) fn evlist(args: &Evlist) -> Result {
    let mut out = out::stdout();
    list_events(&mut out, args)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn list_events(out: &mut impl Write, args: &Evlist) -> Result<()> {
    let mut data = args.input.open()?;
    if matches!(data.form(), Form::Pipe) {
        while let Ok(Some(_)) = data.next() {}
    }
    let names = event_names(&mut data);
    if args.group {
        return groups(out, &mut data, &names);
    }
    let formats = if args.trace_fields { Formats::read(&mut data) } else { Formats::default() };
    for (event, name) in data.events().iter().zip(&names) {
        let name = foreign(name);
        if args.trace_fields {
            let of_format = match event.attr.type_ {
                EventType::TRACEPOINT => formats.fields(event.attr.config),
                _ => None,
            };
            match of_format {
                Some(fields) => writeln!(out, "{name}: trace_fields: {}", foreign(&fields))?,
                None => writeln!(out, "{name}: (not a tracepoint)")?,
            }
        } else if args.verbose {
            writeln!(out, "{name}: {}", describe::attr_text(&event.attr, ": "))?;
        } else if args.freq {
            let kind = match event.attr.flags.contains(AttrFlags::FREQ) {
                true => "sample_freq",
                false => "sample_period",
            };
            writeln!(out, "{name}: {kind}={}", event.attr.sample_period)?;
        } else {
            writeln!(out, "{name}")?;
        }
    }
    Ok(())
}

/// Events that are in a group in braces, the others by themselves.
fn groups(out: &mut impl Write, data: &mut perfuse_data::PerfData<'_>, names: &[String]) -> Result<()> {
    let groups = match recording::feature(data, FeatureId::GROUP_DESC) {
        Some(Feature::GroupDesc(groups)) => groups,
        _ => Vec::new(),
    };
    let mut index = 0;
    while index < names.len() {
        let group = groups.iter().find(|group| group.leader as usize == index && group.members > 1);
        match group {
            Some(group) => {
                let end = (index + group.members as usize).min(names.len());
                let name = group.name.to_string().replace("{anon_group}", "");
                writeln!(out, "{}{{{}}}", foreign(&name), foreign(&names[index..end].join(",")))?;
                index = end;
            }
            None => {
                writeln!(out, "{}", foreign(&names[index]))?;
                index += 1;
            }
        }
    }
    Ok(())
}

/// Options of `perfuse buildid-list`.
#[derive(Debug, clap::Args)]
pub(crate) struct BuildIds {
    #[command(flatten)]
    input: Input,
    /// Only files that have samples
    #[arg(short = 'H', long)]
    with_hits: bool,
    /// The build-id of the kernel that runs here
    #[arg(short = 'k', long)]
    kernel: bool,
    /// The build-ids of the kernel that runs here and of its modules, with their places
    #[arg(short = 'm', long)]
    kernel_maps: bool,
    /// Taken for perf's sake: there is no more to say
    #[arg(short, long, hide = true)]
    verbose: bool,
}

/// Lists the build-ids of the running kernel, and of its modules if `with_maps`.
fn of_kernel(out: &mut impl Write, with_maps: bool) -> Result<()> {
    let id = BuildId::of_running_kernel();
    let Some(id) = id else {
        let why = "there are no notes in /sys/kernel/notes, or this user may not read them";
        return Err(Failure::new(format_args!("the running kernel does not tell its build-id: {why}")));
    };
    if !with_maps {
        writeln!(out, "{id}")?;
        return Ok(());
    }
    let names = ["_text", "_stext", "_edata", "_etext"];
    let symbols = KernelSymbols::named(None, &names).unwrap_or_default();
    let address = |at: usize| symbols.get(at).and_then(|found| found.first()).map(|symbol| symbol.start);
    let (start, end) = (address(0).or(address(1)), address(2).or(address(3)));
    let name = "[kernel.kallsyms]";
    writeln!(out, "{id} {:16x} {:16x} {name}", start.unwrap_or(0), end.unwrap_or(0))?;
    let modules = std::fs::File::open("/proc/modules").and_then(read_modules).unwrap_or_default();
    for module in modules {
        let id = BuildId::of_loaded_module(&module.name).map_or_else(String::new, |id| id.to_string());
        let end = module.base.saturating_add(module.size);
        writeln!(out, "{id:40} {:16x} {end:16x} [{}]", module.base, foreign(&module.name))?;
    }
    Ok(())
}

/// Lists the build-ids: those of the section, else those that mappings told, else at least what has samples.
pub(crate) fn build_ids(args: &BuildIds) -> Result {
    let mut out = out::stdout();
    match args.kernel || args.kernel_maps {
        true => of_kernel(&mut out, args.kernel_maps)?,
        false => of_recording(&mut out, args)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn of_recording(out: &mut impl Write, args: &BuildIds) -> Result<()> {
    for (id, name) in recorded(&args.input, args.with_hits)? {
        writeln!(out, "{id:<40} {}", foreign(&name))?;
    }
    Ok(())
}

/// The files of a recording, by their build-ids in hexadecimal form, which are empty where there is none.
pub(crate) fn recorded(input: &Input, with_hits: bool) -> Result<Vec<(String, Vec<u8>)>> {
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut data = input.open()?;
    if let (false, Ok(Some(Section { feature: Feature::BuildIds(ids), .. }))) =
        (with_hits, data.feature(FeatureId::BUILD_ID))
    {
        return Ok(ids.iter().map(|id| (hex(id.bytes()), id.name.as_bytes().to_vec())).collect());
    }
    let mut hits: BTreeSet<ObjectId> = BTreeSet::new();
    let replay = recording::replay(Replay::new(data), |step| {
        let Some(decoded) = step.decoded else { return Ok(()) };
        if let Record::Sample(sample) = &decoded.record {
            let tid = sample.tid.unwrap_or_default();
            let level = Level::of(decoded.misc);
            if let Some(found) = step.session.resolve(tid.pid, tid.tid, level, sample.ip.unwrap_or(0)) {
                hits.insert(found.map.object);
            }
        }
        Ok(())
    })?;
    let (_, session) = replay.into_parts();
    let objects = session.objects();
    let listed = objects.filter(|(id, object)| hits.contains(id) || object.build_id.is_some() && !with_hits);
    let id_of = |object: &Object| object.build_id.map(|id| id.to_string()).unwrap_or_default();
    Ok(listed.map(|(_, object)| (id_of(object), object.name.to_vec())).collect())
}
