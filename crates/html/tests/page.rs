//! Pages of recordings: the data is JSON again, its sums are those of the profile and of a report, names of strangers stay names,
//! and the page's script, where node is there, comes to the same sums.

mod made;

use made::plan;
use perfuse_data::PerfData;
use perfuse_html::Page;
use perfuse_profile::{
    Filter, Frames, Function, Key, Names, ObjectRef, Plan, Profile, Symbols, TimedAddress, View, ViewPlan,
};
use perfuse_testkit::{Outcome, need};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

perfuse_testkit::suite! {
    deterministic:
        sums_are_those_of_the_profile,
        functions_are_those_of_a_report,
        a_filter_of_functions_leaves_their_samples_with_their_times,
        names_of_strangers_stay_names,
        the_same_profile_becomes_the_same_bytes,
        the_page_asks_nobody_for_anything,
        a_sample_takes_few_bytes,
        without_times_threads_and_cpus_there_is_a_page_too,
        nothing_was_sampled;
    witnesses:
        the_scripts_have_types,
        the_script_comes_to_the_same_sums;
}

const RECORDINGS: [&str; 7] =
    ["chains.data", "pipe.data", "group.data", "before.data", "branches.data", "memory.data", "wide.data"];

/// Functions of 64 bytes everywhere, named by object and address.
struct Numbered(&'static str);

impl Symbols for Numbered {
    fn look_up(
        &self,
        object: ObjectRef<'_>,
        at: &[TimedAddress],
        found: &mut dyn FnMut(usize, Function<'_>),
    ) {
        let path = object.path().to_string_lossy();
        for (index, address) in at.iter().enumerate() {
            let place = match address.address {
                perfuse_profile::symbols::Address::Memory(place)
                | perfuse_profile::symbols::Address::FileOffset(place) => place,
            };
            let (start, offset) = (place & !63, place & 63);
            let name = || format!("{}{path}_{start:x}", self.0);
            let (id, size) = (start, 64);
            found(index, Function { id, name: &name, start, size, offset, is_data: false, line: None });
        }
    }

    fn missing(&self, _: ObjectRef<'_>) -> Option<String> {
        None
    }
}

fn read(recording: &str) -> Profile {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures");
    Profile::read(PerfData::open(folder.join(recording)).unwrap(), plan()).unwrap()
}

fn frames(profile: &Profile, symbols: &dyn Symbols) -> Frames {
    Frames::new(&Names::new(profile, symbols), false)
}

fn page(profile: &Profile, frames: &Frames) -> String {
    let facts = [("command".to_owned(), "a </script><script>alert(1)</script> & 'more'".to_owned())];
    let mut bytes = Vec::new();
    Page::new("a <title>", profile, frames).with_facts(facts).with_lost(7).write(&mut bytes).unwrap();
    String::from_utf8(bytes).expect("a page is UTF-8")
}

const BEGIN: &str = "<script type=\"application/json\" id=\"data\">";

/// The text of the page's data.
fn text_of(page: &str) -> &str {
    page.split_once(BEGIN).unwrap().1.split_once("</script>").unwrap().0
}

fn data_of(page: &str) -> Value {
    serde_json::from_str(text_of(page)).expect("the data is JSON")
}

/// A packed list of so many numbers.
fn numbers(value: &Value, count: &Value) -> Vec<u128> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut list, mut sum, mut shift) = (Vec::new(), 0, 0);
    let text = value.as_str().expect("numbers are a text");
    for letter in text.trim_start_matches('=').chars() {
        let digit = DIGITS.find(letter).expect("a digit") as u128;
        sum |= (digit & 31) << shift;
        shift += 5;
        if digit < 32 {
            list.push(sum);
            (sum, shift) = (0, 0);
        }
    }
    assert_eq!(shift, 0, "a number is cut off");
    let count = count.as_u64().expect("a number of numbers") as usize;
    if text.starts_with('=') {
        list.resize(count, list[0]);
    }
    assert_eq!(list.len(), count);
    list
}

/// A list of a table of lists.
fn list_of(table: &Value, key: &str) -> Vec<u128> {
    numbers(&table[key], &table["count"])
}

/// A number of either sign.
fn signed(number: u128) -> i128 {
    let number = number as i128;
    if number % 2 == 0 { number / 2 } else { -(number + 1) / 2 }
}

/// The nodes of all rows.
fn nodes_of(data: &Value) -> Vec<u128> {
    let mut node = 0;
    let mut next = |by| {
        node += signed(by);
        node as u128
    };
    list_of(&data["rows"], "nodes").into_iter().map(&mut next).collect()
}

/// Of each event, weight and samples of all cells.
fn sums(data: &Value) -> Vec<[u128; 2]> {
    let events = data["events"].as_array().unwrap();
    let mut sums = vec![[0; 2]; events.len()];
    let (rows, cells) = (&data["rows"], &data["cells"]);
    let [samples, weights, steps] = ["samples", "weights", "steps"].map(|key| list_of(cells, key));
    let [of, counts] = ["events", "cells"].map(|key| list_of(rows, key));
    let nodes = nodes_of(data);
    assert!(samples.len() == weights.len() && weights.len() == steps.len());
    assert_eq!(counts.iter().sum::<u128>(), samples.len() as u128);
    let count = list_of(&data["nodes"], "functions").len() as u128;
    assert!(nodes.iter().all(|node| *node < count));
    let mut at = 0;
    for (event, cells) in of.iter().zip(&counts) {
        let usual = events[*event as usize]["usual"].as_u64().unwrap();
        for _ in 0..*cells {
            let by = signed(weights[at]);
            let sum = &mut sums[*event as usize];
            sum[0] += (by + i128::from(usual) * samples[at] as i128) as u128;
            sum[1] += samples[at];
            at += 1;
        }
    }
    sums
}

/// Of each event with samples, weight and samples.
fn of_profile(profile: &Profile) -> Vec<[u128; 2]> {
    let with_samples = profile.events().iter().filter(|event| event.samples > 0);
    with_samples.map(|event| [event.weight.into(), event.samples.into()]).collect()
}

fn sums_are_those_of_the_profile() -> Outcome {
    for recording in RECORDINGS {
        let profile = read(recording);
        let data = data_of(&page(&profile, &frames(&profile, &())));
        assert_eq!(sums(&data), of_profile(&profile), "{recording}");
        let told: Vec<[u128; 2]> = data["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| {
                [event["weight"].as_u64().unwrap().into(), event["samples"].as_u64().unwrap().into()]
            })
            .collect();
        assert_eq!(told, of_profile(&profile), "{recording}");
        // Without names all is unresolved but what is a function by itself, such as a trampoline of the kernel.
        for event in data["events"].as_array().unwrap() {
            let [unresolved, samples] = ["unresolved", "samples"].map(|key| event[key].as_u64().unwrap());
            assert!(unresolved == samples || recording == "wide.data" && unresolved == 15, "{recording}");
        }
        assert_eq!(data["lost"], 7);
    }
    Ok(())
}

/// Self and total of a function, each by weight and samples.
type Shares = BTreeMap<(String, String), [u64; 4]>;

fn of_report(profile: &Profile, frames: &Frames, event: usize) -> Shares {
    let plan = ViewPlan::new(&[Key::Dso, Key::Symbol]).with_callers();
    let view = View::new(profile, frames, event, &plan);
    let mut shares = Shares::new();
    for entry in &view.entries {
        let frame = frames.get(entry.frame);
        let Some(symbol) = frame.symbol.as_deref() else { continue };
        let key = (symbol.to_owned(), frames.object(frame.object).to_owned());
        let sums = [entry.self_weight, entry.self_samples, entry.total_weight, entry.total_samples];
        let known = shares.entry(key).or_default();
        known.iter_mut().zip(sums).for_each(|(known, more)| *known += more);
    }
    shares
}

/// The same of a page's data.
fn of_data(data: &Value, event: usize) -> Shares {
    let parents = list_of(&data["nodes"], "parents");
    let functions = list_of(&data["nodes"], "functions");
    let strings = data["strings"].as_array().unwrap();
    let text = |at: u128| strings[at as usize].as_str().unwrap().to_owned();
    let count = Value::from(data["functions"]["kinds"].as_str().unwrap().len());
    let [names, objects] = ["names", "objects"].map(|key| numbers(&data["functions"][key], &count));
    let kinds = data["functions"]["kinds"].as_str().unwrap().as_bytes();
    let usual = u128::from(data["events"][event]["usual"].as_u64().unwrap());
    let [of, counts] = ["events", "cells"].map(|key| list_of(&data["rows"], key));
    let nodes = nodes_of(data);
    let [samples, weights] = ["samples", "weights"].map(|key| list_of(&data["cells"], key));
    let mut shares = Shares::new();
    let mut at = 0;
    for ((of, node), count) in of.iter().zip(&nodes).zip(&counts) {
        for _ in 0..*count {
            let (by, count) = (signed(weights[at]), samples[at]);
            let weight = (by + (usual * count) as i128) as u64;
            at += 1;
            if *of as usize != event {
                continue;
            }
            let (mut node, mut is_leaf, mut seen) = (*node as usize, true, Vec::new());
            loop {
                let function = functions[node] as usize;
                if kinds[function] != b't' {
                    let key = (text(names[function]), text(objects[function]));
                    let sums = shares.entry(key).or_default();
                    if is_leaf {
                        (sums[0], sums[1]) = (sums[0] + weight, sums[1] + count as u64);
                    }
                    if !seen.contains(&function) {
                        (sums[2], sums[3]) = (sums[2] + weight, sums[3] + count as u64);
                        seen.push(function);
                    }
                }
                is_leaf = false;
                match parents[node] as usize {
                    0 => break,
                    back => node -= back,
                }
            }
        }
    }
    shares
}

fn functions_are_those_of_a_report() -> Outcome {
    for recording in RECORDINGS {
        let profile = read(recording);
        let frames = frames(&profile, &Numbered("f"));
        let data = data_of(&page(&profile, &frames));
        let with_samples = (0..profile.events().len()).filter(|event| profile.event(*event).samples > 0);
        for (index, event) in with_samples.enumerate() {
            let mut found = of_data(&data, index);
            // A report tells addresses without a function one by one.
            found.retain(|(name, _), _| !name.starts_with('['));
            assert_eq!(found, of_report(&profile, &frames, event), "{recording}");
        }
    }
    Ok(())
}

fn a_filter_of_functions_leaves_their_samples_with_their_times() -> Outcome {
    for recording in RECORDINGS {
        let mut profile = read(recording);
        let frames = frames(&profile, &Numbered("f"));
        let plan = ViewPlan::new(&[Key::Dso, Key::Symbol]);
        let view = View::new(&profile, &frames, 0, &plan);
        let hottest = view.entries.iter().filter(|entry| frames.get(entry.frame).symbol.is_some());
        let Some(hottest) = hottest.max_by_key(|entry| entry.self_samples) else { continue };
        let frame = frames.get(hottest.frame);
        let mut filter = Filter {
            objects: vec![frames.object(frame.object).to_owned()],
            symbols: frame.symbol.iter().map(ToString::to_string).collect(),
            ..Filter::default()
        };
        let expected = [u128::from(hottest.self_weight), u128::from(hottest.self_samples)];
        filter.apply(&mut profile, &frames);
        let data = data_of(&page(&profile, &frames));
        assert_eq!(sums(&data)[0], expected, "{recording}");
        let (steps, last) = (list_of(&data["cells"], "steps"), data["time"]["steps"].as_u64().unwrap());
        assert!(steps.iter().all(|step| *step < last.into()), "{recording}: each sample has its time");
        filter.symbol_part = Some("in no name".to_owned());
        filter.apply(&mut profile, &frames);
        assert!(profile.samples().is_empty() && profile.sample_times().is_empty());
    }
    Ok(())
}

const HOSTILE: &[u8] =
    b"</script><script>alert('1')</script>\"\\&amp;<!--\x01\x1b[31m\xff\xfe\xe2\x80\xa8\xe2\x80\xae]]>";

/// The profile of so many samples, with hostile names.
fn recording(samples: u64) -> Profile {
    made::many(samples, HOSTILE)
}

fn names_of_strangers_stay_names() -> Outcome {
    let profile = recording(50);
    let hostile = "</script><script>f</script>\"\\&lt;<!--\u{2028}\u{202e}\x07";
    let frames = frames(&profile, &Numbered(hostile));
    let page = page(&profile, &frames);
    let text = text_of(&page);
    let is_harmless = |letter: char| {
        !matches!(letter, '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{202e}')
            && (letter == '\n' || !letter.is_control())
    };
    assert_eq!(text.chars().find(|letter| !is_harmless(*letter)), None);
    // The page's own scripts, and no more of them.
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    assert_eq!(page.matches("</script>").count(), 2);
    let data = data_of(&page);
    assert!(data["title"] == "a <title>" && data["facts"][0][1].as_str().unwrap().contains("</script>"));
    let strings = data["strings"].as_array().unwrap();
    let is_there = |start: &str| strings.iter().any(|text| text.as_str().unwrap().starts_with(start));
    assert!(is_there("</script><script>f</script>\"\\&lt;<!--\u{2028}\u{fffd}\x07"), "{strings:?}");
    assert!(is_there("</script><script>alert('1')</script>"), "{strings:?}");
    assert!(data["threads"][0][1].as_str().unwrap().starts_with("</script>"));
    assert_eq!(sums(&data), of_profile(&profile));
    Ok(())
}

fn the_same_profile_becomes_the_same_bytes() -> Outcome {
    let one = |recording| {
        let profile = read(recording);
        page(&profile, &frames(&profile, &Numbered("f")))
    };
    for recording in RECORDINGS {
        assert!(one(recording) == one(recording), "{recording}");
    }
    Ok(())
}

fn the_page_asks_nobody_for_anything() -> Outcome {
    let profile = read("chains.data");
    let page = page(&profile, &frames(&profile, &()));
    let own = page.replace(text_of(&page), "");
    for word in [
        "http:",
        "https:",
        "//",
        "src=",
        "href=",
        "url(",
        "@import",
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
    ] {
        // Comments of the script begin with two strokes.
        let found =
            own.lines().filter(|line| !line.trim_start().starts_with("//")).find(|line| line.contains(word));
        assert_eq!(found, None, "{word}");
    }
    assert!(own.contains("Content-Security-Policy") && own.contains("default-src 'none'"));
    Ok(())
}

fn a_sample_takes_few_bytes() -> Outcome {
    let profile = recording(20_000);
    let frames = frames(&profile, &Numbered("f"));
    let page = page(&profile, &frames);
    let data = data_of(&page);
    assert_eq!(sums(&data), of_profile(&profile));
    let bytes = text_of(&page).len() / 20_000;
    assert!(bytes <= 40, "{bytes} bytes a sample where most callchains are there once");
    assert!(page.len() - text_of(&page).len() < 88 << 10, "the page itself");
    Ok(())
}

fn without_times_threads_and_cpus_there_is_a_page_too() -> Outcome {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures");
    let profile = Profile::read(PerfData::open(folder.join("chains.data")).unwrap(), Plan::new(&[])).unwrap();
    let data = data_of(&page(&profile, &frames(&profile, &())));
    assert_eq!(sums(&data), of_profile(&profile));
    assert!(data["time"].is_null() && data["threads"][0][0].is_null() && data["cpus"][0].is_null());
    Ok(())
}

fn nothing_was_sampled() -> Outcome {
    let profile = Profile::default();
    let data = data_of(&page(&profile, &frames(&profile, &())));
    assert_eq!(data["events"], serde_json::json!([]));
    Ok(())
}

/// The output of node for a script and its input.
fn node(arguments: &[&str], input: &str) -> Result<String, perfuse_testkit::Skip> {
    let node: PathBuf = need::program("node")?;
    let mut command = Command::new(node);
    let folder = env!("CARGO_MANIFEST_DIR");
    let piped = command.current_dir(folder).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().expect("node starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("node reads");
    let output = child.wait_with_output().expect("node ends");
    assert!(output.status.success(), "node {arguments:?}");
    Ok(String::from_utf8(output.stdout).expect("text"))
}

fn the_scripts_have_types() -> Outcome {
    let checker = need::program("tsc")?;
    let output =
        Command::new(checker).args(["-p", "src/page"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.expect("tsc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

fn the_script_comes_to_the_same_sums() -> Outcome {
    need::program("node")?;
    for recording in RECORDINGS {
        let profile = read(recording);
        let frames = frames(&profile, &Numbered("f"));
        let page = page(&profile, &frames);
        let told: Value = serde_json::from_str(&node(&["tests/sums.js"], &page)?).expect("JSON");
        let data = data_of(&page);
        for (event, [weight, samples]) in of_profile(&profile).into_iter().enumerate() {
            let told = &told[event];
            assert_eq!(told["weight"].as_f64(), Some(weight as f64), "{recording}");
            for key in ["samples", "down", "up", "covered"] {
                assert_eq!(told[key].as_u64().map(u128::from), Some(samples), "{recording}: {key}");
            }
            for key in ["threads", "cpus", "halves"] {
                let sum: u64 = told[key].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
                assert_eq!(u128::from(sum), samples, "{recording}: {key}");
            }
            for width in told["widths"].as_array().unwrap() {
                assert!((width.as_f64().unwrap() - 1000.0).abs() < 0.001, "{recording}: {width}");
            }
            let mut functions = Shares::new();
            for row in told["functions"].as_array().unwrap() {
                let text = |at: usize| row[at].as_str().unwrap().to_owned();
                let sums = [2, 3, 4, 5].map(|at| row[at].as_u64().unwrap());
                assert!(row[6] == row[4] && row[7] == row[4], "{recording}: {row}");
                functions.insert((text(0), text(1)), sums);
            }
            assert_eq!(functions, of_data(&data, event), "{recording}");
        }
    }
    Ok(())
}
