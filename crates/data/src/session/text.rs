//! Changes that the kernel made to its own code while it ran.

use perfuse_abi::record::TextPoke;
use std::collections::BTreeMap;

/// More changed bytes than this are not kept.
const MOST: usize = 1 << 20;

/// The kernel's code as it differs, at a moment, from that in its file: jumps that were switched on and off,
/// probes, trampolines. Disassembling or decoding a trace needs the code as it ran then.
#[derive(Debug, Default)]
pub struct KernelText {
    changed: BTreeMap<u64, u8>,
    pokes: u64,
}

impl KernelText {
    /// How often the kernel changed its code up to now.
    pub fn pokes(&self) -> u64 {
        self.pokes
    }

    /// Turns the bytes that the kernel's file has at an address into those that were there. Says how many of
    /// them the kernel wrote.
    pub fn apply(&self, address: u64, bytes: &mut [u8]) -> usize {
        let Some(last) = address.checked_add(bytes.len() as u64).and_then(|end| end.checked_sub(1)) else {
            return 0;
        };
        if bytes.is_empty() {
            return 0;
        }
        let changed = self.changed.range(address..=last);
        changed.map(|(&at, &byte)| bytes[(at - address) as usize] = byte).count()
    }

    pub(super) fn poke(&mut self, poke: &TextPoke<'_>) {
        self.pokes += 1;
        // Code that was added has no old bytes, and code that was removed no new ones.
        let gone = poke.addr..poke.addr.saturating_add(poke.old.len() as u64);
        if poke.new.len() < poke.old.len() {
            let gone: Vec<u64> = self.changed.range(gone).map(|(&at, _)| at).collect();
            gone.iter().for_each(|at| _ = self.changed.remove(at));
        }
        if self.changed.len() + poke.new.len() <= MOST {
            let addresses = (0..).map_while(|n| poke.addr.checked_add(n));
            self.changed.extend(addresses.zip(poke.new.iter().copied()));
        }
    }
}
