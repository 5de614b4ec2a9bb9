//! `perfuse script`: a line for each sample, in perf's form.

mod fields;
mod line;

use crate::exit::Result;
use crate::recording::{self, Filter, Input};
use fields::Fields;
use line::Line;
use perfuse_abi::record::{Record, RecordType};
use perfuse_data::session::Session;
use perfuse_profile::Frames;
use std::io::Write;
use std::process::ExitCode;

/// Options of `perfuse script`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse script | head\n  perfuse script -F comm,tid,time,ip,sym,dso --ns\n  perfuse record -g -o - -- ./program | perfuse script -i -"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    filter: Filter,
    /// What to print of each sample: comm, tid, pid, time, cpu, period, event, addr, ip, sym, symoff, dso, brstack, trace ...; with + or - in front, more or less than by default
    #[arg(short = 'F', long, value_name = "FIELD,...", allow_hyphen_values = true, value_parser = fields::parse)]
    fields: Option<fields::Asked>,
    /// Times with nine digits
    #[arg(long)]
    ns: bool,
    /// Do not print callchains
    #[arg(short = 'G', long)]
    hide_call_graph: bool,
    /// Show what the recording says of itself first
    #[arg(long)]
    header: bool,
    /// Show only what the recording says of itself
    #[arg(long)]
    header_only: bool,
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
    /// Print every record, with what is in it
    #[arg(short = 'D', long)]
    dump_raw_trace: bool,
    /// Names as they are in the files
    #[arg(long)]
    no_demangle: bool,
    /// Taken for perf's sake: inlined functions are not told apart yet
    #[arg(long, hide = true)]
    no_inline: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let mut out = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    if args.header || args.header_only {
        recording::header::print(&mut out, &args.input)?;
    }
    if args.dump_raw_trace {
        recording::dump::print(&mut out, &args.input, false)?;
    } else if !args.header_only {
        print(&mut out, args)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, args: &Args) -> Result<()> {
    let data = args.input.open()?;
    let mut session = Session::new();
    let digits = if args.ns { 9 } else { 6 };
    // The names of events are aligned; those in a pipe are not known yet.
    let name_width = data.events().iter().map(|event| recording::event_name(event).len()).max().unwrap_or(0);
    let mut lines = Line::new(Frames::new(!args.no_demangle), digits, args.hide_call_graph, name_width);
    let mut fields: Vec<Option<Fields>> = Vec::new();
    recording::replay(data, &mut session, |entry, decoded, session, formats| {
        let Some(decoded) = decoded else { return Ok(()) };
        let tid = decoded.tid().unwrap_or_default();
        let comm = session.comm_of(tid.pid, tid.tid);
        let comm = comm.map_or(&b""[..], |comm| session.comm(comm));
        let wanted = args.filter.admits_moment(decoded.cpu(), decoded.time())
            && args.filter.admits_task(tid.pid, tid.tid, comm);
        if !wanted {
            return Ok(());
        }
        let Record::Sample(sample) = &decoded.record else {
            if shows(args, entry.kind()) {
                lines.side(entry, decoded, session, entry.event().map(|event| Fields::of(event, None)));
                lines.write(out)?;
            }
            return Ok(());
        };
        let (Some(index), Some(event)) = (entry.event_index(), entry.event()) else { return Ok(()) };
        while fields.len() <= index {
            fields.push(None);
        }
        let fields = fields[index].get_or_insert_with(|| Fields::of(event, args.fields.as_ref()));
        lines.sample(event, fields, decoded, sample, session, formats);
        lines.write(out)
    })?;
    Ok(())
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
