//! The cost of perfuse. Every figure is a ratio: against the raw system call, against the simplest loop
//! that could do the job, or against other crates and `perf`, taken in the same run in turns, so that
//! the machine's moods hit all alike. Medians over the rounds.
//!
//! ```text
//! cargo run --release --manifest-path benches/Cargo.toml            # all
//! cargo run --release --manifest-path benches/Cargo.toml -- read    # one of: read group drain stat start symbols data record report script sim engine live siblings unwound bpf trace
//! ```

mod accuracy;
mod bpf;
mod data;
mod drain;
mod engine;
mod hosted;
mod live;
mod measure;
mod read;
mod record;
mod recordings;
mod report;
mod siblings;
mod sim;
mod start;
mod stat;
mod symbols;
mod trace;
mod unwound;

/// The embedded kernel.
fn embedded() -> perfuse::Perf {
    perfuse::Perf::embedded().expect("one for this architecture")
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let [record::WORK, kind, amount] = wanted.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return record::work(kind, amount.parse().expect("a number"));
    }
    let all: [(&str, fn()); 17] = [
        ("read", read::single),
        ("group", read::group),
        ("drain", drain::all),
        ("stat", stat::whole_process),
        ("start", start::all),
        ("symbols", symbols::all),
        ("data", data::iterate),
        ("record", record::all),
        ("report", report::all),
        ("script", report::script),
        ("sim", sim::all),
        ("live", live::all),
        ("engine", engine::all),
        ("siblings", siblings::all),
        ("unwound", unwound::all),
        ("bpf", bpf::all),
        ("trace", trace::all),
    ];
    for (name, bench) in all {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            bench();
        }
    }
}
