//! The cost of a system call that does next to nothing while its program is traced: summed up in the kernel, from records, as lines, and by
//! `strace -c -f` and `perf trace -s`, where they are installed. The first row is nobody's.

use crate::measure::{Contestant, compare};
use crate::record::{alone, run};
use std::process::{Command, Stdio};

const ROUNDS: usize = 9;

/// Calls of a turn: those who trace slowly have fewer.
const MANY: u64 = 1_000_000;
const FEW: u64 = 20_000;

/// Bench `trace`.
pub fn all() {
    let perfuse = crate::stat::perfuse();
    let by = |words: &[&str], calls: u64| {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        move || {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).arg("--").arg(std::env::current_exe().expect("this program"));
            run(command, "calls", calls).ns / calls as f64
        }
    };
    let has = |program: &str| {
        let version =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let mut all = vec![
        Contestant::timed("nobody", || alone("calls", MANY).ns / MANY as f64),
        Contestant::timed("perfuse trace -c", by(&[&perfuse, "trace", "-c"], MANY)),
        Contestant::timed("perfuse trace -s", by(&[&perfuse, "trace", "-s"], MANY)),
        Contestant::timed("perfuse trace --by comm,ret", by(&[&perfuse, "trace", "--by", "comm,ret"], MANY)),
        Contestant::timed("  from records", by(&[&perfuse, "trace", "-c", "--if", "nr >= 0"], MANY)),
        Contestant::timed("perfuse trace, lines to nowhere", by(&[&perfuse, "trace"], MANY)),
    ];
    if has("strace") {
        all.push(Contestant::timed("strace -c -f", by(&["strace", "-c", "-f"], FEW)));
    }
    if has("perf") {
        all.push(Contestant::timed("perf trace -s", by(&["perf", "trace", "-s"], FEW)));
    }
    compare("a traced system call", ROUNDS, all);
}
