#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`watch`] turns a recording that goes on into [`Window`]s. A [`Subject`] is a profile as the pages show it, [`State`] the
//! place where somebody is in it: it takes keys and draws into a buffer of cells, and knows no terminal. [`browse`] and
//! [`follow`] are the loops around it. [`browse_events`] is another screen: the events of the machine.
#![forbid(unsafe_code)]

mod choose;
mod code;
mod events;
mod find;
mod format;
mod keys;
mod live;
mod looks;
mod mouse;
mod names;
mod output;
mod page;
mod pages;
mod screen;
mod state;
mod subject;
mod time;
mod tree;

pub use code::CodeOf;
pub use events::browse_events;
pub use format::Shown;
pub use live::{Next, Window, Windows, watch};
pub use looks::{Colours, Looks};
pub use page::Page;
pub use ratatui;
pub use screen::{Loading, ShowCode, browse, follow};
pub use state::{Deed, Span, State};
pub use subject::{Row, RowOrder, Subject, Tables};
pub use time::{Choice, Lane};
