//! The handler's code on arm64. A thread that is stepped when we are killed is stepped for ever there, which no handler
//! can end.

use std::arch::global_asm;

pub(super) const TO_DATA: u64 = 1 << 16;

/// The code of a signal whose details are [marked](super::marked).
pub(super) const MARK: u64 = 0x7066;

/// Handlers return to the vdso.
pub(super) const RESTORER: Option<fn() -> u64> = None;

// x0: the signal, x1: its details (code at 8), x2: the context (pc at 440). x9: the memory, as on x86.
global_asm!(
    ".pushsection .text.perfuse_trap_handler,\"ax\",@progbits",
    ".globl perfuse_trap_handler",
    ".hidden perfuse_trap_handler",
    ".globl perfuse_trap_end",
    ".hidden perfuse_trap_end",
    ".p2align 4",
    "perfuse_trap_handler:",
    "    bti c",
    "    adr x9, perfuse_trap_handler",
    "    add x9, x9, #16, lsl #12",
    "60: ldxr x10, [x9]",
    "    add x10, x10, #1",
    "    stxr w11, x10, [x9]",
    "    cbnz w11, 60b",
    "    ldr w10, [x1, #8]",
    "    ldr x11, [x2, #440]",
    "    cmp w10, #1",
    "    b.eq 20f",
    "    cmp w10, #4",
    "    b.eq 19f",
    "    cmp w10, #2",
    "    b.eq 19f",
    "    mov w12, #0x7066",
    "    cmp w10, w12",
    "    b.ne 40f",
    // Give the thread the signals back that it blocked before (at 40 of the context), if it does a step for us: gettid.
    "    ldr x12, [x9, #40]",
    "    cbz x12, 19f",
    "    mov x8, #178",
    "    svc #0",
    "    cmp x0, x12",
    "    b.ne 19f",
    "    ldr x12, [x9, #48]",
    "    str x12, [x2, #40]",
    "19: ret",
    // A trap: is it one of the table?
    "20: ldr x12, [x9, #32]",
    "    add x13, x9, #80",
    "21: cbz x12, 40f",
    "    ldr x14, [x13]",
    "    cmp x14, x11",
    "    b.eq 22f",
    "    add x13, x13, #16",
    "    sub x12, x12, #1",
    "    b 21b",
    "22: ldr w14, [x11]",
    "    movz w15, #0xd420, lsl #16",
    "    cmp w14, w15",
    "    b.ne 19b",
    // It is there still: nanosleep(1 ms).
    "    movz x14, #0x4240",
    "    movk x14, #0xf, lsl #16",
    "    stp xzr, x14, [sp, #-16]!",
    "    mov x0, sp",
    "    mov x1, #0",
    "    mov x8, #101",
    "    svc #0",
    "    add sp, sp, #16",
    "    add x10, x9, #8",
    "61: ldxr x14, [x10]",
    "    add x14, x14, #1",
    "    stxr w15, x14, [x10]",
    "    cbnz w15, 61b",
    "    cmp x14, #1000",
    "    b.lo 19b",
    // Nobody takes it back: openat, pwrite64, close.
    "    mov x0, #-100",
    "    adr x1, 90f",
    "    movz x2, #2",
    "    movk x2, #8, lsl #16",
    "    mov x3, #0",
    "    mov x8, #56",
    "    svc #0",
    "    tbnz w0, #31, 19b",
    "    mov x14, x0",
    "    add x1, x13, #8",
    "    mov x2, #4",
    "    ldr x3, [x13]",
    "    mov x8, #68",
    "    svc #0",
    "    mov x0, x14",
    "    mov x8, #57",
    "    svc #0",
    "    ret",
    // None of ours.
    "40: ldr x10, [x9, #16]",
    "    cmp x10, #1",
    "    b.hi 50f",
    "    b.lo 41f",
    // It is ignored, if it was sent.
    "    ldr w10, [x1, #8]",
    "    cmp w10, #0",
    "    b.le 19b",
    // The default is done, with the same details, when this has returned: rt_sigaction, rt_sigprocmask, getpid, gettid,
    // rt_tgsigqueueinfo.
    "41: mov x13, x1",
    "    stp xzr, xzr, [sp, #-32]!",
    "    stp xzr, xzr, [sp, #16]",
    "    mov x0, #5",
    "    mov x1, sp",
    "    mov x2, #0",
    "    mov x3, #8",
    "    mov x8, #134",
    "    svc #0",
    "    mov x10, #0x10",
    "    str x10, [sp]",
    "    mov x0, #0",
    "    mov x1, sp",
    "    mov x2, #0",
    "    mov x3, #8",
    "    mov x8, #135",
    "    svc #0",
    "    mov x8, #172",
    "    svc #0",
    "    mov x14, x0",
    "    mov x8, #178",
    "    svc #0",
    "    mov x1, x0",
    "    mov x0, x14",
    "    mov x2, #5",
    "    mov x3, x13",
    "    mov x8, #240",
    "    svc #0",
    "    add sp, sp, #32",
    "    ret",
    // The program's own handler, which may be one for a single time.
    "50: ldr w11, [x9, #24]",
    "    tbz w11, #31, 51f",
    "    stp x0, x1, [sp, #-32]!",
    "    str x2, [sp, #16]",
    "    stp xzr, xzr, [sp, #-32]!",
    "    stp xzr, xzr, [sp, #16]",
    "    mov x0, #5",
    "    mov x1, sp",
    "    mov x2, #0",
    "    mov x3, #8",
    "    mov x8, #134",
    "    svc #0",
    "    add sp, sp, #32",
    "    ldr x2, [sp, #16]",
    "    ldp x0, x1, [sp], #32",
    "51: br x10",
    "90: .asciz \"/proc/self/mem\"",
    ".p2align 4",
    "perfuse_trap_end:",
    ".popsection",
);

unsafe extern "C" {
    static perfuse_trap_handler: u8;
    static perfuse_trap_end: u8;
}

pub(super) fn code() -> &'static [u8] {
    let (from, end) = (&raw const perfuse_trap_handler, &raw const perfuse_trap_end);
    // SAFETY: what lies between the two labels is the code above, which nobody writes to.
    unsafe { std::slice::from_raw_parts(from, end as usize - from as usize) }
}
