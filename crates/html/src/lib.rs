#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`Page`] takes a profile, its frames and the facts of its recording, and writes the page: `tables` makes the tables of a
//! profile, `lines` those of source lines, `numbers` packs them, and the page's own files in `page/` follow: `page.html` and
//! `page.css`; `data.js`, which takes the tables apart, and `model.js` with all sums, which know no document; a script for each
//! part of the page; `page.js`, which puts them together. They are plain scripts, to be run in this order, whose types are in
//! comments and `page.d.ts`; `tsc -p crates/html/src/page` checks them.
#![forbid(unsafe_code)]

mod lines;
mod numbers;
mod page;
mod tables;

pub use page::Page;

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Page<'static>>();
    }
}
