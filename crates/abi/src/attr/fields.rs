//! The members of an attr as a table: names, places, and the release that brought each.

use super::Attr;
use crate::flags::SampleType;
use crate::order::ByteOrder;
use crate::release::Release;
use crate::wire::{Layout, Reader};
use alloc::vec::Vec;
use core::fmt;
use core::mem::offset_of;

/// One member of [`Attr`] with its place and age. Union members share an entry.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The C name.
    pub name: &'static str,
    /// The other names of the same bytes.
    pub aliases: &'static [&'static str],
    /// Offset in bytes.
    pub offset: usize,
    /// The field's kind.
    pub kind: FieldKind,
    /// The first release that knows it.
    pub since: Release,
}

/// The width of an [`Attr`] member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldKind {
    /// A 16-bit number.
    U16,
    /// A 32-bit number.
    U32,
    /// A 64-bit number.
    U64,
}

impl FieldKind {
    /// Its size in bytes.
    pub const fn size(self) -> usize {
        match self {
            FieldKind::U16 => 2,
            FieldKind::U32 => 4,
            FieldKind::U64 => 8,
        }
    }
}

impl Field {
    /// The smallest published attr size that contains this field.
    pub fn attr_size(&self) -> u32 {
        let end = (self.offset + self.kind.size()) as u32;
        *Attr::SIZES.iter().find(|&&size| size >= end).expect("the table lies within the newest size")
    }

    /// Gives the field in `to` the value it has in `from`.
    pub fn copy(&self, from: &Attr, to: &mut Attr) {
        let mut image = to.image(ByteOrder::Little);
        let bytes = self.offset..self.offset + self.kind.size();
        image[bytes.clone()].copy_from_slice(&from.image(ByteOrder::Little)[bytes]);
        let written = to.layout(&mut Reader::new(&image, ByteOrder::Little));
        written.expect("the image is as large as the layout");
    }

    /// The value this field has in `attr`, zero-extended.
    pub fn get(&self, attr: &Attr) -> u64 {
        let bytes = &attr.image(ByteOrder::Little)[self.offset..][..self.kind.size()];
        bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }
}

/// Something an attr asks for that not every kernel knows, see [`Attr::requirements`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The C name of the field, or of the flag with its set: `attr.sigtrap`, `sample_type CGROUP`.
    pub set: &'static str,
    /// The flag within the set; empty for a whole field.
    pub flag: &'static str,
    /// The first release that knows it.
    pub since: Release,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.set, self.flag) {
            (field, "") => f.write_str(field),
            ("attr", flag) => flag.chars().try_for_each(|c| write!(f, "{}", c.to_ascii_lowercase())),
            (set, flag) => write!(f, "{set} {flag}"),
        }
    }
}

/// Declares the field table from the struct itself, so that offsets cannot drift.
macro_rules! fields {
    ($($rust:ident $name:literal [$($alias:literal),*] $kind:ident $since:expr;)+) => {
        &[$(Field {
            name: $name,
            aliases: &[$($alias),*],
            offset: offset_of!(Attr, $rust),
            kind: FieldKind::$kind,
            since: $since,
        }),+]
    };
}

impl Attr {
    /// Every member in order. The single flags of the bit-field are in [`AttrFlags::SINCE`](crate::AttrFlags::SINCE), those of
    /// `aux_action` in [`AuxAction::SINCE`](crate::AuxAction::SINCE).
    pub const FIELDS: &'static [Field] = fields! {
        type_ "type" [] U32 Release::v2_6(31);
        size "size" [] U32 Release::v2_6(31);
        config "config" [] U64 Release::v2_6(31);
        sample_period "sample_period" ["sample_freq"] U64 Release::v2_6(31);
        sample_type "sample_type" [] U64 Release::v2_6(31);
        read_format "read_format" [] U64 Release::v2_6(31);
        flags "flags" [] U64 Release::v2_6(31);
        wakeup "wakeup_events" ["wakeup_watermark"] U32 Release::v2_6(31);
        bp_type "bp_type" [] U32 Release::v2_6(33);
        config1 "config1" ["bp_addr", "kprobe_func", "uprobe_path"] U64 Release::v2_6(33);
        config2 "config2" ["bp_len", "kprobe_addr", "probe_offset"] U64 Release::v2_6(33);
        branch_sample_type "branch_sample_type" [] U64 Release::new(3, 4);
        sample_regs_user "sample_regs_user" [] U64 Release::new(3, 7);
        sample_stack_user "sample_stack_user" [] U32 Release::new(3, 7);
        clockid "clockid" [] U32 Release::new(4, 1);
        sample_regs_intr "sample_regs_intr" [] U64 Release::new(3, 19);
        aux_watermark "aux_watermark" [] U32 Release::new(4, 1);
        sample_max_stack "sample_max_stack" [] U16 Release::new(4, 8);
        reserved_2 "__reserved_2" [] U16 Release::new(4, 8);
        aux_sample_size "aux_sample_size" [] U32 Release::new(5, 5);
        aux_action "aux_action" [] U32 Release::new(6, 13);
        sig_data "sig_data" [] U64 Release::new(5, 13);
        config3 "config3" [] U64 Release::new(6, 3);
        config4 "config4" [] U64 Release::new(6, 19);
    };

    /// The smallest published size that holds every non-zero field.
    pub fn min_size(&self) -> u32 {
        let used = Self::FIELDS.iter().filter(|field| field.get(self) != 0);
        used.map(Field::attr_size).max().unwrap_or(Self::SIZE_VER0)
    }

    /// Features of this attr that came after the first published ABI, oldest first: the reasons for
    /// which an older kernel would answer `E2BIG` or `EINVAL`.
    ///
    /// ```
    /// use perfuse_abi::{Attr, AttrFlags, EventType, Release};
    /// let mut attr = Attr::new(EventType::SOFTWARE);
    /// attr.flags |= AttrFlags::INHERIT | AttrFlags::INHERIT_THREAD;
    /// let newest = attr.requirements().pop().unwrap();
    /// assert_eq!((newest.to_string().as_str(), newest.since), ("inherit_thread", Release::new(5, 13)));
    /// ```
    pub fn requirements(&self) -> Vec<Requirement> {
        let mut all = Vec::new();
        let mut add = |set, flag, since| {
            if since > Release::v2_6(31) {
                all.push(Requirement { set, flag, since });
            }
        };
        for field in Self::FIELDS.iter().filter(|field| field.get(self) != 0) {
            add(field.name, "", field.since);
        }
        self.flags.iter_names().for_each(|(name, flag)| add("attr", name, flag.since()));
        self.sample_type.iter_names().for_each(|(name, flag)| add("sample_type", name, flag.since()));
        self.read_format.iter_names().for_each(|(name, flag)| add("read_format", name, flag.since()));
        self.aux_action.iter_names().for_each(|(name, flag)| add("aux_action", name, flag.since()));
        if self.sample_type.contains(SampleType::BRANCH_STACK) {
            let branches = self.branch_sample_type;
            branches.iter_names().for_each(|(name, flag)| add("branch_sample_type", name, flag.since()));
        }
        all.sort_by_key(|requirement| requirement.since);
        all
    }
}
