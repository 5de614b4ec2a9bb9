//! PMUs that no other kernel has than the embedded one.

use perfuse_abi::EventType;
use perfuse_events::OwnPmu;
#[cfg(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64")))]
use perfuse_live::step;

/// PMUs that only the embedded kernel has: beside those of the machine, where events are looked up for it.
#[cfg(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const OWN_PMUS: &[OwnPmu] = &[OwnPmu {
    name: step::NAME,
    type_: step::TYPE.0,
    format: &step::FORMAT,
    events: &step::EVENTS,
    description: "instructions in user space, by stopping after each: exact, and tens of thousands of times slower \
                  (--kernel embedded)",
}];

/// The type of the embedded kernel's PMU `uprobe` where Linux has none.
#[cfg(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const OWN_UPROBE: Option<u32> = Some(perfuse_live::machine::UPROBE.0);

/// There is no embedded kernel.
#[cfg(not(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub const OWN_UPROBE: Option<u32> = None;

/// There is no embedded kernel.
#[cfg(not(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub const OWN_PMUS: &[OwnPmu] = &[];

/// The type of the PMU that steps, or one that no PMU has.
#[cfg(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) const STEP: EventType = step::TYPE;

#[cfg(not(all(feature = "embedded", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) const STEP: EventType = EventType(u32::MAX);
