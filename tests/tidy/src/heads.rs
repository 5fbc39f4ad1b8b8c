//! What the head of a crate says.

use crate::{Findings, Tree};

/// A head says what its crate owns, what it never does, and what to read next.
const SAYS: &[(&str, &str)] =
    &[("own", "what it owns"), ("never", "what it never does"), ("next", "what to read next")];
const LINES_MIN: usize = 4;
const LINES_MAX: usize = 40;

/// Crates whose root file lacks a head, or part of one.
pub fn head_findings(tree: &Tree) -> Findings {
    let mut found = Findings::new();
    let roots: Vec<String> = tree
        .entries
        .iter()
        .filter_map(|entry| entry.path.strip_suffix("/Cargo.toml"))
        .filter(|folder| folder.starts_with("crates/") || folder.starts_with("tests/"))
        .map(str::to_owned)
        .collect();
    for folder in roots {
        let root = ["src/lib.rs", "src/main.rs"]
            .iter()
            .find_map(|file| tree.get(&format!("{folder}/{file}")));
        let Some(root) = root else {
            found.push(format!("{folder}: no src/lib.rs and no src/main.rs"));
            continue;
        };
        let head: Vec<&str> =
            root.text.lines().take_while(|line| line.starts_with("//!")).collect();
        if !(LINES_MIN..=LINES_MAX).contains(&head.len()) {
            found.push(format!(
                "{}: a head of {} lines; say it in about ten",
                root.path,
                head.len()
            ));
            continue;
        }
        let text = head.join(" ").to_lowercase();
        for (word, meaning) in SAYS {
            if !text.contains(word) {
                found.push(format!("{}: the head does not say {meaning}", root.path));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_partial_heads_are_found() {
        let good = "//! A.\n//!\n//! This owns b. It never does c.\n//! Read d next.\nmod d;\n";
        let found = head_findings(&Tree::of(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", good),
            ("crates/b/Cargo.toml", ""),
            ("crates/b/src/main.rs", "fn main() {}\n"),
            ("crates/c/Cargo.toml", ""),
            ("crates/c/src/lib.rs", &good.replace("never", "seldom")),
            ("crates/d/Cargo.toml", ""),
        ]));
        assert_eq!(
            found,
            [
                "crates/b/src/main.rs: a head of 0 lines; say it in about ten",
                "crates/c/src/lib.rs: the head does not say what it never does",
                "crates/d: no src/lib.rs and no src/main.rs",
            ]
        );
    }
}
