//! Names that depend on the machine a recording was made on: of registers; and those of kinds of branches.

use perfuse_abi::record::BranchFlags;
use perfuse_abi::regs::Arch;
use std::borrow::Cow;

/// The name that perf has for a register of a machine, as `uname -m` calls it.
pub fn name(machine: &str, number: u32) -> Cow<'static, str> {
    let numbered = |prefix: &str, number: u32| Cow::Owned(format!("{prefix}{number}"));
    match (machine, number) {
        ("x86_64" | "x86" | "i386" | "i486" | "i586" | "i686", 32..64) => numbered("XMM", (number - 32) / 2),
        ("x86_64" | "x86" | "i386" | "i486" | "i586" | "i686", _) => {
            Arch::X86_64.name(number).map_or("unknown".into(), Cow::Borrowed)
        }
        ("aarch64" | "arm64", _) => {
            Arch::Arm64.name(number).map_or("unknown".into(), |name| name.to_ascii_lowercase().into())
        }
        (arm, 0..=10) if arm.starts_with("arm") => numbered("r", number),
        (arm, 11..=15) if arm.starts_with("arm") => {
            ["fp", "ip", "sp", "lr", "pc"][number as usize - 11].into()
        }
        ("s390x" | "s390", 0..=15) => numbered("R", number),
        ("s390x" | "s390", 16..=31) => numbered("FP", number - 16),
        ("s390x" | "s390", 32) => "MASK".into(),
        ("s390x" | "s390", 33) => "PC".into(),
        _ => "unknown".into(),
    }
}

/// The kind of a branch; empty if it is not known.
pub fn branch_type(flags: BranchFlags) -> &'static str {
    const NAMES: [&str; 13] = [
        "",
        "COND",
        "UNCOND",
        "IND",
        "CALL",
        "IND_CALL",
        "RET",
        "SYSCALL",
        "SYSRET",
        "COND_CALL",
        "COND_RET",
        "ERET",
        "IRQ",
    ];
    const MORE: [&str; 8] =
        ["FAULT_ALGN", "FAULT_DATA", "FAULT_INST", "ARCH_1", "ARCH_2", "ARCH_3", "ARCH_4", "ARCH_5"];
    match flags.kind().0 {
        13 => "SERROR",
        14 => "NO_TX",
        15 => MORE.get(usize::from(flags.new_kind().0)).unwrap_or(&""),
        kind => NAMES.get(usize::from(kind)).unwrap_or(&""),
    }
}

/// How a branch was speculated; empty if that is not known.
pub fn speculation(flags: BranchFlags) -> &'static str {
    ["", "SPEC_WRONG_PATH", "NON_SPEC_CORRECT_PATH", "SPEC_CORRECT_PATH"][usize::from(flags.spec().0 & 3)]
}
