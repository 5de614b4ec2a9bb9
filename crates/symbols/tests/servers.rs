//! Programs and debug files that a debuginfod server has, asked by `curl` at a server of this test.

use perfuse_symbols::{
    BuildId, BuildIdStore, Elf, FetchError, GatherError, Part, Servers, SymbolOptions, build_id_of,
};
use perfuse_testkit::{Outcome, Skip, need};
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

perfuse_testkit::suite! {
    witnesses:
        a_build_comes_from_the_first_server_that_has_it,
        another_build_is_refused,
        a_program_that_is_gone_is_gathered_with_its_debug_file;
}

/// A server with these files, for as long as this process runs. Its address.
fn server(files: HashMap<String, Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/", listener.local_addr().expect("its address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
            let first = lines.next().and_then(Result::ok).unwrap_or_default();
            while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
            let path = first.split(' ').nth(1).unwrap_or_default();
            let (status, body) = match files.get(path) {
                Some(body) => ("200 OK", body.as_slice()),
                None => ("404 Not Found", &b"no such build"[..]),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    address
}

/// This program, which has a build-id, and options with a folder of their own for what servers send.
struct Asked {
    folder: PathBuf,
    options: SymbolOptions,
    program: PathBuf,
    id: BuildId,
}

impl Asked {
    fn new(name: &str) -> Result<Self, Skip> {
        need::program("curl")?;
        for proxy in ["http_proxy", "all_proxy", "ALL_PROXY"] {
            if std::env::var_os(proxy).is_some() {
                return Err(Skip::needs("no proxy", format_args!("{proxy} is set")));
            }
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let mut options = SymbolOptions::default();
        options.debuginfod_cache = Some(folder.join("cache"));
        options.build_id_store = Some(folder.join("store"));
        options.debug_dirs = Vec::new();
        let program = std::env::current_exe().expect("this program");
        let id = build_id_of(&program).map_err(|error| Skip::needs("a build-id", error))?;
        Ok(Asked { folder, options, program, id })
    }

    fn servers(&self, urls: &[&str]) -> Servers {
        Servers::new(&urls.join(" "), &self.options).expect("addresses")
    }

    fn at(&self, part: &str) -> String {
        format!("/buildid/{}/{part}", self.id)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn a_build_comes_from_the_first_server_that_has_it() -> Outcome {
    let asked = Asked::new("servers-first")?;
    let (without, bytes) = (server(HashMap::new()), fs::read(&asked.program).expect("this program"));
    let with = server(HashMap::from([(asked.at("debuginfo"), bytes.clone())]));
    let none = asked.servers(&[&without]).fetch(&asked.id, Part::DebugInfo);
    assert!(matches!(none, Err(FetchError::Nowhere(_))), "{none:?}");
    assert!(!asked.folder.join("cache").join(asked.id.to_string()).exists(), "an empty folder stays");
    // Nobody listens at the first one.
    let servers = asked.servers(&["http://127.0.0.1:1", &without, &with]);
    let place = servers.fetch(&asked.id, Part::DebugInfo).expect("the third has it");
    assert!(fs::read(&place).expect("it is kept") == bytes);
    // What is kept is not asked for again.
    let again = asked.servers(&["http://127.0.0.1:1"]).fetch(&asked.id, Part::DebugInfo);
    assert_eq!(again.expect("it is kept"), place);
    let refused = asked.servers(&["http://127.0.0.1:1", &without]).fetch(&asked.id, Part::Executable);
    assert!(matches!(&refused, Err(FetchError::Server { url, .. }) if url.contains(":1/")), "{refused:?}");
    Ok(())
}

fn another_build_is_refused() -> Outcome {
    let asked = Asked::new("servers-other")?;
    for sent in [fs::read("/bin/sh").expect("a shell"), b"not even ELF".to_vec(), Vec::new()] {
        let server = server(HashMap::from([(asked.at("executable"), sent)]));
        let got = asked.servers(&[&server]).fetch(&asked.id, Part::Executable);
        assert!(matches!(&got, Err(FetchError::Server { why, .. }) if why.contains("not build")), "{got:?}");
        assert!(!asked.folder.join("cache").join(asked.id.to_string()).exists(), "it is kept");
    }
    Ok(())
}

fn a_program_that_is_gone_is_gathered_with_its_debug_file() -> Outcome {
    let asked = Asked::new("servers-gone")?;
    let objcopy = need::program("objcopy")?;
    let made = |name: &str, option: &str| {
        let to = asked.folder.join(name);
        fs::create_dir_all(&asked.folder).expect("a folder");
        let done = Command::new(&objcopy).arg(option).arg(&asked.program).arg(&to).status();
        assert!(done.expect("it starts").success());
        fs::read(to).expect("it was written")
    };
    let files = HashMap::from([
        (asked.at("executable"), made("program", "--strip-all")),
        (asked.at("debuginfo"), made("program.debug", "--only-keep-debug")),
    ]);
    let (name, store) = (Path::new("/gone/program"), BuildIdStore::at(asked.folder.join("store")));
    let alone = store.gather(name, &asked.id, &asked.options, None);
    assert!(matches!(alone, Err(GatherError::Gone(None))), "{alone:?}");
    let address = server(files);
    let servers = asked.servers(&[&address]);
    let gathered = store.gather(name, &asked.id, &asked.options, Some(&servers)).expect("the server has it");
    assert!(gathered.no_debug_info.is_none(), "{gathered:?}");
    let kept = asked.folder.join("store").join("gone/program").join(asked.id.to_string());
    for (file, has_debug_info) in [("elf", false), ("debug", true)] {
        let elf = Elf::open(&kept.join(file)).expect(file);
        assert_eq!(elf.has_debug_info(), has_debug_info, "{file}");
        assert_eq!(elf.build_id().expect("readable"), Some(asked.id));
    }
    Ok(())
}
