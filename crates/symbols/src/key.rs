//! The names of DSOs: how a recording calls them, and which kind of object that is.

use perfuse_files::BuildId;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The kind of a DSO.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DsoKind {
    /// A program or library.
    File,
    /// The library that the kernel puts into every process.
    Vdso,
    /// The page of three system calls at a fixed address, on x86.
    Vsyscall,
    /// The kernel without its modules.
    Kernel {
        /// A symbol and the address it had, as the mapping of the kernel in perf.data tells: the kernel's
        /// place changes with every start.
        reference: Option<Reference>,
    },
    /// A kernel module; the path is its file, or its name in brackets.
    Module {
        /// The address it was loaded at.
        base: u64,
    },
    /// Memory without a file, with whatever the process put there.
    Anonymous {
        /// The process.
        pid: u32,
    },
    /// Pages of the kernel without code of a program.
    Special,
}

/// A kernel symbol and its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Its name, `_text` or `_stext`.
    pub symbol: String,
    /// Its address.
    pub address: u64,
}

/// A DSO as a recording names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DsoKey {
    /// Its kind.
    pub kind: DsoKind,
    /// Its path, or what the kernel shows in place of one.
    pub path: PathBuf,
    /// Its build-id, if that was recorded.
    pub build_id: Option<BuildId>,
    /// A process that has it mapped. Only to be given if that process has another root folder than this
    /// one: DSOs with the same path and different processes are different, unless they have a build-id.
    pub pid: Option<u32>,
}

impl DsoKey {
    /// Of a mapping of user memory by the name that the kernel shows for it, in `/proc/PID/maps` and in
    /// MMAP records.
    ///
    /// ```
    /// use perfuse_symbols::{DsoKey, DsoKind};
    ///
    /// assert_eq!(DsoKey::of_map(b"/usr/bin/ls", 7).kind, DsoKind::File);
    /// assert_eq!(DsoKey::of_map(b"[vdso]", 7).kind, DsoKind::Vdso);
    /// assert_eq!(DsoKey::of_map(b"//anon", 7).kind, DsoKind::Anonymous { pid: 7 });
    /// ```
    pub fn of_map(name: &[u8], pid: u32) -> Self {
        let begins = |start: &str| name.starts_with(start.as_bytes());
        let anonymous = [
            "//anon",
            "/anon_hugepage",
            "/dev/zero",
            "/dev/ashmem",
            "/memfd:",
            "/SYSV",
            "[anon",
            "[heap]",
            "[stack",
        ];
        let kind = match name {
            b"[vdso]" | b"[vdso32]" | b"[vdsox32]" => DsoKind::Vdso,
            b"[vsyscall]" => DsoKind::Vsyscall,
            b"" => DsoKind::Anonymous { pid },
            _ if anonymous.iter().any(|start| begins(start)) => DsoKind::Anonymous { pid },
            _ if begins("[kernel") => DsoKind::Kernel { reference: None },
            _ if begins("[") => DsoKind::Special,
            _ => DsoKind::File,
        };
        let name = if name.is_empty() { b"//anon" } else { name };
        DsoKey { kind, path: OsStr::from_bytes(name).into(), build_id: None, pid: None }
    }

    /// The running kernel, or the one of a recording on this machine.
    pub fn kernel(reference: Option<Reference>) -> Self {
        DsoKey {
            kind: DsoKind::Kernel { reference },
            path: "[kernel.kallsyms]".into(),
            build_id: None,
            pid: None,
        }
    }

    /// A kernel module by its file or its name in brackets.
    pub fn module(path: impl Into<PathBuf>, base: u64) -> Self {
        DsoKey { kind: DsoKind::Module { base }, path: path.into(), build_id: None, pid: None }
    }

    /// The same with a build-id.
    pub fn with_build_id(self, build_id: Option<BuildId>) -> Self {
        DsoKey { build_id, ..self }
    }

    /// The name of a module: that of its file without folders and endings, with underscores.
    pub fn module_name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy();
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = name.find(".ko").map_or(name, |end| &name[..end]);
        name.replace('-', "_")
    }
}

/// Where in a DSO something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An offset in the file: the address less the mapping's start, plus the mapping's offset. For files,
    /// the vdso, and modules, whose mapping begins with their code.
    FileOffset(u64),
    /// An address of memory, for the kernel, modules, and memory without a file; for a file, one as its
    /// symbols count.
    Memory(u64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_that_are_no_files() {
        let anonymous = DsoKind::Anonymous { pid: 1 };
        for (name, kind) in [
            ("", anonymous.clone()),
            ("//anon", anonymous.clone()),
            ("[heap]", anonymous.clone()),
            ("[stack:12]", anonymous.clone()),
            ("[anon:dalvik-jit]", anonymous.clone()),
            ("/memfd:doublemapper (deleted)", anonymous.clone()),
            ("/SYSV00000000 (deleted)", anonymous.clone()),
            ("/dev/zero (deleted)", anonymous),
            ("[vsyscall]", DsoKind::Vsyscall),
            ("[vvar]", DsoKind::Special),
            ("[uprobes]", DsoKind::Special),
            ("[kernel.kallsyms]_text", DsoKind::Kernel { reference: None }),
            ("/usr/lib/libc.so.6", DsoKind::File),
        ] {
            assert_eq!(DsoKey::of_map(name.as_bytes(), 1).kind, kind, "{name}");
        }
        assert_eq!(DsoKey::of_map(b"", 1).path, Path::new("//anon"));
    }

    #[test]
    fn modules_have_the_names_that_the_kernel_lists() {
        for (path, name) in [
            ("[e1000]", "e1000"),
            ("/lib/modules/6.1.0/kernel/net/nf-tables.ko.xz", "nf_tables"),
            ("/lib/modules/6.1.0/kernel/fs/ext4.ko", "ext4"),
        ] {
            assert_eq!(DsoKey::module(path, 0).module_name(), name);
        }
    }
}
