//! `converb run`: becoming a program that finds our library.

use crate::arguments::{Run, Transport};
use crate::failure::{Failure, NOT_EXECUTABLE};
use crate::{executable, library, program};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says how packets travel (`auto` or `wire`).
const TRANSPORT_VARIABLE: &str = "CONVERB_TRANSPORT";
/// Says where this binary is, which the library runs to start an agent.
const BINARY_VARIABLE: &str = "CONVERB_BIN";

/// Replaces this process by the program. Returns only if that fails.
pub(crate) fn run(run: &Run) -> Result<(), Failure> {
    let (name, arguments) =
        run.command.split_first().ok_or_else(|| Failure::new("which program is to be run?"))?;
    let search = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let path = program::find(name, &search)?;
    executable::check(&path)?;
    let binary =
        std::fs::read_link("/proc/self/exe").or_else(|_| std::env::current_exe()).map_err(
            |error| Failure::new(format!("cannot tell where the converb binary is: {error}")),
        )?;
    let library = library::find(&binary)?;

    if binary.as_os_str().as_bytes().contains(&b':') {
        return Err(Failure::new(format!(
            "{} has a colon in its path, which separates folders where programs look for libraries: \
             install it elsewhere (make install PREFIX=...)",
            binary.display()
        )));
    }

    let mut command = Command::new(&path);
    command.arg0(name).args(arguments);
    if let Some(links) = library.links {
        command.env("LD_LIBRARY_PATH", joined(links.into(), "LD_LIBRARY_PATH"));
    }
    // Programs that bring a libibverbs of their own find it before LD_LIBRARY_PATH, but not before
    // a library that is loaded already. A path with a blank or a colon cannot be preloaded.
    if !library.file.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        command.env("LD_PRELOAD", joined(library.file.into(), "LD_PRELOAD"));
    }
    command.env(BINARY_VARIABLE, &binary);
    command.env(
        TRANSPORT_VARIABLE,
        match run.transport {
            Transport::Auto => "auto",
            Transport::Wire => "wire",
        },
    );
    if let Some(name) = &run.device_name {
        command.env(converb::NAME_VARIABLE, name);
    }
    if let Some(faults) = &run.fault {
        command.env(converb::FAULT_VARIABLE, faults);
    }
    if let Some(file) = &run.capture {
        command.env(converb::CAPTURE_VARIABLE, begin_capture(file)?);
    }
    let error = command.exec();
    Err(Failure::with_status(format!("cannot run {}: {error}", path.display()), NOT_EXECUTABLE))
}

/// Makes the file that the program's processes append to, and returns its full path: they may
/// have another working directory.
fn begin_capture(file: &Path) -> Result<PathBuf, Failure> {
    let fail =
        |reason: String| Failure::new(format!("cannot capture to {}: {reason}", file.display()));
    if file.as_os_str() == "-" {
        return Err(fail(
            "the standard output is the program's; give a file, or ./- for one of that name".into(),
        ));
    }
    // Several processes append to it, and none of them may be made to wait.
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err(fail("it is a pipe or a device, and packets are written to a file".into()));
    }
    std::fs::File::create(file).map_err(|error| fail(error.to_string()))?;
    file.canonicalize().map_err(|error| fail(error.to_string()))
}

/// `first` before what a variable holds already, each once.
fn joined(first: OsString, variable: &str) -> OsString {
    let before = std::env::var_os(variable).unwrap_or_default();
    join(first, &before)
}

fn join(first: OsString, rest: &OsStr) -> OsString {
    let mut value = first.clone();
    for part in std::env::split_paths(rest) {
        if part.as_os_str() != first && !part.as_os_str().is_empty() {
            value.push(":");
            value.push(part);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_library_comes_first_and_only_once() {
        let join = |rest: &str| join("/ours".into(), OsStr::new(rest));
        assert_eq!(join(""), "/ours");
        assert_eq!(join("/a:/ours:/b"), "/ours:/a:/b");
        assert_eq!(join(&join("/a").into_string().unwrap()), "/ours:/a");
    }
}
