//! AUX areas and their records (rules F9, F40 to F45, H31).

use crate::machine::{KERNEL, ME, Machine, PAGE, Reader, attr, decoded, software};
use crate::tracer::{TRACE, Tracer};
use perfuse_engine::abi::record::Record;
use perfuse_engine::abi::{Attr, AuxAction, AuxFlags, Errno, SampleType, Software};
use perfuse_engine::{Effect, MapRequest, OpenArguments, PmuId, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Scene {
    machine: Machine,
    pmu: PmuId,
    step: Arc<AtomicU64>,
    freed: Arc<AtomicU64>,
    attr: Attr,
    fd: i32,
    ring: Reader,
}

impl Scene {
    /// With a ring of eight pages of data.
    fn new(attr: Attr) -> Self {
        let mut machine = Machine::new(1);
        let tracer = Tracer::default();
        let (step, freed) = (tracer.step.clone(), tracer.freed.clone());
        let pmu = machine.engine.register(Box::new(tracer)).unwrap();
        let fd = machine.open(&attr, OpenArguments::default()).unwrap();
        let ring = machine.map(fd, 8);
        Scene { machine, pmu, step, freed, attr, fd, ring }
    }

    fn map_aux(&mut self, pages: usize, writable: bool) -> Result<Reader, Errno> {
        let words = self.ring.memory.words();
        let offset = 9 * PAGE as u64;
        words[1072 / 8].store(offset, Ordering::Release);
        words[1080 / 8].store((pages * PAGE) as u64, Ordering::Release);
        let request = MapRequest { pages, offset, shared: true, writable };
        self.map(request)
    }

    fn map(&mut self, request: MapRequest) -> Result<Reader, Errno> {
        let (key, now) = (self.machine.key(self.fd), self.machine.now);
        self.machine.engine.mmap(&mut self.machine.world, ME, key, now, request).map(Reader::of)
    }

    /// Starts anew, now that there is an area.
    fn start(&mut self) {
        self.machine.disable(self.fd);
        self.machine.enable(self.fd);
        self.ring.take();
    }

    fn interrupt(&mut self, bytes: u64) {
        self.step.store(bytes, Ordering::Relaxed);
        self.machine.engine.interrupt(self.pmu, 0, self.machine.now, None, &KERNEL);
    }

    /// Offset, size and flags of the AUX records since the last time.
    fn pieces(&mut self) -> Vec<(u64, u64, AuxFlags)> {
        let bytes = self.ring.take();
        let of = |record: &Record<'_>| match record {
            Record::Aux(aux) => Some((aux.offset, aux.size, aux.flags)),
            _ => None,
        };
        decoded(&bytes, &self.attr).iter().filter_map(|record| of(&record.record)).collect()
    }

    fn state(&self) -> Option<State> {
        self.machine.engine.state(self.machine.key(self.fd))
    }

    fn aux_head(&self) -> u64 {
        self.ring.memory.words()[1056 / 8].load(Ordering::Acquire)
    }
}

/// Rules F9, F40: in this order, and for PMUs that can.
#[test]
fn an_area_lies_where_the_page_says() {
    let mut scene = Scene::new(attr(TRACE, 0));
    let at = |offset: usize, pages| MapRequest {
        pages,
        offset: (offset * PAGE) as u64,
        shared: true,
        writable: true,
    };
    assert_eq!(scene.map(at(9, 4)).err(), Some(Errno::EINVAL), "nothing is said");
    scene.map_aux(4, true).unwrap();
    assert_eq!(scene.map(at(10, 4)).err(), Some(Errno::EINVAL), "elsewhere");
    assert_eq!(scene.map(at(9, 2)).err(), Some(Errno::EINVAL), "another size");
    assert!(scene.map(at(9, 4)).is_ok(), "once more");
    let mut scene = Scene::new(attr(TRACE, 0));
    assert_eq!(scene.map_aux(3, true).err(), Some(Errno::EINVAL), "no power of two");
    assert_eq!(scene.map_aux(128, true).err(), Some(Errno::ENOMEM), "the driver refuses");
    let mut scene = Scene::new(software(Software::PAGE_FAULTS));
    assert_eq!(scene.map_aux(4, true).err(), Some(Errno::EOPNOTSUPP));
}

/// Rules F41, F42: pieces follow each other, and half the area wakes.
#[test]
fn a_trace_is_announced_piece_by_piece() {
    let mut scene = Scene::new(attr(TRACE, 0));
    let area = scene.map_aux(2, true).unwrap();
    scene.start();
    scene.machine.engine.effects().for_each(drop);
    let mut woken = Vec::new();
    for _ in 0..4 {
        scene.interrupt(1600);
        woken.push(scene.machine.engine.effects().any(|effect| matches!(effect, Effect::Wake(_))));
    }
    let none = AuxFlags::empty();
    assert_eq!(scene.pieces(), [0, 1, 2, 3].map(|number| (number * 1600, 1600, none)));
    assert_eq!(woken, [false, false, true, false]);
    assert_eq!((scene.aux_head(), area.memory.words()[100].load(Ordering::Relaxed)), (6400, 800));
}

/// Rules F42, F43: a trace that does not fit is cut, which ends the event.
#[test]
fn a_full_area_truncates_and_stops() {
    let mut scene = Scene::new(attr(TRACE, 0));
    scene.map_aux(1, true).unwrap();
    scene.start();
    scene.interrupt(5000);
    assert_eq!(scene.pieces(), [(0, 4088, AuxFlags::TRUNCATED)]);
    assert_eq!(scene.state(), Some(State::Off));
    // Room is there again once the reader has moved its tail.
    scene.ring.memory.words()[1064 / 8].store(4088, Ordering::Release);
    scene.machine.enable(scene.fd);
    scene.interrupt(100);
    assert_eq!((scene.pieces(), scene.state()), (vec![(4088, 96, AuxFlags::TRUNCATED)], Some(State::Off)));
}

/// Rules F40, F42, F43: an area mapped read-only is written round and round, and wakes no reader.
#[test]
fn a_snapshot_area_is_overwritten() {
    let mut scene = Scene::new(attr(TRACE, 0));
    scene.map_aux(1, false).unwrap();
    scene.start();
    scene.machine.engine.effects().for_each(drop);
    (0..3).for_each(|_| scene.interrupt(4000));
    assert_eq!(scene.pieces(), [4000, 8000, 12_000].map(|head| (head, 4000, AuxFlags::OVERWRITE)));
    assert_eq!((scene.aux_head(), scene.state()), (12_000, Some(State::Active)));
    assert_eq!(scene.machine.engine.effects().count(), 0);
}

/// Rule F44.
#[test]
fn unmapping_the_area_stops_the_trace() {
    let mut scene = Scene::new(attr(TRACE, 0));
    scene.map_aux(1, true).unwrap();
    scene.start();
    let key = scene.machine.key(scene.fd);
    scene.machine.engine.munmap_aux(key, scene.machine.now);
    assert_eq!(scene.freed.load(Ordering::Relaxed), 7);
    scene.interrupt(100);
    assert_eq!((scene.pieces(), scene.aux_head()), (vec![], 0));
}

/// The start of an instruction trace is announced until the driver says it has begun.
#[test]
fn the_start_of_a_trace_is_announced() {
    let mut scene = Scene::new(attr(TRACE, 0));
    scene.map_aux(1, true).unwrap();
    let starts = |scene: &mut Scene| {
        scene.machine.disable(scene.fd);
        scene.machine.enable(scene.fd);
        let bytes = scene.ring.take();
        let all = decoded(&bytes, &scene.attr);
        all.iter()
            .filter(|record| matches!(record.record, Record::ItraceStart(tid) if tid.pid == 100))
            .count()
    };
    assert_eq!([starts(&mut scene), starts(&mut scene)], [1, 0]);
}

/// Rule F45: overflows of others in the group pause the trace and let it go on.
#[test]
fn a_sibling_pauses_the_trace() {
    let mut leader = attr(TRACE, 0);
    leader.aux_action = AuxAction::START_PAUSED;
    let mut scene = Scene::new(leader);
    scene.map_aux(1, true).unwrap();
    scene.start();
    scene.interrupt(64);
    assert_eq!(scene.pieces(), []);
    let mut resume = software(Software::PAGE_FAULTS);
    resume.set_period(1);
    resume.aux_action = AuxAction::RESUME;
    assert_eq!(scene.machine.open(&resume, OpenArguments::default()), Err(Errno::EINVAL));
    scene.machine.join(&resume, scene.fd).unwrap();
    let mut pause = software(Software::CONTEXT_SWITCHES);
    pause.set_period(1);
    pause.aux_action = AuxAction::PAUSE;
    let pause = scene.machine.join(&pause, scene.fd).unwrap();
    scene.ring.take();
    scene.machine.fault(0, 2);
    scene.interrupt(64);
    let bytes = scene.ring.take();
    let kinds: Vec<_> = decoded(&bytes, &scene.attr).into_iter().map(|record| record.record).collect();
    assert!(matches!(kinds[..], [Record::AuxOutputHwId(0), Record::Aux(_)]), "{kinds:?}");
    scene.machine.engine.software(0, scene.machine.now, Software::CONTEXT_SWITCHES, 1, 0, &KERNEL);
    scene.interrupt(64);
    let bytes = scene.ring.take();
    let kinds: Vec<_> = decoded(&bytes, &scene.attr).into_iter().map(|record| record.record).collect();
    assert!(matches!(kinds[..], [Record::AuxOutputHwId(1)]), "{kinds:?}");
    // Without its leader such an event is in error.
    let key = scene.machine.key(pause);
    let (ring, trace) = (scene.machine.key(scene.fd), scene.fd);
    scene.machine.close(trace);
    scene.machine.engine.munmap_aux(ring, scene.machine.now);
    scene.machine.engine.munmap(ring, scene.machine.now);
    assert_eq!(scene.machine.engine.state(key), Some(State::Error));
}

/// Rule H31: a sample has the newest of the trace, as much as asked for.
#[test]
fn a_sample_can_have_the_newest_of_the_trace() {
    let mut scene = Scene::new(attr(TRACE, 0));
    scene.map_aux(1, false).unwrap();
    let mut asked = software(Software::PAGE_FAULTS);
    asked.set_period(1);
    asked.sample_type = SampleType::AUX | SampleType::IP;
    asked.aux_sample_size = 20;
    let sibling = scene.machine.join(&asked, scene.fd).unwrap();
    scene.machine.redirect(sibling, Some(scene.fd)).unwrap();
    scene.start();
    (0..2).for_each(|_| scene.interrupt(3000));
    scene.ring.take();
    scene.machine.fault(0, 1);
    let bytes = scene.ring.take();
    let Record::Sample(sample) = decoded(&bytes, &asked)[0].record else { panic!("no sample") };
    let expected: Vec<u8> = [5984u64, 5992].iter().flat_map(|at| at.to_ne_bytes()).collect();
    assert_eq!(sample.aux, Some(&expected[..]));
}
