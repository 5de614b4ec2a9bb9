//! The rights of a tool, and the processes that its numbers name: the kernel is asked, by calls of the tool's.

use super::inject::Injector;
use crate::machine::ProbedFile;
use crate::proc;
use crate::ptrace::Tid;
use crate::remote;
use perfuse_abi::Errno;
use perfuse_engine::Access;

impl Injector<'_> {
    /// Whether the thread may look at another in this way. `number`: as the thread calls that one. Its ids and
    /// capabilities, the other's user namespace, whether the other can be dumped, and security modules decide.
    pub(super) fn may(&mut self, access: Access, number: Tid) -> bool {
        let asked = match access {
            // Is told after the check that the answer can go nowhere. gVisor does not check.
            Access::Read if proc::shows_the_dead() => {
                self.call(libc::SYS_get_robust_list, [number as u64, 0, 0, 0, 0, 0])
            }
            Access::Read | Access::Attach => self.read_byte(number),
        };
        match asked {
            Ok(_) | Err(Errno::EFAULT) => true,
            // In gVisor there is no such call.
            Err(Errno::ENOSYS) => !proc::shows_the_dead(),
            Err(_) => false,
        }
    }

    /// `process_vm_readv(2)` of a byte at address 0, where there is none.
    fn read_byte(&mut self, number: Tid) -> Result<u64, Errno> {
        let size = if self.is_narrow() { 4 } else { 8 };
        let page = self.put(&[0; 40])?;
        // Two of `struct iovec`: the address, the length.
        let mut vectors = [0; 32];
        vectors[..size].copy_from_slice(&(page + 32).to_le_bytes()[..size]);
        (vectors[size], vectors[3 * size]) = (1, 1);
        let page = self.put(&vectors)?;
        let there = page + 2 * size as u64;
        self.call(libc::SYS_process_vm_readv, [number as u64, page, 1, there, 1, 0])
    }

    /// The file that a path leads to, which stands at this address of the thread's memory.
    pub(super) fn look_at(&mut self, path: u64) -> Result<ProbedFile, Errno> {
        /// Of `struct statx`, which is the same for programs of all widths.
        const BYTES: usize = 256;
        const BASIC: u64 = 0x7ff;
        const KIND: u16 = 0o170_000;
        const REGULAR: u16 = 0o100_000;
        let page = self.put(&[0; BYTES])?;
        self.call(libc::SYS_statx, [libc::AT_FDCWD as u64, path, 0, BASIC, page, 0])?;
        let mut bytes = [0; BYTES];
        remote::read_exact(self.tid(), page, &mut bytes)?;
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]));
        let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]));
        let is_file = word(28) as u16 & KIND == REGULAR;
        Ok(ProbedFile { is_file, len: long(40), device: (word(136), word(140)), inode: long(32) })
    }

    /// The thread that this one calls so, by this process's number; `ESRCH`: there is none.
    pub(super) fn whom(&mut self, number: Tid) -> Result<Tid, Errno> {
        /// `PIDFD_THREAD`, from Linux 6.9 on; before that only processes can be named.
        const THREAD: u64 = libc::O_EXCL as u64;
        let open = |injector: &mut Self, flags| {
            injector.call(libc::SYS_pidfd_open, [number as u64, flags, 0, 0, 0, 0])
        };
        let fd = open(self, THREAD)
            .or_else(|errno| if errno == Errno::EINVAL { open(self, 0) } else { Err(errno) });
        let fd = fd.map_err(|_| Errno::ESRCH)?;
        let found = proc::process_behind(self.tid(), fd);
        self.close(fd);
        found.ok_or(Errno::ESRCH)
    }
}
