//! Metrics: the common ones, and those of tables that a test writes.

use super::*;
use serde_json::Value;

/// Tables for a processor that nobody has, over events that every kernel has.
fn tables(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    fs::create_dir_all(scratch.join("x86/ours")).unwrap();
    fs::write(scratch.join("mapfile.csv"), "pattern,version,folder,kind\nOurs-1-[0-9],v1,x86/ours,core\n")
        .unwrap();
    let table = r#"[
        {"MetricName": "dummies", "MetricExpr": "dummy + 3", "MetricGroup": "Ours",
         "MetricThreshold": "dummies > 2", "BriefDescription": "a count that is never more than 0, and 3"},
        {"MetricName": "twice", "MetricExpr": "2 * dummies if #num_cpus > 0 else 1 / 0", "MetricGroup": "Ours",
         "ScaleUnit": "100%"},
        {"MetricName": "per_second", "MetricExpr": "minor\\\\-faults / duration_time", "ScaleUnit": "1/s"},
        {"MetricName": "lost", "MetricExpr": "no_such_event + 1"}
    ]"#;
    fs::write(scratch.join("x86/ours/core.json"), table).unwrap();
    scratch
}

fn ours(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = stat(["--events-dir".as_ref(), scratch.0.as_os_str()]);
    command.arg("--all-user").args(arguments).env("PERF_CPUID", "Ours-1-2-3");
    output(&mut command)
}

pub(super) fn metrics_are_made_of_events() -> Outcome {
    let text = results(&["-j", "--all-user", "-M", "page_faults_per_second", "sh", "-c", BUSY]);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let number = |event: &str, key: &str| -> f64 {
        let line = lines.iter().find(|line| line["event"] == event).expect("it was counted");
        line[key].as_str().expect("a string").parse().expect("a number")
    };
    let metric =
        lines.iter().find(|line| line["metric-unit"] == "/s  page_faults_per_second").expect("it is there");
    let expected = number("page-faults", "counter-value") / (number("duration_time", "counter-value") / 1e9);
    let found = metric["metric-value"].as_f64().expect("a number");
    assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
    Ok(())
}

pub(super) fn metrics_of_a_table_are_found_by_their_processor() -> Outcome {
    let scratch = tables("tables");
    let json = text(&ours(&scratch, &["--json", "-M", "ours", "true"]).stderr);
    let value: Value = serde_json::from_str(&json).expect("one object");
    let metrics = value["metrics"].as_array().expect("a list");
    let found = |name: &str| metrics.iter().find(|metric| metric["name"] == name).expect("it was asked for");
    assert_eq!(found("dummies")["value"], 3.0);
    assert_eq!(
        (&found("dummies")["threshold"], &found("dummies")["beyond_threshold"]),
        (&"dummies > 2".into(), &true.into())
    );
    assert_eq!((&found("twice")["value"], &found("twice")["unit"]), (&600.0.into(), &"%".into()));
    // Both are made of one event.
    assert_eq!(value["events"].as_array().map(Vec::len), Some(1));

    let shown = text(&ours(&scratch, &["-M", "dummies", "true"]).stderr);
    assert_eq!(row(&shown, "dummies")[..3], ["dummies", "3", "▲"], "{shown}");
    let other = output(
        stat(["-M", "dummies", "true"])
            .env("PERFUSE_EVENTS_DIR", &scratch.0)
            .env("PERF_CPUID", "Other-1-2-3"),
    );
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("has no table for Other-1-2-3"), "{}", text(&other.stderr));
    Ok(())
}

pub(super) fn metrics_stand_where_perf_puts_them() -> Outcome {
    let scratch = tables("places");
    let csv = text(&ours(&scratch, &["-x,", "-M", "dummies,twice", "true"]).stderr);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("0,,dummy,") && lines[0].ends_with(",100.00,3.00,dummies"), "{csv}");
    assert_eq!(lines[1..], [",,,,,600.0,%  twice"], "{csv}");
    let json = text(&ours(&scratch, &["-j", "-M", "dummies,twice", "true"]).stderr);
    let lines: Vec<&str> = json.lines().collect();
    assert!(
        lines[0].ends_with(
            r#""metric-value" : 3.000000, "metric-unit" : "dummies", "metric-threshold" : "bad"}"#
        ),
        "{json}"
    );
    assert_eq!(lines[1..], [r#"{"metric-value" : 600.000000, "metric-unit" : "%  twice"}"#], "{json}");
    Ok(())
}

pub(super) fn metrics_stand_alone() -> Outcome {
    let scratch = tables("alone");
    let alone = |more: &[&str]| {
        text(&ours(&scratch, &[&["--metric-only", "-M", "dummies,twice"], more, &["true"]].concat()).stderr)
    };
    assert_eq!(alone(&["-x,"]), "dummies,%  twice,\n3.00,600.0,\n");
    assert_eq!(alone(&["-j"]), "{\"dummies\" : \"3.00\", \"%  twice\" : \"600.0\"}\n");
    let text = alone(&[]);
    assert_eq!((row(&text, "twice")[1..3].join(" "), text.contains("rate / ratio")), ("600 %".into(), false));
    Ok(())
}

pub(super) fn a_metric_that_cannot_be_made_says_why() -> Outcome {
    let scratch = tables("why");
    for (metric, why) in [
        ("lost", "metric lost: there is no event no_such_event here"),
        ("dumies", "there is no metric or group of metrics 'dumies'; did you mean dummies?"),
    ] {
        let output = ours(&scratch, &["-M", metric, "true"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    let missing = output(&mut stat(["--events-dir", "/nowhere/at/all", "true"]));
    assert_eq!(missing.status.code(), Some(2));
    Ok(())
}

pub(super) fn metrics_of_the_processor_are_its_counts() -> Outcome {
    let pmu = need::hardware_pmu()?;
    if !pmu.starts_with("armv8") {
        return Err(Skip::needs("a PMU of Arm", format_args!("the PMU is {pmu}")));
    }
    let own = Path::new("/sys/bus/event_source/devices").join(&pmu).join("events/inst_retired");
    if !own.exists() {
        return Err(Skip::needs("a PMU that counts instructions", "this one does not"));
    }
    let scratch = Scratch::new("processor");
    let table = r#"[
        {"EventName": "OURS_RETIRED", "EventCode": "0x08", "BriefDescription": "instructions"},
        {"EventName": "OURS_CYCLES", "EventCode": "0x11"},
        {"MetricName": "ours_ipc", "MetricExpr": "ours_retired / ours_cycles", "MetricThreshold": "ours_ipc > 0"},
        {"MetricName": "kernels_ipc", "MetricExpr": "inst_retired / cpu_cycles"}
    ]"#;
    fs::write(scratch.join("core.json"), table).unwrap();
    let text = text(&ours(&scratch, &["-j", "-M", "ours_ipc:u,kernels_ipc", "sh", "-c", BUSY]).stderr);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let count = |event: &str| -> f64 {
        let line =
            lines.iter().find(|line| line["event"] == event).unwrap_or_else(|| panic!("{event}: {text}"));
        line["counter-value"].as_str().expect("a string").parse().expect("a number")
    };
    let metric = |name: &str| lines.iter().find(|line| line["metric-unit"] == name).expect(name);
    for (name, counts) in
        [("ours_ipc:u", ["ours_retired:u", "ours_cycles:u"]), ("kernels_ipc", ["inst_retired", "cpu_cycles"])]
    {
        let expected = count(counts[0]) / count(counts[1]);
        let found = metric(name)["metric-value"].as_f64().expect("a number");
        assert!(expected > 0.0 && (found - expected).abs() < 1e-5, "{name}: {found} {expected}");
    }
    assert_eq!(metric("ours_ipc:u")["metric-threshold"], "bad");
    Ok(())
}
