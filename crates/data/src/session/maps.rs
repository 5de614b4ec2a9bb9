//! The mappings of one address space, sorted, never overlapping.

mod tree;

use super::ObjectId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
pub(super) use tree::Held;
use tree::Tree;

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Map {
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// Offset in the object of its first byte.
    pub pgoff: u64,
    /// The mapped object.
    pub object: ObjectId,
    /// The process that mapped it: that of the maps, or one that it was forked from. 0 for the kernel.
    pub pid: u32,
    /// Rights, as for mmap(2). 0 if they were not told.
    pub prot: u32,
    /// Flags, as for mmap(2). 0 if they were not told.
    pub flags: u32,
    /// The inode of the file. 0 without one, or if it was not told.
    pub inode: u64,
    /// Whether places in it are told by their address: it is the kernel's, or no file is behind it.
    pub by_address: bool,
}

impl Map {
    /// An address of the mapping as the object counts.
    #[inline]
    pub fn place(&self, address: u64) -> u64 {
        match self.by_address {
            true => address,
            false => address.wrapping_sub(self.start).wrapping_add(self.pgoff),
        }
    }

    /// Whether code may run there. Old kernels do not tell the rights of what is not data.
    pub fn may_be_code(&self) -> bool {
        self.prot == 0 || self.prot & EXEC != 0
    }
}

/// The right to execute, as for mmap(2).
const EXEC: u32 = 4;
/// Huge pages are of this size, or of a multiple of it.
const HUGE_PAGE: u64 = 2 << 20;

/// More mappings than this are not kept in one address space.
pub(super) const MOST: usize = if cfg!(test) { 1 << 14 } else { 1 << 18 };

/// More than this are not kept in all address spaces together; what a forked child has of its parent's counts once. They
/// take about 120 bytes each.
const MOST_IN_ALL: usize = 2 << 20;

/// The mappings of a process, or of the kernel.
#[derive(Clone, Debug, Default)]
pub struct Maps {
    list: Tree,
    /// Symbols of code that the kernel has made. They lie over the list, which is whole again when it is gone.
    symbols: Tree,
    before_exec: Option<BeforeExec>,
    jit_dump: Option<Map>,
    id: Id,
}

/// Mappings of before an exec. Until the new program runs, the kernel's callchains and samples end where
/// the old one called exec.
#[derive(Clone, Debug)]
struct BeforeExec {
    maps: Arc<Maps>,
    /// The vdso was mapped, which is the last thing before the new program runs.
    is_last: bool,
}

/// A number that no other maps, and no earlier state of these, have.
#[derive(Debug)]
struct Id(u64);

impl Default for Id {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Id(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Clone for Id {
    fn clone(&self) -> Self {
        Id::default()
    }
}

impl Maps {
    /// Without any; they are counted there.
    pub(super) fn new(held: Held) -> Self {
        Maps { list: Tree::new(held.clone()), symbols: Tree::new(held), ..Maps::default() }
    }

    /// Tells this state of these maps from all other states and other maps: what was found out about an
    /// address holds as long as the number is the same.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id.0
    }

    /// The mapping of the file `jit-PID.dump` in which the process, or the one it was forked from, tells of the code that it
    /// makes: what is in memory without a file can be looked up there, by address and the time of the sample.
    /// Such code changes while [`id`](Self::id) stays the same.
    #[inline]
    pub fn jit_dump(&self) -> Option<Map> {
        self.jit_dump
    }

    pub(super) fn set_jit_dump(&mut self, dump: Map) {
        if self.jit_dump != Some(dump) {
            self.jit_dump = Some(dump);
            self.id = Id::default();
        }
    }

    /// The mapping at an address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<Map> {
        if let Some(symbol) = self.symbols.find(address) {
            return Some(symbol);
        }
        self.list.find(address).or_else(|| self.before_exec.as_ref()?.maps.find(address))
    }

    /// The last mapping of the list that begins at an address or before it, wherever it ends.
    pub(super) fn last_from(&self, address: u64) -> Option<Map> {
        self.list.last_from(address)
    }

    /// All of them by address; those of what the kernel told of its own making, which lie over others, last.
    pub fn iter(&self) -> impl Iterator<Item = &Map> {
        self.list.iter().chain(self.symbols.iter())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len() + self.symbols.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a mapping, perhaps that of the vdso. A mapping under it is gone; of mappings that it covers in
    /// part, the rest stays. Says whether there was room for it.
    pub(super) fn insert(&mut self, new: Map, is_vdso: bool) -> bool {
        match &mut self.before_exec {
            // The new program maps something.
            Some(before) if before.is_last && !is_vdso => self.before_exec = None,
            Some(before) => before.is_last |= is_vdso,
            None => {}
        }
        let most = self.most();
        let is_new = self.list.put(Some(new), new.start..new.end, most);
        let is_over = self.symbols.put(None, new.start..new.end, most);
        if is_new || is_over {
            self.id = Id::default();
        }
        // One that is told again is no news.
        is_new || self.list.find(new.start) == Some(new)
    }

    /// Whether memory without a file lies over text of a file as huge pages do onto which a program has moved its own code: the
    /// code is that of the file all the same.
    pub(super) fn is_moved_text(&self, new: &Map) -> bool {
        let under = || self.list.find(new.start).filter(|under| is_text(under) && under.end >= new.end);
        is_on_huge_pages(new) && under().is_some()
    }

    /// The same where mappings are told as they lie there already: between two pieces of a file's text, the second of which is
    /// new. What lies between them is then a piece of the file too.
    pub(super) fn moved_text_before(&self, new: &Map) -> Option<Map> {
        let moved = self.list.find(new.start.checked_sub(1)?).filter(is_on_huge_pages)?;
        let before = self.list.find(moved.start.checked_sub(1)?)?;
        let base = |map: &Map| map.start.wrapping_sub(map.pgoff);
        let is_one = is_text(new) && before.object == new.object && base(&before) == base(new);
        let pgoff = before.place(moved.start);
        is_one.then_some(Map { start: moved.start, end: moved.end, pgoff, ..before })
    }

    /// Adds code that the kernel made, over what is mapped there. Says whether there was room for it.
    pub(super) fn insert_symbol(&mut self, new: Map) -> bool {
        let is_new = self.symbols.put(Some(new), new.start..new.end, self.most());
        if is_new {
            self.id = Id::default();
        }
        is_new || self.symbols.find(new.start) == Some(new)
    }

    /// Takes the code that the kernel made away that begins at an address.
    pub(super) fn remove_symbol(&mut self, start: u64) {
        if let Some(symbol) = self.symbols.find(start).filter(|symbol| symbol.start == start) {
            self.symbols.put(None, symbol.start..symbol.end, usize::MAX);
            self.id = Id::default();
        }
    }

    /// How many each list may have now.
    fn most(&self) -> usize {
        if self.list.held().count() < MOST_IN_ALL { MOST } else { 0 }
    }

    /// The maps of a process that called exec: what was there is looked at where nothing new is, until the new
    /// program maps something itself.
    pub(super) fn after_exec(old: Arc<Maps>) -> Self {
        let maps = match &old.before_exec {
            Some(before) if old.is_empty() => before.maps.clone(),
            Some(_) => Arc::new(Maps { before_exec: None, ..Maps::clone(&old) }),
            None => old,
        };
        let new = Maps::new(maps.list.held().clone());
        Maps { before_exec: Some(BeforeExec { maps, is_last: false }), ..new }
    }
}

/// Code of a file.
fn is_text(map: &Map) -> bool {
    !map.by_address && map.prot & EXEC != 0
}

/// Code without a file on whole huge pages.
fn is_on_huge_pages(map: &Map) -> bool {
    let is_whole = (map.start | map.end) % HUGE_PAGE == 0;
    is_whole && map.by_address && map.prot & EXEC != 0 && map.pid != 0
}
