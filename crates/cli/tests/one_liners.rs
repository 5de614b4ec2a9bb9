//! The one-liners of `docs/how-to/from-bpftrace.md` do here what the page says: each is run, beside a program that has something to
//! tell about.

use perfuse_testkit::{Outcome, Skip, need, suite};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

suite! {
    deterministic:
        the_page_has_fifty_one_liners;
    measurements:
        one_liners_work_or_say_what_is_missing;
}

fn program() -> PathBuf {
    std::env::var_os("PERFUSE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perfuse").into(), PathBuf::from)
}

/// The commands of each row, those that belong together in order.
fn one_liners() -> Vec<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/from-bpftrace.md");
    let text = std::fs::read_to_string(page).expect("the page");
    let tables = text.split("## Words").next().unwrap_or_default();
    let rows = tables.lines().filter(|line| line.starts_with("| `"));
    let commands = |row: &str| -> Vec<String> {
        row.split('`')
            .skip(1)
            .step_by(2)
            .filter(|code| code.starts_with("perfuse "))
            .map(str::to_owned)
            .collect()
    };
    rows.map(commands).collect()
}

fn the_page_has_fifty_one_liners() -> Outcome {
    let rows = one_liners();
    assert!(rows.len() >= 50 && rows.iter().all(|row| !row.is_empty()), "{rows:?}");
    Ok(())
}

/// A folder with a program that works until this is dropped.
struct Busy(PathBuf, Child);

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.1.kill();
        let _ = self.1.wait();
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn one_liners_work_or_say_what_is_missing() -> Outcome {
    need::root()?;
    need::tracefs()?;
    need::events()?;
    let folder = std::env::temp_dir().join(format!("perfuse-one-liners-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| Skip::needs("a folder", error))?;
    let work = "while :; do cat /etc/passwd /nonexistent/by-perfuse >/dev/null 2>&1; kill -0 $$; [ -e /etc ]; sleep 0.02; done";
    let child = Command::new("sh").args(["-c", work]).stdin(Stdio::null()).spawn().expect("sh starts");
    let busy = Busy(folder, child);
    let rows = one_liners();
    let (mut works, mut missing) = (0, Vec::new());
    for row in &rows {
        let failed = row.iter().find_map(|line| {
            let line = line.replacen("perfuse", "\"$PERFUSE\"", 1);
            let told = busy.0.join("told");
            let output = Command::new("sh")
                .args(["-c", &line])
                .stdout(std::fs::File::create(&told).expect("a file"))
                .env("PERFUSE", program())
                .env("PID", busy.1.id().to_string())
                .env("LC_ALL", "C.UTF-8")
                .current_dir(&busy.0)
                .stdin(Stdio::null())
                .output()
                .expect("sh starts");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let told = std::fs::read_to_string(&told).unwrap_or_default() + &said;
            // Of what does not happen meanwhile nothing is told; but files are opened and read, and a process is looked for.
            let happens =
                ["openat", "read", "%stat", "kill", "raw_syscalls", "record", "report", "-c", "--by name"];
            assert!(
                !told.is_empty()
                    || line.contains("--duration")
                    || !happens.iter().any(|word| line.contains(word)),
                "{line}"
            );
            (!output.status.success()).then_some(said)
        });
        match failed {
            None => works += 1,
            Some(said) => missing.push(format!("{}: {}", row[0], said.lines().next().unwrap_or_default())),
        }
    }
    println!("{works} of {} one-liners work here", rows.len());
    missing.iter().for_each(|line| println!("  {line}"));
    // This kernel may lack kinds of tracepoints, this machine a PMU, and its C library be another one.
    assert!(works * 4 >= rows.len() * 3, "{}", missing.join("\n"));
    for line in &missing {
        let reasons =
            ["there is no", "no PMU", "has no such event", "cannot make the probe", "takes Linux", "BPF"];
        assert!(reasons.iter().any(|reason| line.contains(reason)), "{line}");
    }
    Ok(())
}
