//! The looks of functions in flame graphs: colours, and names that hide nothing.

use std::fmt;

/// The colour of a function, the same everywhere: kernel blue to violet, others warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Colour {
    /// Degrees of the circle of hues.
    pub hue: u16,
    /// Percent of lightness, on a light ground.
    pub light: u8,
}

impl Colour {
    /// That of a function of an object.
    pub fn of(name: &str, object: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let (hue, spread) = if is_kernel(object) { (200, 50) } else { (10, 45) };
        Colour { hue: hue + (hash % spread) as u16, light: 62 + ((hash >> 16) % 12) as u8 }
    }
}

/// As CSS and SVG have it.
impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hsl({} 75% {}%)", self.hue, self.light)
    }
}

/// Whether an object is the kernel or a module of it.
pub fn is_kernel(object: &str) -> bool {
    object.starts_with("[kernel") || object.ends_with(".ko")
}

/// A name in which each character can be seen: those that would turn the direction of writing are shown as such.
pub fn visible(name: &str) -> String {
    let turns = |letter: char| matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    name.chars().map(|letter| if turns(letter) { '\u{fffd}' } else { letter }).collect()
}
