//! perf and perfuse record one program at the same time: what they find must be the same, as far as chance
//! allows.

use super::*;

/// Three functions that share the time 5 : 3 : 2, for two seconds of it. They come by chance: a program with
/// a rhythm of its own may be in step with the samples. They multiply, each time with the last product: how long
/// that takes does not depend on where the loop lies, as it does with a counter in memory.
const SHARES: [(&str, f64); 3] = [("five", 0.5), ("three", 0.3), ("two", 0.2)];
const PROGRAM: &str = r#"
    #include <stdlib.h>
    #include <time.h>
    volatile unsigned sink;
    #define HOT(name) __attribute__((noinline)) void name(void) { \
        unsigned product = sink; \
        for (int i = 0; i < 20000; i++) product = product * 1664525 + 1013904223; \
        sink = product; \
    }
    HOT(five)
    HOT(three)
    HOT(two)
    int main(void) {
        while (clock() < 2 * CLOCKS_PER_SEC) {
            int chance = rand() / 7 % 10;
            if (chance < 5) five(); else if (chance < 8) three(); else two();
        }
        return 0;
    }
"#;

/// Samples by function, as `script` of a reader names them.
fn functions(output: &Output) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in text(&output.stdout).lines() {
        let name = line.split_whitespace().nth(1).unwrap_or_default();
        *counts.entry(name.to_owned()).or_insert(0) += 1;
    }
    counts
}

/// How far a share of so many samples may be from the truth: five standard deviations of a binomial.
fn bound(share: f64, samples: usize) -> f64 {
    5.0 * (share * (1.0 - share) / samples as f64).sqrt()
}

pub(super) fn both_recorders_find_the_same_shares() -> Outcome {
    let folder = Folder::new("together");
    let program = compiled(&folder, "hot", PROGRAM)?;
    let (ours, theirs) = (folder.file("ours"), folder.file("theirs"));
    let mut perf = linux::command(&["record", QUICKLY, "-q", "-o"])?;
    let mut target = Command::new(program).spawn().expect("it starts");
    let pid = target.id().to_string();
    let arguments = ["-e", "cpu-clock", "-F", "997", "-p", &pid];
    let mut perf = perf.arg(&theirs).args(arguments).spawn().expect("perf starts");
    let output = record(&ours, &arguments).output().expect("it starts");
    let (perf, target) = (perf.wait().expect("it ends"), target.wait());
    assert!(output.status.success() && target.is_ok(), "{}", text(&output.stderr));
    if !perf.success() {
        return Err(Skip::needs("a perf that records", perf));
    }

    let arguments = ["script", "-F", "ip,sym"];
    let by = |output: &Output| -> Result<(Vec<f64>, usize), Skip> {
        let counts = functions(output);
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        let samples: usize = SHARES.iter().map(|(name, _)| count(name)).sum();
        // A machine that is busy with other things may give the program's time away.
        if samples < 500 {
            return Err(Skip::needs("a cpu for two seconds", format_args!("{counts:?}")));
        }
        Ok((SHARES.iter().map(|(name, _)| count(name) as f64 / samples as f64).collect(), samples))
    };
    let (theirs, their_number) = by(&self::perf(&arguments, &theirs)?)?;
    let mut perfuse = Command::new(self::program());
    let perfuse = perfuse.args(arguments).arg("-i").arg(&ours).output().expect("it starts");
    for output in [self::perf(&arguments, &ours)?, perfuse] {
        let (shares, number) = by(&output)?;
        for (index, (name, true_share)) in SHARES.into_iter().enumerate() {
            let (one, other) = (shares[index], theirs[index]);
            let fewer = number.min(their_number);
            // The two recordings are independent: the error of a difference is larger by the root of two.
            let allowed = bound(true_share, fewer) * 2f64.sqrt();
            assert!(
                (one - other).abs() < allowed,
                "{name}: {one} and {other} of {number} and {their_number}"
            );
            assert!((one - true_share).abs() < bound(true_share, number) + 0.02, "{name}: {one} of {number}");
        }
    }
    Ok(())
}
