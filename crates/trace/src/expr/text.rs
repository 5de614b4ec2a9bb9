//! Patterns as the kernel's `lib/glob.c` matches them, which ftrace uses: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before what is meant
//! as it stands.

/// Whether a whole text matches. Goes back to the last `*` only, so that it takes no more than the product of both lengths.
pub(super) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        let matched = match pattern.get(p) {
            None if t == text.len() => return true,
            None => None,
            Some(b'*') => {
                p += 1;
                back = Some((p, t));
                continue;
            }
            Some(_) => text.get(t).and_then(|&c| one(&pattern[p..], c)),
        };
        match (matched, &mut back) {
            (Some(length), _) => {
                p += length;
                t += 1;
            }
            (None, Some((after, from))) if *from < text.len() => {
                *from += 1;
                (p, t) = (*after, *from);
            }
            _ => return false,
        }
    }
}

/// Whether a byte is what a pattern begins with, and how long that is.
fn one(pattern: &[u8], c: u8) -> Option<usize> {
    match pattern[0] {
        b'?' => Some(1),
        b'\\' if pattern.len() > 1 => (pattern[1] == c).then_some(2),
        b'[' => match class(pattern, c) {
            Some((is_in, length)) => is_in.then_some(length),
            // It is never closed: a bracket.
            None => (c == b'[').then_some(1),
        },
        literal => (literal == c).then_some(1),
    }
}

/// Whether a byte is in a class, and how long that is; `None` if it is never closed.
fn class(pattern: &[u8], c: u8) -> Option<(bool, usize)> {
    let is_turned = pattern.get(1) == Some(&b'!');
    let mut at = 1 + usize::from(is_turned);
    let mut is_in = false;
    let mut first = *pattern.get(at)?;
    loop {
        at += 1;
        let mut last = first;
        if pattern.get(at) == Some(&b'-') && pattern.get(at + 1).is_some_and(|&next| next != b']') {
            last = pattern[at + 1];
            at += 2;
        }
        is_in |= (first..=last).contains(&c);
        first = *pattern.get(at)?;
        if first == b']' {
            return Some((is_in != is_turned, at + 1));
        }
    }
}

/// A pattern in which the kernel, too, sees one. Of those that begin with `*` and have no other sign, it looks for the rest at the end of
/// the field's memory, not at that of its text; and one that begins with a digit it takes for a text.
pub(super) fn for_the_kernel(pattern: &str) -> String {
    let (not, rest) = pattern.strip_prefix('!').map_or(("", pattern), |rest| ("!", rest));
    if rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains(['*', '?', '[', '\\']) {
        return format!("{not}\\{rest}");
    }
    match (rest.strip_prefix('*'), rest.char_indices().next_back()) {
        (Some(end), Some((last, _))) if !end.is_empty() && !end.contains(['*', '?', '[', '\\']) => {
            format!("{not}{}\\{}", &rest[..last], &rest[last..])
        }
        _ => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_the_kernel() {
        for (pattern, text, is) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*b*", "abc", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcd", false),
            ("?b?", "abc", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[a-]", "-", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\", "\\", true),
            ("*ab", "aab", true),
            ("[", "[", true),
            ("[!", "[!", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), is, "{pattern} {text}");
        }
        let many = "a*".repeat(200) + "b";
        assert!(!glob(many.as_bytes(), "a".repeat(400).as_bytes()));
    }

    #[test]
    fn the_kernel_gets_patterns_that_it_understands() {
        for (pattern, told) in [
            ("*sh", "*s\\h"),
            ("sh*", "sh*"),
            ("*sh*", "*sh*"),
            ("*s?h", "*s?h"),
            ("9*", "\\9*"),
            ("9", "9"),
            ("!*sh", "!*s\\h"),
            ("*", "*"),
        ] {
            assert_eq!(for_the_kernel(pattern), told);
        }
    }
}
