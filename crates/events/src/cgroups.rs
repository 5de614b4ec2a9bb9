//! The cgroups of `-G`, which is for the events before it.

use alloc::borrow::ToOwned;
use alloc::string::String;

/// Gives events their cgroups by lists of names, as perf does: one name is for all events so far; of several, the n-th is for the n-th
/// event, counted over all lists.
///
/// ```
/// use perfuse_events::Cgroups;
///
/// let (mut cgroups, mut first, mut second) = (Cgroups::default(), None, None);
/// assert!(cgroups.bind("a", &mut [&mut first, &mut second]));
/// assert_eq!([first.as_deref(), second.as_deref()], [Some("a"), Some("a")]);
/// assert!(cgroups.bind("b", &mut [&mut first, &mut second]));
/// assert_eq!([first.as_deref(), second.as_deref()], [Some("a"), Some("b")]);
/// assert!(!cgroups.bind("c", &mut [&mut first, &mut second]), "there are two events");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Cgroups {
    /// How many were named, empty names included.
    named: usize,
}

impl Cgroups {
    /// Takes the names of a list, separated by commas, for the events before it, each by where its cgroup is to be; an empty name is for
    /// none. `false`: there are fewer events than names.
    #[must_use]
    pub fn bind(&mut self, list: &str, events: &mut [&mut Option<String>]) -> bool {
        for name in list.split(',') {
            let Some(event) = events.get_mut(self.named) else { return false };
            **event = Some(name.to_owned()).filter(|name| !name.is_empty());
            self.named += 1;
        }
        if let (1, [first, others @ ..]) = (self.named, events) {
            others.iter_mut().for_each(|other| (**other).clone_from(first));
        }
        true
    }
}
