//! The pages, and what on them can be clicked at.

use crate::subject::RowOrder;

/// A way to look at a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Page {
    /// Functions with their shares.
    #[default]
    Functions,
    /// The callers and callees of one.
    Neighbours,
    /// Callchains as a tree.
    Tree,
    /// The same as a flame graph.
    Flame,
    /// The source lines and instructions of a function.
    Code,
    /// Threads and cpus over time.
    Time,
    /// The events of the recording.
    Events,
}

impl Page {
    /// All of them, in the order of the keys 1 to 7.
    pub const ALL: [Page; 7] =
        [Page::Functions, Page::Neighbours, Page::Tree, Page::Flame, Page::Code, Page::Time, Page::Events];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Page::Functions => "functions",
            Page::Neighbours => "callers",
            Page::Tree => "tree",
            Page::Flame => "flame",
            Page::Code => "code",
            Page::Time => "time",
            Page::Events => "events",
        }
    }
}

/// A thing on the screen that can be clicked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    Page(Page),
    /// The title of a column that rows can be sorted by.
    Title(RowOrder),
    /// A line of the list that is shown.
    Line(usize),
    /// One of the callers, or of the callees.
    Neighbour {
        is_callee: bool,
        place: usize,
    },
    /// A node of the flame graph, by its id.
    Node(u64),
    /// A step of time of a thread or cpu.
    Step {
        lane: usize,
        column: usize,
    },
}
