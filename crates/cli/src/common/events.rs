//! The events of this machine: where every subcommand looks names up.

use super::tables;
use crate::exit::Failure;
use perfuse::Perf;
use perfuse::tracefs::of_embedded;
use perfuse_events::{EventList, EventSet, Machine, Tracefs};

/// The events of the machine that a kernel measures.
pub(crate) fn of_kernel(kernel: &Perf) -> Machine {
    match kernel.facts() {
        facts if facts.is_simulated => Machine::unknown(),
        facts if facts.is_embedded => {
            Machine { tracefs: tracefs().or(of_embedded), uprobe: perfuse::OWN_UPROBE, ..machine() }
        }
        _ => machine(),
    }
}

/// This machine's events, by sysfs and tracefs. It reads each file when somebody asks for it.
pub(crate) fn machine() -> Machine {
    let beside = perfuse::OWN_PMUS;
    Machine {
        tracefs: tracefs().or_elsewhere(of_embedded, "--kernel embedded tells of it without that"),
        beside,
        finder: Some(perfuse_record::find_probes),
        tables: Some(tables::tables),
        ..Machine::new()
    }
}

fn tracefs() -> Tracefs {
    Tracefs::found_by(perfuse::tracefs::find)
}

/// The events of a list as it stands after `-e`.
pub(crate) fn resolve(list: &str, machine: &Machine) -> Result<Vec<EventSet>, Failure> {
    let sets = list.parse().and_then(|list: EventList| list.resolve(machine));
    sets.map_err(|error| Failure::usage(error.explain()))
}
