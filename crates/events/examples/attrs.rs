//! Prints what a list of events means to the kernel: `attrs 'cycles:u,{faults,cs}'`.

use perfuse_events::{EventList, Machine};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "task-clock,{cycles:u,instructions:u}".into());
    let list: EventList = text.parse()?;
    for set in list.resolve(&Machine::new())? {
        for event in &set.events {
            let mut attr = perfuse_events::abi::Attr::default();
            event.apply(&mut attr);
            println!("{}: {attr}", event.name);
        }
    }
    Ok(())
}
