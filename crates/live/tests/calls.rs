//! System calls of tracees end as they would without a tracer: neither an interrupt of the tracer's nor a signal that
//! the program ignores ends one with `EINTR`, timeouts are as long as they were, and a handler's signal ends all that
//! signal(7) says it ends. Transfers that are whole without a tracer are whole.
//!
//! The program runs itself for it: `calls tool alone|ignored|handled` makes every call once, `calls transfers` moves bytes, and
//! `calls late` is interrupted when most of a call's time is over.

#[path = "calls/transfers.rs"]
mod transfers;

use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, Software};
use perfuse_engine::{OpenArguments, TaskId};
use perfuse_live::machine::{Machine, Rights, Settings};
use perfuse_live::proc;
use perfuse_live::ptrace::{self, Tid};
use perfuse_live::supervisor::{Front, Supervisor, Waker};
use perfuse_sys::process::{self, Usage};
use perfuse_testkit::{Outcome, Skip};
use std::ffi::OsString;
use std::io;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("tool") => tool(&arguments[1]),
        Some("transfers") => transfers::tool(&arguments[1]),
        Some("late") => late(),
        Some("blocked") => transfers::blocked(),
        Some("tracer") => drop(supervise(transfers::ORPHAN, Interrupts::Everybody)),
        _ => perfuse_testkit::run(
            perfuse_testkit::need::ptrace,
            &perfuse_testkit::tests! {
                measurements:
                    interrupts_end_no_call,
                    ignored_signals_end_no_call,
                    both_end_no_call,
                    handlers_end_calls,
                    times_count_from_the_calls_on,
                    transfers::are_whole,
                    transfers::are_whole_whatever_is_ignored,
                    transfers::end_for_handlers,
                    transfers::are_answered_when_the_tracer_is_killed;
            },
        ),
    }
}

/// The interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interrupts {
    Nobody,
    Sleepers,
    Everybody,
}

/// Interrupts tracees.
struct Interrupting {
    interrupts: Interrupts,
    made: u64,
    last: Instant,
    tool: Tid,
    status: Option<i32>,
}

impl Front for Interrupting {
    fn ended(&mut self, _supervisor: &mut Supervisor, tid: Tid, status: i32, _usage: &Usage) {
        if tid == self.tool {
            self.status = Some(status);
        }
    }

    fn between(&mut self, supervisor: &mut Supervisor) -> bool {
        let tids: Vec<Tid> = supervisor.tracees().map(|(tid, _)| tid).collect();
        // A thread that is stopped all the time comes nowhere.
        let due = self.last.elapsed() > Duration::from_micros(500);
        if due {
            self.last = Instant::now();
        }
        let is_due = |tid: &Tid| match self.interrupts {
            Interrupts::Nobody => false,
            Interrupts::Sleepers => sleeps(*tid),
            Interrupts::Everybody => due,
        };
        for tid in tids.into_iter().filter(is_due) {
            self.made += u64::from(supervisor.interrupt(tid).is_ok());
        }
        true
    }
}

fn sleeps(tid: Tid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
}

/// Wakes the supervisor as long as this lives.
struct Waking(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Waking {
    fn new(waker: Waker) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let wake = move || {
            while !seen.load(SeqCst) {
                waker.wake();
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        Waking(stop, Some(std::thread::spawn(wake)))
    }
}

impl Drop for Waking {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
        let _ = self.1.take().map(std::thread::JoinHandle::join);
    }
}

/// The tool's exit status if nothing is wrong but that calls ended with `EINTR`.
const ENDED: i32 = 77;

/// Runs the tool under a supervisor; how often that has interrupted it.
fn supervise(mode: &[&str], interrupts: Interrupts) -> Result<u64, Skip> {
    supervise_with(mode, interrupts, |_, _| {})
}

/// The same, when more has been done with the tool.
fn supervise_with(mode: &[&str], interrupts: Interrupts, prepare: fn(&Supervisor, Tid)) -> Result<u64, Skip> {
    let program = std::env::current_exe().expect("the running program has a path");
    let mut arguments: Vec<OsString> = vec![program.into_os_string()];
    arguments.extend(mode.iter().map(OsString::from));
    let machine = Arc::new(Mutex::new(Machine::new(Settings::default())));
    let dies_too = if mode == transfers::ORPHAN { 0 } else { ptrace::EXITKILL };
    let mut supervisor = Supervisor::new(machine, dies_too).expect("a supervisor");
    let held = process::spawn(&arguments[0], &arguments).expect("a child");
    let tool = held.pid();
    supervisor.seize(tool, tool).expect("one's own child can be traced");
    prepare(&supervisor, tool);
    let release = std::thread::spawn(move || held.release().map(drop));
    let mut front = Interrupting { interrupts, made: 0, last: Instant::now(), tool, status: None };
    {
        let _waking = Waking::new(supervisor.waker());
        supervisor.run(&mut front).expect("a loop that ends");
    }
    release.join().expect("no panic").expect("an exec");
    let status = front.status.expect("it ended");
    assert!(libc::WIFEXITED(status), "{mode:?}: {status:#x}");
    match libc::WEXITSTATUS(status) {
        0 => Ok(front.made),
        // Not even `/proc/PID/syscall` tells of a call whose thread was not looked at before.
        ENDED if cfg!(target_arch = "aarch64") => {
            Err(Skip::needs("a kernel that shows the first argument of a call that has ended", "it is lost"))
        }
        status => panic!("{mode:?}: see above ({status})"),
    }
}

/// Ends the tool, which has seen so many results that are wrong, so many of them `EINTR`.
fn exit(wrong: i32, ended: i32) -> ! {
    std::process::exit(if wrong > 0 && wrong == ended { ENDED } else { wrong })
}

fn interrupts_end_no_call() -> Outcome {
    assert!(supervise(&["tool", "alone"], Interrupts::Sleepers)? > 20, "it was interrupted");
    Ok(())
}

fn ignored_signals_end_no_call() -> Outcome {
    supervise(&["tool", "ignored"], Interrupts::Nobody)?;
    Ok(())
}

fn both_end_no_call() -> Outcome {
    supervise(&["tool", "ignored"], Interrupts::Sleepers)?;
    Ok(())
}

fn handlers_end_calls() -> Outcome {
    supervise(&["tool", "handled"], Interrupts::Nobody)?;
    supervise(&["tool", "handled"], Interrupts::Sleepers)?;
    Ok(())
}

/// Sampled threads are known to sleep: a call that an ignored signal interrupts late in its time does not
/// last for twice as long.
fn times_count_from_the_calls_on() -> Outcome {
    let sample = |supervisor: &Supervisor, tool| {
        let attr = Attr {
            type_: EventType::SOFTWARE,
            size: Attr::SIZE_VER8,
            config: Software::TASK_CLOCK.0,
            sample_period: 250_000,
            flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::INHERIT,
            ..Attr::default()
        };
        let mut bytes = Vec::new();
        let mut attr = attr;
        attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).expect("an attr can be written");
        let arguments = OpenArguments { pid: tool, cpu: -1, ..OpenArguments::default() };
        let opened = supervisor.machine().open(TaskId(0), &mut bytes, arguments, None, Rights::OWN);
        opened.expect("it can be opened");
    };
    supervise_with(&["late"], Interrupts::Nobody, sample)?;
    Ok(())
}

/// Makes calls that an ignored signal comes to when three quarters of their time are over.
fn late() {
    const TURNS: usize = 20;
    TIME_MS.store(400, SeqCst);
    let main = proc::own_tid();
    let pid = std::process::id();
    std::thread::spawn(move || {
        loop {
            if IN_CALL.swap(false, SeqCst) {
                std::thread::sleep(Duration::from_millis(300));
                // SAFETY: plain numbers.
                unsafe { libc::syscall(libc::SYS_tgkill, pid, main, libc::SIGURG) };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let (mut wrong, mut ended) = (0, 0);
    for (name, call, expected) in CASES {
        let mut took = Vec::new();
        // Without this it is 700 ms; a loaded machine lets some be late.
        while took.len() < TURNS && took.iter().all(|took| *took > Duration::from_millis(550)) {
            let start = Instant::now();
            let Some(result) = call() else { break };
            took.push(start.elapsed());
            let lasted = took.last().is_some_and(|took| *took >= Duration::from_millis(400));
            wrong += i32::from(result != *expected || !lasted);
            ended += i32::from(result == -i64::from(libc::EINTR));
        }
        eprintln!("{name}: {took:?}");
        wrong += i32::from(took.len() == TURNS);
    }
    exit(wrong, ended);
}

/// How long calls last, in ms. A call that a handler is to end lasts longer than it takes to send a signal.
static TIME_MS: AtomicU64 = AtomicU64::new(30);

/// A call that takes so long; `None` where the machine does not have it.
type Case = (&'static str, fn() -> Option<i64>, i64);

const TIMED_OUT: i64 = -(libc::EAGAIN as i64);

const CASES: &[Case] = &[
    ("epoll_pwait", epoll_pwait, 0),
    ("epoll_pwait2", epoll_pwait2, 0),
    #[cfg(target_arch = "x86_64")]
    ("epoll_wait", epoll_wait, 0),
    #[cfg(target_arch = "x86_64")]
    ("epoll_wait by int 0x80", narrow_epoll_wait, 0),
    ("io_getevents", io_getevents, 0),
    ("io_uring_enter", io_uring_enter, -(libc::ETIME as i64)),
    ("semtimedop", semtimedop, TIMED_OUT),
    ("rt_sigtimedwait", rt_sigtimedwait, TIMED_OUT),
    ("recvfrom", recvfrom, TIMED_OUT),
    ("recvmsg", recvmsg, TIMED_OUT),
    ("read", read, TIMED_OUT),
    ("sendto", sendto, TIMED_OUT),
    ("accept4", accept4, TIMED_OUT),
    ("connect", connect, TIMED_OUT),
    ("ppoll", ppoll, 0),
    ("pselect6", pselect6, 0),
    ("futex", futex, -(libc::ETIMEDOUT as i64)),
    ("nanosleep", nanosleep, 0),
    ("clock_nanosleep", clock_nanosleep, 0),
];

/// Signals sent, and seen by the handler.
static SENT: AtomicU64 = AtomicU64::new(0);
static IN_CALL: AtomicBool = AtomicBool::new(false);

fn tool(mode: &str) {
    let main = proc::own_tid();
    let signals: &[i32] = match mode {
        "ignored" => &[libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGUSR1, libc::SIGTSTP],
        "handled" => &[libc::SIGUSR2],
        _ => &[],
    };
    extern "C" fn handler(_signal: i32) {}
    // SAFETY: the handler does nothing; no flags, so that no call is begun again because of those.
    unsafe {
        libc::signal(libc::SIGUSR1, libc::SIG_IGN);
        libc::signal(libc::SIGTSTP, libc::SIG_IGN);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(i32) as usize;
        libc::sigaction(libc::SIGUSR2, &raw const action, null_mut());
    }
    let pid = std::process::id();
    std::thread::spawn(move || {
        for signal in signals.iter().cycle() {
            std::thread::sleep(Duration::from_millis(3));
            // A handler's signal that comes before the call would be lost.
            if mode_sends(*signal, main) {
                SENT.fetch_add(1, SeqCst);
                // SAFETY: plain numbers.
                unsafe { libc::syscall(libc::SYS_tgkill, pid, main, *signal) };
            }
        }
    });
    if mode == "handled" {
        TIME_MS.store(30_000, SeqCst);
    }
    let (mut wrong, mut ended) = (0, 0);
    for (name, call, expected) in CASES {
        // Calls that a handler ends are not as long.
        let expected = if mode == "handled" { -i64::from(libc::EINTR) } else { *expected };
        let (sent, start) = (SENT.load(SeqCst), Instant::now());
        let result = call();
        IN_CALL.store(false, SeqCst);
        let (took, sent) = (start.elapsed(), SENT.load(SeqCst) - sent);
        // However busy the machine: not for ever.
        let lasts = Duration::from_millis(ms() as u64)..Duration::from_secs(6);
        let right = match result {
            None => continue,
            Some(result) => result == expected && (mode == "handled" || lasts.contains(&took)),
        };
        if !right {
            eprintln!("{mode}: {name}: {result:?} and not {expected} after {took:?} and {sent} signals");
            wrong += 1;
            ended += i32::from(mode != "handled" && result == Some(-i64::from(libc::EINTR)));
        }
    }
    exit(wrong, ended);
}

/// Whether to send this signal now: one with a handler if the thread is in its call.
fn mode_sends(signal: i32, main: Tid) -> bool {
    signal != libc::SIGUSR2 || IN_CALL.load(SeqCst) && sleeps(main)
}

/// Makes the call: its result, or minus its errno.
fn call(number: libc::c_long, arguments: [usize; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    IN_CALL.store(true, SeqCst);
    // SAFETY: pointers among the arguments are to values that live as long as the call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 { -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { result }
}

/// The address of a value.
fn at<T>(value: &mut T) -> usize {
    std::ptr::from_mut(value) as usize
}

/// How long a call is to last.
fn ms() -> usize {
    TIME_MS.load(SeqCst) as usize
}

fn time() -> libc::timespec {
    libc::timespec { tv_sec: (ms() / 1000) as _, tv_nsec: (ms() % 1000 * 1_000_000) as _ }
}

fn epoll() -> usize {
    // SAFETY: plain numbers.
    unsafe { libc::epoll_create1(0) as usize }
}

fn event() -> libc::epoll_event {
    libc::epoll_event { events: 0, u64: 0 }
}

fn epoll_pwait() -> Option<i64> {
    let (mut event, mut blocked) = (event(), 1u64 << (libc::SIGTERM - 1));
    Some(call(libc::SYS_epoll_pwait, [epoll(), at(&mut event), 1, ms(), at(&mut blocked), 8]))
}

fn epoll_pwait2() -> Option<i64> {
    let result = call(libc::SYS_epoll_pwait2, [epoll(), at(&mut event()), 1, at(&mut time()), 0, 8]);
    (result != -i64::from(libc::ENOSYS)).then_some(result)
}

#[cfg(target_arch = "x86_64")]
fn epoll_wait() -> Option<i64> {
    Some(call(libc::SYS_epoll_wait, [epoll(), at(&mut event()), 1, ms(), 0, 0]))
}

/// As 32-bit programs call.
#[cfg(target_arch = "x86_64")]
fn narrow_epoll_wait() -> Option<i64> {
    const EPOLL_WAIT: i64 = 256;
    if !std::path::Path::new("/proc/sys/abi/vsyscall32").exists() {
        return None;
    }
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT);
    // SAFETY: the kernel chooses the address, so no existing memory is touched.
    let events = unsafe { libc::mmap(null_mut(), 4096, prot, flags, -1, 0) } as usize;
    let (mut result, epoll) = (EPOLL_WAIT, epoll());
    IN_CALL.store(true, SeqCst);
    // SAFETY: the call writes to the page that was just mapped; rbx is as before behind it.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {epoll}", "int 0x80", "xchg rbx, {epoll}",
            epoll = inout(reg) epoll => _, inout("rax") result,
            in("rcx") events, in("rdx") 1usize, in("rsi") ms(),
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    Some(i64::from(result as i32))
}

fn io_getevents() -> Option<i64> {
    let mut context = 0usize;
    // SAFETY: the pointer is to a live value.
    if unsafe { libc::syscall(libc::SYS_io_setup, 8, &raw mut context) } == -1 {
        return None;
    }
    let (mut events, mut time) = ([0u64; 4], time());
    Some(call(libc::SYS_io_getevents, [context, 1, 1, at(&mut events), at(&mut time), 0]))
}

fn io_uring_enter() -> Option<i64> {
    const GETEVENTS: usize = 1;
    const EXTENDED: usize = 1 << 3;
    // SAFETY: the pointer is to a live value, as large as `struct io_uring_params`.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, [0u64; 15].as_mut_ptr()) };
    let ring = usize::try_from(ring).ok()?;
    let mut time = time();
    let mut argument = [0, 0, at(&mut time)];
    Some(call(libc::SYS_io_uring_enter, [ring, 0, 1, GETEVENTS | EXTENDED, at(&mut argument), 24]))
}

fn semtimedop() -> Option<i64> {
    // SAFETY: plain numbers.
    let set = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
    let set_number = usize::try_from(set).ok()?;
    let mut take = libc::sembuf { sem_num: 0, sem_op: -1, sem_flg: 0 };
    let result = call(libc::SYS_semtimedop, [set_number, at(&mut take), 1, at(&mut time()), 0, 0]);
    // SAFETY: plain numbers.
    unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
    Some(result)
}

fn rt_sigtimedwait() -> Option<i64> {
    let mut set = 1u64 << (libc::SIGALRM - 1);
    Some(call(libc::SYS_rt_sigtimedwait, [at(&mut set), 0, at(&mut time()), 8, 0, 0]))
}

/// Two sockets that are connected, whose calls take so long at most.
fn sockets() -> [usize; 2] {
    let mut pair = [0; 2];
    // SAFETY: the pointer is to a live pair.
    unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) };
    pair.iter().for_each(|&fd| limit(fd));
    pair.map(|fd| fd as usize)
}

fn limit(fd: i32) {
    let time = libc::timeval { tv_sec: (ms() / 1000) as _, tv_usec: (ms() % 1000 * 1000) as _ };
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let len = size_of_val(&time) as libc::socklen_t;
        // SAFETY: pointer and length are those of a live value.
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const time).cast(), len) };
    }
}

fn recvfrom() -> Option<i64> {
    Some(call(libc::SYS_recvfrom, [sockets()[0], at(&mut [0u8; 8]), 8, 0, 0, 0]))
}

fn recvmsg() -> Option<i64> {
    // SAFETY: an all-zero msghdr is a valid value of that plain struct.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    Some(call(libc::SYS_recvmsg, [sockets()[0], at(&mut message), 0, 0, 0, 0]))
}

fn read() -> Option<i64> {
    Some(call(libc::SYS_read, [sockets()[0], at(&mut [0u8; 8]), 8, 0, 0, 0]))
}

fn sendto() -> Option<i64> {
    let [socket, _other] = sockets();
    let bytes = [0u8; 4096];
    // SAFETY: pointer and length are those of a live array.
    let send =
        || unsafe { libc::send(socket as i32, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
    while send() > 0 {}
    Some(call(libc::SYS_sendto, [socket, bytes.as_ptr() as usize, 1, 0, 0, 0]))
}

/// A socket that listens, for one at a time; how long its address is.
fn listening() -> (usize, libc::sockaddr_un, usize) {
    // SAFETY: an all-zero address is a valid value of that plain struct.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as _;
    let mut len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the pointers are to live values; the kernel chooses the address.
    let socket = unsafe {
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
        libc::bind(socket, (&raw const address).cast(), 2);
        libc::listen(socket, 0);
        libc::getsockname(socket, (&raw mut address).cast(), &raw mut len);
        socket
    };
    limit(socket);
    (socket as usize, address, len as usize)
}

fn accept4() -> Option<i64> {
    Some(call(libc::SYS_accept4, [listening().0, 0, 0, 0, 0, 0]))
}

fn connect() -> Option<i64> {
    let (_listening, mut address, len) = listening();
    // SAFETY: plain numbers.
    let socket = || unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) };
    let (first, second) = (socket(), socket());
    limit(second);
    // SAFETY: the pointer is to a live address, which is so long.
    unsafe { libc::connect(first, (&raw const address).cast(), len as libc::socklen_t) };
    Some(call(libc::SYS_connect, [second as usize, at(&mut address), len, 0, 0, 0]))
}

fn ppoll() -> Option<i64> {
    Some(call(libc::SYS_ppoll, [0, 0, at(&mut time()), 0, 8, 0]))
}

fn pselect6() -> Option<i64> {
    Some(call(libc::SYS_pselect6, [0, 0, 0, 0, at(&mut time()), 0]))
}

fn futex() -> Option<i64> {
    Some(call(libc::SYS_futex, [at(&mut 0u32), libc::FUTEX_WAIT as usize, 0, at(&mut time()), 0, 0]))
}

fn nanosleep() -> Option<i64> {
    Some(call(libc::SYS_nanosleep, [at(&mut time()), null::<u8>() as usize, 0, 0, 0, 0]))
}

fn clock_nanosleep() -> Option<i64> {
    Some(call(libc::SYS_clock_nanosleep, [libc::CLOCK_MONOTONIC as usize, 0, at(&mut time()), 0, 0, 0]))
}
