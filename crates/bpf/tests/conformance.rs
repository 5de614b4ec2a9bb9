//! The public suite of conformance (`bpf_conformance`), run by our interpreter: each file has a program in its own assembler's
//! language, memory, and the result that every implementation must have. `PERFUSE_BPF_CONFORMANCE` names its folder `tests`.

use perfuse_bpf::{Maps, NoWorld, assemble, run_unverified};
use perfuse_testkit::{Outcome, Skip, suite};
use std::path::Path;

suite! {
    deterministic:
        words_of_the_suite_become_ours;
    witnesses:
        every_file_of_the_suite_has_its_result;
}

/// A file: the program in our words, memory, and the result; none where the program must be refused or fault.
struct Vector {
    program: Result<Vec<perfuse_bpf::Insn>, String>,
    memory: Vec<u8>,
    result: Option<u64>,
}

fn number(text: &str) -> u64 {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    let value = value.unwrap_or_else(|_| panic!("a number: '{text}'"));
    if negative { value.wrapping_neg() } else { value }
}

fn parse(text: &str) -> Vector {
    let (mut part, mut program, mut memory, mut result, mut raw) =
        ("", String::new(), Vec::new(), None, Vec::new());
    let mut refused = false;
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix("--") {
            part = ["asm", "mem", "result", "raw", "error"]
                .into_iter()
                .find(|known| name.contains(known))
                .unwrap_or("");
            continue;
        }
        if line.is_empty() {
            continue;
        }
        match part {
            "asm" => {
                program.push_str(&words(line));
                program.push('\n');
            }
            "mem" => memory
                .extend(line.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("a byte"))),
            "result" => result = Some(number(line)),
            "raw" => raw.extend(line.split_whitespace().map(number)),
            "error" => refused = true,
            _ => {}
        }
    }
    // The first exit has a name of its own.
    if !program.contains("l_exit:") {
        program = format!("\n{program}").replacen("\nexit\n", "\nl_exit: exit\n", 1);
    }
    let program = if raw.is_empty() {
        assemble(&program).map_err(|error| error.to_string())
    } else {
        let slots: Vec<_> = raw
            .iter()
            .map(|slot| {
                perfuse_bpf::insn::Slot::from_bytes(slot.to_le_bytes(), perfuse_abi::ByteOrder::Little)
            })
            .collect();
        perfuse_bpf::insn::decode(&slots).map_err(|error| error.to_string())
    };
    Vector { program, memory, result: result.filter(|_| !refused) }
}

/// An instruction of the suite in our words.
fn words(line: &str) -> String {
    if let Some(label) = line.strip_suffix(':') {
        return format!("l_{label}:");
    }
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let operands: Vec<String> = rest.split(',').map(|operand| operand.trim().replace('%', "")).collect();
    let half = |reg: &str| match reg.strip_prefix('r') {
        Some(number) => format!("w{number}"),
        None => hexadecimal(reg),
    };
    let place = |operand: &str, size: &str| {
        let inner = operand.trim_matches(['[', ']']).replace(' ', "");
        let at = inner.find(['+', '-']).unwrap_or(inner.len());
        let off = match &inner[at..] {
            "" => 0,
            off => i64::from(number(off.trim_start_matches('+')) as i16),
        };
        format!("(u{size} *)({} {off:+})", &inner[..at])
    };
    let size = |name: &str| match name {
        "b" => "8",
        "h" => "16",
        "w" => "32",
        _ => "64",
    };
    let label = |target: &str| match target.starts_with(['+', '-']) {
        true => format!("pc{target}"),
        false => format!("l_{target}"),
    };
    const ALU: [(&str, &str); 15] = [
        ("add", "+="),
        ("sub", "-="),
        ("mul", "*="),
        ("div", "/="),
        ("sdiv", "s/="),
        ("or", "|="),
        ("and", "&="),
        ("lsh", "<<="),
        ("rsh", ">>="),
        ("mod", "%="),
        ("smod", "s%="),
        ("xor", "^="),
        ("mov", "="),
        ("arsh", "s>>="),
        ("neg", "-"),
    ];
    const JUMPS: [(&str, &str); 11] = [
        ("jeq", "=="),
        ("jgt", ">"),
        ("jge", ">="),
        ("jset", "&"),
        ("jne", "!="),
        ("jsgt", "s>"),
        ("jsge", "s>="),
        ("jlt", "<"),
        ("jle", "<="),
        ("jslt", "s<"),
        ("jsle", "s<="),
    ];
    if name == "exit" {
        return "exit".into();
    }
    if name == "lddw" {
        return format!("{} = {:#x}", operands[0], number(&operands[1]));
    }
    if let Some(kind) = name.strip_prefix("ldx") {
        let (sign, kind) = if kind.len() == 2 && kind != "dw" { ("s", &kind[1..]) } else { ("u", kind) };
        let place = place(&operands[1], size(kind));
        return format!("{} = *{}", operands[0], place.replacen("(u", &format!("({sign}"), 1));
    }
    if let Some(kind) = name.strip_prefix("stx") {
        return format!("*{} = {}", place(&operands[0], size(kind)), operands[1]);
    }
    if let Some(kind) = name.strip_prefix("st").filter(|kind| ["b", "h", "w", "dw"].contains(kind)) {
        return format!("*{} = {}", place(&operands[0], size(kind)), number(&operands[1]) as i32);
    }
    if name == "lock" {
        return atomic(rest, &place);
    }
    for prefix in ["bswap", "swap", "le", "be"] {
        if let Some(bits) = name.strip_prefix(prefix).filter(|bits| ["16", "32", "64"].contains(bits)) {
            let op = if prefix == "swap" { "bswap" } else { prefix };
            return format!("{} = {op}{bits} {}", operands[0], operands[0]);
        }
    }
    if let Some(bits) = name.strip_prefix("movsx") {
        let (from, to) = bits.split_at(bits.len() - 2);
        return match to {
            "32" => format!("{} = (s{from}){}", half(&operands[0]), half(&operands[1])),
            _ => format!("{} = (s{from}){}", operands[0], operands[1]),
        };
    }
    match name {
        "ja" => return format!("goto {}", label(&operands[0])),
        "ja32" => return format!("gotol {}", label(&operands[0])),
        "call" => {
            let mut words = rest.split_whitespace();
            let (mode, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            return match mode {
                "local" => format!("call {}", label(target)),
                "helper" => format!("call #{target}"),
                _ => format!("call kernel#{target}"),
            };
        }
        _ => {}
    }
    let (base, is_half) = match (name.strip_suffix("32"), name.strip_suffix("64")) {
        (Some(base), _) => (base, true),
        (_, Some(base)) => (base, false),
        _ => (name, false),
    };
    let of = |operand: &str| if is_half { half(operand) } else { hexadecimal(operand) };
    if let Some((_, sign)) = JUMPS.iter().find(|known| known.0 == base) {
        let right = of(&operands[1]);
        return format!("if {} {sign} {right} goto {}", of(&operands[0]), label(&operands[2]));
    }
    let (_, sign) =
        ALU.iter().find(|known| known.0 == base).unwrap_or_else(|| panic!("an instruction: '{line}'"));
    match *sign {
        "-" => format!("{} = -{}", of(&operands[0]), of(&operands[0])),
        sign => format!("{} {sign} {}", of(&operands[0]), of(&operands[1])),
    }
}

/// Numbers of 32 bits as ours: with their sign, decimal, so that none becomes a constant of 64 bits.
fn hexadecimal(operand: &str) -> String {
    if operand.starts_with('r') { operand.into() } else { (number(operand) as i32).to_string() }
}

fn atomic(rest: &str, place: &dyn Fn(&str, &str) -> String) -> String {
    let rest = rest.replace('%', "");
    let (name, rest) = rest.split_once(char::is_whitespace).expect("an operation");
    let (fetch, name, rest) = match name {
        "fetch" => {
            let (name, rest) = rest.trim().split_once(char::is_whitespace).expect("an operation");
            (true, name, rest)
        }
        name => (false, name, rest),
    };
    let (base, bits) = name.strip_suffix("32").map_or((name, "64"), |base| (base, "32"));
    let (at, src) = rest.split_once(',').expect("two operands");
    let (place, src) = (place(at.trim(), bits), src.trim());
    let wide = if bits == "64" { "64" } else { "" };
    match base {
        "xchg" => format!("{src} = atomic{wide}_xchg({place}, {src})"),
        "cmpxchg" => format!("r0 = atomic{wide}_cmpxchg({place}, r0, {src})"),
        _ if fetch => format!("{src} = atomic{wide}_fetch_{base}({place}, {src})"),
        _ => {
            let sign = match base {
                "add" => "+=",
                "or" => "|=",
                "and" => "&=",
                _ => "^=",
            };
            format!("lock *{place} {sign} {src}")
        }
    }
}

fn words_of_the_suite_become_ours() -> Outcome {
    for (theirs, ours) in [
        ("ldxsh %r0, [%r1+2]", "r0 = *(s16 *)(r1 +2)"),
        ("stdw [%r10-8], 0x5", "*(u64 *)(r10 -8) = 5"),
        ("mov32 %r0, %r1", "w0 = w1"),
        ("movsx1664 %r0, %r1", "r0 = (s16)r1"),
        ("jne %r0, 0x80000000, exit", "if r0 != -2147483648 goto l_exit"),
        ("lock fetch add32 [%r10-4], %r1", "r1 = atomic_fetch_add((u32 *)(r10 -4), r1)"),
        ("call local func1", "call l_func1"),
    ] {
        assert_eq!(words(theirs), ours);
    }
    Ok(())
}

fn every_file_of_the_suite_has_its_result() -> Outcome {
    let folder = std::env::var("PERFUSE_BPF_CONFORMANCE")
        .map_err(|_| Skip::needs("the suite bpf_conformance", "PERFUSE_BPF_CONFORMANCE names no folder"))?;
    // The suite's own assembler takes no calls without a mode, so its runner leaves these out.
    const LEFT_OUT: [&str; 2] = ["call_unwind_fail.data", "callx.data"];
    let (mut passed, mut failed) = (0, Vec::new());
    let mut files: Vec<_> = std::fs::read_dir(Path::new(&folder))
        .expect("the folder")
        .map(|file| file.expect("a file").path())
        .collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "data")) {
        let Vector { program, mut memory, result } = parse(&std::fs::read_to_string(file).expect("a text"));
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        let ran = program.map(|program| {
            let len = memory.len() as u64;
            let mut maps = Maps::new(1, 1 << 20, 0);
            let arguments = if len == 0 { [Some(0), Some(0)] } else { [None, Some(len)] };
            run_unverified(&program, &mut maps, &mut memory, arguments, &mut NoWorld, 1_000_000).result
        });
        match (ran, result) {
            (Ok(Ok(found)), Some(wanted)) if found == wanted => passed += 1,
            (Ok(Err(_)) | Err(_), None) => passed += 1,
            (found, wanted) => failed.push(format!("{name}: {found:x?}, not {wanted:x?}")),
        }
    }
    println!("bpf_conformance: {passed} files passed, {} failed", failed.len());
    assert!(failed.is_empty() && passed > 300, "{}", failed.join("\n"));
    Ok(())
}
