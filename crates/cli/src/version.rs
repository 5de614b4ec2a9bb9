//! `perfuse version`: which perfuse this is and what is built in, in the words of `perf version`.

use crate::exit::Result;
use crate::term::out;
use std::io::Write;
use std::process::ExitCode;

/// Options of `perfuse version`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also what is built in, by the names of perf's features
    #[arg(long)]
    build_options: bool,

    /// The same
    #[arg(short = 'v', long, hide = true)]
    verbose: bool,
}

/// perf's features: its name for each, the macro it shows, and whether perfuse does the same.
const FEATURES: [(&str, &str, bool); 12] = [
    ("dwarf", "HAVE_DWARF_SUPPORT", true),
    ("libbfd", "HAVE_LIBBFD_SUPPORT", false),
    ("debuginfod", "HAVE_DEBUGINFOD_SUPPORT", false),
    ("libelf", "HAVE_LIBELF_SUPPORT", true),
    ("libperl", "HAVE_LIBPERL_SUPPORT", false),
    ("libpython", "HAVE_LIBPYTHON_SUPPORT", false),
    ("libdw-dwarf-unwind", "HAVE_DWARF_SUPPORT", true),
    ("lzma", "HAVE_LZMA_SUPPORT", true),
    ("get_cpuid", "HAVE_AUXTRACE_SUPPORT", false),
    ("bpf", "HAVE_LIBBPF_SUPPORT", false),
    ("aio", "HAVE_AIO_SUPPORT", false),
    ("zstd", "HAVE_ZSTD_SUPPORT", true),
];

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let mut out = out::stdout();
    writeln!(out, "perfuse {}", env!("CARGO_PKG_VERSION"))?;
    if args.build_options || args.verbose {
        for (name, name_of_macro, on) in FEATURES {
            let state = if on { "on " } else { "OFF" };
            writeln!(out, "{name:>22}: [ {state} ]  # {name_of_macro}")?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
