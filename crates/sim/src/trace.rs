//! What happened, line by line, with virtual time.

use std::fmt::{Display, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A trace; copies share their lines. One that is off costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<Arc<Mutex<String>>>);

impl Trace {
    /// A trace that keeps nothing.
    pub const fn off() -> Self {
        Self(None)
    }

    /// A trace that keeps everything.
    pub fn on() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether lines are kept.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Adds a line.
    pub fn add(&self, nanoseconds: u64, line: &dyn Display) {
        if let Some(lines) = &self.0 {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            let (whole, part) = (nanoseconds / 1000, nanoseconds % 1000);
            // Writing to a string does not fail.
            let _ = writeln!(lines, "{whole:>9}.{part:03} us  {line}");
        }
    }

    /// Adds a line that is made only if it is kept.
    pub fn add_if<T: Display>(&self, nanoseconds: u64, line: impl FnOnce() -> T) {
        if self.is_on() {
            self.add(nanoseconds, &line());
        }
    }

    /// All lines so far.
    pub fn text(&self) -> String {
        let lines = self.0.as_ref();
        lines
            .map(|lines| lines.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .unwrap_or_default()
    }
}
