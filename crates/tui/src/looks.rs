//! The looks of pages: colours as far as the terminal has them, and other characters than ASCII where it shows them.

use perfuse_export::Colour;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// The colours that a terminal has, and is wished to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Colours {
    /// None: bold, dim and reversed text tell all.
    #[default]
    None,
    /// The sixteen whose tones the user of the terminal has chosen, for a light or a dark ground.
    Sixteen,
    /// The 256 of xterm.
    Many,
    /// Each by red, green and blue.
    True,
}

/// The looks of pages. Unless told, there are no colours, and all characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Looks {
    /// The colours.
    pub colours: Colours,
    /// ASCII alone.
    pub is_ascii: bool,
}

impl Looks {
    /// With these colours, and ASCII alone if so.
    pub fn new(colours: Colours, is_ascii: bool) -> Self {
        Looks { colours, is_ascii }
    }

    /// A share in percent, in perf's colours: red from 5 % on, green from a half.
    pub(crate) fn share(self, percent: f64) -> Style {
        match self.colours {
            Colours::None if percent >= 5.0 => Style::new().add_modifier(Modifier::BOLD),
            Colours::None => Style::new(),
            _ if percent >= 5.0 => Style::new().fg(Color::Red),
            _ if percent >= 0.5 => Style::new().fg(Color::Green),
            _ => Style::new(),
        }
    }

    /// A function in a flame graph.
    pub(crate) fn flame(self, name: &str, object: &str) -> Style {
        let colour = Colour::of(name, object);
        let ground = match self.colours {
            Colours::None => return Style::new().add_modifier(Modifier::REVERSED),
            Colours::Sixteen if colour.hue >= 200 => {
                [Color::Cyan, Color::LightCyan][usize::from(colour.hue) % 2]
            }
            Colours::Sixteen => {
                [Color::Yellow, Color::LightYellow, Color::LightRed][usize::from(colour.hue) % 3]
            }
            Colours::Many => {
                let [red, green, blue] = rgb(colour).map(|part| (u16::from(part) * 5 + 127) / 255);
                Color::Indexed((16 + 36 * red + 6 * green + blue) as u8)
            }
            Colours::True => {
                let [red, green, blue] = rgb(colour);
                Color::Rgb(red, green, blue)
            }
        };
        Style::new().fg(Color::Black).bg(ground)
    }

    /// Puts ASCII in place of all other characters, if that is wished.
    pub(crate) fn settle(self, area: Rect, cells: &mut Buffer) {
        if !self.is_ascii {
            return;
        }
        for position in area.intersection(cells.area).positions() {
            let cell = &mut cells[position];
            if !cell.symbol().is_ascii() {
                let plain = cell.symbol().chars().next().map_or(' ', plain);
                cell.set_char(plain);
            }
        }
    }
}

/// A colour of flame graphs, whose saturation is 75 %, as red, green and blue.
fn rgb(colour: Colour) -> [u8; 3] {
    let light = f64::from(colour.light) / 100.0;
    let reach = 0.75 * light.min(1.0 - light);
    [0.0, 8.0, 4.0].map(|shift| {
        let at = (shift + f64::from(colour.hue) / 30.0) % 12.0;
        let part = light - reach * (at - 3.0).min(9.0 - at).clamp(-1.0, 1.0);
        (part * 255.0).round() as u8
    })
}

/// A character of ASCII that says about the same.
fn plain(character: char) -> char {
    match character {
        '▁' | '▂' => '.',
        '▃' | '▄' => ':',
        '▏' | '│' | '▅' | '▆' => '|',
        '▇' | '█' => '#',
        '▸' | '┌' | '└' | '├' | '┼' => '+',
        '▾' | '·' | '─' | '—' => '-',
        '…' => '~',
        '•' => '*',
        '←' => '<',
        '→' => '>',
        '↑' => '^',
        '↓' => 'v',
        'µ' => 'u',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_stands_for_all_other_characters() {
        let area = Rect::new(0, 0, 8, 1);
        let mut cells = Buffer::empty(area);
        cells.set_string(0, 0, "▸ a…漢é", Style::new());
        Looks::new(Colours::None, true).settle(area, &mut cells);
        let line: String = (0..8).map(|x| cells[(x, 0)].symbol()).collect();
        assert_eq!(line, "+ a~? ? ");
    }

    #[test]
    fn flames_have_the_colours_that_the_terminal_has() {
        let [none, few, many, all] = [Colours::None, Colours::Sixteen, Colours::Many, Colours::True]
            .map(|colours| Looks::new(colours, false));
        assert_eq!(none.flame("f", "prog").bg, None);
        assert!(matches!(few.flame("f", "[kernel.kallsyms]").bg, Some(Color::Cyan | Color::LightCyan)));
        assert!(matches!(many.flame("f", "prog").bg, Some(Color::Indexed(16..=231))));
        // Warm: more red than blue.
        assert!(matches!(all.flame("f", "prog").bg, Some(Color::Rgb(red, _, blue)) if red > blue));
    }
}
