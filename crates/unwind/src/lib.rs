#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod code;
mod frame_pointers;
mod objects;
mod recording;
mod registers;
mod rules;
mod running;
mod stack;
mod tables;
mod unwinder;

pub use code::caller_by_code;
pub use frame_pointers::FramePointers;
pub use recording::{Recording, Sums};
pub use registers::Registers;
pub use running::{RunningFrame, RunningStacks};
pub use stack::{End, Stack};
pub use tables::Tables;
pub use unwinder::Unwinder;

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Unwinder>();
        is_shared::<crate::Tables>();
        is_shared::<crate::Registers>();
    }
}
