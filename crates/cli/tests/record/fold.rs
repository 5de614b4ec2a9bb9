//! `--fold`: samples that are one in the file, of programs whose page faults are known.

use super::*;

/// Touches pages by two functions, in two threads, and in the program that a child executes.
const TOUCHER: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define PAGE 4096
static char *pages(int count) {
    char *memory = mmap(0, (size_t)count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, (size_t)count * PAGE, MADV_NOHUGEPAGE);
    return memory;
}
__attribute__((noinline)) void few(char *memory) { for (int i = 0; i < 300; i++) memory[i * PAGE] = 1; __asm__ volatile(""); }
__attribute__((noinline)) void many(char *memory) { for (int i = 0; i < 700; i++) memory[i * PAGE] = 1; __asm__ volatile(""); }
__attribute__((noinline)) void touches(void) { few(pages(300)); many(pages(700)); __asm__ volatile(""); }
static void *thread(void *unused) { touches(); return unused; }
int main(int count, char **arguments) {
    touches();
    if (count > 1) return 0;
    pthread_t other;
    pthread_create(&other, 0, thread, 0);
    pthread_join(other, 0);
    if (fork() == 0) { execl(arguments[0], arguments[0], "leaf", (char *)0); _exit(9); }
    wait(0);
    return 0;
}
"#;

/// Samples and the sums of their periods, by a field of the report.
fn sums(file: &Path, keys: &str) -> BTreeMap<String, (u64, u64)> {
    let mut report = Command::new(program());
    report.args([
        "report",
        "--stdio",
        "--no-children",
        "-g",
        "none",
        "-F",
        "sample,period",
        "-t;",
        "-s",
        keys,
    ]);
    let told = text(&report.arg("-i").arg(file).output().expect("it starts").stdout);
    let lines = told.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.split(';').map(str::trim).collect();
        let number = |index: usize| cells[index].parse::<u64>().expect("a number");
        (cells[2..].join(" "), (number(0), number(1)))
    });
    rows.collect()
}

pub(super) fn folded_samples_are_those_that_were_taken() -> Outcome {
    need::root()?;
    need::first_pid_namespace()?;
    let scratch = Folder::new("fold");
    let toucher = compiled(&scratch, "toucher", TOUCHER)?;
    let toucher = toucher.to_str().expect("names are UTF-8");
    for (name, chains) in [("places", &[][..]), ("stacks", &["-g"])] {
        let file = scratch.file(name);
        let said =
            recorded(&file, &[&["--fold", "-e", "page-faults:u", "-c", "1"], chains, &[toucher]].concat());
        if said.contains("not folded") {
            return Err(Skip::needs("BPF programs at events", said));
        }
        // Of the first thread, the second one, and the program that is executed: each in few samples.
        let functions = sums(&file, "sym");
        for (name, faults) in [("[.] few", 900), ("[.] many", 2100)] {
            let (samples, period) = functions.get(name).copied().unwrap_or_default();
            assert!(period == faults && (3..12).contains(&samples), "{name}: {functions:?}");
        }
        let threads = sums(&file, "tid");
        assert!(threads.len() == 3 && threads.values().all(|(_, faults)| *faults >= 1000), "{threads:?}");
    }
    Ok(())
}
