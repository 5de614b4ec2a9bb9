//! Samplers against the running kernel: what was done stands in the ring, once, in order, and under the
//! right name. Rules are those of `docs/semantics`.

use perfuse::abi::record::{CallchainContext, CpuMode, Decoded, Misc, Record, RegsAbi, Sample};
use perfuse::abi::regs::Arch;
use perfuse::abi::{AttrFlags, Breakpoint, ReadFormat, SampleType, Software};
use perfuse::{
    Builder, Clock, Command, Counter, Errno, Event, Sampler, SamplerBuilder, SamplerRecord, Target, Wait,
};
use perfuse_testkit::signals::Handler;
use perfuse_testkit::work::{Pages, burn, system_calls};
use perfuse_testkit::{Outcome, Sandbox, Skip, need, suite};
use std::cell::UnsafeCell;
use std::ffi::CString;
use std::fs::File;
use std::hint::black_box;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// Every page fault of user space as a sample with its address: 24 bytes each, so that records lie across
/// the end of the ring.
fn faults() -> Builder {
    Counter::builder(Software::PAGE_FAULTS).user_only().period(1).sample(SampleType::ADDR)
}

/// A sampler of the calling thread. Skips where it may not be sampled.
fn sampler(builder: SamplerBuilder) -> Result<Sampler, Skip> {
    faults().open().map_err(|error| Skip::needs("to sample one's own page faults", error))?;
    Ok(builder.open().expect("a sampler"))
}

/// Far more time than anything takes here.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

fn touch_again(pages: &Pages) {
    pages.forget();
    pages.touch();
}

/// Takes everything that is there.
fn drain(sampler: &mut Sampler) {
    while sampler.batch().iter().count() > 0 {}
}

/// Samples `work`, which is done once before, so that its code has been fetched.
fn sampled(sampler: &mut Sampler, work: impl Fn()) {
    for _ in 0..2 {
        drain(sampler);
        sampler.enable().expect("enable");
        work();
        sampler.disable().expect("disable");
    }
}

fn samples<'b>(entries: impl Iterator<Item = SamplerRecord<'b>>) -> Vec<Sample<'b>> {
    entries
        .filter_map(|entry| match entry.decode().expect("a record").record {
            Record::Sample(sample) => Some(sample),
            _ => None,
        })
        .collect()
}

fn addresses<'b>(entries: impl Iterator<Item = SamplerRecord<'b>>) -> Vec<u64> {
    // arm64 leaves the tag in the upper byte out, x86 tells the byte: the page is what counts.
    samples(entries).iter().map(|sample| sample.addr.expect("an address")).collect()
}

fn the_addresses_of_faults_are_the_pages_that_were_touched() -> Outcome {
    let fields = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::CPU | SampleType::PERIOD;
    let event = faults().sample(fields - SampleType::PERIOD).clock(Clock::Monotonic);
    let mut sampler = sampler(Sampler::builder().event(event))?;
    let pages = Pages::map(200);
    sampled(&mut sampler, || touch_again(&pages));
    let id = sampler.sources()[0].id();
    let batch = sampler.batch();
    let entries: Vec<_> = batch.iter().collect();
    assert!(entries.iter().all(|entry| entry.source == 0 && entry.time_ns().is_some()));
    assert!(entries.windows(2).all(|pair| pair[0].time_ns() <= pair[1].time_ns()));
    let decoded: Vec<Decoded<'_>> = entries.iter().map(|entry| entry.decode().expect("a record")).collect();
    // SAFETY: gettid has no preconditions.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    for decoded in &decoded {
        assert_eq!((decoded.id(), decoded.misc.cpu_mode()), (Some(id), CpuMode::USER));
        assert_eq!(decoded.tid().map(|id| (id.pid, id.tid)), Some((std::process::id(), tid)));
    }
    let addresses = addresses(entries.iter().copied());
    assert_eq!(addresses, pages.addresses().collect::<Vec<_>>());
    let ips: Vec<_> = samples(entries.iter().copied()).iter().map(|s| s.ip.expect("an address")).collect();
    assert!(ips.iter().all(|&ip| ip == ips[0]), "one instruction touches them all");
    Ok(())
}

/// A word to be watched, in memory of its own.
struct Watched(UnsafeCell<u64>);

impl Watched {
    fn event(&self) -> Event {
        Event::breakpoint(Breakpoint::W, self.0.get() as u64, 8)
    }

    #[inline(never)]
    fn write(&self) {
        // SAFETY: the word is ours, and no reference to its content exists.
        unsafe { self.0.get().write_volatile(1) };
    }
}

fn events_that_share_a_ring_keep_their_identity() -> Outcome {
    // Not two of the same event: the kernel would give both the id of one (rule H4).
    let word = Box::new(Watched(UnsafeCell::new(0)));
    let other = |event: Event| Counter::builder(event).user_only().period(1);
    let mut builder = Sampler::builder()
        .event(faults())
        .event(other(Software::PAGE_FAULTS_MIN.into()).sample(SampleType::TID | SampleType::IP))
        .event(other(Software::DUMMY.into()).with(|attr| attr.flags |= AttrFlags::COMM));
    let watches = other(word.event()).open().is_ok();
    if watches {
        builder = builder.event(other(word.event()).sample(SampleType::CPU));
    }
    let mut sampler = sampler(builder)?;
    let pages = Pages::map(20);
    let name = || {
        // SAFETY: a string that ends with NUL.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"renamed".as_ptr()) };
    };
    sampled(&mut sampler, || {
        for _ in 0..3 {
            touch_again(&pages);
            name();
            (0..5).for_each(|_| word.write());
        }
    });
    let ids: Vec<_> = sampler.sources().iter().map(|source| source.id()).collect();
    let mut counts = vec![0; ids.len()];
    for entry in sampler.batch().iter() {
        let decoded = entry.decode().expect("a record");
        assert_eq!(decoded.id(), Some(ids[entry.source]));
        counts[entry.source] += 1;
        match (entry.source, decoded.record) {
            (0, Record::Sample(sample)) => assert!(sample.addr.is_some() && sample.tid.is_none()),
            (1, Record::Sample(sample)) => assert!(sample.ip.is_some() && sample.addr.is_none()),
            (2, Record::Comm(comm)) => assert_eq!(comm.name.to_string(), "renamed"),
            (3, Record::Sample(sample)) => assert!(sample.cpu.is_some()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counts, [60, 60, 3, 15][..counts.len()]);
    Ok(())
}

fn a_tiny_ring_that_is_drained_loses_nothing() -> Outcome {
    // A batch of 50 records of 24 bytes fits into 4096, and its place moves on each time.
    let mut sampler = sampler(Sampler::builder().event(faults()).exactly_pages(1))?;
    let pages = Pages::map(50);
    sampled(&mut sampler, || touch_again(&pages));
    drain(&mut sampler);
    let expected: Vec<_> = pages.addresses().collect();
    let mut bytes = 0;
    sampler.source_mut(0).reset().expect("reset");
    sampler.enable().expect("enable");
    for round in 0.. {
        touch_again(&pages);
        let batch = sampler.batch();
        bytes += batch.raw().unread_bytes();
        // Code of the sampler that is run for the first time faults too.
        let of_pages = addresses(batch.iter()).into_iter().filter(|address| expected.contains(address));
        assert_eq!(of_pages.collect::<Vec<_>>(), expected, "round {round}");
        assert_eq!(batch.raw().corrupt_bytes(), 0);
        drop(batch);
        if bytes > 300 * sampler.ring_bytes() {
            break;
        }
    }
    sampler.disable().expect("disable");
    let count = sampler.sources()[0].counter().read().expect("read");
    assert_eq!((count.value * 24, count.lost.unwrap_or(0)), (bytes as u64, 0));
    Ok(())
}

fn records_that_were_not_taken_stay() -> Outcome {
    let mut sampler = sampler(Sampler::builder().event(faults()).exactly_pages(2))?;
    let pages = Pages::map(100);
    sampled(&mut sampler, || touch_again(&pages));
    let expected: Vec<_> = pages.addresses().collect();
    let first = addresses(sampler.batch().iter().take(30));
    let batch = sampler.batch();
    let second = addresses(batch.iter().take(50));
    let third = addresses(batch.iter());
    drop(batch);
    assert_eq!([first, second, third].concat(), expected);
    assert_eq!(sampler.batch().iter().count(), 0);
    Ok(())
}

fn what_finds_no_room_is_counted() -> Outcome {
    // Rules G5, G8 and E5.
    let mut sampler = sampler(Sampler::builder().event(faults()).exactly_pages(1))?;
    let pages = Pages::map(1000);
    sampled(&mut sampler, || touch_again(&pages));
    sampler.source_mut(0).reset().expect("reset");
    drain(&mut sampler);
    let before = sampler.sources()[0].counter().read().expect("read").lost;
    let few = Pages::map(10);
    sampled(&mut sampler, || ());
    drain(&mut sampler);
    // The first record of the next batch tells what was lost before.
    sampler.source_mut(0).reset().expect("reset");
    sampler.enable().expect("enable");
    touch_again(&pages);
    let fitted = samples(sampler.batch().iter()).len() as u64;
    few.touch();
    sampler.disable().expect("disable");
    let id = sampler.sources()[0].id();
    let (mut told, mut after) = (0, 0);
    for entry in sampler.batch().iter() {
        match entry.decode().expect("a record").record {
            Record::Lost(lost) => {
                assert_eq!((lost.id, after), (id, 0));
                told += lost.lost;
            }
            Record::Sample(_) => after += 1,
            other => panic!("{other:?}"),
        }
    }
    let count = sampler.sources()[0].counter().read().expect("read");
    assert!(fitted >= 100 && told >= 800, "{fitted} {told}");
    assert_eq!((fitted + told + after, after), (count.value, 10));
    if let (Some(before), Some(lost)) = (before, count.lost) {
        assert_eq!(lost - before, told, "read(2) tells the same");
    }
    Ok(())
}

fn an_overwritten_ring_holds_the_newest() -> Outcome {
    // Rules G10 and G11.
    let mut sampler = sampler(Sampler::builder().event(faults()).exactly_pages(1).overwrite(true))?;
    assert_eq!(sampler.snapshot().expect("of nothing").iter().count(), 0);
    let pages = Pages::map(1000);
    sampled(&mut sampler, || touch_again(&pages));
    let expected: Vec<_> = pages.addresses().collect();
    let newest_first = addresses(sampler.snapshot().expect("a snapshot").iter());
    // One record may have been cut by the newest one.
    assert!((4096 / 24 - 1..=4096 / 24).contains(&newest_first.len()), "{}", newest_first.len());
    assert!(newest_first.iter().eq(expected.iter().rev().take(newest_first.len())));
    assert_eq!(sampler.wait(Some(Duration::from_millis(5))).expect("wait"), Wait::TimedOut, "nothing newer");
    assert_eq!(sampler.batch().iter().count(), 0, "there are no batches of it");
    // It goes on.
    sampler.enable().expect("enable");
    touch_again(&pages);
    sampler.disable().expect("disable");
    assert_eq!(sampler.wait(Some(Duration::ZERO)).expect("wait"), Wait::Records);
    assert_eq!(addresses(sampler.snapshot().expect("a snapshot").iter()), newest_first);
    Ok(())
}

fn an_overwritten_ring_that_is_not_full() -> Outcome {
    let mut sampler = sampler(Sampler::builder().event(faults()).pages(16).overwrite(true))?;
    let pages = Pages::map(30);
    sampler.enable().expect("enable");
    touch_again(&pages);
    sampler.disable().expect("disable");
    let newest_first = addresses(sampler.snapshot().expect("a snapshot").iter());
    let expected: Vec<_> = pages.addresses().collect();
    assert!(newest_first.len() >= 30 && newest_first.iter().take(30).eq(expected.iter().rev()));
    Ok(())
}

fn waiting_ends_with_the_time() -> Outcome {
    let sampler = sampler(Sampler::builder().event(faults()))?;
    for millis in [0, 1, 30] {
        let start = Instant::now();
        let time = Duration::from_millis(millis);
        assert_eq!(sampler.wait(Some(time)).expect("wait"), Wait::TimedOut);
        assert!(start.elapsed() >= time, "after {:?} of {time:?}", start.elapsed());
    }
    Ok(())
}

/// Wakes us at every sample.
fn at_once(event: Builder) -> Builder {
    event.with(|attr| attr.set_wakeup_events(1))
}

fn a_program_is_followed_to_its_end() -> Outcome {
    faults().open().map_err(|error| Skip::needs("to sample page faults", error))?;
    for event in [faults(), at_once(faults())] {
        let command = Command::new("sh").args(["-c", "sleep 0.05; exit 0"]).hold().expect("a child");
        let event = event.enable_on_exec(true);
        let mut sampler = Sampler::builder().target(command.target()).event(event).open().expect("a sampler");
        assert_eq!(sampler.wait(Some(Duration::from_millis(1))).expect("wait"), Wait::TimedOut);
        let running = command.release().expect("sh");
        let mut taken = 0;
        loop {
            match sampler.wait(LONG).expect("wait") {
                Wait::Records => taken += samples(sampler.batch().iter()).len() as u64,
                Wait::Ended => break,
                other => panic!("{other:?}"),
            }
        }
        running.wait().expect("its end");
        let count = sampler.sources()[0].counter().read().expect("read");
        assert_eq!(taken + count.lost.unwrap_or(0), count.value);
        assert!(taken > 10, "{taken}");
        assert_eq!(sampler.wait(LONG).expect("wait"), Wait::Ended, "and so it stays");
    }
    Ok(())
}

fn a_signal_interrupts_waiting() -> Outcome {
    let handler = Handler::install(libc::SIGUSR1);
    let sampler = sampler(Sampler::builder().event(faults()))?;
    // SAFETY: pthread_self has no preconditions.
    let me = unsafe { libc::pthread_self() } as usize;
    let (done, finished) = std::sync::mpsc::channel::<()>();
    let sender = std::thread::spawn(move || {
        // Again and again: the first ones may come before the wait.
        while finished
            .recv_timeout(Duration::from_millis(5))
            .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            // SAFETY: the thread lives: it waits for this one.
            unsafe { libc::pthread_kill(me as libc::pthread_t, libc::SIGUSR1) };
        }
    });
    let found = sampler.wait(LONG);
    drop(done);
    sender.join().expect("the sender");
    assert_eq!(found.expect("wait"), Wait::Interrupted);
    assert!(handler.count() > 0);
    Ok(())
}

fn it_can_be_polled_by_others() -> Outcome {
    faults().open().map_err(|error| Skip::needs("to sample page faults", error))?;
    // A program that goes on only when we have seen that it runs.
    let fifo = std::env::temp_dir().join(format!("perfuse-fifo-{}", std::process::id()));
    let name = CString::new(fifo.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: a string that ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0, "{}", std::io::Error::last_os_error());
    let command = Command::new("cat").arg(&fifo).hold().expect("a child");
    let event = at_once(faults()).enable_on_exec(true);
    let mut sampler = Sampler::builder().target(command.target()).event(event).open().expect("a sampler");
    // SAFETY: epoll_create1 takes a number and gives a descriptor that is ours alone.
    let epoll = unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
    let mut interest = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
    let (epoll_fd, event_fd) = (epoll.as_raw_fd(), sampler.as_fd().as_raw_fd());
    // SAFETY: both descriptors are open, and the pointer is to a live struct.
    assert_eq!(unsafe { libc::epoll_ctl(epoll_fd, libc::EPOLL_CTL_ADD, event_fd, &mut interest) }, 0);
    let wait = |millis| {
        let mut found = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: the pointer is to four live structs.
        let count = unsafe { libc::epoll_wait(epoll_fd, found.as_mut_ptr(), 4, millis) };
        (count, { found[0].u64 }, { found[0].events } as i32)
    };
    assert_eq!(wait(0).0, 0, "nothing yet");
    let running = command.release().expect("cat");
    assert_eq!(wait(60_000), (1, 7, libc::EPOLLIN));
    let mut taken = samples(sampler.batch().iter()).len() as u64;
    drop(File::options().write(true).open(&fifo).expect("the other end"));
    while wait(60_000) == (1, 7, libc::EPOLLIN) {
        taken += samples(sampler.batch().iter()).len() as u64;
    }
    assert_eq!(wait(60_000), (1, 7, libc::EPOLLHUP));
    running.wait().expect("its end");
    std::fs::remove_file(&fifo).expect("the fifo");
    taken += samples(sampler.batch().iter()).len() as u64;
    assert!(taken > 10);
    assert_eq!(taken, sampler.sources()[0].counter().read().expect("read").value);
    Ok(())
}

fn what_a_program_does_stands_there_in_order() -> Outcome {
    // Rules D40, H40 and H.6.
    faults().open().map_err(|error| Skip::needs("to sample page faults", error))?;
    let command = Command::new("sh").args(["-c", "(exit 0); exit 3"]).hold().expect("a child");
    let side_band = AttrFlags::TASK | AttrFlags::COMM | AttrFlags::MMAP;
    let event = Counter::builder(Software::DUMMY)
        .user_only()
        .sample(SampleType::TID | SampleType::TIME)
        .with(move |attr| attr.flags |= side_band)
        .prefer(|attr| attr.flags |= AttrFlags::MMAP2 | AttrFlags::COMM_EXEC);
    let mut sampler = Sampler::builder().target(command.target()).event(event).open().expect("a sampler");
    sampler.enable().expect("enable");
    let pid = command.pid();
    let running = command.release().expect("sh");
    assert_eq!(running.wait().expect("its end").0.code(), Some(3));
    let mut seen = Vec::new();
    let mut last_time = 0;
    for entry in sampler.batch().iter() {
        let decoded = entry.decode().expect("a record");
        assert!(decoded.time().expect("a time") >= last_time);
        last_time = decoded.time().expect("a time");
        assert_eq!(decoded.tid().map(|tid| tid.pid), Some(pid));
        match decoded.record {
            Record::Comm(comm) => {
                assert!(decoded.misc.contains(Misc::COMM_EXEC) && comm.tid.pid == pid);
                assert_eq!(comm.name.to_string(), "sh");
                seen.push("comm");
            }
            Record::Mmap2(mmap) => {
                assert!(mmap.tid.pid == pid && mmap.len > 0 && mmap.addr % 4096 == 0, "{mmap:?}");
                assert!(mmap.filename.to_string().starts_with(['/', '[']), "{mmap:?}");
                seen.push("mmap2");
            }
            Record::Fork(task) => {
                assert!(task.ppid == pid && task.ptid == pid && task.pid != pid, "{task:?}");
                assert!(task.time >= last_time, "read a moment later");
                seen.push("fork");
            }
            Record::Exit(task) => {
                assert!(task.pid == pid && task.ppid == std::process::id(), "{task:?}");
                seen.push("exit");
            }
            other => panic!("{other:?}"),
        }
    }
    seen.dedup();
    // The shell may map more while it runs, such as what tells messages apart in other languages.
    seen.retain({
        let mut mapped = false;
        move |kind| *kind != "mmap2" || !std::mem::replace(&mut mapped, true)
    });
    assert_eq!(seen, ["comm", "mmap2", "fork", "exit"]);
    assert_eq!(sampler.wait(LONG).expect("wait"), Wait::Ended);
    Ok(())
}

fn callchains_start_at_the_instruction() -> Outcome {
    // Rules H10 to H12.
    let fields = SampleType::CALLCHAIN | SampleType::IP;
    let event = faults().sample(fields).with(|attr| attr.flags |= AttrFlags::EXCLUDE_CALLCHAIN_KERNEL);
    let mut sampler = sampler(Sampler::builder().event(event))?;
    let pages = Pages::map(10);
    sampled(&mut sampler, || touch_again(&pages));
    let batch = sampler.batch();
    let samples = samples(batch.iter());
    assert_eq!(samples.len(), 10);
    for sample in samples {
        let parts: Vec<_> = sample.callchain.expect("a callchain").parts().collect();
        assert_eq!(parts[0].context, Some(CallchainContext::USER), "{parts:?}");
        assert_eq!((parts.len(), parts[0].ips.get(0)), (1, sample.ip));
    }
    Ok(())
}

/// Keeps a pattern on its stack while it touches the page.
#[inline(never)]
fn touch_with_a_pattern(page: &Pages) -> u64 {
    let pattern: [u64; 8] = std::array::from_fn(|index| 0xfeed_f00d_0000_0000 + index as u64);
    black_box(&pattern);
    page.touch();
    black_box(&pattern).as_ptr() as u64
}

fn registers_and_the_stack_are_those_of_the_moment() -> Outcome {
    // Rules H17 and H20.
    let Some(arch) = Arch::NATIVE else {
        return Err(Skip::needs("registers with names", "unknown architecture"));
    };
    let event =
        faults().sample(SampleType::IP | SampleType::REGS_USER | SampleType::STACK_USER).with(move |attr| {
            attr.sample_regs_user = arch.general_mask();
            attr.sample_stack_user = 8192;
        });
    let mut sampler = sampler(Sampler::builder().event(event))?;
    let page = Pages::map(1);
    let place = std::cell::Cell::new(0);
    sampled(&mut sampler, || {
        page.forget();
        place.set(touch_with_a_pattern(&page));
    });
    let batch = sampler.batch();
    let samples = samples(batch.iter());
    assert_eq!(samples.len(), 1);
    let (regs, stack) = (samples[0].regs_user.expect("registers"), samples[0].stack_user.expect("a stack"));
    assert_eq!((regs.abi, regs.get(arch.ip())), (RegsAbi::ABI_64, samples[0].ip));
    assert_eq!(regs.iter().count() as u32, arch.general_mask().count_ones());
    let sp = regs.get(arch.sp()).expect("a stack pointer");
    assert!((1..=8192).contains(&stack.copied().len()), "{stack:?}");
    let start = (place.get() - sp) as usize;
    let words: Vec<u64> = stack.copied()[start..start + 64]
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
        .collect();
    assert_eq!(words, std::array::from_fn::<_, 8, _>(|index| 0xfeed_f00d_0000_0000 + index as u64));
    Ok(())
}

fn values_in_samples_count_along_in_every_format() -> Outcome {
    // Rules E4 and H.1.
    let pages = Pages::map(20);
    for format in (0..32).map(ReadFormat::from_bits_retain) {
        let event = faults().sample(SampleType::READ).with(|attr| attr.read_format = format);
        if event.open().is_err() && format.contains(ReadFormat::LOST) {
            continue; // before Linux 6.0
        }
        let mut sampler = sampler(Sampler::builder().event(event))?;
        sampled(&mut sampler, || touch_again(&pages));
        let id = sampler.sources()[0].id();
        let batch = sampler.batch();
        let samples = samples(batch.iter());
        assert_eq!(samples.len(), 20, "{format:?}");
        let mut last = None;
        for sample in samples {
            let read = sample.read.expect("values");
            let own = read.get(0).expect("a value");
            assert_eq!((read.len(), read.format()), (1, format));
            assert_eq!(own.value, last.unwrap_or(own.value - 1) + 1, "{format:?}");
            last = Some(own.value);
            assert_eq!(own.id, format.contains(ReadFormat::ID).then_some(id), "{format:?}");
            assert_eq!(own.lost, format.contains(ReadFormat::LOST).then_some(0), "{format:?}");
            let times = [ReadFormat::TOTAL_TIME_ENABLED, ReadFormat::TOTAL_TIME_RUNNING];
            let told = [read.time_enabled(), read.time_running()].map(|time| time.is_some_and(|t| t > 0));
            assert_eq!(told, times.map(|time| format.contains(time)), "{format:?}");
        }
        drop(batch);
        assert_eq!(sampler.sources()[0].counter().read().expect("read").value, last.expect("samples"));
    }
    Ok(())
}

fn raw_data_of_a_tracepoint() -> Outcome {
    // Rule H15: a common header of eight bytes, then the fields: here the number of the call.
    need::root()?;
    need::tracefs()?;
    let event = Event::tracepoint("raw_syscalls:sys_enter").expect("its id");
    let Event::Tracepoint { id, .. } = event else { panic!("a tracepoint") };
    let event = Counter::builder(event).period(1).sample(SampleType::RAW);
    let mut sampler = Sampler::builder().event(event).open().expect("a sampler");
    let getppid = if cfg!(target_arch = "x86_64") { 110 } else { 173 };
    sampler.source_mut(0).set_filter(&format!("id == {getppid}")).expect("a filter");
    sampled(&mut sampler, || system_calls(10));
    let batch = sampler.batch();
    let samples = samples(batch.iter());
    assert_eq!(samples.len(), 10);
    for sample in samples {
        let raw = sample.raw.expect("raw data").as_bytes();
        let common_type = u16::from_ne_bytes(raw[..2].try_into().expect("two bytes"));
        let number = i64::from_ne_bytes(raw[8..16].try_into().expect("eight bytes"));
        assert_eq!((u64::from(common_type), number), (id, getppid));
    }
    Ok(())
}

fn time_itself_is_sampled() -> Outcome {
    // Rule I20: a timer, whose lateness depends on the machine.
    let event = Counter::builder(Software::CPU_CLOCK).user_only().frequency(1000).sample(SampleType::IP);
    let mut sampler = sampler(Sampler::builder().event(event))?;
    sampler.enable().expect("enable");
    let burnt = burn(Duration::from_millis(200));
    sampler.disable().expect("disable");
    let count = samples(sampler.batch().iter()).len() as u128;
    assert!((20..=burnt.as_millis() * 2).contains(&count), "{count} samples in {burnt:?}");
    Ok(())
}

fn a_ring_is_as_large_as_the_limits_allow() -> Outcome {
    // Rule F20.
    let test = "a_ring_is_as_large_as_the_limits_allow";
    let _sysctl = need::Sysctl::is("kernel/perf_event_paranoid", 2)?;
    Sandbox::new().as_own_user().locked_bytes(1 << 16).within(test, || {
        let free = need::sysctl("kernel/perf_event_mlock_kb")? as usize * 1024;
        let cpus = std::thread::available_parallelism().expect("cpus").get();
        let page = perfuse_sys::page_size();
        let too_large = (2 * free * cpus / page).next_power_of_two() * 2;
        let mut sampler = sampler(Sampler::builder().event(faults()).pages(too_large))?;
        let bytes = sampler.ring_bytes();
        assert!(bytes < too_large * page && bytes >= page, "{bytes} of {}", too_large * page);
        let pages = Pages::map(10);
        sampled(&mut sampler, || touch_again(&pages));
        assert_eq!(addresses(sampler.batch().iter()).len(), 10);
        drop(sampler);
        let error =
            Sampler::builder().event(faults()).exactly_pages(too_large).open().expect_err("this or none");
        assert_eq!(error.errno(), Errno::EPERM);
        assert!(error.is_permission() && error.to_string().contains("perf_event_mlock_kb"), "{error:#}");
        Ok(())
    })
}

fn sizes_are_rounded_up() -> Outcome {
    let page = perfuse_sys::page_size();
    for (asked, got) in [(0, 1), (1, 1), (3, 4), (8, 8)] {
        assert_eq!(sampler(Sampler::builder().event(faults()).pages(asked))?.ring_bytes(), got * page);
    }
    Ok(())
}

fn a_software_event_has_no_trace() -> Outcome {
    // Rule F9.
    let mut sampler = sampler(Sampler::builder().event(faults()).pages(2))?;
    let error = sampler.map_aux(4, false).expect_err("it does not trace");
    assert_eq!(error.errno(), Errno::EOPNOTSUPP);
    assert!(error.is_unsupported(), "{error:#}");
    assert_eq!(sampler.aux_bytes(), 0);
    assert_eq!(sampler.read_aux(|first, second| first.len() + second.len()).expect("nothing"), None);
    let pages = Pages::map(10);
    sampled(&mut sampler, || touch_again(&pages));
    assert_eq!(addresses(sampler.batch().iter()).len(), 10, "the ring goes on");
    Ok(())
}

fn nothing_to_sample_is_an_error() -> Outcome {
    assert_eq!(Sampler::builder().open().expect_err("no events").errno(), Errno::EINVAL);
    Ok(())
}

fn events_on_a_cpu_share_its_ring() -> Outcome {
    let context_switches = Counter::builder(Software::CONTEXT_SWITCHES).period(1).sample(SampleType::TID);
    let faults = Counter::builder(Software::PAGE_FAULTS).period(1).sample(SampleType::TID);
    let builder = Sampler::builder().target(Target::cpu(0)).event(context_switches).event(faults).pages(64);
    let mut sampler = builder.open().map_err(|error| Skip::needs("to sample whole cpus", error))?;
    let command = Command::new("sh").args(["-c", ": | :"]).hold().expect("a child");
    sampler.enable().expect("enable");
    command.release().expect("sh").wait().expect("its end");
    sampler.disable().expect("disable");
    let mut counts = [0, 0];
    for entry in sampler.batch().iter() {
        if let Record::Sample(sample) = entry.decode().expect("a record").record {
            assert_eq!(sample.identifier, Some(sampler_id(&entry)));
            counts[entry.source] += 1;
        }
    }
    for (source, count) in sampler.sources().iter().zip(counts) {
        let total = source.counter().read().expect("read");
        assert_eq!(count + total.lost.unwrap_or(0), total.value);
    }
    Ok(())
}

/// The id in a record.
fn sampler_id(entry: &SamplerRecord<'_>) -> u64 {
    entry.decode().expect("a record").id().expect("an id")
}

suite! {
    smoke:
        the_addresses_of_faults_are_the_pages_that_were_touched;
    measurements:
        events_that_share_a_ring_keep_their_identity,
        a_tiny_ring_that_is_drained_loses_nothing,
        records_that_were_not_taken_stay,
        what_finds_no_room_is_counted,
        an_overwritten_ring_holds_the_newest,
        an_overwritten_ring_that_is_not_full,
        waiting_ends_with_the_time,
        a_program_is_followed_to_its_end,
        a_signal_interrupts_waiting,
        it_can_be_polled_by_others,
        what_a_program_does_stands_there_in_order,
        callchains_start_at_the_instruction,
        registers_and_the_stack_are_those_of_the_moment,
        values_in_samples_count_along_in_every_format,
        raw_data_of_a_tracepoint,
        time_itself_is_sampled,
        a_ring_is_as_large_as_the_limits_allow,
        sizes_are_rounded_up,
        a_software_event_has_no_trace,
        nothing_to_sample_is_an_error,
        events_on_a_cpu_share_its_ring;
}
