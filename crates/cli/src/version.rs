//! `perfuse version` and `perfuse check`: which perfuse this is and what is built in, in the words of `perf version` and `perf check`.

use crate::exit::{Failure, Result};
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

/// Options of `perfuse check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The one thing that is checked
    #[arg(value_name = "feature", value_parser = ["feature"])]
    subject: String,
    /// Names of features, as perfuse version --build-options lists them
    #[arg(value_name = "NAME,...", required = true, value_delimiter = ',')]
    names: Vec<String>,
    /// Only the exit status tells: 0 if all of them are built in, else 1
    #[arg(short, long)]
    quiet: bool,
}

/// perf's features: its name for each, the macro it shows, and whether perfuse does the same.
const FEATURES: [(&str, &str, bool); 24] = [
    ("dwarf", "HAVE_DWARF_SUPPORT", true),
    ("dwarf_getlocations", "HAVE_LIBDW_SUPPORT", false),
    ("dwarf-unwind", "HAVE_DWARF_UNWIND_SUPPORT", true),
    ("libbfd", "HAVE_LIBBFD_SUPPORT", false),
    ("libcapstone", "HAVE_LIBCAPSTONE_SUPPORT", false),
    ("libLLVM", "HAVE_LIBLLVM_SUPPORT", false),
    ("libnuma", "HAVE_LIBNUMA_SUPPORT", false),
    ("libopencsd", "HAVE_CSTRACE_SUPPORT", false),
    ("libpfm4", "HAVE_LIBPFM", false),
    ("libslang", "HAVE_SLANG_SUPPORT", true),
    ("libtraceevent", "HAVE_LIBTRACEEVENT", true),
    ("libunwind", "HAVE_LIBUNWIND_SUPPORT", false),
    ("debuginfod", "HAVE_DEBUGINFOD_SUPPORT", true),
    ("libelf", "HAVE_LIBELF_SUPPORT", true),
    ("libperl", "HAVE_LIBPERL_SUPPORT", false),
    ("libpython", "HAVE_LIBPYTHON_SUPPORT", false),
    ("libdw-dwarf-unwind", "HAVE_DWARF_SUPPORT", true),
    ("lzma", "HAVE_LZMA_SUPPORT", true),
    ("zlib", "HAVE_ZLIB_SUPPORT", true),
    ("get_cpuid", "HAVE_AUXTRACE_SUPPORT", false),
    ("bpf", "HAVE_LIBBPF_SUPPORT", false),
    ("bpf_skeletons", "HAVE_BPF_SKEL", false),
    ("aio", "HAVE_AIO_SUPPORT", false),
    ("zstd", "HAVE_ZSTD_SUPPORT", true),
];

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let mut out = out::stdout();
    writeln!(out, "perfuse {}", env!("CARGO_PKG_VERSION"))?;
    if args.build_options || args.verbose {
        FEATURES.iter().try_for_each(|feature| tell(&mut out, feature))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn tell(out: &mut impl Write, &(name, name_of_macro, on): &(&str, &str, bool)) -> std::io::Result<()> {
    let state = if on { "on " } else { "OFF" };
    writeln!(out, "{name:>22}: [ {state} ]  # {name_of_macro}")
}

/// Runs `perfuse check`: names of features or of their macros, in any case, as in perf.
pub(crate) fn check(args: &CheckArgs) -> Result {
    let mut out = out::stdout();
    let mut status = ExitCode::SUCCESS;
    for wanted in &args.names {
        let is_it = |(name, name_of_macro, _): &&(&str, &str, bool)| {
            name.eq_ignore_ascii_case(wanted) || name_of_macro.eq_ignore_ascii_case(wanted)
        };
        let Some(feature) = FEATURES.iter().find(is_it) else {
            out.flush()?;
            let near = perfuse_events::nearest(wanted, FEATURES.iter().map(|(name, ..)| *name));
            let hint = match near.is_empty() {
                true => "perfuse version --build-options lists them".to_owned(),
                false => format!("did you mean {}?", near.join(" or ")),
            };
            return Err(Failure::new(format_args!("there is no feature '{wanted}'; {hint}")).with_status(1));
        };
        if !args.quiet {
            tell(&mut out, feature)?;
        }
        if !feature.2 {
            status = ExitCode::FAILURE;
        }
    }
    out.flush()?;
    Ok(status)
}
