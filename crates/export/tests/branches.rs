//! Branches of a program that is compiled here, of which a recording is made, become what LLVM's and BOLT's own readers take.

use perfuse_abi::record::{
    BranchEntry, BranchFlags, BranchStack, CpuMode, Decoded, Misc, Mmap, Record, RecordFormat, Sample,
    SampleId, Tid,
};
use perfuse_abi::wire::{Seq, Text};
use perfuse_abi::{Attr, BranchSampleType, ByteOrder, EventType, SampleType};
use perfuse_data::replay::{Filter, Replay};
use perfuse_data::tool::Tool;
use perfuse_data::{NewEvent, PerfData, Writer};
use perfuse_export::{BranchFormat, Branches};
use perfuse_profile::LocalSymbols;
use perfuse_testkit::{Outcome, Skip, need};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

perfuse_testkit::suite! {
    witnesses:
        branches_are_told_by_functions_and_offsets,
        branches_are_told_by_functions_and_lines,
        samples_without_branches_are_told_too,
        llvm_takes_them,
        clang_optimizes_by_them,
        bolt_takes_them;
}

const SOURCE: &str = r#"
static int leaf(int x) { return x * x ^ 5; }
__attribute__((noinline)) static int work(int n) {
  volatile int s = 0;
  for (int i = 0; i < n; i++)
    s += leaf(i);
  return s;
}
int main(int argc, char **argv) {
  volatile int t = 0;
  for (int i = 0; i < 10; i++)
    t += work(argc + i);
  return t & 1;
}
"#;

/// Where the recording has the program.
const BASE: u64 = 0x5555_0000_0000;

struct Program {
    path: PathBuf,
    /// Address, function and words of each instruction.
    code: Vec<(u64, String, String)>,
}

impl Program {
    fn compiled(name: &str) -> Result<Self, Skip> {
        let gcc = need::program("gcc")?;
        let objdump = need::program("objdump")?;
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let (source, path) = (folder.join(format!("{name}.c")), folder.join(name));
        std::fs::write(&source, SOURCE).unwrap();
        let flags =
            ["-g", "-O2", "-fno-pie", "-no-pie", "-fno-reorder-functions", "-falign-functions=16", "-o"];
        let made = Command::new(gcc).args(flags).arg(&path).arg(&source).status().unwrap();
        assert!(made.success());
        let listing =
            Command::new(objdump).args(["-d", "--no-show-raw-insn"]).arg(&path).output().unwrap().stdout;
        let (mut function, mut code) = (String::new(), Vec::new());
        for line in String::from_utf8_lossy(&listing).lines() {
            if let Some((_, name)) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
                function = name.to_owned();
            } else if let Some((address, words)) = line.trim().split_once(":\t") {
                let address = u64::from_str_radix(address, 16).unwrap();
                code.push((address, function.clone(), words.to_owned()));
            }
        }
        Ok(Program { path, code })
    }

    fn start(&self, function: &str) -> u64 {
        self.code.iter().find(|(_, of, _)| of == function).unwrap().0
    }

    /// The place of an instruction of a function, by what is in its words.
    fn find(&self, function: &str, is: impl Fn(&str) -> bool) -> u64 {
        self.code.iter().find(|(_, of, words)| of == function && is(words)).unwrap().0
    }

    /// The address behind an instruction.
    fn after(&self, address: u64) -> u64 {
        self.code[self.code.iter().position(|(at, ..)| *at == address).unwrap() + 1].0
    }

    /// The jump back within the loop of `work`, and where it goes.
    fn back(&self) -> (u64, u64) {
        let jumps = self.code.iter().filter(|(_, of, words)| of == "work" && words.starts_with('j'));
        let target = |words: &str| u64::from_str_radix(words.split_whitespace().nth(1).unwrap(), 16).unwrap();
        let back = jumps.map(|(at, _, words)| (*at, target(words))).find(|(at, to)| to < at);
        back.expect("a loop")
    }

    /// Branches of a sample: `work` is called, runs its loop four times, and returns, in two samples of three.
    fn taken(&self) -> Vec<(u64, u64, bool)> {
        let call = self.find("main", |words| words.starts_with("call"));
        let back = self.back();
        let end = self.find("work", |words| words.starts_with("ret"));
        let mut taken = vec![(call, self.start("work"), false)];
        taken.extend([(back.0, back.1, false); 3]);
        taken.extend([(end, self.after(call), true)]);
        taken
    }

    fn recording(&self, has_branches: bool) -> Vec<u8> {
        let mut attr = Attr { config: 0, sample_period: 1000, ..Attr::new(EventType::HARDWARE) };
        attr.sample_type = SampleType::IP | SampleType::TID;
        if has_branches {
            attr.sample_type |= SampleType::BRANCH_STACK;
            attr.branch_sample_type = BranchSampleType::ANY | BranchSampleType::USER;
        }
        let event = NewEvent { attr, name: "cycles:u".into(), ids: vec![1] };
        let format = RecordFormat::of(&attr, ByteOrder::NATIVE);
        let mut writer = Writer::file(Cursor::new(Vec::new()), &[event]).unwrap();
        let tid = Tid { pid: 7, tid: 7 };
        let mut add = |record: Record<'_>| {
            let misc = Misc::empty().with_cpu_mode(CpuMode::USER);
            writer
                .record(&Decoded { misc, record, sample_id: SampleId::default(), extra: &[] }, &format)
                .unwrap();
        };
        let path = self.path.to_string_lossy().into_owned();
        let text = 0x40_0000;
        let len = std::fs::metadata(&self.path).unwrap().len().next_multiple_of(4096);
        add(Record::Mmap(Mmap { tid, addr: BASE, len, pgoff: 0, filename: Text::new(path.as_bytes()) }));
        // Programs at fixed places count from there, and files from 0.
        let place = |address: u64| address - text + BASE;
        let taken = self.taken();
        for _ in 0..2 {
            let entries = taken.iter().rev().map(|&(from, to, missed)| BranchEntry {
                from: place(from),
                to: place(to),
                flags: BranchFlags(if missed { 1 } else { 2 }),
            });
            let entries: Vec<BranchEntry> = entries.collect();
            let mut sample = Sample::default();
            (sample.ip, sample.tid) = (Some(place(self.back().0)), Some(tid));
            if has_branches {
                let entries = Seq::from(&entries[..]);
                sample.branch_stack = Some(BranchStack { hw_idx: None, entries, counters: None });
            }
            add(Record::Sample(sample));
        }
        writer.tool(Tool::FinishedRound).unwrap();
        writer.finish(Vec::new()).unwrap().into_inner()
    }

    fn written(&self, format: BranchFormat, has_branches: bool) -> String {
        let data =
            PerfData::from_seekable(Cursor::new(self.recording(has_branches)), Default::default()).unwrap();
        let mut branches = Branches::new(LocalSymbols::default());
        Replay::new(data)
            .each(|step| {
                branches.step(&step?, &Filter::default());
                Ok::<(), perfuse_data::Error>(())
            })
            .unwrap();
        let programs = branches.programs();
        assert_eq!(programs.len(), 1);
        let (program, path, count) = programs[0];
        assert_eq!(Path::new(path), self.path);
        assert_eq!(count, if has_branches { 10 } else { 2 });
        let mut text = Vec::new();
        branches.write(program, format, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }
}

fn branches_are_told_by_functions_and_offsets() -> Outcome {
    let program = Program::compiled("offsets")?;
    let (main, work) = (program.start("main"), program.start("work"));
    let taken = program.taken();
    let ((call, ..), (from, to, _), (end, next, _)) = (taken[0], taken[1], taken[4]);
    // A function of one file has its number among those of its name behind it.
    let mut lines = [
        format!("1 main {:x} 1 work/1 0 0 2", call - main),
        format!("1 work/1 {:x} 1 work/1 {:x} 0 6", from - work, to - work),
        format!("1 work/1 {:x} 1 main {:x} 2 2", end - work, next - main),
    ];
    lines.sort();
    let mut written: Vec<String> =
        program.written(BranchFormat::Bolt, true).lines().map(str::to_owned).collect();
    written.sort();
    assert_eq!(written, lines);
    Ok(())
}

fn branches_are_told_by_functions_and_lines() -> Outcome {
    let program = Program::compiled("lines")?;
    let text = program.written(BranchFormat::AutoFdo, true);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("work:") && lines[0].ends_with(":2"), "{text}");
    // The loop runs four times for each call. It is on the second and third lines below the function's, and has its callee inlined.
    let leaf = lines.iter().position(|line| line.trim_start().contains(": leaf:")).expect(&text);
    assert!(lines[leaf].starts_with(" 3"), "{text}");
    assert!(lines[leaf + 1].starts_with("  0") && lines[leaf + 1].ends_with(": 8"), "{text}");
    let main = lines.iter().position(|line| line.starts_with("main:")).expect(&text);
    assert!(lines[main] == "main:2:0", "{text}");
    assert!(
        lines[main..].iter().any(|line| line.starts_with(" 3") && line.ends_with(": 2 work:2")),
        "{text}"
    );
    Ok(())
}

fn samples_without_branches_are_told_too() -> Outcome {
    let program = Program::compiled("samples")?;
    let offset = program.back().0 - program.start("work");
    let expected = format!("no_lbr cycles:u\n1 work/1 {offset:x} 2\n");
    assert_eq!(program.written(BranchFormat::Bolt, false), expected);
    Ok(())
}

fn llvm_takes_them() -> Outcome {
    let program = Program::compiled("llvm")?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let profile = folder.join("llvm.prof");
    std::fs::write(&profile, program.written(BranchFormat::AutoFdo, true)).unwrap();
    let shown =
        Command::new(need::program("llvm-profdata")?).args(["show", "--sample"]).arg(&profile).output();
    let shown = shown.unwrap();
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(text.contains("Function: work:") && text.contains("inlined callee: leaf"), "{text}");
    assert!(text.contains("calls: work:2"), "{text}");
    Ok(())
}

fn clang_optimizes_by_them() -> Outcome {
    let clang = need::program("clang")?;
    let program = Program::compiled("clang")?;
    let profile = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("clang.prof");
    std::fs::write(&profile, program.written(BranchFormat::AutoFdo, true)).unwrap();
    let compiled = |flags: &[&std::ffi::OsStr]| {
        let mut command = Command::new(&clang);
        command.args(["-g", "-O2", "-S", "-emit-llvm", "-o", "-"]).args(flags);
        let output = command.arg(program.path.with_extension("c")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let weights = |code: &str| code.matches("!\"branch_weights\"").count();
    let mut by_profile = std::ffi::OsString::from("-fprofile-sample-use=");
    by_profile.push(&profile);
    let (plain, guided) = (compiled(&[]), compiled(&[&by_profile]));
    assert!(
        guided.contains("!\"function_entry_count\", i64 3") && weights(&guided) > weights(&plain),
        "{guided}"
    );
    Ok(())
}

fn bolt_takes_them() -> Outcome {
    let program = Program::compiled("bolt")?;
    let fdata = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bolt.fdata");
    std::fs::write(&fdata, program.written(BranchFormat::Bolt, true)).unwrap();
    let merge = need::program("merge-fdata").or_else(|_| need::program("merge-fdata-19"))?;
    let merged = Command::new(merge).arg(&fdata).arg(&fdata).output().unwrap();
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    let text = String::from_utf8_lossy(&merged.stdout).into_owned();
    let doubled = text.lines().filter(|line| line.ends_with(" 4") || line.ends_with(" 12"));
    assert_eq!(doubled.count(), 3, "{text}");
    Ok(())
}
