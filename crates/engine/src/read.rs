//! `read(2)` of an event (section E), and the values that go into samples and records.

use crate::engine::Engine;
use crate::event::{EventKey, State};
use crate::pmu::Transaction;
use alloc::vec::Vec;
use perfuse_abi::read::{ReadEntry, ReadValues, Times};
use perfuse_abi::{ByteOrder, Errno, ReadFormat};

impl Engine {
    /// Reads the values of an event into `bytes`, which are replaced; nothing for an event in the error
    /// state (rule E1). `room`: what the caller has place for; `ENOSPC` if that is too little. `ECHILD`
    /// where a group and the copies of it in child tasks have not the same members (rule D12).
    pub fn read(&mut self, event: EventKey, now: u64, room: usize, bytes: &mut Vec<u8>) -> Result<(), Errno> {
        bytes.clear();
        if self.events.get(event).ok_or(Errno::EBADF)?.state == State::Error {
            return Ok(());
        }
        if room < self.read_len(event) {
            return Err(Errno::ENOSPC);
        }
        let mut words = Vec::new();
        let values = self.values(event, now, true, &mut words)?;
        values.encode(ByteOrder::NATIVE, bytes).map_err(|_| Errno::EFAULT)
    }

    /// The values of an event in its own format. `family`: with the copies in child tasks; else only what
    /// this very event counted.
    pub(crate) fn values<'w>(
        &mut self,
        event: EventKey,
        now: u64,
        family: bool,
        words: &'w mut Vec<u64>,
    ) -> Result<ReadValues<'w>, Errno> {
        let format = self.events[event].attr().read_format;
        let group = format.contains(ReadFormat::GROUP);
        let members = if group { self.group_of(event) } else { Vec::from([event]) };
        let leader = members[0];
        if group && family {
            let own = &self.events[leader];
            let (generation, siblings) = (own.group_generation, own.siblings.len());
            for child in own.children.values() {
                let child = &self.events[*child];
                if child.group_generation != generation || child.siblings.len() != siblings {
                    return Err(Errno::ECHILD);
                }
            }
        }
        self.refresh(&members, family, now);
        let times = self.total_times(leader, now, family);
        // Rule D14: what is shown last is what the copies lost, which is told to their originals.
        let copied = group && family && !self.events[leader].children.is_empty();
        let entries: Vec<ReadEntry> = members
            .iter()
            .map(|&member| {
                let original = &self.events[self.events[member].original()];
                let value = if family { self.total_count(member) } else { self.events[member].hw.count };
                let lost = if copied { 0 } else { self.events[member].lost };
                ReadEntry::new(value).with_id(original.id).with_lost(lost)
            })
            .collect();
        ReadValues::build(words, format, times, entries.into_iter()).map_err(|_| Errno::EINVAL)
    }

    /// Brings counts up to date: those of a group in one transaction (rule E8).
    fn refresh(&mut self, members: &[EventKey], family: bool, now: u64) {
        let (place, on) = (self.events[members[0]].place, self.events[members[0]].on);
        if let (Some(cpu), Some(pmu)) = (on, self.pmus.driver(place)) {
            pmu.start_txn(cpu, Transaction::Read);
        }
        for &member in members {
            self.update_count(member, now);
            if family {
                for child in self.copies_of(member) {
                    self.update_count(child, now);
                }
            }
        }
        if let (Some(cpu), Some(pmu)) = (on, self.pmus.driver(place)) {
            // Reading does not run out of room.
            let _ = pmu.commit_txn(cpu);
        }
    }

    /// The count with all children's (rule D10).
    pub(crate) fn total_count(&self, event: EventKey) -> u64 {
        let own = &self.events[event];
        let live = own.children.values().map(|&child| self.events[child].hw.count);
        live.fold(own.hw.count.wrapping_add(own.child_count), u64::wrapping_add)
    }

    /// The times with all children's.
    pub(crate) fn total_times(&self, event: EventKey, now: u64, family: bool) -> Times {
        let own = &self.events[event];
        let times = self.times_of(event, now);
        let mut sum = Times { enabled_ns: times.enabled, running_ns: times.running };
        if family {
            sum.enabled_ns += own.child_enabled;
            sum.running_ns += own.child_running;
            for &child in own.children.values() {
                let times = self.times_of(child, now);
                sum.enabled_ns += times.enabled;
                sum.running_ns += times.running;
            }
        }
        sum
    }
}
