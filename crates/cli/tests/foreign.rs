//! Recordings whose makers chose names that drive terminals, move text, end lines or fields: on a terminal all
//! subcommands show them harmlessly and in as many lines as other names, rows of CSV keep their fields, and
//! JSON keeps the names.

use perfuse_abi::record::{
    Callchain, CallchainContext, Cgroup, Comm, Cpu, CpuMode, Decoded, Ksymbol, Misc, Mmap2, Raw, Record,
    RecordFormat, Sample, SampleId, Tid,
};
use perfuse_abi::wire::{Text, Words};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType};
use perfuse_data::feature::{BuildIdEntry, Capability, Feature, Group, PmuMapping, System, TracingData};
use perfuse_data::{NewEvent, Writer};
use perfuse_testkit::{Outcome, Skip, Terminal};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

perfuse_testkit::suite! {
    deterministic:
        terminals_are_safe_from_names,
        rows_of_csv_keep_their_fields,
        json_keeps_names,
        widths_have_no_end;
}

/// A process with a number that the kernel never gives out, and no other run of these tests takes: files in `/tmp` have it in
/// their names. The kernel's numbers have 22 bits.
fn pid(number: u32) -> u32 {
    0x4000_0000 + std::process::id() * 64 + number
}

const CODE: u64 = 0x7f00_0000_0000;
/// Names in a recording.
const NAMES: usize = 16;

/// Pieces that strangers put into names.
const PIECES: [&[u8]; 22] = [
    b"\x1b]0;title\x07",
    b"\x1b[31mred",
    b"\x1b[2J",
    b"\x1bc",
    b"\x9b31m",
    "\u{9b}2J".as_bytes(),
    "\u{9d}0;t\u{9c}".as_bytes(),
    "\u{202e}desrever\u{202c}".as_bytes(),
    "\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}".as_bytes(),
    "\u{2028}\u{2029}".as_bytes(),
    b"\nroot",
    b"\r",
    b"\x08\x08",
    b"\t",
    b"\x7f",
    b"\xff\xc3",
    b"\"",
    b",",
    b";'$`",
    "漢字".as_bytes(),
    "e\u{301}\u{200b}".as_bytes(),
    b" a ",
];

/// A recording that is gone with this, and the map of its process' code.
struct Made([PathBuf; 2]);

impl Drop for Made {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// Names that consist of pieces, chosen by a number, each different from the others. A map of code ends its
/// names at the end of a line.
fn names(seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut draw = |most: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % most
    };
    let mut name = |number: usize| -> Vec<u8> {
        let pieces: Vec<u8> = (0..1 + draw(4)).flat_map(|_| PIECES[draw(PIECES.len())].to_vec()).collect();
        // Each piece is seen.
        let name = [PIECES[(seed as usize * NAMES + number) % PIECES.len()], &pieces].concat();
        [&[b'a' + number as u8], &name[..]].concat()
    };
    (0..NAMES).map(&mut name).collect()
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Writes a recording with these names wherever there are names.
fn made(file: &str, pid: u32, names: &[Vec<u8>]) -> Made {
    let path = std::env::temp_dir().join(format!("perfuse-foreign-{}-{file}.data", std::process::id()));
    let made = Made([path, PathBuf::from(format!("/tmp/perf-{pid}.map"))]);
    let function = |name: &[u8]| text(name).replace(['\n', '\u{2028}'], " ");
    fs::write(&made.0[1], format!("{CODE:x} 20 {}\n", function(&names[0]))).expect("a map");
    let mut attr = Attr::new(EventType::SOFTWARE);
    attr.sample_type = SampleType::IDENTIFIER
        | SampleType::IP
        | SampleType::TID
        | SampleType::TIME
        | SampleType::CPU
        | SampleType::CALLCHAIN
        | SampleType::RAW
        | SampleType::CGROUP;
    attr.sample_period = 1;
    attr.flags |= AttrFlags::SAMPLE_ID_ALL | AttrFlags::COMM_EXEC;
    let traced = Attr { type_: EventType::TRACEPOINT, config: 5, ..attr };
    let event = |attr, name: &[u8], id| NewEvent { attr, name: text(name), ids: vec![id] };
    let events = [event(attr, &names[1], 7), event(traced, &names[2], 8)];
    let out = File::create(&made.0[0]).expect("a file");
    let mut writer = Writer::file(out, &events).expect("a recording");
    let format = RecordFormat::of(&attr, ByteOrder::NATIVE);
    let mut time = 0;
    let mut tell = |tid: u32, level: CpuMode, id: u64, record: Record<'_>| {
        time += 1;
        let tid = Some(Tid { pid, tid });
        let cpu = Some(Cpu::from(0));
        let (time, identifier) = (Some(time), Some(id));
        let record = match record {
            Record::Sample(mut sample) => {
                (sample.tid, sample.cpu, sample.time) = (tid, cpu, time);
                sample.identifier = identifier;
                Record::Sample(sample)
            }
            record => record,
        };
        let sample_id = SampleId { tid, time, cpu, identifier, ..SampleId::default() };
        let misc = Misc::empty().with_cpu_mode(level);
        writer.record(&Decoded { misc, sample_id, ..Decoded::from(record) }, &format).expect("written");
    };
    let kernel = 0xffff_ffff_c000_0000;
    let symbol = Ksymbol { addr: kernel, len: 0x100, name: Text::new(&names[3]), ..Ksymbol::default() };
    tell(pid, CpuMode::KERNEL, 7, Record::Ksymbol(symbol));
    for (number, name) in names.iter().enumerate() {
        let id = number as u64 + 1;
        let place = Tid { pid, tid: pid + number as u32 };
        let path = [b"/nowhere/", &name[..]].concat();
        let map = Mmap2 { tid: place, len: 0x1000, prot: 5, flags: 2, ..Mmap2::default() };
        let file = Mmap2 { addr: 0x1000 * id, filename: Text::new(&path), ..map };
        tell(place.tid, CpuMode::USER, 7, Record::Comm(Comm { tid: place, name: Text::new(name) }));
        tell(place.tid, CpuMode::USER, 7, Record::Mmap2(file));
        tell(
            place.tid,
            CpuMode::USER,
            7,
            Record::Mmap2(Mmap2 { addr: CODE, filename: Text::new(b"//anon"), ..map }),
        );
        tell(place.tid, CpuMode::USER, 7, Record::Cgroup(Cgroup { id, path: Text::new(&path) }));
        // The fields that all tracepoints have, and a text.
        let mut raw = [5u16.to_ne_bytes().as_slice(), &[0; 6]].concat();
        raw.extend(&name[..name.len().min(24)]);
        raw.resize(8 + 24 + 4, 0);
        for (place_of, ip) in [(7, 0x1000 * id), (7, CODE), (8, kernel)] {
            let level = if ip == kernel { CpuMode::KERNEL } else { CpuMode::USER };
            let context = if ip == kernel { CallchainContext::KERNEL } else { CallchainContext::USER };
            let words = [context.0, ip, ip + 8];
            let mut sample = Sample::default();
            sample.ip = Some(ip);
            sample.callchain = Some(Callchain { words: Words::from(&words[..]) });
            sample.raw = Some(Raw::new(&raw));
            sample.cgroup = Some(id);
            tell(place.tid, level, place_of, Record::Sample(sample));
        }
    }
    let tracepoint = format!(
        "name: {}\nID: 5\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
         \tfield:char what[24];\toffset:8;\tsize:24;\tsigned:0;\n\nprint fmt: \"what=%s\", REC->what\n",
        function(&names[4])
    );
    let systems = vec![System { name: &names[5], formats: vec![tracepoint.as_bytes()] }];
    let string = |number: usize| text(&names[number]);
    let strings: Vec<String> = (0..NAMES).map(string).collect();
    let build_id =
        BuildIdEntry { id: [7; 20], len: 20, misc: BuildIdEntry::HAS_LEN, ..BuildIdEntry::default() };
    writer
        .finish(vec![
            Feature::Hostname(strings[6].as_str().into()),
            Feature::OsRelease(strings[7].as_str().into()),
            Feature::CpuDesc(strings[8].as_str().into()),
            Feature::Cmdline(strings.iter().map(|name| name.as_str().into()).collect()),
            Feature::PmuMappings(vec![PmuMapping { kind: 1, name: strings[9].as_str().into() }]),
            Feature::GroupDesc(vec![Group { name: strings[10].as_str().into(), leader: 0, members: 2 }]),
            Feature::CpuPmuCaps(vec![Capability {
                name: strings[11].as_str().into(),
                value: strings[12].as_str().into(),
            }]),
            Feature::BuildIds(vec![BuildIdEntry { name: strings[13].as_str().into(), ..build_id }]),
            Feature::TracingData(Box::new(TracingData { systems, ..TracingData::default() })),
        ])
        .expect("a whole recording");
    made
}

fn command(made: &Made, words: &str) -> Command {
    let program = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
    let mut command = Command::new(program);
    command.args(words.split_whitespace()).arg("-i").arg(&made.0[0]).stdin(Stdio::null());
    command
}

fn run(made: &Made, words: &str) -> Output {
    let output = command(made, words).output().expect("the program starts");
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Everything that a command writes to the terminal that its output and errors are.
fn shown(made: &Made, words: &str, columns: &str) -> Result<Vec<u8>, Skip> {
    let mut terminal = Terminal::new(24, 80)?;
    let side = terminal.raw_side();
    let mut command = command(made, words);
    let mut child = command
        .env("TERM", "xterm-256color")
        .env("COLUMNS", columns)
        .env("PERFUSE_PAGER", "")
        .env_remove("NO_COLOR")
        .stdout(side.try_clone().expect("a copy"))
        .stderr(side)
        .spawn()
        .expect("the program starts");
    drop(command);
    let all = terminal.read(|_| false);
    assert!(child.wait().expect("it ends").success(), "{words}: {}", String::from_utf8_lossy(&all));
    Ok(all)
}

/// The parts of this text that a terminal obeys, colours of the program's own aside.
fn obeyed(bytes: &[u8]) -> Vec<char> {
    let text = match String::from_utf8(bytes.to_vec()) {
        Ok(text) => text,
        Err(_) => return vec!['\u{fffd}'],
    };
    let text = ["", "1", "0", "31", "32", "33"].iter().fold(text, |text, colour| {
        text.replace(&format!("\x1b[{colour}m"), if *colour == "31" { "<red>" } else { "" })
    });
    // Red is for percentages.
    assert!(!text.contains("<red>red"));
    let is_active = |c: &char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(is_active).collect()
}

const SHOWN: [&str; 27] = [
    "report",
    "report --stdio-color always -g caller",
    "report -g none -s comm,dso,symbol,cgroup",
    "report -g flat -s cgroup,sym",
    "report -g folded -s dso",
    "report -s trace",
    "report -s pid,what",
    "report --hierarchy -s comm,dso,sym",
    "report --no-group -s tid -F sample,period,comm,dso",
    "report --header-only -I",
    "report --header -n --tasks",
    "report --mmaps",
    "report -D",
    "report --stats",
    "report -t, -s comm,dso,sym",
    "report -c nobody -d nothing -s comm,dso",
    "script",
    "script -F comm,tid,pid,time,event,ip,sym,symoff,dso,cgroup,trace",
    "script --show-mmap-events --show-task-events --show-cgroup-events --show-bpf-events",
    "script --json",
    "evlist",
    "evlist -v",
    "evlist -g",
    "evlist --trace-fields",
    "buildid-list",
    "buildid-list -H",
    "report --json",
];

fn terminals_are_safe_from_names() -> Outcome {
    let plain: Vec<Vec<u8>> = (0..NAMES).map(|number| vec![b'a' + number as u8]).collect();
    let plain = made("plain", pid(0), &plain);
    let lines = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count();
    let expected = SHOWN.iter().map(|words| Ok(lines(&shown(&plain, words, "4000")?)));
    let expected: Vec<usize> = expected.collect::<Result<_, Skip>>()?;
    drop(plain);
    // Where lines are cut, as many are left, but some say so.
    for (seed, columns) in [(0, "4000"), (1, "40")] {
        let made = made("names", pid(1), &names(seed));
        for (words, &expected) in SHOWN.iter().zip(&expected) {
            let bytes = shown(&made, words, columns)?;
            let text = String::from_utf8_lossy(&bytes);
            assert_eq!(obeyed(&bytes), [], "{words} of {seed}: {text:?}");
            // A dump shows the bytes of names too, in as many lines as they take.
            let is_same = lines(&bytes) == expected || columns == "40" || *words == "report -D";
            assert!(is_same, "{words} of {seed}: {text}");
            // In a pipe it is no different, but for what a terminal has no room for.
            assert_eq!(obeyed(&run(&made, words).stdout), [], "{words} of {seed} in a pipe");
        }
    }
    Ok(())
}

/// The fields of a row of CSV.
fn fields(row: &str, separator: char) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut letters = row.chars().peekable();
    while let Some(letter) = letters.next() {
        let field = fields.last_mut().expect("there is one");
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => field.extend(letters.next()),
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            letter if letter == separator && !quoted => fields.push(String::new()),
            letter => field.push(letter),
        }
    }
    assert!(!quoted, "{row}");
    fields
}

fn rows_of_csv_keep_their_fields() -> Outcome {
    for seed in 2..5 {
        let made = made("csv", pid(2), &names(seed));
        for (separator, keys) in [(',', 4), (';', 4), ('"', 0), ('|', 4)] {
            let words =
                format!("report -g none --no-group -F overhead,sample,comm,dso,sym,cgroup -t {separator}");
            let output = run(&made, &words);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let rows: Vec<&str> =
                text.lines().filter(|row| !row.is_empty() && !row.starts_with('#')).collect();
            assert!(rows.len() > NAMES, "{text}");
            // Quotes as separators are nobody's CSV, but do no harm.
            let is_odd = |row: &&&str| keys > 0 && fields(row, separator).len() != 2 + keys;
            assert_eq!(rows.iter().find(is_odd), None, "{text}");
        }
    }
    Ok(())
}

fn json_keeps_names() -> Outcome {
    let names = names(7);
    let made = made("json", pid(3), &names);
    let read = |words: &str| -> Vec<serde_json::Value> {
        let output = run(&made, words);
        let lines = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let samples = read("script --json");
    assert_eq!(samples.len(), 3 * NAMES);
    for name in &names {
        let of_name = |sample: &&serde_json::Value| sample["comm"] == text(name).as_str();
        assert_eq!(samples.iter().filter(of_name).count(), 3, "{}", text(name));
        let path = format!("/nowhere/{}", text(name));
        assert!(samples.iter().any(|sample| sample["cgroup"] == path.as_str()));
        assert!(samples.iter().any(|sample| sample["place"]["dso"] == path.as_str()));
    }
    let report = read("report --json -s comm,dso,sym");
    let report = report.first().expect("an object");
    assert_eq!(report["events"][0]["name"], text(&names[1]).as_str(), "{report}");
    let comms: Vec<&str> = report["events"][0]["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|entry| entry["comm"].as_str())
        .collect();
    assert!(names.iter().all(|name| comms.contains(&text(name).as_str())), "{comms:?}");
    Ok(())
}

fn widths_have_no_end() -> Outcome {
    let long: Vec<Vec<u8>> =
        (0..NAMES).map(|number| [&[b'a' + number as u8][..], &[b'x'; 65_400]].concat()).collect();
    let made = made("long", pid(4), &long);
    for words in [
        "report -g none",
        "report -w 4096 -s comm,sym",
        "report -w 4096,4096,4096 --hierarchy -s comm,sym",
        "report -w 1,1 -n --group -s dso,sym",
        "report -s sym,comm,trace,what,cgroup",
        "script -F comm,event,sym,dso,cgroup",
        "evlist -v",
        "report --header-only",
        "report --tasks",
    ] {
        let output = run(&made, words);
        assert!(output.stdout.len() < 64 << 20, "{words}: {} bytes", output.stdout.len());
    }
    Ok(())
}
