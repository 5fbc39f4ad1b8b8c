//! A copy of the library beside the library is noticed, a link is not.

use std::path::{Path, PathBuf};
use std::process::Command;

mod library;

/// Runs the program on two libraries; what it says on standard error.
fn complaint(folder: &Path, first: &Path, second: &Path) -> String {
    let binary = folder.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/two_libraries.c");
    let output = Command::new("cc").arg("-o").arg(&binary).arg(source).arg("-ldl").output();
    let output = output.expect("a C compiler is installed (apt-get install gcc)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&binary).args([first, second]).output().expect("it was just built");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn a_copy_is_noticed_once_and_a_link_is_not() {
    let folder = std::env::temp_dir().join(format!("converb-copies-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (link, copy): (PathBuf, PathBuf) = (folder.join("libibverbs.so"), folder.join("copy.so"));
    let library = library::path();
    std::os::unix::fs::symlink(&library, &link).unwrap();
    std::fs::copy(&library, &copy).unwrap();

    assert_eq!(complaint(&folder, &library, &link), "");
    let said = complaint(&folder, &library, &copy);
    assert_eq!(said.matches("copies of the library").count(), 1, "{said}");
    assert!(said.contains("replace one file by a link"), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}
