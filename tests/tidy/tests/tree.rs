//! The checks, applied to this repository.

use converb_tidy::{
    Findings, Tree, direction_findings, file_findings, function_findings, head_findings,
    leftover_findings, orphan_findings, preload_findings, sans_io_findings, script_findings,
    workplace_findings,
};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this crate is two folders below the root").to_owned()
}

fn assert_clean(findings: Findings) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

fn this_tree() -> Tree {
    let tree = Tree::read(&root()).expect("the tree can be read");
    // A check of nothing would always pass.
    assert!(tree.rust().count() > 50, "only {} Rust files", tree.rust().count());
    tree
}

#[test]
fn files_hold_one_idea_each() {
    assert_clean(file_findings(&this_tree()));
}

#[test]
fn functions_can_be_read_at_a_glance() {
    assert_clean(function_findings(&this_tree()));
}

#[test]
fn crates_depend_downward_only() {
    assert_clean(direction_findings(&this_tree()));
}

#[test]
fn every_crate_has_a_head() {
    assert_clean(head_findings(&this_tree()));
}

#[test]
fn crates_without_io_name_no_socket_clock_or_thread() {
    assert_clean(sans_io_findings(&this_tree()));
}

#[test]
fn nothing_is_left_for_later() {
    assert_clean(leftover_findings(&this_tree()));
}

#[test]
fn every_file_is_compiled() {
    assert_clean(orphan_findings(&this_tree()));
}

#[test]
fn scripts_are_executable() {
    assert_clean(script_findings(&this_tree()));
}

#[test]
fn nothing_names_the_workplace() {
    assert_clean(workplace_findings(&this_tree()));
}

#[test]
fn the_preloaded_library_contains_few_packages() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", "converb-abi"])
        .args(["--edges", "normal,no-proc-macro", "--prefix", "none"])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_clean(preload_findings(&String::from_utf8_lossy(&output.stdout)));
}
