//! Which events are wanted: words, patterns and kinds.

use super::{Entry, Kind, Listing};
use perfuse_events::{glob, is_pattern, nearest};

/// The kinds and names that were asked for.
#[derive(Debug, Default)]
pub struct Wanted {
    kinds: Vec<Kind>,
    patterns: Vec<String>,
    /// In lower case.
    words: Vec<String>,
}

impl Wanted {
    /// From words, patterns and names of kinds.
    pub fn new(words: &[String]) -> Self {
        let mut wanted = Wanted::default();
        for word in words {
            match kind(word) {
                Some(kind) => wanted.kinds.push(kind),
                None if is_pattern(word) => wanted.patterns.push(word.clone()),
                None => wanted.words.push(word.to_ascii_lowercase()),
            }
        }
        wanted
    }

    /// Whether events of a kind may be wanted.
    pub fn takes_kind(&self, kind: Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// Whether an event is wanted: all words and patterns fit, and one of the kinds.
    pub fn takes(&self, entry: &Entry) -> bool {
        let names = || std::iter::once(&entry.name).chain(&entry.aliases);
        let has = |word: &String| {
            names().any(|name| name.to_ascii_lowercase().contains(word))
                || entry.description.to_ascii_lowercase().contains(word)
        };
        self.takes_kind(entry.kind)
            && self.patterns.iter().all(|pattern| names().any(|name| glob(pattern, name)))
            && self.words.iter().all(has)
    }

    /// Names like the words, for when nothing has them.
    pub fn close(&self, all: &Listing) -> Vec<String> {
        let names =
            || all.entries.iter().filter(|entry| entry.kind != Kind::Form).map(|entry| entry.name.as_str());
        // Of a tracepoint, its own name may be what was misspelt.
        let parts = || names().flat_map(|name| name.split_once(':').map(|(_, own)| own).into_iter());
        // The letters of a pattern may be misspelt too.
        let letters = |pattern: &String| pattern.replace(['*', '?', '[', ']'], "");
        let words = self.words.iter().cloned().chain(self.patterns.iter().map(letters));
        words.flat_map(|word| nearest(&word, names().chain(parts()))).take(3).collect()
    }
}

/// Kinds as perf names them.
fn kind(word: &str) -> Option<Kind> {
    Some(match word {
        "hw" | "hardware" => Kind::Hardware,
        "cache" | "hwcache" => Kind::Cache,
        "sw" | "software" => Kind::Software,
        "tool" => Kind::Tool,
        "pmu" => Kind::Pmu,
        "tracepoint" | "event" => Kind::Tracepoint,
        "metric" | "metrics" | "metricgroup" | "metricgroups" => Kind::Metric,
        "form" => Kind::Form,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Works;
    use super::*;

    fn entry(name: &str, kind: Kind, description: &str) -> Entry {
        Entry {
            name: name.into(),
            aliases: Vec::new(),
            kind,
            description: description.into(),
            encoding: None,
            terms: String::new(),
            unit: String::new(),
            works: Works::Unknown,
        }
    }

    fn found(words: &[&str]) -> Vec<String> {
        let entries = [
            entry("page-faults", Kind::Software, "pages that were not mapped"),
            entry("sched:sched_wakeup", Kind::Tracepoint, ""),
            entry("sched:sched_switch", Kind::Tracepoint, ""),
        ];
        let words: Vec<String> = words.iter().map(|&word| word.into()).collect();
        let wanted = Wanted::new(&words);
        entries.iter().filter(|entry| wanted.takes(entry)).map(|entry| entry.name.clone()).collect()
    }

    #[test]
    fn all_words_must_fit_and_one_of_the_kinds() {
        assert_eq!(found(&[]).len(), 3);
        assert_eq!(found(&["sw"]), ["page-faults"]);
        assert_eq!(found(&["MAPPED"]), ["page-faults"]);
        assert_eq!(found(&["sched", "wake"]), ["sched:sched_wakeup"]);
        assert_eq!(found(&["*:*sw*"]), ["sched:sched_switch"]);
        assert_eq!(found(&["sw", "tracepoint", "sched"]).len(), 2);
        assert!(found(&["sw", "sched"]).is_empty());
    }
}
