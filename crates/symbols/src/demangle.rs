//! Mangled names made readable: Rust (both schemes), C++ and D (in [`dlang`]). The names come from files that anybody may
//! have made, so neither the time nor the output may run away: both are cut off.

mod dlang;

use std::borrow::Cow;
use std::fmt::{self, Write};

/// A longer mangled name is left as it is.
const MAX_INPUT: usize = 32 << 10;
/// A readable name is cut here.
const MAX_OUTPUT: usize = 16 << 10;
/// So many pieces are written at most: names can be made to consist of endless empty pieces.
const MAX_PIECES: usize = 256 << 10;

/// How much of a C++ function's type is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Signatures {
    /// The name alone, as perf shows it: `foo::bar`, for parts and copies that the compiler made too.
    #[default]
    Short,
    /// With parameters, what a template returns, and what kind of part or copy it is: `foo::bar(int)`.
    Full,
}

/// The readable form of a mangled Rust, C++ or D name (of D without parameters and template arguments in either form), without a Rust name's hash; every other name as it is.
///
/// ```
/// use perfuse_symbols::{Signatures, demangle};
///
/// let short = |name| demangle(name, Signatures::Short);
/// assert_eq!(short("_ZN3std2io5Write9write_all17h0123456789abcdefE"), "std::io::Write::write_all");
/// assert_eq!(short("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
/// assert_eq!(short("_ZN3foo3barEi@plt"), "foo::bar@plt");
/// assert_eq!(short("main"), "main");
/// assert_eq!(demangle("_ZN3foo3barEi.cold", Signatures::Full), "foo::bar(int) [clone .cold]");
/// ```
pub fn demangle<'a>(name: impl Into<Cow<'a, str>>, signatures: Signatures) -> Cow<'a, str> {
    let name = name.into();
    match readable(&name, signatures) {
        Some(readable) => Cow::Owned(readable),
        None => name,
    }
}

fn readable(name: &str, signatures: Signatures) -> Option<String> {
    if name.len() > MAX_INPUT {
        return None;
    }
    // "@plt" and symbol versions are not part of the name.
    let (mangled, suffix) = name.split_at(name.find('@').unwrap_or(name.len()));
    let other = || cpp(mangled, signatures).or_else(|| dlang::readable(mangled));
    let mut readable = rust(mangled, signatures).or_else(other)?;
    readable.push_str(suffix);
    Some(readable)
}

fn rust(name: &str, signatures: Signatures) -> Option<String> {
    // The compiler has added the part behind a dot, as in ".llvm.1234".
    let end = match name.starts_with("_R") {
        true => name.find('.').unwrap_or(name.len()),
        false => legacy_rust_end(name)?,
    };
    let name = if signatures == Signatures::Short { &name[..end] } else { name };
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    Bounded::default().write(|output| write!(output, "{demangled:#}"))
}

/// Legacy Rust names are C++ names that end in a hash: "17h", 16 digits, "E". Where that end is.
fn legacy_rust_end(name: &str) -> Option<usize> {
    let start = name.rfind("17h").filter(|_| name.starts_with("_ZN"))?;
    let (digits, rest) = name[start + 3..].split_at_checked(16)?;
    let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let ends = rest == "E" || rest.starts_with("E.");
    (ends && digits.bytes().all(hexadecimal)).then_some(start + 3 + 16 + 1)
}

fn cpp(name: &str, signatures: Signatures) -> Option<String> {
    if !(name.starts_with("_Z") || name.starts_with("___Z")) {
        return None;
    }
    if let Some((what, target)) = thunk(name) {
        return Some(format!("{what} to {}", cpp(&target, signatures)?));
    }
    let options = cpp_demangle::DemangleOptions::new();
    let (name, options) = match signatures {
        Signatures::Short => (name.split('.').next().unwrap_or(name), options.no_params().no_return_type()),
        Signatures::Full => (name, options),
    };
    // A panic in the library must not be the end of a report; there is none known.
    std::panic::catch_unwind(|| {
        let symbol = cpp_demangle::Symbol::new(name).ok()?;
        let mut names = Names::default();
        let text = Bounded::default().write(|output| {
            let mut written = Noting { output, names: &mut names };
            symbol.structured_demangle(&mut written, &options)
        })?;
        Some(if signatures == Signatures::Short { names.without_qualifiers(text) } else { text })
    })
    .ok()?
    .map(|name| if name.contains(LITERAL) { literal_operators(&name) } else { name })
    // An empty list of template arguments leaves a comma.
    .map(|name| if name.contains(", >") { name.replace(", >", ">") } else { name })
    .map(|name| {
        if name.contains(['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) { literals(&name) } else { name }
    })
}

/// What the library writes behind the name of an operator for literals of a user, and behind `operator`.
const LITERAL: &str = "::operator \"\"";

/// Operators for literals as C++ writes them: `operator"" _km` for `operator_km::operator ""`.
fn literal_operators(name: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(at) = rest.find(LITERAL) {
        let before = &rest[..at];
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
        let start = before.trim_end_matches(is_part).len();
        match before[start..].strip_prefix("operator") {
            Some(suffix) => {
                out.push_str(&before[..start]);
                out.push_str("operator\"\" ");
                out.push_str(suffix);
            }
            None => out.push_str(&rest[..at + LITERAL.len()]),
        }
        rest = &rest[at + LITERAL.len()..];
    }
    out.push_str(rest);
    out
}

/// Where the name ended that stands in no other: behind it are the qualifiers of the method.
#[derive(Default)]
struct Names {
    depth: usize,
    end: Option<usize>,
}

impl Names {
    /// The text without what a method asks of its object (`const`, `&`), which belongs to its parameters.
    fn without_qualifiers(&self, mut text: String) -> String {
        if let Some(end) = self.end.filter(|&end| text.is_char_boundary(end)) {
            let words = text[end..].split(' ').filter(|word| !word.is_empty());
            if words.into_iter().all(|word| ["const", "volatile", "restrict", "&", "&&"].contains(&word)) {
                text.truncate(end);
            }
        }
        text
    }
}

/// Passes text on, and notes where names end.
struct Noting<'n> {
    output: &'n mut Bounded,
    names: &'n mut Names,
}

impl cpp_demangle::DemangleWrite for Noting<'_> {
    fn push_demangle_node(&mut self, _: cpp_demangle::DemangleNodeType) {
        self.names.depth += 1;
    }

    fn pop_demangle_node(&mut self) {
        self.names.depth = self.names.depth.saturating_sub(1);
        if self.names.depth == 0 {
            self.names.end = Some(self.output.text.len());
        }
    }

    fn write_string(&mut self, text: &str) -> fmt::Result {
        self.output.write_str(text)
    }
}

/// Numbers among template arguments as C++ writes them: `8u` for `(unsigned int)8`.
fn literals(name: &str) -> String {
    const TYPES: [(&str, &str); 6] = [
        ("(unsigned int)", "u"),
        ("(int)", ""),
        ("(unsigned long)", "ul"),
        ("(long)", "l"),
        ("(unsigned long long)", "ull"),
        ("(long long)", "ll"),
    ];
    let (mut out, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(at) = rest.find('(') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let digits = |text: &str| {
            let sign = usize::from(text.starts_with('-'));
            let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 { sign + digits } else { 0 }
        };
        if let Some(bit) = rest.strip_prefix("(bool)").filter(|rest| rest.starts_with(['0', '1'])) {
            out.push_str(if bit.starts_with('1') { "true" } else { "false" });
            rest = &bit[1..];
            continue;
        }
        let known = TYPES.iter().find_map(|(kind, suffix)| Some((rest.strip_prefix(kind)?, suffix)));
        match known.map(|(number, suffix)| (number, suffix, digits(number))) {
            Some((number, suffix, len)) if len > 0 => {
                out.push_str(&number[..len]);
                out.push_str(suffix);
                rest = &number[len..];
            }
            _ => {
                out.push('(');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The thunks that adjust `this` before they call a method: what they are, and the method's mangled name.
fn thunk(name: &str) -> Option<(&'static str, String)> {
    let number = |text: &'_ str| -> Option<usize> {
        let digits = text.strip_prefix('n').unwrap_or(text);
        let end = digits.find(|c: char| !c.is_ascii_digit()).filter(|&end| end > 0)?;
        digits[end..].starts_with('_').then_some(text.len() - digits.len() + end + 1)
    };
    let (what, rest) = if let Some(rest) = name.strip_prefix("_ZTh") {
        ("non-virtual thunk", &rest[number(rest)?..])
    } else {
        let rest = name.strip_prefix("_ZTv")?;
        let rest = &rest[number(rest)?..];
        ("virtual thunk", &rest[number(rest)?..])
    };
    // One thunk calls a method, not another thunk.
    (!rest.starts_with('T')).then(|| (what, format!("_Z{rest}")))
}

/// Takes text up to a limit, then refuses more.
#[derive(Default)]
struct Bounded {
    text: String,
    pieces: usize,
    cut: bool,
}

impl Bounded {
    /// Collects the text that `write` writes; the beginning, marked, if it was too long.
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

    #[test]
    fn literals_are_those_of_the_language() {
        let before = "a<(unsigned int)8, (bool)1, (int)-3, (unsigned long)0>::b(int) const (long)";
        assert_eq!(literals(before), "a<8u, true, -3, 0ul>::b(int) const (long)");
    }
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
            ("_ZN3foo3barEv", "foo::bar"),
            ("_ZN3foo3barEv.cold", "foo::bar"),
            ("_ZNK5boost10shared_ptrI3FooEptEv", "boost::shared_ptr<Foo>::operator->"),
            ("_ZN3foo3barEv@@VERSION_1", "foo::bar@@VERSION_1"),
            ("_ZN4base4swapI3FooEEvRT_S3_", "base::swap<Foo>"),
            ("_RNvNtCs1234_7mycrate3foo3bar.warm", "mycrate::foo::bar"),
            ("_ZThn8_N3foo3barEv", "non-virtual thunk to foo::bar"),
            ("_ZTv0_n24_N3foo3barEv", "virtual thunk to foo::bar"),
            ("_ZN1mI1fJEE1gEv", "m<f>::g"),
            // Operators for literals.
            ("_Zli4_litPKcm", "operator\"\" _lit"),
            ("_ZN5units4timeli2msEy", "units::time::operator\"\" ms"),
            ("_Zli2_kIJLc49EEEiv", "operator\"\" _k<(char)49>"),
            ("_ZN3numli2_xIiEEvT_", "num::operator\"\" _x<int>"),
            ("_Zli8operatorPKc", "operator\"\" operator"),
            (
                "_ZZli4_litPKcmENKUlvE_clEv",
                "operator\"\" _lit(char const*, unsigned long)::{lambda()#1}::operator()",
            ),
            // Qualifiers of methods, also of those in functions; not those of types.
            ("_ZZ4mainENKUliE0_clEi", "main::{lambda(int)#2}::operator()"),
            (
                "_ZZZ4mainENKUlvE_clEvENKUlvE_clEv",
                "main::{lambda()#1}::operator()() const::{lambda()#1}::operator()",
            ),
            ("_ZZNK3Foo3barEvENKUlvE_clEv", "Foo::bar() const::{lambda()#1}::operator()"),
            ("_ZZNK3Foo3barEvE1x", "Foo::bar() const::x"),
            ("_ZZNKR3Foo3barEvEN5Local3runEv", "Foo::bar() const &::Local::run"),
            ("_ZZN3Foo3barEvENKR5Local3runIiEEvv", "Foo::bar()::Local::run<int>"),
            ("_ZNKR3Box3getEv", "Box::get"),
            ("_ZNVKO3Box3getIiEEvv", "Box::get<int>"),
            ("_ZNKR3FooaSERKS_", "Foo::operator="),
            ("_ZNR3FooanEi", "Foo::operator&"),
            ("_ZNO3FooaaEi", "Foo::operator&&"),
            ("_ZNKR3FoocvPKcEv", "Foo::operator char const*"),
            ("_ZNR3FoocvRKiEv", "Foo::operator int const&"),
            ("_ZNK3FoocvKiEv", "Foo::operator int const"),
            ("_Z1fIKiEvv", "f<int const>"),
        ] {
            assert_eq!(demangle(mangled, Signatures::Short), expected);
        }
        for (mangled, expected) in [
            ("_ZN3foo3barEv", "foo::bar()"),
            ("_ZN3foo3barEv.cold", "foo::bar() [clone .cold]"),
            ("_ZNK5boost10shared_ptrI3FooEptEv", "boost::shared_ptr<Foo>::operator->() const"),
            ("_ZN4base4swapI3FooEEvRT_S3_", "void base::swap<Foo>(Foo&, Foo&)"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("_Zli4_litPKcm", "operator\"\" _lit(char const*, unsigned long)"),
            ("_ZNKR3Box3getEv", "Box::get() const &"),
            ("_ZZ4mainENKUliE0_clEi", "main::{lambda(int)#2}::operator()(int) const"),
        ] {
            assert_eq!(demangle(mangled, Signatures::Full), expected);
        }
    }

    #[test]
    fn everything_else_stays() {
        for name in [
            "",
            "_",
            "_Z",
            "_R",
            "_ZTh",
            "_ZThn",
            "_ZTv0_",
            "_ZThn8_Thn8_",
            "main",
            "_Zx",
            "__libc_start_main",
            "malloc@plt",
            "do_syscall_64",
            "é_Z",
        ] {
            assert_eq!(demangle(name, Signatures::Full), name);
        }
    }

    #[test]
    fn output_is_bounded() {
        // Each S_ stands for everything before it, so the readable name doubles with each.
        let doubling = format!("_Z1fI1aE{}", (0..40).map(|_| "1bIS_S_E").collect::<String>());
        let nested = format!("_Z1f{}i{}", "1aI".repeat(2000), "E".repeat(2000));
        let mut pairs = "1a".to_string();
        (0..30).for_each(|_| pairs = format!("1pI{pairs}S_E"));
        let deep = |part: &str| part.repeat(30_000 / part.len());
        let rust = ["_RNv", "_RIC1a", "_RXCs_1a", "_RINvC1a1bR", "_RINvC1a1bFUT"].map(deep);
        let cpp = ["N", "P", "F", "I1a", "1aI", "DpT_", "Xcl", "XplT_", "ZN", "St"];
        let cpp = cpp.map(|part| format!("_Z1f{}", deep(part)));
        let all = [doubling, nested, format!("_Z1f{pairs}"), format!("_Z{}", deep("N"))];
        for name in all.into_iter().chain(rust).chain(cpp) {
            assert!(demangle(name.as_str(), Signatures::Full).len() <= MAX_INPUT + MAX_OUTPUT);
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(name in "_(Z|ZN|R|RNv|D|D1a__T1bT)[a-zA-Z0-9_$.]{0,60}") {
            let _ = demangle(name.as_str(), Signatures::Full);
        }
    }
}
