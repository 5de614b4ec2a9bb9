//! Where tables lie: a folder of JSON files for each processor, and a file that says which is whose.

use super::{Processor, Reading, Tables, entry};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Why tables cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablesError(String);

impl fmt::Display for TablesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for TablesError {}

/// Folders within each other below that of a processor.
const DEPTH: usize = 4;

/// The folder of an architecture in the kernel's collection.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" | "x86" => "x86",
        "aarch64" => "arm64",
        "powerpc64" => "powerpc",
        "riscv64" => "riscv",
        "s390x" => "s390",
        other => other,
    }
}

pub(super) fn load(folder: &Path, processor: &Processor) -> Result<Option<Tables>, TablesError> {
    let failed = |path: &Path, error: std::io::Error| {
        TablesError(alloc::format!("cannot read {}: {error}", path.display()))
    };
    fs::read_dir(folder).map_err(|error| failed(folder, error))?;
    let with_map =
        [folder.to_path_buf(), folder.join(architecture()), folder.join("arch").join(architecture())]
            .into_iter()
            .find(|root| root.join("mapfile.csv").is_file());
    let mut tables = Tables::common();
    let mut standard = BTreeMap::new();
    // Each folder with the kind of cores it is for.
    let mut models: Vec<(PathBuf, Option<&str>)> = Vec::new();
    let mut systems = Vec::new();
    match &with_map {
        Some(root) => {
            let path = root.join("mapfile.csv");
            let map = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
            for (core, cpuid) in &processor.cores {
                let own = self::models(&map, cpuid).into_iter();
                models.extend(own.map(|model| (root.join(model), core.as_deref())));
            }
            if models.is_empty() {
                return Ok(None);
            }
            if !processor.identifiers.is_empty() {
                systems = folders_of_systems(root, DEPTH);
            }
            // Those of the architecture are what events of a model refer to.
            for file in files(root, 1) {
                let Ok(text) = fs::read_to_string(&file) else { continue };
                let Ok(objects) = entry::objects(&text) else { continue };
                let named = objects.into_iter().filter_map(|object| {
                    Some((object.get("EventName").or(object.get("MetricName"))?.to_ascii_lowercase(), object))
                });
                standard.extend(named);
            }
        }
        None => models.push((folder.to_path_buf(), None)),
    };
    let mut found = 0;
    let of_models =
        models.iter().flat_map(|(model, core)| files(model, DEPTH).into_iter().map(|file| (file, *core)));
    let of_systems = systems.iter().flat_map(|folder| files(folder, DEPTH)).map(|file| (file, None));
    for (file, core) in of_models.chain(of_systems) {
        let text = fs::read_to_string(&file).map_err(|error| failed(&file, error))?;
        found += 1;
        if file.file_name().is_some_and(|name| name == "metricgroups.json") {
            let groups: Result<BTreeMap<String, String>, _> = serde_json::from_str(&text);
            match groups {
                Ok(groups) => tables.groups.extend(groups),
                Err(error) => tables.complaints.push(alloc::format!("{}: {error}", file.display())),
            }
            continue;
        }
        let reading = Reading { standard: Some(&standard), core, identifiers: &processor.identifiers };
        tables.add(&text, &alloc::format!("{}", file.display()), &reading);
    }
    if found == 0 {
        let places = models.iter().map(|(model, _)| alloc::format!("{}", model.display()));
        let places = places.collect::<Vec<_>>().join(", ");
        return Err(TablesError(alloc::format!("there are no tables (*.json) in {places}")));
    }
    tables.folder = models.into_iter().next().map(|(model, _)| model).unwrap_or_default();
    Ok(Some(tables))
}

/// The folders `sys`, whose tables are for what stands around a processor.
fn folders_of_systems(folder: &Path, levels: usize) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut folders: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    folders.sort();
    let below = |path: PathBuf| match path.ends_with("sys") {
        true => alloc::vec![path],
        false if levels > 1 => folders_of_systems(&path, levels - 1),
        false => Vec::new(),
    };
    folders.into_iter().flat_map(below).collect()
}

/// Whether what a PMU is, is what an entry is for: one of several patterns.
pub(super) fn is_identifier(compat: &str, identifier: &str) -> bool {
    let fits = |pattern: &str| {
        let regex = regex_lite::Regex::new(&alloc::format!("^(?:{pattern})$"));
        pattern == identifier || regex.is_ok_and(|regex| regex.is_match(identifier))
    };
    compat.split(';').any(fits)
}

/// JSON files of a folder, in order, those of so many levels.
fn files(folder: &Path, levels: usize) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        match path.is_dir() {
            // Those of systems around the processor say by themselves which they are for.
            true if levels > 1 && !path.ends_with("sys") => found.extend(files(&path, levels - 1)),
            false if path.extension().is_some_and(|end| end == "json") => found.push(path),
            _ => {}
        }
    }
    found
}

/// The folders of a processor, of the lines `pattern,version,folder,kind`.
fn models(map: &str, cpuid: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in map.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        // Neither a folder nor what follows has commas; a pattern may.
        let mut fields = line.rsplitn(4, ',');
        let (Some(_kind), Some(folder), Some(_version), Some(pattern)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let stays_below =
            !folder.is_empty() && !folder.starts_with('/') && !folder.split('/').any(|part| part == "..");
        if stays_below && is_cpu(pattern, cpuid) && !found.iter().any(|own| own == folder) {
            found.push(folder.into());
        }
    }
    found
}

/// Whether a pattern describes a processor. On x86 and RISC-V it is a regular expression, which need not speak
/// of the stepping; on Arm a number without or with variant and revision.
pub(super) fn is_cpu(pattern: &str, cpuid: &str) -> bool {
    let hexadecimal = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    if let (Some(wanted), Some(own)) = (hexadecimal(pattern), hexadecimal(cpuid)) {
        const REVISION: u64 = 0xf << 20 | 0xf;
        return wanted & !REVISION == own & !REVISION && own & REVISION >= wanted & REVISION;
    }
    let Ok(regex) = regex_lite::Regex::new(&alloc::format!("^(?:{pattern})$")) else { return false };
    let without_stepping = match cpuid.split('-').count() {
        4 => cpuid.rsplit_once('-').map(|(model, _)| model),
        _ => None,
    };
    regex.is_match(cpuid) || without_stepping.is_some_and(|model| regex.is_match(model))
}

/// How the processor of the running machine is called in a `mapfile.csv`: vendor, family, model and stepping on
/// x86, the main id register on Arm. `PERF_CPUID` in the environment says otherwise, as it does to perf.
pub fn cpuid_of_this_machine() -> Option<String> {
    if let Some(own) = std::env::var("PERF_CPUID").ok().filter(|own| !own.is_empty()) {
        return Some(own);
    }
    if let Ok(midr) = fs::read_to_string("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1") {
        return Some(midr.trim().into());
    }
    cpuid(&fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// The same from the text of `/proc/cpuinfo`.
fn cpuid(info: &str) -> Option<String> {
    let field = |name: &str| {
        let line = info.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    if let Some(vendor) = field("vendor_id") {
        let number = |name| field(name)?.parse::<u32>().ok();
        let (family, model, stepping) = (number("cpu family")?, number("model")?, number("stepping")?);
        return Some(alloc::format!("{vendor}-{family}-{model:X}-{stepping:X}"));
    }
    let (vendor, arch, implementation) = (field("mvendorid")?, field("marchid")?, field("mimpid")?);
    Some(alloc::format!("{vendor}-{arch}-{implementation}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_and_patterns() {
        for (pattern, cpuid, is) in [
            ("GenuineIntel-6-(8E|9E)", "GenuineIntel-6-8E-A", true),
            ("GenuineIntel-6-55-[01234]", "GenuineIntel-6-55-4", true),
            ("GenuineIntel-6-55-[01234]", "GenuineIntel-6-55-7", false),
            ("GenuineIntel-6-5", "GenuineIntel-6-55-7", false),
            ("AuthenticAMD-25-([245][[:xdigit:]]|[[:xdigit:]])", "AuthenticAMD-25-4A-1", true),
            ("AuthenticAMD-25-([245][[:xdigit:]]|[[:xdigit:]])", "AuthenticAMD-25-11-1", false),
            ("AuthenticAMD-25-[[:xdigit:]]+", "AuthenticAMD-25-11-1", true),
            ("0x00000000410fd080", "0x00000000410fd083", true),
            ("0x00000000411fd080", "0x00000000410fd083", false),
            ("0x00000000410fd030", "0x00000000410fd083", false),
            ("0x489-0x8000000000000007-0x[[:xdigit:]]+", "0x489-0x8000000000000007-0x20181004", true),
            ("(", "(", false),
        ] {
            assert_eq!(is_cpu(pattern, cpuid), is, "{pattern} {cpuid}");
        }
    }

    #[test]
    fn folders_of_a_processor() {
        let map = "Family-model,Version,Filename,EventType\n# a remark\n\
                   X-6-(1|2),v1,one,core\nX-6-2{1,2},v1,two/a,core\nX-6-2,v1,../up,core\nX-6-2,v2,one,core\n";
        assert_eq!(models(map, "X-6-2-0"), ["one", "two/a"]);
        assert!(models(map, "Y-6-2-0").is_empty());
    }

    #[test]
    fn the_processor_of_a_machine() {
        let info = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
                    model name\t: AMD EPYC\nstepping\t: 1\n";
        assert_eq!(cpuid(info).as_deref(), Some("AuthenticAMD-25-11-1"));
        assert_eq!(
            cpuid("mvendorid\t: 0x489\nmarchid\t: 0x7\nmimpid\t: 0x1\n").as_deref(),
            Some("0x489-0x7-0x1")
        );
        assert_eq!(cpuid("processor : 0\n"), None);
    }
}
