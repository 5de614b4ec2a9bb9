//! Profiles of other tools are read as they were written, and become recordings with the same sums.

use perfuse_data::PerfData;
use perfuse_export::{Begun, Format, Import, ImportFormat, Row, Stacks, StacksBuilder, import_or_begun};
use perfuse_profile::{LocalSymbols, Profile};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

fn written(stacks: &Stacks, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    stacks.write(format, "title", &mut bytes).expect("memory takes all");
    bytes
}

/// The stacks of an import, by way of its recording.
fn by_recording(import: &Import) -> Stacks {
    let (bytes, names) = import.recording().expect("names fit");
    let symbols = LocalSymbols::default();
    names.give(symbols.symbolizer());
    let data = PerfData::from_seekable(Cursor::new(bytes), Default::default()).expect("a recording");
    let profile = Profile::read(data, Format::Pprof.plan()).expect("it is whole");
    Stacks::of(&profile, &symbols)
}

/// A stack with its thread and event.
type Path_ = (String, String, Vec<(String, String)>);

/// Weights and samples by event, thread and stack of names and objects.
fn sums(stacks: &Stacks) -> BTreeMap<Path_, (u64, u64)> {
    let mut sums: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for Row { event, thread, stack, weight, samples, .. } in stacks.rows() {
        let functions = stack.iter().map(|function| {
            let function = &stacks.functions()[*function as usize];
            let object = if function.object.is_empty() { "[unknown]" } else { &function.object };
            (function.name.clone(), object.to_owned())
        });
        let key = (stacks.events()[*event].name.clone(), thread.clone(), functions.collect());
        let sum = sums.entry(key).or_default();
        *sum = (sum.0 + weight, sum.1 + samples);
    }
    sums
}

/// Weights alone, where a format has no number of samples.
fn weights(stacks: &Stacks) -> BTreeMap<Path_, u64> {
    sums(stacks).into_iter().map(|(key, (weight, _))| (key, weight)).collect()
}

/// Stacks as recordings have them: names that are no C++ or Rust, objects that are files, or the kernel.
fn stacks() -> impl Strategy<Value = Stacks> {
    let object = prop_oneof![
        Just("/bin/prog".to_owned()),
        Just("/usr/lib/libc.so.6".to_owned()),
        Just("[kernel.kallsyms]".to_owned()),
        Just("/lib/modules/x/fs.ko".to_owned()),
        Just("[vdso]".to_owned()),
        Just(String::new()),
    ];
    let name = prop_oneof!["[a-c]{1,2}", Just("operator<(int, std::x)".to_owned()), Just("a b".to_owned())];
    let frame = (name, object);
    let row = (0usize..2, "[a-d ]{0,3}", prop::collection::vec(frame, 1..6), 1u64..1 << 40, 1u64..9);
    prop::collection::vec(row, 1..20).prop_map(|rows| {
        let mut made = StacksBuilder::default();
        made.event("cpu-clock");
        made.event("faults");
        for (event, thread, stack, weight, samples) in rows {
            let stack = stack.iter().map(|(name, object)| made.function(name, object)).collect();
            made.add(event, thread.trim(), stack, weight, samples);
        }
        made.finish()
    })
}

/// The text that perf script would print of samples, one line for all samples of a stack.
fn script(stacks: &Stacks) -> String {
    let mut text = "# ========\n# hostname : here\n# ========\n#\n".to_owned();
    for (number, row) in stacks.rows().iter().enumerate() {
        let event = &stacks.events()[row.event].name;
        let number = number + 1;
        let thread = &row.thread;
        text += &format!("{thread} {number}/{number} [001]  7.{number:06}: {:>10} {event}: \n", row.weight);
        for function in row.stack.iter().rev() {
            let function = &stacks.functions()[*function as usize];
            let object = if function.object.is_empty() { "[unknown]" } else { &function.object };
            text += &format!("\t    {number:x} {}+0x1f ({object})\n", function.name);
        }
        text += "\n";
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pprof_comes_back_as_it_was(stacks in stacks()) {
        let file = written(&stacks, Format::Pprof);
        let import = Import::read(ImportFormat::Pprof, file.as_slice()).unwrap();
        prop_assert_eq!(sums(&by_recording(&import)), sums(&stacks));
    }

    #[test]
    fn speedscope_and_firefox_come_back_with_stacks_and_weights(stacks in stacks(), is_packed: bool) {
        for (format, read) in
            [(Format::Speedscope, ImportFormat::Speedscope), (Format::Firefox, ImportFormat::Firefox)]
        {
            let mut file = written(&stacks, format);
            if is_packed {
                let mut packed = Vec::new();
                perfuse_export::packed(&mut packed, |to| to.write_all(&file)).unwrap();
                file = packed;
            }
            let Begun::Import(import) = import_or_begun(Path::new("x"), file.as_slice()).unwrap() else {
                panic!("{read:?} is not known again");
            };
            prop_assert_eq!(import.format(), read);
            prop_assert_eq!(weights(&by_recording(&import)), weights(&stacks));
        }
    }

    #[test]
    fn the_text_of_perf_script_is_read_as_its_recording(stacks in stacks()) {
        let text = script(&stacks);
        let import = Import::read(ImportFormat::PerfScript, text.as_bytes()).unwrap();
        prop_assert_eq!(weights(&by_recording(&import)), weights(&stacks));
    }

    #[test]
    fn totals_are_equal_in_all_that_is_read_back(stacks in stacks()) {
        for (format, name) in [
            (Format::Folded, "x.folded"),
            (Format::Pprof, "x.pb.gz"),
            (Format::Speedscope, "x.json"),
            (Format::Firefox, "x"),
        ] {
            let file = written(&stacks, format);
            if file.is_empty() {
                continue; // folded stacks of an event without samples
            }
            let Begun::Import(import) = import_or_begun(Path::new(name), file.as_slice()).unwrap() else {
                panic!("{name} is not known again");
            };
            let again = by_recording(&import);
            let events = if format == Format::Folded { 1 } else { again.events().len() };
            for event in 0..events {
                let name = &again.events()[event].name;
                let before = stacks.events().iter().position(|event| event.name == *name).unwrap_or(0);
                prop_assert_eq!(again.total(event), stacks.total(before));
            }
        }
    }

    #[test]
    fn bytes_of_anybody_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in ImportFormat::ALL {
            if let Ok(import) = Import::read(format, bytes.as_slice()) {
                let _ = by_recording(&import);
            }
        }
    }
}

#[test]
fn threads_events_times_and_inlined_functions_of_perf_script() {
    let text = "prog 7/8 [002] 10.500000:     250000 cpu-clock:u: \n\t    1139 small (inlined)\n\t    1139 big+0x9 (/bin/prog)\n\
                \t    7f00 [unknown] (/usr/lib/libx.so)\n\n\
                other name 9/9 [000] 11.000000:     250000 cpu-clock:u:      ffffffff81000010 do_it+0x10 ([kernel.kallsyms])\n";
    let import = Import::read(ImportFormat::PerfScript, text.as_bytes()).unwrap();
    assert_eq!((import.samples(), import.events()), (2, vec![("cpu-clock:u", 500_000)]));
    let stacks = by_recording(&import);
    let told: Vec<(String, String)> = stacks
        .rows()
        .iter()
        .map(|row| {
            let names = row.stack.iter().map(|function| &stacks.functions()[*function as usize]);
            let names: Vec<String> = names.map(|of| format!("{} {}", of.name, of.object)).collect();
            (row.thread.clone(), names.join(";"))
        })
        .collect();
    let expected = [
        ("other name", "do_it [kernel.kallsyms]"),
        ("prog", "[libx.so] /usr/lib/libx.so;big /bin/prog;small /bin/prog"),
    ];
    assert_eq!(told, expected.map(|(thread, stack)| (thread.to_owned(), stack.to_owned())));

    let (bytes, names) = import.recording().unwrap();
    let symbols = LocalSymbols::default();
    names.give(symbols.symbolizer());
    let data = PerfData::from_seekable(Cursor::new(bytes), Default::default()).unwrap();
    let profile = Profile::read(data, Format::Firefox.plan()).unwrap();
    assert_eq!(profile.span_ns(), Some((10_500_000_000, 11_000_000_000)));
    let rows = profile.samples().iter();
    let threads: Vec<_> =
        rows.map(|row| (profile.process(row).unwrap().0, profile.thread(row).unwrap().0)).collect();
    assert_eq!(threads, [(7, 8), (9, 9)]);
}

#[test]
fn what_is_too_much_or_no_profile_is_refused_in_words() {
    let refused = |format, bytes: &[u8]| Import::read(format, bytes).unwrap_err().to_string();
    assert!(refused(ImportFormat::Pprof, b"\x0a\x05abc").contains("not a pprof profile"));
    assert!(refused(ImportFormat::PerfScript, b"Dear reader,\n").contains("no line is that of a sample"));
    assert!(refused(ImportFormat::Folded, b"a;b\n").contains("line 1"));
    let long = [b"prog 1 1.0: cycles:\n".to_vec(), vec![b'x'; 1 << 20]].concat();
    assert!(refused(ImportFormat::PerfScript, &long).contains("line 2: longer than 1 MiB"));
    let deep = "prog 1 1.0: cycles:\n".to_owned() + &"\t10 a (b)\n".repeat((1 << 14) + 1);
    assert!(refused(ImportFormat::PerfScript, deep.as_bytes()).contains("16384 frames"));
    assert!(refused(ImportFormat::Speedscope, b"{\"shared\": 1}").contains("not a speedscope profile"));
    for start in ["{\"x\":", "{\"meta\":{\"extra\":[{\"entries\":[{\"value\":"] {
        let nested = [start.as_bytes().to_vec(), vec![b'['; 1 << 20]].concat();
        assert!(refused(ImportFormat::Firefox, &nested).contains("EOF while parsing"));
    }
    let nested = ["{\"threads\":[{\"name\":".as_bytes(), &[b'['; 1 << 20]].concat();
    assert!(refused(ImportFormat::Firefox, &nested).contains("invalid type"));
    // A small file that unpacks to a large one.
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..260 {
        std::io::Write::write_all(&mut bomb, &[0; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 8 << 20);
    for format in [ImportFormat::Pprof, ImportFormat::Firefox] {
        assert!(refused(format, &bomb).contains("256 MiB"), "{format:?}");
    }
}

/// The threads of an import with their stacks, from the outermost caller on, and weights.
fn told(import: &Import) -> Vec<(String, String, u64)> {
    let stacks = by_recording(import);
    let row = |row: &Row| {
        let names = row.stack.iter().map(|function| stacks.functions()[*function as usize].name.as_str());
        (row.thread.clone(), names.collect::<Vec<_>>().join(";"), row.weight)
    };
    stacks.rows().iter().map(row).collect()
}

fn expected(rows: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    rows.iter().map(|(thread, stack, weight)| ((*thread).to_owned(), (*stack).to_owned(), *weight)).collect()
}

#[test]
fn speedscope_of_others_has_threads_units_and_frames_that_open_and_close() {
    let text = r#"{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"py-spy@0.3",
        "shared":{"frames":[{"name":"main","file":"a.py","line":3},{"name":"leaf","file":null},{"name":"io"}]},
        "profiles":[
          {"type":"sampled","name":"Thread 1","unit":"seconds","startValue":0,"endValue":0.03,
           "samples":[[0,1],[0],[]],"weights":[0.01,0.015,0.005]},
          {"type":"evented","name":"Thread 2","unit":"microseconds","startValue":2,"endValue":9.5,"events":[
           {"type":"O","frame":0,"at":2},{"type":"O","frame":2,"at":3.25},{"type":"C","frame":2,"at":5},
           {"type":"C","frame":0,"at":9.5}]}]}"#;
    let import = Import::read(ImportFormat::Speedscope, text.as_bytes()).unwrap();
    assert_eq!(import.events(), [("wall", 30_007_500)]);
    let rows = [
        ("Thread 1", "[unknown]", 5_000_000),
        ("Thread 1", "main", 15_000_000),
        ("Thread 1", "main;leaf", 10_000_000),
        ("Thread 2", "main", 1_250 + 4_500),
        ("Thread 2", "main;io", 1_750),
    ];
    assert_eq!(told(&import), expected(&rows));
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from));
        Import::read(ImportFormat::Speedscope, text.replace(from, to).as_bytes()).unwrap_err().to_string()
    };
    assert!(refused("[0,1]", "[0,3]").contains("a frame that is not there"));
    assert!(refused("0.015", "-0.015").contains("below zero"));
    assert!(refused(",0.005]", "]").contains("not as many weights"));
    assert!(refused("\"C\",\"frame\":2", "\"C\",\"frame\":0").contains("not the innermost"));
    assert!(refused("\"at\":5}", "\"at\":1}").contains("go back"));
    assert!(refused("evented", "other").contains("neither"));
}

/// A profile as profiler.firefox.com saves it, its tables in the thread or for all threads.
fn firefox(is_shared: bool) -> String {
    let tables = r#""stringArray":["main","leaf","libx.so","https://x/a.js"],
        "stackTable":{"length":3,"prefix":[null,0,null],"frame":[0,1,2]},
        "frameTable":{"length":3,"func":[0,1,2],"address":[16,32,-1]},
        "funcTable":{"length":3,"name":[0,1,0],"resource":[0,-1,-1],"fileName":[null,null,3]},
        "resourceTable":{"length":1,"lib":[0],"name":[2],"host":[null],"type":[1]}"#;
    let (own, shared) = if is_shared { ("\"x\":0", tables) } else { (tables, "\"x\":0") };
    format!(
        r#"{{"meta":{{"interval":1,"startTime":0,"preprocessedProfileVersion":{},"markerSchema":[{{"name":"x"}}]}},
        "libs":[{{"name":"libx.so","path":"/lib/libx.so"}}],"shared":{{{shared}}},
        "threads":[{{"name":"GeckoMain","pid":"12","tid":13,"markers":{{"data":[null,{{"a":1}}]}},{own},
        "samples":{{"length":4,"stack":[1,0,null,2],"weightType":"samples","weight":null,{}}}}}]}}"#,
        if is_shared { 58 } else { 49 },
        if is_shared { "\"timeDeltas\":[1,0.5,1,1]" } else { "\"time\":[1,1.5,2.5,3.5]" }
    )
}

#[test]
fn firefox_of_others_has_threads_times_and_tables_of_any_version() {
    for is_shared in [false, true] {
        let text = firefox(is_shared);
        let Begun::Import(import) = import_or_begun(Path::new("x.json"), text.as_bytes()).unwrap() else {
            panic!("it is not known");
        };
        assert_eq!((import.format(), import.events()), (ImportFormat::Firefox, vec![("samples", 4)]));
        let rows = ["[unknown]", "main", "main;leaf", "main"].map(|stack| ("GeckoMain", stack, 1));
        let mut read = told(&import);
        read.sort();
        let mut rows = expected(&rows);
        rows.sort();
        assert_eq!(read, rows);
        let objects: Vec<String> =
            by_recording(&import).functions().iter().map(|function| function.object.clone()).collect();
        assert!(
            ["", "/lib/libx.so", "https://x/a.js"].iter().all(|object| objects.iter().any(|of| of == object))
        );
        let (bytes, _) = import.recording().unwrap();
        let data = PerfData::from_seekable(Cursor::new(bytes), Default::default()).unwrap();
        let profile = Profile::read(data, Format::Firefox.plan()).unwrap();
        assert_eq!(profile.span_ns(), Some((1_000_000, 3_500_000)));
        let row = &profile.samples()[0];
        assert_eq!((profile.process(row).unwrap().0, profile.thread(row).unwrap().0), (12, 13));
        let refused = |from: &str, to: &str| {
            assert!(text.contains(from));
            Import::read(ImportFormat::Firefox, text.replace(from, to).as_bytes()).unwrap_err().to_string()
        };
        assert!(refused("[null,0,null]", "[null,1,null]").contains("a stack that is not there"));
        assert!(refused("[1,0,null,2]", "[1,0,null,3]").contains("a stack that is not there"));
        assert!(refused("\"func\":[0", "\"func\":[7").contains("a function that is not there"));
        assert!(refused("\"name\":[0", "\"name\":[9").contains("a text that is not there"));
        assert!(refused("\"lib\":[0", "\"lib\":[1").contains("a library that is not there"));
        assert!(refused("\"weight\":null", "\"weight\":[1,1,1,-1]").contains("compared by diff"));
        assert!(refused("preprocessedProfileVersion", "version").contains("as the browser keeps it"));
    }
}

#[test]
fn many_threads_do_not_multiply_the_tables_of_all() {
    let (rows, threads) = (200_000, 100);
    let (zeros, nulls) = (vec!["0"; rows].join(","), vec!["null"; rows].join(","));
    let read = |own: &str| {
        let thread = format!(r#"{{"name":"t",{own}"samples":{{"stack":[7]}}}}"#);
        let text = format!(
            r#"{{"meta":{{"preprocessedProfileVersion":58}},"shared":{{"stringArray":["main"],
            "stackTable":{{"prefix":[{nulls}],"frame":[{zeros}]}},"frameTable":{{"func":[{zeros}]}},
            "funcTable":{{"name":[0]}}}},"threads":[{}]}}"#,
            vec![thread; threads].join(",")
        );
        Import::read(ImportFormat::Firefox, text.as_bytes()).map(|import| import.samples())
    };
    assert_eq!(read("").unwrap(), threads as u64);
    assert!(read(r#""resourceTable":{},"#).unwrap_err().to_string().contains("more than 256 MiB"));
}

#[test]
fn nothing_is_a_recording_without_samples() {
    let import = Import::read(ImportFormat::Folded, &b"# no stack\n"[..]).unwrap();
    assert_eq!((import.samples(), by_recording(&import).rows().len()), (0, 0));
}

#[test]
fn deep_stacks_and_many_samples_keep_their_sums() {
    let text = format!("{}leaf 18446744073709551615\nb 7\n", "a;".repeat(10_000));
    let import = Import::read(ImportFormat::Folded, text.as_bytes()).unwrap();
    let stacks = by_recording(&import);
    assert_eq!(stacks.total(0), u64::MAX, "sums end where they are full");
    let mut many = StacksBuilder::default();
    many.event("cycles");
    let function = many.function("f", "");
    many.add(0, "t", vec![function], 1 << 50, 1 << 40);
    let file = written(&many.finish(), Format::Pprof);
    let import = Import::read(ImportFormat::Pprof, file.as_slice()).unwrap();
    assert!(import.is_merged());
    let stacks = by_recording(&import);
    assert_eq!((stacks.total(0), stacks.rows()[0].samples), (1 << 50, 1));
}
