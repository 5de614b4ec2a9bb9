//! `perfuse buildid-cache`: the store of files by build-id that perf and perfuse share.

use crate::exit::{FAILED, Failure, Result, reason};
use crate::listing::recorded;
use crate::recording::{Input, symbol_options};
use crate::term::foreign::foreign;
use crate::term::out::{self, say};
use perfuse_files::RootOf;
use perfuse_symbols::{Addition, BuildId, BuildIdStore, Servers, SymbolOptions, build_id_of};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `perfuse buildid-cache`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse buildid-cache -a ./program,./libfast.so    keeps them, for recordings of this build\n  perfuse buildid-cache --debuginfod -a perf.data    keeps what a recording names; servers have what is not here\n  perfuse buildid-cache -l\n  perfuse buildid-cache -M perf.data                 files that a recording names and the store has not\n  perfuse buildid-cache -p ./program                 removes all builds of it"
)]
pub(crate) struct Args {
    /// Add these files; of a recording, the files that it names
    #[arg(short, long, value_name = "FILE,...", value_delimiter = ',')]
    add: Vec<PathBuf>,
    /// Ask these debuginfod servers for what is not here of a recording; without URLS those of DEBUGINFOD_URLS
    #[arg(long, value_name = "URLS", num_args = 0..=1, require_equals = true, default_missing_value = "", requires = "add")]
    debuginfod: Option<String>,
    /// Remove these files: the builds that they are now
    #[arg(short, long, value_name = "FILE,...", value_delimiter = ',')]
    remove: Vec<PathBuf>,
    /// Remove all builds of these files, which need not be there any more
    #[arg(short, long, value_name = "FILE,...", value_delimiter = ',')]
    purge: Vec<PathBuf>,
    /// Remove everything
    #[arg(short = 'P', long)]
    purge_all: bool,
    /// List the files, by build-id: those that still are at their paths; with -v all
    #[arg(short, long)]
    list: bool,
    /// List the files of this recording that the store has not
    #[arg(short = 'M', long, value_name = "FILE")]
    missing: Option<PathBuf>,
    /// Add these files anew in place of what the store has of the same build
    #[arg(short, long, value_name = "FILE,...", value_delimiter = ',')]
    update: Vec<PathBuf>,
    /// The running kernel's list of symbols, for recordings that are read when another kernel runs
    #[arg(long)]
    kernel: bool,
    /// The files of the container that this process is in
    #[arg(long, value_name = "PID")]
    target_ns: Option<u32>,
    /// The store; by default buildid.dir of perf's configuration, or ~/.debug
    #[arg(long, value_name = "FOLDER")]
    buildid_dir: Option<PathBuf>,
    /// Taken for perf's sake
    #[arg(short, long, hide = true)]
    force: bool,
    /// Say what was done
    #[arg(short, long)]
    verbose: bool,
}

/// Runs `perfuse buildid-cache`.
pub(crate) fn run(args: &Args) -> Result {
    let options = symbol_options(false);
    let store = store(args.buildid_dir.as_deref(), &options)?;
    let lists = [&args.add, &args.remove, &args.purge, &args.update];
    let changes = args.purge_all || args.kernel || lists.iter().any(|list| !list.is_empty());
    if !changes && !args.list && args.missing.is_none() {
        return Err(Failure::usage("buildid-cache wants one of -a, -r, -p, -P, -l, -M, -u, --kernel"));
    }
    let cache = Cache { args, store, options };
    let mut refused = 0;
    let mut note = |done: Result<()>| {
        if let Err(failure) = done {
            refused += 1;
            say(failure);
        }
    };
    for file in &args.remove {
        note(cache.remove(file));
    }
    for file in &args.purge {
        note(cache.purge(file));
    }
    if args.purge_all {
        note(cache.purge_all());
    }
    for file in &args.update {
        note(cache.update(file));
    }
    for file in &args.add {
        note(cache.add(file));
    }
    if args.kernel {
        note(cache.added(Addition::Kernel, Path::new("the running kernel")));
    }
    let mut out = out::stdout();
    if args.list {
        cache.list(&mut out)?;
    }
    if let Some(recording) = &args.missing {
        cache.missing(&mut out, recording)?;
    }
    out.flush()?;
    Ok(if refused == 0 { ExitCode::SUCCESS } else { FAILED.into() })
}

/// The store in this folder, or the usual one.
pub(crate) fn store(folder: Option<&Path>, options: &SymbolOptions) -> Result<BuildIdStore> {
    let folder = folder.or(options.build_id_store.as_deref());
    let folder = folder.ok_or_else(|| {
        Failure::new("there is no home folder for the store ~/.debug; --buildid-dir names another")
    })?;
    Ok(BuildIdStore::at(folder))
}

struct Cache<'a> {
    args: &'a Args,
    store: BuildIdStore,
    options: SymbolOptions,
}

impl Cache<'_> {
    /// The path that a file is kept by, and the place where it can be read.
    fn places(&self, file: &Path) -> Result<(PathBuf, PathBuf)> {
        let found = match self.args.target_ns {
            Some(pid) => RootOf::process(pid).and_then(|root| root.find(file)),
            None => file.canonicalize().map(|real| (real.clone(), real)),
        };
        found.map_err(|error| {
            Failure::new(format_args!("{}: {}", foreign(file.as_os_str().as_bytes()), reason(&error)))
        })
    }

    fn told(&self, did: &str, id: &BuildId, file: &Path) {
        if self.args.verbose {
            say(format_args!("{did} {id} {}", foreign(file.as_os_str().as_bytes())));
        }
    }

    fn add(&self, file: &Path) -> Result<()> {
        if Input::at(file.to_owned(), false).open().is_ok() {
            return self.gather(file);
        }
        let (name, place) = self.places(file)?;
        self.added(Addition::File { name: &name, place: &place }, file)
    }

    fn added(&self, addition: Addition<'_>, file: &Path) -> Result<()> {
        let id = self.store.add(addition, &self.options).map_err(Failure::new)?;
        self.told("added", &id, file);
        Ok(())
    }

    /// The servers that may be asked, if any may.
    fn servers(&self) -> Result<Option<Servers>> {
        let Some(named) = &self.args.debuginfod else { return Ok(None) };
        let urls = match named.is_empty() {
            true => std::env::var("DEBUGINFOD_URLS").unwrap_or_default(),
            false => named.clone(),
        };
        let servers = Servers::new(&urls, &self.options);
        servers.map(Some).ok_or_else(|| {
            let from = if named.is_empty() { "DEBUGINFOD_URLS" } else { "--debuginfod" };
            Failure::usage(format_args!(
                "{from} names no server: it is \"{}\", and wants addresses of http or https with blanks between them",
                foreign(urls.as_bytes())
            ))
        })
    }

    /// Adds the files that a recording names, with their debug files.
    fn gather(&self, recording: &Path) -> Result<()> {
        let servers = self.servers()?;
        let (mut named, mut kept) = (0, 0);
        for (hex, name) in recorded(&Input::at(recording.to_owned(), false), false)? {
            let path = Path::new(OsStr::from_bytes(name.strip_suffix(b" (deleted)").unwrap_or(&name)));
            let Some(id) = hex.parse().ok().filter(|_| path.is_absolute()) else { continue };
            named += 1;
            match self.store.gather(path, &id, &self.options, servers.as_ref()) {
                Ok(gathered) => {
                    kept += 1;
                    self.told("added", &id, path);
                    if let Some(why) = gathered.no_debug_info {
                        say(format_args!("{}: no debug file: {why}", foreign(&name)));
                    }
                }
                Err(why) => say(format_args!("{}: {why}", foreign(&name))),
            }
        }
        match kept == named {
            true => Ok(()),
            false => Err(Failure::new(format_args!(
                "{}: {kept} of the {named} files that it names by build-id are kept",
                foreign(recording.as_os_str().as_bytes())
            ))),
        }
    }

    fn id_of(&self, file: &Path) -> Result<BuildId> {
        build_id_of(&self.places(file)?.1).map_err(Failure::new)
    }

    fn remove(&self, file: &Path) -> Result<()> {
        let id = self.id_of(file)?;
        match self.store.remove(&id).map_err(Failure::new)? {
            true => self.told("removed", &id, file),
            false => say(format_args!(
                "{}: the store has not this build, {id}",
                foreign(file.as_os_str().as_bytes())
            )),
        }
        Ok(())
    }

    fn purge(&self, file: &Path) -> Result<()> {
        // The file may be gone, and its folder too.
        let name = self.places(file).map_or_else(|_| std::path::absolute(file), |(name, _)| Ok(name))?;
        let ids = self.store.named(&name).map_err(Failure::new)?;
        if ids.is_empty() {
            say(format_args!("{}: the store has no build of it", foreign(name.as_os_str().as_bytes())));
        }
        ids.iter().try_for_each(|id| self.forget(id, &name))
    }

    fn purge_all(&self) -> Result<()> {
        let files = self.store.list().map_err(Failure::new)?;
        files.iter().try_for_each(|stored| self.forget(&stored.id, &stored.name))
    }

    fn forget(&self, id: &BuildId, name: &Path) -> Result<()> {
        self.store.remove(id).map_err(Failure::new)?;
        self.told("removed", id, name);
        Ok(())
    }

    fn update(&self, file: &Path) -> Result<()> {
        self.store.remove(&self.id_of(file)?).map_err(Failure::new)?;
        self.add(file)
    }

    fn list(&self, out: &mut impl Write) -> Result<()> {
        for stored in self.store.list().map_err(Failure::new)? {
            if self.args.verbose || stored.is_current() {
                writeln!(out, "{} {}", stored.id, foreign(stored.name.as_os_str().as_bytes()))?;
            }
        }
        Ok(())
    }

    fn missing(&self, out: &mut impl Write, recording: &Path) -> Result<()> {
        for (hex, name) in recorded(&Input::at(recording.to_owned(), false), false)? {
            let has = hex.parse().is_ok_and(|id| self.store.file(&id).is_some());
            if !hex.is_empty() && !has {
                writeln!(out, "{hex} {}", foreign(&name))?;
            }
        }
        Ok(())
    }
}
