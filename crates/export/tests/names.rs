//! Names that hurt go through every format, and readers that are not ours find each with its exact weight.

use perfuse_data::PerfData;
use perfuse_data::text::foreign;
use perfuse_export::{Format, Import, ImportFormat, Stacks, StacksBuilder};
use perfuse_profile::{LocalSymbols, Profile};
use perfuse_testkit::{Outcome, need};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::Command;

perfuse_testkit::suite! {
    deterministic:
        names_come_back_from_what_is_read,
        names_stay_in_their_lines_and_cells;
    witnesses:
        pprof_of_go_finds_each_name,
        json_of_node_finds_each_name,
        csv_of_python_finds_each_name;
}

/// Names of functions, each with another weight.
fn names() -> Vec<(String, u64)> {
    let names = [
        "plain".to_owned(),
        "std::map<std::basic_string<char>, std::vector<int> >::operator[](std::string const&)".to_owned(),
        "work(std::vector<long>&)::{lambda(long, long)#1}::operator()(long, long) const".to_owned(),
        "<alloc::vec::Vec<T, A> as core::ops::Index<I>>::index".to_owned(),
        "a;b;c 7".to_owned(),
        " blanks  at both ends ".to_owned(),
        "\"quotes\" and 'others' and `ticks`".to_owned(),
        "back\\slash\\\"".to_owned(),
        "emoji \u{1f525}\u{1f469}\u{200d}\u{1f4bb} \u{4e2d}\u{6587} \u{fc}".to_owned(),
        "<script>alert(1)</script>".to_owned(),
        "]]><!--&amp;-->".to_owned(),
        "a|b, c=d%s\t{}$(rm)".to_owned(),
        "two\u{2028}lines\u{2029}".to_owned(),
        "x".repeat(4000),
    ];
    names.into_iter().zip(1_000_003..).collect()
}

/// Each name below `main`, with its weight.
fn stacks() -> Stacks {
    let mut made = StacksBuilder::default();
    made.event("page-faults");
    let main = made.function("main", "/bin/prog");
    for (name, weight) in names() {
        let function = made.function(&name, "/bin/prog");
        made.add(0, "thread", vec![main, function], weight, 1);
    }
    made.finish()
}

fn written(format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    stacks().write(format, "title", &mut bytes).expect("memory takes all");
    bytes
}

/// The file of a format, for another program.
fn file(format: Format) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("names.{}", format.name()));
    std::fs::write(&path, written(format)).unwrap();
    path
}

fn expected() -> BTreeMap<String, u64> {
    names().into_iter().collect()
}

/// Innermost functions with their weights.
fn innermost(stacks: &Stacks) -> BTreeMap<String, u64> {
    let name = |function: u32| stacks.functions()[function as usize].name.clone();
    stacks.rows().iter().map(|row| (name(*row.stack.last().unwrap()), row.weight)).collect()
}

fn names_come_back_from_what_is_read() -> Outcome {
    for (format, read) in [
        (Format::Pprof, ImportFormat::Pprof),
        (Format::Speedscope, ImportFormat::Speedscope),
        (Format::Firefox, ImportFormat::Firefox),
    ] {
        let import = Import::read(read, written(format).as_slice()).unwrap();
        assert_eq!(import.events(), [("page-faults", expected().values().sum())]);
        let (bytes, names) = import.recording().unwrap();
        let symbols = LocalSymbols::default();
        names.give(symbols.symbolizer());
        let data = PerfData::from_seekable(Cursor::new(bytes), Default::default()).unwrap();
        let profile = Profile::read(data, format.plan()).unwrap();
        // Names pass through the demangler, which shortens what it takes for C++ and Rust.
        let again = innermost(&Stacks::of(&profile, &symbols));
        let weights = |names: &BTreeMap<String, u64>| {
            let mut weights: Vec<u64> = names.values().copied().collect();
            weights.sort_unstable();
            weights
        };
        assert_eq!(weights(&again), weights(&expected()), "{read:?}");
        for (name, weight) in again {
            assert!(expected().get(&name).is_none_or(|expected| *expected == weight), "{name}");
        }
    }
    Ok(())
}

fn names_stay_in_their_lines_and_cells() -> Outcome {
    let folded = String::from_utf8(written(Format::Folded)).unwrap();
    assert_eq!(folded.lines().count(), names().len());
    let plain = |name: &str| name.replace(';', ":").replace(['\t', '\u{2028}', '\u{2029}'], "?");
    let lines: BTreeMap<String, u64> = folded
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(stack, weight)| {
            (stack.strip_prefix("thread;main;").unwrap().to_owned(), weight.parse().unwrap())
        })
        .collect();
    assert_eq!(lines, expected().into_iter().map(|(name, weight)| (plain(&name), weight)).collect());
    let table = String::from_utf8(written(Format::Markdown)).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(rows.len(), names().len() + 1);
    // Seven bars are the table's: those of names are escaped.
    assert!(rows.iter().all(|row| row.replace("\\|", "").matches('|').count() == 7), "{table}");
    let svg = String::from_utf8(written(Format::Flamegraph)).unwrap();
    assert!(!svg.contains("<script>alert") && svg.contains("&lt;script&gt;alert(1)"), "{svg}");
    Ok(())
}

fn pprof_of_go_finds_each_name() -> Outcome {
    let go = need::program("go")?;
    let flags = ["tool", "pprof", "-raw", "-symbolize=none"];
    let output = Command::new(go).args(flags).arg(file(Format::Pprof)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    // Locations: number, address, mapping, name, file. Names may have blanks in them.
    let (_, locations) = text.split_once("\nLocations\n").expect(&text);
    for (name, weight) in expected() {
        assert!(locations.contains(&format!(" {name} ")), "{name}");
        assert_eq!(text.matches(&format!(" {weight}:")).count(), 1, "{weight}: {name}");
    }
    Ok(())
}

/// Prints an object: the weight by the innermost function's name.
const SCRIPT: &str = r#"
const fs = require("fs");
const [kind, path] = process.argv.slice(1);
const file = JSON.parse(fs.readFileSync(path, "utf8"));
const sums = {};
const add = (name, weight) => { sums[name] = (sums[name] || 0) + weight; };
if (kind === "speedscope") {
  const profile = file.profiles[0];
  profile.samples.forEach((stack, at) => add(file.shared.frames[stack[stack.length - 1]].name, profile.weights[at]));
} else if (kind === "firefox") {
  for (const thread of file.threads) {
    thread.samples.stack.forEach((stack, at) => {
      const func = thread.frameTable.func[thread.stackTable.frame[stack]];
      add(thread.stringArray[thread.funcTable.name[func]], thread.samples.weight[at]);
    });
  }
} else {
  for (const span of file.traceEvents) {
    if (span.ph === "X" && span.name !== "main" && span.name !== "thread") add(span.name, Math.round(span.dur * 1000));
  }
}
console.log(JSON.stringify(sums));
"#;

fn json_of_node_finds_each_name() -> Outcome {
    let node = need::program("node")?;
    for format in [Format::Speedscope, Format::Firefox, Format::Chrome] {
        let output =
            Command::new(&node).args(["-e", SCRIPT, format.name()]).arg(file(format)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let sums: BTreeMap<String, f64> = serde_json::from_slice(&output.stdout).unwrap();
        let expected: BTreeMap<String, f64> =
            expected().into_iter().map(|(name, weight)| (name, weight as f64)).collect();
        assert_eq!(sums, expected, "{format:?}");
    }
    Ok(())
}

fn csv_of_python_finds_each_name() -> Outcome {
    let python = need::program("python3")?;
    let script = "import csv, json, sys\n\
                  rows = csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8'), strict=True)\n\
                  print(json.dumps({row['function']: int(row['self']) for row in rows if row['function'] != 'main'}))";
    let output = Command::new(python).args(["-c", script]).arg(file(Format::Csv)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sums: BTreeMap<String, u64> = serde_json::from_slice(&output.stdout).unwrap();
    // It may be shown on a terminal: letters that do something there are written as others.
    let shown = expected().into_iter().map(|(name, weight)| (foreign(&name).into_owned(), weight));
    assert_eq!(sums, shown.collect());
    Ok(())
}
