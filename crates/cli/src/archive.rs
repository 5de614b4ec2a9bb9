//! `perfuse archive`: the files that a recording needs on another machine.

use crate::buildid_cache::store;
use crate::exit::{Failure, Result, reason};
use crate::listing::recorded;
use crate::recording::{Input, symbol_options};
use crate::term::foreign::foreign;
use crate::term::number;
use crate::term::out::{Complaints, say};
use perfuse_data::ReplacedFile;
use perfuse_symbols::archive::{ArchiveError, Archived, Compression, Wanted, archive, unpack};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `perfuse archive`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse archive                     perf.data.tar.bz2, of the files of perf.data\n  perfuse archive -i old.data -o old.tar.zst\n  perfuse archive --all               the recording, too\n  perfuse archive --unpack perf.data.tar.bz2"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Write there; its ending tells the form: .tar.bz2, .tar.gz, .tar.zst, .tar
    #[arg(short, long, value_name = "FILE", conflicts_with = "unpack")]
    output: Option<PathBuf>,
    /// With the recording itself
    #[arg(long, conflicts_with = "unpack")]
    all: bool,
    /// Unpack an archive into the store; a recording in it into this folder
    #[arg(long, value_name = "ARCHIVE")]
    unpack: Option<PathBuf>,
    /// The store; by default buildid.dir of perf's configuration, or ~/.debug
    #[arg(long, value_name = "FOLDER")]
    buildid_dir: Option<PathBuf>,
}

/// Runs `perfuse archive`.
pub(crate) fn run(args: &Args) -> Result {
    let options = symbol_options(false);
    let store = store(args.buildid_dir.as_deref(), &options)?;
    if let Some(archive) = &args.unpack {
        let failed = |error: ArchiveError| failure(archive, error);
        let file = File::open(archive).map_err(|error| failed(error.into()))?;
        let done = unpack(file, &store, Path::new(".")).map_err(failed)?;
        let mut complaints = Complaints::about("further entries that are not taken");
        for (name, why) in &done.refused {
            complaints.say(format_args!("{}: not taken: {why}", foreign(name.as_os_str().as_bytes())));
        }
        drop(complaints);
        if let Some(recording) = &done.recording {
            say(format_args!("unpacked {}", foreign(recording.as_os_str().as_bytes())));
        }
        say(format_args!("unpacked {} files into {}", done.files, store.folder().display()));
        return Ok(ExitCode::SUCCESS);
    }
    let input = args.input.in_file();
    let recording = input.path();
    if args.all && (recording.as_os_str() == "-" || !recording.is_file()) {
        return Err(Failure::usage("--all wants a recording in a file, which it packs"));
    }
    let files = recorded(&input, false)?.into_iter().chain(recorded(&input, true)?);
    let mut wanted: Vec<Wanted> = files
        .filter_map(|(id, name)| Some(Wanted { id: id.parse().ok()?, name: OsStr::from_bytes(&name).into() }))
        .collect();
    wanted.sort_by_key(|file| file.id);
    wanted.dedup_by_key(|file| file.id);
    if wanted.is_empty() {
        return Err(Failure::new(format_args!(
            "{}: it tells no build-ids; perfuse inject -b adds those of the files here",
            args.input.name()
        )));
    }
    let output = args.output.clone().unwrap_or_else(|| match recording.as_os_str() == "-" {
        true => "perf.data.tar.bz2".into(),
        false => {
            let mut name = recording.as_os_str().to_owned();
            name.push(".tar.bz2");
            name.into()
        }
    });
    let failed = |error| failure(&output, error);
    let mut file = ReplacedFile::new(&output).map_err(|error| failed(error.error.into()))?;
    let recording = args.all.then_some(recording);
    let compression = Compression::of_name(&output);
    let done = archive(file.file(), compression, &wanted, &store, &options, recording).map_err(failed)?;
    file.commit().map_err(|error| failed(error.error.into()))?;
    told(&done, &output, args.all);
    Ok(ExitCode::SUCCESS)
}

fn told(done: &Archived, output: &Path, all: bool) {
    for file in &done.missing {
        let name = foreign(file.name.as_os_str().as_bytes()).into_owned();
        say(format_args!("{name}: this build, {}, is nowhere here", file.id));
    }
    let size = number::bytes(done.bytes as f64);
    say(format_args!("wrote {} ({} files, {size} before they were packed)", output.display(), done.files));
    let unpack = format!("perfuse archive --unpack {}", output.display());
    match all {
        true => say(format_args!("to read it elsewhere: {unpack}")),
        false => say(format_args!(
            "to read the recording elsewhere: {unpack}, or tar xf {} -C ~/.debug",
            output.display()
        )),
    }
}

fn failure(archive: &Path, error: ArchiveError) -> Failure {
    let name = archive.display();
    match error {
        ArchiveError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            Failure::new(format_args!("{name}: {}", reason(&error)))
        }
        error => Failure::new(format_args!("{name}: {error}")),
    }
}
