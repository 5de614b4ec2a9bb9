//! Printing and parsing are inverse, and no text makes the parser panic.

use perfuse_events::{Event, EventList, Item, NoCatalogue, Span};
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
    ];
    let terms = prop_oneof![
        4 => Just(String::new()),
        1 => Just("//".to_owned()),
        1 => "/name=[a-z]{1,5}/",
        1 => "/name='[ -&(-~]{0,9}',config=0x[0-9]{1,4}/",
    ];
    let modifiers = prop_oneof![
        2 => Just(String::new()),
        1 => prop::sample::subsequence(vec!["u", "k", "h", "G", "H", "pp", "P", "I", "S", "D", "e", "W"], 0..12)
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
