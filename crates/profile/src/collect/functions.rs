//! Locations by function, where [`Plan::by_function`](super::Plan::by_function) wants them so.

use super::Collector;
use crate::tables::{Location, LocationId};

impl Collector {
    /// The number of a location: its own, or of the one that stands for all addresses of its function.
    pub(super) fn own_or_of_function(&mut self, location: Location) -> LocationId {
        let Collector { plan, locator, locations, functions, .. } = self;
        let function = if plan.by_function { locator.function_at(&location, plan.inlined) } else { None };
        match function {
            // Names are looked up at an address that is known to be in this function, and in no other that begins there.
            Some(function) => {
                *functions.entry((location.object, function)).or_insert_with(|| locations.id(location))
            }
            None => locations.id(location),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::{Plan, Taken};
    use crate::profile::Profile;
    use crate::source::LocalSymbols;
    use crate::{Frames, Key, Names, View, ViewPlan};
    use perfuse_abi::Attr;
    use perfuse_abi::record::{Decoded, Mmap2, Record, Sample, Tid};
    use perfuse_abi::wire::Text;
    use perfuse_data::session::{Level, Session};
    use perfuse_symbols::{Address, DsoKey, Symbolizer};
    use std::collections::{BTreeMap, BTreeSet};
    use std::os::unix::ffi::OsStrExt;

    const LEN: u64 = 1 << 24;

    /// Three processes have this program's file, each at an address of its own.
    fn session(file: &[u8]) -> Session {
        let mut session = Session::new();
        for pid in 1..=3 {
            let (tid, addr) = (Tid { pid, tid: pid }, u64::from(pid) << 40);
            let filename = Text::new(file);
            let map = Mmap2 { tid, addr, len: LEN, pgoff: 0, prot: 5, filename, ..Mmap2::default() };
            session.apply(&Decoded::from(Record::Mmap2(map)));
        }
        session
    }

    fn profile(
        session: &Session,
        places: &[u64],
        code: &LocalSymbols,
        (by_function, inlined): (bool, bool),
    ) -> Profile {
        let mut plan = Plan::new(&[]);
        (plan.by_function, plan.inlined) = (by_function, inlined);
        plan.code = Some(code.symbolizer().clone());
        let mut collector = Collector::new(plan);
        let attr = Attr::default();
        for (pid, place) in (1..=3).flat_map(|pid| places.iter().map(move |place| (pid, place))) {
            let mut sample = Sample::default();
            (sample.tid, sample.ip) = (Some(Tid { pid, tid: pid }), Some((u64::from(pid) << 40) + place));
            collector.add(&Taken::new((0, &attr), session, &sample, Level::User, 1));
        }
        collector.finish(session)
    }

    #[test]
    fn addresses_of_a_function_are_one_location_in_all_processes() {
        let exe = std::env::current_exe().unwrap();
        let code = LocalSymbols::new(Symbolizer::default().into());
        let dso = code.symbolizer().dso(&DsoKey::of_map(exe.as_os_str().as_bytes(), 1));
        let function = |place: u64| {
            let found = dso.find_at(Address::FileOffset(place), u64::MAX)?;
            Some((found.symbol.id.0, place))
        };
        let found: Vec<(u64, u64)> = (0..LEN).step_by(16).filter_map(function).take(200).collect();
        let functions = found.iter().map(|(function, _)| function).collect::<BTreeSet<_>>().len();
        let nowhere = (0..LEN).step_by(16).find(|&place| function(place).is_none()).unwrap();
        let places: Vec<u64> = found.iter().map(|&(_, place)| place).chain([nowhere]).collect();
        let session = session(exe.as_os_str().as_bytes());
        let [apart, folded, inlined] = [(false, false), (true, false), (true, true)]
            .map(|folds| profile(&session, &places, &code, folds));
        assert_eq!(apart.location_count(), 3 * places.len());
        assert_eq!(folded.location_count(), functions + 3);
        // The address that no function is known at stays one in each process.
        let told = if dso.debug_info().is_some() { places.len() - 1 } else { functions };
        assert_eq!(inlined.location_count(), told + 3);
        let entries = |profile: &Profile, code: &LocalSymbols| -> BTreeMap<String, u64> {
            let names = Names::new(profile, code);
            let frames = Frames::new(&names, false);
            let view = View::new(profile, &frames, 0, &ViewPlan::new(&[Key::Symbol]));
            let mut entries = BTreeMap::new();
            for entry in &view.entries {
                *entries.entry(view.text(entry, Key::Symbol)).or_default() += entry.self_samples;
            }
            entries
        };
        assert_eq!(entries(&apart, &code), entries(&folded, &code));
        let code = code.with_debug_info(true, false);
        assert_eq!(entries(&apart, &code), entries(&inlined, &code));
    }
}
