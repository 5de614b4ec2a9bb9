//! What the language accepts, what it means, and what it says about the rest.

use perfuse_events::abi::{Attr, AttrFlags, EventType};
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
        Source::Tool(tool) => panic!("{text} is the tool's {tool:?}"),
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
        "column 13: there is no event or tracepoint 'cyclse:u'\n  \
         task-clock, cyclse:u\n              ^^^^^^^^\n  did you mean cycles:u?"
    );
    assert_eq!(
        complaint("cyclse"),
        "column 1: there is no event 'cyclse'\n  cyclse\n  ^^^^^^\n  did you mean cycles?"
    );
    assert_eq!(
        complaint("{cs,faults"),
        "column 11: ',' or '}' is missing at the end\n  {cs,faults\n            ^"
    );
    assert_eq!(complaint("cs:uzu").lines().nth(2), Some("      ^"));
    assert_eq!(complaint("sched:sched_swich").lines().last(), Some("  did you mean sched:sched_switch?"));
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
        "cs/config/",
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
    assert!(error.to_string().contains("mount -t tracefs"), "{error}");
    let list: EventList = "..:x".parse().unwrap();
    assert!(list.resolve(&Tracefs::at("/")).is_err());
}
