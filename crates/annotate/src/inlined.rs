//! Calls that the compiler replaced by the body of the called function, as a tree: each with its place in the function that it
//! was inlined into.

use crate::costs::Cost;
use crate::lines::Line;
use serde::Serialize;
use std::collections::HashMap;

/// More calls of one function are not told apart.
const MOST: usize = 1 << 14;

/// A call that was inlined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct InlinedCall {
    /// The inlined call that it is in, by index; `None` for one of the function itself.
    pub parent: Option<u32>,
    /// The called function.
    pub name: String,
    /// The line from which it is called.
    pub from: Option<Line>,
    /// The cost of its instructions, with those of calls inlined into it.
    pub cost: Cost,
}

/// A frame at an address, the way debug information tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) function: Option<u64>,
    pub(crate) is_inlined: bool,
    pub(crate) line: Option<Line>,
}

/// Makes the tree.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) list: Vec<InlinedCall>,
    known: HashMap<(Option<u32>, u64, Option<Line>), u32>,
}

impl Calls {
    /// The innermost call of a chain of frames, the innermost first; names are asked for by the number of a function.
    pub(crate) fn of(&mut self, chain: &[Frame], name: impl Fn(u64) -> String) -> Option<u32> {
        let mut parent = None;
        for pair in chain.windows(2).rev() {
            let (inner, outer) = (pair[0], pair[1]);
            let Some(function) = inner.function.filter(|_| inner.is_inlined) else { continue };
            let key = (parent, function, outer.line);
            let next = self.list.len() as u32;
            if next as usize >= MOST && !self.known.contains_key(&key) {
                break;
            }
            let index = *self.known.entry(key).or_insert(next);
            if index == next {
                let call =
                    InlinedCall { parent, name: name(function), from: outer.line, cost: Cost::default() };
                self.list.push(call);
            }
            parent = Some(index);
        }
        parent
    }

    /// Adds the cost of an instruction of a call to it and to all that it is in.
    pub(crate) fn add(&mut self, call: Option<u32>, cost: Cost) {
        let mut next = call;
        while let Some(call) = next.and_then(|call| self.list.get_mut(call as usize)) {
            call.cost += cost;
            next = call.parent;
        }
    }
}
