//! `perfuse evlist` and `perfuse buildid-list`: what a recording consists of.

use crate::exit::Result;
use crate::recording::{self, Input};
use perfuse_data::Form;
use perfuse_data::feature::{Feature, FeatureId, Section};
use perfuse_data::session::Session;
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
}

/// Lists the events.
pub(crate) fn evlist(args: &Evlist) -> Result {
    let mut out = std::io::stdout().lock();
    let mut data = args.input.open()?;
    if matches!(data.form(), Form::Pipe) {
        while let Ok(Some(_)) = data.next() {}
    }
    for event in data.events().iter() {
        let name = recording::event_name(event);
        if args.verbose {
            writeln!(out, "{name}: {}", event.attr)?;
        } else if args.freq {
            let kind = match event.attr.flags.contains(perfuse_abi::AttrFlags::FREQ) {
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

/// Options of `perfuse buildid-list`.
#[derive(Debug, clap::Args)]
pub(crate) struct BuildIds {
    #[command(flatten)]
    input: Input,
}

/// Lists the build-ids: those of the section, else those that mappings told.
pub(crate) fn build_ids(args: &BuildIds) -> Result {
    let mut out = std::io::stdout().lock();
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut data = args.input.open()?;
    if let Ok(Some(Section { feature: Feature::BuildIds(ids), .. })) = data.feature(FeatureId::BUILD_ID) {
        for id in ids {
            writeln!(out, "{} {}", hex(id.bytes()), id.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut session = Session::new();
    recording::replay(data, &mut session, |_, _, _, _| Ok(()))?;
    for (_, object) in session.objects() {
        if let Some(id) = object.build_id {
            writeln!(out, "{id} {}", String::from_utf8_lossy(&object.name))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
