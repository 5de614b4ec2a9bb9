//! The page of a function's code: source lines and instructions with what was spent there.

use crate::names::{fit, has};
use perfuse_annotate::text::Value;
use perfuse_annotate::{Annotated, Arrows, Cost, Line};
use perfuse_term::foreign::foreign;

/// Columns of the name of an inlined function before its source.
const NAME: usize = 28;

/// A function that somebody wants to see from near.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeOf {
    /// The event, by its number in the profile.
    pub event: usize,
    /// The name, as it is.
    pub function: String,
    /// The path of its object.
    pub object: String,
}

impl CodeOf {
    /// A function of an event, by its name and the path of its object.
    pub fn new(event: usize, function: &str, object: &str) -> Self {
        CodeOf { event, function: function.to_owned(), object: object.to_owned() }
    }
}

/// A line of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeLine {
    pub(crate) cost: Cost,
    /// Harmless on a terminal.
    pub(crate) text: String,
    /// It is a source line, or a file.
    pub(crate) is_source: bool,
}

/// A function as the page shows it, or the reason why there is none.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) of: CodeOf,
    shown: Result<Annotated, String>,
    /// Source lines alone.
    pub(crate) lines_alone: bool,
    /// The number that costs are shown as.
    pub(crate) value: Value,
    pub(crate) lines: Vec<CodeLine>,
    /// The line of the cursor.
    pub(crate) line: usize,
}

impl Code {
    pub(crate) fn new(of: CodeOf, shown: Result<Annotated, String>) -> Self {
        let mut code =
            Code { of, shown, lines_alone: false, value: Value::default(), lines: Vec::new(), line: 0 };
        code.make();
        code
    }

    /// The cost of all of it, and remarks: why there is no code or no source.
    pub(crate) fn told(&self) -> (Cost, String) {
        match &self.shown {
            Ok(code) => {
                let missing = code.files.iter().find(|file| !file.is_found);
                let why = match (&code.no_code, missing) {
                    (Some(why), _) => format!("no code: {why}"),
                    (None, Some(file)) => format!("source not found: {}", file.path),
                    (None, None) if code.files.is_empty() => "no debug information: no source lines".into(),
                    _ => String::new(),
                };
                (code.cost, foreign(&why).into_owned())
            }
            Err(why) => (Cost::default(), foreign(why).into_owned()),
        }
    }

    /// The function that is shown: another one if the wanted one was inlined into it.
    pub(crate) fn name(&self) -> String {
        let wanted = &self.of.function;
        let name = match &self.shown {
            Ok(code) if code.name != *wanted => format!("{} ({wanted} inlined)", code.name),
            _ => wanted.clone(),
        };
        foreign(&name).into_owned()
    }

    pub(crate) fn whole(&self) -> u64 {
        self.shown.as_ref().map_or(0, |code| code.cost.weight)
    }

    /// Shows source lines alone, or instructions, too.
    pub(crate) fn toggle(&mut self) {
        self.lines_alone = !self.lines_alone;
        self.make();
    }

    /// Shows costs as the next kind of number.
    pub(crate) fn next_value(&mut self) {
        self.value = match self.value {
            Value::Percent => Value::Samples,
            Value::Samples => Value::Period,
            Value::Period => Value::Percent,
        };
    }

    /// To the line that costs most.
    pub(crate) fn go_to_hottest(&mut self) {
        self.line = self.hottest().first().copied().unwrap_or(self.line);
    }

    /// The lines anew, with the cursor at the hottest.
    fn make(&mut self) {
        self.lines = match &self.shown {
            Ok(code) if self.lines_alone => source_lines(code),
            Ok(code) => listing(code),
            Err(_) => Vec::new(),
        };
        self.line = self.hottest().first().copied().unwrap_or(0);
    }

    /// Lines that cost something, those that cost most first.
    fn hottest(&self) -> Vec<usize> {
        let mut lines: Vec<usize> =
            (0..self.lines.len()).filter(|&at| self.lines[at].cost.samples > 0).collect();
        lines.sort_by_key(|&at| (std::cmp::Reverse(self.lines[at].cost), at));
        lines
    }

    /// To the line that costs most after that of the cursor, and from the last one to the first.
    pub(crate) fn next_hottest(&mut self) {
        let hottest = self.hottest();
        let at = hottest.iter().position(|&line| line == self.line);
        let next = at.map_or(0, |at| at + 1);
        self.line = hottest.get(next).or(hottest.first()).copied().unwrap_or(self.line);
    }

    pub(crate) fn fitting(&self, search: &str) -> Vec<bool> {
        self.lines.iter().map(|line| has(&line.text, search)).collect()
    }
}

/// Instructions, below the source lines that they are from.
fn listing(code: &Annotated) -> Vec<CodeLine> {
    let mut lines = Vec::with_capacity(code.instructions.len());
    let digits = code.instructions.last().map_or(0, |last| format!("{:x}", last.address).len());
    let arrows = Arrows::of(code, false);
    let mut last = None;
    for (at, one) in code.instructions.iter().enumerate() {
        let place = (one.line, one.inlined);
        if let Some(line) = one.line.filter(|_| last != Some(place)) {
            let call = one.inlined.and_then(|call| code.inlined.get(call as usize));
            let inlined = call.map_or(String::new(), |call| format!("{}: ", fit(&call.name, NAME)));
            let text = format!("{} {inlined}{}", place_of(code, line), source(code, line).trim());
            // Jumps pass beside it.
            let text = format!("{:digits$}   {}{text}", "", arrows.above(at));
            lines.push(CodeLine {
                cost: Cost::default(),
                text: foreign(&text).into_owned(),
                is_source: true,
            });
        }
        last = Some(place);
        let (text, name) = (&one.text, code.target_name(one));
        let text = format!("{:>digits$x}: {} {text}{name}", one.address, arrows.at(at));
        lines.push(CodeLine { cost: one.cost, text: foreign(&text).into_owned(), is_source: false });
    }
    lines
}

/// Source lines alone, file by file.
fn source_lines(code: &Annotated) -> Vec<CodeLine> {
    let mut lines = Vec::new();
    for file in &code.files {
        lines.push(CodeLine {
            cost: Cost::default(),
            text: foreign(&file.path).into_owned(),
            is_source: true,
        });
        let mut before = None;
        for line in &file.lines {
            if before.is_some_and(|before| before + 1 != line.number) {
                lines.push(CodeLine { cost: Cost::default(), text: "...".into(), is_source: true });
            }
            before = Some(line.number);
            let text =
                format!("{:>5}  {}", line.number, foreign(line.text.as_deref().unwrap_or("").trim_end()));
            lines.push(CodeLine { cost: line.cost, text, is_source: !line.has_code });
        }
    }
    lines
}

fn place_of(code: &Annotated, line: Line) -> String {
    let path = code.files.get(line.file as usize).map_or("", |file| file.path.as_str());
    format!("{}:{}", path.rsplit('/').next().unwrap_or(path), line.line)
}

fn source(code: &Annotated, line: Line) -> &str {
    let line = code.files.get(line.file as usize).and_then(|file| file.line(line.line));
    line.and_then(|line| line.text.as_deref()).unwrap_or("")
}
