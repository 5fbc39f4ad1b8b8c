//! Source files that no crate compiles.

use crate::{Findings, Source, Tree};

/// Modules that no file above them declares.
pub fn orphan_findings(tree: &Tree) -> Findings {
    let mut found = Findings::new();
    for entry in tree.rust() {
        let Some((before, inside)) = entry.path.split_once("/src/") else { continue };
        if matches!(inside, "lib.rs" | "main.rs") || inside.starts_with("bin/") {
            continue;
        }
        let stem = inside.strip_suffix("/mod.rs").or_else(|| inside.strip_suffix(".rs"));
        let stem = stem.expect("a Rust file ends so");
        let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
        let parents = if folder.is_empty() {
            vec![format!("{before}/src/lib.rs"), format!("{before}/src/main.rs")]
        } else {
            vec![format!("{before}/src/{folder}.rs"), format!("{before}/src/{folder}/mod.rs")]
        };
        let declared = parents.iter().filter_map(|path| tree.get(path)).any(|parent| {
            let code = Source::new(&parent.text).code;
            code.contains(&format!("mod {name};")) || code.contains(&format!("mod r#{name};"))
        });
        let crate_folder = format!("{before}/");
        let by_path = tree
            .rust()
            .filter(|other| other.path.starts_with(&crate_folder))
            .any(|other| other.text.contains(&format!("#[path = \"src/{inside}\"]")));
        if !declared && !by_path {
            found.push(format!("{}: nobody declares `mod {name};`", entry.path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_declares_is_found() {
        let found = orphan_findings(&Tree::of(&[
            ("crates/a/src/lib.rs", "mod used;\n// mod lost;\n"),
            ("crates/a/src/used/mod.rs", "mod deep;\n"),
            ("crates/a/src/used/deep.rs", ""),
            ("crates/a/src/lost.rs", ""),
            ("crates/a/build.rs", "#[path = \"src/built/mod.rs\"]\nmod built;\n"),
            ("crates/a/src/built/mod.rs", ""),
            ("crates/a/tests/free.rs", ""),
        ]));
        assert_eq!(found, ["crates/a/src/lost.rs: nobody declares `mod lost;`"]);
    }
}
