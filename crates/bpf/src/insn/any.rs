//! Arbitrary instructions, for tests of what must hold for all.

use super::*;
use alloc::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn reg() -> impl Strategy<Value = Reg> {
    (0u8..=10).prop_map(|number| Reg::new(number).unwrap())
}

fn width() -> impl Strategy<Value = Width> {
    select(vec![Width::W32, Width::W64])
}

fn size() -> impl Strategy<Value = Size> {
    select(vec![Size::B1, Size::B2, Size::B4, Size::B8])
}

fn wide() -> impl Strategy<Value = Size> {
    select(vec![Size::B4, Size::B8])
}

fn src() -> impl Strategy<Value = Operand> {
    prop_oneof![reg().prop_map(Operand::Reg), any::<i32>().prop_map(Operand::Imm)]
}

fn alu() -> impl Strategy<Value = AluOp> {
    (0u8..14, any::<bool>())
        .prop_filter_map("one of 14", |(code, signed)| AluOp::of_code(code << 4, i16::from(signed)))
}

fn constant() -> impl Strategy<Value = Constant> {
    prop_oneof![
        any::<u64>().prop_map(Constant::Value),
        any::<i32>().prop_map(Constant::Map),
        any::<(i32, i32)>().prop_map(|(fd, at)| Constant::MapValue(fd, at)),
        any::<i32>().prop_map(Constant::MapIndex),
        any::<(i32, i32)>().prop_map(|(fd, at)| Constant::MapIndexValue(fd, at)),
        any::<(i32, i32)>().prop_map(|(id, fd)| Constant::Variable(id, fd)),
        any::<i32>().prop_map(Constant::Function),
    ]
}

pub(crate) fn insn() -> impl Strategy<Value = Insn> {
    let cond = select(Cond::ALL.to_vec());
    let atomic = select(ATOMICS.map(|known| known.0).to_vec());
    let swap = select(vec![SwapOp::Le, SwapOp::Be, SwapOp::Swap]);
    let place = || (reg(), any::<i16>());
    prop_oneof![
        (width(), alu(), reg(), src()).prop_map(|(width, op, dst, src)| Insn::Alu { width, op, dst, src }),
        (width(), reg()).prop_map(|(width, dst)| Insn::Neg { width, dst }),
        (width(), select(vec![8u8, 16]), reg(), reg()).prop_map(|(width, bits, dst, src)| Insn::Extend {
            width,
            bits,
            dst,
            src
        }),
        (reg(), reg()).prop_map(|(dst, src)| Insn::Extend { width: Width::W64, bits: 32, dst, src }),
        (swap, select(vec![16u8, 32, 64]), reg()).prop_map(|(op, bits, dst)| Insn::Swap { op, bits, dst }),
        (reg(), constant()).prop_map(|(dst, value)| Insn::Constant { dst, value }),
        (size(), any::<bool>(), reg(), place()).prop_map(|(size, signed, dst, (base, off))| Insn::Load {
            size,
            signed: signed && size != Size::B8,
            dst,
            base,
            off
        }),
        (size(), place(), src()).prop_map(|(size, (base, off), src)| Insn::Store { size, base, off, src }),
        (wide(), atomic, place(), reg()).prop_map(|(size, op, (base, off), src)| Insn::Atomic {
            size,
            op,
            base,
            off,
            src
        }),
        (size(), reg(), place()).prop_map(|(size, dst, (base, off))| Insn::LoadAcquire {
            size,
            dst,
            base,
            off
        }),
        (size(), place(), reg()).prop_map(|(size, (base, off), src)| Insn::StoreRelease {
            size,
            base,
            off,
            src
        }),
        (select(vec![Size::B1, Size::B2, Size::B4]), proptest::option::of(reg()), any::<i32>())
            .prop_map(|(size, index, off)| Insn::Packet { size, index, off }),
        any::<i16>().prop_map(Insn::Goto),
        any::<i32>().prop_map(Insn::GotoLong),
        any::<i16>().prop_map(Insn::MayGoto),
        (width(), cond, reg(), src(), any::<i16>()).prop_map(|(width, cond, dst, src, off)| Insn::If {
            width,
            cond,
            dst,
            src,
            off
        }),
        any::<u32>().prop_map(Insn::CallHelper),
        (1u32..212).prop_map(Insn::CallHelper),
        any::<i32>().prop_map(Insn::CallLocal),
        any::<(i32, i16)>().prop_map(|(function, module)| Insn::CallKernel { function, module }),
        Just(Insn::Exit),
    ]
}
