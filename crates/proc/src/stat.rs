//! `/proc/PID/stat`, and that of a thread.

/// A line of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat<'a> {
    /// The name, which may contain anything, brackets too.
    pub name: &'a [u8],
    /// The fields behind the name.
    rest: &'a str,
}

impl<'a> Stat<'a> {
    /// All of the file.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let open = text.iter().position(|&byte| byte == b'(')?;
        let close = text.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?.trim();
        (!rest.is_empty()).then_some(Stat { name: text.get(open + 1..close)?, rest })
    }

    /// The state as a letter: `R` runs or could, `S` sleeps, `Z` has ended and not been waited for, ... as `proc(5)` lists.
    pub fn state(&self) -> char {
        self.rest.chars().next().unwrap_or(' ')
    }

    /// Whether it runs, or waits for a cpu.
    pub fn is_runnable(&self) -> bool {
        self.state() == 'R'
    }

    /// Whether it has ended, though it may not have been waited for.
    pub fn is_dead(&self) -> bool {
        matches!(self.state(), 'Z' | 'X' | 'x')
    }

    /// The process that it is a child of; 0 for none that can be seen.
    pub fn parent(&self) -> Option<u32> {
        self.fields().nth(1)?.parse().ok()
    }

    /// The fields from the third of `proc(5)` on, the state.
    pub fn fields(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.rest.split_ascii_whitespace()
    }

    /// A field by its number in `proc(5)`, from 3 on.
    pub fn number(&self, field: usize) -> Option<u64> {
        self.fields().nth(field.checked_sub(3)?)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = Stat::parse(b"12 (a) R 9 (b) Z 7 12 12 0 -1 4194304 55\n").expect("a line");
        assert_eq!((stat.name, stat.state(), stat.parent()), (&b"a) R 9 (b"[..], 'Z', Some(7)));
        assert!(stat.is_dead() && !stat.is_runnable());
        assert_eq!(
            (stat.number(4), stat.number(10), stat.number(11), stat.number(2)),
            (Some(7), Some(55), None, None)
        );
        for wrong in [&b""[..], b"12 a R", b"12 (a", b"12 )a(", b"12 (a)", b"12 (a) \xff"] {
            assert_eq!(Stat::parse(wrong), None);
        }
    }
}
