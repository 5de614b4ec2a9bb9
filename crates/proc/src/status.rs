//! `/proc/PID/status` and its like: a line a field, a colon behind its name.

use std::str::FromStr;

/// The text of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a>(pub &'a str);

impl<'a> Status<'a> {
    /// A field by its name, without the space around it.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// A field that is one number.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.field(name)?.parse().ok()
    }

    /// A field that is a set of bits, in hexadecimal digits: signals (signal 1 is bit 0) and capabilities.
    pub fn set(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.field(name)?, 16).ok()
    }

    /// The words of a field; nothing where it is not told.
    pub fn words(&self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.field(name).unwrap_or_default().split_ascii_whitespace()
    }

    /// The process of a thread.
    pub fn process(&self) -> Option<u32> {
        self.number("Tgid")
    }

    /// The first letter of the state, as `proc(5)` lists them.
    pub fn state(&self) -> Option<char> {
        self.field("State")?.chars().next()
    }

    /// The user whose rights it has.
    pub fn effective_user(&self) -> Option<u32> {
        self.words("Uid").nth(1)?.parse().ok()
    }

    /// The group whose rights it has.
    pub fn effective_group(&self) -> Option<u32> {
        self.words("Gid").nth(1)?.parse().ok()
    }

    /// The number that a process takes for its own, which may be in a pid namespace.
    pub fn innermost_process(&self) -> Option<u32> {
        self.words("NStgid").last()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_whole_names() {
        let text = "Name:\tTgid: 9\nState:\tS (sleeping)\nTgid:\t71\nNStgid:\t71\t3\nUid:\t0\t1000\t0\t0\n\
                    SigIgn:\t0000000000001001\n";
        let status = Status(text);
        assert_eq!(
            (status.process(), status.state(), status.innermost_process()),
            (Some(71), Some('S'), Some(3))
        );
        assert_eq!((status.effective_user(), status.effective_group()), (Some(1000), None));
        assert_eq!(
            (status.set("SigIgn"), status.set("Sig"), status.field("Name")),
            (Some(0x1001), None, Some("Tgid: 9"))
        );
        assert_eq!(status.words("Groups").count(), 0);
    }
}
