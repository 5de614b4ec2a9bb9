//! Values of declared probes (`usdt:./server:provider:name(arg0,arg1:str)`): each argument stands where the compiler wrote down, in a
//! register, in memory or as a number.

use super::{TEXTS, Value};
use crate::probes;
use perfuse::abi::regs::Arch;
use perfuse_events::Refusal;
use perfuse_symbols::DeclaredProbe;

/// So many places of a name are taken: each becomes an event.
const MOST_PLACES: usize = 200;

/// Where an argument is, in the words of the kernel, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Operand {
    fetch: String,
    bytes: usize,
    is_signed: bool,
}

/// The places of a declared probe with its values, in the words of the kernel.
pub(super) fn definitions(
    path: &str,
    (provider, name): (&str, &str),
    values: &[Value],
    arch: Arch,
) -> Result<Vec<String>, String> {
    let probes = probes::declared(path, provider, name).map_err(|refusal| match refusal {
        Refusal::Unreadable(why) => why,
        _ => format!("{path} declares no probe {provider}:{name}"),
    })?;
    if probes.len() > MOST_PLACES {
        let places = probes.len();
        return Err(format!(
            "{path} declares it at {places} places, and no more than {MOST_PLACES} are taken"
        ));
    }
    let definition = |probe: &DeclaredProbe| {
        let operands = operands(&probe.arguments, arch);
        let mut text = format!("{path}:{:#x}", probe.offset);
        if let Some(semaphore) = probe.semaphore {
            text += &format!("({semaphore:#x})");
        }
        if values.is_empty() {
            // All that can be told.
            let told = operands.iter().enumerate().filter_map(|(index, operand)| {
                let value = Value::parse(&format!("arg{index}")).ok()?;
                Some(fetched(&value, operand.as_ref().ok()?))
            });
            return Ok(told.fold(text, |text, value| text + " " + &value));
        }
        for value in values {
            let number = value.number().ok_or_else(|| {
                format!("'{}': a declared probe tells arg0, arg1, ..., which have no other names", value.path)
            })?;
            let operand = operands.get(number).ok_or_else(|| {
                format!("'{}': {provider}:{name} has {} arguments", value.path, operands.len())
            })?;
            let operand = operand
                .as_ref()
                .map_err(|place| format!("'{}': it is where no probe can read it ({place})", value.path))?;
            text += " ";
            text += &fetched(value, operand);
        }
        Ok(text)
    };
    probes.iter().map(definition).collect()
}

/// A value in the words of the kernel.
fn fetched(value: &Value, operand: &Operand) -> String {
    let Operand { fetch, bytes, is_signed } = operand;
    let (fetch, kind) = match value.kind.as_deref() {
        Some(kind) if TEXTS.contains(&kind) => (format!("+0({fetch})"), "string".to_owned()),
        Some(kind) => (fetch.clone(), kind.to_owned()),
        // Most words of that size are addresses.
        None if *bytes == 8 && !is_signed => (fetch.clone(), "x64".to_owned()),
        None => (fetch.clone(), format!("{}{}", if *is_signed { 's' } else { 'u' }, bytes * 8)),
    };
    format!("{}={fetch}:{kind}", value.name)
}

/// The arguments of a probe: `-4@%edi 8@16(%rsp)`; of one that no probe can read, the words of the compiler.
fn operands(text: &str, arch: Arch) -> Vec<Result<Operand, String>> {
    let mut depth = 0usize;
    let words = text.split(|letter: char| {
        depth = match letter {
            '[' | '(' => depth + 1,
            ']' | ')' => depth.saturating_sub(1),
            _ => depth,
        };
        letter == ' ' && depth == 0
    });
    let words = words.filter(|word| !word.is_empty());
    words.map(|word| operand(word, arch).ok_or_else(|| word.to_owned())).collect()
}

/// One of them: `SIZE@PLACE`, with a size below zero for a number with a sign.
fn operand(word: &str, arch: Arch) -> Option<Operand> {
    let (size, place) = word.split_once('@')?;
    let size: i8 = size.parse().ok()?;
    let bytes = usize::from(size.unsigned_abs());
    let fetch = match arch {
        Arch::X86_64 => of_x86(place)?,
        _ => of_arm64(place)?,
    };
    [1, 2, 4, 8].contains(&bytes).then_some(Operand { fetch, bytes, is_signed: size < 0 })
}

/// A step from an address, as the kernel writes it.
fn step(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', text.strip_prefix('+').unwrap_or(text)),
    };
    let is_number = |text: &str| text.parse::<u32>().is_ok() && !text.starts_with('+');
    let is_hex = digits.strip_prefix("0x").is_some_and(|hex| u32::from_str_radix(hex, 16).is_ok());
    (is_hex || is_number(digits)).then(|| format!("{sign}{digits}"))
}

/// A number that stands in the code, as the kernel writes it.
fn immediate(text: &str) -> Option<String> {
    text.parse::<i64>().is_ok().then(|| format!("\\{}", text.trim_start_matches('+')))
}

/// `%rax`, `-8(%rbp)`, `$5`.
fn of_x86(place: &str) -> Option<String> {
    if let Some(number) = place.strip_prefix('$') {
        return immediate(number);
    }
    if let Some(name) = place.strip_prefix('%') {
        return Some(format!("%{}", register_of_x86(name)?));
    }
    let (offset, base) = place.strip_suffix(')')?.split_once("(%")?;
    // Neither an index nor the address of code.
    let base = register_of_x86(base)?;
    let offset = if offset.is_empty() { "+0".to_owned() } else { step(offset)? };
    Some(format!("{offset}(%{base})"))
}

/// The kernel's name of a register, or of the lower part of one.
fn register_of_x86(name: &str) -> Option<String> {
    const OLD: [&str; 4] = ["ax", "bx", "cx", "dx"];
    const LATER: [&str; 4] = ["si", "di", "bp", "sp"];
    if let Some(number) = name.strip_prefix('r').map(|rest| rest.trim_end_matches(['d', 'w', 'b'])) {
        if number.parse::<u8>().is_ok_and(|number| (8..16).contains(&number)) {
            return Some(format!("r{number}"));
        }
    }
    let wide = name.strip_prefix(['r', 'e']).unwrap_or(name);
    let is_known = |name: &str| OLD.contains(&name) || LATER.contains(&name);
    if is_known(wide) {
        return Some(wide.to_owned());
    }
    let low = name.strip_suffix('l')?;
    let of_old = OLD.iter().find(|old| old.strip_suffix('x') == Some(low));
    of_old.or(LATER.iter().find(|later| **later == low)).map(|name| (*name).to_owned())
}

/// `x0`, `w1`, `[sp, 16]`, `5`.
fn of_arm64(place: &str) -> Option<String> {
    let register = |name: &str| match name {
        "sp" => Some("%sp".to_owned()),
        _ => {
            let number: u8 = name.strip_prefix(['x', 'w'])?.parse().ok()?;
            (number < 31).then(|| format!("%x{number}"))
        }
    };
    if let Some(inner) = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let (base, offset) = inner.split_once(',').unwrap_or((inner, "0"));
        return Some(format!("{}({})", step(offset.trim().trim_start_matches('#'))?, register(base.trim())?));
    }
    register(place).or_else(|| immediate(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_in_the_words_of_the_kernel() {
        let fetches = |text: &str, arch| -> Vec<Result<String, String>> {
            let told = |operand: Operand| {
                format!(
                    "{}:{}{}",
                    operand.fetch,
                    if operand.is_signed { 's' } else { 'u' },
                    operand.bytes * 8
                )
            };
            operands(text, arch).into_iter().map(|operand| operand.map(told)).collect()
        };
        let ok = |words: &[&str]| words.iter().map(|word| Ok((*word).to_owned())).collect::<Vec<_>>();
        assert_eq!(
            fetches(
                "8@%rbx -4@%ebp 2@%r15w -1@%al 1@%sil 8@-80(%rbx) -4@112(%rsp) 8@(%r8) -4@$-5 4@$7",
                Arch::X86_64
            ),
            ok(&[
                "%bx:u64",
                "%bp:s32",
                "%r15:u16",
                "%ax:s8",
                "%si:u8",
                "-80(%bx):u64",
                "+112(%sp):s32",
                "+0(%r8):u64",
                "\\-5:s32",
                "\\7:u32"
            ])
        );
        assert_eq!(
            fetches("8@x0 -4@w19 8@[sp, 16] -4@[x29] 1@5 8@[x1, -8]", Arch::Arm64),
            ok(&["%x0:u64", "%x19:s32", "+16(%sp):u64", "+0(%x29):s32", "\\5:u8", "-8(%x1):u64"])
        );
        for (text, arch) in [
            ("8@(%rax,%rbx,8)", Arch::X86_64),
            ("4@name(%rip)", Arch::X86_64),
            ("1@%ah", Arch::X86_64),
            ("8@%xmm0", Arch::X86_64),
            ("16@%rax", Arch::X86_64),
            ("8f@%rax", Arch::X86_64),
            ("%rax", Arch::X86_64),
            ("8@x31", Arch::Arm64),
            ("8@[x0, x1]", Arch::Arm64),
            ("8@d0", Arch::Arm64),
        ] {
            assert_eq!(fetches(text, arch), [Err(text.to_owned())], "{text}");
        }
        assert_eq!(fetches("", Arch::X86_64), []);
    }

    #[test]
    fn values_have_the_size_of_their_place_unless_asked() {
        let told = |value: &str, place: &str| {
            fetched(&Value::parse(value).unwrap(), &operand(place, Arch::X86_64).unwrap())
        };
        assert_eq!(told("arg0", "8@%rax"), "arg0=%ax:x64");
        assert_eq!(told("line=arg2", "-4@%ebp"), "line=%bp:s32");
        assert_eq!(told("file=arg0:str", "8@16(%rsp)"), "file=+0(+16(%sp)):string");
        assert_eq!(told("arg0:u8", "8@%rax"), "arg0=%ax:u8");
    }
}
