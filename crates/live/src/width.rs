//! How wide the caller of a system call is: 32-bit programs, and 64-bit ones that call as those do (by
//! `int 0x80`), have other numbers for the same calls, other registers for their arguments, and pointers of four
//! bytes.

use perfuse_abi::{Errno, ioctl};

/// `io_pgetevents(2)`.
#[cfg(target_arch = "x86_64")]
pub(crate) const IO_PGETEVENTS: libc::c_long = 333;
/// `io_pgetevents(2)`.
#[cfg(target_arch = "aarch64")]
pub(crate) const IO_PGETEVENTS: libc::c_long = 292;

/// The two ways in which a system call can be made. How wide the *program* is that makes it is another question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// That of this program.
    Native,
    /// That of 32-bit programs: i386. On arm64 there are no numbers for it here.
    Narrow,
}

/// The architectures of `struct seccomp_data`, and by their side calls to open an event that are not served: those of
/// x32, which have the number of the 64-bit ones and a bit of their own, and those of 32-bit arm.
#[cfg(target_arch = "x86_64")]
mod numbers {
    pub(super) const NATIVE: u32 = 0xc000_003e;
    pub(super) const NARROW: u32 = 0x4000_0003;
    pub(super) const REFUSED: (u32, u32) = (NATIVE, libc::SYS_perf_event_open as u32 | 0x4000_0000);

    /// The number of a call in 32-bit programs. Those that came later with a wider time do the same here; of
    /// several the first is used for calls on behalf of us. `mmap2` counts its offset in pages. (The first `mmap` of
    /// i386 has its arguments in memory, where no filter looks: events cannot be mapped with it.)
    pub(super) const CALLS: &[(u32, libc::c_long)] = &[
        (336, libc::SYS_perf_event_open),
        (357, libc::SYS_bpf),
        (3, libc::SYS_read),
        (145, libc::SYS_readv),
        (378, libc::SYS_preadv2),
        (6, libc::SYS_close),
        (41, libc::SYS_dup),
        (63, libc::SYS_dup2),
        (330, libc::SYS_dup3),
        (221, libc::SYS_fcntl),
        (55, libc::SYS_fcntl),
        (436, libc::SYS_close_range),
        (54, libc::SYS_ioctl),
        (172, libc::SYS_prctl),
        (26, libc::SYS_ptrace),
        (120, libc::SYS_clone),
        (192, libc::SYS_mmap),
        (91, libc::SYS_munmap),
        (163, libc::SYS_mremap),
        (125, libc::SYS_mprotect),
        (219, libc::SYS_madvise),
        (144, libc::SYS_msync),
        (257, libc::SYS_remap_file_pages),
        (168, libc::SYS_poll),
        (309, libc::SYS_ppoll),
        (414, libc::SYS_ppoll),
        (142, libc::SYS_select),
        (82, libc::SYS_select),
        (308, libc::SYS_pselect6),
        (413, libc::SYS_pselect6),
        (256, libc::SYS_epoll_wait),
        (319, libc::SYS_epoll_pwait),
        (441, libc::SYS_epoll_pwait2),
        (295, libc::SYS_openat),
        (354, libc::SYS_seccomp),
        (312, libc::SYS_get_robust_list),
        (347, libc::SYS_process_vm_readv),
        (383, libc::SYS_statx),
        (434, libc::SYS_pidfd_open),
        (360, libc::SYS_socketpair),
        (359, libc::SYS_socket),
        (361, libc::SYS_bind),
        (362, libc::SYS_connect),
        (367, libc::SYS_getsockname),
        (372, libc::SYS_recvmsg),
        (247, libc::SYS_io_getevents),
        (385, super::IO_PGETEVENTS),
        (416, super::IO_PGETEVENTS),
        (187, libc::SYS_sendfile),
        (239, libc::SYS_sendfile),
        (355, libc::SYS_getrandom),
        (420, libc::SYS_semtimedop),
        (421, libc::SYS_rt_sigtimedwait),
        (177, libc::SYS_rt_sigtimedwait),
        (426, libc::SYS_io_uring_enter),
        (371, libc::SYS_recvfrom),
        (372, libc::SYS_recvmsg),
        (417, libc::SYS_recvmmsg),
        (337, libc::SYS_recvmmsg),
        (364, libc::SYS_accept4),
        (4, libc::SYS_write),
        (146, libc::SYS_writev),
        (369, libc::SYS_sendto),
        (370, libc::SYS_sendmsg),
        (345, libc::SYS_sendmmsg),
        (362, libc::SYS_connect),
    ];
}

#[cfg(target_arch = "aarch64")]
mod numbers {
    pub(super) const NATIVE: u32 = 0xc000_00b7;
    pub(super) const NARROW: u32 = 0x4000_0028;
    pub(super) const REFUSED: (u32, u32) = (NARROW, 364);
    pub(super) const CALLS: &[(u32, libc::c_long)] = &[];
}

/// Architecture and number of calls to open an event that cannot be served.
pub(crate) const REFUSED: (u32, u32) = numbers::REFUSED;

impl Width {
    /// Both.
    pub(crate) const ALL: [Width; 2] = [Width::Native, Width::Narrow];

    /// As `struct seccomp_data` has it.
    pub(crate) fn architecture(self) -> u32 {
        match self {
            Width::Native => numbers::NATIVE,
            Width::Narrow => numbers::NARROW,
        }
    }

    pub(crate) fn of_architecture(architecture: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.architecture() == architecture)
    }

    /// The numbers of a call, given by that of this program.
    pub(crate) fn numbers_of(self, call: libc::c_long) -> impl Iterator<Item = u32> {
        let own = (self == Width::Native).then_some(call as u32);
        let table = if self == Width::Native { &[] } else { numbers::CALLS };
        own.into_iter().chain(table.iter().filter(move |(_, own)| *own == call).map(|(number, _)| *number))
    }

    /// The number with which a call is made on behalf of us: `EOPNOTSUPP` for those of which none is known.
    pub(crate) fn number_of(self, call: libc::c_long) -> Result<u64, Errno> {
        self.numbers_of(call).next().map(u64::from).ok_or(Errno::EOPNOTSUPP)
    }

    /// The number in this program of the call with that number.
    pub(crate) fn call(self, number: u64) -> Option<libc::c_long> {
        match self {
            Width::Native => Some(number as libc::c_long),
            Width::Narrow => {
                numbers::CALLS.iter().find(|(own, _)| u64::from(*own) == number).map(|(_, call)| *call)
            }
        }
    }

    /// An argument; a narrow call has no upper halves of registers.
    pub(crate) fn argument(self, register: u64) -> u64 {
        match self {
            Width::Native => register,
            Width::Narrow => register as u32 as u64,
        }
    }

    /// The offset of an `mmap`, in bytes.
    pub(crate) fn offset(self, argument: u64) -> u64 {
        match self {
            Width::Native => argument,
            Width::Narrow => argument << 12,
        }
    }

    /// The code of an event's ioctl. Some contain the size of a pointer.
    pub(crate) fn ioctl(self, code: u32) -> u32 {
        match code {
            _ if self == Width::Native => code,
            ioctl::COMPAT_SET_FILTER => ioctl::SET_FILTER,
            ioctl::COMPAT_ID => ioctl::ID,
            ioctl::COMPAT_QUERY_BPF => ioctl::QUERY_BPF,
            ioctl::COMPAT_MODIFY_ATTRIBUTES => ioctl::MODIFY_ATTRIBUTES,
            // A 32-bit program may use the others, too.
            code => code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_there_and_back() {
        for &(number, call) in numbers::CALLS {
            assert_eq!(Width::Narrow.call(number.into()), Some(call));
            assert!(Width::Narrow.numbers_of(call).any(|own| own == number));
        }
        assert_eq!(Width::Native.number_of(libc::SYS_mount), Ok(libc::SYS_mount as u64));
        assert_eq!(Width::Narrow.number_of(libc::SYS_mount), Err(Errno::EOPNOTSUPP));
        for width in Width::ALL {
            assert_eq!(Width::of_architecture(width.architecture()), Some(width));
        }
    }

    #[test]
    fn codes_with_a_pointer_in_them() {
        let all = [ioctl::SET_FILTER, ioctl::ID, ioctl::QUERY_BPF, ioctl::MODIFY_ATTRIBUTES];
        for code in all {
            let narrow = code & !(8 << 16) | 4 << 16;
            assert_eq!(Width::Narrow.ioctl(narrow), code);
            assert_eq!(Width::Narrow.ioctl(code), code);
            assert_eq!(Width::Native.ioctl(narrow), narrow);
        }
        for code in [ioctl::ENABLE, ioctl::PERIOD, ioctl::REFRESH, ioctl::SET_OUTPUT, ioctl::SET_BPF] {
            assert_eq!(Width::Narrow.ioctl(code), code);
        }
    }
}
