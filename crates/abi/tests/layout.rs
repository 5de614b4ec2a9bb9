//! The crate against the C compiler and the kernel's header of this machine: every offset, size, bit and
//! number is compared one by one.
//!
//! Fields that the header is too old to know are listed by name as unchecked. Without a C compiler or the header
//! the tests are ignored, with the reason. `C_INCLUDE_PATH` can name a folder with newer headers.

use bitflags::Flags;
use perfuse_abi::page::{Capabilities, MmapPage, offset};
use perfuse_abi::record::*;
use perfuse_abi::regs::{Arm64Reg, X86Reg};
use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{
    Attr, AttrFlags, AuxAction, AuxFlags, BranchSampleType, Breakpoint, ByteOrder, Cache, CacheOp,
    CacheResult, EventType, Hardware, IocFlags, OpenFlags, ReadFormat, SampleType, Software, Txn, WireAttr,
    ioctl,
};
use perfuse_testkit::{Outcome, Skip};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

perfuse_testkit::suite! {
    witnesses:
        members_of_the_attr,
        bit_fields_of_the_attr,
        sizes_of_the_attr,
        the_control_page,
        structs_of_records,
        flag_sets,
        numbers,
        registers,
        ioctls;
}

/// Something C and this crate must agree on.
struct Check {
    /// The C expression, an integer.
    c: String,
    /// The identifier without which a header does not know it.
    needs: String,
    /// This crate's number.
    expected: u64,
}

fn check(c: impl Into<String>, needs: impl Into<String>, expected: u64) -> Check {
    Check { c: c.into(), needs: needs.into(), expected }
}

/// A constant of the header, by its name.
fn constant(name: impl Into<String>, expected: u64) -> Check {
    let name = name.into();
    check(name.clone(), name, expected)
}

const INCLUDES: &str = "
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <linux/perf_event.h>
#include <linux/hw_breakpoint.h>
#include <linux/prctl.h>
#include <asm/siginfo.h>
#if __has_include(<asm/perf_regs.h>)
#include <asm/perf_regs.h>
#endif
";

/// A C compiler with one of the headers of this machine.
struct C {
    compiler: PathBuf,
    /// A folder to look for headers in first.
    include: Option<PathBuf>,
    /// Every identifier in the headers.
    known: HashSet<String>,
}

impl C {
    /// The compiler with the newest header: the one with the most identifiers.
    fn find() -> Result<C, Skip> {
        let compiler = perfuse_testkit::need::program("cc")?;
        let mut why = String::new();
        let mut tries = vec![None];
        tries.extend(kernel_headers().into_iter().map(Some));
        let found = tries.into_iter().filter_map(|include| {
            let mut c = C { compiler: compiler.clone(), include, known: HashSet::new() };
            let output = c.run(&["-E", "-dD"], INCLUDES)?;
            if !output.status.success() {
                why = String::from_utf8_lossy(&output.stderr).lines().take(2).collect::<Vec<_>>().join(" ");
                return None;
            }
            let text = String::from_utf8_lossy(&output.stdout);
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(String::from);
            c.known = words.collect();
            Some(c)
        });
        let newest = found.max_by_key(|c| c.known.len());
        newest.ok_or_else(|| Skip::needs("<linux/perf_event.h>", why))
    }

    /// Runs the compiler on a source text; `None` if it does not start.
    fn run(&self, arguments: &[&str], source: &str) -> Option<Output> {
        let mut command = Command::new(&self.compiler);
        if let Some(include) = &self.include {
            command.arg("-isystem").arg(include);
        }
        command.args(["-w", "-x", "c"]).args(arguments).arg("-");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().ok()?;
        child.stdin.take()?.write_all(source.as_bytes()).ok()?;
        child.wait_with_output().ok()
    }

    /// The values of these expressions.
    fn evaluate(&self, name: &str, checks: &[Check]) -> Vec<u64> {
        let mut source = format!("{INCLUDES}int main(void) {{\n");
        for check in checks {
            writeln!(source, "printf(\"%llu\\n\", (unsigned long long)({}));", check.c).expect("to a String");
        }
        source.push_str("return 0;\n}\n");
        let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("layout-{name}"));
        let path = program.to_str().expect("cargo's own path");
        let output = self.run(&["-o", path], &source).expect("the compiler started before");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = Command::new(&program).output().expect("it was just built");
        let values = String::from_utf8(output.stdout).expect("numbers");
        values.lines().map(|line| line.parse().expect("a number")).collect()
    }
}

/// Where distributions keep the headers of kernels newer than those of the C library.
fn kernel_headers() -> Vec<PathBuf> {
    let below = |folder: &str, rest: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().join(rest)).collect::<Vec<_>>()
    };
    let mut folders = below("/usr/src", "include/uapi");
    folders.extend(below("/lib/modules", "build/include/uapi"));
    folders.retain(|folder| folder.join("linux/perf_event.h").exists());
    folders
}

/// Compares all that the header knows, and tells what it does not know.
fn agree(name: &str, checks: Vec<Check>) -> Outcome {
    let c = C::find()?;
    let (checks, unknown): (Vec<_>, Vec<_>) =
        checks.into_iter().partition(|check| c.known.contains(&check.needs));
    let mut unknown: Vec<_> = unknown.iter().map(|check| check.needs.as_str()).collect();
    unknown.dedup();
    if !unknown.is_empty() {
        println!("{name}: unchecked, because the header does not know them: {}", unknown.join(", "));
    }
    if checks.is_empty() {
        return Err(Skip::needs("a newer <linux/perf_event.h>", unknown.join(", ")));
    }
    let values = c.evaluate(name, &checks);
    assert_eq!(values.len(), checks.len());
    let wrong: Vec<_> = checks
        .iter()
        .zip(values)
        .filter(|(check, value)| check.expected != *value)
        .map(|(check, value)| format!("{}: C says {value:#x}, this crate {:#x}", check.c, check.expected))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{name}: {} checked", checks.len());
    Ok(())
}

/// The named flags of a set with the header's names.
fn flags<F: Flags<Bits: Into<u64>>>(prefix: &str) -> Vec<Check> {
    let named = F::FLAGS.iter().filter(|flag| !flag.name().is_empty());
    named.map(|flag| constant(format!("{prefix}{}", flag.name()), flag.value().bits().into())).collect()
}

/// Constants that share a prefix.
fn constants(prefix: &str, values: &[(&str, u64)]) -> Vec<Check> {
    values.iter().map(|(name, value)| constant(format!("{prefix}{name}"), *value)).collect()
}

/// The word at byte `at` of a zeroed C struct, after all bits of a member were set.
fn with_member(c_type: &str, member: &str, at: usize) -> String {
    format!(
        "({{ {c_type} s; unsigned long long w = 0; memset(&s, 0, sizeof s); s.{member} = -1; \
         memcpy(&w, (char *)&s + {at}, 8); w; }})"
    )
}

/// The word at byte `at` of something this crate writes.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn written(mut value: impl for<'a> Layout<'a>) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).expect("a Vec has room");
    bytes
}

fn attr_word(attr: Attr, at: usize) -> u64 {
    let mut bytes = Vec::new();
    WireAttr { attr, tail: &[] }.encode(ByteOrder::NATIVE, &mut bytes).expect("a Vec has room");
    word(&bytes, at)
}

const ZERO: Attr = Attr { size: Attr::SIZE_VER9, ..Attr::new(EventType::HARDWARE) };

fn members_of_the_attr() -> Outcome {
    let mut checks = Vec::new();
    let members = Attr::FIELDS.iter().filter(|field| field.name != "flags");
    for field in members {
        for name in [field.name].iter().chain(field.aliases) {
            let offset = format!("offsetof(struct perf_event_attr, {name})");
            checks.push(check(offset, *name, field.offset as u64));
            let size = format!("sizeof(((struct perf_event_attr *)0)->{name})");
            checks.push(check(size, *name, field.kind.size() as u64));
        }
    }
    agree("attr", checks)
}

fn bit_fields_of_the_attr() -> Outcome {
    let flags_at = std::mem::offset_of!(Attr, flags);
    let action_at = std::mem::offset_of!(Attr, aux_sample_size);
    let with_flags = |flags| attr_word(Attr { flags, ..ZERO }, flags_at);
    let flag = |member: &str, flags| {
        check(with_member("struct perf_event_attr", member, flags_at), member, with_flags(flags))
    };
    let mut checks = vec![flag("precise_ip", AttrFlags::PRECISE_IP_MASK)];
    let named = AttrFlags::FLAGS.iter().filter(|flag| !flag.name().is_empty());
    checks.extend(named.map(|f| flag(&f.name().to_lowercase(), *f.value())));
    for f in AuxAction::FLAGS.iter().filter(|flag| !flag.name().is_empty()) {
        let member = format!("aux_{}", f.name().to_lowercase());
        let expected = attr_word(Attr { aux_action: *f.value(), ..ZERO }, action_at);
        checks.push(check(with_member("struct perf_event_attr", &member, action_at), member, expected));
    }
    agree("attr-bits", checks)
}

fn sizes_of_the_attr() -> Outcome {
    let named =
        |(version, size): (usize, &u32)| constant(format!("PERF_ATTR_SIZE_VER{version}"), (*size).into());
    let mut checks: Vec<_> = Attr::SIZES.iter().enumerate().map(named).collect();
    let newest = format!("PERF_ATTR_SIZE_VER{}", Attr::SIZES.len() - 1);
    checks.push(check("sizeof(struct perf_event_attr)", newest, size_of::<Attr>() as u64));
    agree("attr-sizes", checks)
}

fn the_control_page() -> Outcome {
    let members = [
        ("version", offset::VERSION),
        ("compat_version", offset::COMPAT_VERSION),
        ("lock", offset::LOCK),
        ("index", offset::INDEX),
        ("offset", offset::OFFSET),
        ("time_enabled", offset::TIME_ENABLED),
        ("time_running", offset::TIME_RUNNING),
        ("capabilities", offset::CAPABILITIES),
        ("pmc_width", offset::PMC_WIDTH),
        ("time_shift", offset::TIME_SHIFT),
        ("time_mult", offset::TIME_MULT),
        ("time_offset", offset::TIME_OFFSET),
        ("time_zero", offset::TIME_ZERO),
        ("size", offset::SIZE),
        ("time_cycles", offset::TIME_CYCLES),
        ("time_mask", offset::TIME_MASK),
        ("data_head", offset::DATA_HEAD),
        ("data_tail", offset::DATA_TAIL),
        ("data_offset", offset::DATA_OFFSET),
        ("data_size", offset::DATA_SIZE),
        ("aux_head", offset::AUX_HEAD),
        ("aux_tail", offset::AUX_TAIL),
        ("aux_offset", offset::AUX_OFFSET),
        ("aux_size", offset::AUX_SIZE),
    ];
    let page = "struct perf_event_mmap_page";
    let mut checks = vec![check(format!("sizeof({page})"), "aux_size", size_of::<MmapPage>() as u64)];
    for (member, offset) in members {
        checks.push(check(format!("offsetof({page}, {member})"), member, offset as u64));
    }
    for flag in Capabilities::FLAGS.iter().filter(|flag| !flag.name().is_empty()) {
        let member = format!("cap_{}", flag.name().to_lowercase());
        let bytes = written(MmapPage { capabilities: *flag.value(), ..MmapPage::default() });
        let c = with_member(page, &member, offset::CAPABILITIES);
        checks.push(check(c, member, word(&bytes, offset::CAPABILITIES)));
    }
    agree("page", checks)
}

fn structs_of_records() -> Outcome {
    let mut checks = vec![
        check("sizeof(struct perf_event_header)", "perf_event_header", Header::SIZE as u64),
        check("offsetof(struct perf_event_header, misc)", "perf_event_header", 4),
        check("offsetof(struct perf_event_header, size)", "perf_event_header", 6),
        check("sizeof(struct perf_ns_link_info)", "perf_ns_link_info", 16),
        check("offsetof(struct perf_ns_link_info, ino)", "perf_ns_link_info", 8),
        check("sizeof(struct perf_branch_entry)", "perf_branch_entry", 24),
        check("offsetof(struct perf_branch_entry, to)", "perf_branch_entry", 8),
    ];
    let branch = [
        ("mispred", 1),
        ("predicted", 1 << 1),
        ("in_tx", 1 << 2),
        ("abort", 1 << 3),
        ("cycles", 0xffff << 4),
        ("type", 0xf << 20),
        ("spec", 0x3 << 24),
        ("new_type", 0xf << 26),
        ("priv", 0x7 << 30),
    ];
    for (member, flags) in branch {
        let bytes = written(BranchEntry { flags: BranchFlags(flags), ..BranchEntry::default() });
        checks.push(check(with_member("struct perf_branch_entry", member, 16), member, word(&bytes, 16)));
    }
    let zero = DataSrc::default();
    let sources = [
        ("mem_op", zero.with_op(MemOp::all())),
        ("mem_lvl", zero.with_lvl(MemLvl::all())),
        ("mem_snoop", zero.with_snoop(MemSnoop::all())),
        ("mem_lock", zero.with_lock(MemLock::all())),
        ("mem_dtlb", zero.with_dtlb(MemTlb::all())),
        ("mem_lvl_num", zero.with_lvl_num(MemLvlNum(u8::MAX))),
        ("mem_remote", zero.with_remote(true)),
        ("mem_snoopx", zero.with_snoopx(MemSnoopX::all())),
        ("mem_blk", zero.with_blk(MemBlk::all())),
        ("mem_hops", zero.with_hops(MemHops(u8::MAX))),
        ("mem_region", zero.with_region(MemRegion(u8::MAX))),
    ];
    for (member, source) in sources {
        checks.push(check(with_member("union perf_mem_data_src", member, 0), member, source.0));
    }
    let weights = [
        ("var1_dw", Weight::Struct { var1: u32::MAX, var2: 0, var3: 0 }),
        ("var2_w", Weight::Struct { var1: 0, var2: u16::MAX, var3: 0 }),
        ("var3_w", Weight::Struct { var1: 0, var2: 0, var3: u16::MAX }),
    ];
    for (member, weight) in weights {
        checks.push(check(with_member("union perf_sample_weight", member, 0), member, weight.bits()));
    }
    agree("records", checks)
}

fn flag_sets() -> Outcome {
    let mut checks = flags::<OpenFlags>("PERF_FLAG_");
    checks.extend(flags::<SampleType>("PERF_SAMPLE_"));
    checks.extend(flags::<ReadFormat>("PERF_FORMAT_"));
    checks.extend(flags::<BranchSampleType>("PERF_SAMPLE_BRANCH_"));
    checks.push(constant("PERF_SAMPLE_BRANCH_PLM_ALL", BranchSampleType::PLM_ALL.bits()));
    checks.extend(flags::<AuxFlags>("PERF_AUX_FLAG_"));
    checks.extend(flags::<IocFlags>("PERF_IOC_FLAG_"));
    checks.extend(flags::<Txn>("PERF_TXN_"));
    checks.extend(flags::<Misc>("PERF_RECORD_MISC_"));
    checks.extend(flags::<KsymbolFlags>("PERF_RECORD_KSYMBOL_FLAGS_"));
    checks.extend(flags::<MemOp>("PERF_MEM_OP_"));
    checks.extend(flags::<MemLvl>("PERF_MEM_LVL_"));
    checks.extend(flags::<MemSnoop>("PERF_MEM_SNOOP_"));
    checks.extend(flags::<MemSnoopX>("PERF_MEM_SNOOPX_"));
    checks.extend(flags::<MemLock>("PERF_MEM_LOCK_"));
    checks.extend(flags::<MemTlb>("PERF_MEM_TLB_"));
    checks.extend(flags::<MemBlk>("PERF_MEM_BLK_"));
    let misc = |misc: Misc| misc.bits().into();
    checks.extend(constants(
        "PERF_RECORD_MISC_",
        &[
            ("CPUMODE_MASK", misc(Misc::CPUMODE_MASK)),
            ("MMAP_DATA", misc(Misc::MMAP_DATA)),
            ("COMM_EXEC", misc(Misc::COMM_EXEC)),
            ("FORK_EXEC", misc(Misc::FORK_EXEC)),
            ("SWITCH_OUT", misc(Misc::SWITCH_OUT)),
            ("EXACT_IP", misc(Misc::EXACT_IP)),
            ("SWITCH_OUT_PREEMPT", misc(Misc::SWITCH_OUT_PREEMPT)),
            ("MMAP_BUILD_ID", misc(Misc::MMAP_BUILD_ID)),
        ],
    ));
    let coresight = |format: u8| u64::from(format) << 8;
    checks.extend(constants(
        "PERF_AUX_FLAG_CORESIGHT_FORMAT_",
        &[
            ("CORESIGHT", coresight(AuxFlags::CORESIGHT_FORMAT_CORESIGHT)),
            ("RAW", coresight(AuxFlags::CORESIGHT_FORMAT_RAW)),
        ],
    ));
    agree("flags", checks)
}

/// The named values of these types.
macro_rules! named {
    ($($name:ident),+ $(,)?) => {{
        let mut checks = Vec::new();
        $(for value in $name::ALL {
            let name = value.header_name().expect("it is in ALL");
            checks.push(constant(name, value.0.into()));
        })+
        checks
    }};
}

fn numbers() -> Outcome {
    let mut checks = named![
        EventType,
        Hardware,
        Software,
        Cache,
        CacheOp,
        CacheResult,
        Breakpoint,
        RecordType,
        CpuMode,
        CallchainContext,
        BranchType,
        BranchNewType,
        BranchSpec,
        BranchPriv,
        RegsAbi,
        KsymbolType,
        BpfEventType,
        MemLvlNum,
        MemRegion,
    ];
    let hops = MemHops::ALL.iter().zip(0u64..);
    checks.extend(hops.map(|(hops, n)| constant(format!("PERF_MEM_HOPS_{n}"), hops.0.into())));
    let namespaces = Namespace::ALL.iter();
    checks.extend(namespaces.map(|kind| {
        let name = kind.header_name().expect("it is in ALL");
        constant(format!("{name}_NS_INDEX"), kind.0.into())
    }));
    checks.extend(constants(
        "PR_TASK_PERF_EVENTS_",
        &[
            ("DISABLE", ioctl::PR_TASK_PERF_EVENTS_DISABLE as u64),
            ("ENABLE", ioctl::PR_TASK_PERF_EVENTS_ENABLE as u64),
        ],
    ));
    checks.push(constant("TRAP_PERF", ioctl::TRAP_PERF as u64));
    agree("numbers", checks)
}

/// Only those of this machine's architecture: its header has no others.
fn registers() -> Outcome {
    if cfg!(target_arch = "x86_64") {
        agree("registers", named![X86Reg])
    } else if cfg!(target_arch = "aarch64") {
        agree("registers", named![Arm64Reg])
    } else {
        Err(Skip::needs("x86-64 or arm64", std::env::consts::ARCH))
    }
}

fn ioctls() -> Outcome {
    if cfg!(any(
        target_arch = "mips",
        target_arch = "mips64",
        target_arch = "powerpc",
        target_arch = "powerpc64"
    )) {
        return Err(Skip::needs("the common encoding of ioctls", std::env::consts::ARCH));
    }
    let codes = [
        ioctl::ENABLE,
        ioctl::DISABLE,
        ioctl::REFRESH,
        ioctl::RESET,
        ioctl::PERIOD,
        ioctl::SET_OUTPUT,
        ioctl::SET_FILTER,
        ioctl::ID,
        ioctl::SET_BPF,
        ioctl::PAUSE_OUTPUT,
        ioctl::QUERY_BPF,
        ioctl::MODIFY_ATTRIBUTES,
    ];
    let named = codes.map(|code| constant(ioctl::name(code).expect("all have names"), code.into()));
    agree("ioctls", named.into())
}
