//! Reading one counter, and a group of four.

use crate::measure::{Contestant, compare};
use perfuse::abi::Software;
use perfuse::{Counter, Group};
use std::hint::black_box;
use std::os::fd::AsFd;

const CALLS: u32 = 2_000;
const ROUNDS: usize = 201;

/// One page-fault counter of this thread.
pub fn single() {
    let ours = Counter::builder(Software::PAGE_FAULTS).user_only().enabled(true).open().unwrap();
    let raw = Counter::builder(Software::PAGE_FAULTS).user_only().enabled(true).open().unwrap();
    let mut peer1 =
        perf_event::Builder::new().kind(perf_event::events::Software::PAGE_FAULTS).build().unwrap();
    peer1.enable().unwrap();
    let mut peer2 = perf_event2::Builder::new(perf_event2::events::Software::PAGE_FAULTS).build().unwrap();
    peer2.enable().unwrap();
    let peer3 = open_peer(perf_event_open::event::sw::Software::PageFault);
    peer3.enable().unwrap();
    let words = (raw.attr().read_format.bits().count_ones() + 1) as usize;
    let contestants = vec![
        Contestant::calls("read(2) of the same format", CALLS, || {
            let mut buffer = [0u64; 5];
            black_box(perfuse_sys::read(raw.as_fd(), &mut buffer[..words])).unwrap();
            black_box(buffer);
        }),
        Contestant::calls("perfuse", CALLS, || {
            black_box(ours.read().unwrap());
        }),
        Contestant::calls("perf-event", CALLS, || {
            black_box(peer1.read_count_and_time().unwrap());
        }),
        Contestant::calls("perf-event2", CALLS, || {
            black_box(peer2.read_full().unwrap());
        }),
        Contestant::calls("perf-event-open", CALLS, || {
            black_box(peer3.stat().unwrap());
        }),
    ];
    compare("read one software counter", ROUNDS, contestants);
}

/// Four software counters read at once.
pub fn group() {
    let events =
        [Software::PAGE_FAULTS, Software::TASK_CLOCK, Software::CPU_MIGRATIONS, Software::ALIGNMENT_FAULTS];
    let mut ours = Group::new();
    let members = events.map(|event| ours.add_built(Counter::builder(event).user_only()).unwrap());
    ours.enable().unwrap();

    let mut raw_group = Group::new();
    for event in events {
        raw_group.add_built(Counter::builder(event).user_only()).unwrap();
    }
    raw_group.enable().unwrap();
    let raw_leader = raw_group.members().next().unwrap().1;
    let words = perfuse::abi::read::len_for(raw_leader.attr().read_format, 4) / 8;

    use perf_event::events::Software as S1;
    let mut peer1 = perf_event::Group::new().unwrap();
    let kinds = [S1::PAGE_FAULTS, S1::TASK_CLOCK, S1::CPU_MIGRATIONS, S1::ALIGNMENT_FAULTS];
    // Its group has a leader of its own, so three members make four counters.
    let kept1: Vec<_> = kinds[..3]
        .iter()
        .map(|kind| perf_event::Builder::new().group(&mut peer1).kind(*kind).build().unwrap())
        .collect();
    peer1.enable().unwrap();

    use perf_event2::events::Software as S2;
    let mut peer2 = perf_event2::Group::new().unwrap();
    let kinds = [S2::PAGE_FAULTS, S2::TASK_CLOCK, S2::CPU_MIGRATIONS];
    let kept2: Vec<_> =
        kinds.map(|kind| peer2.add(&perf_event2::Builder::new(kind)).unwrap()).into_iter().collect();
    peer2.enable().unwrap();

    use perf_event_open::event::sw::Software as S3;
    let mut peer3 = perf_event_open::count::group::CounterGroup::from(open_peer(S3::PageFault));
    for event in [S3::TaskClock, S3::CpuMigration, S3::AlignFault] {
        let mut options = perf_event_open::config::sibling::Opts::default();
        (options.exclude.kernel, options.exclude.hv) = (true, true);
        peer3.add(event, options).unwrap();
    }
    peer3.enable().unwrap();

    let mut counts = ours.read().unwrap();
    let contestants = vec![
        Contestant::calls("read(2) of the same format", CALLS, || {
            let mut buffer = [0u64; 64];
            black_box(perfuse_sys::read(raw_leader.as_fd(), &mut buffer[..words])).unwrap();
            black_box(buffer);
        }),
        Contestant::calls("perfuse, into the same memory", CALLS, || {
            ours.read_into(&mut counts).unwrap();
            black_box(counts[members[3]]);
        }),
        Contestant::calls("perfuse", CALLS, || {
            black_box(ours.read().unwrap()[members[3]]);
        }),
        Contestant::calls("perf-event", CALLS, || {
            black_box(peer1.read().unwrap()[&kept1[2]]);
        }),
        Contestant::calls("perf-event2", CALLS, || {
            black_box(peer2.read().unwrap()[&kept2[2]]);
        }),
        Contestant::calls("perf-event-open", CALLS, || {
            black_box(peer3.leader().stat().unwrap());
        }),
    ];
    compare("read a group of four", ROUNDS, contestants);
}

fn peer_options() -> perf_event_open::config::Opts {
    let mut options = perf_event_open::config::Opts::default();
    options.exclude.kernel = true;
    options.exclude.hv = true;
    let format = &mut options.stat_format;
    (format.id, format.time_enabled, format.time_running, format.lost_records) = (true, true, true, true);
    format.siblings = true;
    options
}

fn open_peer(event: perf_event_open::event::sw::Software) -> perf_event_open::count::Counter {
    use perf_event_open::config::{Cpu, Proc};
    perf_event_open::count::Counter::new(event, (Proc::CURRENT, Cpu::ALL), peer_options()).unwrap()
}
