//! Kernel releases, and the tables that tell in which one a part of the ABI appeared.

use core::fmt;

/// A Linux release, such as 6.13. Ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number; tells the releases of the 2.6 years apart, otherwise a stable update.
    pub patch: u16,
}

impl Release {
    /// Release `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Release { major, minor, patch: 0 }
    }

    /// Release 2.6.`patch`.
    pub const fn v2_6(patch: u16) -> Self {
        Release { major: 2, minor: 6, patch }
    }

    /// Reads the numbers at the start of a `uname -r` string such as `6.1.0-13-amd64` or `7.3~rc7`.
    ///
    /// ```
    /// use perfuse_abi::Release;
    /// assert!(Release::parse("6.18.44-fc").unwrap() > Release::new(6, 13));
    /// assert_eq!(Release::parse("plan9"), None);
    /// ```
    pub fn parse(uname_release: &str) -> Option<Self> {
        let mut numbers =
            uname_release.split(|c: char| !c.is_ascii_digit()).map_while(|digits| digits.parse::<u16>().ok());
        let (major, minor) = (numbers.next()?, numbers.next()?);
        let dots = uname_release.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.');
        let patch = if dots.filter(|b| *b == b'.').count() >= 2 { numbers.next().unwrap_or(0) } else { 0 };
        Some(Release { major, minor, patch })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch != 0 { write!(f, ".{}", self.patch) } else { Ok(()) }
    }
}

/// One part of the ABI and the release that brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since<T> {
    /// The part: one flag, usually.
    pub what: T,
    /// The first release that knows it.
    pub since: Release,
}

#[cfg(test)]
mod tests {
    use super::Release;

    #[test]
    fn uname_strings_of_many_kinds() {
        let parse = |s| Release::parse(s).unwrap();
        assert_eq!(parse("6.1.0-13-amd64"), Release::new(6, 1));
        assert_eq!(parse("2.6.32-754.el6"), Release::v2_6(32));
        assert_eq!(parse("7.3~rc7"), Release::new(7, 3));
        assert_eq!(parse("6.18-rc2+"), Release::new(6, 18));
        assert_eq!(parse("6.18.44-fc").patch, 44);
        assert_eq!(Release::parse(""), None);
        assert_eq!(Release::parse("6"), None);
        assert!(Release::v2_6(39) < Release::new(3, 0));
    }
}
