//! A supervisor that has no descriptor left to look at `/proc` with says so, and counts nothing wrong.

use super::play;
use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{Attr, ByteOrder, EventType, Software};
use perfuse_engine::{OpenArguments, TaskId};
use perfuse_live::machine::{Machine, Rights, Settings};
use perfuse_testkit::work::Pages;
use perfuse_testkit::{Outcome, Puppet, Sandbox};

pub(crate) fn counts_without_descriptors_are_refused() -> Outcome {
    let done = play(Sandbox::new(), "short", "");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

fn limit(files: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to a live value.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = files;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}

/// In a process of its own: limits are a process's.
pub(crate) fn of_descriptors() {
    let mut child = Puppet::fork(&[], |_| Pages::map(50).touch());
    let pid = child.pid() as i32;
    // So few that none is kept open.
    limit(7);
    let mut machine = Machine::new(Settings::default());
    machine.adopt(pid, pid).expect("one's own child can be looked at");
    let mut attr = Attr::new(EventType::SOFTWARE);
    (attr.config, attr.size) = (Software::PAGE_FAULTS.0, Attr::SIZE_VER8);
    let mut bytes = Vec::new();
    attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).expect("an attr can be written");
    let arguments = OpenArguments { pid, ..OpenArguments::default() };
    let event = machine.open(TaskId(0), &mut bytes, arguments, None, Rights::OWN).expect("it can be opened");
    child.act(1);
    limit(0);
    let mut words = Vec::new();
    assert_eq!(machine.read(event, 8, &mut words), Err(perfuse_abi::Errno::EMFILE));
    limit(7);
    machine.read(event, 8, &mut words).expect("it can be read again");
    let count = u64::from_ne_bytes(words[..8].try_into().expect("a word"));
    assert!(count >= 50, "{count}");
}
