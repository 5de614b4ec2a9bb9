//! The formats, by their names and the endings of files.

use crate::stacks::Stacks;
use perfuse_profile::{Key, Plan, Profile, Symbols};
use std::io::{self, Write};
use std::path::Path;

/// Deeper stacks are cut.
const MAX_STACK: usize = 1 << 14;

/// A format that profiles are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A line for each stack: names from the outermost caller on, with `;` between them, and the weight.
    #[cfg(feature = "folded")]
    Folded,
    /// Protobuf messages of pprof, compressed by gzip.
    #[cfg(feature = "pprof")]
    Pprof,
    /// Protobuf messages of OpenTelemetry: `profiles/v1development` of opentelemetry-proto 1.11.0.
    #[cfg(feature = "otlp")]
    Otlp,
    /// JSON of speedscope.
    #[cfg(feature = "speedscope")]
    Speedscope,
    /// JSON of the Firefox Profiler: processed profiles of version 49. It alone tells times and threads, if it is made of
    /// a [profile](crate::write()).
    #[cfg(feature = "firefox")]
    Firefox,
    /// JSON of Chrome's trace events.
    #[cfg(feature = "chrome")]
    Chrome,
    /// A flame graph as SVG.
    #[cfg(feature = "flamegraph")]
    Flamegraph,
    /// Functions with their weights as CSV (RFC 4180), a row for each in each event.
    #[cfg(feature = "table")]
    Csv,
    /// The same as tables of Markdown.
    #[cfg(feature = "table")]
    Markdown,
}

impl Format {
    /// All that were built in, with their names.
    pub const ALL: &[(Format, &str)] = &[
        #[cfg(feature = "folded")]
        (Format::Folded, "folded"),
        #[cfg(feature = "pprof")]
        (Format::Pprof, "pprof"),
        #[cfg(feature = "otlp")]
        (Format::Otlp, "otlp"),
        #[cfg(feature = "speedscope")]
        (Format::Speedscope, "speedscope"),
        #[cfg(feature = "firefox")]
        (Format::Firefox, "firefox"),
        #[cfg(feature = "chrome")]
        (Format::Chrome, "chrome"),
        #[cfg(feature = "flamegraph")]
        (Format::Flamegraph, "flamegraph"),
        #[cfg(feature = "table")]
        (Format::Csv, "csv"),
        #[cfg(feature = "table")]
        (Format::Markdown, "markdown"),
    ];

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(format, _)| *format)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(format, _)| *format == self).map_or("", |(_, name)| *name)
    }

    /// By the usual endings of files: `.folded`, `.pb.gz`, `.speedscope.json`, `.profile.json`, `.trace.json`, `.svg` and their
    /// like, with `.gz` behind them or not.
    pub fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let is_packed = name.ends_with(".gz");
        let name = name.trim_end_matches(".gz");
        let endings = [
            (".folded", "folded"),
            (".collapsed", "folded"),
            (".txt", "folded"),
            (".pprof", "pprof"),
            (".pb", "pprof"),
            (".otlp", "otlp"),
            (".trace.json", "chrome"),
            (".speedscope.json", "speedscope"),
            (".profile.json", "firefox"),
            (".firefox.json", "firefox"),
            // Packed JSON is what the Firefox Profiler saves.
            (".json", if is_packed { "firefox" } else { "speedscope" }),
            (".svg", "flamegraph"),
            (".csv", "csv"),
            (".md", "markdown"),
            (".markdown", "markdown"),
        ];
        let (_, format) = endings.iter().find(|(ending, _)| name.ends_with(ending))?;
        Self::named(format)
    }

    /// The plan by which a profile is collected for this format: what [`write`](crate::write()) tells of it.
    pub fn plan(self) -> Plan {
        let mut plan = match self.tells_threads() {
            true => Plan::new(&[Key::Tgid, Key::Pid, Key::Comm]),
            false => Plan::new(&[Key::Comm]),
        };
        (plan.times, plan.max_stack) = (self.tells_threads(), MAX_STACK);
        plan
    }

    /// Whether it has threads with samples at their times.
    pub fn tells_threads(self) -> bool {
        self.name() == "firefox"
    }

    /// Whether it has inlined functions and source lines, if the symbols tell them.
    pub fn tells_lines(self) -> bool {
        self.name() == "firefox"
    }

    /// Whether a file of this name is to be [packed](packed): pprof is so in any case.
    pub fn is_packed(self, path: &Path) -> bool {
        path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz")) && self.name() != "pprof"
    }

    /// Whether it is to look at, and small functions can be left out: tables and flame graphs.
    pub fn can_leave_out(self) -> bool {
        matches!(self.name(), "csv" | "markdown" | "flamegraph")
    }

    /// Whether it is text.
    pub fn is_text(self) -> bool {
        match self {
            #[cfg(feature = "pprof")]
            Format::Pprof => false,
            #[cfg(feature = "otlp")]
            Format::Otlp => false,
            #[allow(unreachable_patterns, reason = "with other features there are others")]
            _ => true,
        }
    }
}

/// Writes a profile that was collected by the [plan](Format::plan) of the format, under a title where the format has one. A flame graph
/// and folded stacks are of the first event.
///
/// # Errors
/// Those of `to`.
pub fn write(
    profile: &Profile,
    symbols: &dyn Symbols,
    format: Format,
    title: &str,
    to: &mut dyn Write,
) -> io::Result<()> {
    write_by(profile, symbols, format, &WritePlan::new(title), to)
}

/// How a profile is written in a format.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct WritePlan<'w> {
    /// The title, where the format has one.
    pub title: &'w str,
    /// Tables and flame graphs leave out functions that with all they called are below so many percent.
    pub least_percent: f64,
    /// The outermost frame of each stack tells these: names of threads, threads, processes, cpus. Formats that tell threads do so
    /// in any case.
    pub outermost: &'w [Key],
}

impl<'w> WritePlan<'w> {
    /// All of it under a title, told apart by the threads' names.
    pub fn new(title: &'w str) -> Self {
        WritePlan { title, least_percent: 0.0, outermost: &[Key::Comm] }
    }

    /// Without what is below so many percent.
    #[must_use]
    pub fn least(self, least_percent: f64) -> Self {
        WritePlan { least_percent, ..self }
    }

    /// Told apart by these keys, with which the profile has to be made.
    #[must_use]
    pub fn by(self, outermost: &'w [Key]) -> Self {
        WritePlan { outermost, ..self }
    }
}

/// The same by a plan.
///
/// # Errors
/// Those of `to`.
pub fn write_by(
    profile: &Profile,
    symbols: &dyn Symbols,
    format: Format,
    plan: &WritePlan<'_>,
    to: &mut dyn Write,
) -> io::Result<()> {
    match format {
        #[cfg(feature = "firefox")]
        Format::Firefox => {
            crate::firefox::write(&crate::firefox::Source::of(profile, symbols), plan.title, to)
        }
        #[allow(unreachable_patterns, reason = "with other features there are others")]
        format => Stacks::by(profile, symbols, plan.outermost).write_by(format, plan, to),
    }
}

/// Packs by gzip all that is written.
///
/// # Errors
/// Those of `to`.
#[cfg(any(feature = "import", feature = "pprof"))]
pub fn packed(to: &mut dyn Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut packing = flate2::write::GzEncoder::new(to, flate2::Compression::default());
    write(&mut packing)?;
    packing.finish().map(drop)
}

impl Stacks {
    /// Writes all in a format, under a title where the format has one. A flame graph and folded stacks are of the first event.
    pub fn write(&self, format: Format, title: &str, to: &mut dyn Write) -> io::Result<()> {
        self.write_by(format, &WritePlan::new(title), to)
    }

    /// The same by a plan; the stacks are told apart already.
    #[allow(unused_variables, reason = "which ones are used depends on the features")]
    pub fn write_by(&self, format: Format, plan: &WritePlan<'_>, to: &mut dyn Write) -> io::Result<()> {
        let WritePlan { title, least_percent, .. } = *plan;
        match format {
            #[cfg(feature = "folded")]
            Format::Folded => crate::folded::write(self, to),
            #[cfg(feature = "pprof")]
            Format::Pprof => to.write_all(&crate::pprof::compressed(&crate::pprof::encode(self, title))),
            #[cfg(feature = "otlp")]
            Format::Otlp => to.write_all(&crate::otlp::encode(self)),
            #[cfg(feature = "speedscope")]
            Format::Speedscope => crate::speedscope::write(self, title, to),
            #[cfg(feature = "firefox")]
            Format::Firefox => crate::firefox::write(&crate::firefox::Source::of_stacks(self), title, to),
            #[cfg(feature = "chrome")]
            Format::Chrome => crate::chrome::write(self, title, to),
            #[cfg(feature = "flamegraph")]
            Format::Flamegraph => crate::flamegraph::write(self, title, least_percent, to),
            #[cfg(feature = "table")]
            Format::Csv => crate::table::write_csv(self, least_percent, to),
            #[cfg(feature = "table")]
            Format::Markdown => crate::table::write_markdown(self, title, least_percent, to),
        }
    }
}

#[cfg(all(test, feature = "pprof", feature = "speedscope", feature = "chrome"))]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_its_format() {
        let of = |path: &str| Format::of_path(Path::new(path));
        assert_eq!(of("a/cpu.pb.gz"), Some(Format::Pprof));
        assert_eq!(of("x.speedscope.json"), Some(Format::Speedscope));
        assert_eq!(of("x.trace.json"), Some(Format::Chrome));
        assert_eq!(of("x.speedscope.json.gz"), Some(Format::Speedscope));
        assert_eq!(of("x.json"), Some(Format::Speedscope));
        #[cfg(feature = "firefox")]
        assert_eq!(["x.profile.json", "x.json.gz"].map(of), [Some(Format::Firefox); 2]);
        assert_eq!(of("perf.data"), None);
        assert_eq!(Format::named("pprof"), Some(Format::Pprof));
    }
}
