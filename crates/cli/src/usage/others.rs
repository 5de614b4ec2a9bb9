//! Commands that perfuse does not have: those of perf, other tools, and words for the same. `others.txt` says for each what
//! there is instead.

/// The table, read only when somebody asks for such a command.
const TABLE: &str = include_str!("others.txt");

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Other<'t> {
    section: &'t str,
    name: &'t str,
    sentence: &'t str,
    /// The way that perfuse has instead.
    ours: &'t str,
    /// A command of perf that does it; empty where there is no need of one.
    perfs: &'t str,
}

fn rows() -> impl Iterator<Item = Other<'static>> {
    let mut section = "";
    let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.filter_map(move |line| match line.strip_prefix('[') {
        Some(name) => {
            section = name.trim_end_matches(']');
            None
        }
        None => {
            let mut cells = line.splitn(4, '|').map(str::trim);
            let mut cell = || cells.next().unwrap_or_default();
            Some(Other { section, name: cell(), sentence: cell(), ours: cell(), perfs: cell() })
        }
    })
}

/// The way that perfuse has in place of a command of this name.
pub(super) fn answer(name: &str) -> Option<String> {
    let name = name.strip_prefix("perf-").unwrap_or(name);
    let row = rows().find(|row| row.name == name)?;
    let whose = match row.section {
        "perf" => format!("'{name}' is a command of perf that perfuse does not have"),
        "tool" => format!("'{name}' is another tool"),
        _ => format!("there is no command '{name}'"),
    };
    let perfs = match row.perfs {
        "" => String::new(),
        perfs => format!("\n  or with perf: {perfs}"),
    };
    Some(format!("{whose}: {}\n  try: {}{perfs}", row.sentence, row.ours))
}

/// The names of the table, to find near ones.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    rows().map(|row| row.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use crate::habits;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    #[test]
    fn no_row_is_in_the_way_of_a_command() {
        let command = Cli::command();
        let own: Vec<&str> =
            rows().map(|row| row.name).filter(|name| command.find_subcommand(name).is_some()).collect();
        assert!(own.is_empty(), "perfuse has these itself, so their rows in others.txt have to go: {own:?}");
    }

    #[test]
    fn every_row_is_whole_and_its_command_is_one() {
        let mut seen = BTreeSet::new();
        for row in rows() {
            assert!(seen.insert(row.name), "{row:?} is there twice");
            assert!(["perf", "tool", "word"].contains(&row.section) && !row.sentence.is_empty(), "{row:?}");
            for line in [row.ours, row.perfs] {
                let words = shell_words::split(line).expect(line);
                match words.first().map(String::as_str) {
                    Some("perfuse") => drop(habits::parse_from::<Cli>(words).expect(line)),
                    Some("perf") => {}
                    _ => assert!(line.is_empty() && line == row.perfs, "{row:?}"),
                }
            }
            let answer = answer(row.name).expect(row.name);
            assert!(answer.lines().count() <= 3 && answer.lines().all(|line| line.len() <= 150), "{answer}");
        }
    }

    #[test]
    fn every_command_of_perf_has_an_answer() {
        // `perf --list-cmds` of 6.1 to 7.x, and the scripts beside it.
        let perfs = "annotate archive bench buildid-cache buildid-list c2c check config daemon data debuginfo diff evlist ftrace \
            help ilist inject iostat kallsyms kmem kvm kwork list lock mem probe record report sched script stat test timechart \
            top trace version";
        let command = Cli::command();
        let unanswered: Vec<&str> = perfs
            .split_whitespace()
            .filter(|name| !["help", "config"].contains(name))
            .filter(|name| command.find_subcommand(name).is_none() && answer(name).is_none())
            .collect();
        assert!(unanswered.is_empty(), "{unanswered:?}");
    }
}
