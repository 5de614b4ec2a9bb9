//! `--for`: whether one perfuse command line would work here, found out by opening exactly what it
//! would open.

use super::json;
use super::text::{remedies, sign, sign_width, wrapped};
use crate::exit::Result;
use crate::term::glyphs::{self, Glyphs};
use crate::term::out;
use perfuse::doctor::{Reason, Verdict};
use perfuse::{Error, Perf, Rehearsed};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Prints what came of trying the events of a command line; the exit status says it too.
pub(super) fn tell(line: &str, as_json: bool, kernel: &Perf, tried: &[Rehearsed]) -> Result {
    // Every event that the user asked for must open; of the default events one is enough.
    let refused = |tried: &&Rehearsed| tried.required && tried.error.is_some();
    let possible = !tried.iter().any(|t| refused(&t)) && tried.iter().any(|t| t.error.is_none());
    let mut out = Vec::new();
    if as_json {
        let events: Vec<_> = tried
            .iter()
            .map(|tried| {
                let reason = tried.error.as_ref().map(Reason::from);
                json!({
                    "name": tried.event,
                    "required": tried.required,
                    "ok": tried.error.is_none(),
                    "reason": reason.as_ref().map(json::reason),
                })
            })
            .collect();
        let value = json!({ "schema": "perfuse.doctor.plan/1", "plan": line, "possible": possible, "kernel": kernel.name(), "events": events });
        writeln!(out, "{value:#}")?;
    } else {
        let glyphs = glyphs::of_the_locale();
        print(&mut out, glyphs, tried)?;
        let verdict = if possible { Verdict::Yes } else { Verdict::No };
        let answer = match (possible, tried.iter().any(|tried| tried.error.is_some())) {
            (true, false) => "this works here",
            (true, true) => "this works here, in part",
            (false, _) => "this does not work here",
        };
        let who = if kernel.facts().is_embedded { ", measured by perfuse itself" } else { "" };
        writeln!(out, " {} {answer}{who}: {}", sign(glyphs, verdict), glyphs.text(line))?;
    }
    out::print(&out)?;
    Ok(ExitCode::from(u8::from(!possible)))
}

/// The events, those that are refused for the same reason together.
fn print(out: &mut Vec<u8>, glyphs: &Glyphs, tried: &[Rehearsed]) -> std::io::Result<()> {
    let mut rest = tried;
    while let Some(first) = rest.first() {
        let verdict = match (&first.error, first.required) {
            (None, _) => Verdict::Yes,
            (Some(_), true) => Verdict::No,
            (Some(_), false) => Verdict::Partly,
        };
        let cause = |tried: &Rehearsed| tried.error.as_ref().map(Error::cause);
        let alike = rest.iter().take_while(|tried| cause(tried) == cause(first)).count();
        let names: Vec<_> = rest[..alike].iter().map(|tried| tried.event.as_str()).collect();
        write!(out, "   {} ", sign(glyphs, verdict))?;
        let from = 4 + sign_width(glyphs);
        wrapped(out, &glyphs.text(&names.join(", ")), from)?;
        if let Some(error) = &first.error {
            write!(out, "{:from$}", "")?;
            wrapped(out, &glyphs.text(&error.to_string()), from)?;
            remedies(out, glyphs, &error.diagnosis().remedies, from)?;
        }
        rest = &rest[alike..];
    }
    Ok(())
}
