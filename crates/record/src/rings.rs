//! How large rings are.

use crate::plan::Plan;
use crate::terms;
use perfuse::facts::Facts;
use perfuse_sys::page_size;
use std::sync::OnceLock;

/// Some milliseconds of a busy tracepoint, or of copies of stacks, fit in: the reader may have to wait for a
/// cpu. All rings together take no more than 32 MiB, as long as each has what perf's have; threads, of which
/// there may be thousands with a ring each, have what a tenth of a second of one takes.
pub(crate) fn default_pages(plan: &Plan, rings: usize) -> usize {
    let least = if plan.by_thread { 64 << 10 } else { 512 << 10 };
    let share = (32 << 20) / rings.max(1).next_power_of_two();
    let bytes = share.clamp(least, 4 << 20);
    let with_stacks = terms::any_stacks(plan);
    bytes * (1 + usize::from(with_stacks)) / page_size()
}

/// The size that a ring of one cpu will have, as far as it is known before it is there.
pub(crate) fn ring_bytes(plan: &Plan) -> usize {
    let facts = plan.kernel.facts();
    let cpus = plan.kernel.surroundings().online_cpus().len().max(1);
    let wished = plan.pages.unwrap_or_else(|| default_pages(plan, cpus)) * page_size();
    let share = if facts.is_embedded || facts.is_simulated { None } else { share_of_user() };
    // A ring has a page more than its data, which is a power of two.
    share.map_or(wished, |share| wished.min(1 << (share / cpus as u64).max(1).ilog2()))
}

/// Bytes that this user's rings may have together; nothing if they have no limit, or none that is known.
fn share_of_user() -> Option<u64> {
    static SHARE: OnceLock<Option<u64>> = OnceLock::new();
    *SHARE.get_or_init(|| {
        let facts = Facts::gather();
        facts.ring_share_bytes().filter(|_| !facts.locks_without_limit())
    })
}
