//! Arguments of calls as strace's readers know them.

use super::codes::{Names, names};
use super::table::Spec;
use std::fmt::Write;

/// The kinds that are no names of flags or codes.
#[cfg(test)]
const PLAIN: [&str; 14] = [
    "fd", "dirfd", "path", "str", "sockaddr", "peer", "ptr", "int", "uint", "long", "size", "mode", "hex",
    "pid",
];

/// Whether arguments of a kind are decoded.
#[cfg(test)]
pub(super) fn knows(kind: &str) -> bool {
    PLAIN.contains(&kind) || names(kind).is_some()
}

/// Writes the arguments of a call, with commas between them. `text` knows the texts of those that are addresses of texts, by their
/// places; of the others the address is told. Of descriptors it may know what they are.
pub fn write_arguments(
    out: &mut String,
    spec: Option<&Spec>,
    values: &[u64; 6],
    text: &dyn Fn(usize) -> Option<String>,
) {
    let Some(arguments) = spec.and_then(|spec| spec.arguments.as_ref()) else {
        for (index, value) in values.iter().enumerate() {
            let _ = write!(out, "{}{value:#x}", if index > 0 { ", " } else { "" });
        }
        return;
    };
    // A mode means something only where a file may come into being.
    let creates = arguments
        .iter()
        .zip(values)
        .any(|(argument, value)| argument.kind == "open" && value & 0x40 == 0 && value & 0x40_0000 == 0);
    for (index, (argument, &value)) in arguments.iter().zip(values).enumerate() {
        if creates && argument.kind == "mode" {
            continue;
        }
        if index > 0 {
            out.push_str(", ");
        }
        match argument.kind {
            "path" | "str" => match text(index) {
                Some(text) => out.push_str(&quoted(&text)),
                None => pointer(out, value),
            },
            "sockaddr" | "peer" => match text(index) {
                Some(text) => out.push_str(&text),
                None => pointer(out, value),
            },
            kind => {
                number(out, kind, value);
                if let ("fd" | "dirfd", Some(path)) = (kind, text(index)) {
                    behind(out, &path);
                }
            }
        }
    }
}

/// Writes what a descriptor is, behind it.
pub(super) fn behind(out: &mut String, path: &str) {
    out.push('<');
    for c in path.chars() {
        let _ = match c {
            c if c.is_control() || matches!(c, '<' | '>') => write!(out, "\\{:o}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push('>');
}

fn pointer(out: &mut String, value: u64) {
    let _ = if value == 0 { write!(out, "NULL") } else { write!(out, "{value:#x}") };
}

fn number(out: &mut String, kind: &str, value: u64) {
    let _ = match kind {
        "dirfd" if value as i32 == -100 => write!(out, "AT_FDCWD"),
        "fd" | "dirfd" | "int" | "pid" => write!(out, "{}", value as i32),
        "uint" => write!(out, "{}", value as u32),
        "long" => write!(out, "{}", value as i64),
        "size" => write!(out, "{value}"),
        "mode" => write!(out, "0{:o}", value as u32),
        "hex" if value == 0 => write!(out, "0"),
        "hex" => write!(out, "{value:#x}"),
        "ptr" => {
            pointer(out, value);
            Ok(())
        }
        kind => {
            named(out, kind, u64::from(value as u32));
            Ok(())
        }
    };
}

fn named(out: &mut String, kind: &str, value: u64) {
    match names(kind) {
        Some(Names::Codes(codes)) => match codes.iter().find(|(code, _)| *code == value) {
            Some((_, name)) => out.push_str(name),
            None => {
                let _ = if value > 9 { write!(out, "{value:#x}") } else { write!(out, "{value}") };
            }
        },
        Some(Names::Flags { mask, codes, flags }) => {
            let code = codes.iter().find(|(code, _)| *code == value & mask && mask != 0);
            let mut left = if code.is_some() { value & !mask } else { value };
            let begin = out.len();
            out.push_str(code.map_or("", |(_, name)| name));
            for (flag, name) in flags {
                if left & flag == *flag {
                    left &= !flag;
                    out.push_str(if out.len() > begin { "|" } else { "" });
                    out.push_str(name);
                }
            }
            if left != 0 || out.len() == begin {
                let bar = if out.len() > begin { "|" } else { "" };
                let _ = if left == 0 { write!(out, "{bar}0") } else { write!(out, "{bar}{left:#x}") };
            }
        }
        None => {
            let _ = write!(out, "{value:#x}");
        }
    }
}

/// A text in quotation marks, without what could drive a terminal.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\{:o}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::super::Calls;
    use super::*;
    use perfuse_abi::regs::Arch;

    #[test]
    fn arguments_are_told_as_strace_does() {
        let calls = Calls::of(Arch::X86_64);
        let minus = |value: i64| value as u64;
        for (name, values, told) in [
            ("openat", [minus(-100), 1, 0x8_0000, 0o644, 0, 0], "AT_FDCWD, \"a\\\"b\", O_RDONLY|O_CLOEXEC"),
            ("openat", [3, 0, 0x241, 0o644, 0, 0], "3, NULL, O_WRONLY|O_CREAT|O_TRUNC, 0644"),
            ("read", [0, 0x7000, 4096, 9, 9, 9], "0, 0x7000, 4096"),
            ("close", [0xffff_ffff, 0, 0, 0, 0, 0], "-1"),
            (
                "mmap",
                [0, 4096, 3, 0x22, minus(-1), 0],
                "NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0",
            ),
            ("mprotect", [4096, 1, 0, 0, 0, 0], "0x1000, 1, PROT_NONE"),
            ("lseek", [3, minus(-5), 2, 0, 0, 0], "3, -5, SEEK_END"),
            ("kill", [7, 15, 0, 0, 0, 0], "7, SIGTERM"),
            ("socket", [2, 0x8_0001, 6, 0, 0, 0], "AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 6"),
            ("futex", [1, 0x81, 1, 0, 0, 0], "0x1, FUTEX_WAKE|FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0"),
            ("getpid", [1; 6], ""),
            ("access", [1, 4, 0, 0, 0, 0], "\"a\\\"b\", R_OK"),
            ("access", [1, 0, 0, 0, 0, 0], "\"a\\\"b\", 0"),
            ("umask", [0o22, 0, 0, 0, 0, 0], "022"),
            ("dup3", [3, 50, 0x8_0000, 0, 0, 0], "3, 50, O_CLOEXEC"),
            ("pipe2", [0x7000, 0, 0, 0, 0, 0], "0x7000, 0"),
            ("connect", [3, 0x7000, 16, 0, 0, 0], "3, 0x7000, 16"),
            ("bind", [3, 1, 16, 0, 0, 0], "3, a\"b, 16"),
        ] {
            let mut out = String::new();
            let spec = calls.number(name).and_then(|number| calls.get(number));
            let text = |index: usize| (values[index] == 1).then(|| "a\"b".to_owned());
            write_arguments(&mut out, spec, &values, &text);
            assert_eq!(out, told, "{name}");
        }
        let mut out = String::new();
        write_arguments(&mut out, None, &[1, 2, 3, 4, 5, 6], &|_| None);
        assert_eq!(out, "0x1, 0x2, 0x3, 0x4, 0x5, 0x6");
    }
}
