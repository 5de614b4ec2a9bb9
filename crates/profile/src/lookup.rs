//! Addresses with their names at once, one after the other, for those who print samples as they come.

use crate::hash::FastMap;
use crate::locate::{Locator, ThreadTime, made_name};
use crate::source::{LocalSymbols, ObjectRef, Symbols, TimedAddress, dso_key};
use crate::source_files::source_name;
use crate::strings::Strings;
use crate::tables::{Object, ObjectKind};
use perfuse_data::session::{Level, Session};
use perfuse_symbols::{Dso, Signatures, demangle};
use std::sync::Arc;

/// Names that are remembered; then they are made again.
const MOST_NAMES: usize = 1 << 20;

/// An address, its object and its function.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Placed {
    /// The object, a number that [`Lookup::object`] takes; 0 is none.
    pub object: u32,
    /// The function, demangled; where none is known, nothing.
    pub symbol: Option<Arc<str>>,
    /// From the start of the function.
    pub offset: u64,
    /// The address as the object counts.
    pub place: u64,
    /// The source line, if it is known: file and line.
    pub line: Option<(Arc<str>, u32)>,
    /// The functions that were inlined there, the innermost first, each with its source line.
    pub inlined: Vec<InlinedFunction>,
    /// Whether it is so at this time only: the process tells of the code that it makes, and may make other code there.
    pub is_timed: bool,
}

/// A function that was inlined, and its source line.
pub type InlinedFunction = (Arc<str>, Option<(Arc<str>, u32)>);

/// Finds addresses.
pub struct Lookup {
    locator: Locator,
    symbols: LocalSymbols,
    /// The same, without inlined functions.
    functions: LocalSymbols,
    demangled: bool,
    /// By object and the number of the function in it.
    names: FastMap<(u32, u64), Arc<str>>,
    /// Paths of objects, and what reports call them.
    objects: Vec<(Box<str>, Box<str>)>,
    full_paths: bool,
}

impl Lookup {
    /// Where names are from.
    pub fn symbols(&self) -> &LocalSymbols {
        &self.symbols
    }

    /// With names from this machine's files, demangled or as they are there.
    pub fn new(symbols: LocalSymbols, demangled: bool) -> Self {
        let locator = Locator::new(Some(symbols.symbolizer().clone()));
        let functions = symbols.clone().without_inlined();
        let names = FastMap::default();
        let (objects, full_paths) = (Vec::new(), false);
        let mut lookup = Lookup { locator, symbols, functions, demangled, names, objects, full_paths };
        lookup.name_objects();
        lookup
    }

    /// [Source files](Self::source_name) are called by their whole paths.
    #[must_use]
    pub fn with_full_paths(self, full_paths: bool) -> Self {
        Lookup { full_paths, ..self }
    }

    /// The name of a source file: its path, or the end of it.
    pub fn source_name<'p>(&self, path: &'p str) -> &'p str {
        source_name(path, self.full_paths)
    }

    /// Path of an object.
    pub fn object(&self, object: u32) -> &str {
        &self.objects[object as usize].0
    }

    /// The name that reports show: without folders.
    pub fn short_object(&self, object: u32) -> &str {
        &self.objects[object as usize].1
    }

    /// The symbol of the kernel at an address, and how far into it that is.
    pub fn kernel_symbol(
        &mut self,
        session: &Session,
        at: ThreadTime,
        address: u64,
    ) -> Option<(String, u64)> {
        let placed = self.locate_function(session, at, Level::Kernel, address);
        Some((placed.symbol?.to_string(), placed.offset))
    }

    /// Looks up an address of a thread at a time. Addresses are not remembered here, but their names are.
    pub fn locate(&mut self, session: &Session, at: ThreadTime, level: Level, ip: u64) -> Placed {
        self.place(session, at, level, ip, true)
    }

    /// The same, but not the functions that were inlined there: only those and lines take debug information, which is large.
    pub fn locate_function(&mut self, session: &Session, at: ThreadTime, level: Level, ip: u64) -> Placed {
        self.place(session, at, level, ip, false)
    }

    /// The object of an address, to ask it for more than names, and the address as its symbols count; none where no file is known.
    pub fn counted(
        &mut self,
        session: &Session,
        at: ThreadTime,
        level: Level,
        ip: u64,
    ) -> Option<(u32, Arc<Dso>, u64)> {
        let location = self.locator.locate(session, at, level, ip);
        self.name_objects();
        let Locator { strings, objects, .. } = &self.locator;
        let object = &objects[location.object.0 as usize];
        if matches!(object.kind, ObjectKind::Unknown | ObjectKind::Function) {
            return None;
        }
        let dso = self.symbols.dso(ObjectRef { strings, object });
        let address = dso.address(TimedAddress::of(&location, object).address)?;
        Some((location.object.0, dso, address))
    }

    /// The bytes of code at an address, at most so many, the machine that they are for (a number of the `EM_*` family), and the
    /// address as the object counts; none where no file has them.
    pub fn code(
        &mut self,
        session: &Session,
        at: ThreadTime,
        (level, ip): (Level, u64),
        size: u64,
    ) -> Option<(Vec<u8>, u16, u64)> {
        let (_, dso, address) = self.counted(session, at, level, ip)?;
        let code = dso.code(address, size).ok()?;
        Some((code.bytes, code.machine, address))
    }

    fn place(&mut self, session: &Session, at: ThreadTime, level: Level, ip: u64, inlined: bool) -> Placed {
        let location = self.locator.locate(session, at, level, ip);
        self.name_objects();
        let number = location.object.0;
        let Lookup { locator: Locator { strings, objects, .. }, names, demangled, .. } = self;
        let symbols = if inlined { &self.symbols } else { &self.functions };
        let object = &objects[number as usize];
        let mut placed = Placed {
            object: number,
            symbol: None,
            offset: 0,
            place: location.place(object.by_address),
            line: None,
            inlined: Vec::new(),
            is_timed: location.is_timed(),
        };
        let mut name_of = |id: u64, make: &dyn Fn() -> String| {
            if names.len() >= MOST_NAMES {
                names.clear();
            }
            names.entry((number, id)).or_insert_with(|| make().into()).clone()
        };
        match object.kind {
            ObjectKind::Unknown => {}
            ObjectKind::Function => {
                placed.offset = ip.wrapping_sub(location.address);
                placed.symbol = Some(name_of(location.address, &|| strings.text(object.path).into_owned()));
            }
            _ => {
                let at = [TimedAddress::of(&location, object)];
                symbols.look_up(ObjectRef { strings, object }, &at, &mut |_, function| {
                    let make = || match *demangled {
                        true => demangle((function.name)(), Signatures::Short).into_owned(),
                        false => (function.name)(),
                    };
                    // The last one is the function that has the others.
                    let line = function.line.map(|(file, line)| (file.into(), line));
                    let line = std::mem::replace(&mut placed.line, line);
                    placed.offset = function.offset;
                    let symbol = placed.symbol.replace(name_of(function.id, &make));
                    placed.inlined.extend(symbol.map(|symbol| (symbol, line)));
                });
            }
        }
        placed
    }

    /// Names the objects that came last.
    fn name_objects(&mut self) {
        let Lookup { locator: Locator { strings, objects: list, .. }, objects, .. } = self;
        objects.extend(list[objects.len()..].iter().map(|object| object_names(strings, object)));
    }
}

/// The path of an object, and what reports call it.
pub(crate) fn object_names(strings: &Strings, object: &Object) -> (Box<str>, Box<str>) {
    let path = strings.text(object.path);
    match object.kind {
        _ if object.is_made => (made_name(object.pid).into(), format!("[JIT] tid {}", object.pid).into()),
        ObjectKind::Module(_) => {
            (path.as_ref().into(), format!("[{}]", dso_key(strings, object).module_name()).into())
        }
        ObjectKind::Kernel(..) if path.contains("/vmlinux") => {
            (path.as_ref().into(), "[kernel.vmlinux]".into())
        }
        _ => (path.as_ref().into(), base_name(&path).into()),
    }
}

/// The last part of a path.
fn base_name(path: &str) -> &str {
    match path.strip_prefix('/') {
        Some(_) => path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path),
        None => path,
    }
}
