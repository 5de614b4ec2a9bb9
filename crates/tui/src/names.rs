//! Names as pages show them.

use perfuse_profile::{FrameId, Frames};
use perfuse_term::foreign::foreign;
pub(crate) use perfuse_term::names::fit;

/// The name of a frame's function, or its address, and of its object, harmless on a terminal.
pub(crate) fn frame_name(frames: &Frames, frame: FrameId) -> (String, String) {
    let of = frames.get(frame);
    let name = match &of.symbol {
        Some(name) => foreign(name.as_ref()).into_owned(),
        None => format!("{:#x}", of.address),
    };
    (name, foreign(frames.short_object(of.object)).into_owned())
}

/// Whether a text has another in it, in small letters or large ones.
pub(crate) fn has(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}
