//! Notes and gaps that somebody meant to come back to.

use crate::{Findings, Tree};

/// What must not be in the tree; spelled in parts, for this file is read too.
fn notes() -> [String; 6] {
    [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["XX", "X"].concat(),
        ["to", "do!("].concat(),
        ["unimple", "mented!("].concat(),
        ["#[ig", "nore"].concat(),
    ]
}

/// Leftover notes, unfinished functions, tests that are switched off.
pub fn leftover_findings(tree: &Tree) -> Findings {
    let mut found = Findings::new();
    let notes = notes();
    for entry in &tree.entries {
        let judged = entry.is_rust()
            || [".py", ".sh", ".md", ".toml", ".c", ".table"]
                .iter()
                .any(|end| entry.path.ends_with(end))
            || entry.text.starts_with("#!");
        if !judged {
            continue;
        }
        for (number, line) in entry.text.lines().enumerate() {
            // Templates of temporary names have more of the same letter.
            let line = line.replace(&["XX", "XX"].concat(), "");
            if let Some(note) = notes.iter().find(|note| line.contains(note.as_str())) {
                found.push(format!("{}:{}: {note}", entry.path, number + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_note_is_found_and_temporary_names_are_not() {
        for note in notes() {
            let tree = Tree::of(&[("a.rs", &format!("fine\n// {note} later\n"))]);
            assert_eq!(leftover_findings(&tree), [format!("a.rs:2: {note}")]);
        }
        let template = ["mktemp a.XX", "XXXX"].concat();
        assert!(leftover_findings(&Tree::of(&[("a.sh", &template)])).is_empty());
    }
}
