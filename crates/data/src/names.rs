//! perf's names for events that were recorded without one: made of the attr.

use crate::Event;
use perfuse_abi::{
    Attr, AttrFlags, Breakpoint, CacheEvent, CacheOp, CacheResult, EventType, Hardware, Software,
};

impl Event {
    /// The recorded name, or else one made of the attr.
    pub fn display_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| made(&self.attr))
    }
}

/// Whether a name is the one that was asked for, perhaps with modifiers behind it.
pub(crate) fn is_name_of(asked: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(asked) else { return false };
    let modifiers = if asked.ends_with('/') { rest } else { rest.strip_prefix(':').unwrap_or("?") };
    rest.is_empty() || modifiers.bytes().all(|byte| b"ukhGHpPSDeWIb".contains(&byte))
}

/// A name made of an attr alone.
pub(crate) fn made(attr: &Attr) -> String {
    let mut name = match attr.type_ {
        EventType::HARDWARE => hardware(attr),
        EventType::SOFTWARE => software(attr).to_owned(),
        EventType::HW_CACHE => cache(attr),
        EventType::RAW => format!("raw {}", prefixed(attr.config)),
        EventType::TRACEPOINT => return "unknown tracepoint".to_owned(),
        EventType::BREAKPOINT => {
            let letter = |bit: Breakpoint, letter| if attr.bp_type.0 & bit.0 != 0 { letter } else { "" };
            let letters =
                [letter(Breakpoint::R, "r"), letter(Breakpoint::W, "w"), letter(Breakpoint::X, "x")];
            format!("mem:{}:{}", prefixed(attr.config1), letters.concat())
        }
        kind => return format!("unknown attr type: {}", kind.0),
    };
    modifiers(&mut name, attr);
    name
}

/// A number as C's `%#x` has it: zero without prefix.
fn prefixed(number: u64) -> String {
    if number == 0 { "0".to_owned() } else { format!("{number:#x}") }
}

fn hardware(attr: &Attr) -> String {
    match Hardware::from_config(attr.config).0 {
        Hardware::CPU_CYCLES => "cycles".to_owned(),
        Hardware::BRANCH_INSTRUCTIONS => "branches".to_owned(),
        Hardware::REF_CPU_CYCLES => "ref-cycles".to_owned(),
        hardware => match hardware.header_name() {
            Some(name) => name.trim_start_matches("PERF_COUNT_HW_").to_lowercase().replace('_', "-"),
            None => "unknown-hardware".to_owned(),
        },
    }
}

fn software(attr: &Attr) -> &'static str {
    match Software(attr.config) {
        Software::CPU_CLOCK => "cpu-clock",
        Software::TASK_CLOCK => "task-clock",
        Software::PAGE_FAULTS => "page-faults",
        Software::CONTEXT_SWITCHES => "context-switches",
        Software::CPU_MIGRATIONS => "cpu-migrations",
        Software::PAGE_FAULTS_MIN => "minor-faults",
        Software::PAGE_FAULTS_MAJ => "major-faults",
        Software::ALIGNMENT_FAULTS => "alignment-faults",
        Software::EMULATION_FAULTS => "emulation-faults",
        Software::DUMMY => "dummy",
        Software::BPF_OUTPUT => "bpf-output",
        Software::CGROUP_SWITCHES => "cgroup-switches",
        _ => "unknown-software",
    }
}

fn cache(attr: &Attr) -> String {
    const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
    let event = CacheEvent::from_config(attr.config).0;
    let Some(cache) = CACHES.get(usize::from(event.cache.0)) else {
        return "unknown-ext-hardware-cache".to_owned();
    };
    let (one, many) = match event.op {
        CacheOp::READ => ("load", "loads"),
        CacheOp::WRITE => ("store", "stores"),
        CacheOp::PREFETCH => ("prefetch", "prefetches"),
        _ => return "unknown-ext-hardware-cache-op".to_owned(),
    };
    match event.result {
        CacheResult::ACCESS => format!("{cache}-{many}"),
        CacheResult::MISS => format!("{cache}-{one}-misses"),
        _ => "unknown-ext-hardware-cache-result".to_owned(),
    }
}

/// The letters after the colon. Guests are left out by default, unless something else is, too.
fn modifiers(name: &mut String, attr: &Attr) {
    let has = |flag| attr.flags.contains(flag);
    let (start, precise) = (name.len(), attr.flags.precise_ip());
    let levels = [AttrFlags::EXCLUDE_KERNEL, AttrFlags::EXCLUDE_USER, AttrFlags::EXCLUDE_HV];
    let chooses = levels.into_iter().any(has);
    if chooses {
        name.extend(
            levels.into_iter().zip("kuh".chars()).filter(|(flag, _)| !has(*flag)).map(|(_, letter)| letter),
        );
    }
    name.extend(std::iter::repeat_n('p', precise.into()));
    let default = chooses || precise > 0;
    if has(AttrFlags::EXCLUDE_HOST) || has(AttrFlags::EXCLUDE_GUEST) == default {
        name.extend((!has(AttrFlags::EXCLUDE_HOST)).then_some('H'));
        name.extend((!has(AttrFlags::EXCLUDE_GUEST)).then_some('G'));
    }
    if name.len() > start {
        name.insert(start, ':');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_perfs() {
        let cycles = |flags| made(&Attr { type_: EventType::HARDWARE, flags, ..Attr::default() });
        assert_eq!(cycles(AttrFlags::EXCLUDE_GUEST), "cycles");
        assert_eq!(cycles(AttrFlags::empty()), "cycles:HG");
        assert_eq!(cycles(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV), "cycles:u");
        assert_eq!(cycles(AttrFlags::EXCLUDE_GUEST.with_precise_ip(2)), "cycles:ppH");
        let cache = Attr {
            type_: EventType::HW_CACHE,
            config: 0x1_0000,
            flags: AttrFlags::EXCLUDE_GUEST,
            ..Attr::default()
        };
        assert_eq!(made(&cache), "L1-dcache-load-misses");
    }

    #[test]
    fn an_event_is_known_without_its_modifiers() {
        for (asked, name) in [
            ("cycles", "cycles:u"),
            ("cycles:u", "cycles:u"),
            ("cpu/a=1/", "cpu/a=1/u"),
            ("sched:sched_switch", "sched:sched_switch"),
        ] {
            assert!(is_name_of(asked, name), "{asked} {name}");
        }
        for (asked, name) in
            [("sched", "sched:sched_switch"), ("cycles:u", "cycles"), ("cyc", "cycles"), ("", "cycles")]
        {
            assert!(!is_name_of(asked, name), "{asked} {name}");
        }
    }
}
