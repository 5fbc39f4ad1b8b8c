//! The same C program runs on the distribution's library and on ours, and prints the same.

use std::path::{Path, PathBuf};
use std::process::Command;

mod library;

/// A folder for one test, emptied before and removed after it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("converb-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the folder for temporary files is writable");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn compile(program: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(program);
    let binary = folder.join("program");
    let output = Command::new("cc")
        .args(["-Wall", "-Werror", "-o"])
        .arg(&binary)
        .arg(source)
        .arg("-libverbs")
        .output()
        .expect("a C compiler is installed (apt-get install gcc)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    binary
}

fn run(binary: &Path, libraries: Option<&Path>) -> String {
    let mut command = Command::new(binary);
    command.env_remove("LD_LIBRARY_PATH");
    if let Some(folder) = libraries {
        command.env("LD_LIBRARY_PATH", folder);
    }
    let output = command.output().expect("the program that was just built runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the program prints ASCII")
}

#[test]
fn helpers_that_need_no_device_answer_as_rdma_core_does() {
    let folder = Folder::new("plain-helpers");
    let binary = compile("plain_helpers.c", &folder.0);
    std::os::unix::fs::symlink(library::path(), folder.0.join("libibverbs.so.1"))
        .expect("the folder was made by this test");
    let theirs = run(&binary, None);
    let ours = run(&binary, Some(&folder.0));
    assert!(theirs.lines().count() > 700, "{theirs}");
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}
