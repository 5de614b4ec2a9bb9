//! Mangled names made readable: Rust (both schemes) and C++. The names come from files that anybody may
//! have made, so neither the time nor the output may run away: both are cut off.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// A longer mangled name is left as it is.
const MAX_INPUT: usize = 32 << 10;
/// A readable name is cut here.
const MAX_OUTPUT: usize = 16 << 10;
/// So many pieces are written at most: names can be made to consist of endless empty pieces.
const MAX_PIECES: usize = 256 << 10;

/// The readable form of a mangled Rust or C++ name, without a Rust name's hash; every other name as it is.
///
/// ```
/// use perfuse_symbols::demangle;
///
/// assert_eq!(demangle("_ZN3std2io5Write9write_all17h0123456789abcdefE"), "std::io::Write::write_all");
/// assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
/// assert_eq!(demangle("_ZNSt6vectorIiSaIiEE9push_backERKi@plt"), "std::vector<int, std::allocator<int> >::push_back(int const&)@plt");
/// assert_eq!(demangle("main"), "main");
/// ```
pub fn demangle<'a>(name: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    let name = name.into();
    match readable(&name) {
        Some(readable) => Cow::Owned(readable),
        None => name,
    }
}

fn readable(name: &str) -> Option<String> {
    if name.len() > MAX_INPUT {
        return None;
    }
    // "@plt" and symbol versions are not part of the name.
    let (mangled, suffix) = name.split_at(name.find('@').unwrap_or(name.len()));
    let mut readable = rust(mangled).or_else(|| cpp(mangled))?;
    readable.push_str(suffix);
    Some(readable)
}

fn rust(name: &str) -> Option<String> {
    if !name.starts_with("_R") && !is_legacy_rust(name) {
        return None;
    }
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    Bounded::default().write(|output| write!(output, "{demangled:#}"))
}

/// Legacy Rust names are C++ names that end in a hash: "17h", 16 digits, "E". After a dot may follow what
/// the compiler added, as in ".llvm.1234".
fn is_legacy_rust(name: &str) -> bool {
    let Some((_, hash)) = name.rsplit_once("17h").filter(|_| name.starts_with("_ZN")) else { return false };
    let (digits, end) = hash.split_at_checked(16).unwrap_or(("", ""));
    let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits.len() == 16 && digits.bytes().all(hexadecimal) && (end == "E" || end.starts_with("E."))
}

fn cpp(name: &str) -> Option<String> {
    if !(name.starts_with("_Z") || name.starts_with("___Z")) {
        return None;
    }
    // A panic in the library must not be the end of a report; there is none known.
    std::panic::catch_unwind(|| {
        let symbol = cpp_demangle::Symbol::new(name).ok()?;
        let options = cpp_demangle::DemangleOptions::new();
        Bounded::default().write(|output| symbol.structured_demangle(output, &options))
    })
    .ok()?
}

/// Takes text up to a limit, then refuses more.
#[derive(Default)]
struct Bounded {
    text: String,
    pieces: usize,
    cut: bool,
}

impl Bounded {
    /// What `write` has written; the beginning, marked, if it was too long.
    fn write(mut self, write: impl FnOnce(&mut Self) -> fmt::Result) -> Option<String> {
        match write(&mut self) {
            Ok(()) => Some(self.text),
            Err(_) if self.cut => Some(self.text + "..."),
            Err(_) => None,
        }
    }
}

impl Write for Bounded {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.pieces += 1;
        if self.pieces > MAX_PIECES || self.text.len() + piece.len() > MAX_OUTPUT {
            let room = MAX_OUTPUT - self.text.len();
            let end = (0..=room.min(piece.len())).rev().find(|&end| piece.is_char_boundary(end));
            self.text.push_str(&piece[..end.unwrap_or(0)]);
            self.cut = true;
            return Err(fmt::Error);
        }
        self.text.push_str(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_both_languages() {
        for (mangled, expected) in [
            ("_ZN4core3fmt9Formatter3pad17h4ad1bd4ff1a4fcfbE", "core::fmt::Formatter::pad"),
            ("_ZN4core3fmt9Formatter3pad17h4ad1bd4ff1a4fcfbE.llvm.12345", "core::fmt::Formatter::pad"),
            (
                "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h0123456789abcdefE",
                "<Test + 'static as foo::Bar<Test>>::bar",
            ),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("_ZN3foo3barEv", "foo::bar()"),
            ("_ZN3foo3barEv.cold", "foo::bar() [clone .cold]"),
            ("_ZNK5boost10shared_ptrI3FooEptEv", "boost::shared_ptr<Foo>::operator->() const"),
            ("_ZN3foo3barEv@@VERSION_1", "foo::bar()@@VERSION_1"),
        ] {
            assert_eq!(demangle(mangled), expected);
        }
    }

    #[test]
    fn everything_else_stays() {
        for name in
            ["", "_", "_Z", "_R", "main", "_Zx", "__libc_start_main", "malloc@plt", "do_syscall_64", "é_Z"]
        {
            assert_eq!(demangle(name), name);
        }
    }

    #[test]
    fn output_is_bounded() {
        // Each S_ stands for everything before it, so the readable name doubles with each.
        let doubling = format!("_Z1fI1aE{}", (0..40).map(|_| "1bIS_S_E").collect::<String>());
        let nested = format!("_Z1f{}i{}", "1aI".repeat(2000), "E".repeat(2000));
        let mut pairs = "1a".to_string();
        (0..30).for_each(|_| pairs = format!("1pI{pairs}S_E"));
        for name in [doubling, nested, format!("_Z1f{pairs}"), format!("_Z{}", "N".repeat(30_000))] {
            assert!(demangle(name.as_str()).len() <= MAX_INPUT + MAX_OUTPUT);
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(name in "_(Z|ZN|R|RNv)[a-zA-Z0-9_$.]{0,60}") {
            let _ = demangle(name.as_str());
        }
    }
}
