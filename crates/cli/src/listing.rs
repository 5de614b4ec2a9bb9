//! `perfuse evlist` and `perfuse buildid-list`: what a recording consists of.

use crate::exit::Result;
use crate::recording::tracing::Formats;
use crate::recording::{self, Input};
use perfuse_abi::record::Record;
use perfuse_abi::{AttrFlags, EventType};
use perfuse_data::Form;
use perfuse_data::feature::{Feature, FeatureId, Section};
use perfuse_data::session::{Level, ObjectId, Session};
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
    let mut out = std::io::stdout().lock();
    let mut data = args.input.open()?;
    if matches!(data.form(), Form::Pipe) {
        while let Ok(Some(_)) = data.next() {}
    }
    let names = recording::event_names(&mut data);
    if args.group {
        groups(&mut out, &mut data, &names)?;
        return Ok(ExitCode::SUCCESS);
    }
    let formats = if args.trace_fields { Formats::read(&mut data) } else { Formats::default() };
    for (event, name) in data.events().iter().zip(names) {
        if args.trace_fields {
            let of_format = match event.attr.type_ {
                EventType::TRACEPOINT => formats.fields(event.attr.config),
                _ => None,
            };
            match of_format {
                Some(fields) => writeln!(out, "{name}: trace_fields: {fields}")?,
                None => writeln!(out, "{name}: (not a tracepoint)")?,
            }
        } else if args.verbose {
            writeln!(out, "{name}: {}", recording::header::attr_text(&event.attr, ": "))?;
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
    Ok(ExitCode::SUCCESS)
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
                writeln!(out, "{name}{{{}}}", names[index..end].join(","))?;
                index = end;
            }
            None => {
                writeln!(out, "{}", names[index])?;
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
    /// Only of what has samples
    #[arg(short = 'H', long)]
    with_hits: bool,
}

/// Lists the build-ids: those of the section, else those that mappings told, else at least what has samples.
pub(crate) fn build_ids(args: &BuildIds) -> Result {
    let mut out = std::io::stdout().lock();
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut data = args.input.open()?;
    if let (false, Ok(Some(Section { feature: Feature::BuildIds(ids), .. }))) =
        (args.with_hits, data.feature(FeatureId::BUILD_ID))
    {
        for id in ids {
            writeln!(out, "{} {}", hex(id.bytes()), id.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut session = Session::new();
    let mut hits: BTreeSet<ObjectId> = BTreeSet::new();
    recording::replay(data, &mut session, |_, decoded, session, _| {
        if let Some(Record::Sample(sample)) = decoded.map(|decoded| &decoded.record) {
            let tid = sample.tid.unwrap_or_default();
            let level = decoded.map_or(Level::Unknown, |decoded| Level::of(decoded.misc));
            if let Some(found) = session.resolve(tid.pid, tid.tid, level, sample.ip.unwrap_or(0)) {
                hits.insert(found.map.object);
            }
        }
        Ok(())
    })?;
    for (id, object) in session.objects() {
        let is_hit = hits.contains(&id);
        if is_hit || object.build_id.is_some() && !args.with_hits {
            let build_id = object.build_id.map(|id| id.to_string()).unwrap_or_default();
            writeln!(out, "{build_id:<40} {}", String::from_utf8_lossy(&object.name))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
