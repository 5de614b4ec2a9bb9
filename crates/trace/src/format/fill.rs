//! Values become raw data, as the kernel lays a tracepoint's record out by its format.

use super::{Field, FieldKind, Format};

/// The value that a field of a record is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling<'a> {
    /// A number, of which a field takes as many of the lowest bytes as it has.
    Number(u64),
    /// Text or other data. A field of a fixed size takes what fits, text with a NUL behind it.
    Bytes(&'a [u8]),
}

impl Format {
    /// The raw data of a record with these values in the fields of these names, in this machine's byte order; zeros in all other
    /// fields. A value whose name no field has is left out: kernels differ in what they tell.
    pub fn fill(&self, values: &[(&str, Filling<'_>)]) -> Vec<u8> {
        let size = self.fields.iter().map(|field| field.offset.saturating_add(field.size)).max().unwrap_or(0);
        let mut data = vec![0; size.min(usize::from(u16::MAX))];
        for &(name, value) in values {
            let Some(field) = self.field(name) else { continue };
            match value {
                Filling::Number(bits) => put(&mut data, field, &bits.to_ne_bytes()[number_bytes(field.size)]),
                Filling::Bytes(bytes) => put_bytes(&mut data, field, bytes),
            }
        }
        data
    }
}

/// The bytes of a number that a field of so many takes.
fn number_bytes(size: usize) -> std::ops::Range<usize> {
    let size = size.min(8);
    if cfg!(target_endian = "big") { 8 - size..8 } else { 0..size }
}

fn put(data: &mut [u8], field: &Field, bytes: &[u8]) {
    let room = data.get_mut(field.offset..).unwrap_or_default();
    room.iter_mut().take(field.size).zip(bytes).for_each(|(to, from)| *to = *from);
}

fn put_bytes(data: &mut Vec<u8>, field: &Field, bytes: &[u8]) {
    match field.kind {
        FieldKind::Dynamic { text, relative, .. } => {
            let start = data.len();
            let Some(most) = usize::from(u16::MAX).checked_sub(start + usize::from(text)) else { return };
            data.extend(&bytes[..bytes.len().min(most)]);
            data.extend(text.then_some(0));
            let origin = if relative { field.offset.saturating_add(field.size) } else { 0 };
            let word = start.saturating_sub(origin) | (data.len() - start) << 16;
            put(data, field, &(word as u32).to_ne_bytes());
        }
        FieldKind::Text => put(data, field, &bytes[..bytes.len().min(field.size.saturating_sub(1))]),
        _ => put(data, field, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_abi::ByteOrder;

    const EXEC: &str = "name: sched_process_exec\nID: 9\nformat:\n\
                        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
                        \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
                        \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
                        \tfield:char comm[8];\toffset:16;\tsize:8;\tsigned:0;\n\
                        print fmt: \"filename=%s pid=%d comm=%s\", __get_str(filename), REC->pid, REC->comm\n";

    #[test]
    fn what_was_filled_in_is_read_again() {
        let format = Format::parse(EXEC).expect("a format");
        let values = [
            ("common_type", Filling::Number(9)),
            ("filename", Filling::Bytes(b"/bin/true")),
            ("pid", Filling::Number(-7i64 as u64)),
            ("comm", Filling::Bytes(b"a-long-name")),
            ("of_another_kernel", Filling::Number(1)),
        ];
        let data = format.fill(&values);
        assert_eq!(data.len(), 24 + "/bin/true\0".len());
        let line = format.print(&data, ByteOrder::NATIVE, &super::super::NoNames);
        assert_eq!(line, "filename=/bin/true pid=-7 comm=a-long-");
        assert_eq!(format.number("common_type", &data, ByteOrder::NATIVE), Some(9));
        assert_eq!(format.number("common_pid", &data, ByteOrder::NATIVE), Some(0));
    }

    #[test]
    fn relative_places_count_from_the_end_of_their_field() {
        let text = EXEC.replace("__data_loc", "__rel_loc");
        let format = Format::parse(&text).expect("a format");
        let data = format.fill(&[("filename", Filling::Bytes(b"x"))]);
        assert_eq!(format.text("filename", &data, ByteOrder::NATIVE), Some(&b"x"[..]));
    }

    proptest::proptest! {
        /// No format and no value makes it fail, and nothing is longer than a record's place tells.
        #[test]
        fn any_format_is_filled(
            offset in 0usize..70_000, size in 0usize..70_000, len in 0usize..70_000, kind in 0usize..4,
        ) {
            let declared = ["int x", "char x[4]", "__data_loc char[] x", "__rel_loc u8[] x"][kind];
            let line = format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
            let format = Format::parse(&format!("name: x\nID: 1\n{line}")).expect("a format");
            let bytes = vec![7; len];
            for value in [Filling::Number(u64::MAX), Filling::Bytes(&bytes)] {
                proptest::prop_assert!(format.fill(&[("x", value)]).len() <= usize::from(u16::MAX));
            }
        }
    }
}
