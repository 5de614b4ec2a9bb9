//! The report for scripts: numbers as numbers, and a reason for everything that is null or does not
//! work. A change that breaks a reader makes it `perfuse.doctor/2`.

use perfuse::doctor::{Check, Reason, Report};
use perfuse::facts::Facts;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// The name of the form, and its version.
const SCHEMA: &str = "perfuse.doctor/1";

/// Writes it all as one object.
pub(super) fn print(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let settings: Vec<_> = report
        .settings
        .iter()
        .map(|setting| {
            json!({
                "id": setting.id,
                "state": setting.verdict.word(),
                "text": setting.text,
                "remedies": setting.remedies,
            })
        })
        .collect();
    let (host, absent) = host(&report.facts);
    let value = json!({
        "schema": SCHEMA,
        "host": host,
        "absent": absent,
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "settings": settings,
        "normal_user": report.normal_user,
    });
    writeln!(out, "{value:#}")
}

/// One check. `detail` is null where nothing was seen, and then `reason` tells why.
fn check(check: &Check) -> Value {
    json!({
        "id": check.id,
        "title": check.title,
        "state": check.verdict.word(),
        "detail": Some(&check.detail).filter(|detail| !detail.is_empty()),
        "reason": check.reason.as_ref().map(reason),
    })
}

/// Why something does not work.
pub(super) fn reason(reason: &Reason) -> Value {
    json!({
        "tried": reason.tried,
        "errno": reason.errno,
        "cause": reason.cause,
        "explanation": reason.explanation,
        "remedies": reason.remedies,
    })
}

/// The facts, and for each that is null why it is.
fn host(facts: &Facts) -> (Map<String, Value>, Map<String, Value>) {
    let (mut host, mut absent) = (Map::new(), Map::new());
    let mut put = |name: &str, value: Value, why_not: &str| {
        if value.is_null() {
            absent.insert(name.to_owned(), why_not.into());
        }
        host.insert(name.to_owned(), value);
    };
    let no_status = "/proc/self/status does not tell";
    put("kernel", facts.release.clone().into(), "uname failed");
    put("arch", facts.arch.into(), "");
    put("cpu", facts.cpu_model.clone().into(), "/proc/cpuinfo names no model");
    put("hypervisor", facts.hypervisor.clone().into(), "no sign of one");
    put("container", facts.container.clone().into(), "no sign of one");
    put("uid", facts.uid.into(), no_status);
    let names = facts.capabilities.map(|own| {
        let names = perfuse::facts::Capabilities::NAMES.into_iter();
        names.filter(|(one, _)| own.contains(*one)).map(|(_, name)| name).collect::<Vec<_>>()
    });
    put("capabilities", json!(names), no_status);
    put("initial_user_namespace", facts.initial_user_namespace.into(), "/proc/self/ns does not tell");
    for (name, value) in [
        ("perf_event_paranoid", facts.paranoid),
        ("perf_event_mlock_kb", facts.mlock_kib),
        ("perf_event_max_sample_rate", facts.max_sample_rate),
        ("perf_cpu_time_max_percent", facts.cpu_time_max_percent),
        ("perf_event_max_stack", facts.max_stack),
        ("perf_user_access", facts.user_access),
        ("kptr_restrict", facts.kptr_restrict),
        ("nmi_watchdog", facts.nmi_watchdog),
    ] {
        put(name, value.into(), "no such file in /proc/sys/kernel");
    }
    put("lockdown", facts.lockdown.clone().into(), "/sys/kernel/security/lockdown cannot be read");
    put("security_modules", json!(facts.security_modules), "/sys/kernel/security/lsm cannot be read");
    put("seccomp_filter", facts.seccomp_filter.into(), no_status);
    let limits = |limit: Option<perfuse::facts::Limit>| {
        // Unlimited is the number that can be written, not a null.
        limit.map_or(Value::Null, |limit| json!({ "soft": limit.soft, "hard": limit.hard }))
    };
    put("open_files", limits(facts.open_files), "getrlimit failed");
    put("open_files_used", facts.open_now.into(), "/proc/self/fd cannot be read");
    put("locked_bytes", limits(facts.locked_bytes), "getrlimit failed");
    put(
        "ring_share_bytes",
        facts.ring_share_bytes().into(),
        "perf_event_mlock_kb or the online cpus are unknown",
    );
    let pmus = facts.pmus.as_ref().map(|pmus| {
        let pairs = pmus.iter().map(|pmu| (pmu.name().to_owned(), Value::from(pmu.event_type().0)));
        Value::Object(pairs.collect())
    });
    put("pmus", pmus.unwrap_or_default(), "/sys/bus/event_source/devices cannot be read");
    put("online_cpus", json!(facts.online_cpus), "/sys/devices/system/cpu/online cannot be read");
    let tracefs = facts.tracefs.as_ref();
    put("tracefs", json!(tracefs.map(|tracefs| &tracefs.path)), "the tracing file system is not mounted");
    (host, absent)
}
