//! `perfuse script`: a line for each sample, in perf's form.

use crate::common::pages::{self, Paging};
use crate::common::unsupported::{OfScript, Unsupported};
use crate::exit::{Failure, Result};
use crate::recording::passed::Passed;
use crate::recording::stacks::{self, Stacks};
use crate::recording::{self, FilterArgs, Input, SymbolFiles};
use crate::term::foreign::{foreign, width};
use crate::term::out::{say, wants_colours};
use perfuse_abi::record::{Decoded, Record, RecordType, Sample};
use perfuse_annotate::first_instruction;
use perfuse_data::describe::{self, AskedFields, Field, Fields};
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::replay::{Filter, Formats, Groups, Replay, Step};
use perfuse_data::session::Session;
use perfuse_data::tool::kind;
use perfuse_data::{Event, FileRecord, Ordered};
use perfuse_export::script::{self, Clock, Lines, LinesOptions, TimeOfDay};
use perfuse_profile::{Admitted, Lookup};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

/// Options of `perfuse script`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse script | head\n  perfuse script -F comm,tid,time,ip,sym,dso --ns\n  perfuse record -g -o - -- ./program | perfuse script -i -"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    symbol_files: SymbolFiles,
    #[command(flatten)]
    filter: FilterArgs,
    /// Print of each sample: comm, tid, pid, time, cpu, period, event, addr, ip, sym, symoff, dso, brstack, trace ...; with + or - in front, more or less than by default; with hw:, sw:, trace: ... in front, only for events of that type
    #[arg(short = 'F', long, value_name = "FIELD,...", allow_hyphen_values = true, value_parser = AskedFields::from_str)]
    fields: Vec<AskedFields>,
    /// Only samples in these objects, by name with or without folders
    #[arg(long, visible_alias = "dsos", value_name = "NAME,...", value_delimiter = ',')]
    dso: Vec<String>,
    /// Only samples in these functions, or at these addresses (0x...)
    #[arg(short = 'S', long, visible_alias = "symbol", value_name = "NAME,...", value_delimiter = ',')]
    symbols: Vec<String>,
    /// Also samples up to so many bytes behind the addresses of -S
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true, requires = "symbols")]
    addr_range: u64,
    /// An object for each sample in place of a line
    #[arg(long, conflicts_with_all = ["fields", "dump_raw_trace", "header", "header_only", "reltime", "deltatime", "show_mmap_events",
        "show_task_events", "show_switch_events", "show_namespace_events", "show_cgroup_events", "show_lost_events", "show_bpf_events",
        "show_text_poke_events", "show_round_events"])]
    json: bool,
    /// The lines of each event into a file of its own, next to the recording
    #[arg(long)]
    per_event_dump: bool,
    /// End callchains with these functions
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    stop_bt: Vec<String>,
    /// Times with nine digits
    #[arg(long)]
    ns: bool,
    /// Times since the first line
    #[arg(long, conflicts_with = "deltatime")]
    reltime: bool,
    /// Times since the line before
    #[arg(long)]
    deltatime: bool,
    /// Do not print callchains
    #[arg(short = 'G', long)]
    hide_call_graph: bool,
    /// At most so many frames of a callchain
    #[arg(long, value_name = "N", default_value_t = perfuse_profile::Plan::MAX_STACK)]
    max_stack: usize,
    /// At most so many blocks of code between branches (brstackinsn)
    #[arg(long, value_name = "N")]
    max_blocks: Option<usize>,
    /// Print functions that were inlined into others in callchains (default)
    #[arg(long, hide = true, overrides_with = "no_inline")]
    inline: bool,
    /// Do not look for functions that were inlined into others
    #[arg(long, overrides_with = "inline")]
    no_inline: bool,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    header: recording::header::Shown,
    /// Also print where mappings were made
    #[arg(long)]
    show_mmap_events: bool,
    /// Also print names, forks and exits
    #[arg(long)]
    show_task_events: bool,
    /// Also print context switches
    #[arg(long)]
    show_switch_events: bool,
    /// Also print namespaces
    #[arg(long)]
    show_namespace_events: bool,
    /// Also print cgroups
    #[arg(long)]
    show_cgroup_events: bool,
    /// Also print losses
    #[arg(long)]
    show_lost_events: bool,
    /// Also print BPF programs and symbols of the kernel
    #[arg(long)]
    show_bpf_events: bool,
    /// Also print changes of the kernel's code
    #[arg(long)]
    show_text_poke_events: bool,
    /// Also print where perf had emptied all of its buffers, and all records in the order of the file
    #[arg(long)]
    show_round_events: bool,
    /// Print every record with its contents
    #[arg(short = 'D', long)]
    dump_raw_trace: bool,
    /// Names as they are in the files
    #[arg(long)]
    no_demangle: bool,
    /// Call source files by their whole paths
    #[arg(long)]
    full_source_path: bool,
    #[command(flatten)]
    unsupported: Unsupported<OfScript>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let coloured = wants_colours(anstream::ColorChoice::Auto, &std::io::stdout());
    pages::paged(args.paging, coloured, |out| show(out, args))
}

fn show(mut out: impl Write, args: &Args) -> Result {
    args.header.print(&mut out, &args.input)?;
    if args.dump_raw_trace {
        recording::dump(&mut out, &args.input, false)?;
    } else if !args.header.header_only {
        print(&mut out, args)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, args: &Args) -> Result<()> {
    let symbols = args.symbol_files.symbols(args.input.force);
    let mut data = args.input.open_named(&symbols)?;
    let mut wanted = Admitted::new(args.filter.of(&mut data, &args.input)?, &symbols);
    let clock = match (args.reltime, args.deltatime) {
        (true, _) => Clock::SinceStart,
        (_, true) => Clock::SinceLast,
        _ => Clock::Recorded,
    };
    let tells_lines =
        args.fields.iter().any(|asked| asked.names(Field::Srcline) || asked.names(Field::Srccode));
    let symbols = symbols.with_debug_info(!args.no_inline, tells_lines);
    let machine = describe::machine(&mut data);
    let mut stacks = Stacks::new(&symbols, &machine, args.max_stack);
    let time_of_day = match recording::feature(&mut data, FeatureId::CLOCK_DATA) {
        Some(Feature::Clock(clock)) => {
            let local_time = |since| recording::header::local_time(since).strftime("%F %H:%M:%S").to_string();
            Some(TimeOfDay { wall_ns: clock.wall_ns, clock_ns: clock.clock_ns, local_time })
        }
        _ => None,
    };
    // The events of a pipe are not known yet.
    let has_any = |asked: &AskedFields| {
        data.events().is_empty() || data.events().iter().any(|event| asked.is_for(event))
    };
    if time_of_day.is_none() && args.fields.iter().any(|asked| asked.names(Field::Tod) && has_any(asked)) {
        let why = "it does not tell the time of day; a file recorded with -k does, a pipe does not";
        return Err(Failure::new(format_args!("{} has no 'tod': {why}", args.input.name())));
    }
    let options = LinesOptions {
        nanoseconds: args.ns,
        clock,
        max_stack: args.max_stack,
        json: args.json,
        machine,
        time_of_day,
        stop_at: args.stop_bt.clone(),
        decode: Some(first_instruction),
        max_blocks: args.max_blocks,
    };
    let lookup = Lookup::new(symbols, !args.no_demangle).with_full_paths(args.full_source_path);
    let mut lines = Lines::new(lookup, options);
    let mut dumps = Dumps::default();
    let mut fields: Vec<Option<Fields>> = Vec::new();
    let mut groups = Groups::default();
    let mut names_are_aligned = false;
    let mut passed = Passed::default();
    // Rounds are the order in which perf emptied its buffers: records between two ends are shown there.
    let ordered = if args.show_round_events { Ordered::as_read(data) } else { Ordered::new(data) };
    let mut each = |step: &Step<'_>| {
        let &Step { entry, decoded, session, formats, .. } = step;
        let Some(decoded) = decoded else {
            if args.show_round_events && entry.kind() == kind::FINISHED_ROUND {
                lines.plain("PERF_RECORD_FINISHED_ROUND");
            }
            lines.tool(entry, formats);
            return take_much(&mut lines, out);
        };
        let Record::Sample(sample) = &decoded.record else {
            // --time is about samples, as perf has it.
            if shows(args, entry.kind()) && wanted.filter().admits_cpu(decoded.cpu()) {
                let index = entry.event_index();
                let fields =
                    index.map(|index| fields_of(&mut fields, index, entry, args, formats)).transpose()?;
                lines.record(entry, decoded, session, fields);
            }
            return take_much(&mut lines, out);
        };
        let Some(event) = entry.event() else { return Ok(()) };
        let passes = is_wanted(args, wanted.filter(), decoded, (event, sample), session, &mut lines)
            && wanted.admits(step, sample)?;
        passed.count(sample, passes);
        if !passes {
            return Ok(());
        }
        if args.per_event_dump {
            lines.take(out)?;
        }
        let mut result = Ok(());
        groups.deliver(entry, sample, |index, event, period| {
            if !names_are_aligned {
                let widths = entry.events().iter().map(|event| width(&foreign(&formats.event_name(event))));
                lines.align_names(widths.max().unwrap_or(0));
                names_are_aligned = true;
            }
            match fields_of(&mut fields, index, entry, args, formats) {
                Ok(fields) if fields.is_empty() => {}
                Ok(fields) => {
                    lines.sample(&script::Sample {
                        event,
                        fields,
                        period,
                        decoded,
                        sample,
                        session,
                        formats,
                    });
                    if args.per_event_dump {
                        result = dumps.take(args, index, &fields.name, &mut lines);
                    }
                }
                Err(error) => result = Err(error),
            }
        });
        result?;
        take_much(&mut lines, out)
    };
    recording::replay(Replay::of(ordered), |step| {
        args.unsupported.heed(step)?;
        match args.hide_call_graph {
            true => each(step),
            false => stacks.visit(step, &mut each),
        }
    })?;
    lines.take(out)?;
    stacks::say(&stacks.unwinder);
    let of_functions = [("--dso", args.dso.join(",")), ("-S", args.symbols.join(","))];
    let of_functions = of_functions.iter().filter_map(|(name, value)| recording::word(name, value));
    passed.none(&args.filter, &of_functions.collect::<Vec<_>>()).into_iter().for_each(say);
    dumps.finish(out)
}

/// Takes lines that wait when they are much.
fn take_much(lines: &mut Lines, out: &mut impl Write) -> Result<()> {
    if lines.bytes() >= 1 << 16 {
        lines.take(out)?;
    }
    Ok(())
}

/// Files with the lines of an event each.
#[derive(Default)]
struct Dumps(Vec<Option<Dump>>);

struct Dump {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: usize,
    samples: u64,
}

impl Dumps {
    /// Moves the lines of a sample into the file of its event.
    fn take(&mut self, args: &Args, index: usize, name: &str, lines: &mut Lines) -> Result<()> {
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        if self.0[index].is_none() {
            let input = args.input.path().as_os_str();
            let input = if input == "-" { OsStr::new("perf.data") } else { input };
            let path = |end: &str| {
                let mut path = input.to_owned();
                path.push(end);
                PathBuf::from(path)
            };
            let name = name.replace('/', "_");
            let mut path = [path(&format!(".{name}.dump")), path(&format!(".{name}.{index}.dump"))];
            // Of several events of one name each has its number.
            let is_taken = self.0.iter().flatten().any(|dump| dump.path == path[0]);
            let path = std::mem::take(&mut path[usize::from(is_taken)]);
            let file = File::create(&path)
                .map_err(|error| Failure::new(format_args!("cannot create {}: {error}", path.display())))?;
            self.0[index] = Some(Dump { path, file: BufWriter::new(file), bytes: 0, samples: 0 });
        }
        let Some(dump) = &mut self.0[index] else { return Ok(()) };
        dump.bytes += lines.bytes();
        dump.samples += 1;
        Ok(lines.take(&mut dump.file)?)
    }

    /// Says what was written where.
    fn finish(self, out: &mut impl Write) -> Result<()> {
        for dump in self.0.into_iter().flatten() {
            let Dump { path, mut file, bytes, samples } = dump;
            file.flush()?;
            let megabytes = bytes as f64 / 1024.0 / 1024.0;
            writeln!(
                out,
                "[ perfuse script: Wrote {megabytes:.3} MB {} ({samples} samples) ]",
                foreign(path.as_os_str().as_encoded_bytes())
            )?;
        }
        Ok(())
    }
}

/// The fields of an event's lines, worked out once.
fn fields_of<'f>(
    known: &'f mut Vec<Option<Fields>>,
    index: usize,
    entry: &FileRecord<'_>,
    args: &Args,
    formats: &Formats,
) -> Result<&'f Fields> {
    if known.len() <= index {
        known.resize(index + 1, None);
    }
    match &mut known[index] {
        Some(fields) => Ok(fields),
        unknown => {
            let event = &entry.events()[index];
            let fields = Fields::of(event, formats.event_name(event), &args.fields, !args.hide_call_graph)
                .map_err(Failure::new)?;
            Ok(unknown.insert(fields))
        }
    }
}

fn is_wanted(
    args: &Args,
    filter: &Filter,
    decoded: &Decoded<'_>,
    (event, sample): (&Event, &Sample<'_>),
    session: &Session,
    lines: &mut Lines,
) -> bool {
    let tid = sample.tid.unwrap_or_default();
    if !filter.admits_all_tasks() && !filter.admits_task(tid.pid, tid.tid, &session.name_of(tid.tid)) {
        return false;
    }
    if args.dso.is_empty() && args.symbols.is_empty() {
        return true;
    }
    let located = lines.locate(event, decoded, sample, session);
    let object = [lines.lookup().object(located.object), lines.lookup().short_object(located.object)];
    (args.dso.is_empty() || args.dso.iter().any(|name| object.contains(&name.as_str())))
        && (args.symbols.is_empty()
            || args.symbols.iter().any(|name| match address(name) {
                Some(start) => {
                    let end = start.saturating_add(args.addr_range.max(1));
                    (start..end).contains(&sample.ip.unwrap_or(0))
                }
                None => Some(name.as_str()) == located.symbol.as_deref(),
            }))
}

/// An address in place of a name.
fn address(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("0x")?, 16).ok()
}

/// Whether records of this kind are to be printed too.
fn shows(args: &Args, kind: RecordType) -> bool {
    match kind {
        RecordType::MMAP | RecordType::MMAP2 => args.show_mmap_events,
        RecordType::COMM | RecordType::FORK | RecordType::EXIT => args.show_task_events,
        RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE => args.show_switch_events,
        RecordType::NAMESPACES => args.show_namespace_events,
        RecordType::CGROUP => args.show_cgroup_events,
        RecordType::LOST | RecordType::LOST_SAMPLES => args.show_lost_events,
        RecordType::KSYMBOL | RecordType::BPF_EVENT => args.show_bpf_events,
        RecordType::TEXT_POKE => args.show_text_poke_events,
        _ => false,
    }
}
