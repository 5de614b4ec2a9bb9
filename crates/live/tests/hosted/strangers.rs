//! The rights of programs over others with perf events: over those of other users, and from namespaces of their own. Each writes
//! the answers that Linux and we must agree on.

use super::scenarios::{attr, burn_until, map, off, on, opened, sampling, value};
use perfuse_abi::{Attr, AttrFlags, EventType, OpenFlags, Software};
use perfuse_sys::{Errno, Mapping, ioctl, perf_event_open, signal};
use perfuse_testkit::signals::Handler;
use perfuse_testkit::{Puppet, wait, work};
use std::ffi::CString;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A user and group without processes.
const NOBODY: u32 = 65534;

/// Only root has strangers that it can make.
pub(crate) fn as_root() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("needs root");
        std::process::exit(2);
    }
    needs(NOBODY, 0);
}

/// A process can become this user's and then make these namespaces, which is tried.
fn needs(user: u32, namespaces: libc::c_int) {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if level.trim().parse().is_ok_and(|level: i32| level > 2) {
        println!("needs kernel.perf_event_paranoid of 2 or less: users have no events at {}", level.trim());
        std::process::exit(2);
    }
    let mut status = 0;
    // SAFETY: the child does nothing but system calls, with plain numbers, and no groups are read from the null pointer;
    // the pointer is to a live number.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let other = || {
                libc::setgroups(0, std::ptr::null()) == 0
                    && libc::setresgid(user, user, user) == 0
                    && libc::setresuid(user, user, user) == 0
            };
            let can = (user == 0 || other()) && (namespaces == 0 || libc::unshare(namespaces) == 0);
            libc::_exit(i32::from(!can))
        }
        libc::waitpid(pid, &mut status, 0);
    }
    if status != 0 {
        println!("needs users and namespaces to become and to make");
        std::process::exit(2);
    }
}

/// The calling process becomes a user's, with nothing of root left.
pub(crate) fn become_user(user: u32) {
    if user == 0 {
        return;
    }
    // SAFETY: plain numbers, and no groups are read from the null pointer.
    let done = unsafe {
        [
            libc::setgroups(0, std::ptr::null()),
            libc::setresgid(user, user, user),
            libc::setresuid(user, user, user),
        ]
    };
    assert_eq!(done, [0; 3], "root may become anybody");
}

/// A process that lives until it gets a signal, or this is dropped.
pub(crate) struct Victim {
    pid: i32,
    _release: OwnedFd,
}

impl Victim {
    /// In a process group of its own.
    pub(crate) fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: two live numbers.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0, "a pipe");
        // SAFETY: fresh descriptors that are ours.
        let [hold, release] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        // SAFETY: the child does nothing but system calls.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop(release);
            // SAFETY: one byte of a live one; ends without running anything of this program.
            unsafe {
                libc::read(hold.as_raw_fd(), [0u8].as_mut_ptr().cast(), 1);
                libc::_exit(0)
            }
        }
        // SAFETY: plain numbers.
        unsafe { libc::setpgid(pid, pid) };
        Victim { pid, _release: release }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The signal by which it has ended.
    fn ended_by(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: a live number.
        let ended = unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) } == self.pid;
        ended.then(|| libc::WTERMSIG(status))
    }
}

/// A sampling event that has been told to signal this owner at the end of two samples.
fn signals_as(user: u32, owner: signal::Owner) {
    work::Child::fork(|| {
        let event = opened(&sampling(1_000_000));
        become_user(user);
        println!("owner: {:?}", signal::deliver(event.as_fd(), owner, libc::SIGUSR1));
        println!("refresh: {:?}", ioctl::refresh(event.as_fd(), 2));
        work::burn(Duration::from_millis(150));
    })
    .join();
}

pub(crate) fn signals_reach_whom_the_owner_may_signal() {
    as_root();
    for group in [false, true] {
        let victim = Victim::new();
        let owner = if group { signal::Owner::Group(victim.pid) } else { signal::Owner::Process(victim.pid) };
        signals_as(NOBODY, owner);
        println!("group {group}: nobody has ended it by {:?}", victim.ended_by());
        signals_as(0, owner);
        let mut by = None;
        wait::until("root's signal", || {
            by = victim.ended_by();
            by.is_some()
        });
        println!("group {group}: root has ended it by {by:?}");
    }
}

/// Signals that queue up each say what they were sent for. The time between samples doubles until none shares a signal
/// with the next, as those do that are told too late.
pub(crate) fn the_last_of_queued_signals_says_so() {
    let number = libc::SIGRTMIN() + 2;
    let handler = Handler::install(number);
    // SAFETY: a live set, and plain numbers.
    let held = |how| unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, number);
        libc::sigprocmask(how, &set, std::ptr::null_mut());
    };
    let mut period = Duration::from_millis(4);
    loop {
        let event = opened(&sampling(period.as_nanos() as u64));
        let ring = map(&event, 9).expect("a ring");
        signal::deliver(event.as_fd(), signal::Owner::this_thread(), number).expect("signals can be had");
        handler.forget();
        held(libc::SIG_BLOCK);
        let asked = [(3, 3), (2, 5)].map(|(count, in_all)| {
            let asked = ioctl::refresh(event.as_fd(), count);
            // A sample of an address and two numbers takes 24 bytes.
            burn_until(|| ring.load_u64(1024, Ordering::Acquire) >= in_all * 24);
            asked
        });
        held(libc::SIG_UNBLOCK);
        if handler.count() == 5 || period > Duration::from_millis(500) {
            println!("refresh: {asked:?}");
            for caught in handler.caught() {
                println!("code {} fd {}", caught.code, caught.fd == event.as_raw_fd());
            }
            return;
        }
        period *= 2;
    }
}

/// An event that all users may have.
fn counting(which: Software) -> Attr {
    let mut attr = Attr::new(EventType::SOFTWARE);
    attr.config = which.0;
    attr.flags |= AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL;
    attr
}

fn opened_on(pid: i32) -> Result<OwnedFd, Errno> {
    let mut attr = counting(Software::TASK_CLOCK);
    perf_event_open(&mut attr, pid, -1, None, OpenFlags::FD_CLOEXEC)
}

/// A user opens events on itself and what it starts, with rings and without, and on others.
fn works_for(user: u32, others: &[(&str, i32)]) {
    let faults = opened(&counting(Software::PAGE_FAULTS));
    on(&faults);
    work::touch_pages(100);
    off(&faults);
    println!("{user}: faults are counted: {}", value(&faults) >= 100);
    let event = opened(&sampling(1_000_000));
    let ring = map(&event, 9).expect("a ring");
    on(&event);
    burn_until(|| ring.load_u64(1024, Ordering::Acquire) > 0);
    off(&event);
    println!("{user}: samples: {}", ring.load_u64(1024, Ordering::Acquire) > 0);
    let child = Victim::new();
    println!("{user}: its child: {:?}", opened_on(child.pid).map(drop));
    for (name, pid) in others {
        println!("{user}: {name}: {:?}", opened_on(*pid).map(drop));
    }
}

/// The first thing that a process can do when it has dropped its rights is to show itself again.
fn show_oneself() {
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
}

pub(crate) fn another_user_opens_events() {
    as_root();
    let stranger = Victim::new();
    // Known, as root has measured it.
    let roots = opened_on(stranger.pid);
    println!("root's: {:?}", roots.as_ref().map(drop));
    // SAFETY: getppid has no preconditions.
    let parent = unsafe { libc::getppid() };
    for user in [0, NOBODY] {
        for shown in [false, true] {
            work::Child::fork(|| {
                become_user(user);
                if shown {
                    show_oneself();
                }
                // SAFETY: as above.
                let maker = unsafe { libc::getppid() };
                works_for(user, &[("a child of root", stranger.pid), ("its maker", maker)]);
                if user != 0 {
                    println!("whom nobody measures yet: {:?}", opened_on(parent).map(drop));
                }
            })
            .join();
        }
    }
}

/// From now on the calls that tell of the right to look at others are answered as if it were there.
fn answer_for_oneself() {
    let calls = [libc::SYS_get_robust_list, libc::SYS_process_vm_readv];
    filter_oneself(calls, libc::SECCOMP_RET_ERRNO | libc::EFAULT as u32);
}

/// A filter does this with two calls.
fn filter_oneself(calls: [libc::c_long; 2], with_them: u32) {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    let filter = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut code = [
        filter(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
        filter(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, calls[0] as u32),
        filter(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, calls[1] as u32),
        filter(BPF_RET | BPF_K, 0, 0, with_them),
        filter(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    // SAFETY: a live program, and plain numbers.
    let put = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(put, 0, "filters can be had");
}

/// Calls that a filter of the tool's own leaves to a tracer are not done, as it has none.
pub(crate) fn a_filter_that_wants_a_tracer() {
    work::Child::fork(|| {
        println!("{:?}", opened_on(0).map(drop));
        filter_oneself([libc::SYS_getppid, libc::SYS_getsid], libc::SECCOMP_RET_TRACE | 7);
        // SAFETY: plain numbers.
        let answers = unsafe { [libc::syscall(libc::SYS_getppid), libc::syscall(libc::SYS_getsid, 0)] };
        println!("{answers:?} {:?}", super::tracers::errno());
    })
    .join();
}

/// A filter of the tool's own gives no rights, neither before the first event nor after it.
pub(crate) fn a_user_that_answers_for_itself() {
    as_root();
    let stranger = Victim::new();
    println!("root's: {:?}", opened_on(stranger.pid).map(drop));
    for late in [false, true] {
        work::Child::fork(|| {
            become_user(NOBODY);
            show_oneself();
            if late {
                println!("itself: {:?}", opened_on(0).map(drop));
            }
            answer_for_oneself();
            for _ in 0..2 {
                works_for(NOBODY, &[("a child of root", stranger.pid)]);
            }
        })
        .join();
    }
}

/// In a container root can see no more of its former self's processes than others.
pub(crate) fn another_user_opens_events_for_itself() {
    as_root();
    work::Child::fork(|| {
        become_user(NOBODY);
        show_oneself();
        // SAFETY: getppid has no preconditions.
        works_for(NOBODY, &[("its maker", unsafe { libc::getppid() })]);
    })
    .join();
}

/// Makes namespaces.
fn unshare(namespaces: libc::c_int) {
    // SAFETY: a plain number.
    assert_eq!(unsafe { libc::unshare(namespaces) }, 0, "it has been tried");
}

/// In a user namespace of one's own one has all capabilities, and not a right more.
pub(crate) fn a_user_namespace_of_ones_own() {
    as_root();
    as_a_user_in(libc::CLONE_NEWUSER);
}

fn as_a_user_in(namespaces: libc::c_int) {
    needs(NOBODY, namespaces);
    let stranger = Victim::new();
    work::Child::fork(|| {
        become_user(NOBODY);
        show_oneself();
        unshare(namespaces);
        // SAFETY: getppid has no preconditions.
        let maker = unsafe { libc::getppid() };
        works_for(NOBODY, &[("a child of root", stranger.pid), ("its maker", maker)]);
    })
    .join();
}

/// As containers are made, with a network of their own.
pub(crate) fn namespaces_of_every_kind() {
    as_root();
    const ALL: libc::c_int = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    as_a_user_in(ALL);
    numbers_in(ALL | libc::CLONE_NEWPID);
}

/// Names of records and their numbers of processes and threads, in a ring that is read once.
fn numbered(ring: &Mapping, data: usize) -> Vec<(u32, [u32; 4])> {
    let head = ring.load_u64(1024, Ordering::Acquire);
    let mut at = 0;
    let mut all = Vec::new();
    while at < head {
        let place = |offset: u64| 4096 + (at + offset) as usize % (data * 4096);
        let word = |offset| ring.load_u32(place(offset), Ordering::Acquire);
        let numbers = match word(0) {
            // FORK and EXIT: process, its parent, thread, its maker; COMM: process, thread.
            4 | 7 => [8, 12, 16, 20].map(word),
            _ => [word(8), word(12), 0, 0],
        };
        all.push((word(0), numbers));
        at += u64::from(ring.load_u16(place(6), Ordering::Acquire));
    }
    all
}

/// Below the first pid namespace there are other numbers, also of the process that measures, and for signals.
pub(crate) fn numbers_of_a_pid_namespace() {
    as_root();
    numbers_in(libc::CLONE_NEWPID);
    numbers_in(libc::CLONE_NEWPID | libc::CLONE_NEWUSER);
}

fn numbers_in(namespaces: libc::c_int) {
    needs(0, namespaces);
    // SAFETY: getpid has no preconditions.
    let outside = unsafe { libc::getpid() };
    work::Child::fork(|| {
        unshare(namespaces);
        work::Child::fork(|| as_the_first(outside)).join();
    })
    .join();
}

fn as_the_first(outside: i32) {
    let mut tasks = counting(Software::DUMMY);
    tasks.flags |= AttrFlags::TASK | AttrFlags::COMM | AttrFlags::INHERIT;
    tasks.flags -= AttrFlags::DISABLED;
    let event = opened(&tasks);
    let ring = map(&event, 3);
    println!("a ring of an inherited event: {:?}", ring.map(drop));
    tasks.flags -= AttrFlags::INHERIT;
    let event = opened(&tasks);
    let ring = map(&event, 3).expect("a ring");
    let mut child = Puppet::fork(&[], |_| {
        // SAFETY: a short name that ends with NUL.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"renamed".as_ptr()) };
    });
    println!("the child is {}", child.pid());
    let of_child = perf_event_open(&mut tasks, child.pid() as i32, -1, None, OpenFlags::FD_CLOEXEC);
    let of_child = of_child.expect("one's own child");
    let childs_ring = map(&of_child, 3).expect("a ring");
    child.act(1);
    child.end();
    child.reap();
    println!("of itself: {:?}", numbered(&ring, 2));
    let exits = |records: Vec<(u32, [u32; 4])>| records.into_iter().filter(|record| record.0 == 4);
    println!("of the child: {:?}", exits(numbered(&childs_ring, 2)).collect::<Vec<_>>());
    for number in [1, 2, 3, outside] {
        println!("{}: {:?}", number.min(4), opened_on(number).map(drop));
    }
    let handler = Handler::install(libc::SIGUSR1);
    let sampling = opened(&sampling(1_000_000));
    signal::deliver(sampling.as_fd(), signal::Owner::Process(1), libc::SIGUSR1).expect("that is me");
    println!("refresh: {:?}", ioctl::refresh(sampling.as_fd(), 2));
    burn_until(|| handler.count() > 0);
    println!("signals: {}", handler.count() > 0);
}

/// A folder for one test, and what is in it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(rights: u32) -> Self {
        let path = std::env::temp_dir().join(format!("perfuse-strangers-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        std::fs::set_permissions(&path, Permissions::from_mode(rights)).expect("it is ours");
        Folder(path)
    }

    /// A copy of a program, with these rights.
    fn program(&self, name: &str, rights: u32) -> std::path::PathBuf {
        let path = self.0.join(name);
        std::fs::copy("/bin/true", &path).expect("room for a copy");
        std::fs::set_permissions(&path, Permissions::from_mode(rights)).expect("it is ours");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where one may not look there are no probes, and nothing to be learnt of what is there.
pub(crate) fn probes_where_one_may_not_look() {
    as_root();
    let closed = Folder::new(0o700);
    let path = closed.program("hidden", 0o755);
    let type_ = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").unwrap_or_default();
    let Ok(type_) = type_.trim().parse() else {
        println!("needs uprobes");
        std::process::exit(2)
    };
    work::Child::fork(|| {
        become_user(NOBODY);
        show_oneself();
        for (name, offset) in [("hidden", 0x100), ("hidden", 1 << 40), ("absent", 0x100)] {
            let path = CString::new(path.with_file_name(name).as_os_str().as_bytes()).expect("no NUL");
            let mut attr = Attr::new(EventType(type_));
            (attr.config1, attr.config2) = (path.as_ptr() as u64, offset);
            attr.flags |= AttrFlags::EXCLUDE_KERNEL;
            let opened = perf_event_open(&mut attr, 0, -1, None, OpenFlags::FD_CLOEXEC);
            println!("{name} at {offset:#x}: {:?}", opened.map(drop));
        }
    })
    .join();
}

/// A program that may be executed and not be read cannot be measured (rule D43).
pub(crate) fn a_program_that_cannot_be_read() {
    as_root();
    let folder = Folder::new(0o755);
    for rights in [0o755, 0o711] {
        let program = folder.program("program", rights);
        work::Child::fork(|| {
            become_user(NOBODY);
            show_oneself();
            let held =
                perfuse_sys::process::spawn(program.as_os_str(), &["program".into()]).expect("a child");
            let mut attr = counting(Software::PAGE_FAULTS);
            attr.flags |= AttrFlags::ENABLE_ON_EXEC;
            let event =
                perf_event_open(&mut attr, held.pid(), -1, None, OpenFlags::FD_CLOEXEC).expect("an event");
            let (status, _) = held.release().expect("an exec").wait().expect("an end");
            println!("{rights:o}: {status}, counted: {}", value(&event) > 0);
        })
        .join();
    }
}

/// Answers go where the program itself could write.
pub(crate) fn answers_into_memory_that_is_read_only() {
    let event = opened(&counting(Software::DUMMY));
    // SAFETY: a fresh page that the kernel chooses the place of.
    let page = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags, -1, 0)
    };
    // SAFETY: the page is there; whether the kernel may write to it is what is asked.
    unsafe {
        let read = libc::read(event.as_raw_fd(), page, 8);
        println!("read: {read} {}", std::io::Error::last_os_error());
        let id = perfuse_abi::ioctl::ID as libc::c_ulong;
        let asked = libc::ioctl(event.as_raw_fd(), id as _, page);
        println!("id: {asked} {}", std::io::Error::last_os_error());
        println!("the page: {}", *page.cast::<u64>());
    }
}

/// Memory of which nobody fills the pages: who touches one waits until he is killed.
pub(crate) fn unfilled() -> *mut libc::c_void {
    const UFFD_API: u64 = 0xaa;
    const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
    const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
    const MISSING: u64 = 1;
    let len = perfuse_sys::page_size();
    let (mut api, mut range) = ([UFFD_API, 0, 0], [0, len as u64, MISSING, 0]);
    // SAFETY: new memory is mapped, and the structures are of the sizes that the requests have.
    let mapped = unsafe {
        let map = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let at = libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, map, -1, 0);
        range[0] = at as u64;
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) as libc::c_int;
        let is_registered = fd >= 0
            && libc::ioctl(fd, UFFDIO_API, api.as_mut_ptr()) == 0
            && libc::ioctl(fd, UFFDIO_REGISTER, range.as_mut_ptr()) == 0;
        is_registered.then_some(at)
    };
    mapped.unwrap_or_else(|| {
        println!("needs userfaultfd(2): {}", std::io::Error::last_os_error());
        std::process::exit(2)
    })
}

/// A caller whose memory nobody fills may wait; nobody else does.
pub(crate) fn memory_that_nobody_fills() {
    as_root();
    unfilled();
    for call in ["open", "read"] {
        let (mut told, tells) = UnixStream::pair().expect("two ends");
        let counter = opened(&attr(Software::PAGE_FAULTS));
        let caller = work::Child::fork(|| {
            // Its own event: on Linux, who reads one of a task holds up all who want that task's.
            let (memory, own) = (unfilled(), opened(&attr(Software::PAGE_FAULTS)));
            let _ = (&tells).write(b"!");
            // SAFETY: the kernel checks the memory that it reads and writes.
            unsafe {
                match call {
                    "open" => libc::syscall(libc::SYS_perf_event_open, memory, 0, -1, -1, 0),
                    _ => libc::read(own.as_raw_fd(), memory, 8) as libc::c_long,
                };
                loop {
                    libc::pause();
                }
            }
        });
        told.read_exact(&mut [0]).expect("the child is there");
        // It is in its call by then; if not, the others have it easier.
        std::thread::sleep(Duration::from_millis(50));
        // Where the others wait, too, they do for ever.
        // SAFETY: plain numbers.
        unsafe { libc::alarm(60) };
        let others: Vec<u64> = (0..3).map(|_| value(&counter)).collect();
        // SAFETY: as above.
        unsafe { libc::alarm(0) };
        println!("{call}: others {}", others.len());
        // SAFETY: a child that was not waited for; no status is written to the null pointer.
        unsafe {
            libc::kill(caller.pid() as i32, libc::SIGKILL);
            libc::waitpid(caller.pid() as i32, std::ptr::null_mut(), 0);
        }
    }
}
