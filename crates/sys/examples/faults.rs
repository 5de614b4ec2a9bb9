//! Counts page faults of this thread by the system calls alone.

use perfuse_sys::abi::{Attr, AttrFlags, EventType, IocFlags, OpenFlags, Software};
use perfuse_sys::{ioctl, perf_event_open, read};
use std::os::fd::AsFd;

fn main() -> Result<(), perfuse_sys::Errno> {
    let mut attr = Attr { config: Software::PAGE_FAULTS.0, ..Attr::new(EventType::SOFTWARE) };
    attr.flags = AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    let event = perf_event_open(&mut attr, 0, -1, None, OpenFlags::FD_CLOEXEC)?;
    ioctl::enable(event.as_fd(), IocFlags::empty())?;
    let touched = vec![1u8; 1 << 20];
    ioctl::disable(event.as_fd(), IocFlags::empty())?;
    let mut words = [0; 1];
    read(event.as_fd(), &mut words)?;
    println!("{} page faults for {} bytes", words[0], touched.len());
    Ok(())
}
