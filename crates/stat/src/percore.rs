//! The term `percore`: of an event that the threads of a core share, the counts of its cpus are one.

use super::counting;
use super::model::{Outcome, Row, RowPlace};
use super::plan::{PerCore, Plan};
use perfuse::kernel::Seat;
use perfuse_events::EventSpec;

/// The rows of an event, where each cpu has one, as its term wants them.
pub(crate) fn rows(plan: &Plan, spec: &EventSpec, rows: Vec<Row>) -> Vec<Row> {
    match spec.options.per_core {
        true => by_core(plan.per_core, rows, |cpu| plan.kernel.surroundings().seat(cpu)),
        false => rows,
    }
}

/// Adds the counts of the cpus of a core: in a row for the core, or in that of each of its cpus.
fn by_core(how: PerCore, rows: Vec<Row>, seat: impl Fn(u32) -> Seat) -> Vec<Row> {
    let core = |row: &Row| match row.place {
        RowPlace::Cpu(cpu) => {
            let Seat { socket, die, core } = seat(cpu);
            RowPlace::Core { socket, die, core }
        }
        ref other => other.clone(),
    };
    let mut cores: Vec<Row> = Vec::new();
    for row in &rows {
        let place = core(row);
        match cores.iter_mut().find(|known| known.place == place) {
            Some(known) => {
                known.targets += row.targets;
                let outcome = std::mem::replace(&mut known.outcome, Outcome::Counted(Vec::new()));
                known.outcome = counting::together(outcome, row.outcome.clone());
            }
            None => cores.push(Row { place, ..row.clone() }),
        }
    }
    match how {
        PerCore::Row => cores,
        PerCore::EachThread => {
            let of = |row: Row| {
                let outcome = cores.iter().find(|known| known.place == core(&row)).map(|c| c.outcome.clone());
                Row { outcome: outcome.unwrap_or(row.outcome), ..row }
            };
            rows.into_iter().map(of).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Reading;
    use super::super::model::samples::no_pmu;
    use super::*;

    fn row(cpu: u32, value: Option<u64>) -> Row {
        let outcome = match value {
            Some(value) => {
                Outcome::Counted(vec![Reading { value, raw: value, enabled_ns: 1, running_ns: 1 }])
            }
            None => Outcome::Missing(no_pmu()),
        };
        Row { place: RowPlace::Cpu(cpu), targets: 1, outcome }
    }

    #[test]
    fn cpus_of_a_core_count_together() {
        // As on a machine with four cores, of which cpu n and n + 4 are threads.
        let seat = |cpu: u32| Seat { socket: 0, die: 0, core: cpu % 4 };
        let counts = [(0, Some(1)), (1, Some(2)), (4, Some(30)), (5, None), (2, None)];
        let of = |how| {
            let rows = counts.iter().map(|&(cpu, value)| row(cpu, value)).collect();
            let rows = by_core(how, rows, seat);
            let shown = |row: &Row| {
                let value = match &row.outcome {
                    Outcome::Counted(readings) => Some(readings[0].value),
                    Outcome::Missing(_) => None,
                };
                (row.place.to_string(), value)
            };
            rows.iter().map(shown).collect::<Vec<_>>()
        };
        let named = |name: &str, value| (name.to_owned(), value);
        assert_eq!(
            of(PerCore::Row),
            [named("S0-D0-C0", Some(31)), named("S0-D0-C1", Some(2)), named("S0-D0-C2", None)]
        );
        let each = [
            ("cpu 0", Some(31)),
            ("cpu 1", Some(2)),
            ("cpu 4", Some(31)),
            ("cpu 5", Some(2)),
            ("cpu 2", None),
        ];
        assert_eq!(of(PerCore::EachThread), each.map(|(name, value)| named(name, value)));
    }
}
