//! The event language on arbitrary text: it never panics, its errors can be printed, and what it accepts
//! prints as something it accepts again and prints the same. Its meaning is asked of a machine that has
//! something of everything, and of one that has nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_events::{Catalogue, EventList, Format, NoCatalogue, Pmu, PmuEvent, Probe, ProbePlace, Refusal};

/// Two kinds of cores, two PMUs of another kind, a tracepoint, and whatever probe is asked for.
struct Machine;

const PMUS: [&str; 4] = ["cpu_atom", "cpu_core", "uncore_imc_0", "uncore_imc_1"];

impl Catalogue for Machine {
    fn tracepoint(&self, system: &str, name: &str) -> Result<u64, Refusal> {
        if (system, name) == ("sched", "sched_switch") { Ok(1) } else { Err(Refusal::Unknown) }
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, Refusal> {
        Ok(vec![("sched".into(), "sched_switch".into())])
    }

    fn pmus(&self) -> Result<Vec<String>, Refusal> {
        Ok(PMUS.map(Into::into).into())
    }

    fn pmu(&self, name: &str) -> Result<Pmu, Refusal> {
        let at = PMUS.iter().position(|pmu| *pmu == name).ok_or(Refusal::Unknown)?;
        Ok(Pmu { type_: 10 + at as u32, cpus: Some(vec![at as u32]), is_core: at < 2 })
    }

    fn cores(&self) -> Vec<String> {
        PMUS[..2].iter().map(|&pmu| pmu.into()).collect()
    }

    fn format(&self, _pmu: &str, term: &str) -> Option<Format> {
        match term {
            "event" => Format::parse("config:0-7,32-35"),
            "umask" => Format::parse("config1:8-15"),
            "core" => Format::parse("config4:60-63"),
            _ => None,
        }
    }

    fn formats(&self, _pmu: &str) -> Vec<String> {
        ["core", "event", "umask"].map(Into::into).into()
    }

    fn pmu_event(&self, _pmu: &str, name: &str) -> Option<PmuEvent> {
        let terms = match name {
            "reads" => "event=0x3c,umask=1",
            "asks" => "event=1,core=?",
            _ => return None,
        };
        Some(PmuEvent { terms: terms.into(), ..PmuEvent::default() })
    }

    fn pmu_events(&self, _pmu: &str) -> Vec<String> {
        ["asks", "reads"].map(Into::into).into()
    }

    fn probe(&self, _place: &ProbePlace) -> Result<Vec<Probe>, Refusal> {
        Ok(vec![Probe { type_: 8, offset: 0x1000, ..Probe::default() }])
    }
}

fuzz_target!(|text: &str| {
    match text.parse::<EventList>() {
        Ok(list) => {
            let printed = list.to_string();
            let again: EventList = printed.parse().expect("what was printed can be parsed");
            assert_eq!(again.to_string(), printed);
            let _ = list.resolve(&NoCatalogue).map_err(|error| error.explain());
            match list.resolve(&Machine) {
                Ok(sets) => assert!(sets.iter().all(|set| !set.events.is_empty())),
                Err(error) => assert!(error.explain().contains('^')),
            }
        }
        Err(error) => assert!(error.explain().contains('^')),
    }
});
