//! Functions as text for people: first what costs most, then the listing; and remarks below.

use crate::arrows::Arrows;
use crate::costs::{Cost, Function, Skid};
use crate::function::Annotated;
use crate::lines::Line;
use anstyle::{AnsiColor, Style};
use perfuse_profile::source_name;
use perfuse_term::foreign::{cut, foreign, width};
use perfuse_term::glyphs::{ASCII, Glyphs};
use perfuse_term::names::fit;
use perfuse_term::number;
use perfuse_term::table::{paint, wrap};
use std::fmt::Write;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const SOURCE: Style = AnsiColor::Cyan.on_default();
const HOT: Style = AnsiColor::Red.on_default();
const WARM: Style = AnsiColor::Green.on_default();
/// So many lines and inlined calls stand above the listing.
const FIRST: usize = 5;
/// Columns of the name of an inlined function before its source.
const NAME: usize = 32;
/// No line is longer, wherever it goes.
const WIDEST: usize = 240;
/// Longer stretches without samples are left out, but for their ends.
const COLD: usize = 16;
const ENDS: usize = 4;

/// The first column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// Percentages.
    #[default]
    Percent,
    /// Samples.
    Samples,
    /// Occurrences of the event.
    Period,
}

/// How a function is shown.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// Lines of code are cut after so many columns, if they are to be cut.
    pub limit: Option<usize>,
    /// Words are wrapped after so many.
    pub words: usize,
    /// The signs of the locale.
    pub glyphs: &'static Glyphs,
    /// The first column.
    pub value: Value,
    /// Percentages are of the event, not of the function.
    pub of_event: bool,
    /// Percentages are of samples, not of what they stand for.
    pub of_samples: bool,
    /// Source lines alone.
    pub lines: bool,
    /// Instructions alone.
    pub no_source: bool,
    /// All lines above the listing, not only the first.
    pub all_lines: bool,
    /// Long stretches without samples, too.
    pub cold: bool,
    /// The bytes of instructions.
    pub raw: bool,
    /// Paths as they are in debug information.
    pub full_paths: bool,
}

/// The event that is shown, and all of its samples.
#[derive(Clone, Copy, Debug)]
pub struct OfEvent<'e> {
    /// Its name.
    pub name: &'e str,
    /// How late its samples are.
    pub skid: Skid,
    /// All of its samples.
    pub whole: Cost,
    /// Those in code without a name.
    pub nameless: Cost,
}

impl OfEvent<'_> {
    fn share(&self, cost: Cost) -> f64 {
        100.0 * cost.weight as f64 / self.whole.weight.max(1) as f64
    }
}

/// The columns of a listing before the text of instructions.
struct Shape {
    /// Digits of addresses.
    digits: usize,
    arrows: Arrows,
}

/// Writes lines of a listing.
struct Page<'p> {
    looks: &'p Looks,
    whole: Cost,
    text: String,
}

impl Page<'_> {
    /// A cost as the first column has it: nothing where there is none.
    fn cost(&self, cost: Cost) -> String {
        let width = self.width();
        let text = match cost.samples {
            0 => return " ".repeat(width),
            samples if self.looks.value == Value::Samples => format!("{samples:>width$}"),
            _ if self.looks.value == Value::Period => format!("{:>width$}", cost.weight),
            _ => format!("{:>width$.2}", self.percent(cost)),
        };
        let style = match self.percent(cost) {
            percent if percent >= 5.0 => HOT,
            percent if percent >= 0.5 => WARM,
            _ => Style::new(),
        };
        paint(&text, style)
    }

    fn width(&self) -> usize {
        if self.looks.value == Value::Period { 12 } else { 8 }
    }

    fn percent(&self, cost: Cost) -> f64 {
        let (part, whole) = match self.looks.of_samples {
            true => (cost.samples, self.whole.samples),
            false => (cost.weight, self.whole.weight),
        };
        100.0 * part as f64 / whole.max(1) as f64
    }

    /// A line: its cost, and text that is cut where the terminal ends.
    fn line(&mut self, cost: Cost, before: &str, text: &str, style: Style) {
        let first = self.cost(cost);
        let taken = self.width() + 3 + width(before);
        let room = self.looks.limit.unwrap_or(WIDEST).saturating_sub(taken).max(8);
        let text = foreign(text.trim_end());
        let text = cut(&text, room, self.looks.glyphs.ellipsis);
        let text = if text.is_empty() { text.into_owned() } else { paint(&text, style) };
        let line = format!("{first} : {before}{text}");
        let _ = writeln!(self.text, "{}", line.trim_end());
    }
}

/// A function as text: a head, what costs most in it, the listing. It may be coloured: who writes it leaves colours out where none are
/// wanted, as `perfuse_term::out` does.
pub fn text(of: &Annotated, event: &OfEvent<'_>, looks: &Looks) -> String {
    let whole = if looks.of_event { event.whole } else { of.cost };
    let mut page = Page { looks, whole, text: String::new() };
    page.head(event, of);
    page.hottest(of);
    if looks.lines {
        page.lines(of);
    } else {
        page.listing(of);
    }
    page.text + "\n"
}

impl Page<'_> {
    fn head(&mut self, event: &OfEvent<'_>, of: &Annotated) {
        let (looks, columns) = (self.looks, self.looks.words);
        let share = event.share(of.cost);
        let samples = number::grouped(of.cost.samples);
        let head = format!("{} in {}", of.name, of.object);
        self.text += &paint(wrap("", &head, columns).trim_end(), BOLD);
        self.text.push('\n');
        let of_what = if looks.of_event { "event" } else { "function" };
        let told = format!(
            "{share:.2} % of {}, {samples} samples; percentages are of the {of_what}{}",
            event.name,
            if looks.of_samples { "'s samples" } else { "" }
        );
        self.text += &wrap("  ", &told, columns);
        let mut note = |text: String| {
            self.text += &paint(wrap("  ", &text, columns).trim_end(), DIM);
            self.text.push('\n');
        };
        if let Some(why) = &of.no_code {
            note(format!("no code: {why}; addresses of samples stand in place of instructions"));
        }
        if of.cut > 0 {
            let samples = of.cut_cost.samples;
            note(format!(
                "its last {} bytes, with {samples} samples, are not shown: it is too long, or its file ends",
                of.cut
            ));
        }
        if of.no_code.is_none() && of.files.is_empty() {
            note("source lines are not known: it has no debug information (-g)".to_owned());
        } else if let Some(file) = of.files.iter().find(|file| !file.is_found).filter(|_| !looks.no_source) {
            note(format!("source not found: {}; --prefix names the folder above it", file.path));
        }
    }

    /// Lines and inlined calls that cost most.
    fn hottest(&mut self, of: &Annotated) {
        let looks = self.looks;
        let lines = of.hottest_lines();
        let most = if self.looks.all_lines { usize::MAX } else { FIRST };
        if !lines.is_empty() && !looks.no_source {
            self.text += "\n  hottest lines\n";
        }
        for &(line, cost) in lines.iter().take(most).filter(|_| !looks.no_source) {
            let place = format!("{:<16} ", self.place(of, line));
            self.line(cost, &place, source(of, line).unwrap_or("").trim_start(), SOURCE);
        }
        let calls = of.hottest_calls();
        if !calls.is_empty() {
            self.text += "\n  inlined calls, with what is inlined into them\n";
        }
        for call in calls.iter().take(most).filter_map(|&call| of.inlined.get(call as usize)) {
            let from = call.from.map_or(String::new(), |from| format!(" from {}", self.place(of, from)));
            self.line(call.cost, "", &format!("{}{from}", call.name), Style::new());
        }
        self.text.push('\n');
    }

    /// Instructions, below the source lines that they are from.
    fn listing(&mut self, of: &Annotated) {
        let all = &of.instructions;
        let shape = Shape {
            digits: all.last().map_or(0, |last| format!("{:x}", last.address).len()),
            arrows: Arrows::of(of, *self.looks.glyphs == ASCII),
        };
        let (mut last, mut at) = (None, 0);
        while at < all.len() {
            let cold = all[at..].iter().take_while(|one| one.cost.samples == 0).count();
            let before = if at == 0 { 0 } else { ENDS };
            let after = if at + cold == all.len() { 0 } else { ENDS };
            if cold > COLD && !self.looks.cold {
                (at..at + before).for_each(|at| self.instruction(of, at, &mut last, &shape));
                let count = cold - before - after;
                let text = format!("... {count} instructions without samples (--cold shows them)");
                self.line(Cost::default(), "", &text, DIM);
                last = None;
                let rest = at + cold - after..at + cold;
                rest.for_each(|at| self.instruction(of, at, &mut last, &shape));
                at += cold;
            } else {
                (at..at + cold.max(1)).for_each(|at| self.instruction(of, at, &mut last, &shape));
                at += cold.max(1);
            }
        }
    }

    fn instruction(
        &mut self,
        of: &Annotated,
        at: usize,
        last: &mut Option<(Option<Line>, Option<u32>)>,
        shape: &Shape,
    ) {
        let (one, digits) = (&of.instructions[at], shape.digits);
        let (looks, place) = (self.looks, (one.line, one.inlined));
        if let Some(line) = one.line.filter(|_| *last != Some(place) && !looks.no_source) {
            let call = one.inlined.and_then(|call| of.inlined.get(call as usize));
            let inlined = call.map_or(String::new(), |call| format!("{}: ", fit(&call.name, NAME)));
            let text = source(of, line).unwrap_or("").trim_start();
            let text = format!("{} {inlined}{text}", self.place(of, line));
            // Jumps pass beside it, unless it is the first line.
            let beside = shape.arrows.above(at);
            let before = match beside.trim_end() {
                "" => String::new(),
                _ => format!("{:digits$}   {beside} ", ""),
            };
            self.line(Cost::default(), &before, &text, SOURCE);
        }
        *last = Some(place);
        let raw = match self.looks.raw {
            true => {
                let bytes: Vec<String> = one.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{:<24} ", bytes.join(" "))
            }
            false => String::new(),
        };
        let before = format!("  {:>digits$x}: {} {raw}", one.address, shape.arrows.at(at));
        let text = format!("{}{}", one.text, of.target_name(one));
        self.line(one.cost, &before, &text, Style::new());
    }

    /// Source lines alone.
    fn lines(&mut self, of: &Annotated) {
        for file in &of.files {
            self.text += &paint(&format!("{:11}{}", "", foreign(&file.path)), DIM);
            self.text.push('\n');
            let mut before = None;
            for line in &file.lines {
                if before.is_some_and(|before| before + 1 != line.number) {
                    self.line(Cost::default(), "", "...", DIM);
                }
                before = Some(line.number);
                let number = format!("{:>5}  ", line.number);
                let style = if line.has_code { Style::new() } else { DIM };
                self.line(line.cost, &number, line.text.as_deref().unwrap_or(""), style);
            }
        }
        if of.files.is_empty() {
            self.text += "  no source lines are known\n";
        }
    }

    fn place(&self, of: &Annotated, line: Line) -> String {
        let path = of.files.get(line.file as usize).map_or("", |file| file.path.as_str());
        format!("{}:{}", foreign(source_name(path, self.looks.full_paths)), line.line)
    }
}

/// The text of a line.
fn source(of: &Annotated, line: Line) -> Option<&str> {
    of.files.get(line.file as usize)?.line(line.line)?.text.as_deref()
}

/// Remarks below the functions of an event: those that are `left_out`, code without a name, and how far samples may be from where
/// they belong.
pub fn remarks(event: &OfEvent<'_>, left_out: &[&Function], looks: &Looks) -> String {
    let mut text = String::new();
    let mut note = |words: String| text += &wrap(&format!(" {} ", looks.glyphs.dot), &words, looks.words);
    let name = event.name;
    if !left_out.is_empty() {
        let mut sum = Cost::default();
        left_out.iter().for_each(|function| sum += function.cost);
        let (count, share) = (left_out.len(), event.share(sum));
        note(format!(
            "{count} more functions of {name}, with {share:.2} % of it, are not shown; --functions"
        ));
    }
    if event.nameless.samples > 0 {
        note(format!("{:.2} % of {name} is in code without a name", event.share(event.nameless)));
    }
    match event.skid {
        Skid::None => {}
        Skid::Timer => note(format!(
            "{name} samples come by a timer's interrupt, so the cost of an instruction often stands at the one after it"
        )),
        Skid::Interrupt => note(format!(
            "samples of {name} come some instructions late; {}:pp is exact where the processor can do that",
            name.split(':').next().unwrap_or_default()
        )),
    }
    text
}
