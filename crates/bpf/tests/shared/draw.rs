//! Programs by chance, drawn so that many of them pass a verifier: numbers are made, bounded and stored, values of a map are looked
//! up and compared with null, loops are counted. Every choice comes from `draw`, which may be a generator or the bytes of a fuzzer.

use perfuse_bpf::insn::{AluOp, AtomicOp, Cond, Constant, Operand, Size, SwapOp, Width};
use perfuse_bpf::{Insn, Reg};

/// Numbers below a limit.
pub(crate) struct Draw<'a> {
    pub(crate) below: &'a mut dyn FnMut(u32) -> u32,
}

const ATOMICS: [AtomicOp; 10] = [
    AtomicOp::Add,
    AtomicOp::Or,
    AtomicOp::And,
    AtomicOp::Xor,
    AtomicOp::FetchAdd,
    AtomicOp::FetchOr,
    AtomicOp::FetchAnd,
    AtomicOp::FetchXor,
    AtomicOp::Xchg,
    AtomicOp::CmpXchg,
];
/// Registers that hold no pointer to a value.
const NUMBERS: [Reg; 3] = [Reg::R6, Reg::R7, Reg::R8];
const SIZES: [Size; 4] = [Size::B1, Size::B2, Size::B4, Size::B8];

/// What a program may name.
pub(crate) struct Around {
    /// The map with 8 values of `value_bytes` bytes; a descriptor, or the number of a map.
    pub(crate) map: i32,
    pub(crate) value_bytes: u32,
    /// Bytes of the context that may be read, eight at a time.
    pub(crate) context_bytes: i16,
}

impl Draw<'_> {
    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.below)(of.len() as u32) as usize]
    }

    fn chance(&mut self, of: u32) -> bool {
        (self.below)(of) == 0
    }

    /// One of `r0` to `r9`, rather one that holds something.
    fn reg(&mut self) -> Reg {
        let number = if self.chance(60) { 3 } else { self.one_of(&[0, 6, 7, 8, 9]) };
        Reg::new(number as u8).unwrap_or(Reg::R0)
    }

    fn imm(&mut self) -> i32 {
        match (self.below)(6) {
            0 => self.one_of(&[0, 1, -1, i32::MAX, i32::MIN, 0xff, 0x7f, -8]),
            1 => ((self.below)(1 << 16) << 16 | (self.below)(1 << 16)) as i32,
            2 => 1 << (self.below)(31),
            _ => (self.below)(70) as i32 - 2,
        }
    }

    fn operand(&mut self) -> Operand {
        if self.chance(2) { Operand::Imm(self.imm()) } else { Operand::Reg(self.reg()) }
    }

    fn width(&mut self) -> Width {
        self.one_of(&[Width::W64, Width::W64, Width::W32])
    }

    /// A place on the stack for so many bytes, nearly always a good one.
    fn place(&mut self, size: Size) -> i16 {
        let bytes = size.bytes() as i32;
        let off = -bytes * (1 + (self.below)((64 / bytes) as u32) as i32);
        (if self.chance(60) { off + (self.below)(24) as i32 - 3 } else { off }) as i16
    }

    /// A program of about so many pieces.
    pub(crate) fn program(&mut self, pieces: u32, around: &Around) -> Vec<Insn> {
        let mut insns = Vec::new();
        // r6 to r9 hold something; r9 rather what the context brings.
        for number in [0, 6, 7, 8] {
            let dst = Reg::new(number).unwrap_or(Reg::R0);
            insns.push(match (self.below)(3) {
                0 => Insn::Alu { width: Width::W64, op: AluOp::Mov, dst, src: Operand::Imm(self.imm()) },
                1 => {
                    let high = u64::from((self.below)(1 << 16)) << (self.below)(48);
                    Insn::Constant { dst, value: Constant::Value(high ^ self.imm() as u64) }
                }
                _ => {
                    let off = 8 * (self.below)(around.context_bytes as u32 / 8) as i16;
                    Insn::Load { size: Size::B8, signed: false, dst, base: Reg::R1, off }
                }
            });
        }
        insns.push(Insn::Alu { width: Width::W64, op: AluOp::Mov, dst: Reg::R9, src: Operand::Reg(Reg::R1) });
        if !self.chance(4) {
            insns.push(Insn::Load { size: Size::B8, signed: false, dst: Reg::R9, base: Reg::R1, off: 0 });
        }
        for word in 1..=9 {
            insns.push(Insn::Store {
                size: Size::B8,
                base: Reg::R10,
                off: -8 * word,
                src: Operand::Imm(self.imm()),
            });
        }
        for _ in 0..pieces {
            self.piece(&mut insns, around, 0);
        }
        if self.chance(3) {
            insns.push(Insn::Alu {
                width: self.width(),
                op: AluOp::Mov,
                dst: Reg::R0,
                src: Operand::Imm(self.imm()),
            });
        }
        insns.push(Insn::Exit);
        insns
    }

    fn piece(&mut self, insns: &mut Vec<Insn>, around: &Around, depth: u32) {
        match (self.below)(if depth < 2 { 20 } else { 14 }) {
            0..=5 => {
                let op = self.one_of(&AluOp::ALL);
                let src = match (op, self.operand()) {
                    (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, Operand::Imm(imm)) => Operand::Imm(imm & 31),
                    (AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod, Operand::Imm(0)) => Operand::Imm(3),
                    (_, src) => src,
                };
                insns.push(Insn::Alu { width: self.width(), op, dst: self.reg(), src });
            }
            6 => {
                let width = self.width();
                insns.push(match (self.below)(3) {
                    0 => Insn::Neg { width, dst: self.reg() },
                    1 => {
                        let bits = self.one_of(&[8, 16, if width == Width::W64 { 32 } else { 8 }]);
                        Insn::Extend { width, bits, dst: self.reg(), src: self.reg() }
                    }
                    _ => {
                        let op = self.one_of(&[SwapOp::Le, SwapOp::Be, SwapOp::Swap]);
                        Insn::Swap { op, bits: self.one_of(&[16, 32, 64]), dst: self.reg() }
                    }
                });
            }
            7..=9 => {
                let size = self.one_of(&SIZES);
                let off = self.place(size);
                let src = self.operand();
                insns.push(Insn::Store { size, base: Reg::R10, off, src });
            }
            10 | 11 => {
                let size = self.one_of(&SIZES);
                let off = self.place(size);
                let signed = size != Size::B8 && self.chance(3);
                insns.push(Insn::Load { size, signed, dst: self.reg(), base: Reg::R10, off });
            }
            12 => {
                let size = self.one_of(&[Size::B4, Size::B8]);
                let off = self.place(size);
                insns.push(Insn::Store { size, base: Reg::R10, off, src: Operand::Imm(self.imm()) });
                insns.push(Insn::Atomic {
                    size,
                    op: self.one_of(&ATOMICS),
                    base: Reg::R10,
                    off,
                    src: self.reg(),
                });
            }
            13 => {
                // A bounded place on the stack.
                let (dst, mask) = (self.reg(), self.one_of(&[7, 15, 31, 56]));
                insns.push(Insn::Alu { width: Width::W64, op: AluOp::And, dst, src: Operand::Imm(mask) });
                insns.push(Insn::Alu { width: Width::W64, op: AluOp::Add, dst, src: Operand::Reg(Reg::R10) });
                let off = -(self.one_of(&[64, 32, 56]) as i16);
                insns.push(Insn::Load {
                    size: self.one_of(&[Size::B1, Size::B8]),
                    signed: false,
                    dst,
                    base: dst,
                    off,
                });
            }
            14 | 15 => self.branch(insns, around, depth),
            16 | 17 => self.value(insns, around),
            18 => self.counted(insns, around, depth),
            _ => {
                let (dst, src) = (self.reg(), self.reg());
                insns.push(Insn::Alu { width: Width::W64, op: AluOp::Mov, dst, src: Operand::Reg(src) });
            }
        }
    }

    /// A condition around some pieces, perhaps with others where it does not hold.
    fn branch(&mut self, insns: &mut Vec<Insn>, around: &Around, depth: u32) {
        let at = insns.len();
        insns.push(Insn::Exit);
        for _ in 0..1 + (self.below)(3) {
            self.piece(insns, around, depth + 1);
        }
        let over = |insns: &[Insn]| insns[at + 1..].iter().map(Insn::slots).sum::<usize>() as i16;
        let (width, cond, dst, src) = (self.width(), self.one_of(&Cond::ALL), self.reg(), self.operand());
        insns[at] = Insn::If { width, cond, dst, src, off: over(insns) };
    }

    /// Some turns that are counted on the stack or in a register.
    fn counted(&mut self, insns: &mut Vec<Insn>, around: &Around, depth: u32) {
        let counter = Reg::R8;
        insns.push(Insn::Alu { width: Width::W64, op: AluOp::Mov, dst: counter, src: Operand::Imm(0) });
        let begin = insns.len();
        self.piece(insns, around, depth + 1);
        insns.push(Insn::Alu { width: Width::W64, op: AluOp::Add, dst: counter, src: Operand::Imm(1) });
        let back = insns[begin..].iter().map(Insn::slots).sum::<usize>() as i16 + 1;
        let turns = 1 + (self.below)(6) as i32;
        let cond = self.one_of(&[Cond::Lt, Cond::Ne, Cond::SLt]);
        insns.push(Insn::If { width: Width::W64, cond, dst: counter, src: Operand::Imm(turns), off: -back });
    }

    /// A value of the map, of a place that is bounded, nearly always well.
    fn value(&mut self, insns: &mut Vec<Insn>, around: &Around) {
        let mov = |dst, src| Insn::Alu { width: Width::W64, op: AluOp::Mov, dst, src };
        let index = self.reg();
        insns.push(Insn::Alu {
            width: Width::W64,
            op: AluOp::And,
            dst: index,
            src: Operand::Imm(self.one_of(&[7, 3, 15])),
        });
        insns.push(Insn::Store { size: Size::B4, base: Reg::R10, off: -68, src: Operand::Reg(index) });
        insns.push(Insn::Constant { dst: Reg::R1, value: Constant::Map(around.map) });
        insns.push(mov(Reg::R2, Operand::Reg(Reg::R10)));
        insns.push(Insn::Alu { width: Width::W64, op: AluOp::Add, dst: Reg::R2, src: Operand::Imm(-68) });
        insns.push(Insn::CallHelper(1));
        let at = insns.len();
        insns.push(Insn::Exit);
        let size = self.one_of(&SIZES);
        let mut off = (self.below)(around.value_bytes / size.bytes()) as i16 * size.bytes() as i16;
        if self.chance(20) {
            off += 3;
        }
        if self.chance(2) {
            // A place within the value, after a comparison.
            let place = self.one_of(&[Reg::R6, Reg::R7]);
            let limit =
                around.value_bytes as i32 - i32::from(off) - size.bytes() as i32 + i32::from(self.chance(8));
            let cond = self.one_of(&[Cond::Gt, Cond::Gt, Cond::SGt]);
            insns.push(Insn::If { width: self.width(), cond, dst: place, src: Operand::Imm(limit), off: 3 });
            insns.push(Insn::Alu {
                width: Width::W64,
                op: AluOp::Add,
                dst: Reg::R0,
                src: Operand::Reg(place),
            });
            insns.push(if self.chance(2) {
                Insn::Load { size, signed: false, dst: self.reg(), base: Reg::R0, off }
            } else {
                Insn::Store { size, base: Reg::R0, off, src: Operand::Imm(self.imm()) }
            });
            insns.push(mov(Reg::R0, Operand::Imm(1)));
        } else {
            insns.push(match (self.below)(3) {
                0 => Insn::Load { size, signed: false, dst: self.reg(), base: Reg::R0, off },
                1 => Insn::Store { size, base: Reg::R0, off, src: Operand::Reg(self.one_of(&NUMBERS)) },
                _ => Insn::Atomic {
                    size: if size == Size::B8 { Size::B8 } else { Size::B4 },
                    op: self.one_of(&ATOMICS),
                    base: Reg::R0,
                    off: off & !3,
                    src: self.one_of(&NUMBERS),
                },
            });
            insns.push(mov(Reg::R0, Operand::Imm(2)));
        }
        let over = insns[at + 1..].len() as i16;
        let null = if self.chance(40) { Cond::Ne } else { Cond::Eq };
        insns[at] = Insn::If { width: Width::W64, cond: null, dst: Reg::R0, src: Operand::Imm(0), off: over };
        // On either way it holds a number.
        insns.push(mov(Reg::R0, Operand::Imm(3)));
    }
}

/// A generator: xorshift.
pub(crate) fn random(mut seed: u64) -> impl FnMut(u32) -> u32 {
    seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |limit| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (((seed >> 32) * u64::from(limit)) >> 32) as u32
    }
}

/// Whether a pointer may become a number that the program shows: it is compared, stored or calculated with as one.
#[allow(dead_code, reason = "one of the programs that share this runs on one kernel alone")]
pub(crate) fn shows_pointers(insns: &[Insn]) -> bool {
    // r9 is the context where it is not loaded from it.
    let is_context = |insn: &Insn| {
        matches!(insn, Insn::Alu { op: AluOp::Mov, dst: Reg::R9, src: Operand::Reg(Reg::R1), .. })
    };
    let is_loaded = |insn: &Insn| matches!(insn, Insn::Load { dst: Reg::R9, base: Reg::R1, off: 0, .. });
    insns.iter().any(is_context) && !insns.iter().any(is_loaded)
}
