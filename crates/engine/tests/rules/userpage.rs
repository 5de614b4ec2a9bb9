//! The control page (rules F30 to F37).

use crate::machine::{Machine, Reader, attr, software, with};
use perfuse_engine::abi::page::{MmapPage, ShortClock, TimeConversion, UserCount};
use perfuse_engine::abi::wire::{Layout, Reader as Bytes};
use perfuse_engine::abi::{AttrFlags, ByteOrder, Errno, EventType, Software};
use perfuse_engine::{Cx, Hw, Ioctl, OpenArguments, Pmu, PmuInfo, Target};
use std::sync::atomic::Ordering;

fn page(reader: &Reader) -> MmapPage {
    let words = reader.memory.words()[..136].iter();
    let bytes: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
    let mut page = MmapPage::default();
    page.layout(&mut Bytes::new(&bytes, ByteOrder::NATIVE)).unwrap();
    page
}

/// Rules F30, F37.
#[test]
fn a_fresh_page_tells_where_the_data_is() {
    let mut machine = Machine::new(1);
    let off = with(software(Software::PAGE_FAULTS), AttrFlags::DISABLED);
    let fd = machine.open(&off, OpenArguments::default()).unwrap();
    let reader = machine.map(fd, 2);
    let expected = MmapPage {
        lock: 2,
        size: 96,
        capabilities: perfuse_engine::abi::page::Capabilities::BIT0_IS_DEPRECATED,
        data_offset: 4096,
        data_size: 8192,
        ..MmapPage::default()
    };
    assert_eq!(page(&reader), expected);
    let fd = machine.open(&off, OpenArguments::default()).unwrap();
    let reader = machine.map(fd, 0);
    assert_eq!((page(&reader).data_offset, page(&reader).data_size), (4096, 0));
}

/// Rules F31, F32, F33: the count of a software event is that of the last update.
#[test]
fn the_page_of_a_software_event_is_as_of_its_last_update() {
    let mut machine = Machine::new(1);
    let fd = machine.open(&software(Software::PAGE_FAULTS), OpenArguments::default()).unwrap();
    let reader = machine.map(fd, 1);
    let before = page(&reader);
    machine.fault(0, 10);
    machine.pass(100);
    assert_eq!(page(&reader), before);
    machine.disable(fd);
    let after = page(&reader);
    assert!(after.lock > before.lock && after.lock % 2 == 0);
    assert_eq!((after.index, after.offset, after.time_enabled, after.time_running), (0, 10, 100, 100));
    machine.ioctl(fd, Ioctl::Reset { group: false }).unwrap();
    assert_eq!((page(&reader).offset, page(&reader).time_enabled), (0, 100));
}

/// Counters that users may read: they show the time, cut to 32 bits.
#[derive(Debug)]
struct Readable;

impl Pmu for Readable {
    fn info(&self) -> PmuInfo {
        PmuInfo { type_: Some(EventType::RAW), ..PmuInfo::hardware("cpu") }
    }

    fn event_init(&mut self, hw: &mut Hw, _target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ == EventType::RAW { Ok(()) } else { Err(Errno::ENOENT) }
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, _start: bool) -> Result<(), Errno> {
        hw.prev = cx.now;
        hw.index = Some(5);
        hw.stopped = false;
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.read(cx, hw);
        hw.index = None;
        hw.stopped = true;
    }

    fn read(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        if !hw.stopped {
            hw.count += cx.now - hw.prev;
            hw.prev = cx.now;
        }
    }

    fn user_width(&self, _hw: &Hw) -> Option<u16> {
        Some(32)
    }
}

/// Rules F32, F34: the count is the offset plus what the counter shows.
#[test]
fn a_counter_can_be_read_by_the_user() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(Readable)).unwrap();
    let fd = machine.open(&attr(EventType::RAW, 0), OpenArguments::default()).unwrap();
    let reader = machine.map(fd, 1);
    machine.pass(1234);
    let count = UserCount::of(&page(&reader));
    assert_eq!((count.counter(), count.pmc_width), (Some(5), 32));
    assert_eq!(count.value(Some(machine.now)), Some(1234));
    assert_eq!(machine.count(fd), 1234);
    machine.disable(fd);
    let count = UserCount::of(&page(&reader));
    assert_eq!((count.counter(), count.value(None)), (None, Some(1234)));
}

/// Rules F35, F36: the user finds out how late it is.
#[test]
fn cycles_become_times() {
    let mut machine = Machine::new(1);
    machine.engine.register(Box::new(Readable)).unwrap();
    // 16 ns a cycle, and a clock of 32 bits that is about to wrap.
    let mut clock = TimeConversion { shift: 21, mult: 1 << 25, zero_ns: 40, ..TimeConversion::default() };
    clock.short = Some(ShortClock { cycles: 0, mask: u64::from(u32::MAX) });
    machine.engine.set_user_clock(Some(clock));
    let fd = machine.open(&attr(EventType::RAW, 0), OpenArguments::default()).unwrap();
    let reader = machine.map(fd, 1);
    let cycles = |now: u64| (now - 40) / 16;
    machine.pass(160_000);
    let shown = UserCount::of(&page(&reader));
    let (enabled, running) = (machine.times(fd).1, machine.times(fd).2);
    let times = shown.times(cycles(machine.now));
    assert!(times.enabled_ns.abs_diff(enabled) < 16 && times.running_ns.abs_diff(running) < 16, "{times:?}");
    assert!(shown.conversion.unwrap().clock_ns(cycles(machine.now)).abs_diff(machine.now) < 16);
    // Another clock than that of records has no zero, on x86.
    let mut other = with(attr(EventType::RAW, 0), AttrFlags::USE_CLOCKID);
    other.clockid = 1;
    let fd = machine.open(&other, OpenArguments::default()).unwrap();
    let reader = machine.map(fd, 1);
    assert_eq!((page(&reader).time_zero, page(&reader).capabilities.bits()), (0, 0x2e));
}
