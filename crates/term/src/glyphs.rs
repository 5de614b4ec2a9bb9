//! Characters that not every terminal has, and what stands for them where the locale is not of UTF-8.

use super::foreign::cut;

/// Signs of a locale.
#[derive(Debug, PartialEq, Eq)]
pub struct Glyphs {
    /// Stands between parts of a line.
    pub dot: &'static str,
    /// Stands where there is no value.
    pub none: &'static str,
    /// Begins a remark.
    pub warning: &'static str,
    /// Names a standard deviation.
    pub sigma: &'static str,
    /// Marks a value that is of a part alone.
    pub part: &'static str,
    /// Begins what would help.
    pub arrow: &'static str,
    /// Ends a text that was cut off.
    pub ellipsis: &'static str,
    /// A bar chart's, from low to high.
    pub bars: &'static [char],
    /// The unit.
    pub micro_second: &'static str,
}

/// For UTF-8 locales.
pub const UNICODE: Glyphs = Glyphs {
    dot: "·",
    none: "—",
    warning: "▲",
    sigma: "σ",
    part: "▒",
    arrow: "→",
    ellipsis: "…",
    bars: &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
    micro_second: "µs",
};

/// For all others.
pub const ASCII: Glyphs = Glyphs {
    dot: "-",
    none: "-",
    warning: "!",
    sigma: "sd",
    part: "*",
    arrow: "->",
    ellipsis: "...",
    bars: &['.', ':', '|', '#'],
    micro_second: "us",
};

impl Glyphs {
    /// Replaces what the locale has no character for.
    pub fn text(&self, text: &str) -> String {
        if *self == UNICODE {
            return text.to_owned();
        }
        let mut plain = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '✓' => plain.push_str("ok"),
                '▲' => plain.push_str(" !"),
                '✗' => plain.push_str("NO"),
                '→' => plain.push_str("->"),
                '·' => plain.push('-'),
                '…' => plain.push_str("..."),
                '×' => plain.push('x'),
                '“' | '”' => plain.push('"'),
                c if c.is_ascii() => plain.push(c),
                _ => plain.push('?'),
            }
        }
        plain
    }
}

/// The signs of the locale that `LC_ALL`, `LC_CTYPE` or `LANG` in the environment names.
pub fn of_the_locale() -> &'static Glyphs {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty())
        .map(|value| value.to_string_lossy().to_ascii_lowercase());
    match locale {
        Some(locale) if locale.contains("utf-8") || locale.contains("utf8") => &UNICODE,
        _ => &ASCII,
    }
}

/// Cuts the end of a text off when it is too wide.
pub fn shorten(text: &str, room: usize, glyphs: &Glyphs) -> String {
    cut(text, room, glyphs.ellipsis).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_unicode_nothing_is_lost() {
        assert_eq!(ASCII.text("✗ 516 × 3 → “raise” it …"), "NO 516 x 3 -> \"raise\" it ...");
    }
}
