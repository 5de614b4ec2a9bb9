//! Opens files by names of strangers, as arguments: `careful /bin/sh /dev/zero /tmp/fifo`.

use std::env::args_os;
use std::path::PathBuf;

fn main() {
    let mut paths: Vec<PathBuf> = args_os().skip(1).map(PathBuf::from).collect();
    if paths.is_empty() {
        paths = vec!["/proc/self/exe".into(), "/dev/zero".into(), "/".into(), "/no/such".into()];
    }
    for path in paths {
        match perfuse_files::open(&path) {
            Ok(_) => println!("{}: a regular file", path.display()),
            Err(error) => println!("{}: {error}", path.display()),
        }
    }
}
