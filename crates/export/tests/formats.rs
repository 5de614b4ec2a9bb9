//! All formats have the same totals, for any stacks and any names, and each is well formed.

use perfuse_data::PerfData;
use perfuse_export::{Format, Stacks, StacksBuilder, Tree};
use perfuse_profile::{Key, LocalSymbols, Plan, Profile};
use proptest::prelude::*;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

fn written(stacks: &Stacks, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    stacks.write(format, "a <title> & \"more\"", &mut bytes).expect("memory takes all");
    bytes
}

fn text(stacks: &Stacks, format: Format) -> String {
    String::from_utf8(written(stacks, format)).expect("text")
}

fn json(stacks: &Stacks, format: Format) -> serde_json::Value {
    serde_json::from_str(&text(stacks, format)).expect("JSON")
}

/// Fields of a protobuf message: numbers, and bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().expect("a byte");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
        }
        unreachable!()
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        let (number, inner) = match key & 7 {
            0 => (value, &bytes[..0]),
            _ => {
                let (inner, rest) = bytes.split_at(value as usize);
                bytes = rest;
                (value, inner)
            }
        };
        fields.push((key >> 3, number, inner));
    }
    fields
}

fn numbers(mut packed: &[u8]) -> Vec<u64> {
    let mut values = Vec::new();
    while !packed.is_empty() {
        let end = packed.iter().position(|byte| byte & 0x80 == 0).expect("an end") + 1;
        values.push((0..).zip(&packed[..end]).map(|(at, byte)| u64::from(byte & 0x7f) << (7 * at)).sum());
        packed = &packed[end..];
    }
    values
}

/// The weights of each event in an OTLP file, after its indices were found to be within its tables.
fn otlp_sums(file: &[u8]) -> Vec<u64> {
    let of = |message, wanted: u64| {
        fields(message).into_iter().filter(move |(field, ..)| *field == wanted).map(|(.., inner)| inner)
    };
    let one = |message, wanted| of(message, wanted).next().expect("a message");
    let number = |message, wanted: u64| {
        fields(message).into_iter().find(|(field, ..)| *field == wanted).map_or(0, |(_, number, _)| number)
    };
    let dictionary = one(file, 2);
    let count = |table| of(dictionary, table).count() as u64;
    let (mappings, locations, functions) = (count(1), count(2), count(3));
    let (texts, attributes, stacks) = (count(5), count(6), count(7));
    for table in [1, 2, 3, 6, 7] {
        assert_eq!(of(dictionary, table).next(), Some(&[][..]), "the first of table {table} stands for none");
    }
    assert_eq!(of(dictionary, 5).next(), Some(&[][..]));
    for location in of(dictionary, 2).skip(1) {
        assert!(number(location, 1) < mappings && number(one(location, 3), 1) < functions);
        of(location, 4).for_each(|kinds| assert!(numbers(kinds).iter().all(|kind| *kind < attributes)));
    }
    assert!(of(dictionary, 3).all(|function| number(function, 1) < texts));
    for stack in of(dictionary, 7).skip(1) {
        assert!(numbers(one(stack, 1)).iter().all(|location| (1..locations).contains(location)));
    }
    let scope = one(one(file, 1), 2);
    let sum = |profile| {
        let kind = one(profile, 1);
        assert!(number(kind, 1) < texts && number(kind, 2) < texts);
        let samples = of(profile, 2).map(|sample| {
            assert!((1..stacks).contains(&number(sample, 1)));
            numbers(one(sample, 4)).into_iter().sum::<u64>()
        });
        samples.sum()
    };
    of(scope, 2).map(sum).collect()
}

/// The weights of each event in a file of the Firefox Profiler, after its tables were found to be whole: columns of one length, indices within
/// the tables that they are of.
fn firefox_sums(file: &serde_json::Value, events: usize) -> Vec<u64> {
    assert_eq!(
        (&file["meta"]["preprocessedProfileVersion"], &file["meta"]["version"]),
        (&49.into(), &24.into())
    );
    let mut sums = vec![0; events];
    let libs = file["libs"].as_array().unwrap().len();
    for thread in file["threads"].as_array().unwrap() {
        let strings = thread["stringArray"].as_array().unwrap().len();
        let length = |table: &str| thread[table]["length"].as_u64().unwrap() as usize;
        let column = |table: &str, column: &str| {
            let column = thread[table][column].as_array().unwrap_or_else(|| panic!("{table}.{column}"));
            assert_eq!(column.len(), length(table), "{table}");
            column.clone()
        };
        for (table, name, limit) in [
            ("samples", "stack", length("stackTable")),
            ("stackTable", "prefix", length("stackTable")),
            ("stackTable", "frame", length("frameTable")),
            ("stackTable", "category", 3),
            ("frameTable", "category", 3),
            ("frameTable", "func", length("funcTable")),
            ("frameTable", "nativeSymbol", length("nativeSymbols")),
            ("funcTable", "name", strings),
            ("funcTable", "fileName", strings),
            ("resourceTable", "lib", libs),
            ("resourceTable", "name", strings),
            ("nativeSymbols", "libIndex", libs),
            ("nativeSymbols", "name", strings),
        ] {
            for (at, value) in column(table, name).iter().enumerate() {
                let within = value.is_null() || (value.as_u64().unwrap() as usize) < limit;
                assert!(within, "{table}.{name}[{at}] is {value}");
                let is_caller =
                    name != "prefix" || value.is_null() || (value.as_u64().unwrap() as usize) < at;
                assert!(is_caller, "callers stand before callees");
            }
        }
        let resources = length("resourceTable") as i64;
        for resource in column("funcTable", "resource") {
            assert!((-1..resources).contains(&resource.as_i64().unwrap()));
        }
        for whole in
            ["address", "inlineDepth", "line", "column", "innerWindowID", "implementation", "subcategory"]
        {
            column("frameTable", whole);
        }
        let times: Vec<f64> = column("samples", "time").iter().map(|time| time.as_f64().unwrap()).collect();
        assert!(times.is_sorted());
        // The label of the thread has the number of the event, from the second on.
        let event = thread["tid"].as_str().map_or(0, |tid| tid.split_once('.').unwrap().1.parse().unwrap());
        let is_time = thread["samples"]["weightType"] == "tracing-ms";
        for weight in column("samples", "weight") {
            // Milliseconds with six digits.
            let text = weight.to_string();
            let text =
                if is_time { format!("{:.6}", text.parse::<f64>().unwrap()).replace('.', "") } else { text };
            sums[event] += text.parse::<u64>().unwrap();
        }
    }
    sums
}

/// The sums of the values of a pprof file: samples, then each event.
fn pprof_sums(file: &[u8]) -> (Vec<u64>, usize) {
    assert_eq!(file[..3], [0x1f, 0x8b, 8]);
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut message).expect("a gzip file");
    let length = u32::from_le_bytes(file[file.len() - 4..].try_into().unwrap());
    assert_eq!(length as usize, message.len());
    let (mut sums, mut functions) = (Vec::new(), 0);
    for (field, _, inner) in fields(&message) {
        functions += usize::from(field == 5);
        if field == 2 {
            let values = fields(inner).into_iter().find(|(field, ..)| *field == 2).map(|(.., values)| values);
            let values = numbers(values.expect("values"));
            sums.resize(values.len(), 0);
            values.iter().zip(&mut sums).for_each(|(value, sum)| *sum += value);
        }
    }
    (sums, functions)
}

fn assert_totals(stacks: &Stacks) {
    let totals: Vec<u64> = (0..stacks.events().len()).map(|event| stacks.total(event)).collect();
    let samples: u64 = stacks.rows().iter().map(|row| row.samples).sum();

    let folded = text(stacks, Format::Folded);
    let weights = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(weights.sum::<u64>(), totals[0]);
    let again = Stacks::from_folded(folded.as_bytes()).expect("what was written is read");
    assert_eq!(again.total(0), totals[0]);

    let (sums, functions) = pprof_sums(&written(stacks, Format::Pprof));
    if !stacks.rows().is_empty() {
        assert_eq!(sums, [vec![samples], totals.clone()].concat());
    }
    assert_eq!(functions, stacks.functions().len());

    assert_eq!(otlp_sums(&written(stacks, Format::Otlp)), totals);

    let firefox = json(stacks, Format::Firefox);
    assert_eq!(firefox_sums(&firefox, totals.len()), totals);

    let speedscope = json(stacks, Format::Speedscope);
    for (event, total) in totals.iter().enumerate() {
        let profile = &speedscope["profiles"][event];
        let weights = profile["weights"].as_array().unwrap().iter().map(|weight| weight.as_u64().unwrap());
        assert_eq!(weights.sum::<u64>(), *total);
        assert_eq!(profile["endValue"].as_u64(), Some(*total));
        let frames = speedscope["shared"]["frames"].as_array().unwrap().len() as u64;
        for stack in profile["samples"].as_array().unwrap() {
            assert!(stack.as_array().unwrap().iter().all(|frame| frame.as_u64().unwrap() < frames));
        }
    }

    let chrome = json(stacks, Format::Chrome);
    let spans: usize = (0..totals.len()).map(|event| Tree::new(stacks, event).nodes.len()).sum();
    let spans_there = chrome["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    assert_eq!(spans_there.count(), spans);
    for (event, total) in totals.iter().enumerate() {
        let tree = Tree::new(stacks, event);
        let outermost = tree.nodes.iter().filter(|node| node.depth == 0).map(|node| node.weight);
        assert!(outermost.sum::<u64>() <= *total && tree.total == *total);
    }

    let svg = text(stacks, Format::Flamegraph);
    assert!(svg.contains(&format!("{} in all", totals[0])), "{svg}");
    assert_well_formed(&svg);
}

/// Tags are closed in order, and no text has a `<` of its own.
fn assert_well_formed(svg: &str) {
    let (drawing, script) = svg.split_once("<script><![CDATA[").expect("a script");
    assert!(script.ends_with("]]></script>\n</svg>\n") && script.matches("]]>").count() == 1);
    let mut open = Vec::new();
    for piece in drawing.split('<').skip(2) {
        let (tag, text) = piece.split_once('>').expect("a tag's end");
        assert!(
            !text.contains('>') && text.chars().all(|letter| letter == '\n' || !letter.is_control()),
            "{piece:?}"
        );
        let name = tag.trim_start_matches('/').split(' ').next().expect("a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, ["svg"]);
}

/// Names of strangers, and ordinary ones.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,3}",
        Just("</title><script>alert(1)</script>".to_owned()),
        Just("]]>&<\"'\\\u{1b}[31m\n;x 7".to_owned()),
        Just("\u{202e}gpj.exe\u{0}\u{2028}".to_owned()),
        Just(String::new()),
        "\\PC{0,6}",
    ]
}

fn stacks() -> impl Strategy<Value = Stacks> {
    let row = (0usize..2, name(), prop::collection::vec((name(), name()), 1..5), 0u64..1 << 40, 1u64..100);
    prop::collection::vec(row, 0..20).prop_map(|rows| {
        let mut made = StacksBuilder::default();
        made.event("cpu-clock");
        made.event("faults\"");
        for (event, thread, stack, weight, samples) in rows {
            let stack = stack.iter().map(|(name, object)| made.function(name, object)).collect();
            made.add(event, &thread, stack, weight, samples);
        }
        made.finish()
    })
}

proptest! {
    #[test]
    fn totals_are_equal_in_all_formats(stacks in stacks()) {
        assert_totals(&stacks);
    }

    /// So what is written event by event looks at each callchain once, however many events there are.
    #[test]
    fn callchains_of_all_events_are_all_callchains(stacks in stacks()) {
        let by_event = (0..stacks.events().len() + 1).flat_map(|event| {
            let rows = stacks.rows_of(event);
            assert!(rows.iter().all(|row| row.event == event), "of {event}: {rows:?}");
            rows
        });
        prop_assert_eq!(by_event.collect::<Vec<_>>(), stacks.rows().iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_order_of_samples_makes_no_difference(rows in prop::collection::vec(("[ab]", "[a-c]{2}", 1u64..9), 1..9)) {
        let made = |rows: &mut dyn Iterator<Item = &(String, String, u64)>| {
            let mut made = StacksBuilder::default();
            made.event("e");
            for (thread, names, weight) in rows {
                let stack = names.chars().map(|name| made.function(&name.to_string(), "")).collect();
                made.add(0, thread, stack, *weight, 1);
            }
            made.finish()
        };
        assert_eq!(made(&mut rows.iter()), made(&mut rows.iter().rev()));
    }

    #[test]
    fn folded_text_of_anybody_is_read_or_refused(text in "[a;# 0-9\n]{0,60}|\\PC{0,60}") {
        if let Ok(stacks) = Stacks::from_folded(text.as_bytes()) {
            assert_totals(&stacks);
        }
    }
}

#[test]
fn folded_stacks_come_back_as_they_were() {
    let text = "main;a 3\nmain;a;b 4\nmain;c 5\n";
    let stacks = Stacks::from_folded(text.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(written(&stacks, Format::Folded)).unwrap(), text);
    let error = Stacks::from_folded(&b"a;b 1\nno number\n"[..]).unwrap_err();
    assert_eq!(error.to_string(), "line 2: its last word is no whole number");
    let long = [b"x".repeat(1 << 20), b" 1\n".to_vec()].concat();
    assert!(Stacks::from_folded(long.as_slice()).unwrap_err().to_string().contains("1 MiB"));
}

#[test]
fn callers_are_as_wide_as_their_callees_and_themselves() {
    let stacks = Stacks::from_folded(&b"m;a;b 4\nm;a 3\nm;c 5\nz 1\n"[..]).unwrap();
    let tree = Tree::new(&stacks, 0);
    let nodes: HashMap<_, _> =
        tree.nodes.iter().map(|node| (node.name.as_str(), (node.depth, node.start, node.weight))).collect();
    let expected =
        [("m", (0, 0, 12)), ("a", (1, 0, 7)), ("b", (2, 3, 4)), ("c", (1, 7, 5)), ("z", (0, 12, 1))];
    assert_eq!(nodes, HashMap::from(expected));
    assert_eq!((tree.total, tree.depth), (13, 3));
}

#[test]
fn a_recording_has_the_totals_of_its_profile() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures/chains.data");
    let profile = Profile::read(PerfData::open(path).unwrap(), Plan::new(&[Key::Comm])).unwrap();
    let stacks = Stacks::of(&profile, &LocalSymbols::default());
    let weights = profile.events().iter().filter(|event| event.samples > 0).map(|event| event.weight);
    let totals = (0..stacks.events().len()).map(|event| stacks.total(event));
    assert_eq!(totals.collect::<Vec<_>>(), weights.collect::<Vec<_>>());
    assert!(stacks.rows().iter().any(|row| row.thread == "grind"));
    assert_totals(&stacks);
}

#[test]
fn firefox_has_threads_with_samples_at_their_times() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures/chains.data");
    let profile = Profile::read(PerfData::open(path).unwrap(), Format::Firefox.plan()).unwrap();
    let mut written = Vec::new();
    perfuse_export::write(&profile, &LocalSymbols::default(), Format::Firefox, "grind", &mut written)
        .unwrap();
    let file: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
    let events = profile.events().iter().filter(|event| event.samples > 0);
    let weights: Vec<u64> = events.map(|event| event.weight).collect();
    assert_eq!(firefox_sums(&file, weights.len()), weights);
    let threads = file["threads"].as_array().unwrap();
    let samples: u64 = threads.iter().map(|thread| thread["samples"]["length"].as_u64().unwrap()).sum();
    assert_eq!(samples, profile.events().iter().map(|event| event.samples).sum::<u64>());
    let named = |pid: &str, tid: u64| {
        let thread = threads.iter().find(|thread| thread["pid"] == pid && thread["tid"] == tid);
        thread.map(|thread| (thread["name"].as_str().unwrap(), thread["isMainThread"].as_bool().unwrap()))
    };
    assert_eq!(named("200", 200), Some(("grind", true)));
    assert_eq!(named("200", 201), Some(("grind-io", false)));
    let first = &threads[0]["samples"]["time"][0];
    assert!(first.as_f64().unwrap() < 10.0, "times begin at the first sample: {first}");
}
