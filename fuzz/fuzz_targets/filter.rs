//! Filters, formats of tracepoints and records, all of them arbitrary: a filter, an empty line, a format, an empty line, data. Nothing
//! panics, faults can be printed, and the kernel's share and the rest of a filter hold together when it does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_trace::abi::ByteOrder;
use perfuse_trace::{Expr, Format, NoNames, RawRecord, Schema};

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(3, |&byte| byte == 0xff);
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or(&[])).into_owned();
    let (filter, format) = (text(), text());
    let data = parts.next().unwrap_or(&[]);
    let Some(format) = Format::parse(&format) else { return };
    let _ = format.print(data, ByteOrder::Little, &NoNames);
    let schema = Schema::of(&format);
    let record = RawRecord::new(data, ByteOrder::Little);
    let expr: Expr = match filter.parse() {
        Ok(expr) => expr,
        Err(error) => return assert!(error.explain().contains('^')),
    };
    let bound = match expr.bind(&schema) {
        Ok(bound) => bound,
        Err(error) => return assert!(error.explain().contains('^')),
    };
    let holds = |expr: Option<Expr>| {
        expr.is_none_or(|expr| expr.bind(&schema).is_ok_and(|bound| bound.admits(&record)))
    };
    let part = expr.kernel_part(&schema);
    // What lies behind a pointer is the kernel's alone.
    if !bound_to_pointers(&format) {
        let told = part.filter.map(|filter| filter.parse().expect("the kernel's words are an expression"));
        assert_eq!(holds(told) && holds(part.rest), bound.admits(&record), "{expr}");
    }
});

fn bound_to_pointers(format: &Format) -> bool {
    format.fields.iter().any(|field| field.type_name.contains("char *"))
}
