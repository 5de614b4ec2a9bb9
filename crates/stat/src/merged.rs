//! An event that was asked for once and is counted by several PMUs, such as the controllers of the memory,
//! as one: its counts are added.

use super::counting;
use super::model::{Event, Outcome};
use super::plan::Plan;

/// The events with those merged that belong together, and where each of the plan's events has gone.
pub(crate) fn events(plan: &Plan, events: Vec<Event>) -> (Vec<Event>, Vec<usize>) {
    let common = |at: usize| {
        let spec = &plan.events[at].spec;
        let name = spec.pmu.as_ref().and_then(|pmu| pmu.common_name.as_ref());
        name.map(|name| (name, plan.events[at].wish, &plan.events[at].cgroup))
    };
    let mut merged: Vec<Event> = Vec::new();
    let mut places = Vec::new();
    // For each merged event, the name, wish and cgroup that an event to be added must have too.
    let mut known = Vec::new();
    for (at, event) in events.into_iter().enumerate() {
        let own = common(at);
        let place = own.and_then(|own| known.iter().position(|known| *known == Some(own)));
        match place {
            Some(place) => add(&mut merged[place], event),
            None => {
                let name = own.map_or_else(|| event.name.clone(), |(name, ..)| name.clone());
                merged.push(Event { name, ..event });
                known.push(own);
            }
        }
        places.push(place.unwrap_or(merged.len() - 1));
    }
    (merged, places)
}

fn add(sum: &mut Event, event: Event) {
    for row in event.rows {
        match sum.rows.iter_mut().find(|own| own.place == row.place) {
            Some(own) => {
                let outcome = std::mem::replace(&mut own.outcome, Outcome::Counted(Vec::new()));
                own.outcome = counting::together(outcome, row.outcome);
            }
            None => sum.rows.push(row),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::RowPlace;
    use super::super::model::samples::{counted, no_pmu, report};
    use super::super::plan::{Request, Requests, Target};
    use super::*;
    use perfuse_events::{Machine, OnPmu};

    fn commanded(events: usize) -> Plan {
        let mut requests = Requests::default();
        (0..events).for_each(|_| requests.add("dummy", &Machine::new()).unwrap());
        Plan::new(Target::Command, Vec::new(), requests.all)
    }

    /// A plan for these events, of which those with a common name are of PMUs.
    fn plan(names: &[(&str, Option<&str>, u32)]) -> Plan {
        let mut plan = commanded(names.len());
        for (request, (_, common, wish)) in plan.events.iter_mut().zip(names) {
            let Request { spec, wish: own, .. } = request;
            *own = *wish;
            let common_name = common.map(str::to_owned);
            let mut on_pmu = OnPmu::default();
            on_pmu.common_name = common_name;
            spec.pmu = Some(Box::new(on_pmu));
        }
        plan
    }

    #[test]
    fn one_name_for_several_pmus_is_one_event() {
        let imc = Some("uncore_imc/reads/");
        let names =
            [("a", None, 1), ("imc_0", imc, 2), ("imc_1", imc, 2), ("imc_0", imc, 3), ("imc_1", imc, 3)];
        let mut all: Vec<Event> =
            [3, 10, 20, 1, 2].into_iter().map(|value| counted("dummy", &[value, value + 1])).collect();
        all[4].rows[0].outcome = Outcome::Missing(no_pmu());
        let (merged, places) = events(&plan(&names), all);
        let names: Vec<&str> = merged.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["dummy", "uncore_imc/reads/", "uncore_imc/reads/"]);
        assert_eq!(places, [0, 1, 1, 2, 2]);
        let values = |at: usize| -> Vec<u64> {
            merged[at].rows[0].readings().iter().map(|reading| reading.value).collect()
        };
        assert_eq!((values(1), values(2)), (vec![30, 32], vec![1, 2]));
        assert_eq!(merged[1].rows[0].share(), 1.0);
    }

    #[test]
    fn what_one_pmu_lacks_another_has() {
        let imc = Some("imc/x/");
        let mut all = vec![counted("dummy", &[7]), counted("dummy", &[7]), counted("dummy", &[5])];
        all[0].rows[0].outcome = Outcome::Missing(no_pmu());
        all[2].rows[0].place = RowPlace::Socket(1);
        let (merged, _) = events(&plan(&[("x", imc, 1), ("x", imc, 1), ("x", imc, 1)]), all);
        let report = report(merged);
        let row =
            |at: usize| (&report.events[0].rows[at].place, report.events[0].rows[at].readings()[0].value);
        assert_eq!([row(0), row(1)], [(&RowPlace::Everywhere, 7), (&RowPlace::Socket(1), 5)]);
    }
}
