//! The file that packets are written to.

use super::pcapng::{Record, write_packet, write_preamble};
use crate::file_size::without_size_signal;
use crate::kept::Kept;
use core::sync::atomic::{AtomicBool, Ordering};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What a process writes to the capture file. Several processes append to one file, each whole
/// blocks at a time.
pub(crate) struct Capture {
    path: PathBuf,
    file: Kept,
    pending: Mutex<Vec<u8>>,
    /// Nothing more is written: a part of a block was, or nothing could be.
    has_failed: AtomicBool,
}

impl Capture {
    /// Opens the file, which is made if it is not there, to append to it.
    ///
    /// # Errors
    /// When it cannot be opened or written. `NXIO` for a pipe that nobody reads.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
        // Who waits here for a reader holds up the program for ever.
        let flags = flags | OFlags::NONBLOCK;
        let file = Kept::new(open(path, flags, Mode::from_raw_mode(0o600))?);
        let mut preamble = Vec::new();
        write_preamble(&mut preamble);
        let pending = Mutex::default();
        let capture = Self { path: path.into(), file, pending, has_failed: AtomicBool::default() };
        capture.write(&preamble)?;
        Ok(capture)
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
        let result = self.write(&pending);
        pending.clear();
        if let Err(error) = result {
            self.has_failed.store(true, Ordering::Release);
            // Who asked for a capture waits for it.
            let file = self.path.display();
            let line = format!("converb: the capture to {file} ends here: {}\n", explained(error));
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        result.is_ok()
    }

    /// Writes whole blocks.
    fn write(&self, blocks: &[u8]) -> Result<(), Errno> {
        loop {
            // The program may have closed it: then the capture ends.
            let file = self.file.get().ok_or(Errno::BADF)?;
            match without_size_signal(|| rustix::io::write(file, blocks)) {
                Err(Errno::INTR) => {}
                // Others may have written behind it by now, so it cannot be mended, but why is told.
                Ok(length) if length < blocks.len() => {
                    let again = without_size_signal(|| rustix::io::write(file, &blocks[length..]));
                    return Err(again.err().unwrap_or(Errno::NOSPC));
                }
                result => return result.map(|_| ()),
            }
        }
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// What it writes to.
    pub(crate) const fn descriptor(&self) -> &Kept {
        &self.file
    }
}

/// What an error means for a capture.
fn explained(error: Errno) -> String {
    match error {
        Errno::BADF => "the program has closed it".to_owned(),
        error => std::io::Error::from(error).to_string(),
    }
}
