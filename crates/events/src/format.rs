//! Where the terms of a PMU go in the words of an attr: files such as `format/event` with the text
//! `config:0-7,32-35`.

/// Values for the five config words of an attr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Config {
    /// `config`, `config1`, `config2`, `config3`, `config4`.
    pub words: [u64; 5],
}

/// The names of the words, which are terms too.
pub(crate) const WORDS: [&str; 5] = ["config", "config1", "config2", "config3", "config4"];

/// Which bits of which word a term takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// Index of the config word.
    pub word: usize,
    /// The bits; the term's lowest bit goes to the lowest of them, wherever they are.
    pub mask: u64,
}

impl Format {
    /// Reads a format file's text. `None` if it is not of that form.
    ///
    /// ```
    /// use perfuse_events::{Config, Format};
    /// let format = Format::parse("config:0-7,32-35\n").unwrap();
    /// let mut config = Config::default();
    /// assert!(format.apply(0xfc1, &mut config));
    /// assert_eq!(config.words[0], 0xf_0000_00c1);
    /// assert!(!format.apply(0x1000, &mut config), "a thirteenth bit has no room");
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (word, ranges) = text.trim().split_once(':')?;
        let word = WORDS.iter().position(|name| *name == word)?;
        let mut mask = 0;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last > 63 {
                return None;
            }
            mask |= u64::MAX >> (63 - (last - first)) << first;
        }
        Some(Format { word, mask })
    }

    /// The largest value there is room for.
    pub fn max(&self) -> u64 {
        match self.mask.count_ones() {
            0 => 0,
            bits => u64::MAX >> (64 - bits),
        }
    }

    /// Puts `value` where it belongs. `false`, having changed nothing, if it is larger than
    /// [`max`](Self::max).
    pub fn apply(&self, value: u64, config: &mut Config) -> bool {
        if value > self.max() {
            return false;
        }
        let word = &mut config.words[self.word];
        let mut left = value;
        for bit in (0..64).filter(|bit| self.mask >> bit & 1 == 1) {
            *word = *word & !(1 << bit) | (left & 1) << bit;
            left >>= 1;
        }
        true
    }

    /// The value that stands in these bits.
    pub fn read(&self, config: &Config) -> u64 {
        let bits = (0..64).filter(|bit| self.mask >> bit & 1 == 1);
        bits.enumerate().fold(0, |value, (at, bit)| value | (config.words[self.word] >> bit & 1) << at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_every_word() {
        let format = Format::parse("config3:5").unwrap();
        let mut config = Config::default();
        assert!(format.apply(1, &mut config));
        assert_eq!(config.words, [0, 0, 0, 32, 0]);
        assert_eq!(Format::parse("config:0-63").unwrap().max(), u64::MAX);
        assert_eq!(Format::parse("config4:63").unwrap(), Format { word: 4, mask: 1 << 63 });
        for bad in
            ["", "config", "config5:0", "config0:1", "configx:0", "config:8-4", "config:64", "format:1"]
        {
            assert_eq!(Format::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_lowest_bit_of_all_ranges_comes_first() {
        let format = Format::parse("config1:32-35,0-3").unwrap();
        let mut config = Config { words: [0, u64::MAX, 0, 0, 0] };
        assert!(format.apply(0x5a, &mut config));
        assert_eq!(config.words[1], 0xffff_fff5_ffff_fffa);
        assert_eq!(format.read(&config), 0x5a);
    }
}
