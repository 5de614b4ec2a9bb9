//! The looks of the pages: a first line about the profile, one with the pages, the page itself, and what to type.

use crate::keys::HELP;
use crate::looks::{Colours, Looks};
use crate::names::{fit, frame_name, has};
use crate::page::{Page, Spot};
use crate::state::{Span, State, Typing};
use crate::subject::{Neighbour, RowOrder, Subject};
use crate::time::{Lane, Timeline};
use crate::tree::Tree;
use perfuse_annotate::text::Value;
use perfuse_profile::Key;
use perfuse_term::foreign::{beginning, cut, foreign, left, right, width};
use perfuse_term::glyphs::UNICODE;
use perfuse_term::number::{grouped, time};
use perfuse_term::table::wrap;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// The titles of all pages take so many columns.
const TITLES: usize = 61;

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn chosen(is_it: bool) -> Style {
    if is_it { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() }
}

/// A part of the screen to write lines on.
struct Paper<'c> {
    area: Rect,
    cells: &'c mut Buffer,
}

impl Paper<'_> {
    fn width(&self) -> usize {
        self.area.width.into()
    }

    fn height(&self) -> usize {
        self.area.height.into()
    }

    /// Writes a text, as much of it as there is room for, and tells where it ends.
    fn put(&mut self, line: usize, from: usize, text: &str, style: Style) -> usize {
        if line >= self.height() || from >= self.width() {
            return from;
        }
        let text = beginning(text, self.width() - from).0;
        let (x, y) = (self.area.x + from as u16, self.area.y + line as u16);
        self.cells.set_stringn(x, y, text, self.width() - from, style);
        from + width(text)
    }

    /// Gives some columns of a line other looks.
    fn paint(&mut self, line: usize, columns: std::ops::Range<usize>, style: Style) {
        let place = self.place(line, columns);
        self.cells.set_style(place, style);
    }

    /// Writes a whole line: looks go on to its end.
    fn line(&mut self, line: usize, text: &str, style: Style) {
        let text = left(text, self.width());
        self.put(line, 0, &text, style);
    }

    /// The place of some columns of a line on the screen.
    fn place(&self, line: usize, columns: std::ops::Range<usize>) -> Rect {
        let (x, y) = (self.area.x + columns.start as u16, self.area.y + line as u16);
        Rect { x, y, width: columns.len() as u16, height: 1 }.intersection(self.area)
    }

    fn whole(&self, line: usize) -> Rect {
        self.place(line, 0..self.width())
    }

    fn part(&mut self, from: usize, height: usize) -> Paper<'_> {
        let y = self.area.y + from.min(self.height()) as u16;
        let height = height.min(self.height().saturating_sub(from)) as u16;
        Paper { area: Rect { y, height, ..self.area }, cells: &mut *self.cells }
    }
}

impl State {
    /// Draws the whole screen.
    pub fn draw(&mut self, subject: &Subject<'_>, area: Rect, cells: &mut Buffer) {
        let mut paper = Paper { area: area.intersection(cells.area), cells };
        let height = paper.height();
        self.spots.clear();
        head(self, subject, &mut paper);
        if height > 0 {
            foot(self, &mut paper.part(height - 1, 1));
        }
        let mut body = paper.part(2, height.saturating_sub(3));
        if let Some(from) = self.help {
            self.height = body.height();
            let from = from.min(HELP.lines().count().saturating_sub(body.height()));
            self.help = Some(from);
            let lines = HELP.lines().skip(from).enumerate();
            lines.for_each(|(at, line)| body.line(at, &format!(" {line}"), Style::new()));
        } else if self.page == Page::Events {
            events(self, subject, &mut body);
        } else if self.page == Page::Time {
            times(self, subject, &mut body);
        } else if self.page == Page::Code {
            code(self, &mut body);
        } else if subject.rows().is_empty() {
            body.line(1, if self.loading.is_some() { " reading" } else { " no samples" }, dim());
        } else {
            match self.page {
                Page::Functions => functions(self, subject, &mut body),
                Page::Neighbours => neighbours(self, subject, &mut body),
                Page::Tree => tree(self, subject, &mut body),
                Page::Flame => flame(self, subject, &mut body),
                Page::Code | Page::Time | Page::Events => {}
            }
        }
        self.looks.settle(area, cells);
    }
}

fn head(state: &mut State, subject: &Subject<'_>, paper: &mut Paper<'_>) {
    let mut facts = format!(" {}  {} samples", subject.event_name(), grouped(subject.samples()));
    if let Some(percent) = state.loading {
        let of = if state.is_of_before { "as read before" } else { "of the first part" };
        facts += &format!("  {of}; reading {percent} %");
    }
    if state.is_paused {
        facts += "  paused";
    }
    facts += match state.span {
        Span::Window => "",
        Span::Fading => "  fading",
        Span::Sum => "  added up",
    };
    facts += &chosen_words(state, subject);
    if !state.remark.is_empty() {
        facts = facts + "  " + &foreign(&state.remark);
    }
    let end = paper.put(0, 0, &facts, bold());
    let title = cut(&foreign(&state.title), paper.width().saturating_sub(end + 3), "…").into_owned();
    let from = paper.width().saturating_sub(width(&title) + 1);
    paper.put(0, from, &title, dim());
    let mut at = 1;
    for (number, page) in (1..).zip(Page::ALL) {
        let style = if page == state.page { bold().add_modifier(Modifier::REVERSED) } else { dim() };
        // Where there is no room for the titles, that of the page that is shown has to do.
        let title = match paper.width() < TITLES && page != state.page {
            true => format!(" {number}"),
            false => format!(" {number} {}", page.title()),
        };
        let end = paper.put(1, at, &title, style);
        state.spots.push((paper.place(1, at..end), Spot::Page(page)));
        at = end;
    }
    let told = match state.page {
        Page::Functions if state.filter.is_empty() => String::new(),
        Page::Functions => format!("only: {}", foreign(&state.filter)),
        Page::Tree | Page::Flame if state.is_inverted => "callees first".to_owned(),
        Page::Tree | Page::Flame => "callers first".to_owned(),
        Page::Neighbours => String::new(),
        Page::Code if state.code.as_ref().is_some_and(|code| code.lines_alone) => "source lines".to_owned(),
        Page::Code => String::new(),
        Page::Time if state.has_cpus => "cpus".to_owned(),
        Page::Time => "threads".to_owned(),
        Page::Events => String::new(),
    };
    paper.put(1, at + 2, &told, dim());
}

/// The samples that are shown, if they are not all.
fn chosen_words(state: &State, subject: &Subject<'_>) -> String {
    let mut words = String::new();
    if let (Some(span), Some((start, _))) = (&state.choice.span_ns, subject.span_ns()) {
        let since = |at: u64| time(at.saturating_sub(start) as f64, &UNICODE).joined();
        words += &format!("  of {} to {}", since(span.start), since(span.end));
    }
    if state.objects.is_some() {
        let objects = state.tables.filter.objects.join(",");
        words += &format!("  in {}", foreign(objects.rsplit('/').next().unwrap_or("")));
    }
    match state.choice.lane {
        Some(Lane::Thread(id)) => words += &format!("  of thread {id}"),
        Some(Lane::Cpu(cpu)) => words += &format!("  of cpu {cpu}"),
        None => {}
    }
    words
}

fn foot(state: &State, paper: &mut Paper<'_>) {
    let text = match state.typing {
        Some(Typing::Search) => format!(" /{}▏", foreign(&state.search)),
        Some(Typing::Filter) => format!(" only functions with: {}▏", foreign(&state.filter)),
        Some(Typing::File) => {
            format!(
                " write to: {}▏  (.txt .csv .svg .folded; Enter writes, Esc does not)",
                foreign(&state.file)
            )
        }
        None if !state.note.is_empty() => format!(" {}", foreign(&state.note)),
        None if state.help.is_some() => " j k move · any other key goes back".to_owned(),
        None => {
            let more = match state.page {
                Page::Functions => "a code · Enter callers · s sort · f filter",
                Page::Neighbours => "Enter goes · ←→ side · Backspace back",
                Page::Tree => "Enter opens · i invert",
                Page::Flame => "←→↑↓ move · Enter zooms · i invert",
                Page::Code => "Enter next hottest · s lines",
                Page::Time if state.mark.is_some() => "←→ to the end · Enter shows it · v no mark",
                Page::Time => "←→ v mark · Enter this one · i cpus",
                Page::Events => "Enter shows this one",
            };
            // The end is what a newcomer needs first.
            let all = format!(" {more} · / search · Tab pages · ? help · q ends");
            if width(&all) <= paper.width() { all } else { format!(" {more} · ? help · q ends") }
        }
    };
    paper.put(0, 0, &text, dim());
}

/// A part of all in percent, in eight columns.
fn percent(part: u64, whole: u64) -> String {
    format!("{:7.2}%", part as f64 * 100.0 / whole.max(1) as f64)
}

/// The lines that can be seen where a cursor must be among them.
fn seen(cursor: usize, count: usize, height: usize) -> std::ops::Range<usize> {
    let first = cursor.saturating_sub(height / 2).min(count.saturating_sub(height));
    first..(first + height).min(count)
}

fn functions(state: &mut State, subject: &Subject<'_>, paper: &mut Paper<'_>) {
    let (shown, titles) = (state.shown(subject), subject.titles());
    state.height = paper.height().saturating_sub(1);
    state.line = state.place(subject, &shown);
    let range = seen(state.line, shown.len(), state.height);
    let rows = &shown[range.clone()];
    let is_symbol = |column: usize| subject.tables().keys[column] == Key::Symbol;
    let widest = |column: usize| {
        let texts = rows.iter().map(|&row| width(&subject.rows()[row].texts[column]));
        texts.chain([width(titles[column])]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..titles.len()).map(|at| widest(at).min(paper.width() / 4)).collect();
    let first = if subject.has_chains() { 17 } else { 8 };
    // Functions have the room that the others leave.
    if let Some(column) = (0..titles.len()).find(|&column| is_symbol(column)) {
        let others: usize =
            widths.iter().enumerate().filter(|(at, _)| *at != column).map(|(_, width)| width + 2).sum();
        let room = paper.width().saturating_sub(first + others + 2);
        widths[column] = if column + 1 == titles.len() { room } else { widest(column).min(room) };
    }
    // Each title with the column that it begins in and the order that it stands for.
    let mut heads = match subject.has_chains() {
        true => vec![(3, "Total", RowOrder::Total), (13, "Self", RowOrder::Own)],
        false => vec![(4, "Self", RowOrder::Own)],
    };
    let mut from = first + 2;
    for (column, &title) in titles.iter().enumerate() {
        heads.push((from, title, RowOrder::Key(column)));
        from += widths[column] + 2;
    }
    for (from, title, order) in heads {
        let is_total = state.tables.order == RowOrder::Total && !subject.has_chains();
        let is_it = state.tables.order == order || (is_total && order == RowOrder::Own);
        let style = if is_it { bold().add_modifier(Modifier::UNDERLINED) } else { dim() };
        let end = paper.put(0, from, title, style);
        state.spots.push((paper.place(0, from..end), Spot::Title(order)));
    }
    for (line, &row) in (1..).zip(rows) {
        let row = &subject.rows()[row];
        let mut text =
            if subject.has_chains() { percent(row.total, subject.whole()) + " " } else { String::new() };
        text += &percent(row.own, subject.whole());
        for (column, (one, &columns)) in row.texts.iter().zip(&widths).enumerate() {
            let one =
                if is_symbol(column) { fit(one, columns) } else { cut(one, columns, "…").into_owned() };
            text = text + "  " + &left(&one, columns);
        }
        let is_found = !state.search.is_empty() && row.texts.iter().any(|text| has(text, &state.search));
        let style = chosen(range.start + line - 1 == state.line);
        state.spots.push((paper.whole(line), Spot::Line(range.start + line - 1)));
        paper.line(line, text.trim_end(), if is_found { style.add_modifier(Modifier::BOLD) } else { style });
        let parts = [row.total, row.own];
        let parts = if subject.has_chains() { &parts[..] } else { &parts[1..] };
        shares(state.looks, paper, line, parts, subject.whole());
    }
    if shown.is_empty() {
        paper.line(1, " nothing fits", dim());
    }
}

/// Gives the shares at the beginning of a line their looks.
fn shares(looks: Looks, paper: &mut Paper<'_>, line: usize, parts: &[u64], whole: u64) {
    for (at, &part) in parts.iter().enumerate() {
        let style = looks.share(part as f64 * 100.0 / whole.max(1) as f64);
        paper.paint(line, 9 * at..9 * at + 8, style);
    }
}

fn neighbours(state: &mut State, subject: &Subject<'_>, paper: &mut Paper<'_>) {
    let Some(number) = state.row(subject) else { return };
    let neighbours = subject.neighbours(number);
    let [callers, callees] = &*neighbours;
    let half = paper.height().saturating_sub(3) / 2;
    state.height = half;
    let (row, whole) = (&subject.rows()[number], subject.whole());
    let (name, object) = subject.name(number).unwrap_or_default();
    let count = if state.in_callees { callees.len() } else { callers.len() };
    state.neighbour = state.neighbour.min(count.saturating_sub(1));
    let cursor = |is_here: bool| is_here.then_some(state.neighbour);
    paper.line(0, " called by", dim());
    let (callers_cursor, callees_cursor) = (cursor(!state.in_callees), cursor(state.in_callees));
    let nobody = "(nobody: it begins here)";
    let shown = list(callers, (whole, nobody), callers_cursor, state.looks, &mut paper.part(1, half));
    let spot = |is_callee| move |(area, place)| (area, Spot::Neighbour { is_callee, place });
    state.spots.extend(shown.into_iter().map(spot(false)));
    let middle = half + 1;
    let share = percent(row.total, whole);
    let own = format!("  itself {}", percent(row.own, whole));
    let room = paper.width().saturating_sub(width(&share) + 2 + width(&own) + 1);
    paper.line(middle, &format!("{share}  {}{own}", left(&named(&name, &object, room), room)), bold());
    shares(state.looks, paper, middle, &[row.total], whole);
    paper.line(middle + 1, " calls", dim());
    let rest = paper.height().saturating_sub(middle + 2);
    let mut below = paper.part(middle + 2, rest);
    let shown = list(callees, (whole, "(itself)"), callees_cursor, state.looks, &mut below);
    state.spots.extend(shown.into_iter().map(spot(true)));
}

/// Draws a list of neighbours, and tells where each stands.
fn list(
    all: &[Neighbour],
    (whole, nothing): (u64, &str),
    cursor: Option<usize>,
    looks: Looks,
    paper: &mut Paper<'_>,
) -> Vec<(Rect, usize)> {
    let range = seen(cursor.unwrap_or(0), all.len(), paper.height());
    let places = range.clone().enumerate().map(|(line, at)| (paper.whole(line), at)).collect();
    for (line, at) in range.enumerate() {
        let Neighbour { name, weight } = &all[at];
        let name = match name {
            Some((name, object)) => named(name, object, paper.width().saturating_sub(12)),
            None => nothing.to_owned(),
        };
        paper.line(line, &format!("{}    {name}", percent(*weight, whole)), chosen(cursor == Some(at)));
        shares(looks, paper, line, &[*weight], whole);
    }
    places
}

fn tree(state: &mut State, subject: &Subject<'_>, paper: &mut Paper<'_>) {
    let tree = subject.tree(!state.is_inverted);
    let lines = state.tree_lines(tree);
    state.height = paper.height().saturating_sub(1);
    state.tree_line = state.tree_line.min(lines.len().saturating_sub(1));
    let range = seen(state.tree_line, lines.len(), state.height);
    let head = if state.is_inverted { "   Share  Function" } else { "   Total     Self  Function" };
    paper.line(0, head, dim());
    // Deep trees move to the left.
    let depth = lines.get(state.tree_line).map_or(0, |&node| tree.nodes[node].depth);
    let hidden = (2 * depth).saturating_sub(paper.width() / 3);
    for (line, at) in (1..).zip(range) {
        let node = &tree.nodes[lines[at]];
        let (name, object) = frame_name(subject.frames(), node.frame);
        let sign = match (node.children.is_empty(), state.open.contains(&node.id)) {
            (true, _) => ' ',
            (false, true) => '▾',
            (false, false) => '▸',
        };
        let indent = " ".repeat((2 * node.depth).saturating_sub(hidden));
        let mut text = percent(node.weight, subject.whole());
        if !state.is_inverted {
            text = text + " " + &percent(node.own, subject.whole());
        }
        text += &format!("  {indent}{sign} ");
        text += &named(&name, &object, paper.width().saturating_sub(width(&text)));
        state.spots.push((paper.whole(line), Spot::Line(at)));
        paper.line(line, &text, chosen(at == state.tree_line));
        let parts = if state.is_inverted { &[node.weight][..] } else { &[node.weight, node.own] };
        shares(state.looks, paper, line, parts, subject.whole());
    }
}

fn flame(state: &mut State, subject: &Subject<'_>, paper: &mut Paper<'_>) {
    let tree = subject.tree(!state.is_inverted);
    let height = paper.height().saturating_sub(2);
    state.height = height;
    let Some(at) = state.flame_node(tree) else { return };
    let node = &tree.nodes[at];
    let (name, object) = frame_name(subject.frames(), node.frame);
    let share = percent(node.weight, subject.whole());
    let text = named(&name, &object, paper.width().saturating_sub(width(&share) + 2));
    paper.line(0, &format!("{share}  {text}"), bold());
    let zoom = state.zoom_node(tree);
    let all = zoom.map_or(subject.whole(), |zoom| tree.nodes[zoom].weight).max(1);
    let top = zoom.map_or(0, |zoom| tree.nodes[zoom].depth);
    // Levels before the one with the cursor go where there is no room for all.
    let first = (node.depth.saturating_sub(top) + 1).saturating_sub(height);
    let roots = zoom.map_or_else(|| tree.roots.clone(), |zoom| vec![zoom]);
    let mut open = vec![(roots, 0, paper.width())];
    while let Some((nodes, from, columns)) = open.pop() {
        let mut before = 0;
        for node in nodes {
            // Cells are shares of all, so that a function stands right below its caller.
            let column = |weight: u64| (weight as f64 / all as f64 * paper.width() as f64).round() as usize;
            let (start, end) = (column(before), column(before + tree.nodes[node].weight));
            before += tree.nodes[node].weight;
            let (start, end) = (from + start, (from + end).min(from + columns));
            let level = tree.nodes[node].depth.saturating_sub(top);
            if start >= end || level >= first + height {
                continue;
            }
            if level >= first {
                let line = level - first + 1;
                state.spots.push((paper.place(line, start..end), Spot::Node(tree.nodes[node].id)));
                cell(paper, (line, start, end), (tree, node, subject), (state.looks, node == at));
            }
            open.push((tree.nodes[node].children.clone(), start, end - start));
        }
    }
}

/// Draws a function of the flame graph.
fn cell(
    paper: &mut Paper<'_>,
    (line, start, end): (usize, usize, usize),
    (tree, node, subject): (&Tree, usize, &Subject<'_>),
    (looks, is_chosen): (Looks, bool),
) {
    let (name, object) = frame_name(subject.frames(), tree.nodes[node].frame);
    let room = (end - start).saturating_sub(1);
    let text = if room > 3 { fit(&name, room) } else { cut(&name, room, "").into_owned() };
    let text = left(&text, room);
    let style = looks.flame(&name, &object);
    let style = match (is_chosen, looks.colours) {
        (false, _) => style,
        (true, Colours::None) => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        (true, _) => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED | Modifier::REVERSED),
    };
    paper.put(line, start, "▏", style);
    paper.put(line, start + 1, &text, style);
}

fn code(state: &mut State, paper: &mut Paper<'_>) {
    state.height = paper.height().saturating_sub(1);
    let Some(code) = &mut state.code else {
        paper.line(1, " a shows the code of the function that has the cursor", dim());
        return;
    };
    let (cost, remark) = code.told();
    let path = code.of.object.as_str();
    let (name, object) = (code.name(), foreign(path.rsplit('/').next().unwrap_or(path)));
    let count = match cost.samples {
        0 => String::new(),
        samples => format!("  {} samples", grouped(samples)),
    };
    let room = paper.width().saturating_sub(width(&count) + 2);
    let end = paper.put(0, 1, &(named(&name, &object, room) + &count), bold());
    let has_room = end + 2 + width(&remark) <= paper.width();
    let remark_lines = match (code.lines.is_empty(), has_room) {
        (true, _) => {
            let text = wrap("", &remark, paper.width().saturating_sub(2).max(1));
            text.lines().enumerate().for_each(|(at, line)| _ = paper.put(2 + at, 1, line, Style::new()));
            0
        }
        (false, true) => {
            paper.put(0, end + 2, &remark, dim());
            0
        }
        // Below the name.
        (false, false) => {
            paper.put(1, 1, &cut(&remark, paper.width().saturating_sub(2), "…"), dim());
            1
        }
    };
    state.height = state.height.saturating_sub(remark_lines);
    code.line = code.line.min(code.lines.len().saturating_sub(1));
    let (at, whole) = (code.line, code.whole());
    let range = seen(at, code.lines.len(), state.height);
    for (line, number) in (1 + remark_lines..).zip(range) {
        let one = &code.lines[number];
        let share = match (one.cost.samples, code.value) {
            (0, _) => " ".repeat(8),
            (_, Value::Percent) => percent(one.cost.weight, whole),
            (samples, Value::Samples) => right(&samples.to_string(), 8),
            (_, Value::Period) => right(&perfuse_term::number::count(one.cost.weight as f64).joined(), 8),
        };
        let style = chosen(number == at);
        let style = if one.is_source { style.add_modifier(Modifier::DIM) } else { style };
        state.spots.push((paper.whole(line), Spot::Line(number)));
        paper.line(line, &format!("{share}  {}", one.text), style);
        if one.cost.samples > 0 {
            shares(state.looks, paper, line, &[one.cost.weight], whole);
        }
    }
}

fn events(state: &mut State, subject: &Subject<'_>, paper: &mut Paper<'_>) {
    let events = subject.events();
    state.height = paper.height().saturating_sub(1);
    state.event_line = state.event_line.min(events.len().saturating_sub(1));
    paper.line(0, &format!("   {} {}  Event", right("Samples", 14), right("Occurrences", 22)), dim());
    for (line, at) in (1..).zip(seen(state.event_line, events.len(), state.height)) {
        let (number, name, samples, weight) = &events[at];
        let sign = if *number == subject.event() { '•' } else { ' ' };
        let (samples, weight) = (right(&grouped(*samples), 14), right(&grouped(*weight), 22));
        state.spots.push((paper.whole(line), Spot::Line(at)));
        paper.line(line, &format!(" {sign} {samples} {weight}  {name}"), chosen(at == state.event_line));
    }
    if events.is_empty() {
        paper.line(1, " no event has samples", dim());
    }
}

/// A function and its object in so many columns: of long names, what tells them apart.
fn named(name: &str, object: &str, room: usize) -> String {
    let object = cut(object, room / 4, "…");
    format!("{}  {object}", fit(name, room.saturating_sub(width(&object) + 2)))
}

fn times(state: &mut State, subject: &Subject<'_>, paper: &mut Paper<'_>) {
    state.height = paper.height().saturating_sub(2);
    let room = (paper.width() / 4).clamp(8, 28);
    let from = 8 + 2 + room + 1;
    state.steps = paper.width().saturating_sub(from).max(1);
    state.column = state.column.min(state.steps - 1);
    let Some(timeline) = subject.timeline(state.steps, state.has_cpus) else {
        let why = match subject.samples() {
            0 => " no samples",
            _ => " the samples have no times here: a live profile shows what is now",
        };
        paper.line(1, why, dim());
        return;
    };
    state.lane = state.lane.min(timeline.lanes.len());
    let told = axis(state, &timeline, paper.width() - from.min(paper.width()));
    paper.line(0, &format!("{}{told}", left("   Share", from)), dim());
    let whole: u64 = timeline.all.iter().sum();
    let highest_of_all = timeline.all.iter().copied().max().unwrap_or(0);
    let highest = timeline.lanes.iter().flat_map(|one| &one.cells).copied().max().unwrap_or(0);
    let is_out = |column: usize| {
        let time = timeline.time_of(column..column + 1);
        let span = state.choice.span_ns.as_ref();
        span.is_some_and(|span| time.end <= span.start || span.end <= time.start)
    };
    let marked = state.marked().unwrap_or(0..0);
    let mut spots = Vec::new();
    // The first line is that of all of them.
    let range = seen(state.lane.saturating_sub(1), timeline.lanes.len(), state.height);
    for (line, lane) in (1..).zip(std::iter::once(0).chain(range.start + 1..range.end + 1)) {
        let one = lane.checked_sub(1).map(|lane| &timeline.lanes[lane]);
        let (name, weight, cells, most) = match one {
            Some(one) => (one.name.as_str(), one.weight, &one.cells, highest),
            None => ("all", whole, &timeline.all, highest_of_all),
        };
        let sign = if one.is_some_and(|one| state.choice.lane == Some(one.lane)) { '•' } else { ' ' };
        let name = left(&cut(name, room - 2, "…"), room - 2);
        let is_here = lane == state.lane;
        paper.put(line, 0, &format!("{}  {sign} {name} ", percent(weight, whole)), chosen(is_here));
        for (column, &weight) in cells.iter().enumerate() {
            let is_cursor = (is_here && column == state.column) || marked.contains(&column);
            let style = if is_out(column) { dim() } else { chosen(is_cursor) };
            paper.put(line, from + column, bar(weight, most).encode_utf8(&mut [0; 4]), style);
            spots.push((paper.place(line, from + column..from + column + 1), Spot::Step { lane, column }));
        }
    }
    state.spots.extend(spots);
}

/// The time of the cursor, or of what is marked, from the first sample on; and how long all is.
fn axis(state: &State, timeline: &Timeline, room: usize) -> String {
    let steps = state.marked().unwrap_or(state.column..state.column + 1);
    let span = timeline.time_of(steps);
    let since = |at: u64| time((at - timeline.span_ns.start) as f64, &UNICODE).joined();
    let here = format!("{} to {}", since(span.start), since(span.end));
    let end = format!("of {}", since(timeline.span_ns.end));
    let gap = room.saturating_sub(width(&here) + width(&end)).max(1);
    format!("{here}{}{end}", " ".repeat(gap))
}

/// A bar as high as a part of the most: nothing for none, and something for little.
fn bar(part: u64, most: u64) -> char {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths = (part as f64 * 8.0 / most.max(1) as f64).ceil() as usize;
    BARS[eighths.min(8)]
}
