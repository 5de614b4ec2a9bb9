//! Probes of functions that tell arguments and what is returned: `uprobe:./server:handle(req->len, arg1)`,
//! `uretprobe:./server:handle(retval)`; and [declared] ones, `usdt:./server:provider:name(arg0)`.
//!
//! They are made as tracepoints of their own in tracefs (`uprobe_events`), or the same of the embedded kernel, which fetches numbers and
//! texts at the moment of the hit: a text does not change until it is read, and filters, keys and recordings know the fields as they know those of any
//! tracepoint. They are gone when [`Arguments`] is dropped; those that a killed process has left behind are removed by the next one.

mod declared;

use crate::{Error, find_probes};
use perfuse::abi::regs::Arch;
use perfuse_events::{ProbePlace, Refusal};
use perfuse_symbols::{Elf, FunctionValue, FunctionValues, SymbolOptions, ValueKind};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Groups of them are called so, with the number of the process behind it.
const GROUP: &str = "perfuse_";

/// So many values may a probe tell.
const MOST: usize = 32;

/// Such a probe, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    path: String,
    place: Place,
    values: Vec<Value>,
}

/// Where it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Entry(String),
    Return(String),
    Declared { provider: String, name: String },
}

/// A value that is asked for: `len=req->len:u32`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    /// The name of its field.
    name: String,
    path: String,
    kind: Option<String>,
}

/// Kinds that may be asked for, besides those of the kernel (`u8` to `x64`).
const TEXTS: [&str; 3] = ["str", "string", "ustring"];

impl Asked {
    /// Nothing, if it is no probe with arguments.
    fn parse(text: &str) -> Option<Result<Self, String>> {
        let (word, rest) = text.split_once(':')?;
        let on_return = match word {
            "uprobe" | "usdt" => false,
            "uretprobe" => true,
            _ => return None,
        };
        let (place, list) = match rest.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
            Some(found) => found,
            // Without arguments, a return is what `%return` means.
            None if on_return => (rest, "retval"),
            None => return None,
        };
        Some(match word {
            "usdt" => Self::declared(place, list),
            _ => Self::of(place, list, on_return),
        })
    }

    fn declared(place: &str, list: &str) -> Result<Self, String> {
        let form = "a declared probe with arguments is usdt:/PATH:PROVIDER:NAME(arg0,...)";
        let (rest, name) = place.rsplit_once(':').ok_or(form)?;
        let (path, provider) = rest.rsplit_once(':').ok_or(form)?;
        if path.is_empty() || provider.is_empty() || name.is_empty() {
            return Err(form.to_owned());
        }
        let place = Place::Declared { provider: provider.to_owned(), name: name.to_owned() };
        Ok(Asked { path: path.to_owned(), place, values: values(list)? })
    }

    fn of(place: &str, list: &str, on_return: bool) -> Result<Self, String> {
        let form = "a probe with arguments is uprobe:/PATH:FUNCTION(ARGUMENT,...) or uretprobe:/PATH:FUNCTION(retval)";
        let (place, on_return) = match place.strip_suffix("%return") {
            Some(place) => (place, true),
            None => (place, on_return),
        };
        let (path, function) = place.rsplit_once(':').ok_or(form)?;
        if path.is_empty() || function.is_empty() || function.contains(['+', '*', '?', '[']) {
            return Err(form.to_owned());
        }
        let values = values(list)?;
        if let (true, Some(value)) = (on_return, values.iter().find(|value| value.first() != "retval")) {
            return Err(format!("'{}': a return tells retval, and what that points at", value.path));
        }
        if let (false, true) = (on_return, values.iter().any(|value| value.first() == "retval")) {
            return Err("'retval' is told by a return: uretprobe:/PATH:FUNCTION(retval)".to_owned());
        }
        let place = if on_return { Place::Return } else { Place::Entry }(function.to_owned());
        Ok(Asked { path: path.to_owned(), place, values })
    }
}

/// The values of a list.
fn values(list: &str) -> Result<Vec<Value>, String> {
    let values = list.split(',').map(str::trim).filter(|value| !value.is_empty()).map(Value::parse);
    let values = values.collect::<Result<Vec<_>, _>>()?;
    if values.len() > MOST {
        return Err(format!("a probe tells at most {MOST} values"));
    }
    Ok(values)
}

impl Value {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) => (Some(name.trim()), rest.trim()),
            None => (None, text),
        };
        let (path, kind) = match rest.rsplit_once(':') {
            Some((path, kind)) => (path, Some(kind)),
            None => (rest, None),
        };
        let known = |kind: &str| {
            let of_size = |bits: &str| ["8", "16", "32", "64"].contains(&bits);
            TEXTS.contains(&kind) || kind.strip_prefix(['u', 's', 'x']).is_some_and(of_size)
        };
        if let Some(kind) = kind.filter(|kind| !known(kind)) {
            return Err(format!("'{text}': kinds are u8 to u64, s8 to s64, x8 to x64 and str, not '{kind}'"));
        }
        let is_name = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let parts = path.replace("->", ".");
        if !parts.split('.').map(str::trim).all(is_name) || !name.is_none_or(is_name) {
            return Err(format!(
                "'{text}': a value is arg0, a name, or a path such as req->len, with NAME= before it"
            ));
        }
        let field = name.map_or_else(|| parts.replace('.', "_"), str::to_owned);
        // The kernel has fields of these names, and no longer ones.
        let is_taken = field.starts_with("common_") || field.starts_with("__probe_") || field.len() > 31;
        if is_taken {
            return Err(format!("'{text}': the field '{field}' needs another name: NAME={path}"));
        }
        Ok(Value { name: field, path: path.to_owned(), kind: kind.map(str::to_owned) })
    }

    fn first(&self) -> &str {
        self.path.split(['-', '.']).next().unwrap_or_default()
    }

    /// The number of an argument that is told by it alone: `arg0` is the first.
    fn number(&self) -> Option<usize> {
        self.path.strip_prefix("arg")?.parse().ok()
    }
}

/// Registers of arguments.
fn registers(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["%di", "%si", "%dx", "%cx", "%r8", "%r9"],
        _ => &["%x0", "%x1", "%x2", "%x3", "%x4", "%x5", "%x6", "%x7"],
    }
}

/// A word that is passed to a function, or what it returns, in the words of the kernel.
fn word(number: Option<usize>, arch: Arch) -> String {
    let registers = registers(arch);
    match number {
        None => "$retval".to_owned(),
        Some(number) => registers.get(number).map_or_else(
            // The address to return to lies first on the stack of x86-64.
            || format!("$stack{}", number - registers.len() + usize::from(arch == Arch::X86_64)),
            |register| (*register).to_owned(),
        ),
    }
}

/// A value in the words of the kernel.
fn fetched(value: &Value, found: &FunctionValue, arch: Arch) -> String {
    let mut text = word(found.word, arch);
    for behind in &found.loads {
        text = format!("+{behind}({text})");
    }
    let kind = match (value.kind.as_deref(), found.kind) {
        (Some(kind), ValueKind::Text) if TEXTS.contains(&kind) => "string".to_owned(),
        (Some(kind), _) if TEXTS.contains(&kind) => {
            text = format!("+0({text})");
            "string".to_owned()
        }
        (Some(kind), ValueKind::Text) => {
            // The address in place of the text.
            text =
                text.strip_prefix("+0(").and_then(|text| text.strip_suffix(')')).unwrap_or(&text).to_owned();
            kind.to_owned()
        }
        (Some(kind), _) => kind.to_owned(),
        (None, ValueKind::Text) => "string".to_owned(),
        (None, ValueKind::Integer { bytes, signed }) => {
            format!("{}{}", if signed { 's' } else { 'u' }, bytes * 8)
        }
        (None, _) => "x64".to_owned(),
    };
    format!("{}={text}:{kind}", value.name)
}

/// Tracepoints of probes with arguments, while it lives.
#[derive(Debug)]
pub struct Arguments {
    /// Linux's list of them; nothing of the embedded kernel's.
    file: Option<PathBuf>,
    names: Vec<String>,
}

impl Arguments {
    /// Makes a tracepoint of each event that is a probe with arguments, and puts its name in its place; nothing where there is none.
    /// `is_embedded`: the embedded kernel is to have them.
    ///
    /// # Errors
    ///
    /// One makes no sense, its function or a value of it is not to be found, or tracefs refuses: in words.
    pub fn make(
        events: &mut Vec<(String, Option<String>)>,
        is_embedded: bool,
    ) -> Result<Option<Self>, Error> {
        let mut made: Option<Arguments> = None;
        for (event, filter) in std::mem::take(events) {
            let Some(asked) = Asked::parse(&event) else {
                events.push((event, filter));
                continue;
            };
            let refused = |why: String| Error::Plan(format!("{event}: {why}"));
            let arch =
                Arch::NATIVE.ok_or_else(|| refused("registers of this architecture are not known".into()))?;
            let asked = asked.map_err(refused)?;
            let texts = definitions(&asked, arch).map_err(refused)?;
            let made = match &mut made {
                Some(made) => made,
                none => none.insert(Arguments::begin(is_embedded)?),
            };
            for text in texts {
                events.push((made.add(&asked.place, &text).map_err(refused)?, filter.clone()));
            }
        }
        Ok(made)
    }

    fn begin(is_embedded: bool) -> Result<Self, Error> {
        let file = match is_embedded {
            true => None,
            false => Some(perfuse::tracefs::root()?.join("uprobe_events")),
        };
        file.iter().for_each(|file| clean(file));
        Ok(Arguments { file, names: Vec::new() })
    }

    /// Writes a line into the list.
    fn tell(&self, line: &str) -> Result<(), String> {
        match &self.file {
            Some(file) => write(file, &format!("{line}\n"))
                .map_err(|error| format!("{} refuses it: {error}", file.display())),
            None => perfuse::tracefs::define_embedded(line)
                .map_err(|errno| format!("the embedded kernel refuses it: {errno}")),
        }
    }

    /// Defines one; its name.
    fn add(&mut self, place: &Place, text: &str) -> Result<String, String> {
        let sane = |text: &str| -> String {
            let sane = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            text.chars().map(sane).take(40).collect()
        };
        let mut group = format!("{GROUP}{}", std::process::id());
        let (function, ends) = match place {
            Place::Entry(function) => (sane(function), ""),
            Place::Return(function) => (sane(function), "__return"),
            Place::Declared { provider, name } => {
                group = format!("{group}_{}", sane(provider));
                (sane(name), "")
            }
        };
        let begins = if function.starts_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
        let base = format!("{begins}{function}{ends}");
        let is_known = |name: &String| self.names.contains(&format!("{group}/{name}"));
        let mut names = std::iter::once(base.clone()).chain((2..).map(|number| format!("{base}_{number}")));
        let name = names.find(|name| !is_known(name)).unwrap_or(base);
        let kind = if let Place::Return(_) = place { 'r' } else { 'p' };
        self.tell(&format!("{kind}:{group}/{name} {text}"))?;
        self.names.push(format!("{group}/{name}"));
        Ok(format!("{group}:{name}"))
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        for name in &self.names {
            // One that somebody else uses stays until a later process removes it.
            let _ = self.tell(&format!("-:{name}"));
        }
    }
}

fn write(file: &Path, line: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().append(true).open(file)?.write_all(line.as_bytes())
}

/// Removes what processes that have ended since have left behind.
fn clean(file: &Path) {
    let Ok(text) = fs::read_to_string(file) else { return };
    for name in text.lines().filter_map(|line| line.split_once(':')?.1.split(' ').next()) {
        let pid =
            name.strip_prefix(GROUP).and_then(|rest| rest.split(['/', '_']).next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !perfuse_proc::read::has_live_thread(pid)) {
            let _ = write(file, &format!("-:{name}\n"));
        }
    }
}

/// The places of a probe and its values, in the words of the kernel.
fn definitions(asked: &Asked, arch: Arch) -> Result<Vec<String>, String> {
    let path = fs::canonicalize(&asked.path).map_err(|error| format!("{}: {error}", asked.path))?;
    let path = path.to_str().filter(|path| !path.contains(char::is_whitespace)).map(str::to_owned);
    let path = path.ok_or("the kernel takes no path with spaces")?;
    match &asked.place {
        Place::Entry(function) => Ok(vec![of_function(&path, function, &asked.values, false, arch)?]),
        Place::Return(function) => Ok(vec![of_function(&path, function, &asked.values, true, arch)?]),
        Place::Declared { provider, name } => {
            declared::definitions(&path, (provider, name), &asked.values, arch)
        }
    }
}

/// The place of a function, or of its returns, and values of it.
fn of_function(
    path: &str,
    function: &str,
    asked: &[Value],
    on_return: bool,
    arch: Arch,
) -> Result<String, String> {
    let (path, symbol) = (path.to_owned(), function.to_owned());
    let place = ProbePlace::Uprobe { path: path.clone(), symbol, offset: 0, on_return };
    let probes = find_probes(&place).map_err(|refusal| match refusal {
        Refusal::Unreadable(why) => why,
        _ => format!("{path} has no function {function}"),
    })?;
    let offset = probes.first().map(|probe| probe.offset).ok_or("it has no such function")?;
    let by_number = |value: &Value| value.number().is_some() || value.path == "retval";
    let paths: Vec<&str> = asked.iter().map(|value| value.path.as_str()).collect();
    // Numbers of arguments and what is returned need no debug information.
    let needs = asked.is_empty() || asked.iter().any(|value| !(by_number(value) && value.kind.is_some()));
    let known = if needs { described(&path, function, &paths)? } else { None };
    let mut values = asked.to_vec();
    let mut found = Vec::new();
    match known {
        // All that can be told.
        Some(known) if asked.is_empty() => {
            values = known.arguments.iter().filter_map(|name| Value::parse(name).ok()).take(MOST).collect();
            let paths: Vec<&str> = values.iter().map(|value| value.path.as_str()).collect();
            let known = described(&path, function, &paths)?.unwrap_or_default();
            let (kept, of): (Vec<_>, Vec<_>) = values
                .into_iter()
                .zip(known.values)
                .filter_map(|(value, of)| Some((value, of.ok()?)))
                .unzip();
            (values, found) = (kept, of);
        }
        Some(known) => {
            for (value, of) in values.iter().zip(known.values) {
                // A parameter may be called arg0, too; else it is a number. A function may return none.
                let is_word = value.number().is_some() || value.path == "retval" && value.kind.is_some();
                found.push(match of {
                    Ok(of) => of,
                    Err(_) if is_word => plain(value),
                    Err(why) => return Err(why),
                });
            }
        }
        None => {
            if let Some(value) = values.iter().find(|value| !by_number(value)) {
                return Err(format!(
                    "'{}': names are told by debug information (-g), and {path} has none of {}; arg0, arg1, ... are \
                     the words that are passed to it",
                    value.path, function
                ));
            }
            found = values.iter().map(plain).collect();
        }
    }
    let texts: Vec<String> = values.iter().zip(&found).map(|(value, of)| fetched(value, of, arch)).collect();
    Ok(std::iter::once(format!("{path}:{offset:#x}")).chain(texts).collect::<Vec<_>>().join(" "))
}

/// A word that is a number, as nothing else is known of it.
fn plain(value: &Value) -> FunctionValue {
    FunctionValue::of_word(value.number())
}

/// Values of a function, by the debug information of a program, or by that of its debug file.
fn described(path: &str, function: &str, paths: &[&str]) -> Result<Option<FunctionValues>, String> {
    let told = |error: perfuse_symbols::Error| error.to_string();
    let elf = Elf::open(Path::new(path)).map_err(told)?;
    let options = SymbolOptions::default();
    // Other functions may have the same name.
    let mut address = elf.function(function).map_err(told)?;
    let debug = match elf.has_lines() {
        true => Some((PathBuf::from(path), elf)),
        false => options.debug_file(Path::new(path), &elf, Elf::has_lines),
    };
    let Some((place, described)) = debug else { return Ok(None) };
    if address.is_none() {
        address = described.function(function).map_err(told)?;
    }
    let Some(address) = address else { return Ok(None) };
    let common = options.alternative_of(&place, &described);
    described.function_values(common.as_ref(), address, paths).map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Result<Vec<Value>, String> {
        Asked::parse(text).expect("it is one").map(|asked| asked.values)
    }

    #[test]
    fn probes_with_arguments_are_told_from_others() {
        for text in [
            "uprobe:/bin/a:main",
            "sched:sched_switch",
            "uprobe:/bin/a:main.c:12",
            "kprobe:do_exit",
            "usdt:/bin/a:b:c",
        ] {
            assert_eq!(Asked::parse(text), None, "{text}");
        }
        let asked = Asked::parse("uprobe:./a:f(req->len, n=arg1:u8)").unwrap().unwrap();
        assert_eq!((asked.path.as_str(), &asked.place), ("./a", &Place::Entry("f".to_owned())));
        let declared = Asked::parse("usdt:./a:b:python:call(arg0:str)").unwrap().unwrap();
        let place = Place::Declared { provider: "python".to_owned(), name: "call".to_owned() };
        assert_eq!((declared.path.as_str(), &declared.place, declared.values.len()), ("./a:b", &place, 1));
        let value = |name: &str, path: &str, kind: Option<&str>| Value {
            name: name.into(),
            path: path.into(),
            kind: kind.map(str::to_owned),
        };
        assert_eq!(asked.values, [value("req_len", "req->len", None), value("n", "arg1", Some("u8"))]);
        for text in ["uretprobe:./a:f", "uretprobe:./a:f(retval)", "uprobe:./a:f%return(retval)"] {
            let asked = Asked::parse(text).unwrap().unwrap();
            assert_eq!((&asked.place, asked.values.len()), (&Place::Return("f".to_owned()), 1), "{text}");
        }
        assert_eq!(values("uprobe:/bin/a:main()"), Ok(Vec::new()));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (text, part) in [
            ("uprobe:./a:f(arg0:u7)", "not 'u7'"),
            ("uprobe:./a:f(retval)", "uretprobe"),
            ("uretprobe:./a:f(arg0)", "a return tells retval"),
            ("uprobe:f(arg0)", "uprobe:/PATH:FUNCTION"),
            ("uprobe:./a:f*(arg0)", "uprobe:/PATH:FUNCTION"),
            ("uprobe:./a:f(a b)", "a value is arg0"),
            ("uprobe:./a:f(+8(%di))", "a value is arg0"),
            ("uprobe:./a:f(common_pid)", "needs another name"),
            ("usdt:./a:name(arg0)", "usdt:/PATH:PROVIDER:NAME"),
        ] {
            let said = values(text).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn values_are_told_in_the_words_of_the_kernel() {
        let told = |text: &str, word: Option<usize>, loads: &[u64], kind, arch| {
            let found = FunctionValue::new(word, loads.to_vec(), kind);
            fetched(&Value::parse(text).unwrap(), &found, arch)
        };
        let int = ValueKind::Integer { bytes: 4, signed: true };
        assert_eq!(told("n", Some(1), &[], int, Arch::X86_64), "n=%si:s32");
        assert_eq!(told("r->n", Some(0), &[16, 8], int, Arch::Arm64), "r_n=+8(+16(%x0)):s32");
        assert_eq!(told("s", Some(0), &[0], ValueKind::Text, Arch::X86_64), "s=+0(%di):string");
        assert_eq!(told("s:x64", Some(0), &[0], ValueKind::Text, Arch::X86_64), "s=%di:x64");
        assert_eq!(told("arg0:str", Some(0), &[], int, Arch::X86_64), "arg0=+0(%di):string");
        assert_eq!(told("p", Some(6), &[], ValueKind::Pointer, Arch::X86_64), "p=$stack1:x64");
        assert_eq!(told("p", Some(8), &[], ValueKind::Pointer, Arch::Arm64), "p=$stack0:x64");
        assert_eq!(told("retval", None, &[], int, Arch::X86_64), "retval=$retval:s32");
    }
}
