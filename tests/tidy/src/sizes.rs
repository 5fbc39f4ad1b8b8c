//! How long files and functions may be.

use crate::{Findings, Source, Tree};

/// A file beyond this holds more than one idea.
pub(crate) const FILE_LINES_MAX: usize = 600;
/// Test files are lists of cases, which may be longer.
pub(crate) const TEST_FILE_LINES_MAX: usize = 800;
/// A function beyond this cannot be read at a glance.
pub(crate) const FUNCTION_LINES_MAX: usize = 120;

/// Source files that are too long.
pub fn file_findings(tree: &Tree) -> Findings {
    let mut found = Findings::new();
    for entry in &tree.entries {
        let is_source = [".rs", ".py", ".sh", ".c"].iter().any(|end| entry.path.ends_with(end))
            || entry.text.starts_with("#!");
        let most = if entry.is_test() { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX };
        let lines = entry.text.lines().count();
        if is_source && lines > most {
            found.push(format!("{}: {lines} lines, at most {most}: split it by idea", entry.path));
        }
    }
    found
}

/// Rust functions that are too long.
pub fn function_findings(tree: &Tree) -> Findings {
    let mut found = Findings::new();
    for entry in tree.rust() {
        for (name, line, lines) in Source::new(&entry.text).functions() {
            if lines > FUNCTION_LINES_MAX {
                found.push(format!(
                    "{}:{line}: `{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}",
                    entry.path
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found_and_a_test_may_be_longer() {
        let long = "// line\n".repeat(FILE_LINES_MAX + 1);
        let tree = Tree::of(&[
            ("crates/a/src/long.rs", &long),
            ("crates/a/src/fits.rs", &long[8..]),
            ("crates/a/tests/long.rs", &long),
            ("data.txt", &long),
        ]);
        let found = file_findings(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/long.rs: 601 lines"), "{found:?}");
    }

    #[test]
    fn a_long_function_is_found_with_its_line() {
        let body = "    call();\n".repeat(FUNCTION_LINES_MAX - 1);
        let text = format!("\nfn long() {{\n{body}}}\nfn fits() {{\n{}}}\n", &body[12..]);
        let found = function_findings(&Tree::of(&[("a.rs", &text)]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a.rs:2: `long`"), "{found:?}");
    }
}
