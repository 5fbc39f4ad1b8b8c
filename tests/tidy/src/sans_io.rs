//! What crates without I/O must not name.

use crate::{Findings, Source, Tree};

/// The crates that get packets, requests and the time as arguments, and nothing from the system.
const CRATES: &[&str] = &["wire", "engine", "cm", "driver"];

/// Sockets, clocks, threads, files, the system, raw memory.
const BANNED: &[&str] = &[
    "std::net",
    "std::thread",
    "std::fs",
    "std::env",
    "std::io",
    "std::os",
    "std::process",
    "Instant",
    "SystemTime",
    "libc",
    "rustix",
    "unsafe",
];

/// The exceptions: file, what it names. A facade over the standard library's locks and its yield
/// is what the driver is generic over.
const ALLOWED: &[(&str, &str)] = &[("crates/driver/src/facade.rs", "std::thread")];

/// Uses of what these crates must not know, in code that is not for tests.
pub fn sans_io_findings(tree: &Tree) -> Findings {
    let mut found = Findings::new();
    for entry in tree.rust() {
        let inside =
            CRATES.iter().any(|name| entry.path.starts_with(&format!("crates/{name}/src/")));
        if !inside || entry.is_test() || ["tests.rs"].contains(&entry.name()) {
            continue;
        }
        let source = Source::new(&entry.text).without_tests();
        for (number, line) in source.code.lines().enumerate() {
            for banned in BANNED {
                let allowed = ALLOWED.contains(&(entry.path.as_str(), banned));
                if !allowed && names(line, banned) {
                    found.push(format!("{}:{}: names `{banned}`", entry.path, number + 1));
                }
            }
        }
    }
    found
}

/// Whether a line has the word, not as part of a longer one.
fn names(line: &str, word: &str) -> bool {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(part)
            && !line[at + word.len()..].chars().next().is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_are_found_outside_tests_only() {
        let text = "// libc and std::net\n#![forbid(unsafe_code)]\nuse std::net::UdpSocket;\n\
                    fn f() { let now = Instant::now(); }\n\
                    #[cfg(test)]\nmod tests { use std::thread; }\n";
        let found = sans_io_findings(&Tree::of(&[
            ("crates/engine/src/a.rs", text),
            ("crates/engine/src/tests.rs", text),
            ("crates/link/src/a.rs", text),
        ]));
        assert_eq!(
            found,
            [
                "crates/engine/src/a.rs:3: names `std::net`",
                "crates/engine/src/a.rs:4: names `Instant`"
            ]
        );
    }

    #[test]
    fn every_banned_word_is_found() {
        for banned in BANNED {
            let tree = Tree::of(&[("crates/wire/src/a.rs", &format!("use {banned}::x;\n"))]);
            assert_eq!(sans_io_findings(&tree).len(), 1, "{banned}");
        }
    }
}
