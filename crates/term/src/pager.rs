//! A pager: the program that shows long text a screen at a time. Text goes to its standard input; it writes to the terminal that
//! this program has.

use perfuse_sys::signal::Signals;
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

/// What makes a command line one for a shell.
const FOR_A_SHELL: &[char] =
    &['|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '[', '#', '~', '='];

/// A pager that runs.
#[derive(Debug)]
pub struct Pager {
    child: Child,
    /// Gone when the pager has no use for more.
    input: Option<ChildStdin>,
    /// Interrupts are the pager's, as long as it shows something.
    interrupts: Option<Signals>,
}

impl Pager {
    /// Starts a pager: the words of its command line, or a shell that makes sense of it. `less` quits at once if the text fits one
    /// screen, shows colours, and leaves the text on the screen, unless `LESS` in the environment says otherwise.
    ///
    /// # Errors
    ///
    /// Those of starting it; the command is empty.
    pub fn start(command: &str) -> io::Result<Self> {
        let mut words = command.split_whitespace();
        let mut pager = match words.next() {
            None => return Err(io::ErrorKind::InvalidInput.into()),
            Some(_) if command.contains(FOR_A_SHELL) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", command]);
                shell
            }
            Some(first) => {
                let mut pager = Command::new(first);
                pager.args(words);
                pager
            }
        };
        for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
            if std::env::var_os(name).is_none() {
                pager.env(name, value);
            }
        }
        let mut child = pager.stdin(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        // After the start, as the pager must hear of them.
        let interrupts = Signals::collect(&[libc::SIGINT, libc::SIGQUIT]).ok();
        Ok(Pager { child, input, interrupts })
    }

    /// Tells the pager that this is all, and waits until its user has seen enough.
    pub fn wait(mut self) {
        self.input = None;
        let _ = self.child.wait();
        // Interrupts that the pager had are nobody's any more.
        while self.interrupts.as_ref().is_some_and(|signals| signals.next().is_some()) {}
    }
}

impl Write for Pager {
    /// "Broken pipe" once the user has left it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.input {
            Some(input) => input.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), Write::flush)
    }
}
