//! A flame graph as one SVG file: callers below their callees, as wide as their weights. It needs nothing from elsewhere, is
//! readable in light and dark, and its small script zooms and searches; without scripts it is a picture with tooltips.

use crate::looks::{Colour, visible};
use crate::stacks::Stacks;
use crate::tree::Tree;
use std::fmt;
use std::io::{self, Write};

const WIDTH: f64 = 1200.0;
const ROW: usize = 17;
const HEAD: usize = 42;
const FOOT: usize = 10;
/// Narrower frames are not drawn; they are part of their callers all the same.
const NARROWEST: f64 = 0.1;
/// About the width of a letter.
const LETTER: f64 = 7.0;

const STYLE: &str = "text{font:12px ui-monospace,monospace;fill:#111}rect.b{fill:#fff}g.f{cursor:pointer}g.f:hover rect{stroke:#000}\
g.outer{opacity:.5}g.hit rect{fill:#c4f!important}.a{cursor:pointer;text-decoration:underline}\
@media(prefers-color-scheme:dark){rect.b{fill:#16181d}text.t{fill:#ddd}g.f:hover rect{stroke:#fff}}";

/// A text in which all is escaped that XML wants, and what it cannot have is replaced.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                    f.write_str("\u{fffd}")?
                }
                _ => write!(f, "{letter}")?,
            }
        }
        Ok(())
    }
}

/// Draws the first event, without what is below so many percent.
pub(crate) fn write(stacks: &Stacks, title: &str, least_percent: f64, to: &mut dyn Write) -> io::Result<()> {
    let tree = Tree::new(stacks, 0);
    let event = stacks.events().first().map_or("", |event| event.name.as_str());
    let (title, total) = (Escaped(title), tree.total.max(1) as f64);
    let height = HEAD + FOOT + (tree.depth + 1) * ROW;
    writeln!(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" data-width=\"{WIDTH}\">"
    )?;
    writeln!(to, "<title>{title}</title><style>{STYLE}</style>")?;
    writeln!(to, "<rect class=\"b\" width=\"100%\" height=\"100%\"/>")?;
    let (samples, weight) = (tree.samples, tree.total);
    writeln!(
        to,
        "<text class=\"t\" x=\"8\" y=\"18\">{title}: {}, {samples} samples, {weight} in all</text>",
        Escaped(event)
    )?;
    writeln!(
        to,
        "<text class=\"t a\" id=\"reset\" x=\"8\" y=\"35\">all</text><text class=\"t a\" id=\"search\" x=\"44\" y=\"35\">search</text><text class=\"t\" id=\"found\" x=\"108\" y=\"35\"></text>"
    )?;
    let mut frame = |name: &str, object: &str, depth: usize, start: u64, weight: u64, samples: u64| {
        let (x, width) = (start as f64 * WIDTH / total, weight as f64 * WIDTH / total);
        let share = 100.0 * weight as f64 / total;
        if width < NARROWEST || share < least_percent {
            return Ok(());
        }
        let y = HEAD + (tree.depth - depth) * ROW;
        let (colour, name) = (Colour::of(name, object), visible(name));
        let of = if object.is_empty() { String::new() } else { format!(" in {object}") };
        let (label, tip, data) =
            (Escaped(&shortened(&name, width)).to_string(), Escaped(&of), Escaped(&name));
        writeln!(
            to,
            "<g class=\"f\" data-x=\"{x:.4}\" data-w=\"{width:.4}\" data-d=\"{depth}\" data-n=\"{data}\"><title>{data}{tip}: {samples} samples, {share:.2} %</title><rect x=\"{x:.4}\" y=\"{y}\" width=\"{width:.4}\" height=\"{}\" rx=\"1\" fill=\"{colour}\"/><text x=\"{:.4}\" y=\"{}\">{label}</text></g>",
            ROW - 1,
            x + 3.0,
            y + 12
        )
    };
    frame("all", "", 0, 0, tree.total, tree.samples)?;
    for node in &tree.nodes {
        frame(&node.name, &node.object, node.depth + 1, node.start, node.weight, node.samples)?;
    }
    writeln!(to, "<script><![CDATA[\n{}]]></script>\n</svg>", include_str!("flamegraph.js"))
}

/// As much of a name as fits.
fn shortened(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / LETTER).max(0.0) as usize;
    match name.chars().count() {
        _ if room < 3 => String::new(),
        length if length > room => name.chars().take(room - 2).chain("..".chars()).collect(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_an_attribute_or_an_element() {
        let escaped = Escaped("a\"b'c<d>&\u{1}\u{ffff}é").to_string();
        assert_eq!(escaped, "a&quot;b&#39;c&lt;d&gt;&amp;\u{fffd}\u{fffd}é");
    }
}
