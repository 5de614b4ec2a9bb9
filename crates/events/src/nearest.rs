//! "Did you mean": the known names closest to a wrong one.

use alloc::string::String;
use alloc::vec::Vec;

/// How many names are offered.
const OFFERED: usize = 3;

/// The names closest to `wrong`, best first, at most three, none that is far away. A name that `wrong`
/// is a substantial part of counts as close.
///
/// ```
/// assert_eq!(perfuse_events::nearest("cyclse", ["cycles", "faults"]), ["cycles"]);
/// ```
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wrong = wrong.to_ascii_lowercase();
    let limit = (wrong.chars().count() / 3).clamp(1, 4);
    let known: Vec<&str> = known.into_iter().collect();
    let near = |name: &'a str| {
        let lower = name.to_ascii_lowercase();
        let whole = distance(&wrong, &lower);
        let part = wrong.len() >= 4 && lower.contains(&wrong);
        let rank = if whole <= limit { whole } else { limit + 1 };
        (whole <= limit || part).then_some((rank, name))
    };
    let mut close: Vec<(usize, &str)> = known.iter().copied().filter_map(near).collect();
    if close.is_empty() {
        close = known.into_iter().filter(|name| begins(&wrong, name)).map(|name| (0, name)).collect();
    }
    close.sort_by_key(|&(distance, name)| (distance, name.len()));
    close.dedup_by_key(|&mut (_, name)| name);
    close.into_iter().take(OFFERED).map(|(_, name)| name.into()).collect()
}

/// Whether a name may begin with the wrong one, but for one letter.
fn begins(wrong: &str, name: &str) -> bool {
    let long = wrong.chars().count();
    let begun = |long| name.chars().take(long).flat_map(char::to_lowercase).collect::<String>();
    long >= 5 && (long - 1..=long + 1).any(|long| distance(wrong, &begun(long)) <= 1)
}

/// Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    // Three rows of the table: before the last, last, current.
    let mut older = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut left = None;
    for (i, c) in a.chars().enumerate() {
        let mut row = alloc::vec![i + 1];
        for (j, &d) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(c != d)).min(last[j + 1] + 1).min(row[j] + 1);
            if j > 0 && left == Some(d) && b[j - 1] == c {
                best = best.min(older_at(&older, j - 1) + 1);
            }
            row.push(best);
        }
        left = Some(c);
        older = core::mem::replace(&mut last, row);
    }
    last[b.len()]
}

fn older_at(row: &[usize], at: usize) -> usize {
    row.get(at).copied().unwrap_or(usize::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("cyclez", "cycles"), 1);
        assert_eq!(distance("ccyles", "cycles"), 1);
        assert_eq!(distance("instrutions", "instructions"), 1);
        assert_eq!(distance("abcd", "badc"), 2);
    }

    #[test]
    fn close_names_only() {
        let known = ["cycles", "cpu-cycles", "ref-cycles", "cs", "page-faults", "faults"];
        assert_eq!(nearest("cyclse", known), ["cycles"]);
        assert_eq!(nearest("fault", known), ["faults", "page-faults"]);
        assert!(nearest("quux", known).is_empty());
        // Where nothing else is close: what begins so.
        assert_eq!(nearest("cycel", known), ["cycles"]);
        assert_eq!(nearest("contxt", ["cs", "context-switches"]), ["context-switches"]);
    }
}
