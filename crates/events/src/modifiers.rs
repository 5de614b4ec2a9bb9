//! The letters after an event: which of them exist, how often each may stand there, and what they do
//! to the bits of an attr.

use crate::spec::{Exclude, Precise};
use alloc::string::String;
use core::fmt;

/// Checked modifier letters, in the order they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modifiers(String);

/// Why letters are no modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModifiersError {
    /// This letter means nothing.
    Unknown(char),
    /// This letter stands there twice.
    Repeated(char),
    /// More than three `p`.
    TooPrecise,
}

/// The modifiers, those with a meaning of their own first, for messages.
pub(crate) const LETTERS: &str =
    "u user, k kernel, h hypervisor, G guest, H host, I not idle, p precise, and P, S, D, e, W, b, R and X";

/// The settings that modifiers change, with the rules for changing them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    pub(crate) exclude: Exclude,
    pub(crate) precise: Precise,
    pub(crate) sample_read: bool,
    pub(crate) pinned: bool,
    pub(crate) exclusive: bool,
    pub(crate) weak: bool,
    pub(crate) retire_latency: bool,
    /// Guest and host were chosen explicitly, so `u` and `p` leave them alone.
    pub(crate) guest_chosen: bool,
}

impl Modifiers {
    /// Checks the letters. The error says which of them, by its byte offset.
    pub fn new(letters: &str) -> Result<Self, (usize, ModifiersError)> {
        for (at, letter) in letters.char_indices() {
            let before = letters[..at].matches(letter).count();
            let error = match letter {
                'p' if before == 3 => ModifiersError::TooPrecise,
                'p' => continue,
                'u' | 'k' | 'h' | 'G' | 'H' | 'I' | 'P' | 'S' | 'D' | 'e' | 'W' | 'b' | 'R' | 'X' => {
                    match before {
                        0 => continue,
                        _ => ModifiersError::Repeated(letter),
                    }
                }
                _ => ModifiersError::Unknown(letter),
            };
            return Err((at, error));
        }
        Ok(Modifiers(letters.into()))
    }

    /// The letters.
    pub fn letters(&self) -> &str {
        &self.0
    }

    /// Changes `effects` as perf does: the first of u, k and h excludes all three levels, then each
    /// letter lets its own back in; G and H likewise. Fails when there would be more than three `p`.
    pub(crate) fn apply(&self, effects: &mut Effects) -> Result<(), ModifiersError> {
        let exclude = &mut effects.exclude;
        let mut levels_chosen = exclude.user || exclude.kernel || exclude.hv;
        for letter in self.0.chars() {
            match letter {
                'u' | 'k' | 'h' => {
                    if !levels_chosen {
                        (exclude.user, exclude.kernel, exclude.hv) = (true, true, true);
                        levels_chosen = true;
                    }
                    match letter {
                        'u' => {
                            exclude.user = false;
                            exclude.guest |= !effects.guest_chosen;
                        }
                        'k' => exclude.kernel = false,
                        _ => exclude.hv = false,
                    }
                }
                'G' | 'H' => {
                    if !effects.guest_chosen {
                        (exclude.guest, exclude.host) = (true, true);
                        effects.guest_chosen = true;
                    }
                    *(if letter == 'G' { &mut exclude.guest } else { &mut exclude.host }) = false;
                }
                'I' => exclude.idle = true,
                'p' => {
                    effects.precise = match effects.precise {
                        Precise::Level(3) => return Err(ModifiersError::TooPrecise),
                        Precise::Level(level) => Precise::Level(level + 1),
                        Precise::Most => Precise::Most,
                    };
                    exclude.guest |= !effects.guest_chosen;
                }
                'P' => effects.precise = Precise::Most,
                'S' => effects.sample_read = true,
                'D' => effects.pinned = true,
                'e' => effects.exclusive = true,
                'W' => effects.weak = true,
                'R' => effects.retire_latency = true,
                // X: groups stay as they were written, which here they always do. b: a way to count, not
                // another count.
                _ => {}
            }
        }
        Ok(())
    }
}

impl fmt::Display for Modifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ModifiersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModifiersError::Unknown(letter) => write!(f, "there is no modifier '{letter}'"),
            ModifiersError::Repeated(letter) => write!(f, "the modifier '{letter}' stands here twice"),
            ModifiersError::TooPrecise => {
                f.write_str("at most three 'p' can be asked for, its group's included")
            }
        }
    }
}
