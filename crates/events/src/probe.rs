//! Probes by name: `uprobe:/path:symbol+0x10%return`, `uprobe:/path:source.c:12`, `uprobe:/path:function:3`, `usdt:/path:provider:name`,
//! `kprobe:function`. What
//! such a place is in the file is for a [`Catalogue`](crate::Catalogue) to find out.

use crate::parser::number;
use alloc::string::String;

/// Where a probe sits, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbePlace {
    /// An instruction of a program or library.
    Uprobe {
        /// The file.
        path: String,
        /// The function, or a pattern for several; empty if the offset is that in the file.
        symbol: String,
        /// Bytes from the start of the function, or of the file.
        offset: u64,
        /// At the return of the function, not at its entry.
        on_return: bool,
    },
    /// A line of a program's source.
    Line {
        /// The file of the program or library.
        path: String,
        /// The end of the source's path, or the name of a function.
        source: String,
        /// The line, from 1, or of a function from the line of its name, which is 0.
        line: u64,
    },
    /// A probe that the file itself declares.
    Usdt {
        /// The file.
        path: String,
        /// The provider that declares it.
        provider: String,
        /// Its name.
        name: String,
    },
    /// An instruction of the kernel.
    Kprobe {
        /// The function.
        function: String,
        /// Bytes from its start.
        offset: u64,
        /// At the return of the function, not at its entry.
        on_return: bool,
    },
}

/// The words that begin a probe, each with the number of colons its place has.
pub(crate) const KINDS: [(&str, usize); 3] = [("uprobe", 1), ("usdt", 2), ("kprobe", 0)];

/// The form of a probe, for messages.
pub(crate) fn form(kind: &str) -> &'static str {
    match kind {
        "uprobe" => {
            "uprobe:/PATH:SYMBOL[+OFFSET][%return] or uprobe:/PATH:SOURCE:LINE or uprobe:/PATH:FUNCTION:LINE"
        }
        "usdt" => "usdt:/PATH:PROVIDER:NAME",
        _ => "kprobe:FUNCTION[+OFFSET][%return]",
    }
}

/// Reads what follows `kind:`.
pub(crate) fn place(kind: &str, text: &str) -> Option<ProbePlace> {
    let filled = |texts: &[&str]| texts.iter().all(|text| !text.is_empty());
    match kind {
        "uprobe" => {
            let (path, place) = text.rsplit_once(':')?;
            // A second colon and a decimal number: a line.
            if let (Some((path, source)), Ok(line)) = (path.rsplit_once(':'), place.parse()) {
                // No source has a line 0; a function may.
                let may_be = line > 0 || !source.contains(['.', '/']);
                return (may_be && filled(&[path, source])).then(|| ProbePlace::Line {
                    path: path.into(),
                    source: source.into(),
                    line,
                });
            }
            let (symbol, offset, on_return) = symbol(place)?;
            let (symbol, offset) = match number(symbol) {
                Some(at) => ("", at.checked_add(offset)?),
                None => (symbol, offset),
            };
            let at_entry = offset == 0 && !symbol.is_empty();
            (filled(&[path]) && (!on_return || at_entry)).then(|| ProbePlace::Uprobe {
                path: path.into(),
                symbol: symbol.into(),
                offset,
                on_return,
            })
        }
        "usdt" => {
            let (rest, name) = text.rsplit_once(':')?;
            let (path, provider) = rest.rsplit_once(':')?;
            filled(&[path, provider, name]).then(|| ProbePlace::Usdt {
                path: path.into(),
                provider: provider.into(),
                name: name.into(),
            })
        }
        _ => {
            let (function, offset, on_return) = symbol(text)?;
            Some(ProbePlace::Kprobe { function: function.into(), offset, on_return })
        }
    }
}

/// `symbol[+offset][%return]`.
fn symbol(text: &str) -> Option<(&str, u64, bool)> {
    let (text, on_return) = match text.split_once('%') {
        Some((text, "return")) => (text, true),
        Some(_) => return None,
        None => (text, false),
    };
    let (name, offset) = match text.split_once('+') {
        Some((name, offset)) => (name, number(offset)?),
        None => (text, 0),
    };
    (!name.is_empty()).then_some((name, offset, on_return))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uprobe(path: &str, symbol: &str, offset: u64, on_return: bool) -> Option<ProbePlace> {
        Some(ProbePlace::Uprobe { path: path.into(), symbol: symbol.into(), offset, on_return })
    }

    #[test]
    fn places() {
        assert_eq!(place("uprobe", "/bin/a:main"), uprobe("/bin/a", "main", 0, false));
        assert_eq!(place("uprobe", "/bin/a:main+0x10"), uprobe("/bin/a", "main", 16, false));
        assert_eq!(place("uprobe", "/bin/a:main%return"), uprobe("/bin/a", "main", 0, true));
        assert_eq!(place("uprobe", "/b:in/a:0x1200"), uprobe("/b:in/a", "", 0x1200, false));
        let line = ProbePlace::Line { path: "/bin/a".into(), source: "x/main.c".into(), line: 12 };
        assert_eq!(place("uprobe", "/bin/a:x/main.c:12"), Some(line));
        assert_eq!(place("uprobe", "/bin/a:12"), uprobe("/bin/a", "", 12, false));
        assert_eq!(place("uprobe", "/bin/a:my_*"), uprobe("/bin/a", "my_*", 0, false));
        let usdt = ProbePlace::Usdt { path: "/l".into(), provider: "libc".into(), name: "setjmp".into() };
        assert_eq!(place("usdt", "/l:libc:setjmp"), Some(usdt));
        let kprobe = ProbePlace::Kprobe { function: "do_exit".into(), offset: 4, on_return: true };
        assert_eq!(place("kprobe", "do_exit+4%return"), Some(kprobe));
        for (kind, text) in [
            ("uprobe", "/bin/a"),
            ("uprobe", "/bin/a:"),
            ("uprobe", ":main"),
            ("uprobe", "/a:main%retrun"),
            ("uprobe", "/a:main+4%return"),
            ("uprobe", "/a:0x40%return"),
            ("uprobe", "/a:main+x"),
            ("uprobe", "/bin/a:main.c:0"),
            ("uprobe", "/bin/a::12"),
            ("usdt", "/l:setjmp"),
            ("kprobe", ""),
        ] {
            assert_eq!(place(kind, text), None, "{text}");
        }
    }
}
