//! Which functions samples have to be in.

use super::word;
use perfuse_profile::{Filter, Frames, Profile};
use std::ffi::OsString;

/// The function that a sample was in, without its callers.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FunctionArgs {
    /// Only these objects, by name with or without folders
    #[arg(short, long, visible_alias = "dsos", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) dso: Vec<String>,
    /// Only these functions
    #[arg(short = 'S', long, visible_alias = "symbols", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) symbol: Vec<String>,
    /// Only functions with this in their name
    #[arg(long, value_name = "TEXT")]
    pub(crate) symbol_filter: Option<String>,
    /// Only samples in functions that have a name
    #[arg(short = 'U', long)]
    pub(crate) hide_unresolved: bool,
}

impl FunctionArgs {
    /// All but the part of a name, which is asked of entries where there are any.
    pub(crate) fn filter(&self) -> Filter {
        let mut filter = Filter::default();
        filter.objects.clone_from(&self.dso);
        filter.symbols.clone_from(&self.symbol);
        filter.has_name = self.hide_unresolved;
        filter
    }

    /// Leaves samples in other functions out of a profile, of which these are the frames by function.
    pub(crate) fn apply(&self, profile: &mut Profile, frames: &Frames) {
        let mut filter = self.filter();
        filter.symbol_part.clone_from(&self.symbol_filter);
        filter.apply(profile, frames);
    }

    /// Whether any function is wanted.
    pub(crate) fn admits_all(&self) -> bool {
        self.symbol_filter.is_none() && self.filter().admits_all()
    }

    /// Options of a command line, as people write them.
    pub(crate) fn words(&self) -> Vec<String> {
        let lists = [("-d", self.dso.join(",")), ("-S", self.symbol.join(","))];
        let mut words: Vec<String> = lists.iter().filter_map(|(name, value)| word(name, value)).collect();
        words.extend(self.symbol_filter.as_ref().and_then(|text| word("--symbol-filter", text)));
        words.extend(self.hide_unresolved.then(|| "-U".to_owned()));
        words
    }

    /// The same as a program takes them.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let part = self.symbol_filter.clone().unwrap_or_default();
        let given = [("dso", self.dso.join(",")), ("symbol", self.symbol.join(",")), ("symbol-filter", part)];
        let given = given.into_iter().filter(|(_, value)| !value.is_empty());
        let unresolved = self.hide_unresolved.then(|| "--hide-unresolved".into());
        given.map(|(name, value)| format!("--{name}={value}").into()).chain(unresolved).collect()
    }
}
