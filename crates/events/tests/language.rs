//! The texts that the language accepts, their meaning, and its messages about others.

use perfuse_events::abi::{Attr, AttrFlags, AuxAction, EventType};
use perfuse_events::{
    Catalogue, EventList, EventSet, Exclude, NoCatalogue, Precise, Refusal, Source, Tool, Tracefs, Unit,
};

/// A machine with four tracepoints.
struct Machine;

const TRACEPOINTS: [(&str, &str); 4] = [
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
    ("sched", "sched_wakeup"),
    ("syscalls", "sys_enter_read"),
];

impl Catalogue for Machine {
    fn tracepoint(&self, system: &str, name: &str) -> Result<u64, Refusal> {
        let found = TRACEPOINTS.iter().position(|&known| known == (system, name));
        found.map(|at| at as u64 + 100).ok_or(Refusal::Unknown)
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, Refusal> {
        Ok(TRACEPOINTS.iter().map(|&(system, name)| (system.into(), name.into())).collect())
    }
}

fn sets(text: &str) -> Vec<EventSet> {
    let list: EventList = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    list.resolve(&Machine).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn names(text: &str) -> Vec<String> {
    sets(text).into_iter().flat_map(|set| set.events).map(|event| event.name).collect()
}

fn kernel(text: &str) -> (u32, u64) {
    match sets(text)[0].events[0].source {
        Source::Kernel { type_, config, .. } => (type_.0, config),
        other => panic!("{text} is {other:?}"),
    }
}

fn complaint(text: &str) -> String {
    let resolved = text.parse().and_then(|list: EventList| list.resolve(&Machine));
    resolved.err().unwrap_or_else(|| panic!("{text} was accepted")).explain()
}

#[test]
fn names_and_numbers_become_type_and_config() {
    for (text, expected) in [
        ("cycles", (0, 0)),
        ("cpu-cycles", (0, 0)),
        ("idle-cycles-backend", (0, 8)),
        ("task-clock", (1, 1)),
        ("faults", (1, 2)),
        ("CS", (1, 3)),
        ("Page-Faults", (1, 2)),
        ("L1-dcache-load-misses", (3, 0x10000)),
        ("branch-misses", (0, 5)),
        ("branch-load-misses", (3, 0x10005)),
        ("r1A8", (4, 0x1a8)),
        ("rffffffffffffffff", (4, u64::MAX)),
        ("1:2", (1, 2)),
        ("0x4:0x12", (4, 0x12)),
        ("sched:sched_switch", (2, 100)),
    ] {
        assert_eq!(kernel(text), expected, "{text}");
    }
    assert_eq!(sets("duration_time")[0].events[0].source, Source::Tool(Tool::DurationTime));
    assert_eq!(sets("task-clock")[0].events[0].unit(), Unit::Nanoseconds);
    assert_eq!(sets("cs")[0].events[0].unit(), Unit::Count);
}

#[test]
fn the_name_is_what_was_written() {
    assert_eq!(names(" cs , faults:uk "), ["cs", "faults:uk"]);
    assert_eq!(names("{cs,faults:k}:u"), ["cs", "faults:k"]);
    assert_eq!(names("sched:sched_switch:u"), ["sched:sched_switch"]);
    assert_eq!(names("page-faults//u,cs/name=switches/,1 : 2 : u"), ["page-faults//u", "switches", "1:2:u"]);
    assert_eq!(names("cs:"), ["cs:"]);
}

#[test]
fn groups_are_kept_together() {
    let sets = sets("cs,g{cycles,instructions}:W,{faults}");
    let shape: Vec<_> = sets.iter().map(|s| (s.name.as_deref(), s.grouped, s.weak, s.events.len())).collect();
    assert_eq!(shape, [(None, false, false, 1), (Some("g"), true, true, 2), (None, true, false, 1)]);
}

#[test]
fn wildcards_become_many_events() {
    assert_eq!(names("sched:*wak*"), ["sched:sched_waking", "sched:sched_wakeup"]);
    assert_eq!(names("s*:s*_[rs]*"), ["sched:sched_switch", "syscalls:sys_enter_read"]);
    assert_eq!(sets("{sched:*}")[0].events.len(), 3);
}

#[test]
fn modifiers_set_the_bits_perf_sets() {
    let exclude = |text| {
        let Exclude { user, kernel, hv, idle, host, guest } = sets(text)[0].events[0].exclude;
        let bits = [(user, 'u'), (kernel, 'k'), (hv, 'h'), (idle, 'I'), (host, 'H'), (guest, 'G')];
        bits.into_iter().filter(|bit| bit.0).map(|bit| bit.1).collect::<String>()
    };
    for (text, expected) in [
        ("cs", "G"),
        ("cs:u", "khG"),
        ("cs:k", "uh"),
        ("cs:uk", "hG"),
        ("cs:ukh", "G"),
        ("cs:G", "H"),
        ("cs:H", "G"),
        ("cs:uG", "khH"),
        ("cs:Gu", "khH"),
        ("cs:GH", ""),
        ("cs:p", "G"),
        ("cs:P", ""),
        ("cs:I", "I"),
        ("cs:", "G"),
        ("{cs}:u", "khG"),
        ("{cs:k}:u", "hG"),
        ("{cs:h}:S", "uk"),
    ] {
        assert_eq!(exclude(text), expected, "{text}");
    }
    assert_eq!(sets("cycles:pp")[0].events[0].precise, Precise::Level(2));
    assert_eq!(sets("{cycles:p}:pp")[0].events[0].precise, Precise::Level(3));
    assert_eq!(sets("cycles:P")[0].events[0].precise, Precise::Most);
    let group = &sets("{cs,faults}:De")[0].events;
    assert!(group[0].pinned && group[0].exclusive && !group[1].pinned && !group[1].exclusive);
    assert!(sets("{cs,faults}:S")[0].events[1].sample_read);
}

#[test]
fn an_event_applies_itself_to_an_attr() {
    let mut attr = Attr::new(EventType::HARDWARE);
    attr.flags = AttrFlags::INHERIT | AttrFlags::EXCLUDE_USER;
    assert!(sets("sched:sched_waking")[0].events[0].apply(&mut attr));
    assert_eq!((attr.type_, attr.config), (EventType::TRACEPOINT, 101));
    assert_eq!(attr.flags, AttrFlags::INHERIT | AttrFlags::EXCLUDE_GUEST);
    assert!(sets("r10/config1=0x20,config2=3/ppk")[0].events[0].apply(&mut attr));
    assert_eq!((attr.config, attr.config1, attr.config2, attr.flags.precise_ip()), (0x10, 0x20, 3, 2));
    assert!(!sets("user_time")[0].events[0].apply(&mut attr));
}

#[test]
fn mistakes_are_shown_where_they_are() {
    assert_eq!(
        complaint("task-clock, cyclse:u"),
        "column 13: there is no event 'cyclse'\n  \
         task-clock, cyclse:u\n              ^^^^^^ did you mean cycles?"
    );
    assert_eq!(
        complaint("cyclse"),
        "column 1: there is no event 'cyclse'\n  cyclse\n  ^^^^^^ did you mean cycles?"
    );
    assert_eq!(
        complaint("{cs,faults"),
        "column 11: ',' or '}' is missing at the end\n  {cs,faults\n            ^"
    );
    assert_eq!(complaint("cs:uzu").lines().nth(2), Some("      ^"));
    assert_eq!(
        complaint("sched:sched_swich").lines().last(),
        Some("  ^^^^^^^^^^^^^^^^^ did you mean sched:sched_switch?")
    );
    let long = format!("{}cyclse", "cs,".repeat(1000));
    assert!(complaint(&long).lines().all(|line| line.chars().count() < 100));
}

#[test]
fn what_perf_refuses_is_refused() {
    for text in [
        "",
        ",",
        "a,,b",
        "cs,",
        "{}",
        "{cs,{faults}}",
        "cs:uu",
        "cs:z",
        "cycles:pppp",
        "{cycles:pp}:pp",
        "r",
        "rzz",
        "r12345678901234567",
        "bpu-stores",
        "LLC-loads-refs-misses",
        "1:",
        "1",
        "1:x",
        "cs u",
        "cs:u:k",
        "{cs}u",
        "sched:",
        "sched:sched_switch/name=x/",
        "cs/nope=1/",
        "cs/name='x/",
        "4294967296:1",
        "cpu/r1/",
        "R1a8",
        "cs}",
        "Sched:sched_switch",
    ] {
        complaint(text);
    }
}

#[test]
fn a_machine_that_cannot_be_asked_says_why() {
    let list: EventList = "sched:sched_switch".parse().unwrap();
    assert!(list.resolve(&NoCatalogue).unwrap_err().to_string().contains("no machine was given"));
    let error = list.resolve(&Tracefs::at("/nowhere")).unwrap_err();
    assert!(error.to_string().contains("the tracing file system is not mounted here"), "{error}");
    let refused = || Err(perfuse_events::Refusal::Unreadable("it was looked for in vain".into()));
    let error = list.resolve(&Tracefs::found_by(refused)).unwrap_err();
    assert!(error.to_string().contains("in vain"), "{error}");
    let list: EventList = "..:x".parse().unwrap();
    assert!(list.resolve(&Tracefs::at("/")).is_err());
}

#[test]
fn memory_is_watched() {
    use perfuse_events::abi::Breakpoint;
    for (text, expected) in [
        ("mem:0x1000", (Breakpoint::RW, 0x1000, 4)),
        ("mem:4096:r", (Breakpoint::R, 4096, 4)),
        ("mem:0x1000/8:wr:u", (Breakpoint::RW, 0x1000, 8)),
        ("mem:0x1000:x", (Breakpoint::X, 0x1000, size_of::<usize>() as u64)),
        ("mem:0/1:w", (Breakpoint::W, 0, 1)),
        ("mem:0:u", (Breakpoint::RW, 0, 4)),
        ("mem:0x10/name=x/", (Breakpoint::RW, 0x10, 4)),
        ("mem:0x10/2:w/name=x/k", (Breakpoint::W, 0x10, 2)),
    ] {
        let spec = sets(text)[0].events[0].clone();
        let (access, addr, len) = expected;
        assert_eq!(spec.source, Source::Breakpoint { access, addr, len }, "{text}");
        let mut attr = Attr::new(EventType::HARDWARE);
        assert!(spec.apply(&mut attr));
        assert_eq!(
            (attr.type_, attr.bp_type, attr.config1, attr.config2),
            (EventType::BREAKPOINT, access, addr, len)
        );
    }
    assert_eq!(names("mem:0x10/2:w/name=x/k,mem:0x20:u"), ["x", "mem:0x20:u"]);
    for text in
        ["mem:", "mem:x", "mem:0x10/", "mem:0x10/z", "mem:0x10:rr", "mem:0x10:rwq", "mem:0x10/period=1/"]
    {
        complaint(text);
    }
}

#[test]
fn terms_ask_for_more_than_an_event() {
    use perfuse_events::CallGraph;
    let options = |text: &str| sets(text)[0].events[0].options.clone();
    let all = options(
        "cycles/period=1000,call-graph=dwarf,stack-size=4096,max-stack=5,time=0,no-inherit,overwrite,\
         branch_type=any,percore,nr=3,aux-output,aux-sample-size=64,aux-action=resume,cpu=2,cpu=1,cpu=2/",
    );
    assert_eq!((all.period, all.frequency), (Some(1000), None));
    assert_eq!(
        (all.call_graph, all.stack_size, all.max_stack),
        (Some(CallGraph::Dwarf), Some(4096), Some(5))
    );
    assert_eq!((all.time, all.inherit, all.overwrite), (Some(false), Some(false), Some(true)));
    assert_eq!((all.branch_type.as_deref(), all.per_core, all.most), (Some("any"), true, Some(3)));
    assert_eq!((all.aux_output, all.aux_sample_size, all.cpus), (true, Some(64), Some(vec![2, 1])));
    assert_eq!(all.aux_action, Some(AuxAction::RESUME));
    assert_eq!(options("cs/freq=0x10/").frequency, Some(16));
    let last = options("cs/period=5,freq=6/");
    assert_eq!((last.period, last.frequency), (None, Some(6)), "of the two, the last one holds");
    let modified = &sets("{cs:b,faults:X}:R")[0].events;
    assert!(modified.iter().all(|event| event.retire_latency));
    assert_eq!(options("sched:sched_waking/call-graph=no,inherit=0/").call_graph, Some(CallGraph::No));
    for text in [
        "cs/period=x/",
        "cs/time=2/",
        "cs/call-graph=x/",
        "cs/max-stack=65536/",
        "cs/aux-action=stop/",
        "sched:sched_waking/period=1/",
    ] {
        complaint(text);
    }
}

#[test]
fn probes_are_looked_for() {
    let list: EventList = "uprobe:/bin/ls:main:u, usdt:/lib/c.so:libc:setjmp".parse().unwrap();
    assert_eq!(list.to_string(), "uprobe:/bin/ls:main:u,usdt:/lib/c.so:libc:setjmp");
    assert!(complaint("uprobe:/bin/ls:main").contains("cannot make the probe 'uprobe:/bin/ls:main'"));
    assert!(complaint("uprobe:/bin/ls").contains("uprobe:/PATH:FUNCTION:LINE, found '/bin/ls'"));
    assert!(complaint("uprobe:").contains("missing at the end"));
    assert!(complaint("kprobe:a%b").contains("expected kprobe:FUNCTION"));
    let list: EventList = "uprobe:/bin/ls:main/max-stack=3/k".parse().unwrap();
    assert_eq!(list.to_string(), "uprobe:/bin/ls:main/max-stack=3/k");
    let quoted: EventList = "uprobe:'/a b,c:f::g'".parse().unwrap();
    assert_eq!(quoted.to_string(), "uprobe:'/a b,c:f::g'");
}
