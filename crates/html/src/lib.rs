#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`Page`] takes a profile, its frames and the facts of its recording, and writes the page: `tables` makes the tables of a
//! profile, `numbers` packs them, and the page's own files follow: `page.html` and `page.css`, `model.js` with all sums, which
//! knows no document, and `page.js`, which draws them.
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
