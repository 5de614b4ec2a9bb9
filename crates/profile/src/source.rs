//! The source of names: [`Symbols`] tells the functions at addresses of objects. [`LocalSymbols`] reads them from this
//! machine's files; a container's root, a symbol store or an archive can serve in its place.

use crate::strings::Strings;
use crate::tables::{Location, Object, ObjectKind};
use perfuse_data::PerfData;
use perfuse_data::feature::FeatureId;
use perfuse_symbols::{
    Address, BuildId, Dso, DsoKey, FoundSymbol, Reference, Sealed, SymbolKind, SymbolOptions, Symbolizer,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// An object whose symbols are wanted.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRef<'p> {
    pub(crate) strings: &'p Strings,
    pub(crate) object: &'p Object,
}

impl<'p> ObjectRef<'p> {
    /// Its path on the machine of the recording, or what the kernel shows in place of one.
    pub fn path(&self) -> &'p Path {
        Path::new(OsStr::from_bytes(self.strings.get(self.object.path)))
    }

    /// Its build-id, if the recording has it.
    pub fn build_id(&self) -> Option<&'p BuildId> {
        self.object.build_id.as_ref()
    }

    /// The object, as the profile knows it.
    pub fn object(&self) -> &'p Object {
        self.object
    }
}

/// An address whose functions are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimedAddress {
    /// The address as the object counts.
    pub address: Address,
    /// The time for which code that a process made is wanted; the last moment there is if it does not matter.
    pub time: u64,
}

impl TimedAddress {
    /// The address of a location in an object.
    pub(crate) fn of(location: &Location, object: &Object) -> Self {
        let address = match object.by_address {
            true => Address::Memory(location.ip),
            false => Address::FileOffset(location.address),
        };
        TimedAddress { address, time: location.time }
    }
}

/// A function at an address.
#[derive(Clone, Copy)]
pub struct Function<'s> {
    /// A number that only this function of the object has.
    pub id: u64,
    /// Makes its name as the file has it, mangled or not. It is asked for once for each function.
    pub name: &'s dyn Fn() -> String,
    /// Where it starts, as its symbols count.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
    /// How far into it the address is.
    pub offset: u64,
    /// Whether it is data rather than code.
    pub is_data: bool,
    /// The source line of the address, if it is known: file and line.
    pub line: Option<(&'s str, u32)>,
}

/// A source of names. It is asked for all wanted addresses of an object at once, by several threads for different objects.
pub trait Symbols: Send + Sync {
    /// Tells `found` of the functions at addresses: the index of the address, and a function. Where functions were
    /// inlined there are several for an address, the innermost first; for an address without any there is none.
    fn look_up(&self, object: ObjectRef<'_>, at: &[TimedAddress], found: &mut dyn FnMut(usize, Function<'_>));

    /// Why an object has no names, once they were looked up.
    fn missing(&self, object: ObjectRef<'_>) -> Option<String>;
}

/// No names: what is shown are addresses.
impl Symbols for () {
    fn look_up(&self, _: ObjectRef<'_>, _: &[TimedAddress], _: &mut dyn FnMut(usize, Function<'_>)) {}

    fn missing(&self, _: ObjectRef<'_>) -> Option<String> {
        None
    }
}

/// The names that this machine's files have.
#[derive(Clone, Debug, Default)]
pub struct LocalSymbols {
    symbolizer: Arc<Symbolizer>,
    inlined: bool,
    lines: bool,
}

impl LocalSymbols {
    /// With the files that a symbolizer finds, and the code that it was told of.
    pub fn new(symbolizer: Arc<Symbolizer>) -> Self {
        LocalSymbols { symbolizer, inlined: false, lines: false }
    }

    /// With the functions that were inlined at addresses, and source lines, as debug information tells them. It is read only
    /// if one of both is wanted.
    #[must_use]
    pub fn with_debug_info(self, inlined: bool, lines: bool) -> Self {
        LocalSymbols { inlined, lines, ..self }
    }

    /// The same without inlined functions.
    pub(crate) fn without_inlined(self) -> Self {
        LocalSymbols { inlined: false, ..self }
    }

    /// The object of a profile, to ask it for more than names.
    pub fn dso(&self, object: ObjectRef<'_>) -> Arc<Dso> {
        self.symbolizer.dso(&dso_key(object.strings, object.object))
    }

    /// Takes in the names that a recording has inside, if it was sealed: they come before those of this machine's files. Tells
    /// whether it has any.
    pub fn take_sealed(&self, data: &mut PerfData<'_>) -> bool {
        let bytes = data.feature_bytes(FeatureId::SEALED).ok().flatten();
        match bytes.and_then(Sealed::decode) {
            Some(sealed) => {
                self.symbolizer.take_sealed(sealed);
                true
            }
            None => false,
        }
    }

    /// The text of a source file, from a recording that has it inside, or from this machine.
    pub fn source_text(&self, path: &str) -> Option<Vec<u8>> {
        let sealed = self.symbolizer.sealed_source(path).map(|text| text.to_vec());
        sealed.or_else(|| perfuse_symbols::read_source(Path::new(path)))
    }

    /// The symbolizer.
    pub fn symbolizer(&self) -> &Arc<Symbolizer> {
        &self.symbolizer
    }
}

impl From<SymbolOptions> for LocalSymbols {
    /// With the files at these places.
    fn from(options: SymbolOptions) -> Self {
        LocalSymbols::new(Arc::new(Symbolizer::new(options)))
    }
}

impl Symbols for LocalSymbols {
    fn look_up(
        &self,
        object: ObjectRef<'_>,
        at: &[TimedAddress],
        found: &mut dyn FnMut(usize, Function<'_>),
    ) {
        let dso = self.dso(object);
        let mut is_told = vec![false; at.len()];
        let wanted = self.inlined || self.lines;
        if let Some((info, shift)) = wanted.then(|| dso.debug_info()).flatten() {
            // Debug information knows no other addresses than those of the file.
            let (indices, addresses): (Vec<usize>, Vec<u64>) = (0..at.len())
                .filter_map(|index| Some((index, dso.address(at[index].address)?.wrapping_sub(shift))))
                .unzip();
            info.frames(&addresses, &mut |index, frame| {
                let index = indices[index];
                let line = frame.file.filter(|_| frame.line != 0).map(|file| (file, frame.line));
                let hit = dso.find_at(at[index].address, at[index].time);
                // Without inlined functions the line is the innermost one's, and the function the one that was called.
                if is_told[index] || !self.inlined && hit.is_none() {
                    return;
                }
                is_told[index] = !(self.inlined && frame.is_inlined);
                match (hit, frame.function) {
                    (Some(hit), _) if is_told[index] => {
                        found_symbol(&hit, line, &mut |function| found(index, function))
                    }
                    (hit, Some(id)) => {
                        let name = || (frame.name)().unwrap_or_else(|| "[unknown]".to_owned());
                        let (start, size) = hit.map_or((0, 0), |hit| (hit.symbol.start, hit.symbol.size));
                        let offset = hit.map_or(0, |hit| hit.offset);
                        found(index, Function { id, name: &name, start, size, offset, is_data: false, line });
                    }
                    // Only the line is known, and no function that it is of.
                    (None, None) => is_told[index] = true,
                    (Some(hit), None) => found_symbol(&hit, line, &mut |function| found(index, function)),
                }
            });
        }
        for (index, address) in at.iter().enumerate().filter(|&(index, _)| !is_told[index]) {
            let Some(hit) = dso.find_at(address.address, address.time) else { continue };
            found_symbol(&hit, None, &mut |function| found(index, function));
        }
    }

    fn missing(&self, object: ObjectRef<'_>) -> Option<String> {
        let dso = self.dso(object);
        dso.missing().map(ToString::to_string)
    }
}

/// The function that a symbol is.
fn found_symbol(hit: &FoundSymbol<'_>, line: Option<(&str, u32)>, found: &mut dyn FnMut(Function<'_>)) {
    let symbol = hit.symbol;
    found(Function {
        id: symbol.id.0,
        name: &|| symbol.name().into_owned(),
        start: symbol.start,
        size: symbol.size,
        offset: hit.offset,
        is_data: symbol.kind == SymbolKind::Object,
        line,
    });
}

/// The name by which symbols of an object are asked for.
pub(crate) fn dso_key(strings: &Strings, object: &Object) -> DsoKey {
    let name = strings.get(object.path);
    let path = OsStr::from_bytes(name);
    let key = match object.kind {
        ObjectKind::Kernel(symbol, address) => {
            let symbol = strings.text(symbol).into_owned();
            DsoKey::kernel((!symbol.is_empty()).then_some(Reference { symbol, address }))
        }
        ObjectKind::Module(base) => DsoKey::module(path, base),
        ObjectKind::User | ObjectKind::Function | ObjectKind::Unknown => {
            DsoKey { pid: object.seen_by, ..DsoKey::of_map(name, object.pid) }
        }
    };
    key.with_build_id(object.build_id)
}
