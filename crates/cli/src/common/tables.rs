//! Tables of events and metrics that a vendor publishes: where they are, and that they are read once.

use crate::exit::Failure;
use crate::term::out::say;
use perfuse_events::{Processor, Tables};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Names a folder in the environment.
const VARIABLE: &str = "PERFUSE_EVENTS_DIR";

/// The option.
#[derive(Debug, clap::Args)]
pub(crate) struct EventsDir {
    /// Tables of the processor's events and metrics, as the kernel's tools/perf/pmu-events has them: its folder, or
    /// one of JSON files [default: PERFUSE_EVENTS_DIR, or perfuse/pmu-events below ~/.local/share or /usr/share]
    #[arg(long, value_name = "DIR")]
    events_dir: Option<PathBuf>,
}

/// The folder that was named.
static NAMED: OnceLock<PathBuf> = OnceLock::new();

impl EventsDir {
    /// Takes note of the folder, before any event is looked up. One that was named has to be there.
    pub(crate) fn decide(&self) -> Result<(), Failure> {
        let from_environment = || std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let Some(dir) = self.events_dir.clone().or_else(from_environment) else { return Ok(()) };
        if !dir.is_dir() {
            return Err(Failure::usage(format_args!("there is no folder of events {}", dir.display())));
        }
        let _ = NAMED.set(dir);
        Ok(())
    }
}

/// The tables for this machine's processor; at least those for all machines. The first call reads them and tells the
/// user of faults in them.
pub(crate) fn tables() -> Option<&'static Tables> {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    Some(TABLES.get_or_init(|| read().unwrap_or_else(Tables::common)))
}

fn read() -> Option<Tables> {
    let named = NAMED.get().map(PathBuf::as_path);
    let places: Vec<PathBuf> = named.map_or_else(usual_places, |dir| vec![dir.to_path_buf()]);
    let place = places.iter().find(|place| place.is_dir())?;
    let machine = Processor::of_this_machine();
    let cpuid = machine.cores.first().map(|(_, cpuid)| cpuid.clone()).unwrap_or_default();
    match Tables::load_for(place, &machine) {
        Ok(Some(tables)) => {
            for complaint in tables.complaints.iter().take(3) {
                say(complaint);
            }
            if tables.complaints.len() > 3 {
                say(format_args!("and {} more complaints about these tables", tables.complaints.len() - 3));
            }
            Some(tables)
        }
        Ok(None) => {
            let processor = if cpuid.is_empty() { "this processor".into() } else { cpuid };
            // Somebody who named the place wants to know; others just have no table.
            if named.is_some() {
                say(format_args!(
                    "{} has no table for {processor}; PERF_CPUID names another processor",
                    place.display()
                ));
            }
            None
        }
        Err(error) => {
            say(error);
            None
        }
    }
}

fn usual_places() -> Vec<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share"));
    let own =
        std::env::var_os("XDG_DATA_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from).or_else(home);
    let shared = ["/usr/local/share", "/usr/share"].map(|dir| Path::new(dir).to_path_buf());
    own.into_iter().chain(shared).map(|dir| dir.join("perfuse/pmu-events")).collect()
}
