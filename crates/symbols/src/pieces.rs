//! A table of symbols in pieces by address. Those of a file are read when a piece is wanted first, since a kernel has hundreds
//! of thousands of symbols and a recording few addresses of it.

use crate::numbers::{put, take};
use crate::table::{FoundSymbol, Symbol, SymbolId, SymbolTable};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

/// So many symbols a piece has, or a few more: symbols that lie within others stay with them.
const SYMBOLS: usize = 2048;

/// The pieces by address.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    file: Option<Arc<File>>,
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    /// The address of its first symbol, and the number of that in the whole table.
    first: u64,
    index: u64,
    /// Where it is in the file, and its bytes there.
    place: u64,
    len: usize,
    table: OnceLock<SymbolTable>,
}

impl From<SymbolTable> for Pieces {
    /// One piece, which is there already.
    fn from(table: SymbolTable) -> Self {
        let first = table.iter().next().map_or(0, |symbol| symbol.start);
        Pieces { file: None, pieces: vec![Piece { first, index: 0, place: 0, len: 0, table: table.into() }] }
    }
}

impl Pieces {
    /// The innermost symbol that covers this address.
    pub(crate) fn find(&self, address: u64) -> Option<FoundSymbol<'_>> {
        let piece = self.pieces.partition_point(|piece| piece.first <= address).checked_sub(1)?;
        let piece = &self.pieces[piece];
        let found = self.table(piece).find(address)?;
        Some(FoundSymbol { symbol: piece.numbered(found.symbol), ..found })
    }

    /// The symbol with this number, counted by address.
    pub(crate) fn get(&self, index: u64) -> Option<Symbol<'_>> {
        let piece = self.pieces.partition_point(|piece| piece.index <= index).checked_sub(1)?;
        let piece = &self.pieces[piece];
        let symbol = self.table(piece).get(usize::try_from(index - piece.index).ok()?)?;
        Some(piece.numbered(symbol))
    }

    /// All symbols by address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.pieces
            .iter()
            .flat_map(|piece| self.table(piece).iter().map(move |symbol| piece.numbered(symbol)))
    }

    fn table<'p>(&self, piece: &'p Piece) -> &'p SymbolTable {
        piece.table.get_or_init(|| {
            let read = || {
                let mut bytes = vec![0; piece.len];
                self.file.as_ref()?.read_exact_at(&mut bytes, piece.place).ok()?;
                let mut rest = &bytes[..];
                SymbolTable::decode(&mut rest).filter(|_| rest.is_empty())
            };
            read().unwrap_or_else(|| {
                log::warn!("a part of the kept kernel symbols is damaged, from {:#x} on", piece.first);
                SymbolTable::default()
            })
        })
    }

    /// Puts what tells of the pieces into `index`, and the pieces themselves into `data`.
    pub(crate) fn encode(&self, index: &mut Vec<u8>, data: &mut Vec<u8>) {
        let parts: Vec<SymbolTable> =
            self.pieces.iter().flat_map(|piece| self.table(piece).split(SYMBOLS)).collect();
        put(index, parts.len() as u64);
        let mut number = 0;
        for part in parts {
            let before = data.len();
            part.encode(data);
            put(index, part.iter().next().map_or(0, |symbol| symbol.start));
            put(index, number);
            put(index, (data.len() - before) as u64);
            number += part.len() as u64;
        }
    }

    /// Takes what tells of pieces off the front of `index`; the first is at `place` of the file, which is moved behind the last.
    /// `None` where it tells of none that can be there.
    pub(crate) fn decode(index: &mut &[u8], file: &Arc<File>, place: &mut u64, end: u64) -> Option<Self> {
        let mut pieces: Vec<Piece> = Vec::new();
        for _ in 0..take(index)? {
            let (first, number, len) = (take(index)?, take(index)?, take(index)?);
            let is_next = pieces.last().is_none_or(|last| last.first <= first && last.index <= number);
            let at = *place;
            *place = at.checked_add(len).filter(|&next| is_next && next <= end)?;
            let len = usize::try_from(len).ok()?;
            pieces.push(Piece { first, index: number, place: at, len, table: OnceLock::new() });
        }
        Some(Pieces { file: Some(file.clone()), pieces })
    }
}

impl Piece {
    fn numbered<'s>(&self, symbol: Symbol<'s>) -> Symbol<'s> {
        Symbol { id: SymbolId(self.index + symbol.id.0), ..symbol }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{SymbolBinding, SymbolKind, TableBuilder};
    use proptest::prelude::*;

    fn pieces(tables: Vec<SymbolTable>) -> Pieces {
        let mut pieces = Pieces::default();
        let mut index = 0;
        for table in tables {
            let len = table.len() as u64;
            let piece = Pieces::from(table).pieces.remove(0);
            pieces.pieces.push(Piece { index, ..piece });
            index += len;
        }
        pieces
    }

    proptest! {
        /// However a table is cut, and whatever lies within what, the same is found, by address and by number.
        #[test]
        fn pieces_are_the_whole(symbols in proptest::collection::vec((0u64..400, 0u64..60), 1..60), each in 1usize..20) {
            let mut builder = TableBuilder::default();
            for (number, &(start, size)) in symbols.iter().enumerate() {
                let name = format!("f{number}");
                let kind = SymbolKind::Function;
                builder.push(start, size, name.as_bytes(), SymbolBinding::Global, kind).expect("it takes more");
            }
            let whole = builder.finish(&[]);
            let parts = pieces(whole.split(each));
            for address in 0..500 {
                prop_assert_eq!(parts.find(address), whole.find(address), "{}", address);
            }
            for number in 0..whole.len() {
                prop_assert_eq!(parts.get(number as u64), whole.get(number));
            }
            prop_assert_eq!(parts.iter().collect::<Vec<_>>(), whole.iter().collect::<Vec<_>>());
        }
    }
}
