//! Instructions of x86, by the crate `iced-x86`.

use crate::code::{Decoded, Flow, Next, Syntax, padded};
use iced_x86::{
    Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, IntelFormatter, Mnemonic, OpKind,
};

/// Instructions until the bytes end.
pub(crate) fn disassemble(bytes: &[u8], address: u64, bits: u32, syntax: Syntax) -> Vec<Decoded> {
    // 32 bits of address are all that code of 32 bits has.
    let start = if bits == 64 { address } else { address & u64::from(u32::MAX) };
    let mut decoder = Decoder::with_ip(bits, bytes, start, DecoderOptions::NONE);
    let mut formatter = formatter(syntax);
    let (mut list, mut instruction) = (Vec::new(), Instruction::default());
    let mut at = 0;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let mut end = decoder.position();
        let mut text = String::new();
        if instruction.is_invalid() {
            text.push_str("(bad)");
            // An instruction may begin behind its first byte.
            end = at + 1;
            if decoder.set_position(end).is_err() {
                break;
            }
            decoder.set_ip(start.wrapping_add(end as u64));
        } else {
            formatter.format(&instruction, &mut text);
        }
        list.push(Decoded {
            address: address.wrapping_add(at as u64),
            len: end - at,
            text: padded(&text),
            target: target(&instruction),
            next: next(&instruction),
        });
        at = end;
    }
    list
}

fn formatter(syntax: Syntax) -> Box<dyn Formatter> {
    let mut formatter: Box<dyn Formatter> = match syntax {
        Syntax::Att => Box::new(GasFormatter::new()),
        Syntax::Intel => Box::new(IntelFormatter::new()),
    };
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_small_hex_numbers_in_decimal(false);
    options.set_branch_leading_zeros(false);
    options.set_show_branch_size(false);
    options.set_rip_relative_addresses(true);
    formatter
}

fn next(instruction: &Instruction) -> Next {
    use Mnemonic::*;
    match instruction.mnemonic() {
        INVALID => Next::Unknown,
        Jmp | Jmpe | Call | Ret | Retf | Iret | Iretd | Iretq | Syscall | Sysenter | Sysret | Sysretq
        | Sysexit | Sysexitq | Int | Int1 | Int3 | Into => Next::Elsewhere,
        _ => Next::Behind,
    }
}

/// The address that an instruction names.
fn target(instruction: &Instruction) -> Option<(Flow, u64)> {
    let is_near =
        matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    if instruction.is_invalid() {
        None
    } else if is_near {
        let flow = if instruction.mnemonic() == Mnemonic::Call { Flow::Call } else { Flow::Jump };
        Some((flow, instruction.near_branch_target()))
    } else if instruction.is_ip_rel_memory_operand() {
        Some((Flow::Data, instruction.ip_rel_memory_address()))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8], syntax: Syntax) -> Vec<String> {
        disassemble(bytes, 0x1000, 64, syntax).into_iter().map(|decoded| decoded.text).collect()
    }

    #[test]
    fn both_syntaxes() {
        // mov %rsp,%rbp; mov 0x2ee5(%rip),%rax; lea 0x10(,%rax,8),%rdx; call; movzbl (%rdi),%eax; sub $0x20,%rsp
        let code = [
            0x48, 0x89, 0xe5, 0x48, 0x8b, 0x05, 0xe5, 0x2e, 0, 0, 0x48, 0x8d, 0x14, 0xc5, 0x10, 0, 0, 0,
            0xe8, 0xfb, 0xff, 0xff, 0xff, 0x0f, 0xb6, 0x07, 0x48, 0x83, 0xec, 0x20,
        ];
        let att = [
            "mov    %rsp,%rbp",
            "mov    0x2ee5(%rip),%rax",
            "lea    0x10(,%rax,8),%rdx",
            "call   0x1012",
            "movzbl (%rdi),%eax",
            "sub    $0x20,%rsp",
        ];
        assert_eq!(texts(&code, Syntax::Att), att);
        let intel = [
            "mov    rbp,rsp",
            "mov    rax,[rip+0x2ee5]",
            "lea    rdx,[rax*8+0x10]",
            "call   0x1012",
            "movzx  eax,byte ptr [rdi]",
            "sub    rsp,0x20",
        ];
        assert_eq!(texts(&code, Syntax::Intel), intel);
        let targets: Vec<_> = disassemble(&code, 0x1000, 64, Syntax::Att)
            .into_iter()
            .filter_map(|decoded| decoded.target)
            .collect();
        assert_eq!(targets, [(Flow::Data, 0x3eef), (Flow::Call, 0x1012)]);
    }

    #[test]
    fn what_is_no_instruction_is_said_to_be_none() {
        assert_eq!(texts(&[0x06, 0x90, 0x48], Syntax::Att), ["(bad)", "nop", "(bad)"]);
    }
}
