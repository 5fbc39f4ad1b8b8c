//! The file that packets are written to.

use super::pcapng::{Record, write_packet, write_preamble};
use crate::kept::Kept;
use core::sync::atomic::{AtomicBool, Ordering};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What a process writes to the capture file. Several processes append to one file, each whole
/// blocks at a time.
pub(crate) struct Capture {
    file: Kept,
    pending: Mutex<Vec<u8>>,
    /// Nothing more is written: a part of a block was, or nothing could be.
    has_failed: AtomicBool,
}

impl Capture {
    /// Opens the file, which is made if it is not there, to append to it.
    ///
    /// # Errors
    /// When it cannot be opened or written.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
        let file = Kept::new(open(path, flags, Mode::from_raw_mode(0o600))?);
        let mut preamble = Vec::new();
        write_preamble(&mut preamble);
        let capture =
            Self { file, pending: Mutex::new(preamble), has_failed: AtomicBool::new(false) };
        capture.flush();
        if capture.has_failed() { Err(Errno::NOSPC) } else { Ok(capture) }
    }

    /// Remembers a packet until [`flush`](Self::flush).
    pub(crate) fn add(&self, record: &Record<'_>) {
        if self.has_failed() {
            return;
        }
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        write_packet(&mut pending, record);
    }

    /// Writes what is remembered. False if that failed just now: the file ends here.
    pub(crate) fn flush(&self) -> bool {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.is_empty() || self.has_failed() {
            return true;
        }
        let result = loop {
            // The program may have closed it: then the capture ends.
            let Some(file) = self.file.get() else { break Err(Errno::BADF) };
            match rustix::io::write(file, &pending) {
                Err(Errno::INTR) => (),
                result => break result,
            }
        };
        let is_whole = result == Ok(pending.len());
        self.has_failed.store(!is_whole, Ordering::Release);
        pending.clear();
        is_whole
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// What it writes to.
    pub(crate) const fn descriptor(&self) -> &Kept {
        &self.file
    }
}
