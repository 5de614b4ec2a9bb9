//! Options of reading.

/// How to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Whether to deliver what compressed records contain, or the compressed records themselves.
    pub unpack: bool,
    /// The largest feature section, and the most ids together, that are kept in memory, in bytes.
    pub max_section: u64,
}

impl ReadOptions {
    /// Unpacks; sections of up to 64 MiB.
    pub const fn new() -> Self {
        ReadOptions { unpack: true, max_section: 64 << 20 }
    }

    /// With what compressed records contain, or with the compressed records themselves.
    #[must_use]
    pub const fn with_unpack(mut self, unpack: bool) -> Self {
        self.unpack = unpack;
        self
    }

    /// With sections of up to so many bytes.
    #[must_use]
    pub const fn with_max_section(mut self, bytes: u64) -> Self {
        self.max_section = bytes;
        self
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions::new()
    }
}
