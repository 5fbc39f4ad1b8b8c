//! Scripts can be run as they are.

use crate::{Findings, Tree};

/// Files with an interpreter line that are not executable, and the other way round.
pub fn script_findings(tree: &Tree) -> Findings {
    let mut found = Findings::new();
    for entry in &tree.entries {
        // In Rust such a line opens an attribute.
        let script = entry.text.starts_with("#!") && !entry.text.starts_with("#![");
        if script && !entry.executable {
            found.push(format!("{}: a script that is not executable", entry.path));
        } else if !script && entry.executable {
            found.push(format!("{}: executable, but without an interpreter line", entry.path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_modes_are_found_both_ways() {
        let mut tree = Tree::of(&[
            ("run", "#!/bin/sh\n"),
            ("a.rs", "#![allow(x)]\n"),
            ("b.py", "import os\n"),
            ("ok", "#!/bin/sh\n"),
        ]);
        tree.entries[2].executable = true;
        tree.entries[3].executable = true;
        assert_eq!(
            script_findings(&tree),
            [
                "run: a script that is not executable",
                "b.py: executable, but without an interpreter line"
            ]
        );
    }
}
