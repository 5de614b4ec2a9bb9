//! A line on standard error that tells how far a long reading is, when somebody is there to see it.

use crate::term::out;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

/// Shorter work goes without.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often the clock is looked at, in bytes.
const STEP: u64 = 4 << 20;

pub(crate) struct Progress {
    size: u64,
    next: u64,
    start: Instant,
    is_shown: bool,
}

impl Progress {
    /// Progress of reading a regular file, shown on a terminal only.
    pub(crate) fn new(path: &Path) -> Self {
        let size = path.metadata().ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len());
        let size = size.filter(|_| std::io::stderr().is_terminal()).unwrap_or(0);
        let next = if size > 0 { 0 } else { u64::MAX };
        Progress { size, next, start: Instant::now(), is_shown: false }
    }

    /// Reading came to a place in the file.
    #[inline]
    pub(crate) fn at(&mut self, offset: u64) {
        if offset >= self.next {
            self.show(offset);
        }
    }

    #[cold]
    fn show(&mut self, offset: u64) {
        self.next = offset + STEP;
        if self.start.elapsed() < PATIENCE {
            return;
        }
        self.is_shown = true;
        let percent = offset.min(self.size) as f64 * 100.0 / self.size as f64;
        out::progress(&format!("reading {} of {} MB, {percent:.0} %", offset >> 20, self.size >> 20));
    }

    /// Shows the work that goes on once all is read, if reading has taken long.
    pub(crate) fn says(&mut self, words: &str) {
        if self.size > 0 && self.start.elapsed() >= PATIENCE {
            self.is_shown = true;
            out::progress(words);
        }
    }

    /// Takes the line away.
    pub(crate) fn finish(&mut self) {
        if self.is_shown {
            out::progress_ends();
        }
    }
}
