//! Instructions as text, both ways, in the words of the kernel's own log: `r1 = *(u64 *)(r10 -8)`. [`assemble`] also takes lines
//! of such a log, with their numbers, and labels. A hexadecimal number that is assigned to a whole register is a constant of 64
//! bits (two slots), as the log writes these; a decimal one is a move.

use crate::helper;
use crate::insn::{AluOp, AtomicOp, Cond, Constant, Insn, Operand, Reg, Size, SwapOp, Width};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

const ALU: [(AluOp, &str); 14] = [
    (AluOp::Add, "+="),
    (AluOp::Sub, "-="),
    (AluOp::Mul, "*="),
    (AluOp::Div, "/="),
    (AluOp::SDiv, "s/="),
    (AluOp::Or, "|="),
    (AluOp::And, "&="),
    (AluOp::Lsh, "<<="),
    (AluOp::Rsh, ">>="),
    (AluOp::Mod, "%="),
    (AluOp::SMod, "s%="),
    (AluOp::Xor, "^="),
    (AluOp::Mov, "="),
    (AluOp::Arsh, "s>>="),
];

const CONDS: [(Cond, &str); 11] = [
    (Cond::Eq, "=="),
    (Cond::Gt, ">"),
    (Cond::Ge, ">="),
    (Cond::Set, "&"),
    (Cond::Ne, "!="),
    (Cond::SGt, "s>"),
    (Cond::SGe, "s>="),
    (Cond::Lt, "<"),
    (Cond::Le, "<="),
    (Cond::SLt, "s<"),
    (Cond::SLe, "s<="),
];

/// Without a result: as assignments. With one: as functions.
const ATOMICS: [(AtomicOp, &str); 9] = [
    (AtomicOp::Add, "+="),
    (AtomicOp::Or, "|="),
    (AtomicOp::And, "&="),
    (AtomicOp::Xor, "^="),
    (AtomicOp::FetchAdd, "fetch_add"),
    (AtomicOp::FetchOr, "fetch_or"),
    (AtomicOp::FetchAnd, "fetch_and"),
    (AtomicOp::FetchXor, "fetch_xor"),
    (AtomicOp::Xchg, "xchg"),
];

fn word_of<T: PartialEq>(table: &[(T, &'static str)], wanted: &T) -> &'static str {
    table.iter().find(|(known, _)| known == wanted).map_or("", |(_, word)| word)
}

fn of_word<T: Copy>(table: &[(T, &str)], word: &str) -> Option<T> {
    table.iter().find(|(_, known)| *known == word).map(|(known, _)| *known)
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.number())
    }
}

/// A register of this width.
struct Half(Width, Reg);

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.0 == Width::W64 { 'r' } else { 'w' }, self.1.number())
    }
}

/// `(u64 *)(r10 -8)`.
struct Place(Size, bool, Reg, i16);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place(size, signed, base, off) = self;
        write!(f, "({}{} *)({base} {off:+})", if *signed { 's' } else { 'u' }, size.bytes() * 8)
    }
}

impl fmt::Display for Insn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Insn::Alu { width, op, dst, src } => {
                write!(f, "{} {} ", Half(width, dst), word_of(&ALU, &op))?;
                match src {
                    Operand::Reg(src) => write!(f, "{}", Half(width, src)),
                    Operand::Imm(imm) => write!(f, "{imm}"),
                }
            }
            Insn::Neg { width, dst } => write!(f, "{} = -{}", Half(width, dst), Half(width, dst)),
            Insn::Extend { width, bits, dst, src } => {
                write!(f, "{} = (s{bits}){}", Half(width, dst), Half(width, src))
            }
            Insn::Swap { op, bits, dst } => {
                let op = match op {
                    SwapOp::Le => "le",
                    SwapOp::Be => "be",
                    SwapOp::Swap => "bswap",
                };
                write!(f, "{dst} = {op}{bits} {dst}")
            }
            Insn::Constant { dst, value } => {
                write!(f, "{dst} = ")?;
                match value {
                    Constant::Value(value) => write!(f, "{value:#x}"),
                    Constant::Map(fd) => write!(f, "map[fd:{fd}]"),
                    Constant::MapValue(fd, at) => write!(f, "map[fd:{fd}][0]{at:+}"),
                    Constant::MapIndex(index) => write!(f, "map[idx:{index}]"),
                    Constant::MapIndexValue(index, at) => write!(f, "map[idx:{index}][0]{at:+}"),
                    Constant::Variable(id, types) => write!(f, "var[id:{id}][fd:{types}]"),
                    Constant::Function(at) => write!(f, "subprog[{at:+}]"),
                }
            }
            Insn::Load { size, signed, dst, base, off } => {
                write!(f, "{dst} = *{}", Place(size, signed, base, off))
            }
            Insn::Store { size, base, off, src } => {
                write!(f, "*{} = ", Place(size, false, base, off))?;
                match src {
                    Operand::Reg(src) => write!(f, "{src}"),
                    Operand::Imm(imm) => write!(f, "{imm}"),
                }
            }
            Insn::Atomic { size, op, base, off, src } => {
                let place = Place(size, false, base, off);
                let wide = if size == Size::B8 { "64" } else { "" };
                match op {
                    AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor => {
                        write!(f, "lock *{place} {} {src}", word_of(&ATOMICS, &op))
                    }
                    AtomicOp::CmpXchg => write!(f, "r0 = atomic{wide}_cmpxchg({place}, r0, {src})"),
                    _ => write!(f, "{src} = atomic{wide}_{}({place}, {src})", word_of(&ATOMICS, &op)),
                }
            }
            Insn::LoadAcquire { size, dst, base, off } => {
                write!(f, "{dst} = load_acquire({})", Place(size, false, base, off))
            }
            Insn::StoreRelease { size, base, off, src } => {
                write!(f, "store_release({}, {src})", Place(size, false, base, off))
            }
            Insn::Packet { size, index: None, off } => {
                write!(f, "r0 = *(u{} *)skb[{off}]", size.bytes() * 8)
            }
            Insn::Packet { size, index: Some(index), off } => {
                write!(f, "r0 = *(u{} *)skb[{index} {off:+}]", size.bytes() * 8)
            }
            Insn::Goto(off) => write!(f, "goto pc{off:+}"),
            Insn::GotoLong(off) => write!(f, "gotol pc{off:+}"),
            Insn::MayGoto(off) => write!(f, "may_goto pc{off:+}"),
            Insn::If { width, cond, dst, src, off } => {
                write!(f, "if {} {} ", Half(width, dst), word_of(&CONDS, &cond))?;
                match src {
                    Operand::Reg(src) => write!(f, "{}", Half(width, src))?,
                    Operand::Imm(imm) => write!(f, "{imm:#x}")?,
                }
                write!(f, " goto pc{off:+}")
            }
            Insn::CallHelper(number) => match helper::name(number) {
                Some(name) => write!(f, "call bpf_{name}#{number}"),
                None => write!(f, "call unknown#{number}"),
            },
            Insn::CallLocal(off) => write!(f, "call pc{off:+}"),
            Insn::CallKernel { function, module: 0 } => write!(f, "call kernel#{}", function as u32),
            Insn::CallKernel { function, module } => {
                write!(f, "call kernel#{} module {module}", function as u32)
            }
            Insn::Exit => write!(f, "exit"),
        }
    }
}

/// A listing: each instruction on a line, with the number of its slot and its opcode, as the kernel's log has it.
pub fn listing(insns: &[Insn]) -> String {
    let mut slot = 0;
    let mut text = String::new();
    for insn in insns {
        text += &format!("{slot}: ({:02x}) {insn}\n", insn.encode().0.code);
        slot += insn.slots();
    }
    text
}

/// A line that is no instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssembleError {
    /// Its number, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What is wrong with it, and how it would be right.
    pub why: String,
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: '{}': {}", self.line, self.text, self.why)
    }
}

impl core::error::Error for AssembleError {}

/// Instructions of text, one a line or several between semicolons.
///
/// Labels are words with a colon; jumps and calls of functions name them, or distances: `goto pc+3`. `//` and a `#` at the beginning
/// of a line begin comments.
///
/// ```
/// let program = perfuse_bpf::assemble("r0 = 0\nloop: r0 += 1\nif r0 < 0xa goto loop\nexit")?;
/// assert_eq!(program[2].to_string(), "if r0 < 0xa goto pc-2");
/// # Ok::<(), perfuse_bpf::AssembleError>(())
/// ```
pub fn assemble(text: &str) -> Result<Vec<Insn>, AssembleError> {
    let mut insns: Vec<Insn> = Vec::new();
    let mut slot = 0;
    let mut labels: BTreeMap<&str, usize> = BTreeMap::new();
    // Jumps to labels: instruction, its slot, and where the label stands.
    let mut open: Vec<(usize, usize, &str, usize, &str)> = Vec::new();
    for (number, whole) in text.lines().enumerate() {
        let fault =
            |text: &str, why: String| AssembleError { line: number + 1, text: text.trim().to_owned(), why };
        let line = whole.split("//").next().unwrap_or_default().trim();
        if line.starts_with('#') {
            continue;
        }
        for mut part in line.split(';').map(str::trim) {
            while let Some((before, after)) = part.split_once(':') {
                let before = before.trim();
                if before.is_empty() || !before.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                    break;
                }
                part = after.trim();
                if before.bytes().all(|byte| byte.is_ascii_digit()) {
                    // A line of a log.
                    if let Some((_, after)) = part.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
                        part = after.trim();
                    }
                } else if labels.insert(before, slot).is_some() {
                    return Err(fault(line, format!("there is another label '{before}'")));
                }
            }
            if part.is_empty() {
                continue;
            }
            let tokens = tokens(part).map_err(|why| fault(part, why))?;
            let mut parser = Parser { tokens: &tokens, label: None };
            let insn = parser.insn().map_err(|why| fault(part, why))?;
            if let Some(label) = parser.label {
                open.push((insns.len(), slot, label, number, part));
            }
            slot += insn.slots();
            insns.push(insn);
        }
    }
    for (index, slot, label, number, part) in open {
        let fault = |why| AssembleError { line: number + 1, text: part.to_owned(), why };
        let to = *labels.get(label).ok_or_else(|| fault(format!("there is no label '{label}'")))?;
        let distance = to as i64 - slot as i64 - 1;
        let far =
            |_| fault(format!("the label '{label}' is {distance} slots away, too far; gotol goes farther"));
        match &mut insns[index] {
            Insn::Goto(off) | Insn::MayGoto(off) | Insn::If { off, .. } => {
                *off = i16::try_from(distance).map_err(far)?;
            }
            Insn::GotoLong(off)
            | Insn::CallLocal(off)
            | Insn::Constant { value: Constant::Function(off), .. } => {
                *off = i32::try_from(distance).map_err(far)?;
            }
            _ => {}
        }
    }
    Ok(insns)
}

/// Words and signs.
fn tokens(text: &str) -> Result<Vec<&str>, String> {
    const SIGNS: [&str; 15] =
        ["<<=", ">>=", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "="];
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '#' | '.');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            sign.len()
        } else if "<>&+-*/()[],:!".contains(first) {
            1
        } else {
            return Err(format!("'{first}' has no place in an instruction"));
        };
        // "s>", "s/=": the sign belongs to what follows it at once.
        let joined = &rest[..len] == "s" && rest[1..].starts_with(['>', '<', '/', '%']);
        let len = if joined {
            let after = &rest[1..];
            1 + SIGNS.iter().find(|sign| after.starts_with(**sign)).map_or(1, |sign| sign.len())
        } else {
            len
        };
        tokens.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    Ok(tokens)
}

/// The tokens of an instruction that are still to come.
struct Parser<'t, 'a> {
    tokens: &'t [&'a str],
    /// A label that the instruction names.
    label: Option<&'a str>,
}

type Parsed<T> = Result<T, String>;

impl<'a> Parser<'_, 'a> {
    fn peek(&self) -> &'a str {
        self.tokens.first().copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.tokens = self.tokens.get(1..).unwrap_or_default();
        token
    }

    fn takes(&mut self, token: &str) -> bool {
        let is = self.peek() == token;
        if is {
            self.next();
        }
        is
    }

    fn wants(&mut self, token: &str) -> Parsed<()> {
        match self.peek() {
            found if found == token => {
                self.next();
                Ok(())
            }
            "" => Err(format!("'{token}' is missing at the end")),
            found => Err(format!("'{token}' is wanted where '{found}' is")),
        }
    }

    /// A register with its width.
    fn half(&mut self) -> Parsed<(Width, Reg)> {
        let word = self.next();
        half(word).ok_or_else(|| match word {
            "" => "a register is missing at the end".to_owned(),
            _ => format!("'{word}' is no register: there are r0 to r10, and w0 to w10 for their low halves"),
        })
    }

    fn reg(&mut self) -> Parsed<Reg> {
        match self.half()? {
            (Width::W64, reg) => Ok(reg),
            (Width::W32, reg) => {
                Err(format!("a whole register is wanted here: {reg}, not w{}", reg.number()))
            }
        }
    }

    /// A number with a sign, of up to 64 bits of either kind.
    fn number(&mut self) -> Parsed<i128> {
        let negative = self.takes("-");
        if !negative {
            self.takes("+");
        }
        let word = self.next();
        let digits = word.strip_prefix("0x").map(|digits| (digits, 16)).unwrap_or((word, 10));
        let number = u64::from_str_radix(digits.0, digits.1).map_err(|_| match word {
            "" => "a number is missing at the end".to_owned(),
            _ => format!("'{word}' is no number"),
        })?;
        Ok(if negative { -i128::from(number) } else { i128::from(number) })
    }

    /// A number of 32 bits; hexadecimal ones may use the sign's bit.
    fn imm(&mut self) -> Parsed<i32> {
        let hexadecimal = self.peek().starts_with("0x");
        let number = self.number()?;
        let fits = i32::try_from(number).ok();
        let fits =
            fits.or_else(|| u32::try_from(number).ok().filter(|_| hexadecimal).map(|bits| bits as i32));
        fits.ok_or_else(|| format!("{number} does not fit in 32 bits"))
    }

    fn off(&mut self) -> Parsed<i16> {
        let number = self.number()?;
        i16::try_from(number).map_err(|_| format!("the distance {number} does not fit in 16 bits"))
    }

    /// `(u64 *)(r10 -8)`.
    fn place(&mut self) -> Parsed<(Size, bool, Reg, i16)> {
        let (size, signed) = self.cast()?;
        self.wants("(")?;
        let base = self.reg()?;
        let off = if self.peek() == ")" { 0 } else { self.off()? };
        self.wants(")")?;
        Ok((size, signed, base, off))
    }

    /// `(u64 *)`.
    fn cast(&mut self) -> Parsed<(Size, bool)> {
        self.wants("(")?;
        let word = self.next();
        let (sign, bits) = word.split_at(word.len().min(1));
        let size = match bits {
            "8" => Size::B1,
            "16" => Size::B2,
            "32" => Size::B4,
            "64" => Size::B8,
            _ => return Err(format!("'{word}' is no size: there are u8, u16, u32, u64, s8, s16, s32")),
        };
        let signed = sign == "s";
        if !signed && sign != "u" || signed && size == Size::B8 {
            return Err(format!("'{word}' is no size: there are u8, u16, u32, u64, s8, s16, s32"));
        }
        self.wants("*")?;
        self.wants(")")?;
        Ok((size, signed))
    }

    fn unsigned_place(&mut self) -> Parsed<(Size, Reg, i16)> {
        match self.place()? {
            (size, false, base, off) => Ok((size, base, off)),
            _ => Err("only loads extend with the sign".to_owned()),
        }
    }

    /// `pc+3`, `+3` or a label.
    fn target(&mut self) -> Parsed<i32> {
        if self.takes("pc") || matches!(self.peek(), "+" | "-") {
            let number = self.number()?;
            return i32::try_from(number).map_err(|_| format!("the distance {number} is too long"));
        }
        match self.next() {
            "" => {
                Err("a place to go to is missing at the end: a label, or a distance such as pc+3".to_owned())
            }
            label => {
                self.label = Some(label);
                Ok(0)
            }
        }
    }

    fn short_target(&mut self) -> Parsed<i16> {
        let off = self.target()?;
        i16::try_from(off)
            .map_err(|_| format!("the distance {off} does not fit in 16 bits; gotol goes farther"))
    }

    fn insn(&mut self) -> Parsed<Insn> {
        let insn = self.any()?;
        match self.peek() {
            "" => Ok(insn),
            more => Err(format!("'{more}' is too much: the instruction is '{insn}'")),
        }
    }

    fn any(&mut self) -> Parsed<Insn> {
        match self.peek() {
            "exit" => {
                self.next();
                Ok(Insn::Exit)
            }
            "goto" => {
                self.next();
                self.short_target().map(Insn::Goto)
            }
            "gotol" => {
                self.next();
                self.target().map(Insn::GotoLong)
            }
            "may_goto" => {
                self.next();
                self.short_target().map(Insn::MayGoto)
            }
            "call" => {
                self.next();
                self.call()
            }
            "if" => {
                self.next();
                let (width, dst) = self.half()?;
                let word = self.next();
                let cond = of_word(&CONDS, word).ok_or_else(|| {
                    format!("'{word}' is no comparison: there are == != > >= < <= s> s>= s< s<= &")
                })?;
                let src = self.operand(width)?;
                self.wants("goto")?;
                Ok(Insn::If { width, cond, dst, src, off: self.short_target()? })
            }
            "lock" => {
                self.next();
                self.wants("*")?;
                let (size, base, off) = self.unsigned_place()?;
                let word = self.next();
                let op = of_word(&ATOMICS[..4], word)
                    .ok_or_else(|| format!("'{word}' is nothing that lock does: there are += &= |= ^="))?;
                Ok(Insn::Atomic { size: wide(size)?, op, base, off, src: self.reg()? })
            }
            "store_release" => {
                self.next();
                self.wants("(")?;
                let (size, base, off) = self.unsigned_place()?;
                self.wants(",")?;
                let src = self.reg()?;
                self.wants(")")?;
                Ok(Insn::StoreRelease { size, base, off, src })
            }
            "*" => {
                self.next();
                let (size, base, off) = self.unsigned_place()?;
                self.wants("=")?;
                let src = match half(self.peek()) {
                    Some(_) => Operand::Reg(self.reg()?),
                    None => Operand::Imm(self.imm()?),
                };
                Ok(Insn::Store { size, base, off, src })
            }
            _ => self.assignment(),
        }
    }

    fn operand(&mut self, width: Width) -> Parsed<Operand> {
        match half(self.peek()) {
            Some((found, reg)) if found == width => {
                self.next();
                Ok(Operand::Reg(reg))
            }
            Some(_) => Err("both registers are whole (r) or both are halves (w)".to_owned()),
            None => self.imm().map(Operand::Imm),
        }
    }

    fn call(&mut self) -> Parsed<Insn> {
        let word = self.peek();
        if matches!(word, "pc" | "+" | "-") {
            return self.target().map(Insn::CallLocal);
        }
        if let Some(function) = word.strip_prefix("kernel#") {
            self.next();
            let function: u32 = function.parse().map_err(|_| format!("'{word}' has no number"))?;
            let module = if self.takes("module") { self.off()? } else { 0 };
            return Ok(Insn::CallKernel { function: function as i32, module });
        }
        let (name, number) = word.split_once('#').map_or((word, None), |(name, number)| (name, Some(number)));
        let number = number.or_else(|| name.bytes().all(|byte| byte.is_ascii_digit()).then_some(name));
        let number = match number {
            Some(number) => Some(number.parse().map_err(|_| format!("'{number}' is no number of a helper"))?),
            None => helper::by_name(name.strip_prefix("bpf_").unwrap_or(name)),
        };
        match number {
            Some(number) => {
                self.next();
                Ok(Insn::CallHelper(number))
            }
            None => self.target().map(Insn::CallLocal),
        }
    }

    /// All that begins with a register.
    fn assignment(&mut self) -> Parsed<Insn> {
        let (width, dst) = self.half()?;
        let word = self.next();
        let op = of_word(&ALU, word).ok_or_else(|| match word {
            "" => "an operation is missing at the end".to_owned(),
            _ => {
                format!("'{word}' is no operation: there are = += -= *= /= s/= %= s%= |= &= ^= <<= >>= s>>=")
            }
        })?;
        if op != AluOp::Mov {
            return Ok(Insn::Alu { width, op, dst, src: self.operand(width)? });
        }
        let whole = |insn| match width {
            Width::W64 => Ok(insn),
            Width::W32 => Err(format!("a whole register is wanted on the left: {dst}")),
        };
        let word = self.peek();
        match word {
            "*" => {
                self.next();
                let (size, signed) = self.cast()?;
                if self.takes("skb") {
                    return self.packet(size, dst);
                }
                self.wants("(")?;
                let base = self.reg()?;
                let off = if self.peek() == ")" { 0 } else { self.off()? };
                self.wants(")")?;
                whole(Insn::Load { size, signed, dst, base, off })
            }
            "(" => {
                self.next();
                let word = self.next();
                let bits = match (word, width) {
                    ("s8", _) => 8,
                    ("s16", _) => 16,
                    ("s32", Width::W64) => 32,
                    _ => return Err(format!("'{word}' is nothing to extend from: there are s8, s16, s32")),
                };
                self.wants(")")?;
                match self.half()? {
                    (found, src) if found == width => Ok(Insn::Extend { width, bits, dst, src }),
                    _ => Err("both registers are whole (r) or both are halves (w)".to_owned()),
                }
            }
            "-" if self.tokens.get(1).is_some_and(|word| half(word).is_some()) => {
                self.next();
                match self.half()? {
                    found if found == (width, dst) => Ok(Insn::Neg { width, dst }),
                    _ => Err("the same register is wanted on both sides".to_owned()),
                }
            }
            "load_acquire" => {
                self.next();
                self.wants("(")?;
                let (size, base, off) = self.unsigned_place()?;
                self.wants(")")?;
                whole(Insn::LoadAcquire { size, dst, base, off })
            }
            "map" | "var" | "subprog" => {
                let value = self.constant()?;
                whole(Insn::Constant { dst, value })
            }
            _ if word.starts_with("atomic") => whole(self.atomic(dst)?),
            _ if swap(word).is_some() => {
                self.next();
                let (op, bits) = swap(word).expect("just looked at");
                match self.reg()? {
                    src if src == dst => whole(Insn::Swap { op, bits, dst }),
                    _ => Err("the same register is wanted on both sides".to_owned()),
                }
            }
            _ => {
                let is_long = self.tokens.last() == Some(&"ll");
                if width == Width::W64 && (is_long || word.starts_with("0x")) {
                    let number = self.number()?;
                    self.takes("ll");
                    let value = u64::try_from(number).or_else(|_| i64::try_from(number).map(|n| n as u64));
                    let value = value.map_err(|_| format!("{number} does not fit in 64 bits"))?;
                    return Ok(Insn::Constant { dst, value: Constant::Value(value) });
                }
                Ok(Insn::Alu { width, op, dst, src: self.operand(width)? })
            }
        }
    }

    /// `[r1 +5]` after `r0 = *(u8 *)skb`.
    fn packet(&mut self, size: Size, dst: Reg) -> Parsed<Insn> {
        if dst != Reg::R0 {
            return Err("bytes of the packet go to r0".to_owned());
        }
        self.wants("[")?;
        let index = match half(self.peek()) {
            Some(_) => Some(self.reg()?),
            None => None,
        };
        let off = if self.peek() == "]" { 0 } else { self.imm()? };
        self.wants("]")?;
        Ok(Insn::Packet { size, index, off })
    }

    /// `map[fd:3]`, `map[fd:3][0]+8`, `map[idx:0]`, `var[id:5][fd:0]`, `subprog[+5]`.
    fn constant(&mut self) -> Parsed<Constant> {
        let kind = self.next();
        self.wants("[")?;
        if kind == "subprog" {
            let at = self.target()?;
            self.wants("]")?;
            return Ok(Constant::Function(at));
        }
        let name = self.next();
        self.wants(":")?;
        let number = self.imm()?;
        self.wants("]")?;
        if kind == "var" {
            self.wants("[")?;
            self.wants("fd")?;
            self.wants(":")?;
            let types = self.imm()?;
            self.wants("]")?;
            return Ok(Constant::Variable(number, types));
        }
        let at = if self.takes("[") {
            self.wants("0")?;
            self.wants("]")?;
            Some(if self.peek().is_empty() { 0 } else { self.imm()? })
        } else {
            None
        };
        match (name, at) {
            ("fd", None) => Ok(Constant::Map(number)),
            ("fd", Some(at)) => Ok(Constant::MapValue(number, at)),
            ("idx", None) => Ok(Constant::MapIndex(number)),
            ("idx", Some(at)) => Ok(Constant::MapIndexValue(number, at)),
            _ => Err(format!("'{name}' tells no map: there are map[fd:3] and map[idx:3]")),
        }
    }

    /// `atomic64_fetch_add((u64 *)(r1 +0), r2)`, which goes to `dst`.
    fn atomic(&mut self, dst: Reg) -> Parsed<Insn> {
        let word = self.next();
        let (kind, name) = word.split_once('_').unwrap_or((word, ""));
        let op = if name == "cmpxchg" { Some(AtomicOp::CmpXchg) } else { of_word(&ATOMICS[4..], name) };
        let op = op.ok_or_else(|| format!("'{word}' is no atomic operation"))?;
        self.wants("(")?;
        let (size, base, off) = self.unsigned_place()?;
        self.wants(",")?;
        if op == AtomicOp::CmpXchg {
            self.wants("r0")?;
            self.wants(",")?;
        }
        let src = self.reg()?;
        self.wants(")")?;
        let result = if op == AtomicOp::CmpXchg { Reg::R0 } else { src };
        if dst != result {
            return Err(format!("the result goes to {result}"));
        }
        if (kind == "atomic64") != (size == Size::B8) {
            return Err("atomic64 works on u64, atomic on u32".to_owned());
        }
        Ok(Insn::Atomic { size: wide(size)?, op, base, off, src })
    }
}

fn half(word: &str) -> Option<(Width, Reg)> {
    let width = match word.bytes().next()? {
        b'r' => Width::W64,
        b'w' => Width::W32,
        _ => return None,
    };
    let reg = Reg::new(word[1..].parse().ok()?)?;
    // "r01" is a label, if anything.
    (word[1..] == reg.number().to_string()).then_some((width, reg))
}

fn swap(word: &str) -> Option<(SwapOp, u8)> {
    let ops = [("le", SwapOp::Le), ("be", SwapOp::Be), ("bswap", SwapOp::Swap)];
    ops.iter().find_map(|(name, op)| match word.strip_prefix(name)? {
        "16" => Some((*op, 16)),
        "32" => Some((*op, 32)),
        "64" => Some((*op, 64)),
        _ => None,
    })
}

fn wide(size: Size) -> Parsed<Size> {
    match size {
        Size::B4 | Size::B8 => Ok(size),
        _ => Err("atomic operations work on u32 and u64".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insn::any;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn assembling_undoes_disassembling(insns in proptest::collection::vec(any::insn(), 1..20)) {
            let lines: Vec<String> = insns.iter().map(Insn::to_string).collect();
            prop_assert_eq!(assemble(&lines.join("\n")).map_err(|error| error.to_string()), Ok(insns.clone()));
            prop_assert_eq!(assemble(&listing(&insns)).map_err(|error| error.to_string()), Ok(insns));
        }

        #[test]
        fn text_of_any_kind_is_taken_or_refused(text in "[rw0-9a-z=+*/<>&() :;\\[\\]_.,#\n-]{0,60}") {
            let _ = assemble(&text);
        }
    }

    #[test]
    fn instructions_read_as_in_the_log_of_the_kernel() {
        let text = "\
r0 = 0
r1 = 0xffffffff00000001
r1 += r2
w1 s>>= 3
r3 s/= 7
r1 = (s8)r2
r4 = -r4
r5 = bswap32 r5
r5 = be16 r5
r1 = *(u64 *)(r10 -8)
r1 = *(s16 *)(r10 -8)
*(u32 *)(r10 -4) = 7
*(u8 *)(r1 +0) = r2
lock *(u64 *)(r1 +0) += r2
r2 = atomic_fetch_or((u32 *)(r1 +4), r2)
r2 = atomic64_xchg((u64 *)(r1 +0), r2)
r0 = atomic64_cmpxchg((u64 *)(r1 +0), r0, r2)
r1 = load_acquire((u64 *)(r2 +0))
store_release((u8 *)(r2 +0), r3)
if r1 s> 0x5 goto pc+3
if w1 == w2 goto pc-1
if r1 & 0xfffffff0 goto pc+0
gotol pc+70000
call bpf_map_lookup_elem#1
call pc+5
r1 = map[fd:3]
r1 = map[idx:1][0]+16
r2 = subprog[+7]
r0 = *(u16 *)skb[12]
exit";
        let insns = assemble(text).unwrap();
        let lines: Vec<String> = insns.iter().map(Insn::to_string).collect();
        assert_eq!(lines.join("\n"), text);
    }

    #[test]
    fn labels_helpers_and_comments_are_read() {
        let program = assemble(
            "r6 = r1 // the context\n# nothing\nagain: call ktime_get_ns; r7 = r0\nif r7 != r0 goto again\ncall next\nexit\nnext: r0 = 0x5 ll\nexit",
        )
        .unwrap();
        let lines: Vec<String> = program.iter().map(Insn::to_string).collect();
        assert_eq!(
            lines,
            [
                "r6 = r1",
                "call bpf_ktime_get_ns#5",
                "r7 = r0",
                "if r7 != r0 goto pc-3",
                "call pc+1",
                "exit",
                "r0 = 0x5",
                "exit"
            ]
        );
    }

    #[test]
    fn faults_name_the_line_and_what_would_be_right() {
        let fault = |text: &str| assemble(text).unwrap_err().to_string();
        assert_eq!(
            fault("r0 = 0\nr11 = 5"),
            "line 2: 'r11 = 5': 'r11' is no register: there are r0 to r10, and w0 to w10 for their low halves"
        );
        assert_eq!(
            fault("if r0 => 5 goto out"),
            "line 1: 'if r0 => 5 goto out': '=' is no comparison: there are == != > >= < <= s> s>= s< s<= &"
        );
        assert_eq!(fault("goto out"), "line 1: 'goto out': there is no label 'out'");
        assert_eq!(
            fault("r0 = w1"),
            "line 1: 'r0 = w1': both registers are whole (r) or both are halves (w)"
        );
        assert_eq!(
            fault("r0 += 99999999999"),
            "line 1: 'r0 += 99999999999': 99999999999 does not fit in 32 bits"
        );
        assert_eq!(fault("exit 5"), "line 1: 'exit 5': '5' is too much: the instruction is 'exit'");
    }
}
