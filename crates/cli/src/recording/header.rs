//! What a recording says of the machine and of itself, as comment lines.

use super::Input;
use crate::exit::Result;
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::{Form, PerfData};
use std::io::Write;

/// Prints everything the header tells. In a pipe it comes among the records, so those are read.
pub(crate) fn print(out: &mut impl Write, input: &Input) -> Result<()> {
    let mut data = input.open()?;
    if matches!(data.form(), Form::Pipe) {
        while let Ok(Some(_)) = data.next() {}
    }
    writeln!(out, "# ========")?;
    if let Form::File(header) = *data.form() {
        writeln!(out, "# data offset    : {}", header.data.offset)?;
        writeln!(out, "# data size      : {}", header.data.size)?;
        writeln!(out, "# feat offset    : {}", header.data.offset.wrapping_add(header.data.size))?;
    }
    let ids: Vec<FeatureId> = data.features().collect();
    for id in ids {
        match data.feature(id) {
            Ok(Some(section)) => feature(out, id, &section.feature)?,
            Ok(None) => {}
            Err(error) => writeln!(out, "# {id}: {error}")?,
        }
    }
    for event in data.events().iter() {
        writeln!(out, "# event : name = {}, id = {:?}, {}", super::event_name(event), event.ids, event.attr)?;
    }
    missing(out, &data)?;
    for problem in data.problems() {
        writeln!(out, "# problem : {problem}")?;
    }
    writeln!(out, "# ========\n#")?;
    Ok(())
}

fn missing(out: &mut impl Write, data: &PerfData<'_>) -> Result<()> {
    let there: Vec<FeatureId> = data.features().collect();
    let missing = FeatureId::ALL.iter().filter(|id| !there.contains(id));
    let names: Vec<String> = missing.map(ToString::to_string).collect();
    writeln!(out, "# missing features: {}", names.join(" "))?;
    Ok(())
}

fn feature(out: &mut impl Write, id: FeatureId, feature: &Feature<'_>) -> Result<()> {
    match feature {
        Feature::Hostname(text) => writeln!(out, "# hostname : {text}")?,
        Feature::OsRelease(text) => writeln!(out, "# os release : {text}")?,
        Feature::Version(text) => writeln!(out, "# perf version : {text}")?,
        Feature::Arch(text) => writeln!(out, "# arch : {text}")?,
        Feature::NrCpus(cpus) => {
            writeln!(out, "# nrcpus online : {}\n# nrcpus avail : {}", cpus.online, cpus.available)?;
        }
        Feature::CpuDesc(text) => writeln!(out, "# cpudesc : {text}")?,
        Feature::CpuId(text) => writeln!(out, "# cpuid : {text}")?,
        Feature::TotalMem(kib) => writeln!(out, "# total memory : {kib} kB")?,
        Feature::Cmdline(words) => {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            writeln!(out, "# cmdline : {}", words.join(" "))?;
        }
        Feature::PmuMappings(pmus) => {
            let pmus: Vec<String> = pmus.iter().map(|pmu| format!("{} = {}", pmu.name, pmu.kind)).collect();
            writeln!(out, "# pmu mappings: {}", pmus.join(", "))?;
        }
        Feature::GroupDesc(groups) => {
            for group in groups {
                writeln!(out, "# group: {} leader {} members {}", group.name, group.leader, group.members)?;
            }
        }
        Feature::SampleTime(time) => {
            let seconds = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
            writeln!(out, "# time of first sample : {}", seconds(time.first_ns))?;
            writeln!(out, "# time of last sample : {}", seconds(time.last_ns))?;
            let span = time.last_ns.saturating_sub(time.first_ns);
            writeln!(out, "# sample duration : {:10.3} ms", span as f64 / 1e6)?;
        }
        Feature::ClockResolution(ns) => writeln!(out, "# clockid resolution : {ns} ns")?,
        Feature::Clock(clock) => {
            writeln!(
                out,
                "# clockid : {}, wall clock {} ns at {} ns",
                clock.clock_id, clock.wall_ns, clock.clock_ns
            )?;
        }
        Feature::Compressed(how) => {
            let ratio = how.ratio;
            writeln!(
                out,
                "# compressed : {}, level = {}, ratio = {ratio}",
                if how.kind == 1 { "Zstd" } else { "?" },
                how.level
            )?;
        }
        Feature::EventDesc(_) | Feature::BuildIds(_) | Feature::Stat => {}
        Feature::BranchStack => writeln!(out, "# contains samples with branch stack")?,
        _ => writeln!(out, "# {id} info available")?,
    }
    Ok(())
}
