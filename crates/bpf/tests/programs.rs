//! Programs as a whole: verified and run, or refused with a reason.

use perfuse_bpf::{
    Errno, Fault, Machine, MapId, MapKind, MapSpec, Maps, ProgramSpec, ProgramType, Refusal, World, assemble,
};

/// A world with known answers, which remembers what it was told.
#[derive(Default)]
struct Known {
    output: Vec<(u32, Vec<u8>)>,
    printed: Vec<String>,
    woken: Vec<MapId>,
}

impl World for Known {
    fn time_ns(&mut self) -> u64 {
        1_000
    }

    fn pid_tgid(&mut self) -> u64 {
        7 << 32 | 8
    }

    fn comm(&mut self) -> [u8; 16] {
        *b"worker\0\0\0\0\0\0\0\0\0\0"
    }

    fn cpu(&mut self) -> u32 {
        1
    }

    fn read_user(&mut self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        const TEXT: &[u8] = b"hello\0";
        let at = addr.checked_sub(0x1000).ok_or(Errno::EFAULT)? as usize;
        let found = TEXT.get(at..at + into.len()).ok_or(Errno::EFAULT)?;
        into.copy_from_slice(found);
        Ok(())
    }

    fn event_output(&mut self, event: u32, data: &[u8]) -> Result<(), Errno> {
        self.output.push((event, data.to_vec()));
        Ok(())
    }

    fn event_read(&mut self, event: u32) -> Result<[u64; 3], Errno> {
        Ok([u64::from(event), 2, 3])
    }

    fn stack(&mut self, user: bool) -> Result<Vec<u64>, Errno> {
        if user { Ok(vec![10, 20, 30]) } else { Err(Errno::EFAULT) }
    }

    fn print(&mut self, text: &str) {
        self.printed.push(text.into());
    }

    fn ring_wakes(&mut self, ring: MapId) {
        self.woken.push(ring);
    }
}

struct Bench {
    machine: Machine,
    maps: Vec<MapId>,
    world: Known,
}

impl Bench {
    fn new(specs: &[MapSpec]) -> Self {
        let mut machine = Machine::new(Maps::new(2, 1 << 22, 1));
        let maps = specs.iter().map(|spec| machine.maps.create(spec.clone()).unwrap()).collect();
        Bench { machine, maps, world: Known::default() }
    }

    fn load(&mut self, program_type: ProgramType, text: &str) -> Result<perfuse_bpf::ProgramId, Refusal> {
        let insns = assemble(text).unwrap();
        self.machine.load(ProgramSpec { program_type, insns: &insns, maps: &self.maps })
    }

    #[track_caller]
    fn run(&mut self, text: &str) -> u64 {
        let program = self.load(ProgramType::PerfEvent, text).unwrap_or_else(|refusal| panic!("{refusal}"));
        let ran = self.machine.run(program, &mut [0; 184], &mut self.world, 100_000).unwrap();
        ran.result.unwrap()
    }

    #[track_caller]
    fn refuses(&mut self, text: &str) -> String {
        self.load(ProgramType::PerfEvent, text)
            .expect_err("refused")
            .to_string()
            .lines()
            .next()
            .unwrap()
            .into()
    }
}

fn refuses(text: &str) -> String {
    Bench::new(&[]).refuses(text)
}

#[test]
fn arithmetic_loops_and_functions_give_their_results() {
    let mut bench = Bench::new(&[]);
    assert_eq!(bench.run("r0 = 0; r1 = 10; again: r0 += r1; r1 -= 1; if r1 != 0 goto again; exit"), 55);
    assert_eq!(
        bench.run("r1 = 5; r6 = 1; call double; r0 += r6; exit; double: r0 = r1; r0 += r1; r6 = 9; exit"),
        11
    );
    assert_eq!(bench.run("r0 = -7; r0 s/= 2; exit") as i64, -3);
    assert_eq!(bench.run("*(u64 *)(r10 -8) = 5; r1 = 3; r1 = atomic64_fetch_add((u64 *)(r10 -8), r1); r0 = *(u64 *)(r10 -8); r0 += r1; exit"), 13);
}

#[test]
fn helpers_ask_the_world() {
    let mut bench = Bench::new(&[]);
    assert_eq!(bench.run("call ktime_get_ns; exit"), 1_000);
    assert_eq!(bench.run("call get_current_pid_tgid; r0 >>= 32; exit"), 7);
    assert_eq!(
        bench.run("r1 = r10; r1 += -16; r2 = 16; call get_current_comm; r0 = *(u8 *)(r10 -15); exit"),
        u64::from(b'o')
    );
    assert_eq!(
        bench.run("r1 = r10; r1 += -16; r2 = 16; r3 = 4096; call probe_read_user_str; r1 = *(u8 *)(r10 -12); r0 <<= 8; r0 |= r1; exit"),
        6 << 8 | u64::from(b'o')
    );
    assert_eq!(bench.run("r1 = r10; r1 += -8; r2 = 8; r3 = 1; call probe_read_user; exit") as i64, -14);
    bench.run(
        "r1 = 0x6425; *(u64 *)(r10 -8) = r1; r1 = r10; r1 += -8; r2 = 8; r3 = -5; call trace_printk; exit",
    );
    assert_eq!(bench.world.printed, ["-5"]);
}

#[test]
fn a_hash_counts_by_process() {
    let mut bench = Bench::new(&[MapSpec::new(MapKind::Hash, 8, 8, 10)]);
    let text = "
        call get_current_pid_tgid
        *(u64 *)(r10 -8) = r0
        r1 = map[idx:0]; r2 = r10; r2 += -8
        call map_lookup_elem
        if r0 != 0 goto there
        *(u64 *)(r10 -16) = 1
        r1 = map[idx:0]; r2 = r10; r2 += -8; r3 = r10; r3 += -16; r4 = 1
        call map_update_elem
        exit
        there: r1 = *(u64 *)(r0 +0); r1 += 1; *(u64 *)(r0 +0) = r1; r0 = 0; exit";
    for _ in 0..5 {
        assert_eq!(bench.run(text), 0);
    }
    let key = (7u64 << 32 | 8).to_ne_bytes();
    assert_eq!(bench.machine.maps.get(bench.maps[0]).unwrap().lookup(&key), Ok(5u64.to_ne_bytes().to_vec()));
}

#[test]
fn a_ring_buffer_keeps_the_order_and_drops_what_was_thrown_away() {
    let mut bench = Bench::new(&[MapSpec::new(MapKind::RingBuf, 0, 0, 4096)]);
    let reserve = |value: u32, end: &str| {
        format!(
            "r1 = map[idx:0]; r2 = 8; r3 = 0; call ringbuf_reserve; if r0 == 0 goto full
             *(u64 *)(r0 +0) = {value}; r1 = r0; r2 = 0; call ringbuf_{end}; r0 = 0; exit; full: r0 = 1; exit"
        )
    };
    bench.run(&reserve(1, "submit"));
    bench.run(&reserve(2, "discard"));
    bench.run(&reserve(3, "submit"));
    assert_eq!(bench.world.woken, [bench.maps[0]], "the reader waited for the first alone");
    let ring = bench.machine.maps.get_mut(bench.maps[0]).unwrap().ring().unwrap();
    assert_eq!(ring.read(), Some(1u64.to_ne_bytes().to_vec()));
    assert_eq!(ring.read(), Some(3u64.to_ne_bytes().to_vec()));
    assert_eq!(ring.read(), None);
    // 4096 bytes have room for 255 records of 16.
    let full = (0..300).map(|_| bench.run(&reserve(4, "submit"))).filter(|full| *full == 1).count();
    assert_eq!(full, 300 - 255);
}

#[test]
fn events_are_written_to_and_read() {
    let mut bench = Bench::new(&[MapSpec::new(MapKind::PerfEventArray, 4, 4, 2)]);
    let output = "r6 = r1; *(u64 *)(r10 -8) = 77; r1 = r6; r2 = map[idx:0]; r3 = 0xffffffff; r4 = r10; r4 += -8; r5 = 8; call perf_event_output; exit";
    assert_eq!(bench.run(output) as i64, -2, "no event is there");
    let map = bench.machine.maps.get_mut(bench.maps[0]).unwrap();
    map.update(&1u32.to_ne_bytes(), &500u32.to_ne_bytes(), 0).unwrap();
    assert_eq!(bench.run(output), 0);
    assert_eq!(bench.world.output, [(500, 77u64.to_ne_bytes().to_vec())]);
    let read = "r1 = map[idx:0]; r2 = 1; r3 = r10; r3 += -24; r4 = 24; call perf_event_read_value; r1 = *(u64 *)(r10 -24); r0 += r1; exit";
    assert_eq!(bench.run(read), 500);
}

#[test]
fn stacks_have_numbers() {
    let mut bench = Bench::new(&[MapSpec::new(MapKind::StackTrace, 4, 80, 16)]);
    let text = "r2 = map[idx:0]; r3 = 256; call get_stackid; exit";
    let id = bench.run(text);
    assert_eq!(bench.run(text), id);
    let stack = bench.machine.maps.get(bench.maps[0]).unwrap().lookup(&(id as u32).to_ne_bytes()).unwrap();
    assert_eq!(stack[..24], [10u64, 20, 30].map(u64::to_ne_bytes).concat());
    assert_eq!(bench.run("r2 = map[idx:0]; r3 = 0; call get_stackid; exit") as i64, -14);
    assert_eq!(bench.run("r2 = r10; r2 += -32; r3 = 32; r4 = 256; call get_stack; exit"), 24);
}

#[test]
fn a_program_goes_on_in_another_at_most_33_times() {
    let mut bench =
        Bench::new(&[MapSpec::new(MapKind::ProgArray, 4, 4, 1), MapSpec::new(MapKind::Array, 4, 8, 1)]);
    let text = "r6 = r1; r1 = map[idx:1][0]; r2 = 1; lock *(u64 *)(r1 +0) += r2; r1 = r6; r2 = map[idx:0]; r3 = 0; call tail_call; r0 = 5; exit";
    let program = bench.load(ProgramType::PerfEvent, text).unwrap();
    let maps = bench.maps.clone();
    bench.machine.maps.get_mut(maps[0]).unwrap().update(&[0; 4], &program.0.to_ne_bytes(), 0).unwrap();
    let ran = bench.machine.run(program, &mut [0; 184], &mut bench.world, 10_000).unwrap();
    assert_eq!(ran.result, Ok(5));
    let count = bench.machine.maps.get(maps[1]).unwrap().lookup(&[0; 4]).unwrap();
    assert_eq!(count, 34u64.to_ne_bytes());
}

#[test]
fn bpf_loop_calls_a_function_until_it_says_stop() {
    let mut bench = Bench::new(&[]);
    let text = "
        *(u64 *)(r10 -8) = 0
        r1 = 100; r2 = subprog[turn]; r3 = r10; r3 += -8; r4 = 0
        call loop
        r6 = r0
        r0 = *(u64 *)(r10 -8)
        r6 <<= 32
        r0 |= r6
        exit
        turn: r3 = *(u64 *)(r2 +0); r3 += r1; *(u64 *)(r2 +0) = r3; r0 = 0
        if r1 != 9 goto on
        r0 = 1
        on: exit";
    assert_eq!(bench.run(text), 10 << 32 | 45);
    assert!(bench.refuses(&text.replace("r0 = 1\n", "r0 = 2\n")).contains("a function for bpf_loop returns"));
}

#[test]
fn a_budget_ends_what_takes_too_long() {
    let mut bench = Bench::new(&[]);
    let text = "r0 = 0; again: r0 += 1; if r0 < 1000 goto again; exit";
    let program = bench.load(ProgramType::PerfEvent, text).unwrap();
    let ran = bench.machine.run(program, &mut [0; 184], &mut bench.world, 100).unwrap();
    assert_eq!((ran.result, ran.instructions), (Err(Fault::Budget), 100));
    assert_eq!(bench.machine.run(program, &mut [0; 184], &mut bench.world, 5000).unwrap().result, Ok(1000));
}

#[test]
fn refusals_say_what_a_register_may_hold() {
    let mut bench = Bench::new(&[MapSpec::new(MapKind::Array, 4, 8, 4)]);
    let lookup = "*(u32 *)(r10 -4) = 1; r1 = map[idx:0]; r2 = r10; r2 += -4; call map_lookup_elem; ";
    let not_null = format!("{lookup} if r0 == 0 goto out; ");
    let out = "; out: r0 = 0; exit";
    assert_eq!(
        bench.refuses(&format!("{lookup} r0 = *(u64 *)(r0 +0); exit")),
        "instruction 6 (r0 = *(u64 *)(r0 +0)): r0 is a value of map 0 (array of 8 bytes), or null"
    );
    assert_eq!(
        bench.refuses(&format!("{not_null} r1 = *(u64 *)(r0 +4) {out}")),
        "instruction 7 (r1 = *(u64 *)(r0 +4)): r0 is in a value of map 0 (array of 8 bytes): 8 bytes there are not all within its 8"
    );
    assert_eq!(
        bench.refuses(&format!(
            "r6 = *(u64 *)(r1 +0); {not_null} r6 &= 15; r0 += r6; r1 = *(u8 *)(r0 +0) {out}"
        )),
        "instruction 10 (r1 = *(u8 *)(r0 +0)): r0 is in a value of map 0 (array of 8 bytes) plus a number from 0 to 15: 1 bytes there are not all within its 8"
    );
    assert_eq!(
        bench.run(&format!("r6 = *(u64 *)(r1 +0); {not_null} r6 &= 7; r0 += r6; r1 = *(u8 *)(r0 +0) {out}")),
        0
    );
    assert_eq!(
        bench.run(&format!(
            "r6 = *(u64 *)(r1 +0); {not_null} if r6 > 7 goto out; r0 += r6; r1 = *(u8 *)(r0 +0) {out}"
        )),
        0
    );
}

#[test]
fn what_a_verifier_must_refuse_is_refused() {
    for (text, why) in [
        ("exit", "r0 holds nothing yet"),
        ("r0 = r2; exit", "r2 holds nothing yet"),
        ("r0 = 0", "the function goes on behind its last instruction"),
        ("r0 = 0; goto +5; exit", "it leads to slot 7, outside of its function"),
        ("r0 = 0; exit; r0 = 1; exit", "no way leads here"),
        ("goto +1; r0 = 0x1; r0 = 0; exit", "the middle of a constant"),
        ("r0 = 0; again: goto again", "it comes here again with nothing changed"),
        ("r10 = 0; r0 = 0; exit", "r10, the frame pointer, is only read"),
        ("r0 = *(u64 *)(r10 -520); exit", "are not all within its 512"),
        ("r0 = *(u64 *)(r10 +0); exit", "are not all within its 512"),
        ("r0 = *(u64 *)(r10 -12); exit", "are not at a multiple of their size"),
        ("r0 = 5; r0 = *(u64 *)(r0 +0); exit", "r0 is the number 5, not memory"),
        ("r0 = *(u64 *)(r1 +288); exit", "8 bytes of the context at 288 are not for this program"),
        ("r0 = *(u32 *)(r1 +0); exit", "4 bytes of the context at 0 are not for this program"),
        ("*(u64 *)(r1 +0) = 0; r0 = 0; exit", "8 bytes of the context at 0 are not for writing"),
        ("r1 += 8; r0 = *(u64 *)(r1 +0); exit", "r1 points to the context and was moved"),
        ("r1 *= 2; r0 = 0; exit", "r1 is the context, which this operation is not for"),
        ("w1 += 2; r0 = 0; exit", "r1 is the context, which this operation is not for"),
        ("r0 = r10; r0 -= 8; exit", "r0 is on the stack"),
        ("call unknown#500; exit", "there is no helper bpf_unknown#500 here"),
        ("call skb_load_bytes; exit", "bpf_skb_load_bytes is not for a perf event program"),
        ("r1 = map[fd:9]; r0 = 0; exit", "there is no map 9"),
        ("r1 = 0; r2 = 0; call map_lookup_elem; exit", "r1 is the number 0; wanted is a map"),
        ("r1 = r10; r1 += -8; r2 = 16; call get_current_comm; exit", "16 bytes there reach above the stack"),
        ("r0 = 1; r0 <<= 64; exit", "a shift by 64 leaves nothing of 64 bits"),
        ("*(u32 *)(r10 -8) = r1; r0 = 0; exit", "this moves a part of a pointer"),
        ("r0 = 1; r0 /= 0; exit", "this divides by zero"),
        ("call f; exit; f: call f; exit", "more than 8 functions call each other"),
        ("call ktime_get_ns; r2 = r1; exit", "r1 holds nothing yet"),
    ] {
        let found = refuses(text);
        assert!(found.contains(why), "{text}: {found}");
    }
}

#[test]
fn reservations_are_given_back_on_every_way() {
    let mut bench = Bench::new(&[MapSpec::new(MapKind::RingBuf, 0, 0, 4096)]);
    let reserve = "r1 = map[idx:0]; r2 = 8; r3 = 0; call ringbuf_reserve; if r0 == 0 goto out; ";
    let out = "; out: r0 = 0; exit";
    let kept = bench.refuses(&format!("{reserve} r1 = 0 {out}"));
    assert!(kept.contains("the memory that instruction 4 reserved is not given back"), "{kept}");
    let twice = format!(
        "{reserve} r6 = r0; r1 = r0; r2 = 0; call ringbuf_submit; r1 = r6; r2 = 0; call ringbuf_submit {out}"
    );
    assert!(bench.refuses(&twice).contains("r1 is any number; wanted is the beginning"));
    let after = format!("{reserve} r6 = r0; r1 = r0; r2 = 0; call ringbuf_submit; *(u64 *)(r6 +0) = 0 {out}");
    assert!(bench.refuses(&after).contains("r6 is any number, not memory"));
    let beyond = format!("{reserve} *(u64 *)(r0 +8) = 0; r1 = r0; r2 = 0; call ringbuf_submit {out}");
    assert!(bench.refuses(&beyond).contains("8 bytes there are not all within its 8"));
}

#[test]
fn a_loop_without_a_bound_is_refused_and_a_long_one_too() {
    assert!(
        refuses("r6 = 0; again: r6 += 1; call get_prandom_u32; if r0 != 5 goto again; r0 = 0; exit")
            .contains("more than 1000000 instructions")
    );
    assert!(
        refuses("again: call get_prandom_u32; if r0 != 5 goto again; r0 = 0; exit")
            .contains("comes here again")
    );
    assert!(
        refuses("r0 = 0; again: r0 += 1; if r0 != 0x7fffffff goto again; exit").contains("more than 1000000")
    );
}

/// A world of a packet.
struct Packet(&'static [u8]);

impl World for Packet {
    fn packet(&mut self, at: u32, into: &mut [u8]) -> Result<(), Errno> {
        let found = self.0.get(at as usize..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(found.ok_or(Errno::EFAULT)?);
        Ok(())
    }
}

#[test]
fn a_filter_reads_its_packet() {
    let mut machine = Machine::new(Maps::new(1, 1 << 20, 7));
    let mut run = |program_type, text: &str| {
        let insns = assemble(text).unwrap();
        let program = machine.load(ProgramSpec { program_type, insns: &insns, maps: &[] })?;
        let ran = machine.run(program, &mut [0; 192], &mut Packet(b"\x01\x02\x03\x04\x05"), 1000);
        Ok::<u64, Refusal>(ran.unwrap().result.unwrap())
    };
    let filter = ProgramType::SocketFilter;
    // Numbers of packets begin with their highest byte.
    assert_eq!(run(filter, "r6 = r1; r0 = *(u16 *)skb[1]; exit"), Ok(0x0203));
    assert_eq!(run(filter, "r6 = r1; r7 = 2; r0 = *(u8 *)skb[r7 + 2]; exit"), Ok(5));
    // One that reads behind the end is over.
    assert_eq!(run(filter, "r6 = r1; r0 = *(u32 *)skb[2]; r0 = 9; exit"), Ok(0));
    let load = "r2 = 1; r3 = r10; r3 += -8; r4 = 4; call skb_load_bytes; if r0 != 0 goto out; r0 = *(u32 *)(r10 -8); out: exit";
    assert_eq!(run(filter, load), Ok(u64::from(u32::from_ne_bytes([2, 3, 4, 5]))));
    assert_eq!(run(filter, &load.replace("r2 = 1", "r2 = 2")).map(|value| value as i64), Ok(-14));
    let refused = run(ProgramType::PerfEvent, "r6 = r1; r0 = *(u8 *)skb[1]; exit").unwrap_err();
    assert!(refused.to_string().contains("r6 is no packet"), "{refused}");
    assert!(run(filter, "r6 = 1; r0 = *(u8 *)skb[1]; exit").is_err());
    assert!(run(filter, "r6 = r1; r0 = *(u8 *)skb[1]; r0 = r1; exit").is_err(), "loads clear r1 to r5");
}

#[test]
fn a_reader_who_says_nonsense_has_no_room() {
    let mut bench = Bench::new(&[MapSpec::new(MapKind::RingBuf, 0, 0, 4096)]);
    let output = "*(u64 *)(r10 -8) = 5; r1 = map[idx:0]; r2 = r10; r2 += -8; r3 = 8; r4 = 0; call ringbuf_output; exit";
    let query = "r1 = map[idx:0]; r2 = 0; call ringbuf_query; exit";
    assert_eq!(bench.run(output), 0);
    let at = |bench: &mut Bench, position| {
        bench.machine.maps.get_mut(bench.maps[0]).unwrap().ring().unwrap().set_consumer(position);
    };
    for position in [40, 1 << 40, 1 << 63] {
        at(&mut bench, position);
        assert_eq!((bench.run(output) as i64, bench.run(query)), (-11, 16u64.wrapping_sub(position)));
    }
    at(&mut bench, 16);
    assert_eq!((bench.run(output), bench.run(query)), (0, 16));
    let ring = bench.machine.maps.get_mut(bench.maps[0]).unwrap().ring().unwrap();
    assert_eq!((ring.bytes().len(), ring.read()), (4096, Some(5u64.to_ne_bytes().to_vec())));
}
