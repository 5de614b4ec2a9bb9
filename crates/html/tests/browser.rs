//! The page in a browser: Chromium, driven by node, uses each control and tells what it then sees; no name runs a script. And how
//! long a large page takes.

mod made;

use made::Made;
use perfuse_html::Page;
use perfuse_profile::{Frames, Function, Names, ObjectRef, Profile, Sources, Symbols, TimedAddress};
use perfuse_testkit::{Outcome, need};
use std::path::{Path, PathBuf};
use std::process::Command;

perfuse_testkit::suite! {
    deterministic:
        two_hundred_thousand_samples_are_less_than_two_megabytes;
    witnesses:
        each_control_does_what_it_says,
        names_that_hurt_run_no_script;
    measurements:
        first_paint_and_redraw;
}

/// Functions by their number, each with a line of a file.
struct Listed {
    names: Vec<String>,
    file: String,
}

impl Symbols for Listed {
    fn look_up(&self, _: ObjectRef<'_>, at: &[TimedAddress], found: &mut dyn FnMut(usize, Function<'_>)) {
        for (index, address) in at.iter().enumerate() {
            use perfuse_profile::symbols::Address;
            let (Address::Memory(place) | Address::FileOffset(place)) = address.address;
            let number = (place >> 6) as usize;
            let name = || self.names.get(number).cloned().unwrap_or_else(|| format!("function_{number}"));
            let (start, offset) = (place & !63, place & 63);
            let line = Some((self.file.as_str(), 3 + offset as u32));
            found(index, Function { id: start, name: &name, start, size: 64, offset, is_data: false, line });
        }
    }

    fn missing(&self, _: ObjectRef<'_>) -> Option<String> {
        None
    }
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Writes the page of a profile, and a source file for its functions.
fn page(name: &str, title: &str, profile: &Profile, names: Vec<String>) -> PathBuf {
    let source = place(&format!("{name}.c"));
    let lines = (1..80).map(|line| format!("line {line} </script><script>hurt()</script>\n"));
    std::fs::write(&source, lines.collect::<String>()).unwrap();
    let symbols = Listed { names, file: source.to_string_lossy().into_owned() };
    let frames = Frames::new(&Names::new(profile, &symbols), true);
    let facts = [("command".to_owned(), title.to_owned())];
    let page = Page::new(title, profile, &frames).with_facts(facts).with_lost(7);
    let mut bytes = Vec::new();
    page.write_with_sources(&Sources::new(), &mut bytes).unwrap();
    let path = place(&format!("{name}.html"));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Has node do this with the page in Chromium, and shows what it says.
fn drive(what: &str, arguments: &[&Path]) -> Outcome {
    let node = need::program("node")?;
    let browser = need::program("chromium").or_else(|_| need::program("chromium-browser"))?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/controls.js");
    let output =
        Command::new(node).arg(script).arg(what).args(arguments).env("CHROMIUM", browser).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn each_control_does_what_it_says() -> Outcome {
    // In each of ten seconds seven samples at its beginning and three in its middle; eleven once; another event has
    // ten, each in a thread of its own.
    let [main, alpha, beta, gamma] = [0, 64, 128, 192];
    let at = |event, function, tid, time_ns| {
        let (cpu, period) = (tid - 10, if event == 0 { 1000 } else { 5 });
        Made { event, tid, time_ns, cpu, period, chain: vec![function, main] }
    };
    let (second, milli) = (1_000_000_000, 1_000_000);
    let each = (1..=10).flat_map(|number| {
        let early = (0..7).map(move |at_ms| (0, alpha, 10, number * second + at_ms * milli));
        early.chain((0..3).map(move |at_ms| (0, beta, 11, number * second + (600 + at_ms) * milli)))
    });
    let once = (0..11).map(|at_ms| (0, gamma, 11, 5 * second + (300 + at_ms) * milli));
    let others = (0..10).map(|number| (1, beta, 20 + number as u32, 2 * second + number * milli));
    let mut samples: Vec<_> = each.chain(once).chain(others).collect();
    samples.sort_by_key(|(.., time)| *time);
    let samples = samples.into_iter().map(|(event, function, tid, time)| at(event, function, tid, time));
    let mut threads: Vec<(u32, &[u8])> = vec![(10, b"one"), (11, b"two")];
    threads.extend((20..30).map(|tid| (tid, &b"other"[..])));
    let profile = made::profile(&["faults", "others"], &threads, b"/bin/prog", samples);
    let names = ["main", "alpha", "beta", "gamma"].map(str::to_owned).to_vec();
    drive("controls", &[&page("controls", "a <title>", &profile, names)])
}

/// Names that would run as a script, or break out of where they stand, if they were not escaped.
fn hurtful() -> Vec<String> {
    let names = [
        "</script><script>hurt=1</script>",
        "<script>hurt=1</script>",
        "<img src=x onerror=\"window.hurt=1\">",
        "\"><svg onload=hurt=1>",
        "'-(window.hurt=1)-'",
        "`${window.hurt=1}`",
        "javascript:hurt=1",
        "<!--<script>",
        "]]>&lt;&amp;&#x3c;",
        "\\\"\\u0022\\x27\\",
        "\u{2028}\u{2029}line",
        "__proto__",
        "constructor",
        "a;b c\td",
        "\u{1f525}\u{1f469}\u{200d}\u{1f4bb} \u{4e2d}\u{6587} \u{fc}\u{301}",
        "{{7*7}} %s %n $& $1",
        "operator<<=<(int)",
    ];
    let long = "<b>".to_owned() + &"x".repeat(3997);
    names.into_iter().map(str::to_owned).chain([long]).collect()
}

fn names_that_hurt_run_no_script() -> Outcome {
    let names = hurtful();
    let count = names.len() as u64;
    let samples = (0..count).flat_map(|function| (0..=function).map(move |number| (function, number)));
    let samples = samples.map(|(function, number)| Made {
        event: 0,
        tid: 10 + (number % 2) as u32,
        time_ns: 1_000_000_000 + function * 100_000_000 + number,
        cpu: 0,
        period: 1,
        chain: vec![function * 64, (function + 1) % count * 64 + 1],
    });
    let threads: [(u32, &[u8]); 2] = [(10, b"</script><b>x"), (11, b"\"'<svg/onload=")];
    let profile = made::profile(&["<script>hurt=1</script>"], &threads, names[0].as_bytes(), samples);
    // As often as a function is there itself, and as the caller of the one before.
    let samples = |at: usize| at + 1 + if at == 0 { names.len() } else { at };
    let list: Vec<(&String, usize)> =
        names.iter().enumerate().map(|(at, name)| (name, samples(at))).collect();
    let expected = place("hurtful.json");
    std::fs::write(&expected, serde_json::to_vec(&list).unwrap()).unwrap();
    let file = page("hurtful", "</script><script>hurt=1</script>", &profile, names.clone());
    drive("names", &[&file, &expected])
}

fn usual() -> PathBuf {
    page("usual", "usual", &made::usual(200_000), Vec::new())
}

fn two_hundred_thousand_samples_are_less_than_two_megabytes() -> Outcome {
    let bytes = std::fs::metadata(usual()).unwrap().len();
    println!("{bytes} bytes");
    assert!(bytes < 2_000_000, "{bytes} bytes");
    Ok(())
}

fn first_paint_and_redraw() -> Outcome {
    drive("figures", &[&usual()])?;
    // Nearly each callchain is another.
    drive("figures", &[&page("large", "large", &made::many(200_000, b"large"), Vec::new())])
}
