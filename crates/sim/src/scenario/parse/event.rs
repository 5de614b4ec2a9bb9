//! Events, and the options of `open`.

use super::{EXPECTATIONS, Parser, integer};
use crate::machine::Handler;
use crate::scenario::words::{Result, Words, number, small, time, unknown};
use crate::scenario::{Open, Reads, Target};
use crate::trace::TRACE;
use perfuse_abi::{
    Attr, AttrFlags, AuxAction, BranchSampleType, Breakpoint, EventType, OpenFlags, ReadFormat, SampleType,
};
use perfuse_events::{EventList, NoCatalogue};

/// How often rings are read where nothing is said.
const READ_EVERY_NS: u64 = 1_000_000;

/// Options of `open` with a value.
const OPTIONS: [&str; 21] = [
    "handler",
    "flags",
    "aux",
    "aux-watermark",
    "aux-sample",
    "aux-action",
    "period",
    "freq",
    "sample",
    "read",
    "ring",
    "read-every",
    "wakeup",
    "watermark",
    "max-stack",
    "branches",
    "stack",
    "regs",
    "clock",
    "sig-data",
    "config1",
];

/// Options of `open` that are words.
const WORDS: [&str; 8] = ["on", "cpu", "group", "output", "by", "overwrite", "aux-overwrite", "signals"];

impl Parser<'_> {
    pub(super) fn open(&self, words: &mut Words<'_>) -> Result<Open> {
        let name = words.need("a name for the event")?.to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if EXPECTATIONS.contains(&name.as_str()) || !name.chars().all(plain) {
            return Err(format!("an event cannot be called '{name}'; letters, digits, - and _ make a name"));
        }
        let mut open = Open {
            name,
            attr: event(words.need("the event")?)?,
            on: Target::All,
            cpu: None,
            group: None,
            output: None,
            by: None,
            ring: None,
            overwrite: false,
            aux: None,
            aux_overwrite: false,
            reads: Reads::Every(READ_EVERY_NS),
            signals: false,
            handler: None,
            flags: OpenFlags::empty(),
        };
        while let Some(word) = words.next() {
            match word.split_once('=') {
                Some((key, value)) => option(&mut open, key, value)?,
                None => match word {
                    "on" => {
                        let whom = words.need("the task")?;
                        open.on = match whom {
                            "cgroup" => Target::Cgroup(self.cgroup(words.need("the cgroup")?)?),
                            "pid" => Target::Pid(integer(words.need("the number")?)?),
                            task => Target::Task(task.to_owned()),
                        };
                    }
                    "cpu" => open.cpu = Some(integer(words.need("the cpu")?)?),
                    "group" => open.group = Some(words.need("the leader")?.to_owned()),
                    "output" => open.output = Some(words.need("the event")?.to_owned()),
                    "by" => open.by = Some(words.need("the task")?.to_owned()),
                    "overwrite" => open.overwrite = true,
                    "aux-overwrite" => open.aux_overwrite = true,
                    "signals" => open.signals = true,
                    word => {
                        let names: Vec<String> = AttrFlags::all()
                            .iter_names()
                            .map(|(name, _)| name.to_ascii_lowercase())
                            .collect();
                        let known = WORDS.into_iter().chain(names.iter().map(String::as_str));
                        let flag = AttrFlags::from_name(&word.to_ascii_uppercase());
                        open.attr.flags |= flag.ok_or_else(|| unknown("an event has no", word, known))?;
                    }
                },
            }
        }
        Ok(open)
    }
}

/// Reads the source of counts.
pub(super) fn event(text: &str) -> Result<Attr> {
    let mut attr = Attr {
        read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
        ..Attr::new(EventType::SOFTWARE)
    };
    if text == "trace" {
        attr.type_ = TRACE;
    } else if let Some(id) = text.strip_prefix("tracepoint:") {
        (attr.type_, attr.config) = (EventType::TRACEPOINT, number(id, "the id of a tracepoint")?);
    } else if let Some(numbers) = text.strip_prefix("type:") {
        let (type_, config) = numbers.split_once(':').unwrap_or((numbers, "0"));
        attr.type_ = EventType(small(type_, "the type", 0, u64::from(u32::MAX))? as u32);
        attr.config = number(config, "the config")?;
    } else if let Some(place) = text.strip_prefix("mem:") {
        attr.type_ = EventType::BREAKPOINT;
        let (place, kind) = place.rsplit_once(':').unwrap_or((place, "rw"));
        let (addr, len) = place.split_once('/').unwrap_or((place, "8"));
        (attr.config1, attr.config2) = (number(addr, "the address")?, number(len, "the length")?);
        let kinds = ["r", "w", "rw", "x"];
        attr.bp_type = match kind {
            "r" => Breakpoint::R,
            "w" => Breakpoint::W,
            "rw" => Breakpoint::RW,
            "x" => Breakpoint::X,
            kind => return Err(unknown("a watchpoint has no access", kind, kinds)),
        };
    } else {
        let list: EventList = text.parse().map_err(|error: perfuse_events::EventError| error.explain())?;
        let sets = list.resolve(&NoCatalogue).map_err(|error| error.explain())?;
        let spec = sets.first().and_then(|set| set.events.first());
        if !spec.is_some_and(|spec| spec.apply(&mut attr)) {
            return Err(format!("no such event: '{text}'"));
        }
        attr.flags.remove(AttrFlags::EXCLUDE_GUEST);
    }
    Ok(attr)
}

/// Names of a list, joined by commas.
fn names<F: bitflags::Flags + Copy>(list: &str, what: &str) -> Result<F> {
    let mut all = F::empty();
    for word in list.split(',') {
        let known: Vec<&str> = F::FLAGS.iter().map(bitflags::Flag::name).collect();
        let one = F::from_name(&word.to_ascii_uppercase());
        all.insert(one.ok_or_else(|| unknown(what, word, known))?);
    }
    Ok(all)
}

fn option(open: &mut Open, key: &str, value: &str) -> Result<()> {
    let attr = &mut open.attr;
    let word = |what| small(value, what, 0, u64::from(u32::MAX)).map(|value| value as u32);
    match key {
        "period" => attr.set_period(number(value, "the period")?),
        "freq" => attr.set_sample_freq(number(value, "the frequency")?),
        "ring" => open.ring = Some(small(value, "the number of pages", 0, 1 << 20)? as usize),
        "read-every" => {
            open.reads = if value == "never" { Reads::Never } else { Reads::Every(time(value)?.max(1000)) };
        }
        "wakeup" => attr.set_wakeup_events(word("the number")?),
        "watermark" => attr.set_wakeup_watermark(word("the number of bytes")?),
        "max-stack" => attr.sample_max_stack = small(value, "the number", 0, 65535)? as u16,
        "stack" => attr.sample_stack_user = word("the number of bytes")?,
        "regs" => {
            let mask = number(value, "the mask")?;
            (attr.sample_regs_user, attr.sample_regs_intr) = (mask, mask);
        }
        "clock" => {
            attr.flags |= AttrFlags::USE_CLOCKID;
            attr.clockid = integer(value)?;
        }
        "sig-data" => attr.sig_data = number(value, "the data")?,
        "config1" => attr.config1 = number(value, "the config")?,
        "handler" => {
            open.signals = true;
            open.handler = Some(match value {
                "enable" => Handler::Enable,
                "refresh" => Handler::Refresh,
                word => return Err(unknown("a handler has no action", word, ["enable", "refresh"])),
            });
        }
        "aux" => open.aux = Some(small(value, "the number of pages", 1, 1 << 20)? as usize),
        "aux-watermark" => attr.aux_watermark = word("the number of bytes")?,
        "aux-sample" => attr.aux_sample_size = word("the number of bytes")?,
        "aux-action" => attr.aux_action |= names::<AuxAction>(value, "AUX actions have no")?,
        "flags" => open.flags |= names::<OpenFlags>(value, "opening has no")?,
        "sample" => attr.sample_type |= names::<SampleType>(value, "samples have no")?,
        "read" => attr.read_format |= names::<ReadFormat>(value, "reads have no")?,
        "branches" => attr.branch_sample_type |= names::<BranchSampleType>(value, "branches have no")?,
        key => return Err(unknown("an event has no", key, OPTIONS)),
    }
    Ok(())
}
