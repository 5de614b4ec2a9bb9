//! Instructions of arm64, by the crate `yaxpeax-arm`.

use crate::code::{Decoded, Flow, Next, padded};
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Opcode, Operand};

/// Instructions until the bytes end: each has four, whatever the order of data is.
pub(crate) fn disassemble(bytes: &[u8], address: u64) -> Vec<Decoded> {
    let decoder = InstDecoder::default();
    let instructions = bytes.chunks(4).enumerate().map(|(number, bytes)| {
        let address = address.wrapping_add(number as u64 * 4);
        let len = bytes.len();
        let Ok(word) = <[u8; 4]>::try_from(bytes).map(u32::from_le_bytes) else {
            let text = "(cut off)".to_owned();
            return Decoded { address, len, text, target: None, next: Next::Unknown };
        };
        match decoder.decode(&mut U8Reader::new(bytes)) {
            Ok(instruction) => {
                let target = target(&instruction, address);
                let text = padded(&text(&instruction, target));
                Decoded { address, len, text, target, next: next(&instruction) }
            }
            // Processors have instructions that the decoder does not know.
            Err(_) => {
                let text = padded(&format!(".inst {word:#010x}"));
                Decoded { address, len, text, target: None, next: Next::Behind }
            }
        }
    });
    instructions.collect()
}

fn next(instruction: &Instruction) -> Next {
    use Opcode::*;
    match instruction.opcode {
        B | BL | BR | BLR | RET | ERET | SVC | BRAA | BRAAZ | BRAB | BRABZ | BLRAA | BLRAAZ | BLRAB
        | BLRABZ | RETAA | RETAB | ERETAA | ERETAB | RETAASPPC | RETABSPPC | RETAASPPCR | RETABSPPCR => {
            Next::Elsewhere
        }
        _ => Next::Behind,
    }
}

/// The address that an instruction names.
fn target(instruction: &Instruction, address: u64) -> Option<(Flow, u64)> {
    let offset = instruction.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(offset) => Some(*offset),
        _ => None,
    })?;
    let (flow, base) = match instruction.opcode {
        Opcode::BL => (Flow::Call, address),
        Opcode::B | Opcode::Bcc(_) | Opcode::CBZ | Opcode::CBNZ | Opcode::TBZ | Opcode::TBNZ => {
            (Flow::Jump, address)
        }
        Opcode::ADRP => (Flow::Data, address & !0xfff),
        _ => (Flow::Data, address),
    };
    Some((flow, base.wrapping_add_signed(offset)))
}

/// Its text, with the address in place of how far away that is.
fn text(instruction: &Instruction, target: Option<(Flow, u64)>) -> String {
    let text = instruction.to_string();
    let Some((_, target)) = target else { return text };
    match text.find("$+").or_else(|| text.find("$-")) {
        Some(start) => {
            let end = text[start..].find([',', ' ']).map_or(text.len(), |length| start + length);
            format!("{}{target:#x}{}", &text[..start], &text[end..])
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_calls_and_data_name_addresses() {
        let words: [u32; 8] = [
            0xa9bf_7bfd, // stp x29, x30, [sp, #-16]!
            0x7100_0421, // subs w1, w1, #1
            0x54ff_ffe1, // b.ne
            0x9400_0003, // bl
            0x9000_0000, // adrp
            0xb400_0040, // cbz x0
            0xd65f_03c0, // ret
            0x0000_0000, // udf #0
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let list = disassemble(&bytes, 0x1000);
        let texts: Vec<&str> = list.iter().map(|decoded| decoded.text.as_str()).collect();
        let wanted = [
            "stp    x29, x30, [sp, #-0x10]!",
            "subs   w1, w1, #0x1",
            "b.ne   0x1004",
            "bl     0x1018",
            "adrp   x0, 0x1000",
            "cbz    x0, 0x101c",
            "ret",
            "udf    #0x0",
        ];
        assert_eq!(texts, wanted);
        let targets: Vec<_> = list.iter().map(|decoded| decoded.target).collect();
        assert_eq!(
            targets[2..6],
            [
                Some((Flow::Jump, 0x1004)),
                Some((Flow::Call, 0x1018)),
                Some((Flow::Data, 0x1000)),
                Some((Flow::Jump, 0x101c))
            ]
        );
    }
}
