//! Text written as the kernel writes it is read again, whatever the names are; any other text is refused, or read without a panic.

use perfuse_proc::{Map, Stat, Status, maps};
use proptest::collection::vec;
use proptest::prelude::*;

/// Names as paths and threads have them: any bytes but newlines and NULs.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(b')'), Just(b'('), Just(b' '), Just(b':'), 1u8..=9, 11u8..];
    vec(byte, 0..20)
}

fn line(map: &Map<'_>) -> Vec<u8> {
    let bit = |bit, letter| if map.prot & bit != 0 { letter } else { '-' };
    let (read, write, exec) = (bit(1, 'r'), bit(2, 'w'), bit(4, 'x'));
    let shared = if map.shared { 's' } else { 'p' };
    let (major, minor) = map.device;
    let fields = format!(
        "{:08x}-{:08x} {read}{write}{exec}{shared} {:08x} {major:02x}:{minor:02x} {}",
        map.start, map.end, map.offset, map.inode
    );
    let mut line = format!("{fields:<72} ").into_bytes();
    line.extend(map.name);
    line
}

proptest! {
    #[test]
    fn maps_are_read_as_they_are_written(
        range: (u64, u64), prot in 0u32..8, shared: bool, offset: u64, device: (u32, u32), inode: u64, name in name()
    ) {
        let name = [b"/", &name[..]].concat();
        let (start, end) = (range.0.min(range.1), range.0.max(range.1));
        let map = Map { start, end, prot, shared, offset, device, inode, name: &name };
        let line = line(&map);
        prop_assert_eq!(Map::parse(&line), Some(map));
        let twice = [&line[..], b"\n", &line[..], b"\n"].concat();
        prop_assert_eq!(maps(&twice).collect::<Vec<_>>(), [map; 2]);
        // Cut anywhere, it is refused or told with a shorter name.
        for end in 0..line.len() {
            if let Some(cut) = Map::parse(&line[..end]) {
                prop_assert!(name.starts_with(cut.name) && (cut.start, cut.end) == (map.start, map.end));
            }
        }
    }

    #[test]
    fn stat_is_read_whatever_the_name_is(name in name(), numbers in vec(any::<u64>(), 1..50)) {
        let mut text = b"1 (".to_vec();
        text.extend(&name);
        text.extend(b") S");
        numbers.iter().for_each(|number| text.extend(format!(" {number}").bytes()));
        text.push(b'\n');
        let stat = Stat::parse(&text).expect("a line");
        prop_assert_eq!((stat.name, stat.state()), (&name[..], 'S'));
        for (index, number) in numbers.iter().enumerate() {
            prop_assert_eq!(stat.number(4 + index), Some(*number));
        }
        prop_assert_eq!(stat.number(4 + numbers.len()), None);
    }

    #[test]
    fn arbitrary_texts_do_no_harm(text in vec(prop_oneof![any::<u8>(), Just(b' '), Just(b'-'), Just(b':')], 0..200)) {
        let _ = maps(&text).count();
        if let Some(stat) = Stat::parse(&text) {
            let _ = (stat.state(), stat.parent(), stat.fields().count());
        }
        let text = String::from_utf8_lossy(&text);
        let status = Status(&text);
        let _ = (status.process(), status.state(), status.set("SigIgn"), status.words("Uid").count());
    }
}
