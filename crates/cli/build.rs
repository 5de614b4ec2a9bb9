//! Links the optimized program with the C library in it, where this system has that as an archive: a program that asks for no
//! shared library starts sooner. Elsewhere, without optimization, for another machine, and where `RUSTFLAGS` say how
//! to build, it is linked as ever. `-C target-feature=+crt-static` would do the same, but only from outside.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// The shared libraries that Rust's own asks for, and the archives that have the same in them.
const LIBRARIES: [(&str, &str); 7] = [
    ("libgcc_s.so", "libgcc_eh.a"),
    ("libutil.so", "libutil.a"),
    ("librt.so", "librt.a"),
    ("libpthread.so", "libpthread.a"),
    ("libm.so", "libm.a"),
    ("libdl.so", "libdl.a"),
    ("libc.so", "libc.a"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_usual = is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var("HOST") == env::var("TARGET")
        && is("CARGO_ENCODED_RUSTFLAGS", "");
    if is_usual {
        // Without an archive nothing is said to the linker.
        let _ = link_statically();
    }
}

/// Has the linker look first into a folder where the archives stand under the names of the shared libraries.
fn link_statically() -> Option<()> {
    let folder = PathBuf::from(env::var_os("OUT_DIR")?).join("archives");
    let found = |(shared, archive): (&'static str, &str)| Some((shared, file_of_the_linker(archive)?));
    let archives: Vec<_> = LIBRARIES.into_iter().map(found).collect::<Option<_>>()?;
    let (_start, rest_of_gcc) = (file_of_the_linker("crt1.o")?, file_of_the_linker("libgcc.a")?);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).ok()?;
    archives.iter().try_for_each(|(shared, archive)| symlink(archive, folder.join(shared))).ok()?;

    let (folder, gcc) = (format!("-L{}", folder.display()), rest_of_gcc.display().to_string());
    // At fixed addresses: otherwise each start writes seventeen thousand addresses into a hundred pages, a tenth of `stat true`.
    // The archives need one another, which shared libraries settle by themselves.
    let archives =
        ["-static", "-no-pie", &folder, "-Wl,--start-group", "-lgcc_s", &gcc, "-lc", "-Wl,--end-group"];
    for argument in archives {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    Some(())
}

/// Where the linker has this file.
fn file_of_the_linker(name: &str) -> Option<PathBuf> {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or("cc".into());
    let answer = Command::new(linker).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim_end());
    // A name that it does not know comes back as it was.
    let is_there = path.is_absolute() && path.exists();
    if is_there {
        // A compiler that is newer has its files elsewhere.
        println!("cargo::rerun-if-changed={}", path.display());
    }
    is_there.then_some(path)
}
