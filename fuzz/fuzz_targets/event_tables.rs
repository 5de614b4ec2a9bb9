//! A vendor's table, or the definition of a metric, as arbitrary text: reading never panics, what was read has a
//! value and asks for names, and a definition prints as one that is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_events::{Context, Expression, Tables};

/// Answers everything.
struct Facts;

impl Context for Facts {
    fn literal(&self, name: &str) -> Option<f64> {
        Some(name.len() as f64 - 7.0)
    }

    fn has_event(&self, name: &str) -> Option<bool> {
        Some(name.len() % 2 == 0)
    }

    fn is_cpu(&self, pattern: &str) -> Option<bool> {
        Some(pattern.len() % 2 == 1)
    }

    fn value(&self, name: &str) -> Option<f64> {
        Some(name.len() as f64 * 1e3)
    }

    fn source_count(&self, _name: &str) -> Option<f64> {
        Some(2.0)
    }
}

fn try_definition(definition: &Expression) {
    definition.value(&Facts);
    definition.names(&Facts);
    let printed = definition.to_string();
    let again: Expression = printed.parse().expect("what was printed can be parsed");
    assert_eq!(&again, definition, "{printed}");
}

fuzz_target!(|text: &str| {
    if let Ok(definition) = text.parse::<Expression>() {
        try_definition(&definition);
    }
    let mut tables = Tables::default();
    tables.read(text, "table");
    for metric in &tables.metrics {
        try_definition(&metric.expression);
        metric.threshold.iter().for_each(try_definition);
    }
    for name in tables.events("cpu", true) {
        assert!(tables.event("cpu", true, &name).is_some());
    }
});
