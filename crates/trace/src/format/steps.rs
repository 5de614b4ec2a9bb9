//! The programs that arguments of a `print fmt` become: steps for a stack of values. Recordings of strangers bring them: in a program,
//! unlike in a tree, nothing is deep.

/// A step of a program. Its operands lie on the stack, the last on top; its result takes their place.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Number(u64),
    Text(String),
    /// By its index.
    Field(usize),
    /// An array and an index: an element of so many bytes.
    Index(usize),
    Unary(&'static str),
    Binary(&'static str),
    /// Goes on at another step.
    Jump(usize),
    /// Takes a number, and goes on at another step if it is 0.
    Unless(usize),
    /// Takes a number; if that is 0, or is not, nothing else is asked: it becomes 0 or 1, and another step is
    /// next.
    Decided {
        by_zero: bool,
        next: usize,
    },
    /// 1 for any number but 0.
    Truth,
    Cast(Cast),
    Flags {
        between: String,
        names: Vec<(u64, String)>,
    },
    Symbolic(Vec<(u64, String)>),
    /// `__get_str` and its like: what a dynamic field refers to.
    Dynamic(usize),
    DynamicLen(usize),
    Bitmask(usize),
    /// Bytes and how many of them: in hexadecimal, with spaces between them or not.
    Hex {
        spaced: bool,
    },
    /// Bytes, how many numbers there are, and the bytes of each.
    Array,
}

/// A cast of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cast {
    pub(super) bytes: u8,
    pub(super) signed: bool,
}

/// A whole `print fmt`.
#[derive(Clone, Debug)]
pub(super) struct Print {
    pub(super) format: String,
    pub(super) arguments: Vec<Vec<Step>>,
}
