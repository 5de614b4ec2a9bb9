//! Profiles of large recordings, kept in files of the user's cache: who opens a recording again sees all of it at once, while it is read.

use crate::profile::Profile;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The beginning of the files' names, before a number.
const NAME: &str = "profile-";
/// The form that they have.
const FORM: &[u8] = b"perfuse kept profile 1\n";
/// Recordings of so many bytes are worth it: they take longer than a moment to read.
const LARGE: u64 = 32 << 20;
/// Bytes of a file at most.
const MAX_FILE: usize = if cfg!(test) { 1 << 16 } else { 64 << 20 };
/// Bytes of all files in a folder: the ones that were written first go.
const MAX_FOLDER: u64 = 256 << 20;
/// Locations that all stacks of a kept profile have: more would take long to write and to read.
const MOST_LOCATIONS: usize = 1 << 24;

/// Where the profile of a recording is kept: for this very file as it is now, read in one way.
#[derive(Debug)]
pub struct KeptProfile {
    file: PathBuf,
    facts: Vec<u8>,
}

impl KeptProfile {
    /// In a folder that is this user's alone; nowhere, if the recording is no file, or one that is read in a moment. `how` tells all that
    /// decides which profile it becomes.
    pub fn of(folder: &Path, recording: &Path, how: &str) -> Option<Self> {
        let recording = std::path::absolute(recording).ok()?;
        let found = recording.metadata().ok().filter(|found| found.is_file() && found.len() >= LARGE)?;
        let mut hasher = DefaultHasher::new();
        (recording, how).hash(&mut hasher);
        let mut facts = FORM.to_vec();
        let [written, nanoseconds] = [found.mtime(), found.mtime_nsec()].map(|number| number as u64);
        for number in [found.dev(), found.ino(), found.len(), written, nanoseconds, how.len() as u64] {
            facts.extend(number.to_le_bytes());
        }
        facts.extend_from_slice(how.as_bytes());
        Some(KeptProfile { file: folder.join(format!("{NAME}{:016x}", hasher.finish())), facts })
    }

    /// The profile, if one is kept: its functions are told apart as they were then. Without the times of its samples where these
    /// were too many.
    pub fn read(&self) -> Option<Profile> {
        let mut file = perfuse_files::open_private(&self.file).ok()?;
        let mut facts = vec![0; self.facts.len()];
        file.read_exact(&mut facts).ok().filter(|()| facts == self.facts)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE as u64).read_to_end(&mut bytes).ok()?;
        Profile::load(&bytes).ok()
    }

    /// Keeps a profile, unless it is too large. Times of its samples are left out where they make it so.
    ///
    /// # Errors
    ///
    /// Those of writing the file; [`io::ErrorKind::FileTooLarge`].
    pub fn write(&self, profile: &Profile) -> io::Result<()> {
        if profile.stacks.location_count() > MOST_LOCATIONS {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let with = |times| {
            let mut kept = Bounded(self.facts.clone());
            profile.save_with(times, &mut kept).map(|()| kept)
        };
        let kept = with(&profile.times).or_else(|_| with(&[]))?;
        perfuse_files::write_private(&self.file, &kept.0)?;
        let room = |folder| perfuse_files::remove_oldest(folder, NAME, MAX_FOLDER);
        self.file.parent().into_iter().for_each(room);
        Ok(())
    }
}

/// Bytes up to [`MAX_FILE`].
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_FILE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::{Collector, Plan, Taken};
    use perfuse_abi::Attr;
    use perfuse_abi::record::Sample;
    use perfuse_data::session::{Level, Session};
    use std::fs;
    use std::os::unix::fs::DirBuilderExt;

    #[test]
    fn a_profile_is_kept_for_the_file_that_it_is_of() {
        let folder = std::env::temp_dir().join(format!("perfuse-kept-profile-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::DirBuilder::new().mode(0o700).create(&folder).expect("a folder");
        let recording = folder.join("perf.data");
        let written =
            |bytes| fs::File::create(&recording).and_then(|file| file.set_len(bytes)).expect("a file");
        let kept = |how: &str| KeptProfile::of(&folder, &recording, how).expect("a large one");
        written(LARGE - 1);
        assert!(KeptProfile::of(&folder, &recording, "one way").is_none());
        assert!(KeptProfile::of(&folder, &folder, "one way").is_none());
        written(LARGE);
        let mut plan = Plan::new(&[]);
        plan.times = true;
        let (mut collector, session, attr) = (Collector::new(plan), Session::new(), Attr::default());
        let mut sample = Sample::default();
        (sample.ip, sample.time) = (Some(7), Some(5));
        collector.add(&Taken::new((0, &attr), &session, &sample, Level::User, 7));
        let mut profile = collector.finish(&session);
        assert!(kept("one way").read().is_none());
        kept("one way").write(&profile).expect("kept");
        let saved = |profile: &Profile| {
            let mut bytes = Vec::new();
            profile.save(&mut bytes).expect("room");
            bytes
        };
        assert_eq!(saved(&kept("one way").read().expect("it is kept")), saved(&profile));
        assert!(kept("another way").read().is_none());
        written(LARGE + 1);
        assert!(kept("one way").read().is_none(), "the recording is another now");
        // Many times are left out.
        let time = profile.times[0];
        profile.times.resize(MAX_FILE, time);
        kept("one way").write(&profile).expect("kept");
        let read = kept("one way").read().expect("it is kept");
        assert_eq!((read.times.len(), read.rows.len()), (0, 1));
        fs::remove_dir_all(&folder).expect("it goes");
    }
}
