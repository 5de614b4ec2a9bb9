//! Where the kernel and its modules are, as records that seem to come from before the recording.

use super::{Receiver, Synthesis};
use perfuse::abi::record::{CpuMode, Misc, Mmap, Record, Tid};
use perfuse::abi::wire::Text;
use perfuse_symbols::BuildId;
use std::collections::BTreeMap;
use std::{fs, io};

impl<R: Receiver> Synthesis<'_, R> {
    /// The kernel and its modules, as far as this user may know where they are.
    pub(crate) fn kernel(&mut self) -> io::Result<()> {
        let modules = modules();
        let Some((reference, text)) = kernel_text() else { return Ok(()) };
        let first_module = modules.iter().map(|module| module.start).filter(|&start| start > text).min();
        // The end of the image is not told everywhere; what follows it is.
        let end = kernel_len().map(|len| text + len).or(first_module).unwrap_or(text | 0x3fff_ffff);
        let name = format!("[kernel.kallsyms]{reference}");
        let map = |addr, len, pgoff, name: &str| {
            // The kernel is no process.
            let tid = Tid { pid: u32::MAX, tid: 0 };
            (tid, addr, len, pgoff, name.to_owned())
        };
        let mut maps = vec![map(text, end - text, text, &name)];
        maps.extend(modules.iter().map(|module| map(module.start, module.len, 0, &module.file)));
        for (tid, addr, len, pgoff, name) in maps {
            let map = Mmap { tid, addr, len, pgoff, filename: Text::new(name.as_bytes()) };
            self.send(Record::Mmap(map), CpuMode::KERNEL, Misc::empty())?;
        }
        let ids = modules.into_iter().filter_map(|module| Some((module.file.into_bytes(), module.build_id?)));
        self.tally.modules.extend(ids);
        Ok(())
    }
}

/// The symbol by which readers tell how far the kernel was moved, and its address. `None` where the
/// addresses are hidden.
fn kernel_text() -> Option<(&'static str, u64)> {
    use std::io::Read;
    // It is among the first; making the whole list takes the kernel a tenth of a second.
    let mut file = fs::File::open("/proc/kallsyms").ok()?;
    let (mut text, mut room) = (Vec::new(), [0; 8192]);
    for _ in 0..64 {
        let count = file.read(&mut room).ok()?;
        text.extend_from_slice(&room[..count]);
        let found = ["_text", "_stext"].into_iter().find_map(|name| Some((name, address_of(&text, name)?)));
        if found.is_some() || count == 0 {
            return found.filter(|(_, address)| *address != 0);
        }
    }
    None
}

/// The address of a symbol, in lines of `/proc/kallsyms`.
fn address_of(text: &[u8], name: &str) -> Option<u64> {
    let lines = text.split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    lines.into_iter().find_map(|line| {
        let mut fields = line.split(' ');
        let address = u64::from_str_radix(fields.next()?, 16).ok()?;
        (fields.nth(1)? == name).then_some(address)
    })
}

/// Bytes from the start of the kernel's code to the end of its image: functions that only run at the start, as `start_kernel`, which
/// is at the bottom of an idle cpu's first stack, lie behind its data.
fn kernel_len() -> Option<u64> {
    let text = fs::read_to_string("/proc/iomem").ok()?;
    let range = |name: &str| {
        let line = text.lines().find(|line| line.ends_with(name))?;
        let (start, end) = line.split(" : ").next()?.trim().split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    let (start, _) = range("Kernel code")?;
    let (_, end) = range("Kernel bss").or_else(|| range("Kernel data"))?;
    // Those who may not know see zeros.
    (start != 0 && end > start).then(|| end + 1 - start)
}

struct Module {
    start: u64,
    len: u64,
    file: String,
    build_id: Option<BuildId>,
}

/// The loaded modules, with their files where these are known.
fn modules() -> Vec<Module> {
    let Ok(text) = fs::File::open("/proc/modules") else { return Vec::new() };
    let loaded = perfuse_symbols::read_modules(text).unwrap_or_default();
    if loaded.is_empty() {
        return Vec::new();
    }
    let root = format!("/lib/modules/{}", perfuse_sys::uname_release());
    let list = fs::read_to_string(format!("{root}/modules.dep")).unwrap_or_default();
    let files: BTreeMap<String, &str> = list
        .lines()
        .filter_map(|line| {
            let path = line.split(':').next()?;
            let name = path.rsplit('/').next()?.split(".ko").next()?;
            Some((name.replace('-', "_"), path))
        })
        .collect();
    let module = |module: &perfuse_symbols::LoadedModule| {
        let file = match files.get(&module.name) {
            Some(path) => format!("{root}/{path}"),
            None => format!("[{}]", module.name),
        };
        let build_id = BuildId::of_loaded_module(&module.name);
        Module { start: module.base, len: module.size, file, build_id }
    };
    loaded.iter().filter(|module| module.base != 0).map(module).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_by_their_whole_name() {
        let text = b"ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000040 T _text_of\nffff";
        assert_eq!(address_of(text, "_text"), Some(0xffff_ffff_8100_0000));
        assert_eq!(address_of(text, "_text_o"), None);
    }
}
