//! An attr for people: one line in the style of `perf evlist -v`.

use super::Attr;
use crate::event::{CacheEvent, EventType, Hardware, Software};
use crate::flags::AttrFlags;
use bitflags::Flags;
use core::fmt;

impl fmt::Display for Attr {
    /// One line in the style of `perf evlist -v`: type, size and config, then whatever is not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type: {}, size: {}, config: {:#x}", self.type_, self.size, self.config)?;
        match self.type_ {
            EventType::HARDWARE => {
                if let Some(name) = Hardware::from_config(self.config).0.header_name() {
                    write!(f, " ({name})")?;
                }
            }
            EventType::SOFTWARE => {
                if let Some(name) = Software(self.config).header_name() {
                    write!(f, " ({name})")?;
                }
            }
            EventType::HW_CACHE => {
                let event = CacheEvent::from_config(self.config).0;
                let names = (event.result.header_name(), event.op.header_name(), event.cache.header_name());
                if let (Some(result), Some(op), Some(cache)) = names {
                    write!(f, " ({result} | {op} | {cache})")?;
                }
            }
            _ => {}
        }
        let number = |f: &mut fmt::Formatter<'_>, name: &str, value: u64| match value {
            0 => Ok(()),
            _ => write!(f, ", {name}: {value}"),
        };
        let hex = |f: &mut fmt::Formatter<'_>, name: &str, value: u64| match value {
            0 => Ok(()),
            _ => write!(f, ", {name}: {value:#x}"),
        };
        number(f, "{ sample_period, sample_freq }", self.sample_period)?;
        set(f, "sample_type", self.sample_type)?;
        set(f, "read_format", self.read_format)?;
        for bit in (0..64).map(|n| AttrFlags::from_bits_retain(1 << n)) {
            if bit == AttrFlags::from_bits_retain(1 << 15) {
                number(f, "precise_ip", u64::from(self.flags.precise_ip()))?;
            } else if self.flags.contains(bit) && !AttrFlags::PRECISE_IP_MASK.contains(bit) {
                match bit.iter_names().next() {
                    Some((name, _)) => {
                        f.write_str(", ")?;
                        name.chars().try_for_each(|c| write!(f, "{}", c.to_ascii_lowercase()))?;
                        f.write_str(": 1")?;
                    }
                    None => write!(f, ", reserved bit {}: 1", bit.bits().trailing_zeros())?,
                }
            }
        }
        number(f, "{ wakeup_events, wakeup_watermark }", self.wakeup.into())?;
        number(f, "bp_type", self.bp_type.0.into())?;
        hex(f, "{ bp_addr, config1 }", self.config1)?;
        hex(f, "{ bp_len, config2 }", self.config2)?;
        set(f, "branch_sample_type", self.branch_sample_type)?;
        hex(f, "sample_regs_user", self.sample_regs_user)?;
        number(f, "sample_stack_user", self.sample_stack_user.into())?;
        if self.flags.contains(AttrFlags::USE_CLOCKID) || self.clockid != 0 {
            write!(f, ", clockid: {}", self.clockid)?;
        }
        hex(f, "sample_regs_intr", self.sample_regs_intr)?;
        number(f, "aux_watermark", self.aux_watermark.into())?;
        number(f, "sample_max_stack", self.sample_max_stack.into())?;
        number(f, "aux_sample_size", self.aux_sample_size.into())?;
        for (name, _) in self.aux_action.iter_names() {
            let name = match name {
                "START_PAUSED" => "aux_start_paused",
                "PAUSE" => "aux_pause",
                _ => "aux_resume",
            };
            write!(f, ", {name}: 1")?;
        }
        hex(f, "sig_data", self.sig_data)?;
        hex(f, "config3", self.config3)?;
        hex(f, "config4", self.config4)
    }
}

/// `, name: A|B|0x100` for a flag set that is not empty; bits without a name follow in hexadecimal.
fn set<F: Flags<Bits = u64>>(f: &mut fmt::Formatter<'_>, name: &str, flags: F) -> fmt::Result {
    if flags.bits() == 0 {
        return Ok(());
    }
    write!(f, ", {name}: ")?;
    let (mut between, mut named) = ("", flags.iter_names());
    for (flag, _) in named.by_ref() {
        write!(f, "{between}{flag}")?;
        between = "|";
    }
    match named.remaining().bits() {
        0 => Ok(()),
        unknown => write!(f, "{between}{unknown:#x}"),
    }
}
