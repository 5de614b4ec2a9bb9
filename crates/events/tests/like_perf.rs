//! The same text makes the same attr as in Linux's own perf, for those of its members that the event
//! language decides. perf tells what it asks for with `stat -vv`.

use perfuse_events::abi::{Attr, AttrFlags, EventType};
use perfuse_events::{EventList, Source, Tracefs};
use perfuse_testkit::{Outcome, Skip, need, suite};
use std::process::Command;

suite! {
    witnesses:
        the_attr_is_perfs;
}

const LISTS: &[&str] = &[
    "task-clock",
    "faults:uk",
    "cpu-clock:hku",
    "minor-faults,major-faults:u,alignment-faults:k,emulation-faults:h",
    "1:2",
    "0x1:0x2:u",
    "dummy,bpf-output,cgroup-switches",
    "cs:k",
    "cs:G",
    "cs:H",
    "cs:GH",
    "cs:uG",
    "cs:Gu",
    "cs:uH",
    "cs:p",
    "cs:ppp",
    "cs:pG",
    "cs:Gp",
    "cs:I",
    "cs:uI",
    "cs:D",
    "cs:e",
    "cs:S",
    "cs:",
    "{cs,faults}",
    "{cs,faults}:u",
    "{cs:k,faults}:u",
    "{cs:G,faults:p}:u",
    "{cs:p,faults:pp}:p",
    "{cs,faults:H}:G",
    "{cs,faults}:D",
    "{cs,faults}:eI",
    "{cs:u,faults:k}:h",
    "{cs:h,faults:ukh}:S",
    "g{cs,faults}:uW,task-clock",
    "sched:sched_switch",
    "sched:sched_switch:u",
    "{sched:sched_wakeup,cs}:k",
    "cycles",
    "cpu-cycles:u",
    "instructions:k",
    "cache-references,cache-misses,branches,branch-misses,bus-cycles,ref-cycles",
    "stalled-cycles-frontend,idle-cycles-backend",
    "L1-dcache-loads",
    "l1d-load-miss",
    "L1-dcache-misses-load",
    "LLC-loads-misses",
    "dTLB-speculative-read-refs",
    "branch-loads,branch-load-misses,bpu-read",
    "node-prefetch-misses,L2-read,i-tlb,L1-icache-prefetches",
    "r1a8",
    "rFFF:u",
    "4:0x12:k",
];

/// The members compared, as perf names them.
const FLAGS: &[(&str, AttrFlags)] = &[
    ("exclude_user", AttrFlags::EXCLUDE_USER),
    ("exclude_kernel", AttrFlags::EXCLUDE_KERNEL),
    ("exclude_hv", AttrFlags::EXCLUDE_HV),
    ("exclude_idle", AttrFlags::EXCLUDE_IDLE),
    ("exclude_host", AttrFlags::EXCLUDE_HOST),
    ("exclude_guest", AttrFlags::EXCLUDE_GUEST),
    ("pinned", AttrFlags::PINNED),
    ("exclusive", AttrFlags::EXCLUSIVE),
];

/// One attr as text: type, config, precise level, and the flags that are set.
fn line(type_: u32, config: u64, precise: u8, flags: impl Fn(&str, AttrFlags) -> bool) -> String {
    let set: Vec<_> = FLAGS.iter().filter(|(name, flag)| flags(name, *flag)).map(|(name, _)| *name).collect();
    format!("type {type_} config {config:#x} precise {precise} {}", set.join(" "))
}

/// The attrs that perf opens, each once: it retries refused ones in other ways.
fn perfs(list: &str) -> Vec<String> {
    let output = Command::new("perf").args(["stat", "-vv", "-e", list, "true"]).output().expect("perf runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("perf_event_attr:"), "perf refuses {list}: {text}");
    let mut attrs = Vec::new();
    let mut refused = false;
    for block in text.split("perf_event_attr:").skip(1) {
        let members: Vec<(&str, &str)> = block
            .lines()
            .skip(1)
            .take_while(|line| line.starts_with("  "))
            .filter_map(|line| line.trim().split_once(' ').map(|(name, value)| (name, value.trim())))
            .collect();
        let number = |name: &str| {
            let value = members.iter().find(|member| member.0 == name).map_or("0", |member| member.1);
            let (digits, radix) = value.strip_prefix("0x").map_or((value, 10), |hex| (hex, 16));
            u64::from_str_radix(digits, radix).unwrap_or_else(|_| panic!("{name} {value}"))
        };
        let attr = line(number("type") as u32, number("config"), number("precise_ip") as u8, |name, _| {
            number(name) == 1
        });
        // After a refusal perf tries the same event with less.
        if !refused {
            attrs.push(attr);
        }
        refused = block.contains("failed, error -22") || block.contains("failed, error -95");
    }
    attrs
}

fn ours(list: &str) -> Result<Vec<String>, Skip> {
    let list: EventList = list.parse().unwrap_or_else(|error| panic!("{error}"));
    let sets = list.resolve(&Tracefs::new()).map_err(|error| Skip::needs("tracepoints", error))?;
    let events = sets.iter().flat_map(|set| &set.events);
    Ok(events
        .filter(|event| matches!(event.source, Source::Kernel { .. }))
        .map(|event| {
            let mut attr = Attr::new(EventType::HARDWARE);
            event.apply(&mut attr);
            line(attr.type_.0, attr.config, attr.flags.precise_ip(), |_, flag| attr.flags.contains(flag))
        })
        .collect())
}

fn the_attr_is_perfs() -> Outcome {
    need::perf()?;
    need::root()?;
    need::tracefs()?;
    for list in LISTS {
        assert_eq!(ours(list)?, perfs(list), "{list}");
    }
    Ok(())
}
