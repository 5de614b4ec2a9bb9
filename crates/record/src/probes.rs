//! Where probes go: names of functions, source lines and declared probes become places in files. It serves as the
//! [`finder`](perfuse_events::Machine::finder) of a machine whose events are resolved.

use perfuse_events::{Probe, ProbePlace, Refusal, glob, is_pattern, nearest};
use perfuse_symbols::{DeclaredProbe, Elf, LineAddresses, SourceLine, SymbolOptions};
use std::path::Path;

/// Each probe is some descriptors on every cpu; who means more has not looked at what the pattern fits.
const MOST: usize = 200;

/// The places in a file that a probe is to be put at.
///
/// # Errors
///
/// In words, why there is none.
pub fn find_probes(place: &ProbePlace) -> Result<Vec<Probe>, Refusal> {
    let refused = |text: String| Refusal::Unreadable(text);
    let one = |offset: u64| Probe { offset, ..Probe::default() };
    if let Some(event) = with_values(place) {
        let by = "values are told by perfuse trace, which keeps a recording with -o";
        return Err(refused(format!("{by}: perfuse trace -e '{event}'")));
    }
    match place {
        ProbePlace::Uprobe { path, symbol, .. } if is_pattern(symbol) => functions(path, symbol),
        ProbePlace::Line { path, source, line } => of_line(path, source, *line),
        ProbePlace::Uprobe { path, symbol, offset, .. } => {
            let elf = open(path)?;
            let mut found = elf.function(symbol).map_err(|error| refused(error.to_string()))?;
            if found.is_none() && !elf.has_symtab() {
                let debug = SymbolOptions::default().debug_file(Path::new(path), &elf, Elf::has_symtab);
                found = debug.and_then(|(_, debug)| debug.function(symbol).ok().flatten());
            }
            let Some(address) = found else { return Err(refused(no_function(&elf, path, symbol))) };
            let at = elf.offset_of(address).and_then(|at| at.checked_add(*offset));
            at.map(|at| vec![one(at)])
                .ok_or_else(|| refused(format!("{symbol} belongs to no part of {path} that is loaded")))
        }
        ProbePlace::Usdt { path, provider, name } => {
            let found = declared(path, provider, name)?.into_iter();
            Ok(found
                .map(|probe| Probe { semaphore: probe.semaphore.unwrap_or(0), ..one(probe.offset) })
                .collect())
        }
        ProbePlace::Kprobe { offset, .. } => Ok(vec![one(*offset)]),
    }
}

/// The probes of a name that a file declares: one at least.
pub(crate) fn declared(path: &str, provider: &str, name: &str) -> Result<Vec<DeclaredProbe>, Refusal> {
    let refused = |text: String| Refusal::Unreadable(text);
    let mut found = open(path)?.declared_probes().map_err(|error| refused(error.to_string()))?;
    let names: Vec<_> = found.iter().map(|probe| format!("{}:{}", probe.provider, probe.name)).collect();
    // A semaphore beyond 4 GiB has no place in an attr.
    let has_place = |probe: &DeclaredProbe| u32::try_from(probe.semaphore.unwrap_or(0)).is_ok();
    found.retain(|probe| probe.provider == provider && probe.name == name && has_place(probe));
    if !found.is_empty() {
        return Ok(found);
    }
    let close = nearest(&format!("{provider}:{name}"), names.iter().map(String::as_str));
    Err(refused(match (close.is_empty(), names.is_empty()) {
        (false, _) => format!("{path} declares no such probe; did you mean {}?", close.join(", ")),
        (true, false) => format!("{path} declares no such probe, but {}", few(&names)),
        (true, true) => format!("{path} declares no probes"),
    }))
}

/// The event, if it is one with values, which [`Arguments`](crate::Arguments) makes.
fn with_values(place: &ProbePlace) -> Option<String> {
    let (event, name) = match place {
        ProbePlace::Uprobe { path, symbol, .. } => (format!("uprobe:{path}:{symbol}"), symbol),
        ProbePlace::Usdt { path, provider, name } => (format!("usdt:{path}:{provider}:{name}"), name),
        _ => return None,
    };
    (name.ends_with(')') && name.contains('(')).then_some(event)
}

/// All functions whose names fit a pattern, in order of their places.
fn functions(path: &str, pattern: &str) -> Result<Vec<Probe>, Refusal> {
    let elf = open(path)?;
    let table = elf.symbols().map_err(|error| Refusal::Unreadable(error.to_string()))?;
    let fits = |symbol: &perfuse_symbols::Symbol<'_>| glob(pattern, &symbol.name());
    let mut found: Vec<Probe> = Vec::new();
    for symbol in table.iter().filter(fits) {
        if symbol.kind != perfuse_symbols::SymbolKind::Function || symbol.name().contains('@') {
            continue;
        }
        let Some(offset) = elf.offset_of(symbol.start) else { continue };
        // One place may have several names.
        if !found.iter().any(|probe| probe.offset == offset) {
            found.push(Probe { symbol: symbol.name().into_owned(), offset, ..Probe::default() });
        }
    }
    match found.len() {
        0 => Err(Refusal::Unreadable(format!("no function of {path} fits '{pattern}'"))),
        1..=MOST => Ok(found),
        many => Err(Refusal::Unreadable(format!(
            "{many} functions of {path} fit '{pattern}', and no more than {MOST} are taken at a time"
        ))),
    }
}

/// Finds the places where the code of a source line begins: one in each function that has some of it. `source` names
/// a file, or else a function, from whose beginning the line is counted.
fn of_line(path: &str, source: &str, line: u64) -> Result<Vec<Probe>, Refusal> {
    let refused = |text: String| Refusal::Unreadable(text);
    let elf = open(path)?;
    let options = SymbolOptions::default();
    let debug = match elf.has_lines() {
        true => None,
        false => options.debug_file(Path::new(path), &elf, Elf::has_lines),
    };
    let (place, described) = match &debug {
        Some((place, debug)) => (place.as_path(), debug),
        None => (Path::new(path), &elf),
    };
    let common = options.alternative_of(place, described);
    let look = |line: SourceLine<'_>| {
        let found =
            described.line_addresses(common.as_ref(), line).map_err(|error| refused(error.to_string()))?;
        found.ok_or_else(|| {
            refused(format!(
                "{path} has no line tables, and no debug file with some was found: they come with the compiler's \
                 option -g"
            ))
        })
    };
    let mut found = LineAddresses::default();
    if !source.contains(['.', '/']) {
        found = look(SourceLine::OfFunction { function: source, line })?;
    }
    if found.files.is_empty() {
        found = look(SourceLine::OfFile { file: source, line })?;
    }
    if found.files.is_empty() {
        return Err(refused(format!("{path} has no source or function called {source}")));
    }
    if found.addresses.is_empty() {
        let near: Vec<String> = found.near.iter().map(u64::to_string).collect();
        let near = match near.as_slice() {
            [] => String::new(),
            [one] => format!("; the nearest that has is {one}"),
            several => format!("; the nearest that have are {}", several.join(" and ")),
        };
        return Err(refused(format!("line {line} of {source} has no code{near}")));
    }
    let table = described.symbols().map_err(|error| refused(error.to_string()))?;
    let mut functions = Vec::new();
    let mut places = Vec::new();
    for address in found.addresses {
        let function = table.find(address).map_or(address, |found| address - found.offset);
        if let (false, Some(offset)) = (functions.contains(&function), elf.offset_of(address)) {
            functions.push(function);
            places.push(Probe { offset, ..Probe::default() });
        }
    }
    if places.is_empty() {
        Err(refused(format!("line {line} belongs to no part of {path} that is loaded")))
    } else {
        Ok(places)
    }
}

fn open(path: &str) -> Result<Elf, Refusal> {
    Elf::open(Path::new(path)).map_err(|error| Refusal::Unreadable(error.to_string()))
}

fn few(names: &[String]) -> String {
    const FEW: usize = 8;
    let shown = names.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > FEW { format!("{shown} and {} more", names.len() - FEW) } else { shown }
}

fn no_function(elf: &Elf, path: &str, symbol: &str) -> String {
    let table = elf.symbols().ok();
    let names: Vec<String> =
        table.iter().flat_map(|table| table.iter().map(|symbol| symbol.name().into_owned())).collect();
    let close = nearest(symbol, names.iter().map(String::as_str));
    match (close.is_empty(), elf.has_symtab()) {
        (false, _) => format!("{path} has no function {symbol}; did you mean {}?", close.join(", ")),
        (true, true) => format!("{path} has no function {symbol}"),
        (true, false) => {
            format!("{path} has no function {symbol} among the few names that were not stripped")
        }
    }
}
