//! Names of the D language, by "Name Mangling" of its ABI (<https://dlang.org/spec/abi.html#name_mangling>): the name alone, with the
//! functions that it stands in, and without parameters and template arguments.

/// Types and names stand in each other no deeper.
const MOST_DEPTH: usize = 64;
/// References to earlier parts that are followed in one name.
const MOST_REFERENCES: usize = 1024;

/// The readable name of a mangled one; nothing if it is not one of D.
pub(super) fn readable(name: &str) -> Option<String> {
    if name == "_Dmain" {
        return Some("D main".to_owned());
    }
    if !name.starts_with("_D") || !name.is_ascii() {
        return None;
    }
    let mut parser = Parser { text: name.as_bytes(), at: 2, depth: 0, references: 0 };
    let mut parts = Vec::new();
    parser.qualified(&mut parts)?;
    // What follows is the type; data that the compiler made has none.
    if parser.at < parser.text.len() && parser.rest() != b"Z" {
        parser.eat(b'M');
        parser.kind()?;
    } else {
        parser.eat(b'Z');
    }
    (parser.at == name.len() && !parts.is_empty()).then(|| parts.join("."))
}

struct Parser<'n> {
    text: &'n [u8],
    at: usize,
    depth: usize,
    references: usize,
}

impl<'n> Parser<'n> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == byte;
        self.at += usize::from(is_it);
        is_it
    }

    fn rest(&self) -> &'n [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.rest()[..digits]).ok()?.parse().ok()?;
        self.at += digits;
        Some(number)
    }

    /// One level deeper, which ends.
    fn deeper<T>(&mut self, go: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == MOST_DEPTH {
            return None;
        }
        self.depth += 1;
        let found = go(self);
        self.depth -= 1;
        found
    }

    /// What `go` reads, or nothing of it.
    fn attempt<T>(&mut self, go: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let at = self.at;
        let found = go(self);
        if found.is_none() {
            self.at = at;
        }
        found
    }

    /// Names that stand in each other, outermost first, and what of them are functions.
    fn qualified(&mut self, parts: &mut Vec<&'n str>) -> Option<()> {
        self.deeper(|parser| {
            loop {
                // Without a name of their own.
                while parser.eat(b'0') {}
                let part = parser.symbol()?;
                parts.push(part);
                if !parser.is_symbol() {
                    // The name of a function in which others stand has its parameters.
                    let is_outer = parser.attempt(|parser| {
                        parser.eat(b'M');
                        parser.modifiers();
                        parser.function()?;
                        parser.is_symbol().then_some(())
                    });
                    if is_outer.is_none() {
                        return Some(());
                    }
                }
            }
        })
    }

    /// Whether a name begins here.
    fn is_symbol(&self) -> bool {
        match self.peek() {
            b'0'..=b'9' => true,
            b'_' => matches!(self.rest(), [b'_', b'_', b'T' | b'U', ..]),
            b'Q' => self.reference(self.at).is_some_and(|(at, _)| self.text[at].is_ascii_digit()),
            _ => false,
        }
    }

    fn symbol(&mut self) -> Option<&'n str> {
        match self.peek() {
            b'_' => self.template(),
            b'Q' => {
                let (at, end) = self.reference(self.at)?;
                let mut earlier = Parser { text: self.text, at, depth: self.depth, references: 0 };
                let name = earlier.identifier()?;
                self.at = end;
                Some(name)
            }
            _ => {
                let at = self.at;
                let len = self.number()?;
                let name = self.rest().get(..len)?;
                if name.starts_with(b"__T") || name.starts_with(b"__U") {
                    // An instance of a template, in the older form.
                    let end = self.at + len;
                    let mut inner =
                        Parser { text: &self.text[..end], at: self.at, depth: self.depth, references: 0 };
                    let name = inner.template()?;
                    self.at = end;
                    return (inner.at == end).then_some(name);
                }
                self.at = at;
                self.identifier()
            }
        }
    }

    /// A name with its length before it.
    fn identifier(&mut self) -> Option<&'n str> {
        let len = self.number().filter(|&len| len > 0)?;
        let name = self.rest().get(..len)?;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if !name.iter().all(is_part) {
            return None;
        }
        self.at += len;
        match name {
            b"__ctor" => Some("this"),
            b"__dtor" => Some("~this"),
            name => std::str::from_utf8(name).ok(),
        }
    }

    /// An instance of a template: its name.
    fn template(&mut self) -> Option<&'n str> {
        self.deeper(|parser| {
            if !matches!(parser.rest(), [b'_', b'_', b'T' | b'U', ..]) {
                return None;
            }
            parser.at += 3;
            let name = if parser.peek() == b'Q' { parser.symbol()? } else { parser.identifier()? };
            while !parser.eat(b'Z') {
                parser.eat(b'H');
                match parser.next()? {
                    b'T' => parser.kind()?,
                    b'V' => {
                        parser.kind()?;
                        parser.value()?;
                    }
                    b'S' => {
                        let whole = parser.attempt(|parser| {
                            let len = parser.number()?;
                            parser.rest().get(..len)?.starts_with(b"_D").then_some(())?;
                            parser.at += len;
                            Some(())
                        });
                        whole.or_else(|| {
                            let is_mangled = parser.rest().starts_with(b"_D");
                            parser.at += if is_mangled { 2 } else { 0 };
                            parser.qualified(&mut Vec::new())?;
                            // The type of what was mangled.
                            if is_mangled {
                                parser.eat(b'M');
                                parser.attempt(Self::kind);
                            }
                            Some(())
                        })?;
                    }
                    b'X' => {
                        let len = parser.number()?;
                        parser.rest().get(..len)?;
                        parser.at += len;
                    }
                    _ => return None,
                }
            }
            Some(name)
        })
    }

    /// The place that a reference leads to, and where it ends.
    fn reference(&self, from: usize) -> Option<(usize, usize)> {
        let (mut back, mut end) = (0usize, from + 1);
        loop {
            let byte = *self.text.get(end)?;
            end += 1;
            back = back.checked_mul(26)?;
            match byte {
                b'A'..=b'Z' => back += usize::from(byte - b'A'),
                b'a'..=b'z' => {
                    back += usize::from(byte - b'a');
                    break;
                }
                _ => return None,
            }
        }
        let at = from.checked_sub(back).filter(|&at| at >= 2 && at < from)?;
        Some((at, end))
    }

    fn modifiers(&mut self) {
        loop {
            match self.rest() {
                [b'O' | b'x' | b'y', ..] => self.at += 1,
                [b'N', b'g', ..] => self.at += 2,
                _ => return,
            }
        }
    }

    /// Reads over a type.
    fn kind(&mut self) -> Option<()> {
        self.deeper(|parser| {
            parser.modifiers();
            match parser.next()? {
                b'A' | b'P' => parser.kind(),
                b'G' => {
                    parser.number()?;
                    parser.kind()
                }
                b'H' => {
                    parser.kind()?;
                    parser.kind()
                }
                b'C' | b'S' | b'E' | b'T' | b'I' => parser.qualified(&mut Vec::new()),
                b'D' => {
                    parser.modifiers();
                    if parser.peek() == b'Q' {
                        return parser.kind();
                    }
                    parser.function()?;
                    parser.kind()
                }
                b'F' | b'U' | b'W' | b'V' | b'R' | b'Y' => {
                    parser.at -= 1;
                    parser.function()?;
                    parser.kind()
                }
                b'B' => match parser.peek() {
                    b'0'..=b'9' => {
                        let count = parser.number()?;
                        (0..count).try_for_each(|_| parser.kind())
                    }
                    _ => parser.parameters(),
                },
                b'Q' => {
                    let (at, end) = parser.reference(parser.at - 1)?;
                    parser.references += 1;
                    if parser.references > MOST_REFERENCES || parser.text[at].is_ascii_digit() {
                        return None;
                    }
                    parser.at = end;
                    Some(())
                }
                b'N' => match parser.next()? {
                    b'h' => parser.kind(),
                    b'n' => Some(()),
                    _ => None,
                },
                b'z' => matches!(parser.next()?, b'i' | b'k').then_some(()),
                b'v' | b'g' | b'h' | b's' | b't' | b'i' | b'k' | b'l' | b'm' | b'f' | b'd' | b'e' | b'o'
                | b'p' | b'j' | b'q' | b'r' | b'c' | b'b' | b'a' | b'u' | b'w' | b'n' => Some(()),
                _ => None,
            }
        })
    }

    /// Reads over a function's type, up to what it returns.
    fn function(&mut self) -> Option<()> {
        matches!(self.next()?, b'F' | b'U' | b'W' | b'V' | b'R' | b'Y').then_some(())?;
        while let [b'N', b'a'..=b'f' | b'i' | b'j' | b'l' | b'm', ..] = self.rest() {
            self.at += 2;
        }
        self.parameters()
    }

    fn parameters(&mut self) -> Option<()> {
        loop {
            if matches!(self.peek(), b'X' | b'Y' | b'Z') {
                self.at += 1;
                return Some(());
            }
            loop {
                match self.rest() {
                    [b'M' | b'J' | b'K' | b'L', ..] => self.at += 1,
                    // Where a name follows it is an interface.
                    [b'I', next, ..] if !(next.is_ascii_digit() || *next == b'Q') => self.at += 1,
                    [b'N', b'k', ..] => self.at += 2,
                    _ => break,
                }
            }
            self.kind()?;
        }
    }

    /// Reads over a value among template arguments.
    fn value(&mut self) -> Option<()> {
        self.deeper(|parser| {
            match parser.peek() {
                b'n' => parser.at += 1,
                b'i' | b'N' => {
                    parser.at += 1;
                    parser.number()?;
                }
                b'0'..=b'9' => _ = parser.number()?,
                b'e' => {
                    parser.at += 1;
                    parser.float()?;
                }
                b'c' => {
                    for _ in 0..2 {
                        parser.eat(b'c').then_some(())?;
                        parser.float()?;
                    }
                }
                b'a' | b'w' | b'd' => {
                    parser.at += 1;
                    let len = parser.number()?.checked_mul(2)?;
                    parser.eat(b'_').then_some(())?;
                    parser.rest().get(..len)?;
                    parser.at += len;
                }
                b'A' | b'S' => {
                    parser.at += 1;
                    let count = parser.number()?;
                    (0..count).try_for_each(|_| parser.value())?;
                }
                b'f' => {
                    parser.at += 1;
                    parser.rest().starts_with(b"_D").then_some(())?;
                    parser.at += 2;
                    parser.qualified(&mut Vec::new())?;
                    parser.eat(b'M');
                    parser.kind()?;
                }
                _ => return None,
            }
            Some(())
        })
    }

    fn float(&mut self) -> Option<()> {
        for word in [&b"NAN"[..], b"NINF", b"INF"] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Some(());
            }
        }
        self.eat(b'N');
        let digits = self.rest().iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F')).count();
        self.at += digits;
        self.eat(b'P').then_some(())?;
        self.eat(b'N');
        self.number().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn names_as_the_language_has_them() {
        for (mangled, expected) in [
            ("_Dmain", "D main"),
            ("_D3foo3barFiZv", "foo.bar"),
            ("_D1a1bi", "a.b"),
            ("_D4test3fooAa", "test.foo"),
            ("_D3foo5Class6methodMxFNaNbNiNfZi", "foo.Class.method"),
            ("_D3foo5Class6__ctorMFiZC3foo5Class", "foo.Class.this"),
            // One in another, with and without a name.
            ("_D3foo5outerFiZ5innerMFZv", "foo.outer.inner"),
            ("_D3foo5outerFiZ9__lambda2MFNaZi", "foo.outer.__lambda2"),
            // Templates, of types, values and names, in both forms; and references back.
            ("_D3std5stdio__T7writelnTAyaZQnFNfQjZv", "std.stdio.writeln.writeln"),
            ("_D3foo__T3barVii5Vai3ZQnFZv", "foo.bar.bar"),
            ("_D3foo14__T3barTiTAyaZ3barFiZv", "foo.bar.bar"),
            ("_D3foo__T3barVAyaa3_616263ZQsFZv", "foo.bar.bar"),
        ] {
            assert_eq!(readable(mangled).as_deref(), Some(expected), "{mangled}");
        }
    }

    #[test]
    fn everything_else_is_none() {
        for name in [
            "_D",
            "_DTORS",
            "_D3fo",
            "_D99foo",
            "_Dx",
            "_D3foo?",
            "_DYNAMIC",
            "_D3fooé",
            "D3foo3barFiZv",
            "_D3foo3bar!",
        ] {
            assert_eq!(readable(name), None, "{name}");
        }
        let deep = |part: &str| format!("_D3foo3barF{}", part.repeat(9_000));
        for part in ["A", "DF", "H", "S3a__T1bT", "B9"] {
            assert_eq!(readable(&deep(part)), None);
        }
    }
}
