//! What a new agent tells the program that started it, over a pipe.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

/// The pipe's writing end, for one message.
#[derive(Debug)]
pub struct Report(Option<File>);

/// How the start of an agent went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It serves.
    Serving,
    /// Another agent does, or is about to.
    AnotherServes,
    /// Something else holds the port, as the text says.
    PortTaken(String),
    /// It cannot serve, as the text says.
    Failed(String),
    /// It died without a word.
    Died,
}

/// The longest report in bytes, well below what a pipe keeps in one piece (4096).
const REPORT_MAX: usize = 2048;

impl Report {
    /// A report to whoever reads `pipe`, or to nobody.
    pub fn new(pipe: Option<OwnedFd>) -> Self {
        Self(pipe.map(File::from))
    }

    /// Writes the outcome and closes the pipe. Later calls do nothing.
    pub fn send(&mut self, outcome: &Outcome) {
        let Some(mut pipe) = self.0.take() else { return };
        let (code, text) = match outcome {
            Outcome::Serving => ('0', ""),
            Outcome::AnotherServes => ('1', ""),
            Outcome::PortTaken(text) => ('2', text.as_str()),
            Outcome::Failed(text) => ('3', text.as_str()),
            Outcome::Died => return,
        };
        // The reader may have given up.
        let message = format!("{code}{text}");
        let _ = pipe.write_all(&message.as_bytes()[..message.len().min(REPORT_MAX)]);
    }
}

impl Outcome {
    /// Reads a report that has arrived. One read is enough, since a pipe keeps so short a message
    /// in one piece; and to wait for the end could mean to wait for a child that the program
    /// forked meanwhile.
    pub fn read(pipe: OwnedFd) -> Self {
        let mut bytes = [0; REPORT_MAX];
        let Ok(length) = File::from(pipe).read(&mut bytes) else {
            return Self::Died;
        };
        let text = String::from_utf8_lossy(&bytes[..length]);
        let mut characters = text.chars();
        let code = characters.next();
        let text = characters.as_str().to_owned();
        match code {
            Some('0') => Self::Serving,
            Some('1') => Self::AnotherServes,
            Some('2') => Self::PortTaken(text),
            Some('3') => Self::Failed(text),
            _ => Self::Died,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_arrive_and_their_absence_is_seen() {
        let outcomes = [
            Outcome::Serving,
            Outcome::AnotherServes,
            Outcome::PortTaken("by process 1".into()),
            Outcome::Failed("no memory".into()),
            Outcome::Died,
        ];
        for outcome in outcomes {
            let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
            let mut report = Report::new(Some(writer));
            report.send(&outcome);
            report.send(&Outcome::Serving);
            drop(report);
            assert_eq!(Outcome::read(reader), outcome);
        }
    }
}
