//! The project speaks of itself alone.

use crate::{Findings, Tree};

/// Words of the places and habits around the project; spelled in parts, for this file is read too.
fn words() -> Vec<String> {
    [
        &["/wo", "rk/"][..],
        &["/fa", "rm/"],
        &["bash_", "jobs"],
        &["before-", "stop"],
        &["kernel-", "peers"],
        &["DEVEL", "OPERS.md"],
        &["DES", "IGN.md"],
        &["../sha", "red"],
    ]
    .iter()
    .map(|parts| parts.concat())
    .collect()
}

/// Abbreviations that count as whole words only.
fn whole_words() -> [String; 1] {
    [["CE", "O"].concat()]
}

/// Lines that name the workplace, or a numbered issue that a reader of the code cannot open.
pub fn workplace_findings(tree: &Tree) -> Findings {
    let mut found = Findings::new();
    let words = words();
    let whole_words = whole_words();
    for entry in &tree.entries {
        if entry.name() == "Cargo.lock" {
            continue;
        }
        for (number, line) in entry.text.lines().enumerate() {
            let named = words.iter().find(|word| names(line, word)).cloned();
            let named = named.or_else(|| {
                line.split(|letter: char| !letter.is_alphanumeric())
                    .find(|word| whole_words.iter().any(|whole| whole == word))
                    .map(str::to_owned)
            });
            let named = named.or_else(|| numbered_issue(line));
            if let Some(word) = named {
                found.push(format!("{}:{}: names `{word}`", entry.path, number + 1));
            }
        }
    }
    found
}

/// Whether the line has the word; one that begins with a slash only as the begin of a path.
fn names(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !word.starts_with('/')
            || !line[..at].chars().next_back().is_some_and(|letter| letter.is_alphanumeric())
    })
}

/// `issue` and a number.
fn numbered_issue(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    let word = ["iss", "ue"].concat();
    lower.match_indices(&word).find_map(|(at, _)| {
        let rest = lower[at + word.len()..].trim_start_matches([' ', '#']);
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        (!number.is_empty()).then(|| format!("{word} {number}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found() {
        for word in words().into_iter().chain(whole_words()) {
            let tree = Tree::of(&[("a.md", &format!("fine\nsee {word} for more\n"))]);
            assert_eq!(workplace_findings(&tree), [format!("a.md:2: names `{word}`")]);
        }
    }

    #[test]
    fn a_folder_of_that_name_inside_the_tree_is_fine() {
        let inside = ["read engine/src/wo", "rk/request.rs"].concat();
        assert!(workplace_findings(&Tree::of(&[("a.md", &inside)])).is_empty());
    }

    #[test]
    fn numbered_issues_are_found_and_plain_ones_are_not() {
        let numbered = ["see iss", "ue #12\n"].concat();
        assert_eq!(workplace_findings(&Tree::of(&[("a.rs", &numbered)])).len(), 1);
        assert!(workplace_findings(&Tree::of(&[("a.rs", "issue a request, issues 3")])).is_empty());
    }
}
