//! Emptying a ring: nanoseconds a record, from records of 32 bytes (a page fault with its address) and
//! of 320 (the same with a piece of the stack).

use crate::measure::{Contestant, compare};
use perfuse::abi::record::{Decoded, Record};
use perfuse::abi::{SampleType, Software};
use perfuse::{Builder, Counter, Sampler};
use perfuse_sys::{Mapping, Protection, page_size};
use std::hint::black_box;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Instant;

const ROUNDS: usize = 41;
const RING_PAGES: usize = 1 << 11;
const STACK: u32 = 256;

pub fn all() {
    for (title, faults, stack) in
        [("drain 32-byte records", 20_000, false), ("drain 320-byte records", 20_000, true)]
    {
        records(title, faults, stack);
    }
}

/// The event all contestants sample: each write to a fresh page.
fn event(stack: bool, fields: SampleType) -> Builder {
    Counter::builder(Software::PAGE_FAULTS).user_only().period(1).sample(fields).with(move |attr| {
        if stack {
            attr.sample_type |= SampleType::STACK_USER | SampleType::ADDR | SampleType::CPU;
            attr.sample_stack_user = STACK;
        }
    })
}

/// Touches `pages` fresh pages.
fn fault(pages: usize) {
    let len = pages * page_size();
    // SAFETY: a fresh private mapping, written within its bounds and unmapped again.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        libc::madvise(start, len, libc::MADV_NOHUGEPAGE);
        (0..len).step_by(page_size()).for_each(|at| start.cast::<u8>().add(at).write_volatile(1));
        libc::munmap(start, len);
    }
}

/// The plainest reader: follows the sizes in the headers and sums one field.
struct Walk {
    counter: Counter,
    map: Mapping,
}

impl Walk {
    fn drain(&mut self) -> (u64, u64) {
        use perfuse::abi::page::offset::{DATA_HEAD, DATA_TAIL};
        let size = RING_PAGES * page_size();
        let head = self.map.load_u64(DATA_HEAD, Acquire);
        let mut tail = self.map.load_u64(DATA_TAIL, Acquire);
        let (mut records, mut sum) = (0, 0u64);
        // SAFETY: the kernel does not write between tail and head.
        let data = unsafe { self.map.bytes(page_size(), size) };
        while tail != head {
            let at = tail as usize & (size - 1);
            // SAFETY: records are aligned to 8 bytes, so neither header nor field lies across the end.
            let header = unsafe { data.as_ptr().add(at).cast::<u64>().read() };
            // SAFETY: as above, the record being longer than 16 bytes.
            sum = sum.wrapping_add(unsafe { data.as_ptr().add((at + 8) & (size - 1)).cast::<u64>().read() });
            tail += header >> 48;
            records += 1;
        }
        self.map.store_u64(DATA_TAIL, tail, Release);
        (records, sum)
    }
}

/// Times `drain`, which returns how many records it saw: at least one for each fault.
fn turn(faults: usize, drain: impl FnOnce() -> u64) -> f64 {
    let start = Instant::now();
    let records = drain();
    let ns = start.elapsed().as_nanos() as f64;
    assert!(records as usize >= faults, "{records} records of {faults} faults");
    ns / records as f64
}

fn records(title: &str, faults: usize, stack: bool) {
    let small = SampleType::IP | SampleType::TID;
    let sampler = || {
        let mut sampler = Sampler::builder()
            .event(event(stack, small))
            .exactly_pages(RING_PAGES)
            .open()
            .expect("room for the ring; try as root");
        sampler.disable().unwrap();
        sampler
    };
    let fill = |sampler: &mut Sampler| {
        sampler.enable().unwrap();
        fault(faults);
        sampler.disable().unwrap();
    };
    let (mut borrowed, mut with_source, mut decoded) = (sampler(), sampler(), sampler());
    let mut walk = {
        let counter = event(stack, small | SampleType::IDENTIFIER).open().unwrap();
        let map = Mapping::new(counter.as_fd(), (RING_PAGES + 1) * page_size(), Protection::ReadWrite, 0);
        Walk { counter, map: map.unwrap() }
    };

    use perf_event2::SampleFlag as Flag;
    let peer2 = || {
        let mut builder = perf_event2::Builder::new(perf_event2::events::Software::PAGE_FAULTS);
        builder.sample_period(1).sample(Flag::IP | Flag::TID | Flag::TIME);
        if stack {
            builder.sample(Flag::STACK_USER | Flag::ADDR | Flag::CPU).sample_stack_user(STACK);
        }
        builder.build().unwrap().sampled(RING_PAGES * page_size()).unwrap()
    };
    let (mut raw2, mut parsed2) = (peer2(), peer2());
    let fill2 = |sampler: &mut perf_event2::Sampler| {
        sampler.as_counter_mut().enable().unwrap();
        fault(faults);
        sampler.as_counter_mut().disable().unwrap();
    };

    let peer3 = || {
        use perf_event_open::config::{Cpu, Opts, Proc, SampleOn, Size};
        let mut options = Opts::default();
        options.exclude.kernel = true;
        options.exclude.hv = true;
        options.sample_on = SampleOn::Count(1);
        options.sample_format.code_addr = true;
        options.record_id_format.task = true;
        options.record_id_format.time = true;
        if stack {
            options.sample_format.user_stack = Some(Size(STACK));
            options.sample_format.data_addr = true;
            options.record_id_format.cpu = true;
        }
        let event = perf_event_open::event::sw::Software::PageFault;
        let counter =
            perf_event_open::count::Counter::new(event, (Proc::CURRENT, Cpu::ALL), options).unwrap();
        let sampler = counter.sampler(RING_PAGES.trailing_zeros() as u8).unwrap();
        (counter, sampler)
    };
    let (counter3, sampler3) = peer3();
    let (counter3p, sampler3p) = peer3();
    let fill3 = |counter: &perf_event_open::count::Counter| {
        counter.enable().unwrap();
        fault(faults);
        counter.disable().unwrap();
    };

    let contestants = vec![
        Contestant::timed("walk over headers, sum a field", || {
            let enable = |walk: &mut Walk| {
                walk.counter.enable().unwrap();
                fault(faults);
                walk.counter.disable().unwrap();
            };
            enable(&mut walk);
            turn(faults, || black_box(walk.drain()).0)
        }),
        Contestant::timed("perfuse, borrowed", || {
            fill(&mut borrowed);
            turn(faults, || {
                let batch = borrowed.batch();
                let mut records = 0;
                while let Some(record) = batch.raw().next() {
                    black_box(record.body);
                    records += 1;
                }
                records
            })
        }),
        Contestant::timed("perfuse, borrowed with its event", || {
            fill(&mut with_source);
            turn(faults, || {
                let batch = with_source.batch();
                batch.iter().fold(0, |records, entry| {
                    black_box((entry.raw.body, entry.source));
                    records + 1
                })
            })
        }),
        Contestant::timed("perfuse, decoded", || {
            fill(&mut decoded);
            turn(faults, || {
                let batch = decoded.batch();
                let mut records = 0;
                let mut place = Decoded::from(Record::Switch);
                for entry in batch.iter() {
                    entry.decode_into(&mut place).unwrap();
                    if let Record::Sample(sample) = &black_box(&place).record {
                        black_box(sample.ip);
                    }
                    records += 1;
                }
                records
            })
        }),
        Contestant::timed("perf-event2, borrowed", || {
            fill2(&mut raw2);
            turn(faults, || {
                let mut records = 0;
                while let Some(record) = raw2.next_record() {
                    black_box(record.data());
                    records += 1;
                }
                records
            })
        }),
        Contestant::timed("perf-event2, parsed", || {
            fill2(&mut parsed2);
            turn(faults, || {
                let mut records = 0;
                while let Some(record) = parsed2.next_record() {
                    let _ = black_box(record.parse_record());
                    records += 1;
                }
                records
            })
        }),
        Contestant::timed("perf-event-open, borrowed", || {
            fill3(&counter3);
            turn(faults, || {
                let mut iter = sampler3.iter().unwrap().into_cow();
                let mut records = 0;
                while let Some(record) = iter.lending_next() {
                    black_box(record.as_raw().as_bytes());
                    records += 1;
                }
                records
            })
        }),
        Contestant::timed("perf-event-open, parsed", || {
            fill3(&counter3p);
            turn(faults, || {
                let iter = sampler3p.iter().unwrap();
                iter.map(black_box).count() as u64
            })
        }),
    ];
    compare(title, ROUNDS, contestants);
}
