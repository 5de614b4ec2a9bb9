//! Which events of two recordings are compared.

/// The events that both recordings have, by their names, as their numbers in each, in the order of the second: of several of one name
/// the first with the first. One that is not in both goes with the one that differs in its modifiers alone: `cycles` with `cycles:u`.
pub fn pairs(before: &[String], after: &[String]) -> Vec<(usize, usize)> {
    let mut partners: Vec<Option<usize>> = vec![None; after.len()];
    for is_alike in
        [|one: &str, other: &str| one == other, |one: &str, other: &str| event(one) == event(other)]
    {
        for (new, name) in after.iter().enumerate() {
            if partners[new].is_some() {
                continue;
            }
            let is_free = |old: &usize| !partners.contains(&Some(*old));
            partners[new] = (0..before.len()).filter(is_free).find(|&old| is_alike(&before[old], name));
        }
    }
    partners.into_iter().enumerate().filter_map(|(new, old)| Some((old?, new))).collect()
}

/// A name without modifiers.
fn event(name: &str) -> &str {
    let is_modifier = |letter: char| "ukhGHIpPSDWeb".contains(letter);
    let parts = name.rsplit_once(':').filter(|(_, letters)| letters.chars().all(is_modifier));
    parts.map_or(name, |(event, _)| event)
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn names_are_paired_and_then_events() {
        let list = |names: &str| names.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let of = |before: &str, after: &str| pairs(&list(before), &list(after));
        assert_eq!(of("cycles faults", "faults cycles"), [(1, 0), (0, 1)]);
        assert_eq!(of("x x", "x x x"), [(0, 0), (1, 1)]);
        assert_eq!(of("cpu-clock:pppH", "cpu-clock dummy:u"), [(0, 0)]);
        assert_eq!(of("cycles:k cycles:u", "cycles:u cycles"), [(1, 0), (0, 1)]);
        assert_eq!(of("sched:sched_switch", "sched:sched_wakeup"), []);
    }
}
