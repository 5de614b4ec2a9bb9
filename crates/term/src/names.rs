//! Names of functions, shortened so that the part that tells them apart remains.

use crate::foreign::{cut, width};

/// A name in so many columns: arguments of templates and functions are left out first, the innermost before the outer ones, then
/// the outermost namespaces; what is still too long is cut at its end.
pub fn fit(name: &str, columns: usize) -> String {
    if width(name) <= columns {
        return name.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let groups = groups(name);
    let deepest = groups.iter().map(|group| group.depth).max().unwrap_or(0);
    let mut short = name.to_owned();
    for depth in (1..=deepest).rev() {
        short = without(name, &groups, depth);
        if width(&short) <= columns {
            return short;
        }
    }
    let mut rest = short.as_str();
    while let Some(end) = first_part(rest) {
        rest = &rest[end..];
        if width(rest) < columns {
            return format!("…{rest}");
        }
    }
    cut(if rest.len() < short.len() { rest } else { &short }, columns, "…").into_owned()
}

/// The place of arguments in a name, between their brackets.
struct Group {
    start: usize,
    end: usize,
    /// How many brackets are around them, their own counted.
    depth: usize,
}

/// The arguments in a name, in the order in which they begin. Brackets of operators are none.
fn groups(name: &str) -> Vec<Group> {
    let (mut groups, mut open): (Vec<Group>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(letter) = name[at..].chars().next() {
        if let Some(rest) = name[at..].strip_prefix("operator") {
            let sign = |letter: char| "<>=-()[]!+*/&|^~%".contains(letter);
            let signs = rest.trim_start_matches(' ');
            // What comes behind the sign of an operator are arguments again.
            let known = ["<=>", "<<=", ">>=", "<<", ">>", "<=", ">=", "->*", "->", "()", "<", ">"];
            if rest.starts_with(sign) {
                let sign = known.iter().find(|sign| signs.starts_with(**sign));
                at += "operator".len() + (rest.len() - signs.len()) + sign.map_or(0, |sign| sign.len());
                continue;
            }
        }
        match letter {
            '<' | '(' => {
                open.push(groups.len());
                groups.push(Group { start: at + 1, end: at + 1, depth: open.len() });
            }
            '>' | ')' if !name[..at].ends_with('-') => {
                if let Some(group) = open.pop() {
                    groups[group].end = at;
                }
            }
            _ => {}
        }
        at += letter.len_utf8();
    }
    // Those that never end go on to the end.
    open.into_iter().for_each(|group| groups[group].end = name.len());
    groups
}

/// The name without the arguments that have so many brackets around them.
fn without(name: &str, groups: &[Group], depth: usize) -> String {
    let (mut short, mut at) = (String::with_capacity(name.len()), 0);
    for group in groups.iter().filter(|group| group.depth == depth && group.end > group.start) {
        short += &name[at..group.start];
        short.push('…');
        at = group.end;
    }
    short + &name[at..]
}

/// Where the outermost namespace of a name ends.
fn first_part(name: &str) -> Option<usize> {
    let groups = groups(name);
    let is_outside = |at: &usize| !groups.iter().any(|group| (group.start..group.end).contains(at));
    name.match_indices("::").map(|(at, _)| at).filter(|&at| at > 0).find(is_outside).map(|at| {
        // The names behind are parts of it, not the marks between them.
        at + 2
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_templates_keep_what_tells_them_apart() {
        let string = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
        let insert = format!("Store<{string}, double>::insert");
        assert_eq!(fit(&insert, 200), insert);
        assert_eq!(fit(&insert, 60), "Store<std::__cxx11::basic_string<…>, double>::insert");
        assert_eq!(fit(&insert, 30), "Store<…>::insert");
        let name = format!("std::map<{string}, std::vector<double>>::operator[](int const&)");
        assert_eq!(fit(&name, 40), "std::map<…>::operator[](…)");
        assert_eq!(fit(&name, 21), "…operator[](…)");
        assert_eq!(fit(&name, 8), "operato…");
        assert_eq!(fit("<core::iter::Map<I, F> as core::iter::Iterator>::fold", 20), "<…>::fold");
        assert_eq!(fit("std::operator< <char, std::char_traits<char>, int>", 30), "std::operator< <…>");
        assert_eq!(fit("a::b::operator->(std::pair<int, int>)", 25), "a::b::operator->(…)");
        assert_eq!(fit("a_long_name_of_a_function_in_c", 10), "a_long_na…");
        assert_eq!(fit("漢字漢字漢字", 5), "漢字…");
        for name in
            ["", "<", ">", "operator<", "operator", "a<b", "::", "a::", "x>y::z", "f(g<h(", "operator("]
        {
            for columns in 0..12 {
                assert!(width(&fit(name, columns)) <= columns, "{name} {columns}");
            }
        }
    }
}
