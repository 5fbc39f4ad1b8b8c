//! Where the converb program is, for those who were not started by `converb run`.

use core::ffi::{CStr, c_void};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const NAME: &str = "converb";

/// The program that can be the agent: beside the file that this code is in (a library in a build
/// tree, or a program that cargo built), in the `bin` beside its `lib`, in the folders above (where
/// cargo puts examples and tests), or in PATH.
pub(crate) fn find() -> Option<PathBuf> {
    let file = own_file().or_else(|| std::env::current_exe().ok())?;
    let file = file.canonicalize().unwrap_or(file);
    let path = std::env::var_os("PATH").unwrap_or_default();
    candidates(&file)
        .into_iter()
        .chain(std::env::split_paths(&path))
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(NAME))
        .find(|candidate| is_program(candidate))
}

fn candidates(file: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        file.ancestors().skip(1).take(3).map(Path::to_path_buf).collect();
    if let Some(prefix) = folders.get(1) {
        folders.insert(1, prefix.join("bin"));
    }
    folders
}

/// The file that this code was loaded from: the library where there is one.
fn own_file() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: core::ptr::null(),
        dli_fbase: core::ptr::null_mut(),
        dli_sname: core::ptr::null(),
        dli_saddr: core::ptr::null_mut(),
    };
    let here = find as fn() -> Option<PathBuf> as *const c_void;
    // SAFETY: any address may be asked about; if the call succeeds, the structure is filled, with
    // a name that lives as long as this code is loaded.
    let name = unsafe {
        if libc::dladdr(here, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(info.dli_fname)
    };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    // For the program itself it is what the program was called by, which may be just a name.
    path.is_absolute().then_some(path)
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_looked_for_beside_the_library_and_in_bin() {
        let folders = candidates(Path::new("/usr/local/lib/libconverb_verbs.so"));
        let folders: Vec<_> = folders.iter().filter_map(|folder| folder.to_str()).collect();
        assert_eq!(folders, ["/usr/local/lib", "/usr/local/bin", "/usr/local", "/usr"]);
    }

    #[test]
    fn the_file_of_this_code_exists() {
        let file = own_file().or_else(|| std::env::current_exe().ok()).unwrap();
        assert!(file.exists(), "{}", file.display());
    }
}
