//! Configuration files of a command-line program: which [keys](Key) there are the program tells; [`parse`] checks one file against
//! them, [`read`] finds the files that hold in a [place](Places).
//!
//! A file is text of the user, or of whoever made the project: it is read to a limit, and a value is a plain text that fits the
//! kind of its key. Nothing here knows what a key does, and nothing reads the environment.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod key;
mod places;

pub use key::{Error, Key, Kind, Setting, parse};
pub use places::{Found, Places, Settings, State, read};
