//! Programs written by hand, which both verifiers must judge alike.

use perfuse_bpf::{Machine, MapKind, MapSpec, Maps, ProgramSpec, ProgramType, assemble};
use perfuse_testkit::Outcome;
use std::mem::discriminant;
use std::os::fd::AsRawFd;

/// The maps that programs name by `M0` and so on.
fn specs() -> [MapSpec; 7] {
    [
        MapSpec::new(MapKind::Array, 4, 16, 4),
        MapSpec::new(MapKind::Hash, 8, 8, 16),
        MapSpec::new(MapKind::RingBuf, 0, 0, 4096),
        MapSpec::new(MapKind::PerfEventArray, 4, 4, 2),
        MapSpec::new(MapKind::ProgArray, 4, 4, 2),
        MapSpec::new(MapKind::StackTrace, 4, 80, 16),
        MapSpec::new(MapKind::Queue, 0, 8, 4),
    ]
}

const LOOKUP: &str =
    "r2 = *(u32 *)(r1 +8); *(u32 *)(r10 -4) = r2; r1 = M0; r2 = r10; r2 += -4; call map_lookup_elem;";
const VALUE: &str =
    "*(u32 *)(r10 -4) = 0; r1 = M0; r2 = r10; r2 += -4; call map_lookup_elem; if r0 == 0 goto out;";
const RESERVE: &str = "r1 = M2; r2 = 16; r3 = 0; call ringbuf_reserve; if r0 == 0 goto out;";
const OUT: &str = "; out: r0 = 0; exit";

const PROGRAMS: &[&str] = &[
    "r0 = 0; exit",
    "*(u32 *)(r10 -8) = r1; r0 = 0; exit",
    "exit",
    "r0 = r2; exit",
    "r0 = r1; exit",
    "r0 = r10; exit",
    "r0 = 0; r10 = 5; exit",
    "r0 = 0; goto +5; exit",
    "r0 = 0; exit; r0 = 1; exit",
    "r0 = 0; again: goto again",
    "r0 = 0; again: r0 += 1; if r0 < 100 goto again; exit",
    "r0 = 0; again: r0 += 1; if r0 != 100 goto again; exit",
    "r0 = 0; again: r0 += 1; goto again; exit",
    "again: call get_prandom_u32; if r0 != 5 goto again; r0 = 0; exit",
    "r0 = *(u64 *)(r10 -8); exit",
    "r0 = *(u64 *)(r10 -520); exit",
    "r0 = *(u64 *)(r10 +0); exit",
    "r0 = *(u64 *)(r10 -12); exit",
    "*(u64 *)(r10 -8) = r1; r0 = *(u32 *)(r10 -8); exit",
    "*(u64 *)(r10 -8) = r1; r1 = *(u64 *)(r10 -8); r0 = *(u64 *)(r1 +8); exit",
    "*(u64 *)(r10 -8) = r1; *(u8 *)(r10 -5) = 1; r1 = *(u64 *)(r10 -8); r0 = *(u64 *)(r1 +8); exit",
    "r0 = 5; r0 = *(u64 *)(r0 +0); exit",
    "r1 *= 2; r0 = 0; exit",
    "w1 += 2; r0 = 0; exit",
    "w1 -= 2; r0 = 0; exit",
    "r1 -= r10; r0 = 0; exit",
    "r1 += r10; r0 = 0; exit",
    "r1 &= 7; r0 = 0; exit",
    "r1 = -r1; r0 = 0; exit",
    "w0 = w1; exit",
    "r0 = (s8)r1; exit",
    "r0 = r10; r0 -= 8; exit",
    "r0 = r10; r0 += 8; exit",
    "r2 = r10; r2 += -8; r2 += -8; *(u64 *)(r2 +0) = 0; r0 = 0; exit",
    "r2 = *(u64 *)(r1 +8); r1 += r2; r0 = 0; exit",
    "r2 = *(u64 *)(r1 +8); r2 &= 7; r3 = r10; r3 += r2; r0 = *(u8 *)(r3 -8); exit",
    "r2 = *(u64 *)(r1 +8); r2 &= 7; r3 = r10; r3 += r2; r0 = *(u8 *)(r3 -7); exit",
    "r2 = *(u64 *)(r1 +8); r2 &= 7; r3 = r10; r3 += r2; *(u8 *)(r3 -8) = 0; r0 = 0; exit",
    "r2 = *(u64 *)(r1 +8); r3 = r10; r3 += r2; *(u8 *)(r3 -8) = 0; r0 = 0; exit",
    "r0 = 1; r0 <<= 64; exit",
    "r0 = 1; w0 <<= 32; exit",
    "r0 = 1; r0 /= 0; exit",
    "r0 = 1; r2 = 0; r0 /= r2; exit",
    "call f; exit; f: r0 = 1; exit",
    "call f; exit; f: call f; exit",
    "r1 = r10; r1 += -8; call f; r0 = *(u64 *)(r10 -8); exit; f: *(u64 *)(r1 +0) = 7; r0 = 0; exit",
    "call f; r0 = *(u64 *)(r0 +0); exit; f: r0 = r10; exit",
    "r6 = 1; call f; r0 = r6; exit; f: r0 = 0; exit",
    "r6 = 1; call f; exit; f: r0 = r6; exit",
    "r1 = 1; call f; r0 = r1; exit; f: r0 = 0; exit",
    "call 500; exit",
    "call get_current_pid_tgid; exit",
    "call ktime_get_ns; r2 = r1; exit",
    "r1 = r10; r1 += -16; r2 = 16; call get_current_comm; exit",
    "r1 = r10; r1 += -8; r2 = 16; call get_current_comm; exit",
    "r1 = r10; r1 += -16; r2 = 0; call get_current_comm; exit",
    "r2 = *(u64 *)(r1 +8); r1 = r10; r1 += -16; call get_current_comm; exit",
    "r2 = *(u64 *)(r1 +8); r2 &= 15; r1 = r10; r1 += -16; call get_current_comm; exit",
    "r2 = *(u64 *)(r1 +8); r2 &= 15; r2 += 1; r1 = r10; r1 += -16; call get_current_comm; exit",
    "r2 = *(u64 *)(r1 +8); r2 &= 31; r2 += 1; r1 = r10; r1 += -16; call get_current_comm; exit",
    "r2 = 8; r3 = 0; r1 = r10; r1 += -8; call probe_read_kernel; exit",
    "r2 = 0; r3 = 0; r1 = r10; r1 += -8; call probe_read_kernel; exit",
    "r2 = 8; r3 = 0; r1 = 0; call probe_read_kernel; exit",
    "r1 = 0; r2 = 0; call map_lookup_elem; exit",
    "{LOOKUP} r0 = 0; exit",
    "*(u32 *)(r10 -4) = 0; r1 = M0; r2 = r10; r2 += -4; call map_lookup_elem; r0 = *(u64 *)(r0 +0); exit",
    "*(u32 *)(r10 -4) = 0; r1 = M1; r2 = r10; r2 += -8; call map_lookup_elem; r0 = *(u64 *)(r0 +0); exit",
    "{LOOKUP} r0 = *(u64 *)(r0 +0); exit",
    "{LOOKUP} r0 += 8; exit",
    "{LOOKUP} if r0 != 0 goto out; r0 = 5; out: exit",
    "{LOOKUP} r6 = r0; if r6 == 0 goto out; r1 = *(u64 *)(r0 +8) {OUT}",
    "{LOOKUP} *(u64 *)(r10 -16) = r0; if r0 == 0 goto out; r6 = *(u64 *)(r10 -16); r1 = *(u64 *)(r6 +0) {OUT}",
    "{VALUE} r1 = *(u64 *)(r0 +8) {OUT}",
    "{VALUE} r1 = *(u64 *)(r0 +9) {OUT}",
    "{VALUE} r1 = *(u8 *)(r0 +16) {OUT}",
    "{VALUE} r1 = *(u8 *)(r0 -1) {OUT}",
    "{VALUE} r0 += 20; r1 = *(u8 *)(r0 -5) {OUT}",
    "{VALUE} r0 -= 4; r1 = *(u8 *)(r0 +4) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} r6 &= 15; r0 += r6; r1 = *(u8 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} r6 &= 15; r0 += r6; r1 = *(u16 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} if r6 > 15 goto out; r0 += r6; r1 = *(u8 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} if r6 s> 15 goto out; r0 += r6; r1 = *(u8 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} if r6 s> 15 goto out; if r6 s< 0 goto out; r0 += r6; r1 = *(u8 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} if w6 > 15 goto out; r0 += r6; r1 = *(u8 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} w6 = w6; if r6 > 15 goto out; r0 += r6; r1 = *(u8 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} r7 = r6; if r7 > 15 goto out; r0 += r6; r1 = *(u8 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} *(u64 *)(r10 -16) = r6; if r6 > 15 goto out; r7 = *(u64 *)(r10 -16); r0 += r7; r1 = *(u8 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} r6 &= 3; r6 <<= 2; r0 += r6; r1 = *(u32 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} r6 &= 255; r6 >>= 4; r0 += r6; r1 = *(u8 *)(r0 +0) {OUT}",
    "r6 = *(u64 *)(r1 +8); {VALUE} r6 %= 16; r0 += r6; r1 = *(u8 *)(r0 +0) {OUT}",
    "r6 = *(u8 *)(r1 +8); {VALUE} r6 &= 15; r0 += r6; r1 = *(u8 *)(r0 +0) {OUT}",
    "{VALUE} r0 *= 2 {OUT}",
    "{VALUE} *(u64 *)(r0 +0) = r10 {OUT}",
    "{VALUE} r1 = 1; lock *(u64 *)(r0 +0) += r1 {OUT}",
    "{VALUE} r1 = 1; lock *(u64 *)(r0 +12) += r1 {OUT}",
    "{VALUE} r1 = 1; lock *(u64 *)(r0 +4) += r1 {OUT}",
    "{VALUE} *(u64 *)(r0 +4) = 1 {OUT}",
    "{VALUE} r1 = 1; r0 = atomic64_cmpxchg((u64 *)(r0 +0), r0, r1) {OUT}",
    "{VALUE} r1 = 1; r1 = atomic64_xchg((u64 *)(r0 +0), r1) {OUT}",
    "r2 = 1; lock *(u64 *)(r1 +0) += r2; r0 = 0; exit",
    "*(u64 *)(r10 -8) = 1; r2 = 1; r2 = atomic64_xchg((u64 *)(r10 -8), r2); r0 = r2; exit",
    "*(u64 *)(r10 -8) = 1; r2 = 1; r0 = atomic64_cmpxchg((u64 *)(r10 -8), r0, r2); exit",
    "r1 = M1; r2 = r10; r2 += -8; call map_delete_elem; r0 = 0; exit",
    "r1 = M1; r2 = r10; r2 += -4; call map_delete_elem; r0 = 0; exit",
    "r1 = M1; r2 = r10; r2 += -8; r3 = r2; r4 = 0; call map_update_elem; r0 = 0; exit",
    "r1 = M1; r2 = r10; r2 += -8; r3 = 0; r4 = 0; call map_update_elem; r0 = 0; exit",
    "r1 = M1; r0 = *(u64 *)(r1 +0); r0 = 0; exit",
    "r1 = M1; r1 += 8; r0 = 0; exit",
    "r1 = M4; r2 = r10; r2 += -4; call map_lookup_elem; r0 = 0; exit",
    "r1 = M3; r2 = r10; r2 += -4; call map_lookup_elem; r0 = 0; exit",
    "r1 = M6; r2 = r10; r2 += -8; r3 = 0; call map_push_elem; r0 = 0; exit",
    "r1 = M6; r2 = r10; r2 += -8; call map_pop_elem; r0 = *(u64 *)(r10 -8); exit",
    "r1 = M1; r2 = r10; r2 += -8; r3 = 0; call map_push_elem; r0 = 0; exit",
    "r2 = M4; r3 = 0; call tail_call; r0 = 0; exit",
    "r2 = M4; r3 = 0; call tail_call; exit",
    "r2 = M1; r3 = 0; call tail_call; r0 = 0; exit",
    "r1 = r10; r2 = M4; r3 = 0; call tail_call; r0 = 0; exit",
    "r2 = M3; r3 = 0; r4 = r10; r4 += -8; r5 = 8; call perf_event_output; r0 = 0; exit",
    "r2 = M3; r3 = 0; r4 = r10; r4 += -8; r5 = 16; call perf_event_output; r0 = 0; exit",
    "r1 += 8; r2 = M3; r3 = 0; r4 = r10; r4 += -8; r5 = 8; call perf_event_output; r0 = 0; exit",
    "r1 = M3; r2 = 0; r3 = r10; r3 += -24; r4 = 24; call perf_event_read_value; r0 = 0; exit",
    "r2 = M5; r3 = 0; call get_stackid; r0 = 0; exit",
    "r2 = M1; r3 = 0; call get_stackid; r0 = 0; exit",
    "r2 = r10; r2 += -64; r3 = 64; r4 = 256; call get_stack; r0 = 0; exit",
    "r6 = r10; r6 += -64; r2 = r6; r3 = 64; r4 = 256; call get_stack; if r0 s< 0 goto out; if r0 s> 56 goto out; r6 += r0; r1 = *(u8 *)(r6 +0) {OUT}",
    "{RESERVE} r1 = r0; r2 = 0; call ringbuf_submit {OUT}",
    "{RESERVE} *(u64 *)(r0 +8) = 1; r1 = r0; r2 = 0; call ringbuf_discard {OUT}",
    "{RESERVE} *(u64 *)(r0 +9) = 1; r1 = r0; r2 = 0; call ringbuf_discard {OUT}",
    "{RESERVE} r1 = 0 {OUT}",
    "{RESERVE} r6 = r0; r1 = r0; r2 = 0; call ringbuf_submit; *(u64 *)(r6 +0) = 1 {OUT}",
    "{RESERVE} r6 = r0; r1 = r0; r2 = 0; call ringbuf_submit; r1 = r6; r2 = 0; call ringbuf_submit {OUT}",
    "{RESERVE} r0 += 8; r1 = r0; r2 = 0; call ringbuf_submit {OUT}",
    "r1 = M2; r2 = *(u64 *)(r10 -8); r3 = 0; call ringbuf_reserve; r0 = 0; exit",
    "r1 = M2; r2 = r10; r2 += -8; r3 = 8; r4 = 0; call ringbuf_output; r0 = 0; exit",
    "r1 = M2; r2 = 1; call ringbuf_query; exit",
    "r1 = 10; r2 = subprog[turn]; r3 = 0; r4 = 0; call loop; r0 = 0; exit; turn: r0 = 0; exit",
    "r1 = 10; r2 = subprog[turn]; r3 = 0; r4 = 0; call loop; r0 = 0; exit; turn: r0 = 2; exit",
    "*(u64 *)(r10 -8) = 0; r1 = 10; r2 = subprog[turn]; r3 = r10; r3 += -8; r4 = 0; call loop; r0 = *(u64 *)(r10 -8); exit; turn: r3 = *(u64 *)(r2 +0); r3 += 1; *(u64 *)(r2 +0) = r3; r0 = 0; exit",
    "r1 = 10; r2 = 5; r3 = 0; r4 = 0; call loop; r0 = 0; exit",
    "r2 = *(u64 *)(r1 +8); if r2 == r1 goto out; r0 = 1; exit; out: r0 = 0; exit",
    "if r1 == 0 goto bad; r0 = 0; exit; bad: r0 = *(u64 *)(r0 +0); exit",
    "r2 = *(u64 *)(r1 +8); r2 &= 1; if r2 > 1 goto bad; r0 = 0; exit; bad: r0 = *(u64 *)(r3 +0); exit",
    "r2 = *(u64 *)(r1 +8); r0 = 0; if r2 & 1 goto +0; exit",
];

/// Programs of which the verdict hangs on the context.
const OF_TYPES: &[(ProgramType, &[&str])] = &[
    (
        ProgramType::PerfEvent,
        &[
            "r0 = *(u64 *)(r1 +0); exit",
            "r0 = *(u32 *)(r1 +0); exit",
            "r0 = *(u64 *)(r1 +160); exit",
            "r0 = *(u64 *)(r1 +168); exit",
            "r0 = *(u32 *)(r1 +168); exit",
            "r0 = *(u8 *)(r1 +176); exit",
            "r0 = *(u64 *)(r1 +176); exit",
            "r0 = *(u64 *)(r1 +184); exit",
            "r0 = *(u64 *)(r1 +4); exit",
            "*(u64 *)(r1 +0) = 0; r0 = 0; exit",
            "r1 += 8; r0 = *(u64 *)(r1 +0); exit",
            "r2 = r10; r2 += -24; r3 = 24; call perf_prog_read_value; exit",
            "r2 = r10; r2 += -24; r3 = 24; r4 = 0; call read_branch_records; exit",
            "call get_attach_cookie; exit",
            "call get_func_ip; exit",
            "call get_current_cgroup_id; exit",
            "call get_smp_processor_id; exit",
            "call skb_load_bytes; exit",
        ],
    ),
    (
        ProgramType::Tracepoint,
        &[
            "r0 = *(u64 *)(r1 +0); exit",
            "r0 = *(u64 *)(r1 +8); exit",
            "r0 = *(u8 *)(r1 +9); exit",
            "r0 = *(u32 *)(r1 +10); exit",
            "r0 = *(u64 *)(r1 +8184); exit",
            "r0 = *(u64 *)(r1 +8192); exit",
            "*(u64 *)(r1 +8) = 0; r0 = 0; exit",
            "call get_attach_cookie; exit",
            "call get_func_ip; exit",
            "r1 = 9; call send_signal; exit",
        ],
    ),
    (
        ProgramType::Kprobe,
        &[
            "r0 = *(u64 *)(r1 +0); exit",
            "r0 = *(u32 *)(r1 +4); exit",
            "r0 = *(u64 *)(r1 +160); exit",
            "r0 = *(u64 *)(r1 +168); exit",
            "call get_func_ip; exit",
            "call get_attach_cookie; exit",
        ],
    ),
    (
        ProgramType::RawTracepoint,
        &[
            "r0 = *(u64 *)(r1 +0); exit",
            "r0 = *(u32 *)(r1 +4); exit",
            "r0 = *(u64 *)(r1 +88); exit",
            "r0 = *(u64 *)(r1 +96); exit",
            "*(u64 *)(r1 +0) = 0; r0 = 0; exit",
            "call get_attach_cookie; exit",
            "call get_func_ip; exit",
        ],
    ),
    (
        ProgramType::SocketFilter,
        &[
            "r0 = *(u32 *)(r1 +0); exit",
            "r0 = *(u16 *)(r1 +0); exit",
            "r0 = *(u64 *)(r1 +0); exit",
            "r0 = *(u32 *)(r1 +76); exit",
            "r0 = *(u32 *)(r1 +48); exit",
            "*(u32 *)(r1 +48) = 5; r0 = 0; exit",
            "*(u32 *)(r1 +0) = 5; r0 = 0; exit",
            "r2 = 0; r3 = r10; r3 += -4; r4 = 4; call skb_load_bytes; r0 = *(u32 *)(r10 -4); exit",
            "call get_current_pid_tgid; exit",
            "call get_current_cgroup_id; exit",
            "r1 = r10; r1 += -16; r2 = 16; call get_current_comm; exit",
            "call get_current_task; exit",
            "r2 = 8; r3 = 0; r1 = r10; r1 += -8; call probe_read_kernel; exit",
        ],
    ),
];

pub(super) fn programs_are_let_through_or_refused_alike() -> Outcome {
    let theirs = specs().map(|spec| {
        let declared = [spec.kind.number(), spec.key_size, spec.value_size, spec.max_entries, spec.flags];
        perfuse_sys::bpf::Map::create(declared).expect("a map")
    });
    let mut machine = Machine::new(Maps::new(2, 1 << 22, 1));
    let ours = specs().map(|spec| machine.maps.create(spec).expect("a map"));
    let mut differ = Vec::new();
    let (mut compared, mut refused, mut same, mut worded) = (0, 0, 0, 0);
    let all = OF_TYPES
        .iter()
        .flat_map(|(program_type, texts)| texts.iter().map(|text| (*program_type, *text)))
        .chain(PROGRAMS.iter().map(|text| (ProgramType::Tracepoint, *text)));
    for (program_type, text) in all {
        let text = text
            .replace("{LOOKUP}", LOOKUP)
            .replace("{VALUE}", VALUE)
            .replace("{RESERVE}", RESERVE)
            .replace("{OUT}", OUT);
        let with = |number: &dyn Fn(usize) -> i32| {
            let named = (0..ours.len()).fold(text.clone(), |text, index| {
                text.replace(&format!("M{index}"), &format!("map[fd:{}]", number(index)))
            });
            assemble(&named).unwrap_or_else(|error| panic!("{error}"))
        };
        let linux = super::load(program_type, &with(&|index| theirs[index].as_raw_fd()));
        let insns = with(&|index| ours[index].0 as i32);
        let here = machine.load(ProgramSpec { program_type, insns: &insns, maps: &[] });
        compared += 1;
        let differs = match (&here, &linux) {
            (Ok(_), Ok(_)) => None,
            (Err(refusal), Err((errno, log))) if refusal.reason.errno() != *errno => {
                Some(format!("{:?} here, {errno:?} there: {refusal}\n{}", refusal.reason.errno(), last(log)))
            }
            (Err(refusal), Err((_, log))) => {
                // The log tells the same in our words: the same instruction, and the same kind of reason.
                let told = perfuse_bpf::log::refusal(program_type, &insns, log);
                let told = told.unwrap_or_else(|| panic!("{text} is refused: {log}"));
                same += u32::from(
                    told.slot == refusal.slot && discriminant(&told.reason) == discriminant(&refusal.reason),
                );
                refused += 1;
                let written = perfuse_bpf::log::text(refusal);
                let is_same = words(&cause(&written)) == words(&cause(log));
                worded += u32::from(is_same);
                if matches!(told.reason, perfuse_bpf::Reason::Other { .. }) {
                    println!("{text}\n   unread: {}", told.reason);
                }
                None
            }
            (Ok(_), Err((errno, log))) => Some(format!("refused by Linux alone: {errno:?} {}", last(log))),
            (Err(refusal), Ok(_)) => Some(format!("refused here alone: {refusal}")),
        };
        let differs = differs.filter(|told| !KNOWN.iter().any(|known| told.contains(known)));
        differ.extend(differs.map(|told| format!("{program_type}: {text}\n   {told}")));
        if let Ok(program) = here {
            machine.unload(program).expect("it was loaded");
        }
    }
    println!("{compared} programs, {} judged otherwise", differ.len());
    println!(
        "{refused} refused by both, {same} of them for the same reason at the same instruction, as the log is read"
    );
    println!("{worded} of them with the same sentence");
    assert!(worded * 10 >= refused * 8, "{worded} of {refused} logs have Linux's sentence");
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(same * 10 >= refused * 8, "{same} of {refused} logs are understood");
    Ok(())
}

/// What is judged otherwise, and why.
const KNOWN: [&str; 2] = [
    // Linux wants types (BTF) for functions that are pointed to.
    "missing btf func_info",
    // The structure of a map is the kernel's own.
    "itself, not memory",
];

/// The last sentence of a log before the line of numbers.
fn cause(log: &str) -> String {
    let is_told = |line: &&str| {
        let others = ["processed ", "cur state:", "old state:"];
        !line.is_empty() && !others.iter().any(|other| line.starts_with(other))
    };
    let mut sentences = log.lines().filter(is_told);
    sentences.next_back().unwrap_or_default().to_owned()
}

/// Its words, without numbers.
fn words(sentence: &str) -> Vec<String> {
    let word = |word: &str| word.chars().filter(|c| c.is_ascii_alphabetic() || *c == '_').collect::<String>();
    sentence.split_whitespace().map(word).filter(|word| !word.is_empty()).collect()
}

/// The sentence of a log that refuses.
fn last(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("processed ")).collect();
    lines.iter().rev().take(2).rev().copied().collect::<Vec<_>>().join(" | ")
}
