//! Transfers that take a while, by a thread that is stopped a thousand times a second.

use super::{Interrupts, at, call, supervise};
use perfuse_testkit::{Outcome, Skip};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

pub(super) fn are_whole() -> Outcome {
    told()?;
    assert!(supervise(&["transfers", "alone"], Interrupts::Everybody)? > 20, "it was interrupted");
    Ok(())
}

pub(super) fn are_whole_whatever_is_ignored() -> Outcome {
    told()?;
    supervise(&["transfers", "ignored"], Interrupts::Nobody)?;
    supervise(&["transfers", "ignored"], Interrupts::Everybody)?;
    Ok(())
}

pub(super) fn end_for_handlers() -> Outcome {
    told()?;
    supervise(&["transfers", "handled"], Interrupts::Nobody)?;
    supervise(&["transfers", "handled"], Interrupts::Everybody)?;
    Ok(())
}

/// A tool that goes on when its tracer is killed.
pub(super) const ORPHAN: &[&str] = &["blocked"];

/// If the tracer is killed in the middle of a transfer, the guardian answers it: with the bytes that have been transferred.
pub(super) fn are_answered_when_the_tracer_is_killed() -> Outcome {
    told()?;
    // SAFETY: plain number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if !is_root && !["", "0"].contains(&scope.trim()) {
        return Err(Skip::needs("to attach to other processes", "kernel.yama.ptrace_scope"));
    }
    let program = std::env::current_exe().expect("the running program has a path");
    let mut tracer = Command::new(program).arg("tracer").stdout(Stdio::piped()).spawn().expect("a child");
    let mut told = BufReader::new(tracer.stdout.take().expect("a pipe"));
    let mut line = String::new();
    told.read_line(&mut line).expect("the tool tells");
    assert_eq!(line, "writing\n");
    std::thread::sleep(Duration::from_millis(100));
    tracer.kill().expect("a child");
    tracer.wait().expect("a child");
    line.clear();
    told.read_line(&mut line).expect("the tool tells");
    let numbers: Vec<i64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    assert!(numbers.len() == 2 && numbers[0] == numbers[1], "answered and taken: {line}");
    Ok(())
}

/// Writes to a pipe that is not read for a while; tells what the write answers, and how much comes out.
pub(super) fn blocked() {
    let (from, to) = pipe();
    println!("writing");
    let taking = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        let mut taken = Vec::new();
        file(from).read_to_end(&mut taken).map(|_| taken.len())
    });
    let answered = write(to.as_raw_fd(), &mut sample());
    drop(to);
    let taken = taking.join().expect("no panic").expect("a pipe can be read");
    println!("{answered} {taken}");
}

/// The answer of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// All, unless a handler ends it.
    Whole,
    /// This, as it does not wait for more.
    Part(i64),
}
use Answer::{Part, Whole};

/// A transfer: its answer, what it asked for, and whether the bytes that came are those that were sent.
type Case = (&'static str, fn() -> (i64, i64, bool), Answer);

const LEN: usize = 600_000;
/// The other side takes and gives so much at a time, and waits a little.
const STEP: usize = 30_000;

const CASES: &[Case] = &[
    ("write to a pipe", || send(pipe(), write), Whole),
    ("writev to a pipe", || send(pipe(), writev), Whole),
    ("write to a terminal", || send(terminal(), write), Whole),
    ("write to a socket", || send(sockets(), write), Whole),
    ("sendto", || send(sockets(), sendto), Whole),
    ("sendmsg", || send(sockets(), sendmsg), Whole),
    ("sendfile to a socket", || send(sockets(), sendfile), Whole),
    ("recvfrom of all", || receive(sockets(), recvfrom), Whole),
    ("recvmsg of all", || receive(sockets(), recvmsg), Whole),
    #[cfg(target_arch = "x86_64")]
    ("write to a pipe by int 0x80", || send(pipe(), narrow_write), Whole),
    #[cfg(target_arch = "x86_64")]
    ("send by socketcall", || send(sockets(), narrow_send), Whole),
    (
        "getrandom",
        || many(|bytes| call(libc::SYS_getrandom, [bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0, 0])),
        Whole,
    ),
    ("read of /dev/zero", || many(read_zeros), Whole),
    ("write to a pipe that does not wait", || full(true), Part(65_536)),
    ("write to a pipe whose reader goes", || full(false), Part(65_536)),
    ("recvfrom of what is there", there, Part(100)),
    ("recvfrom of all up to the end", last, Part(100)),
];

pub(super) fn tool(mode: &str) {
    // SAFETY: plain numbers.
    let (pid, main) = (std::process::id(), unsafe { libc::syscall(libc::SYS_gettid) });
    let signal = match mode {
        "ignored" => libc::SIGURG,
        "handled" => libc::SIGUSR2,
        _ => 0,
    };
    extern "C" fn handler(_signal: i32) {
        HANDLED.store(true, SeqCst);
    }
    // SAFETY: the handler stores a number; no flags, so that no call is begun again because of those.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(i32) as usize;
        libc::sigaction(libc::SIGUSR2, &raw const action, null_mut());
    }
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(3));
            // SAFETY: plain numbers; no signal is sent but to this process.
            unsafe { libc::syscall(libc::SYS_tgkill, pid, main, signal) };
        }
    });
    let mut wrong = 0;
    for (name, transfer, answer) in CASES {
        let mut ended = false;
        for _ in 0..3 {
            HANDLED.store(false, SeqCst);
            let (answered, asked, right) = transfer();
            let expected = if let Part(part) = answer { *part } else { asked };
            let by_handler =
                mode == "handled" && HANDLED.load(SeqCst) && (answered < asked || answered == -4);
            ended |= by_handler;
            if !right || answered != expected && !by_handler {
                eprintln!(
                    "{mode}: {name}: {answered} and not {expected} of {asked}; the bytes are right: {right}"
                );
                wrong += 1;
            }
        }
        // It takes 20 waits of a millisecond.
        if mode == "handled" && name.starts_with("write to a pipe") && *answer == Whole && !ended {
            eprintln!("{mode}: {name}: no handler has ended it");
            wrong += 1;
        }
    }
    std::process::exit(wrong);
}

static HANDLED: AtomicBool = AtomicBool::new(false);

fn sample() -> Vec<u8> {
    (0..LEN).map(|index| (index * 7 + index / 251) as u8).collect()
}

/// Two descriptors: the other side is a file, ours stays one.
type Ends = (OwnedFd, OwnedFd);

fn owned(pair: [i32; 2]) -> Ends {
    // SAFETY: fresh descriptors that nobody else has.
    unsafe { (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1])) }
}

/// Where to read from, and where to write to.
fn pipe() -> Ends {
    let mut pair = [0; 2];
    // SAFETY: the pointer is to a live pair.
    unsafe { libc::pipe(pair.as_mut_ptr()) };
    owned(pair)
}

fn sockets() -> Ends {
    let mut pair = [0; 2];
    // SAFETY: the pointer is to a live pair.
    unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) };
    owned(pair)
}

/// One that leaves bytes as they are.
fn terminal() -> Ends {
    // SAFETY: names and values live as long as the calls.
    unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        libc::grantpt(master);
        libc::unlockpt(master);
        let name = libc::ptsname(master);
        let slave = libc::open(name, libc::O_RDWR | libc::O_NOCTTY);
        let mut settings: libc::termios = std::mem::zeroed();
        libc::tcgetattr(slave, &raw mut settings);
        libc::cfmakeraw(&raw mut settings);
        libc::tcsetattr(slave, libc::TCSANOW, &raw const settings);
        owned([master, slave])
    }
}

fn file(fd: OwnedFd) -> std::fs::File {
    std::fs::File::from(fd)
}

/// Sends while the other side takes it slowly.
fn send((from, to): Ends, transfer: fn(i32, &mut [u8]) -> i64) -> (i64, i64, bool) {
    let mut bytes = sample();
    let taking = std::thread::spawn(move || {
        let (mut taken, mut from) = (Vec::new(), file(from));
        let mut step = vec![0; STEP];
        // A terminal ends with an error.
        while let Ok(got @ 1..) = from.read(&mut step) {
            taken.extend_from_slice(&step[..got]);
            std::thread::sleep(Duration::from_millis(1));
        }
        taken
    });
    let answered = transfer(to.as_raw_fd(), &mut bytes);
    drop(to);
    let taken = taking.join().expect("no panic");
    (answered, LEN as i64, taken == bytes[..answered.max(0) as usize])
}

/// Receives what the other side gives slowly.
fn receive((from, to): Ends, transfer: fn(i32, &mut [u8]) -> i64) -> (i64, i64, bool) {
    let giving = std::thread::spawn(move || {
        let mut to = file(to);
        for step in sample().chunks(STEP) {
            // The reader that takes no more has ended.
            if to.write_all(step).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut bytes = vec![0; LEN];
    let answered = transfer(from.as_raw_fd(), &mut bytes);
    drop(from);
    giving.join().expect("no panic");
    let got = answered.max(0) as usize;
    (answered, LEN as i64, bytes[..got] == sample()[..got])
}

fn write(fd: i32, bytes: &mut [u8]) -> i64 {
    call(libc::SYS_write, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0])
}

/// The same bytes in pieces, some of them empty.
fn vector(bytes: &mut [u8]) -> [libc::iovec; 4] {
    let (one, rest) = bytes.split_at_mut(70_001);
    let (two, three) = rest.split_at_mut(300_000);
    let empty = libc::iovec { iov_base: null_mut(), iov_len: 0 };
    let of = |bytes: &mut [u8]| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    [of(one), empty, of(two), of(three)]
}

fn writev(fd: i32, bytes: &mut [u8]) -> i64 {
    let mut vector = vector(bytes);
    call(libc::SYS_writev, [fd as usize, at(&mut vector), vector.len(), 0, 0, 0])
}

fn sendto(fd: i32, bytes: &mut [u8]) -> i64 {
    call(libc::SYS_sendto, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0])
}

fn message(vector: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: an all-zero msghdr is a valid value of that plain struct.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (vector.as_mut_ptr(), vector.len() as _);
    message
}

fn sendmsg(fd: i32, bytes: &mut [u8]) -> i64 {
    let mut vector = vector(bytes);
    let mut message = message(&mut vector);
    call(libc::SYS_sendmsg, [fd as usize, at(&mut message), 0, 0, 0, 0])
}

fn sendfile(fd: i32, bytes: &mut [u8]) -> i64 {
    // SAFETY: the name is NUL-terminated; the answer is a fresh descriptor that nobody else has.
    let mut from = file(unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"sample".as_ptr(), 0)) });
    from.write_all(bytes).expect("memory");
    let mut offset = 0u64;
    call(libc::SYS_sendfile, [fd as usize, from.as_raw_fd() as usize, at(&mut offset), bytes.len(), 0, 0])
}

fn recvfrom(fd: i32, bytes: &mut [u8]) -> i64 {
    let all = libc::MSG_WAITALL as usize;
    call(libc::SYS_recvfrom, [fd as usize, bytes.as_mut_ptr() as usize, bytes.len(), all, 0, 0])
}

fn recvmsg(fd: i32, bytes: &mut [u8]) -> i64 {
    let mut vector = vector(bytes);
    let mut message = message(&mut vector);
    call(libc::SYS_recvmsg, [fd as usize, at(&mut message), libc::MSG_WAITALL as usize, 0, 0, 0])
}

/// Memory where a 32-bit pointer reaches, with these bytes and then these.
#[cfg(target_arch = "x86_64")]
fn low(bytes: &[u8], more: &[u8]) -> usize {
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT);
    let len = bytes.len() + more.len();
    // SAFETY: the kernel chooses the address, so no existing memory is touched; what is copied there has room.
    unsafe {
        let memory = libc::mmap(null_mut(), len, prot, flags, -1, 0).cast::<u8>();
        memory.copy_from(bytes.as_ptr(), bytes.len());
        memory.add(bytes.len()).copy_from(more.as_ptr(), more.len());
        memory as usize
    }
}

/// As 32-bit programs call; as this program does where they cannot be had.
#[cfg(target_arch = "x86_64")]
fn narrow(number: i64, arguments: [usize; 3]) -> i64 {
    let [mut first, second, third] = arguments;
    let mut result = number;
    // SAFETY: rbx is as before behind it; pointers among the arguments are to memory that lives.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {first}", "int 0x80", "xchg rbx, {first}",
            first = inout(reg) first, inout("rax") result,
            in("rcx") second, in("rdx") third,
            in("rsi") 0usize, in("rdi") 0usize,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    // The data that it was given are there behind it.
    if first != arguments[0] { i64::MIN } else { i64::from(result as i32) }
}

#[cfg(target_arch = "x86_64")]
fn is_narrow_there() -> bool {
    std::path::Path::new("/proc/sys/abi/vsyscall32").exists()
}

#[cfg(target_arch = "x86_64")]
fn narrow_write(fd: i32, bytes: &mut [u8]) -> i64 {
    const WRITE: i64 = 4;
    if !is_narrow_there() {
        return write(fd, bytes);
    }
    narrow(WRITE, [fd as usize, low(bytes, &[]), bytes.len()])
}

#[cfg(target_arch = "x86_64")]
fn narrow_send(fd: i32, bytes: &mut [u8]) -> i64 {
    const SOCKETCALL: i64 = 102;
    const SEND: usize = 9;
    if !is_narrow_there() {
        return sendto(fd, bytes);
    }
    let memory = low(bytes, &[0; 16]);
    let arguments = [fd as u32, memory as u32, bytes.len() as u32, 0];
    let place = memory + bytes.len();
    // SAFETY: there is room for them behind the bytes.
    unsafe { (place as *mut [u32; 4]).write_unaligned(arguments) };
    narrow(SOCKETCALL, [SEND, place, 0])
}

/// Takes many bytes from where they do not end.
fn many(take: fn(&mut [u8]) -> i64) -> (i64, i64, bool) {
    let mut bytes = vec![1; 16 << 20];
    let answered = take(&mut bytes);
    (answered, bytes.len() as i64, true)
}

fn read_zeros(bytes: &mut [u8]) -> i64 {
    let zeros = std::fs::File::open("/dev/zero").expect("there is one");
    let (fd, into) = (zeros.as_raw_fd() as usize, bytes.as_mut_ptr() as usize);
    call(libc::SYS_read, [fd, into, bytes.len(), 0, 0, 0])
}

/// Writes more than there is room for in a pipe without a reader: it does not wait, or the reader goes.
fn full(at_once: bool) -> (i64, i64, bool) {
    let (from, to) = pipe();
    let from = if at_once {
        // SAFETY: plain numbers.
        unsafe { libc::fcntl(to.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        Some(from)
    } else {
        std::thread::spawn(move || {
            let mut inside = 0;
            while inside < 65_536 {
                std::thread::sleep(Duration::from_millis(3));
                // SAFETY: the request writes a number into a live one.
                unsafe { libc::ioctl(from.as_raw_fd(), libc::FIONREAD, &raw mut inside) };
            }
            drop(from);
        });
        None
    };
    let answered = write(to.as_raw_fd(), &mut sample());
    drop(from);
    (answered, LEN as i64, true)
}

/// Asks for more than is there, without waiting for it.
fn there() -> (i64, i64, bool) {
    let (from, to) = sockets();
    write(to.as_raw_fd(), &mut sample()[..100]);
    let mut bytes = vec![0; LEN];
    let (fd, into) = (from.as_raw_fd() as usize, bytes.as_mut_ptr() as usize);
    (call(libc::SYS_recvfrom, [fd, into, LEN, 0, 0, 0]), LEN as i64, bytes[..100] == sample()[..100])
}

/// Asks for more than comes before the end.
fn last() -> (i64, i64, bool) {
    let (from, to) = sockets();
    let mut file = file(to);
    let giving = std::thread::spawn(move || {
        for step in sample()[..100].chunks(50) {
            let _ = file.write_all(step);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut bytes = vec![0; LEN];
    let answered = recvfrom(from.as_raw_fd(), &mut bytes);
    giving.join().expect("no panic");
    let got = answered.max(0) as usize;
    (answered, LEN as i64, bytes[..got] == sample()[..got])
}

/// Registers of arm64 do not tell whether a call has just ended: there transfers that stops cut short stay short.
fn told() -> Outcome {
    match cfg!(target_arch = "aarch64") {
        true => Err(perfuse_testkit::Skip::needs("registers that tell of calls", "arm64's do not")),
        false => Ok(()),
    }
}
