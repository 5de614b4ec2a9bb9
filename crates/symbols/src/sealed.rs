//! [`Sealed`]: the names that a recording carries inside, for readers on machines that have none of its programs. [`Sealing`](crate::Sealing)
//! collects them where the programs are; a [`Symbolizer`](crate::Symbolizer) that took them in asks them first.

pub(crate) mod layout;

use crate::code::{Code, Loaded};
use crate::dwarf::SourceFrame;
use crate::elf::Layout;
use crate::jit::{CodeMap, CodeMapBuilder};
use crate::key::{DsoKey, DsoKind, Reference};
use crate::missing::Missing;
use crate::table::{SymbolBinding, SymbolKind, TableBuilder};
use layout::{Contents, Frame, Kind, Object, Places, Texts};
use perfuse_files::BuildId;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Names of code that processes made take no more bytes than this.
const MOST_MADE: usize = 64 << 20;
/// Tells numbers of functions of debug information from those of symbols.
const OF_LINES: u64 = 1 << 62;

/// The names that were sealed into a recording: functions, inlined functions, source lines, instructions and source texts of the
/// addresses that it has.
pub struct Sealed {
    objects: HashMap<DsoKind, Vec<Arc<SealedObject>>>,
    sources: HashMap<Vec<u8>, Arc<[u8]>>,
}

impl Sealed {
    /// Begins a mark in a section that holds names of several recordings one after the other: some other of them had none.
    pub const NOT_WHOLE: [u8; 8] = layout::NOT_WHOLE;

    /// Reads a section: the names of one recording, or of several that were merged. `None` for bytes that are damaged, or of a
    /// version that is not known.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut objects, mut sources) = (HashMap::new(), HashMap::new());
        for Contents { texts, objects: list, sources: files } in Contents::decode(bytes)? {
            let texts = Arc::new(texts);
            for object in list {
                let object = SealedObject::new(object, texts.clone());
                let same: &mut Vec<_> = objects.entry(object.key.kind.clone()).or_default();
                same.push(Arc::new(object));
            }
            for (path, text) in files {
                sources.entry(texts.get(path).to_vec()).or_insert_with(|| text.into());
            }
        }
        Some(Sealed { objects, sources })
    }

    /// How many objects it has names of.
    pub fn object_count(&self) -> usize {
        self.objects.values().map(Vec::len).sum()
    }

    /// How many functions it has.
    pub fn function_count(&self) -> usize {
        self.objects.values().flatten().map(|object| object.parts.functions.len()).sum()
    }

    /// The text of a source file, by its path in debug information.
    pub fn source(&self, path: &str) -> Option<Arc<[u8]>> {
        self.sources.get(path.as_bytes()).cloned()
    }

    /// How many source files it has.
    pub fn source_count(&self) -> usize {
        self.sources.len()
    }

    /// The objects that a recording means by this key: those of the same kind and path, and not of another build.
    pub(crate) fn objects(&self, key: &DsoKey) -> impl Iterator<Item = &Arc<SealedObject>> {
        let fits = move |object: &&Arc<SealedObject>| {
            let is_build = match (&object.key.build_id, &key.build_id) {
                (Some(sealed), Some(wanted)) => sealed.matches(wanted),
                _ => true,
            };
            // The kernel may be called by its file once its build-id is known.
            let is_named = object.key.path == key.path || matches!(key.kind, DsoKind::Kernel { .. });
            is_build && is_named
        };
        self.objects.get(&key.kind).into_iter().flatten().filter(fits)
    }

    /// The code that a process made.
    pub(crate) fn made(&self, pid: u32) -> impl Iterator<Item = &Arc<SealedObject>> {
        self.objects.get(&DsoKind::Anonymous { pid }).into_iter().flatten()
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} objects, {} source files)", self.object_count(), self.sources.len())
    }
}

/// An object as one or several recordings have it inside.
pub(crate) struct SealedDso(Vec<Arc<SealedObject>>);

impl SealedDso {
    /// Of objects with the same key, of which all count that are of the build of the first; `None` if there is none.
    pub(crate) fn of(mut objects: Vec<Arc<SealedObject>>) -> Option<Self> {
        let build_id = objects.first()?.key.build_id;
        objects.retain(|object| object.key.build_id == build_id);
        Some(SealedDso(objects))
    }

    pub(crate) fn key(&self) -> &DsoKey {
        &self.0[0].key
    }

    /// Whether all addresses of the recordings were looked up.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.iter().all(|object| object.parts.is_whole)
    }

    /// Whether lines or inlined functions are known.
    pub(crate) fn has_lines(&self) -> bool {
        self.0.iter().any(|object| !object.parts.runs.is_empty())
    }

    /// The symbols, as any other source gives them.
    pub(crate) fn loaded(&self) -> Loaded {
        let missing = self.0.iter().find_map(|object| {
            let why = object.parts.missing?;
            Some(Missing::Sealed { why: String::from_utf8_lossy(object.texts.get(why)).into_owned() })
        });
        let mut builder = TableBuilder::default();
        self.0.iter().for_each(|object| object.add_to(&mut builder));
        let table = builder.finish(&[]);
        let has_functions = |object: &&Arc<SealedObject>| !object.parts.functions.is_empty();
        let told = self.0.iter().find(has_functions).unwrap_or(&self.0[0]);
        let code = match &told.parts.places {
            Places::Segments(segments) => Code::File { layout: Layout::of_sealed(segments), table },
            Places::Shifted { shift, base } => Code::Shifted { table, shift: *shift, base: *base },
        };
        Loaded { code, missing, ..Loaded::default() }
    }

    /// The bytes of code from an address on, as the object's symbols count, their machine and whether that is one of 64 bits.
    pub(crate) fn code(&self, address: u64, size: u64) -> Option<(&[u8], u16, bool)> {
        self.0.iter().find_map(|object| object.code(address, size))
    }

    /// Tells `found` of the functions at addresses, as [`DebugInfo::frames`](crate::DebugInfo::frames).
    pub(crate) fn frames(&self, addresses: &[u64], found: &mut dyn FnMut(usize, &SourceFrame<'_>)) {
        for (index, &address) in addresses.iter().enumerate() {
            let mut tell = |frame: &SourceFrame<'_>| found(index, frame);
            let _ = (0..).zip(&self.0).any(|(number, object)| object.frames(number, address, &mut tell));
        }
    }
}

/// An object with its names.
pub(crate) struct SealedObject {
    pub(crate) key: DsoKey,
    parts: Object,
    texts: Arc<Texts>,
}

impl SealedObject {
    fn new(parts: Object, texts: Arc<Texts>) -> Self {
        let text = |number: u32| texts.get(number);
        let kind = match parts.kind {
            Kind::File => DsoKind::File,
            Kind::Vdso => DsoKind::Vdso,
            Kind::Vsyscall => DsoKind::Vsyscall,
            Kind::Kernel(symbol, address) => DsoKind::Kernel {
                reference: symbol.map(|symbol| Reference {
                    symbol: String::from_utf8_lossy(text(symbol)).into_owned(),
                    address,
                }),
            },
            Kind::Module(base) => DsoKind::Module { base },
            Kind::Anonymous(pid) => DsoKind::Anonymous { pid },
        };
        let path = Path::new(OsStr::from_bytes(text(parts.path))).to_owned();
        let key = DsoKey { kind, path, build_id: BuildId::new(&parts.build_id), pid: None };
        SealedObject { key, parts, texts }
    }

    fn add_to(&self, builder: &mut TableBuilder) {
        let mut known = HashMap::new();
        for function in &self.parts.functions {
            let pushed = match known.get(&function.name) {
                Some(&place) => Ok(place),
                None => builder.push_string(self.texts.get(function.name)),
            };
            let Ok(place) = pushed else { break };
            known.insert(function.name, place);
            let kind = match function.kind {
                0 => SymbolKind::Label,
                1 => SymbolKind::Object,
                _ => SymbolKind::Function,
            };
            let size = function.size.max(1);
            if builder.push_named(function.start, size, place, SymbolBinding::Global, kind).is_err() {
                break;
            }
        }
    }

    /// The same of code that a process made: with the times from which it was there.
    pub(crate) fn made(&self) -> CodeMap {
        let (mut builder, mut bytes) = (CodeMapBuilder::default(), 0);
        for function in &self.parts.functions {
            let name = self.texts.get(function.name);
            bytes += name.len() + 1;
            if bytes > MOST_MADE || builder.push(function.start, function.size, function.from, name).is_err()
            {
                break;
            }
        }
        builder.finish()
    }

    /// Whether code of the process was another at other times.
    pub(crate) fn has_times(&self) -> bool {
        self.parts.functions.iter().any(|function| function.from != 0)
    }

    /// The bytes of code from an address on, as the object's symbols count, their machine and whether that is one of 64 bits.
    pub(crate) fn code(&self, address: u64, size: u64) -> Option<(&[u8], u16, bool)> {
        let index = self.parts.code.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        let (start, bytes) = &self.parts.code[index];
        let from = usize::try_from(address - start).ok().filter(|from| *from < bytes.len())?;
        let to = bytes.len().min(from.saturating_add(usize::try_from(size).unwrap_or(usize::MAX)));
        Some((&bytes[from..to], self.parts.machine, self.parts.is_64))
    }

    /// Tells `found` of the functions at an address; `false` if it is not known. `number` is the object's among those of its
    /// key.
    fn frames(&self, number: u64, address: u64, found: &mut dyn FnMut(&SourceFrame<'_>)) -> bool {
        let Object { runs, lists, .. } = &self.parts;
        let before = runs.partition_point(|run| run.addresses.start <= address).checked_sub(1);
        let run = before.map(|before| &runs[before]).filter(|run| run.addresses.contains(&address));
        let Some(run) = run else { return false };
        for frame in &lists[run.list as usize] {
            let &Frame { function, name, is_inlined, file, line, column } = frame;
            let text = |text: u32| self.texts.get(text);
            let name = &|| name.map(|name| String::from_utf8_lossy(text(name)).into_owned());
            let file = file.and_then(|file| std::str::from_utf8(text(file)).ok());
            let function = function.map(|function| u64::from(function) | number << 32 | OF_LINES);
            found(&SourceFrame {
                function,
                name,
                is_inlined,
                file,
                line,
                column,
                discriminator: 0,
                declared: &|| None,
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Symbolizer};
    use proptest::prelude::*;

    proptest! {
        /// All that a section can say can be asked for, and ends.
        #[test]
        fn any_contents_can_be_asked(contents in layout::tests::contents(), at in any::<u64>()) {
            let sealed = Sealed::decode(&contents.encode()).expect("it was written so");
            let symbolizer = Symbolizer::default();
            let keys: Vec<DsoKey> = sealed.objects.values().flatten().map(|object| object.key.clone()).collect();
            symbolizer.take_sealed(sealed);
            for key in keys {
                let dso = symbolizer.dso(&key);
                for place in [Address::FileOffset(at), Address::Memory(at)] {
                    let _ = dso.find(place).map(|found| found.symbol.demangled().len());
                    if let Some((info, shift)) = dso.debug_info() {
                        let at = dso.address(place).unwrap_or(at).wrapping_sub(shift);
                        info.frames(&[at, 0, 1 << 20], &mut |_, frame| drop((frame.name)()));
                    }
                }
            }
        }
    }
}
