//! Where the converb program is, for those who were not started by `converb run`.

use std::path::{Path, PathBuf};

const NAME: &str = "converb";

/// The program that can be the agent: beside the running program, in the folders above it (where
/// cargo puts it for examples and tests), or in PATH.
pub(crate) fn find() -> Option<PathBuf> {
    let running = std::env::current_exe().ok();
    let above = running.iter().flat_map(|path| path.ancestors().skip(1).take(3));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).collect::<Vec<_>>();
    above
        .chain(in_path.iter().map(PathBuf::as_path))
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(NAME))
        .find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
