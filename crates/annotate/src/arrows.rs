//! Jumps within a function, as lines beside its instructions: from each jump to the instruction that it goes to.

use crate::code::Flow;
use crate::function::Annotated;
use std::collections::BTreeMap;

/// So many lines stand beside each other at most; of jumps for which there is no room, the ends of the longest are left out.
const MOST_LANES: usize = 6;
/// Longer jumps have no line.
const LONGEST: usize = 1024;

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

/// The lines beside the instructions of a function. Each is as wide as the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrows {
    /// The directions in which a line goes on from each cell, instruction by instruction.
    cells: Vec<u8>,
    lanes: usize,
    /// Instructions that are jumped to, and jumps with a line.
    ends: Vec<(bool, bool)>,
    is_ascii: bool,
}

impl Arrows {
    /// Those of a function; of ASCII characters alone, if so.
    pub fn of(code: &Annotated, is_ascii: bool) -> Self {
        let mut by_target: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (from, one) in code.instructions.iter().enumerate() {
            let target = one.target.as_ref().filter(|target| target.flow == Flow::Jump);
            if let Some(to) = target.and_then(|target| target.instruction) {
                by_target.entry(to as usize).or_default().push(from);
            }
        }
        let count = code.instructions.len();
        let ends = code.instructions.iter().map(|one| (one.jumps_here > 0, false)).collect();
        let mut jumps: Vec<(usize, usize, usize, Vec<usize>)> = Vec::new();
        for (to, mut from) in by_target {
            from.retain(|&from| from != to && from.abs_diff(to) <= LONGEST);
            let (Some(&first), Some(&last)) = (from.first(), from.last()) else { continue };
            jumps.push((first.min(to), last.max(to), to, from));
        }
        // Short jumps stand next to the instructions.
        jumps.sort_by_key(|(top, bottom, to, _)| (bottom - top, *to));
        let mut lanes: Vec<Vec<bool>> = Vec::new();
        let mut placed = Vec::new();
        for (top, bottom, to, from) in jumps {
            let free = lanes.iter().position(|taken| !taken[top..=bottom].contains(&true));
            let lane = free.unwrap_or(lanes.len());
            if lane == MOST_LANES {
                continue;
            }
            if lane == lanes.len() {
                lanes.push(vec![false; count]);
            }
            lanes[lane][top..=bottom].fill(true);
            placed.push((lane, top, bottom, to, from));
        }
        let lanes = lanes.len();
        let mut arrows = Arrows { cells: vec![0; count * lanes], lanes, ends, is_ascii };
        for (lane, top, bottom, to, from) in placed {
            arrows.draw(lanes - 1 - lane, (top, bottom), to, &from);
        }
        arrows
    }

    fn draw(&mut self, column: usize, (top, bottom): (usize, usize), to: usize, from: &[usize]) {
        for row in top..=bottom {
            let cell = &mut self.cells[row * self.lanes + column];
            *cell |= if row > top { UP } else { 0 } | if row < bottom { DOWN } else { 0 };
        }
        for &row in from.iter().chain([&to]) {
            self.cells[row * self.lanes + column] |= RIGHT;
            let right = row * self.lanes + column + 1..(row + 1) * self.lanes;
            self.cells[right].iter_mut().for_each(|cell| *cell |= LEFT | RIGHT);
        }
        from.iter().for_each(|&row| self.ends[row].1 = true);
    }

    /// Beside an instruction, by its number: the last character marks those that are jumped to.
    pub fn at(&self, instruction: usize) -> String {
        let cells = &self.cells[instruction * self.lanes..(instruction + 1) * self.lanes];
        let mut text: String = cells.iter().map(|&cell| self.sign(cell)).collect();
        text.push(match self.ends[instruction] {
            (true, _) => '>',
            (_, true) => self.sign(LEFT | RIGHT),
            _ => ' ',
        });
        text
    }

    /// Beside a line that stands above an instruction.
    pub fn above(&self, instruction: usize) -> String {
        let cells = &self.cells[instruction * self.lanes..(instruction + 1) * self.lanes];
        let passing = |cell: &u8| if cell & UP != 0 { self.sign(UP | DOWN) } else { ' ' };
        cells.iter().map(passing).chain([' ']).collect()
    }

    fn sign(&self, cell: u8) -> char {
        let sign = match cell {
            0 => return ' ',
            cell if cell & (UP | DOWN) == 0 => '─',
            cell if cell & (LEFT | RIGHT) == 0 => '│',
            cell => match (cell & UP != 0, cell & DOWN != 0, cell & LEFT != 0) {
                (false, _, false) => '┌',
                (_, false, false) => '└',
                (true, true, false) => '├',
                (false, _, true) => '┬',
                (_, false, true) => '┴',
                (true, true, true) => '┼',
            },
        };
        match (self.is_ascii, sign) {
            (false, sign) => sign,
            (true, '─') => '-',
            (true, '│') => '|',
            (true, _) => '+',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::{Cost, Function};
    use crate::function::{Instruction, Parts, Target, annotate};

    /// A function of so many instructions, some of which jump.
    fn drawn(count: usize, jumps: &[(usize, u32)], is_ascii: bool) -> Vec<String> {
        let mut code = annotate(&Function::default(), &Parts::default());
        for at in 0..count {
            let target = jumps.iter().find(|(from, _)| *from == at).map(|&(_, to)| Target {
                flow: Flow::Jump,
                address: to.into(),
                name: None,
                offset: 0,
                instruction: Some(to),
            });
            code.instructions.push(Instruction {
                address: at as u64,
                bytes: Vec::new(),
                text: String::new(),
                cost: Cost::default(),
                line: None,
                inlined: None,
                target,
                jumps_here: jumps.iter().filter(|(_, to)| *to as usize == at).count() as u32,
            });
        }
        let arrows = Arrows::of(&code, is_ascii);
        (0..count).map(|at| arrows.at(at)).collect()
    }

    #[test]
    fn jumps_are_lines_that_do_not_cross_where_there_is_room() {
        // A loop in a loop, and two jumps to the same place.
        let lines = drawn(8, &[(0, 7), (2, 7), (4, 3), (6, 1)], false);
        assert_eq!(lines, ["┌───", "│┌─>", "├┼──", "││┌>", "││└─", "││  ", "│└──", "└──>"]);
        let lines = drawn(8, &[(0, 7), (2, 7), (4, 3), (6, 1)], true);
        assert_eq!(lines[..4], ["+---", "|+->", "++--", "||+>"]);
    }

    #[test]
    fn there_may_be_more_jumps_than_room() {
        assert_eq!(drawn(2, &[(1, 1)], false), [" ", ">"]);
        let many: Vec<(usize, u32)> = (0..20).map(|at| (at, 39 - at as u32)).collect();
        let lines = drawn(40, &many, false);
        assert!(lines.iter().all(|line| line.chars().count() == MOST_LANES + 1), "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.ends_with('>')).count(), 20);
    }
}
