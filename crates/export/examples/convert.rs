//! Writes folded stacks in another format: `convert in.folded out.svg`; without arguments it draws three functions.

use perfuse_export::{Format, Stacks};
use std::{env, fs, io, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [from, to] = paths.as_slice() else {
        let stacks = Stacks::from_folded(&b"main;parse 3\nmain;render;draw 7\n"[..])?;
        return Ok(stacks.write(Format::Folded, "an example", &mut io::stdout())?);
    };
    let stacks = Stacks::from_folded(io::BufReader::new(fs::File::open(from)?))?;
    let format = Format::of_path(to).ok_or("no format has this ending")?;
    stacks.write(format, &from.to_string_lossy(), &mut fs::File::create(to)?)?;
    Ok(())
}
