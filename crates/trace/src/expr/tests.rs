//! What expressions mean, what is told of those that mean nothing, and the kernel's share of them.

use super::*;
use crate::Format;
use perfuse_abi::ByteOrder;
use proptest::prelude::*;
use std::borrow::Cow;

const FORMAT: &str = "name: thing
ID: 7
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:char comm[8];\toffset:8;\tsize:8;\tsigned:0;
\tfield:s8 tiny;\toffset:16;\tsize:1;\tsigned:1;
\tfield:u8 byte;\toffset:17;\tsize:1;\tsigned:0;
\tfield:s16 small;\toffset:18;\tsize:2;\tsigned:1;
\tfield:u32 word;\toffset:20;\tsize:4;\tsigned:0;
\tfield:long id;\toffset:24;\tsize:8;\tsigned:1;
\tfield:unsigned long big;\toffset:32;\tsize:8;\tsigned:0;
\tfield:unsigned long args[2];\toffset:40;\tsize:16;\tsigned:0;
\tfield:__data_loc char[] path;\toffset:56;\tsize:4;\tsigned:0;
\tfield:const char * filename;\toffset:64;\tsize:8;\tsigned:0;
";

const EXTRAS: &[Extra] = &[
    Extra { name: "cpu", kind: Kind::Unsigned },
    Extra { name: "tid", kind: Kind::Unsigned },
    Extra { name: "time", kind: Kind::Unsigned },
    Extra { name: "comm", kind: Kind::Text },
    Extra { name: "sym", kind: Kind::Text },
];

struct Made(Vec<u8>);

impl Record for Made {
    fn data(&self) -> &[u8] {
        &self.0
    }

    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }

    fn number(&self, extra: usize) -> Option<u64> {
        [Some(3), Some(77), None].get(extra).copied().flatten()
    }

    fn text(&self, extra: usize) -> Option<Cow<'_, [u8]>> {
        (extra == 3).then(|| b"sampled".as_slice().into())
    }
}

/// tiny -3, byte 250, small -300, word 0xffff_fff0, id -2, big 2^63 + 1, args 5 and 6, path /etc/hosts, comm bash
fn data() -> Vec<u8> {
    let mut data = vec![7, 0, 0, 0, 77, 0, 0, 0];
    data.extend(b"bash\0\0\0\0");
    data.extend((-3i8).to_le_bytes());
    data.push(250);
    data.extend((-300i16).to_le_bytes());
    data.extend(0xffff_fff0u32.to_le_bytes());
    data.extend((-2i64).to_le_bytes());
    data.extend(((1u64 << 63) + 1).to_le_bytes());
    data.extend(5u64.to_le_bytes());
    data.extend(6u64.to_le_bytes());
    data.extend((72u32 | 11 << 16).to_le_bytes());
    data.extend([0; 4]);
    data.extend(0xdeadu64.to_le_bytes());
    data.extend(b"/etc/hosts\0");
    data
}

fn format() -> Format {
    Format::parse(FORMAT).expect("a format")
}

fn admits(text: &str) -> bool {
    let format = format();
    let schema = Schema { format: Some(&format), extras: EXTRAS };
    let expr: Expr = text.parse().unwrap_or_else(|error| panic!("{error}"));
    expr.bind(&schema).unwrap_or_else(|error| panic!("{error}")).admits(&Made(data()))
}

fn refusal(text: &str) -> String {
    let format = format();
    let schema = Schema { format: Some(&format), extras: EXTRAS };
    match text.parse::<Expr>().and_then(|expr| expr.bind(&schema)) {
        Ok(_) => panic!("{text} means something"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn tests_hold_for_what_the_record_says() {
    for text in [
        "tiny == -3",
        "tiny < 0 && byte > 0",
        "byte == 250",
        // The kernel cuts numbers to the size of the field.
        "byte == 506",
        "tiny == 253",
        "word == 0xfffffff0",
        "id == -2 && id < 0",
        "big > 0x7fffffffffffffff",
        "big > id",
        "-3 == tiny",
        "1 < word",
        "byte & 2",
        "!(byte & 1)",
        "byte & 0x10 == 0x10",
        "byte | 5 == 255",
        "word >> 4 == 0xfffffff",
        "byte - 251 < 0",
        "small * 2 + 600 == 0",
        "~tiny == 2",
        "byte % 100 / 10 == 5",
        "args[0] == 5 && args[1] == 6 && args[args[0] - 4] == 6",
        "comm == 'bash' && comm != \"sh\"",
        "comm ~ '*sh' && comm ~ 'b*' && comm ~ '*as*' && comm ~ 'b?s[f-h]'",
        "comm !~ 'z*' && comm ~ '!z*'",
        "path =~ '^/etc/(hosts|passwd)$'",
        "path == '/etc/hosts'",
        "comm in {'sh', 'bash'} && comm not in ('zsh')",
        "byte in {1, 200..255} && tiny in {-5..-1} && byte not in {0..249, 251..255}",
        "sample.comm == 'sampled' && cpu == 3 && CPU < 4 && tid == common_pid",
        "!tiny == 4",
        "!!(tiny == -3)",
        "tiny == 1 || tiny == 2 || id == -ENOENT",
        "(tiny == -3) == (byte == 250)",
        "filename == 0xdead && filename > 4ms - 3999us",
        // Where there is no value, no test holds.
        "!(time == 0) && !(time != 0) && !(byte / (tid - 77) == 0) && !(args[2] == 0)",
    ] {
        assert!(admits(text), "{text}");
    }
    for text in [
        "tiny == 3",
        "byte & 4 == 0 && byte & 4",
        "comm ~ 'as*'",
        "time > 0",
        "sym == 'x'",
        "args[9]",
        "tiny & 0x100",
        "tiny & 0x100 == 1",
    ] {
        assert!(!admits(text), "{text}");
    }
}

#[test]
fn what_means_nothing_is_told_with_its_place() {
    for (text, column, why) in [
        ("", 1, "expected a field, a number or a text"),
        ("tiny ==", 8, "expected a field, a number or a text"),
        ("tiny = 4", 6, "equality is =="),
        ("1 < tiny < 4", 10, "join two of them by &&"),
        ("tiny == 4 and byte == 3", 11, "and is written &&"),
        ("(tiny == 4", 11, "expected ')'"),
        ("tiny == 4)", 10, "expected an operator"),
        ("tiny == 'x", 9, "never closed"),
        ("tiny == 12kk", 9, "no number of 64 bits"),
        ("tiny == 99999999999999999999", 9, "no number of 64 bits"),
        ("tiny # 4", 6, "'#' means nothing here"),
        ("timy == 4", 1, "there is no field of thing 'timy'; did you mean tiny or time?"),
        ("comm == bash", 9, "a text stands in quotation marks: 'bash'"),
        ("comm == 4", 1, "this is a text"),
        ("comm < 'b'", 1, "texts are not compared by <"),
        ("tiny == 'x'", 1, "this is a number"),
        ("tiny ~ 'x'", 1, "this is a number; ~ is for texts"),
        ("comm ~ x", 8, "expected a pattern"),
        ("comm =~ '('", 1, ""),
        ("args == 4", 1, "args is an array: its elements are args[0]"),
        ("tiny[0] == 4", 1, "only fields that are arrays"),
        ("filename == '/x'", 1, "has the text's address alone"),
        ("id.function == 4", 1, "only the kernel can evaluate .function"),
        ("comm", 1, "neither true nor false"),
        ("comm in {1}", 1, "a set has numbers or texts"),
        ("tiny in 4", 9, "expected a set"),
        ("tiny in {x}", 10, "a set has numbers and texts"),
        ("tiny not 4", 10, "expected in"),
    ] {
        let said = refusal(text);
        assert!(said.contains(&format!("column {column}:")) && said.contains(why), "{text}: {said}");
    }
    let error = "ünter == 4".parse::<Expr>().unwrap().bind(&Schema::of(&format())).unwrap_err();
    assert!(error.is_unknown_name());
    assert_eq!(
        error.explain(),
        "there is no field of thing 'ünter'; there are comm, tiny, byte, small, word, id, big, args, path, filename\n  ünter == 4\n  ^^^^^"
    );
    let deep = "(".repeat(1000) + "1" + &")".repeat(1000);
    let chain = vec!["1"; 1000].join(" + ");
    let nots = "!".repeat(1000) + "tiny";
    for text in [deep, chain, nots, "-".repeat(1000) + "1", "a".repeat(1 << 20)] {
        assert!(text.parse::<Expr>().is_err());
    }
    assert!(admits(&vec!["tiny == -3"; 4000].join(" && ")));
}

#[test]
fn the_kernel_is_told_what_it_can_do() {
    let format = format();
    let schema = Schema { format: Some(&format), extras: EXTRAS };
    let part = |text: &str| text.parse::<Expr>().unwrap().kernel_part(&schema);
    for (text, filter) in [
        ("id == 4", "id == 4"),
        ("4 < id", "id > 4"),
        ("id in {1, 3..5}", "(id == 1 || (id >= 3 && id <= 5))"),
        ("id not in {1}", "!(id == 1)"),
        ("byte & 4", "byte & 4"),
        ("byte & 4 == 0", "!(byte & 4)"),
        ("byte & 4 == 4", "byte & 4"),
        ("byte", "byte != 0"),
        ("path ~ '*.conf' && tid == 4", "path ~ \"*.con\\f\" && common_pid == 4"),
        ("comm == 'a\"b' || cpu < 4", "(comm == 'a\"b' || cpu < 4)"),
        ("id == -ENOENT", "id == -2"),
        ("filename == '/x'", "filename == \"/x\""),
    ] {
        let part = part(text);
        assert_eq!((part.filter.as_deref(), part.rest), (Some(filter), None), "{text}");
    }
    for (text, filter, rest, why) in [
        ("id == 4 && path =~ 'x'", Some("id == 4"), "(path =~ 'x')", "regular expressions"),
        ("id == 4 || path =~ 'x'", None, "(id == 4 || path =~ 'x')", "regular expressions"),
        ("id + 1 == 4", None, "(id + 1 == 4)", "arithmetic"),
        ("id == small && byte > 3", Some("byte > 3"), "(id == small)", "not with another field"),
        ("args[0] == 4", None, "(args[0] == 4)", "arrays"),
        ("time > 4", None, "(time > 4)", "when the sample is taken"),
        ("byte == -4", None, "(byte == -4)", "negative"),
        ("byte & 6 == 6", None, "(byte & 6 == 6)", "any of some bits"),
    ] {
        let part = part(text);
        assert_eq!(part.filter.as_deref(), filter, "{text}");
        assert_eq!(part.rest.map(|rest| rest.to_string()).as_deref(), Some(rest), "{text}");
        assert!(part.why.as_deref().is_some_and(|told| told.contains(why)), "{text}: {:?}", part.why);
    }
}

/// What `trace_events_filter.c` does with a field and a number, written down by itself.
fn kernel_compares(name: &str, sign: &str, number: i64, data: &[u8]) -> Option<bool> {
    macro_rules! with {
        ($type:ty, $at:expr) => {{
            let size = std::mem::size_of::<$type>();
            let is = <$type>::from_le_bytes(data[$at..$at + size].try_into().unwrap());
            let number = number as $type;
            match sign {
                "==" => is == number,
                "!=" => is != number,
                "<" => is < number,
                "<=" => is <= number,
                ">" => is > number,
                ">=" => is >= number,
                _ => is & number != 0,
            }
        }};
    }
    Some(match name {
        "tiny" => with!(i8, 16),
        "small" => with!(i16, 18),
        "id" => with!(i64, 24),
        // kstrtoull(9) takes no sign.
        _ if number < 0 => return None,
        "byte" => with!(u8, 17),
        "word" => with!(u32, 20),
        _ => with!(u64, 32),
    })
}

proptest! {
    #[test]
    fn filters_of_the_kernel_mean_what_it_means(
        bytes in proptest::collection::vec(any::<u8>(), 40),
        tests in proptest::collection::vec((0..6usize, 0..7usize, prop_oneof![any::<i64>(), -300..300i64, Just(250), (0..63u32).prop_map(|bit| 1 << bit)], any::<bool>()), 1..6),
        ands in proptest::collection::vec(any::<bool>(), 6),
    ) {
        let mut all = data();
        all[..40].copy_from_slice(&bytes);
        // `&&` before `||`, as in C.
        let (mut text, mut any, mut every) = (String::new(), false, true);
        for (index, (field, sign, number, not)) in tests.iter().enumerate() {
            let name = ["tiny", "small", "id", "byte", "word", "big"][*field];
            let sign = ["==", "!=", "<", "<=", ">", ">=", "&"][*sign];
            let Some(holds) = kernel_compares(name, sign, *number, &all) else { return Ok(()) };
            if index > 0 {
                text += if ands[index] { " && " } else { "||" };
                if !ands[index] {
                    any |= std::mem::replace(&mut every, true);
                }
            }
            text += &format!("{}{name}{sign}{number}", if *not { "!" } else { "" });
            every &= holds != *not;
        }
        let format = format();
        let schema = Schema { format: Some(&format), extras: EXTRAS };
        let expr: Expr = text.parse().unwrap();
        let record = Made(all);
        prop_assert_eq!(expr.bind(&schema).unwrap().admits(&record), any || every, "{}", text);
        // And the words for the kernel mean the same again.
        let part = expr.kernel_part(&schema);
        prop_assert_eq!(part.rest, None);
        let told: Expr = part.filter.unwrap().parse().unwrap();
        prop_assert_eq!(told.bind(&schema).unwrap().admits(&record), any || every, "{}", told);
    }

    #[test]
    fn parts_of_an_expression_hold_together_when_it_does(
        bytes in proptest::collection::vec(any::<u8>(), 40),
        picks in proptest::collection::vec(0..10usize, 1..6),
    ) {
        let tests = [
            "tiny < 0", "byte in {0..99, 200}", "word + 1 > id", "!(small == 3 || byte & 3)", "args[0] == 5",
            "comm =~ '[a-z]'", "big > id || cpu == 3", "byte & 12 == 12", "tid == common_pid", "id % 2",
        ];
        let text = picks.iter().map(|&pick| format!("({})", tests[pick])).collect::<Vec<_>>().join(" && ");
        let mut all = data();
        all[..40].copy_from_slice(&bytes);
        let record = Made(all);
        let format = format();
        let schema = Schema { format: Some(&format), extras: EXTRAS };
        let expr: Expr = text.parse().unwrap();
        let part = expr.kernel_part(&schema);
        let holds = |expr: Option<Expr>| expr.is_none_or(|expr| expr.bind(&schema).unwrap().admits(&record));
        let both = holds(part.filter.map(|filter| filter.parse().unwrap())) && holds(part.rest);
        // `tid` is the thread that the data names too, in real records.
        if !text.contains("tid") {
            prop_assert_eq!(both, holds(Some(expr)), "{}", text);
        }
    }

    #[test]
    fn nothing_makes_it_fail(text in "[a-z0-9 ()\\[\\]{}<>=!~&|+*/%'\".,-]{0,60}", bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
        if let Ok(expr) = text.parse::<Expr>() {
            let format = format();
            let schema = Schema { format: Some(&format), extras: EXTRAS };
            let _ = expr.kernel_part(&schema);
            if let Ok(bound) = expr.bind(&schema) {
                let _ = bound.admits(&Made(bytes));
            }
        }
    }
}
