//! Finding the program that is to be run, as a shell would.

use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The file that a name means: itself if it contains a slash, else the first in `search` (the
/// value of PATH).
pub(crate) fn find(name: &OsStr, search: &OsStr) -> Result<PathBuf, Failure> {
    let shown = Path::new(name).display();
    if name.is_empty() {
        return Err(Failure::with_status("the name of the program is empty", NOT_FOUND));
    }
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match problem(&path) {
            None => Ok(path),
            Some(Problem::Missing) => {
                Err(Failure::with_status(format!("there is no file {shown}"), NOT_FOUND))
            }
            Some(Problem::NotExecutable) => Err(not_executable(&path)),
            Some(Problem::Unreachable(error)) => {
                Err(Failure::with_status(format!("cannot run {shown}: {error}"), NOT_EXECUTABLE))
            }
        };
    }
    let mut candidates = std::env::split_paths(search).map(|folder| folder.join(name));
    let mut unusable = None;
    let found = candidates.find(|path| match problem(path) {
        None => true,
        // As shells do: the next folder may have it.
        Some(Problem::Missing | Problem::Unreachable(_)) => false,
        Some(Problem::NotExecutable) => {
            unusable.get_or_insert_with(|| path.clone());
            false
        }
    });
    match (found, unusable) {
        (Some(path), _) => Ok(path),
        (None, Some(path)) => Err(not_executable(&path)),
        (None, None) => Err(Failure::with_status(
            format!("there is no program `{shown}` in PATH; is its package installed?"),
            NOT_FOUND,
        )),
    }
}

enum Problem {
    Missing,
    NotExecutable,
    /// Such as a loop of symbolic links, or a folder that may not be entered.
    Unreachable(std::io::Error),
}

fn problem(path: &Path) -> Option<Problem> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Some(Problem::Missing),
        Err(error) => Some(Problem::Unreachable(error)),
        Ok(file) if !file.is_file() => Some(Problem::NotExecutable),
        Ok(_) if rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_err() => {
            Some(Problem::NotExecutable)
        }
        Ok(_) => None,
    }
}

fn not_executable(path: &Path) -> Failure {
    Failure::with_status(
        format!("{} is not a program that you may run", path.display()),
        NOT_EXECUTABLE,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_searched_in_the_path() {
        let found = find(OsStr::new("sh"), OsStr::new("/nonexistent:/usr/bin:/bin")).unwrap();
        assert!(found.ends_with("sh"));
    }

    #[test]
    fn failures_have_the_status_of_a_shell() {
        assert_eq!(
            find(OsStr::new("no-such-program"), OsStr::new("/bin")).unwrap_err().status,
            127
        );
        assert_eq!(find(OsStr::new("/no/such"), OsStr::new("/bin")).unwrap_err().status, 127);
        assert_eq!(find(OsStr::new("/etc/passwd"), OsStr::new("/bin")).unwrap_err().status, 126);
        assert_eq!(find(OsStr::new("/etc"), OsStr::new("/bin")).unwrap_err().status, 126);
        assert_eq!(find(OsStr::new(""), OsStr::new("/bin")).unwrap_err().status, 127);
        let long = format!("/{}", "x".repeat(300));
        let too_long = find(OsStr::new(&long), OsStr::new("/bin")).unwrap_err();
        assert!(too_long.status == 126 && too_long.message.contains("too long"), "{too_long:?}");
    }
}
