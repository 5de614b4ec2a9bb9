//! Printing and parsing are inverse, and no text makes the parser panic.

use perfuse_events::{Event, EventList, Expression, Function, Item, NoCatalogue, Operator, Span};
use proptest::prelude::*;

/// The list without its text and the places in it, which white space changes.
fn bare(mut list: EventList) -> EventList {
    fn clear(event: &mut Event) {
        event.at = Span::default();
        event.terms.iter_mut().flatten().for_each(|term| term.at = Span::default());
    }
    list.text.clear();
    for item in &mut list.items {
        match item {
            Item::Single(event) => clear(event),
            Item::Group(group) => {
                group.modifiers_at = Span::default();
                group.events.iter_mut().for_each(clear);
            }
        }
    }
    list
}

fn event() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        prop::sample::select(perfuse_events::known_names()).prop_map(str::to_owned),
        "r[0-9a-f]{1,16}",
        "[0-9]{1,5}:0x[0-9a-f]{1,8}",
        "x[a-z_]{2,8}:[a-z_*]{3,12}",
        "(l1d|LLC|d-tlb|node)(-load|-misses|-speculative-read-refs|-miss-read)?",
        "mem:0x[0-9a-f]{1,8}(/[1248])?(:rw?|:w|:x)?",
        "uprobe:/[a-z/.]{1,9}:[a-z_]{1,6}(\\+0x[0-9a-f]{1,3}|%return)?",
        "uprobe:/[a-z/.]{1,9}:[a-z/]{1,6}\\.c:[1-9][0-9]{0,3}",
        "uprobe:/[a-z/.]{1,9}:[a-z]{1,6}:[0-9]{1,4}",
        "uprobe:/[a-z/.]{1,9}:[a-z_]{1,4}\\*(%return)?",
        "usdt:/[a-z/]{1,9}:[a-z_]{1,6}:[a-z_]{1,6}",
        "kprobe:[a-z_]{1,6}(\\+[0-9]{1,3})?",
        "[a-z]{3,6}_[a-z.]{1,9}",
    ];
    let terms = prop_oneof![
        4 => Just(String::new()),
        1 => Just("//".to_owned()),
        1 => "/name=[a-z]{1,5}/",
        1 => "/name='[ -&(-~]{0,9}',config=0x[0-9]{1,4}/",
    ];
    let modifiers = prop_oneof![
        2 => Just(String::new()),
        1 => prop::sample::subsequence(vec!["u", "k", "h", "G", "H", "pp", "P", "I", "S", "D", "e", "W", "b", "R", "X"], 0..15)
            .prop_shuffle()
            .prop_map(|letters| format!(":{}", letters.concat())),
    ];
    (name, terms, modifiers).prop_map(|(name, terms, modifiers)| name + &terms + &modifiers)
}

fn item() -> impl Strategy<Value = String> {
    let group =
        ("[a-z]{0,4}", prop::collection::vec(event(), 1..4), prop::sample::select(vec!["", ":u", ":SW"]));
    prop_oneof![
        event(),
        group.prop_map(|(name, events, modifiers)| format!("{name}{{{}}}{modifiers}", events.join(" , ")))
    ]
}

proptest! {
    #[test]
    fn a_list_prints_as_what_it_was_parsed_from(items in prop::collection::vec(item(), 1..5)) {
        let list: EventList = items.join(", ").parse().map_err(|e| TestCaseError::fail(format!("{e}")))?;
        let again: EventList = list.to_string().parse().map_err(|e| TestCaseError::fail(format!("{list}: {e}")))?;
        prop_assert_eq!(again.to_string(), list.to_string());
        prop_assert_eq!(bare(again), bare(list));
    }

    #[test]
    fn any_text_is_answered(text in "([a-z0-9{}:,/=' ]|cycles|L1-dcache|sched|é){0,24}") {
        match text.parse::<EventList>() {
            Ok(list) => {
                let again: EventList = list.to_string().parse().map_err(|e| TestCaseError::fail(format!("{list}: {e}")))?;
                prop_assert_eq!(bare(again), bare(list.clone()));
                let _ = list.resolve(&NoCatalogue).map_err(|error| error.explain());
            }
            Err(error) => prop_assert!(error.explain().contains('^')),
        }
    }
}

/// A definition of a metric.
fn expression() -> impl Strategy<Value = Expression> {
    let name = "[a-z_][a-z0-9_.:=,/@ -]{0,9}"
        .prop_filter("keywords", |name| !["if", "else"].contains(&name.as_str()));
    let leaf = prop_oneof![
        (0.0..1e12f64).prop_map(Expression::Number),
        (0u32..100).prop_map(|number| Expression::Number(number.into())),
        name.clone().prop_map(Expression::Name),
        "[a-z_]{1,9}".prop_map(Expression::Literal),
        name.clone().prop_map(Expression::HasEvent),
        name.clone().prop_map(Expression::SourceCount),
        name.prop_map(Expression::IsCpu),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        use Operator::{Add, And, Divide, Greater, Less, Multiply, Or, Remainder, Subtract, Xor};
        let operator = prop::sample::select(vec![
            Or, Xor, And, Less, Greater, Add, Subtract, Multiply, Divide, Remainder,
        ]);
        let function = prop::sample::select(vec![Function::Min, Function::Max, Function::Ratio]);
        prop_oneof![
            inner.clone().prop_map(|of| Expression::Negative(Box::new(of))),
            (operator, inner.clone(), inner.clone())
                .prop_map(|(operator, a, b)| Expression::Binary(operator, Box::new((a, b)))),
            (function, inner.clone(), inner.clone())
                .prop_map(|(function, a, b)| Expression::Call(function, Box::new((a, b)))),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(then, condition, other)| Expression::If(Box::new((then, condition, other)))),
        ]
    })
}

proptest! {
    #[test]
    fn a_definition_prints_as_what_it_was_parsed_from(expression in expression()) {
        let printed = expression.to_string();
        let again: Expression = printed.parse().map_err(|e| TestCaseError::fail(format!("{printed}: {e}")))?;
        prop_assert_eq!(again, expression, "{}", printed);
    }

    #[test]
    fn any_definition_is_answered(text in "([a-z0-9.()<>|&^*%/+@#\\\\, -]|if |else |min|d_ratio){0,24}") {
        if let Ok(expression) = text.parse::<Expression>() {
            let again: Expression = expression.to_string().parse().map_err(|e| TestCaseError::fail(format!("{expression}: {e}")))?;
            prop_assert_eq!(again, expression);
        }
    }
}
