//! The handler's code on x86-64.

use std::arch::global_asm;

pub(super) const TO_DATA: u64 = 4096;

/// The code of a signal whose details are [marked](super::marked).
pub(super) const MARK: u64 = 0x7066;

/// The offset of what handlers return to.
pub(super) const RESTORER: Option<fn() -> u64> =
    Some(|| &raw const perfuse_trap_restorer as u64 - &raw const perfuse_trap_handler as u64);

// rdi: the signal, rsi: its details (code at 8), rdx: the context (rsp at 0xa0, rip at 0xa8, flags at 0xb0). r8: the memory (how often
// the handler was called at 0, how often it waited at 8, the handler of before at 16, its flags at 24, the number of traps
// at 32, the thread that does a step for us at 40, the signals that it blocks otherwise at 48, the traps from 80 on).
global_asm!(
    ".pushsection .text.perfuse_trap_handler,\"ax\",@progbits",
    ".globl perfuse_trap_handler",
    ".hidden perfuse_trap_handler",
    ".globl perfuse_trap_restorer",
    ".hidden perfuse_trap_restorer",
    ".globl perfuse_trap_end",
    ".hidden perfuse_trap_end",
    ".p2align 4",
    "perfuse_trap_handler:",
    "    lea r8, [rip + perfuse_trap_handler]",
    "    add r8, 4096",
    "    lock inc qword ptr [r8]",
    "    mov eax, [rsi + 8]",
    "    mov rcx, [rdx + 0xa8]",
    "    cmp eax, 0x80",
    "    je 20f",
    "    cmp eax, 0x7066",
    "    je 30f",
    "    cmp eax, 4",
    "    je 19f",
    "    cmp eax, 2",
    "    je 32f",
    // A step over an instruction that calls the system, which may be about to be made once more.
    "    cmp eax, 1",
    "    jne 40f",
    "    movzx eax, word ptr [rcx]",
    "    cmp eax, 0x050f",
    "    je 32f",
    "    cmp eax, 0x80cd",
    "    je 32f",
    "    movzx eax, word ptr [rcx - 2]",
    "    cmp eax, 0x050f",
    "    je 32f",
    "    cmp eax, 0x80cd",
    "    jne 40f",
    // A step: the program's own ones have their flag still.
    "32: test dword ptr [rdx + 0xb0], 0x100",
    "    jnz 40f",
    // Give the thread the signals back that it blocked before (at 0x128 of the context), if it does a step for us: gettid.
    "31: mov r9, [r8 + 40]",
    "    test r9, r9",
    "    jz 19f",
    "    mov eax, 186",
    "    syscall",
    "    cmp rax, r9",
    "    jne 19f",
    "    mov rax, [r8 + 48]",
    "    mov [rdx + 0x128], rax",
    "    ret",
    // Marked.
    "30: mov rax, [rsi + 16]",
    "    lea r9, [rax + 1]",
    "    cmp rcx, r9",
    "    jne 31b",
    "    mov r9, [rsi + 24]",
    "    cmp r9, [rdx + 0xa0]",
    "    jne 31b",
    "    mov [rdx + 0xa8], rax",
    "    jmp 31b",
    "19: ret",
    // A trap: is it one of the table?
    "20: dec rcx",
    "    mov r9, [r8 + 32]",
    "    lea r10, [r8 + 80]",
    "21: test r9, r9",
    "    jz 40f",
    "    cmp [r10], rcx",
    "    je 22f",
    "    add r10, 16",
    "    dec r9",
    "    jmp 21b",
    "22: mov [rdx + 0xa8], rcx",
    "    cmp byte ptr [rcx], 0xcc",
    "    jne 19b",
    // It is there still: nanosleep(1 ms).
    "    mov r9, r10",
    "    push 1000000",
    "    push 0",
    "    mov rdi, rsp",
    "    xor esi, esi",
    "    mov eax, 35",
    "    syscall",
    "    add rsp, 16",
    "    mov eax, 1",
    "    lock xadd [r8 + 8], rax",
    "    cmp rax, 1000",
    "    jb 19b",
    // Nobody takes it back: open, pwrite64, close.
    "    lea rdi, [rip + 90f]",
    "    mov esi, 0x80002",
    "    mov eax, 2",
    "    syscall",
    "    test eax, eax",
    "    js 19b",
    "    mov edi, eax",
    "    lea rsi, [r9 + 8]",
    "    mov edx, 1",
    "    mov r10, [r9]",
    "    mov eax, 18",
    "    syscall",
    "    mov eax, 3",
    "    syscall",
    "    ret",
    // None of ours.
    "40: mov rax, [r8 + 16]",
    "    cmp rax, 1",
    "    ja 50f",
    "    jb 41f",
    // It is ignored, if it was sent.
    "    cmp dword ptr [rsi + 8], 0",
    "    jle 19b",
    // The default is done, with the same details, when this has returned: rt_sigaction, rt_sigprocmask, getpid, gettid,
    // rt_tgsigqueueinfo.
    "41: mov r9, rsi",
    "    xor eax, eax",
    "    push rax",
    "    push rax",
    "    push rax",
    "    push rax",
    "    mov edi, 5",
    "    mov rsi, rsp",
    "    xor edx, edx",
    "    mov r10d, 8",
    "    mov eax, 13",
    "    syscall",
    "    mov qword ptr [rsp], 0x10",
    "    xor edi, edi",
    "    mov rsi, rsp",
    "    xor edx, edx",
    "    mov r10d, 8",
    "    mov eax, 14",
    "    syscall",
    "    mov eax, 39",
    "    syscall",
    "    mov edi, eax",
    "    mov eax, 186",
    "    syscall",
    "    mov esi, eax",
    "    mov edx, 5",
    "    mov r10, r9",
    "    mov eax, 297",
    "    syscall",
    "    add rsp, 32",
    "    ret",
    // The program's own handler, which may be one for a single time.
    "50: test byte ptr [r8 + 27], 0x80",
    "    jz 51f",
    "    push rdi",
    "    push rsi",
    "    push rdx",
    "    xor ecx, ecx",
    "    push rcx",
    "    push rcx",
    "    push rcx",
    "    push rcx",
    "    mov edi, 5",
    "    mov rsi, rsp",
    "    xor edx, edx",
    "    mov r10d, 8",
    "    mov eax, 13",
    "    syscall",
    "    add rsp, 32",
    "    pop rdx",
    "    pop rsi",
    "    pop rdi",
    "51: jmp qword ptr [r8 + 16]",
    "90: .asciz \"/proc/self/mem\"",
    ".p2align 4",
    "perfuse_trap_restorer:",
    "    mov rax, 15",
    "    syscall",
    "    ud2",
    "perfuse_trap_end:",
    ".popsection",
);

unsafe extern "C" {
    static perfuse_trap_handler: u8;
    static perfuse_trap_restorer: u8;
    static perfuse_trap_end: u8;
}

pub(super) fn code() -> &'static [u8] {
    let (from, end) = (&raw const perfuse_trap_handler, &raw const perfuse_trap_end);
    // SAFETY: what lies between the two labels is the code above, which nobody writes to.
    unsafe { std::slice::from_raw_parts(from, end as usize - from as usize) }
}
