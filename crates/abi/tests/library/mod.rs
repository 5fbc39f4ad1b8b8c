//! The shared library, built for these tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Its path. Cargo does not build a cdylib for a package's own tests, so the first call does it,
/// in the profile and the target folder of the running test.
pub fn path() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let program = std::env::current_exe().expect("the running program has a path");
    // <target>/<profile>/deps/<test>
    let profile = program.ancestors().nth(2).expect("cargo runs tests from a profile's folder");
    let target = profile.parent().expect("a profile's folder is in the target folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--target-dir"]);
    cargo.arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with(Path::new("release")) {
        cargo.arg("--release");
    }
    let output = cargo.output().expect("cargo, which runs this test, can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    profile.join("libconverb_verbs.so")
}
