//! Formats as kernels write them, and data made for them.

use super::{FieldKind, Format, NoNames, SHORT};
use perfuse_abi::ByteOrder;

const COMMON: &str = "name: x
ID: 7
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

";

fn printed(fields: &str, print: &str, data: &[u8]) -> String {
    let text = format!("{COMMON}{fields}\n\nprint fmt: {print}\n");
    let format = Format::parse(&text).expect("name and number");
    let mut all = [7, 0, 0, 0, 1, 0, 0, 0].to_vec();
    all.extend(data);
    format.print(&all, ByteOrder::Little, &NoNames)
}

#[test]
fn fields_of_all_kinds() {
    let text = format!(
        "{COMMON}\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;
\tfield:unsigned long args[6];\toffset:32;\tsize:48;\tsigned:0;
\tfield:const void * call_site;\toffset:80;\tsize:8;\tsigned:0;
\tfield:__rel_loc u8[] mask;\toffset:88;\tsize:4;\tsigned:0;\n"
    );
    let format = Format::parse(&text).expect("a format");
    let kinds: Vec<_> = format.fields[2..].iter().map(|field| (field.name.as_str(), field.kind)).collect();
    let dynamic = |element, text, relative| FieldKind::Dynamic { element, text, relative };
    assert_eq!(
        kinds,
        [
            ("comm", FieldKind::Text),
            ("name", dynamic(1, true, false)),
            ("args", FieldKind::Array(8)),
            ("call_site", FieldKind::Number),
            ("mask", dynamic(1, false, true)),
        ]
    );
    assert!(!format.is_understood());
}

#[test]
fn what_tracepoints_print() {
    let a = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:u32 b;\toffset:12;\tsize:4;\tsigned:0;";
    let data = [0xfe, 0xff, 0xff, 0xff, 5, 0, 0, 0];
    for (print, expected) in [
        (r#""a=%d b=%u %%", REC->a, REC->b"#, "a=-2 b=5 %"),
        (r#""%03d|%-4u|%4x|%#lx", REC->b, REC->b, REC->b, (unsigned long)REC->b"#, "005|5   |   5|0x5"),
        (r#""%s", REC->a < 0 ? "minus" : "plus""#, "minus"),
        (r#""%d", (REC->b + 1) * 2 << 1"#, "24"),
        // The left side alone decides whether a shift keeps the sign.
        (r#""%lld %lld", REC->a >> 1, REC->a >> (REC->b - 4)"#, "-1 -1"),
        (r#""%s", __print_flags(REC->b, "|", { 1, "A" }, { 1 << 1, "B" }, { 0x4UL, "C" })"#, "A|C"),
        (r#""%s", __print_flags(REC->b, "|", { 1, "A" })"#, "A|0x4"),
        (r#""%s", __print_symbolic(REC->b, { 4, "four" }, { 5, "fi" "ve" })"#, "five"),
        (r#""%s", __print_symbolic(REC->b, { 4, "four" })"#, "0x5"),
        (r#""%u:%u", ((unsigned int) ((REC->b) >> 20)), (unsigned int)(REC->b & ((1U << 20) - 1))"#, "0:5"),
        (r#""%s%s", !REC->b ? "x" : "", REC->b ? "+" : """#, "+"),
    ] {
        assert_eq!(printed(a, print, &data), expected, "{print}");
    }
}

#[test]
fn text_and_arrays_in_the_data() {
    let fields = "\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;
\tfield:u16 list[2];\toffset:12;\tsize:4;\tsigned:0;";
    let data = [16, 0, 4, 0, 1, 0, 2, 0, b'a', b'b', 0, 0];
    assert_eq!(printed(fields, r#""%s %d", __get_str(name), REC->list[1]"#, &data), "ab 2");
    assert_eq!(printed(fields, r#""%s", __print_array(REC->list, 2, 2)"#, &data), "{0x1,0x2}");
    let probe = "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] s;\toffset:16;\tsize:4;\tsigned:1;";
    for (place, text) in [([20, 0, 0, 0], "\"(fault)\""), ([20, 0, 1, 0], "\"\"")] {
        let data = [&[0; 8][..], &place, &[0]].concat();
        assert_eq!(printed(probe, r#""\"%s\"", __get_str(s)"#, &data), text);
    }
    assert_eq!(printed(fields, r#""%s", __print_hex(REC->list, 3)"#, &data), "01 00 02");
}

#[test]
fn what_is_not_known_leaves_the_fields() {
    let fields = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;";
    for print in [
        r#""%s", strange_function(REC->a)"#,
        r#""%d", REC->gone"#,
        r#""%d", 1 / (REC->a - REC->a)"#,
        r#""%d""#,
        "nonsense",
        "\"unterminated",
    ] {
        assert_eq!(printed(fields, print, &[3, 0, 0, 0]), "a=3", "{print}");
    }
    // perf takes constants that it does not know for zero.
    assert_eq!(printed(fields, r#""%d", SOME_CONSTANT"#, &[3, 0, 0, 0]), "0");
    let deep = format!("\"%d\", {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(printed(fields, &deep, &[3, 0, 0, 0]), "a=3");
    let deep = format!("\"%d\", {}1", "!".repeat(100_000));
    assert_eq!(printed(fields, &deep, &[3, 0, 0, 0]), "a=3");
    // Operators in every tightness, and parentheses: as deep as the grammar goes.
    let rising = "1||1&&1|1^1&1==1<1<<1+1*(";
    let deep = format!("\"%d\", {}1{}", rising.repeat(190), ")".repeat(190));
    assert_ne!(printed(fields, &deep, &[3, 0, 0, 0]), "");
    assert_eq!(printed(fields, r#""%d", REC->a"#, &[]), "a=?", "data that is too short");
}

#[test]
fn long_chains_are_as_good_as_short_ones() {
    let fields = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;
\tfield:u8 list[4];\toffset:12;\tsize:4;\tsigned:0;";
    let data = [3, 0, 0, 0, 9, 8, 7, 6];
    let chain = |link: &str| format!("\"%d\", 1{}", link.repeat(28_000));
    for (link, expected) in [("+1", "28001"), ("&&1", "1"), ("&&REC->a", "1"), ("||0", "1"), ("|2", "3")] {
        assert_eq!(printed(fields, &chain(link), &data), expected, "{link}");
    }
    assert_eq!(printed(fields, &chain("<<1/REC->a"), &data), "1");
    // Elements of numbers there are none.
    let indices = format!("\"%d\", REC->list{}", "[1]".repeat(28_000));
    assert_eq!(printed(fields, &indices, &data), "a=3 list=ARRAY[09, 08, 07, 06]");
    let arguments = format!("\"{}\"{}", "%d".repeat(28_000), ", 1 ? 2 : 3".repeat(28_000));
    assert!(printed(fields, &arguments, &data).starts_with(&"2".repeat(4_000)));
}

#[test]
fn names_of_values_that_are_not_told_leave_the_others() {
    let fields = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;";
    let flags = "\"%s\", __print_flags(REC->a, \"|\", { (1UL << (NOT_TOLD)), \"ODD\" }, { 1, \"ONE\" }, { 2, \"TWO\" })";
    assert_eq!(printed(fields, flags, &[3, 0, 0, 0]), "ONE|TWO");
    let symbols = "\"%s\", __print_symbolic(REC->a, { 1 << NOT_TOLD, \"ODD\" }, { 3, \"THREE\" })";
    assert_eq!(printed(fields, symbols, &[3, 0, 0, 0]), "THREE");
}

#[test]
fn only_what_decides_is_asked() {
    let fields = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;";
    for (print, expected) in [
        ("0 && 1 / 0", "0"),
        ("5 || 1 / 0", "1"),
        ("1 && 2", "1"),
        ("0 || 0 || 7", "1"),
        ("1 && 0 || 1 && 3", "1"),
        ("REC->a ? 4 : 1 / 0", "4"),
        ("!REC->a ? 1 / 0 : REC->a == 3 ? 5 : 6", "5"),
        ("1 && 1 / 0", "a=3"),
    ] {
        assert_eq!(printed(fields, &format!("\"%d\", {print}"), &[3, 0, 0, 0]), expected, "{print}");
    }
}

/// A recording has one format and many samples: the samples' sizes bound what is made of them.
#[test]
fn a_line_is_as_long_as_its_data_lets_it_be() {
    let fields = "\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;";
    let mut data = 0x0800_000cu32.to_le_bytes().to_vec();
    data.resize(4 + 0x800, b'n');
    let long = |count: usize| format!("\"{}\"{}", "%s".repeat(count), ", __get_str(name)".repeat(count));
    let (whole, cut) = (printed(fields, &long(8), &data), printed(fields, &long(100_000), &data));
    assert_eq!(whole, "n".repeat(8 * 0x800));
    assert!(cut.ends_with("n [cut]") && cut.len() < 5000 + 9 * data.len(), "{}", cut.len());
    let cut = printed(fields, &format!("\"{}\"", "ä".repeat(500_000)), &data);
    assert!(cut.ends_with("ä [cut]") && cut.len() < 5000 + 9 * data.len(), "{}", cut.len());
    // Work that leaves no text.
    for nothing in
        ["1 ? \"\" : \"\"", "__print_symbolic(1, { 1, \"\" })", "__print_flags(0, \"\", { 1, \"\" })"]
    {
        let format = format!("\"{}\"{}", "%s".repeat(140_000), format!(", {nothing}").repeat(140_000));
        assert_eq!(printed(fields, &format, &[]).trim_start_matches('0'), " [cut]", "{nothing}");
    }
    let fields: String =
        (0..5_000).map(|n| format!("\tfield:int f{n};\toffset:8;\tsize:4;\tsigned:1;\n")).collect();
    assert_eq!(printed(&fields, "unknown", &[1, 0, 0, 0]).split(' ').count(), SHORT);
    assert_eq!(printed(&fields, "unknown", &[1; 300]).split(' ').count(), 308);
    let fields = format!("\tfield:int {};\toffset:8;\tsize:4;\tsigned:1;", "f".repeat(1 << 20));
    assert_eq!(printed(&fields, "unknown", &[1, 0, 0, 0]), "");
}

proptest::proptest! {
    #[test]
    fn nothing_in_a_print_fmt_panics(
        words in proptest::collection::vec(proptest::sample::select(&WORDS[..]), 0..60),
        data in proptest::collection::vec(0u8.., 0..24),
    ) {
        let fields = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;
\tfield:u16 list[2];\toffset:16;\tsize:4;\tsigned:0;";
        let _ = printed(fields, &format!("\"%d%s%*x%pS%.3s\", {}", words.concat()), &data);
    }
}

/// The parts of expressions, so chosen that many have a meaning.
const WORDS: [&str; 40] = [
    "1",
    "0",
    "0xffffffffffffffffUL",
    "-",
    "~",
    "!",
    "+",
    "*",
    "/",
    "%",
    "<<",
    ">>",
    "&&",
    "||",
    "?",
    ":",
    "==",
    "<",
    "(",
    ")",
    "(int)",
    "(u8)",
    "[",
    "]",
    "REC->a",
    "REC->list",
    "REC->name",
    "(REC)->a",
    "__get_str(name)",
    "__get_dynamic_array(list)",
    "__get_bitmask(list)",
    ", ",
    ", ",
    "\"text\"",
    "__print_flags(REC->a, \"|\", { 1, \"A\" })",
    "__print_symbolic(REC->a, { 1 && 0 ? 2 : 3, \"A\" })",
    "__print_hex(REC->list, 3)",
    "__print_array(REC->list, 2, 2)",
    "sizeof(int)",
    "__builtin_expect(1, 0)",
];

#[test]
fn a_broken_format_may_have_any_letters() {
    // A damaged byte becomes a letter that is longer than a byte, between the type and the name or within them.
    for declaration in
        ["int\u{fffd}nr", "pid_t prev_p\u{fffd}d", "char\u{fffd}comm[16]", "\u{fffd}", "int é\u{fffd}[4]"]
    {
        let text =
            format!("name: x\nID: 1\nformat:\n\tfield:{declaration};\toffset:8;\tsize:4;\tsigned:1;\n");
        let format = Format::parse(&text).expect("a name and a number");
        assert!(format.fields.iter().all(|field| !field.name.contains('\u{fffd}')), "{declaration}");
    }
}
