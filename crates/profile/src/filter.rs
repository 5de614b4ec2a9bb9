//! Which samples are shown.

use crate::frames::{FrameId, Frames};

/// Which samples become part of a profile; an empty list admits all. A sample is judged by its task and by
/// where it was, not by its callers.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Names of threads.
    pub comms: Vec<String>,
    /// Processes.
    pub pids: Vec<u32>,
    /// Threads.
    pub tids: Vec<u32>,
    /// Objects, with or without folders.
    pub objects: Vec<String>,
    /// Functions.
    pub symbols: Vec<String>,
    /// Only functions that have a name.
    pub has_name: bool,
}

impl Filter {
    pub(crate) fn admits_task(&self, pid: u32, tid: u32, comm: &[u8]) -> bool {
        let listed = |list: &[u32], value| list.is_empty() || list.contains(&value);
        listed(&self.pids, pid)
            && listed(&self.tids, tid)
            && (self.comms.is_empty() || self.comms.iter().any(|name| name.as_bytes() == comm))
    }

    /// Whether it does not matter where samples were.
    pub(crate) fn admits_all_frames(&self) -> bool {
        self.objects.is_empty() && self.symbols.is_empty() && !self.has_name
    }

    pub(crate) fn admits_frame(&self, frames: &Frames, id: FrameId) -> bool {
        let frame = frames.get(id);
        let is_object = |name: &String| {
            frame.object != 0
                && (name == frames.object(frame.object) || name == frames.short_object(frame.object))
        };
        (!self.has_name || frame.symbol.is_some())
            && (self.objects.is_empty() || self.objects.iter().any(is_object))
            && (self.symbols.is_empty()
                || frame
                    .symbol
                    .as_deref()
                    .is_some_and(|symbol| self.symbols.iter().any(|name| name == symbol)))
    }
}
