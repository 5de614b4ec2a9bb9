//! `perfuse inject`: a recording with more in it.

use crate::exit::{Failure, Result};
use crate::recording::Input;
use crate::rewrite::{Output, tell};
use crate::term::out::say;
use perfuse_data::rewrite::{BuildIdsOf, Inject};
use perfuse_profile::LocalFiles;
use perfuse_symbols::BuildId;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// Options of `perfuse inject`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perf record -B -o - -- ./program | perfuse inject -b -o perf.data    build-ids, told later\n  perfuse record -k mono -- node --perf-prof app.js\n  perfuse inject -j -i perf.data -o jitted.data    its compiled functions as files, for any tool"
)]
pub(crate) struct Args {
    /// The build-ids of files that have samples
    #[arg(short, long)]
    build_ids: bool,
    /// The build-ids of all files that were mapped
    #[arg(long)]
    buildid_all: bool,
    /// Build-ids of paths, in place of those of the files now: 'ID PATH'
    #[arg(long, value_name = "ID PATH,...", value_delimiter = ',')]
    known_build_ids: Vec<String>,
    /// Code of jitdumps as ELF files, with mappings of them: wants record -k mono
    #[arg(short, long)]
    jit: bool,
    /// Where these files go; by default beside the jitdump
    #[arg(long, value_name = "FOLDER", requires = "jit")]
    jit_folder: Option<PathBuf>,
    /// The recording, or - for standard input
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    input: PathBuf,
    /// Write there, when all is done; - for a pipe
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Believe the jitdumps of other users
    #[arg(short, long)]
    force: bool,
    /// Taken for perf's sake: there is no more to say
    #[arg(short, long, hide = true)]
    verbose: bool,
}

/// Runs `perfuse inject`.
pub(crate) fn run(args: &Args) -> Result {
    if args.input.as_os_str() == "-" && io::stdin().is_terminal() {
        return Err(Failure::usage("inject reads a recording from a pipe, or the file that -i names"));
    }
    let input = Input::at(args.input.clone(), args.force);
    let mut data = input.open()?;
    let mut files = LocalFiles::of(&mut data);
    files.known = args.known_build_ids.iter().map(|text| known(text)).collect::<Result<_>>()?;
    (files.any_owner, files.folder) = (args.force, args.jit_folder.clone());
    let build_ids = match (args.build_ids, args.buildid_all) {
        (_, true) => BuildIdsOf::Mapped,
        (true, false) => BuildIdsOf::Hit,
        (false, false) if files.known.is_empty() => BuildIdsOf::Nothing,
        (false, false) => BuildIdsOf::Hit,
    };
    let mut inject = Inject::default();
    (inject.build_ids, inject.code) = (build_ids, args.jit);
    let output = Output::at(args.output.clone());
    let done = output.write(&input.name(), |target| inject.run(data, target, &mut files))?;
    files.problems.iter().for_each(say);
    if args.jit {
        say(format_args!("wrote {} files of compiled functions", files.written));
    }
    Ok(tell(&done, &args.output))
}

/// A build-id and the path of its file.
fn known(text: &str) -> Result<(PathBuf, BuildId)> {
    let parts = text.trim().split_once(' ').map(|(id, path)| (id.parse(), PathBuf::from(path.trim())));
    match parts {
        Some((Ok(id), path)) => Ok((path, id)),
        Some((Err(error), _)) => Err(Failure::usage(format_args!("--known-build-ids: {error}"))),
        None => Err(Failure::usage(format_args!("--known-build-ids wants 'ID PATH', not '{text}'"))),
    }
}
