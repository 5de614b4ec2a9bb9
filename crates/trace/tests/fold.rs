//! Samples folded by programs are those that were taken: the programs run here, in the interpreter.

use perfuse_abi::Errno;
use perfuse_abi::regs::Arch;
use perfuse_bpf::{Machine, MapId, Maps, ProgramId, ProgramSpec, ProgramType, World};
use perfuse_trace::{Entries, Fold, FoldedRow};

/// An overflow.
#[derive(Clone, Copy, Default)]
struct Overflow {
    time: u64,
    tid: u32,
    cpu: u32,
    comm: u8,
    kernel: &'static [u64],
    user: &'static [u64],
    period: u64,
}

impl World for Overflow {
    fn time_ns(&mut self) -> u64 {
        self.time
    }

    fn pid_tgid(&mut self) -> u64 {
        u64::from(self.tid / 10 * 10) << 32 | u64::from(self.tid)
    }

    fn cpu(&mut self) -> u32 {
        self.cpu
    }

    fn stack(&mut self, user: bool) -> Result<Vec<u64>, Errno> {
        let stack = if user { self.user } else { self.kernel };
        if stack.is_empty() { Err(Errno::EFAULT) } else { Ok(stack.to_vec()) }
    }

    fn comm(&mut self) -> [u8; 16] {
        std::array::from_fn(|index| if index == 0 { self.comm } else { 0 })
    }
}

/// A kernel with the programs of two events.
struct Kernel {
    fold: Fold,
    machine: Machine,
    maps: Vec<MapId>,
    programs: Vec<ProgramId>,
}

impl Kernel {
    fn new(fold: Fold) -> Self {
        let mut machine = Machine::new(Maps::new(2, 1 << 30, 7));
        let maps: Vec<MapId> =
            fold.maps().into_iter().map(|spec| machine.maps.create(spec).expect("a map")).collect();
        let programs = [0, 1].map(|event| {
            let insns = fold.program(event, Arch::X86_64).expect("a program");
            let spec = ProgramSpec { program_type: ProgramType::PerfEvent, insns: &insns, maps: &maps };
            machine.load(spec).unwrap_or_else(|refusal| panic!("{refusal}\n{}", perfuse_bpf::listing(&insns)))
        });
        Kernel { fold, machine, maps, programs: programs.to_vec() }
    }

    /// Whether the sample is folded.
    fn takes(&mut self, event: usize, mut overflow: Overflow) -> bool {
        let mut context = [0; 184];
        let ip = overflow.kernel.first().or(overflow.user.first()).copied().unwrap_or(0);
        let mode = if overflow.kernel.is_empty() { 0x33 } else { 0x10 };
        for (at, word) in [(128, ip), (136, mode), (168, overflow.period)] {
            context[at..at + 8].copy_from_slice(&u64::to_ne_bytes(word));
        }
        let ran = self.machine.run(self.programs[event], &mut context, &mut overflow, 100_000);
        match ran.expect("a program").result {
            Ok(answer) => answer == 0,
            fault => panic!("{fault:?}"),
        }
    }

    fn rows(&self) -> Vec<FoldedRow> {
        let read = |map: usize| -> Result<Entries, Errno> {
            let map = self.machine.maps.get(self.maps[map])?;
            let mut entries = Vec::new();
            let mut key = map.next_key(None);
            while let Ok(found) = key {
                entries.push((found.clone(), map.lookup(&found)?));
                key = map.next_key(Some(&found));
            }
            Ok(entries)
        };
        self.fold.rows(&read).expect("maps")
    }
}

const USER: &[u64] = &[0x400, 0x500];
const OTHER: &[u64] = &[0x400, 0x700];
const KERNEL: &[u64] = &[0xffff_ffff_8100_0000, 0xffff_ffff_8100_1000];

#[test]
fn samples_of_a_thread_at_a_stack_become_one() {
    let mut kernel = Kernel::new(Fold { frames: 127, by_cpu: false });
    let at = |time, user, period| Overflow { time, tid: 11, user, period, ..Overflow::default() };
    assert!(kernel.takes(0, at(1, USER, 10)));
    assert!(kernel.takes(0, Overflow { cpu: 1, ..at(2, USER, 20) }));
    assert!(kernel.takes(0, at(3, OTHER, 30)));
    assert!(kernel.takes(1, at(4, USER, 40)));
    assert!(kernel.takes(0, Overflow { kernel: KERNEL, ..at(5, USER, 50) }));
    // Another name, another thread, and one of the kernel.
    assert!(kernel.takes(0, Overflow { comm: b'x', ..at(6, USER, 60) }));
    assert!(kernel.takes(0, Overflow { tid: 12, ..at(7, USER, 70) }));
    assert!(kernel.takes(0, Overflow { kernel: KERNEL, ..at(8, &[], 80) }));
    let row = |event, tid, kernel: &[u64], user: &[u64], count, period, last_ns| {
        let (kernel, user) = (kernel.to_vec(), user.to_vec());
        FoldedRow { event, pid: 10, tid, cpu: 0, kernel, user, count, period, last_ns }
    };
    let expected = [
        row(0, 11, &[], USER, 2, 30, 2),
        row(0, 11, &[], OTHER, 1, 30, 3),
        row(1, 11, &[], USER, 1, 40, 4),
        row(0, 11, KERNEL, USER, 1, 50, 5),
        row(0, 11, &[], USER, 1, 60, 6),
        row(0, 12, &[], USER, 1, 70, 7),
        row(0, 11, KERNEL, &[], 1, 80, 8),
    ];
    assert_eq!(kernel.rows(), expected);
}

#[test]
fn without_stacks_places_count_and_cpus_if_asked_for() {
    let mut kernel = Kernel::new(Fold { frames: 0, by_cpu: true });
    let at = |time, cpu, kernel| Overflow { time, tid: 11, cpu, kernel, user: USER, period: 1, comm: 0 };
    for overflow in [at(1, 0, &[][..]), at(2, 1, &[]), at(3, 1, KERNEL), at(4, 1, KERNEL)] {
        assert!(kernel.takes(1, overflow));
    }
    let told = kernel.rows().into_iter().map(|row| (row.event, row.cpu, row.kernel, row.user, row.count));
    let expected =
        [(1, 0, vec![], vec![0x400], 1), (1, 1, vec![], vec![0x400], 1), (1, 1, vec![KERNEL[0]], vec![], 2)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn what_finds_no_room_stays_a_sample() {
    let mut kernel = Kernel::new(Fold { frames: 0, by_cpu: false });
    let at = |tid| Overflow { tid, user: USER, period: 1, ..Overflow::default() };
    let room = kernel.fold.maps()[0].max_entries;
    assert!((0..room).all(|tid| kernel.takes(0, at(tid))));
    assert!(!kernel.takes(0, at(room)));
    assert!(kernel.takes(0, at(0)));
    assert_eq!(kernel.rows().iter().map(|row| row.count).sum::<u64>(), u64::from(room) + 1);
}
