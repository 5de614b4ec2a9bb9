//! The looks of this program's output: text that is harmless on terminals ([`foreign`], of the libraries, and [`out`]), numbers and units
//! ([`number`]), tables and wrapped lines ([`table`]), and what the terminal and the locale can show ([`glyphs`]).

pub(crate) mod glyphs;
pub(crate) mod number;
pub(crate) mod out;
pub(crate) mod table;

pub(crate) use perfuse_data::text as foreign;
use std::os::fd::AsFd;

/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;

/// The columns of a terminal: those that `COLUMNS` in the environment says, those that the terminal says, or 80.
pub(crate) fn columns(terminal: impl AsFd) -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let seen = || rustix::termios::tcgetwinsize(terminal).ok().map(|size| size.ws_col.into());
    told.or_else(seen).filter(|&columns| columns > 0).unwrap_or(COLUMNS)
}
