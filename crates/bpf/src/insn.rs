//! Instructions as data, and their eight bytes. [`assemble`](crate::assemble) and `Display` are their text,
//! [`verify`](crate::verify()) proves what they do, a [`Machine`](crate::Machine) does it. Every instruction that Linux 6.18 takes has
//! one form here; two that mean the same but differ in their bytes are two, so that decoding and encoding lose nothing.

#[cfg(test)]
pub(crate) mod any;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use perfuse_abi::ByteOrder;

/// One of the registers: `r0` for results, `r1` to `r5` for arguments, `r6` to `r9` that calls keep, `r10` the frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(u8);

#[allow(missing_docs, reason = "the names are those of the registers")]
impl Reg {
    pub const R0: Reg = Reg(0);
    pub const R1: Reg = Reg(1);
    pub const R2: Reg = Reg(2);
    pub const R3: Reg = Reg(3);
    pub const R4: Reg = Reg(4);
    pub const R5: Reg = Reg(5);
    pub const R6: Reg = Reg(6);
    pub const R7: Reg = Reg(7);
    pub const R8: Reg = Reg(8);
    pub const R9: Reg = Reg(9);
    pub const R10: Reg = Reg(10);
}

impl Reg {
    /// The register with this number, of 0 to 10.
    pub const fn new(number: u8) -> Option<Reg> {
        if number <= 10 { Some(Reg(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its number, as an index.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How much of a register an operation works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// The low half; the high half of the result is zero.
    W32,
    /// All of it.
    W64,
}

/// The bytes of an access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the sizes")]
pub enum Size {
    B1,
    B2,
    B4,
    B8,
}

impl Size {
    /// In bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Size::B1 => 1,
            Size::B2 => 2,
            Size::B4 => 4,
            Size::B8 => 8,
        }
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Size::B4 => 0x00,
            Size::B2 => 0x08,
            Size::B1 => 0x10,
            Size::B8 => 0x18,
        }
    }

    /// The bits of an opcode that tell the size.
    pub(crate) const BITS: u8 = 0x18;

    const fn of_code(code: u8) -> Size {
        match code & Size::BITS {
            0x00 => Size::B4,
            0x08 => Size::B2,
            0x10 => Size::B1,
            _ => Size::B8,
        }
    }
}

/// The right side of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A number, extended with its sign.
    Imm(i32),
}

/// Arithmetic of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the instruction set")]
pub enum AluOp {
    Add,
    Sub,
    Mul,
    Div,
    SDiv,
    Or,
    And,
    Lsh,
    Rsh,
    Mod,
    SMod,
    Xor,
    Mov,
    Arsh,
}

impl AluOp {
    /// All of them.
    pub const ALL: [AluOp; 14] = [
        AluOp::Add,
        AluOp::Sub,
        AluOp::Mul,
        AluOp::Div,
        AluOp::SDiv,
        AluOp::Or,
        AluOp::And,
        AluOp::Lsh,
        AluOp::Rsh,
        AluOp::Mod,
        AluOp::SMod,
        AluOp::Xor,
        AluOp::Mov,
        AluOp::Arsh,
    ];

    /// The operation bits of the opcode, and the offset that tells signed division from unsigned.
    const fn code(self) -> (u8, i16) {
        match self {
            AluOp::Add => (0x00, 0),
            AluOp::Sub => (0x10, 0),
            AluOp::Mul => (0x20, 0),
            AluOp::Div => (0x30, 0),
            AluOp::SDiv => (0x30, 1),
            AluOp::Or => (0x40, 0),
            AluOp::And => (0x50, 0),
            AluOp::Lsh => (0x60, 0),
            AluOp::Rsh => (0x70, 0),
            AluOp::Mod => (0x90, 0),
            AluOp::SMod => (0x90, 1),
            AluOp::Xor => (0xa0, 0),
            AluOp::Mov => (0xb0, 0),
            AluOp::Arsh => (0xc0, 0),
        }
    }

    fn of_code(code: u8, off: i16) -> Option<AluOp> {
        AluOp::ALL.into_iter().find(|op| op.code() == (code & 0xf0, off))
    }
}

/// A change of byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SwapOp {
    /// From the machine's order to little-endian, and back.
    Le,
    /// From the machine's order to big-endian, and back.
    Be,
    /// Turned round in any case.
    Swap,
}

/// A comparison of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the instruction set")]
pub enum Cond {
    Eq,
    Gt,
    Ge,
    /// A bit is set in both.
    Set,
    Ne,
    SGt,
    SGe,
    Lt,
    Le,
    SLt,
    SLe,
}

impl Cond {
    /// All of them.
    pub const ALL: [Cond; 11] = [
        Cond::Eq,
        Cond::Gt,
        Cond::Ge,
        Cond::Set,
        Cond::Ne,
        Cond::SGt,
        Cond::SGe,
        Cond::Lt,
        Cond::Le,
        Cond::SLt,
        Cond::SLe,
    ];

    /// The operation bits of the opcode.
    const fn code(self) -> u8 {
        match self {
            Cond::Eq => 0x10,
            Cond::Gt => 0x20,
            Cond::Ge => 0x30,
            Cond::Set => 0x40,
            Cond::Ne => 0x50,
            Cond::SGt => 0x60,
            Cond::SGe => 0x70,
            Cond::Lt => 0xa0,
            Cond::Le => 0xb0,
            Cond::SLt => 0xc0,
            Cond::SLe => 0xd0,
        }
    }
}

/// An operation on memory that is one step for all cpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the instruction set")]
pub enum AtomicOp {
    Add,
    Or,
    And,
    Xor,
    /// The register gets the value that was there before.
    FetchAdd,
    FetchOr,
    FetchAnd,
    FetchXor,
    Xchg,
    /// Compares with `r0`, which gets the value that was there before.
    CmpXchg,
}

/// All of them, with their numbers.
const ATOMICS: [(AtomicOp, i32); 10] = [
    (AtomicOp::Add, 0x00),
    (AtomicOp::Or, 0x40),
    (AtomicOp::And, 0x50),
    (AtomicOp::Xor, 0xa0),
    (AtomicOp::FetchAdd, 0x01),
    (AtomicOp::FetchOr, 0x41),
    (AtomicOp::FetchAnd, 0x51),
    (AtomicOp::FetchXor, 0xa1),
    (AtomicOp::Xchg, 0xe1),
    (AtomicOp::CmpXchg, 0xf1),
];
const LOAD_ACQUIRE: i32 = 0x100;
const STORE_RELEASE: i32 = 0x110;

/// The 64 bits of an instruction of two slots: a number, or what a loader puts in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// The number itself.
    Value(u64),
    /// A map, by its descriptor (of the embedded kernel: its number).
    Map(i32),
    /// A byte of the value of a map that has one, by the map's descriptor.
    MapValue(i32, i32),
    /// A map, by its place in the loader's list of descriptors.
    MapIndex(i32),
    /// A byte of the value of such a map.
    MapIndexValue(i32, i32),
    /// A variable of the kernel, by its number and the descriptor of its types.
    Variable(i32, i32),
    /// A function of this program, so many slots from the one after the first slot.
    Function(i32),
}

impl Constant {
    /// The number of its kind, which stands as the second register, and its low and high half.
    pub(crate) fn parts(self) -> (u8, i32, i32) {
        match self {
            Constant::Value(value) => (0, value as u32 as i32, (value >> 32) as u32 as i32),
            Constant::Map(fd) => (1, fd, 0),
            Constant::MapValue(fd, at) => (2, fd, at),
            Constant::Variable(id, types) => (3, id, types),
            Constant::Function(at) => (4, at, 0),
            Constant::MapIndex(index) => (5, index, 0),
            Constant::MapIndexValue(index, at) => (6, index, at),
        }
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "fields are named by the types")]
pub enum Insn {
    /// `dst = dst op src`.
    Alu { width: Width, op: AluOp, dst: Reg, src: Operand },
    /// `dst = -dst`.
    Neg { width: Width, dst: Reg },
    /// `dst = src`, of which the low 8, 16 or 32 bits are extended with their sign.
    Extend { width: Width, bits: u8, dst: Reg, src: Reg },
    /// The low 16, 32 or 64 bits in another byte order; the rest becomes zero.
    Swap { op: SwapOp, bits: u8, dst: Reg },
    /// 64 bits; two slots.
    Constant { dst: Reg, value: Constant },
    /// `dst = *(base + off)`.
    Load { size: Size, signed: bool, dst: Reg, base: Reg, off: i16 },
    /// `*(base + off) = src`.
    Store { size: Size, base: Reg, off: i16, src: Operand },
    /// In one step.
    Atomic { size: Size, op: AtomicOp, base: Reg, off: i16, src: Reg },
    /// A load before all that follow.
    LoadAcquire { size: Size, dst: Reg, base: Reg, off: i16 },
    /// A store after all that went before.
    StoreRelease { size: Size, base: Reg, off: i16, src: Reg },
    /// `r0 =` bytes of the packet, in network order, at a constant place or after a register.
    Packet { size: Size, index: Option<Reg>, off: i32 },
    /// So many slots on from the next.
    Goto(i16),
    /// The same, as far as it wants.
    GotoLong(i32),
    /// Goes, or goes on, as the kernel likes; it goes when too much time is over.
    MayGoto(i16),
    /// If `dst cond src`.
    If { width: Width, cond: Cond, dst: Reg, src: Operand, off: i16 },
    /// A helper of the kernel, by its number.
    CallHelper(u32),
    /// A function of this program, so many slots on from the next.
    CallLocal(i32),
    /// A function of the kernel, by the number of its type, in a module or the kernel itself.
    CallKernel { function: i32, module: i16 },
    /// Returns `r0`.
    Exit,
}

/// `struct bpf_insn`, taken apart and not understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The opcode.
    pub code: u8,
    /// The first register, 0 to 15.
    pub dst: u8,
    /// The second register, or what tells forms of an opcode from each other.
    pub src: u8,
    /// A distance.
    pub off: i16,
    /// A number.
    pub imm: i32,
}

impl Slot {
    /// Bytes of a slot.
    pub const SIZE: usize = 8;

    /// From its bytes.
    pub fn from_bytes(bytes: [u8; 8], order: ByteOrder) -> Self {
        let [code, regs, o0, o1, i0, i1, i2, i3] = bytes;
        let (off, imm, low, high) = ([o0, o1], [i0, i1, i2, i3], regs & 15, regs >> 4);
        match order {
            ByteOrder::Little => {
                Slot { code, dst: low, src: high, off: i16::from_le_bytes(off), imm: i32::from_le_bytes(imm) }
            }
            ByteOrder::Big => {
                Slot { code, dst: high, src: low, off: i16::from_be_bytes(off), imm: i32::from_be_bytes(imm) }
            }
        }
    }

    /// Its bytes.
    pub fn to_bytes(self, order: ByteOrder) -> [u8; 8] {
        let Slot { code, dst, src, off, imm } = self;
        let (regs, [o0, o1], [i0, i1, i2, i3]) = match order {
            ByteOrder::Little => (dst & 15 | src << 4, off.to_le_bytes(), imm.to_le_bytes()),
            ByteOrder::Big => (src & 15 | dst << 4, off.to_be_bytes(), imm.to_be_bytes()),
        };
        [code, regs, o0, o1, i0, i1, i2, i3]
    }
}

/// A slot that is no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Which.
    pub slot: usize,
    /// Why.
    pub why: Undecodable,
    /// Its bytes.
    pub found: Slot,
}

/// Why a slot is no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecodable {
    /// No instruction has this opcode.
    Opcode,
    /// There are `r0` to `r10`.
    Register(u8),
    /// Fields that this instruction does not use have to be zero.
    Reserved,
    /// The second slot of a constant is not there, or is no such slot.
    Half,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeError { slot, found, .. } = self;
        write!(f, "instruction {slot} (opcode {:#04x}) ", found.code)?;
        match self.why {
            Undecodable::Opcode => write!(f, "is none that Linux 6.18 knows"),
            Undecodable::Register(number) => write!(f, "names r{number}; there are r0 to r10"),
            Undecodable::Reserved => write!(
                f,
                "has a field that it does not use, and that is not zero: dst {}, src {}, off {}, imm {}",
                found.dst, found.src, found.off, found.imm
            ),
            Undecodable::Half => write!(f, "is half of one: a 64-bit constant takes two slots"),
        }
    }
}

impl core::error::Error for DecodeError {}

pub(crate) const W64: u8 = 0x07;
pub(crate) const W32: u8 = 0x04;
const JMP: u8 = 0x05;
const JMP32: u8 = 0x06;
pub(crate) const LDX: u8 = 0x01;
pub(crate) const ST: u8 = 0x02;
pub(crate) const STX: u8 = 0x03;
pub(crate) const REG: u8 = 0x08;
/// The first slot of a constant.
pub(crate) const CONSTANT: u8 = 0x18;
/// A call of any kind; the second register says which.
pub(crate) const CALL: u8 = 0x80 | JMP;

fn width(code: u8) -> Width {
    if matches!(code & 7, W64 | JMP) { Width::W64 } else { Width::W32 }
}

fn operand(src: Operand) -> (u8, u8, i32) {
    match src {
        Operand::Reg(reg) => (REG, reg.0, 0),
        Operand::Imm(imm) => (0, 0, imm),
    }
}

impl Insn {
    /// Slots that it takes: two for a constant of 64 bits, else one.
    pub const fn slots(&self) -> usize {
        if matches!(self, Insn::Constant { .. }) { 2 } else { 1 }
    }

    /// Its slots; the second one for a constant alone.
    pub fn encode(&self) -> (Slot, Option<Slot>) {
        let slot = |code, dst: u8, src: u8, off, imm| (Slot { code, dst, src, off, imm }, None);
        match *self {
            Insn::Alu { width, op, dst, src } => {
                let (code, off) = op.code();
                let (from, src, imm) = operand(src);
                slot(code | from | if width == Width::W64 { W64 } else { W32 }, dst.0, src, off, imm)
            }
            Insn::Neg { width, dst } => {
                slot(0x80 | if width == Width::W64 { W64 } else { W32 }, dst.0, 0, 0, 0)
            }
            Insn::Extend { width, bits, dst, src } => {
                let class = if width == Width::W64 { W64 } else { W32 };
                slot(0xb0 | REG | class, dst.0, src.0, i16::from(bits), 0)
            }
            Insn::Swap { op, bits, dst } => {
                let code = match op {
                    SwapOp::Le => 0xd0 | W32,
                    SwapOp::Be => 0xd0 | REG | W32,
                    SwapOp::Swap => 0xd0 | W64,
                };
                slot(code, dst.0, 0, 0, i32::from(bits))
            }
            Insn::Constant { dst, value } => {
                let (src, low, high) = value.parts();
                let first = Slot { code: CONSTANT, dst: dst.0, src, off: 0, imm: low };
                (first, Some(Slot { imm: high, ..Slot::default() }))
            }
            Insn::Load { size, signed, dst, base, off } => {
                slot(if signed { 0x80 } else { 0x60 } | size.code() | LDX, dst.0, base.0, off, 0)
            }
            Insn::Store { size, base, off, src: Operand::Imm(imm) } => {
                slot(0x60 | size.code() | ST, base.0, 0, off, imm)
            }
            Insn::Store { size, base, off, src: Operand::Reg(src) } => {
                slot(0x60 | size.code() | STX, base.0, src.0, off, 0)
            }
            Insn::Atomic { size, op, base, off, src } => {
                let number = ATOMICS.iter().find(|known| known.0 == op).map_or(0, |known| known.1);
                slot(0xc0 | size.code() | STX, base.0, src.0, off, number)
            }
            Insn::LoadAcquire { size, dst, base, off } => {
                slot(0xc0 | size.code() | STX, dst.0, base.0, off, LOAD_ACQUIRE)
            }
            Insn::StoreRelease { size, base, off, src } => {
                slot(0xc0 | size.code() | STX, base.0, src.0, off, STORE_RELEASE)
            }
            Insn::Packet { size, index: None, off } => slot(0x20 | size.code(), 0, 0, 0, off),
            Insn::Packet { size, index: Some(index), off } => slot(0x40 | size.code(), 0, index.0, 0, off),
            Insn::Goto(off) => slot(JMP, 0, 0, off, 0),
            Insn::GotoLong(off) => slot(JMP32, 0, 0, 0, off),
            Insn::MayGoto(off) => slot(0xe0 | JMP, 0, 0, off, 0),
            Insn::If { width, cond, dst, src, off } => {
                let (from, src, imm) = operand(src);
                slot(cond.code() | from | if width == Width::W64 { JMP } else { JMP32 }, dst.0, src, off, imm)
            }
            Insn::CallHelper(number) => slot(CALL, 0, 0, 0, number as i32),
            Insn::CallLocal(off) => slot(CALL, 0, 1, 0, off),
            Insn::CallKernel { function, module } => slot(CALL, 0, 2, module, function),
            Insn::Exit => slot(0x90 | JMP, 0, 0, 0, 0),
        }
    }

    /// From the first of these slots, or the first two.
    fn decode(slots: &[Slot]) -> Result<Insn, Undecodable> {
        let Slot { code, dst: d, src: s, off, imm } = slots[0];
        let reg = |number| Reg::new(number).ok_or(Undecodable::Register(number));
        let (dst, src) = (reg(d)?, reg(s)?);
        let zero = |is_zero: bool| if is_zero { Ok(()) } else { Err(Undecodable::Reserved) };
        let operand = || {
            if code & REG != 0 {
                zero(imm == 0).map(|()| Operand::Reg(src))
            } else {
                zero(s == 0).map(|()| Operand::Imm(imm))
            }
        };
        let size = Size::of_code(code);
        match code & 7 {
            W32 | W64 if code & 0xf0 == 0x80 => {
                zero(code & REG == 0 && s == 0 && off == 0 && imm == 0)?;
                Ok(Insn::Neg { width: width(code), dst })
            }
            W32 | W64 if code & 0xf0 == 0xd0 => {
                zero(s == 0 && off == 0 && matches!(imm, 16 | 32 | 64))?;
                let op = match (width(code), code & REG != 0) {
                    (Width::W32, false) => SwapOp::Le,
                    (Width::W32, true) => SwapOp::Be,
                    (Width::W64, false) => SwapOp::Swap,
                    (Width::W64, true) => return Err(Undecodable::Reserved),
                };
                Ok(Insn::Swap { op, bits: imm as u8, dst })
            }
            W32 | W64 if code & 0xf8 == 0xb8 && off != 0 => {
                let width = width(code);
                zero(imm == 0 && (matches!(off, 8 | 16) || off == 32 && width == Width::W64))?;
                Ok(Insn::Extend { width, bits: off as u8, dst, src })
            }
            W32 | W64 => {
                if code & 0xf0 > 0xd0 {
                    return Err(Undecodable::Opcode);
                }
                let op = AluOp::of_code(code, off).ok_or(Undecodable::Reserved)?;
                Ok(Insn::Alu { width: width(code), op, dst, src: operand()? })
            }
            LDX => {
                let signed = match code & 0xe0 {
                    0x60 => false,
                    0x80 if size != Size::B8 => true,
                    _ => return Err(Undecodable::Opcode),
                };
                zero(imm == 0)?;
                Ok(Insn::Load { size, signed, dst, base: src, off })
            }
            ST => {
                if code & 0xe0 != 0x60 {
                    return Err(Undecodable::Opcode);
                }
                zero(s == 0)?;
                Ok(Insn::Store { size, base: dst, off, src: Operand::Imm(imm) })
            }
            STX => match code & 0xe0 {
                0x60 => {
                    zero(imm == 0)?;
                    Ok(Insn::Store { size, base: dst, off, src: Operand::Reg(src) })
                }
                0xc0 => match imm {
                    LOAD_ACQUIRE => Ok(Insn::LoadAcquire { size, dst, base: src, off }),
                    STORE_RELEASE => Ok(Insn::StoreRelease { size, base: dst, off, src }),
                    _ if !matches!(size, Size::B4 | Size::B8) => Err(Undecodable::Opcode),
                    _ => {
                        let op = ATOMICS.iter().find(|known| known.1 == imm).ok_or(Undecodable::Reserved)?.0;
                        Ok(Insn::Atomic { size, op, base: dst, off, src })
                    }
                },
                _ => Err(Undecodable::Opcode),
            },
            JMP | JMP32 => {
                let wide = code & 7 == JMP;
                match code & 0xf8 {
                    0x00 if wide => {
                        zero(d == 0 && s == 0 && imm == 0)?;
                        Ok(Insn::Goto(off))
                    }
                    0x00 => {
                        zero(d == 0 && s == 0 && off == 0)?;
                        Ok(Insn::GotoLong(imm))
                    }
                    0x80 if wide => {
                        zero(d == 0 && (off == 0 || s == 2))?;
                        match s {
                            0 => Ok(Insn::CallHelper(imm as u32)),
                            1 => Ok(Insn::CallLocal(imm)),
                            2 => Ok(Insn::CallKernel { function: imm, module: off }),
                            _ => Err(Undecodable::Reserved),
                        }
                    }
                    0x90 if wide => {
                        zero(d == 0 && s == 0 && off == 0 && imm == 0)?;
                        Ok(Insn::Exit)
                    }
                    0xe0 if wide => {
                        zero(d == 0 && s == 0 && imm == 0)?;
                        Ok(Insn::MayGoto(off))
                    }
                    _ => {
                        let cond = Cond::ALL.into_iter().find(|cond| cond.code() == code & 0xf0);
                        let cond = cond.ok_or(Undecodable::Opcode)?;
                        Ok(Insn::If { width: width(code), cond, dst, src: operand()?, off })
                    }
                }
            }
            _ => match code & 0xe0 {
                0x00 if code == CONSTANT => {
                    let second = slots.get(1).ok_or(Undecodable::Half)?;
                    if (second.code, second.dst, second.src, second.off) != (0, 0, 0, 0) {
                        return Err(Undecodable::Half);
                    }
                    zero(off == 0)?;
                    let value = match s {
                        0 => Constant::Value(u64::from(second.imm as u32) << 32 | u64::from(imm as u32)),
                        2 => Constant::MapValue(imm, second.imm),
                        3 => Constant::Variable(imm, second.imm),
                        6 => Constant::MapIndexValue(imm, second.imm),
                        1 | 4 | 5 => {
                            zero(second.imm == 0)?;
                            match s {
                                1 => Constant::Map(imm),
                                4 => Constant::Function(imm),
                                _ => Constant::MapIndex(imm),
                            }
                        }
                        _ => return Err(Undecodable::Reserved),
                    };
                    Ok(Insn::Constant { dst, value })
                }
                0x20 if size != Size::B8 => {
                    zero(d == 0 && s == 0 && off == 0)?;
                    Ok(Insn::Packet { size, index: None, off: imm })
                }
                0x40 if size != Size::B8 => {
                    zero(d == 0 && off == 0)?;
                    Ok(Insn::Packet { size, index: Some(src), off: imm })
                }
                _ => Err(Undecodable::Opcode),
            },
        }
    }
}

/// Instructions of slots.
pub fn decode(slots: &[Slot]) -> Result<Vec<Insn>, DecodeError> {
    let mut insns = Vec::with_capacity(slots.len());
    let mut slot = 0;
    while slot < slots.len() {
        let insn = Insn::decode(&slots[slot..]);
        let insn = insn.map_err(|why| DecodeError { slot, why, found: slots[slot] })?;
        insns.push(insn);
        slot += insn.slots();
    }
    Ok(insns)
}

/// Slots of instructions.
pub fn encode(insns: &[Insn]) -> Vec<Slot> {
    let mut slots = Vec::with_capacity(insns.len());
    for insn in insns {
        let (first, second) = insn.encode();
        slots.push(first);
        slots.extend(second);
    }
    slots
}

/// Slots of bytes, of which an incomplete last one is left out.
pub fn slots_of_bytes(bytes: &[u8], order: ByteOrder) -> Vec<Slot> {
    let whole = bytes.chunks_exact(Slot::SIZE);
    whole.map(|bytes| Slot::from_bytes(bytes.try_into().expect("eight bytes"), order)).collect()
}

/// Bytes of instructions, as `bpf(2)` takes them.
pub fn to_bytes(insns: &[Insn], order: ByteOrder) -> Vec<u8> {
    encode(insns).into_iter().flat_map(|slot| slot.to_bytes(order)).collect()
}

/// Instructions by their slots: where distances lead. The second slot of a constant has none.
pub fn by_slot(insns: &[Insn]) -> Vec<Option<Insn>> {
    let mut slots = Vec::with_capacity(insns.len());
    for insn in insns {
        slots.push(Some(*insn));
        slots.extend((insn.slots() == 2).then_some(None));
    }
    slots
}

/// The slots where functions begin, and those of them that helpers call.
pub fn functions(insns: &[Insn]) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut starts, mut called, mut slot) = (BTreeSet::from([0]), BTreeSet::new(), 0usize);
    for insn in insns {
        let to = |off: i32| usize::try_from(slot as i64 + 1 + i64::from(off)).ok();
        match *insn {
            Insn::CallLocal(off) => starts.extend(to(off)),
            Insn::Constant { value: Constant::Function(off), .. } => called.extend(to(off)),
            _ => {}
        }
        slot += insn.slots();
    }
    starts.extend(&called);
    (starts, called)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn decoding_undoes_encoding(insns in proptest::collection::vec(any::insn(), 0..20)) {
            let slots = encode(&insns);
            prop_assert_eq!(decode(&slots).unwrap(), insns.clone());
            for order in [ByteOrder::Little, ByteOrder::Big] {
                prop_assert_eq!(&slots_of_bytes(&to_bytes(&insns, order), order), &slots);
            }
        }

        #[test]
        fn what_decodes_encodes_to_the_same_slots(code: u8, dst in 0u8..16, src in 0u8..16, off in -2i16..40, imm in -2i32..300, high: i32) {
            let slots = [Slot { code, dst, src, off, imm }, Slot { imm: high, ..Slot::default() }];
            if let Ok(insn) = Insn::decode(&slots) {
                let (first, second) = insn.encode();
                prop_assert_eq!(first, slots[0]);
                prop_assert_eq!(second.unwrap_or(slots[1]), slots[1]);
            }
        }
    }

    #[test]
    fn slots_that_are_no_instructions_say_why() {
        let slot = |code, dst, src, off, imm| Slot { code, dst, src, off, imm };
        let why = |slots: &[Slot]| decode(slots).unwrap_err().to_string();
        assert_eq!(
            why(&[slot(0x95, 0, 0, 0, 0), slot(0xff, 0, 0, 0, 0)]),
            "instruction 1 (opcode 0xff) is none that Linux 6.18 knows"
        );
        assert_eq!(
            why(&[slot(0xb7, 11, 0, 0, 0)]),
            "instruction 0 (opcode 0xb7) names r11; there are r0 to r10"
        );
        assert!(why(&[slot(0xb7, 1, 1, 0, 0)]).contains("has a field that it does not use"));
        assert!(why(&[slot(0x18, 1, 0, 0, 5)]).contains("is half of one"));
    }
}
