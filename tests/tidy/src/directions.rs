//! Which crate may depend on which.

use crate::{Findings, Tree};

/// Crates in layers, lowest first: a crate may use those of lower layers only.
pub const DIRECTIONS: &[&[&str]] = &[
    &["converb-wire"],
    &["converb-engine"],
    &["converb-cm", "converb-driver"],
    &["converb-link", "converb-sim"],
    &["converb-agent"],
    &["converb"],
    &["converb-rsocket"],
    &["converb-abi", "converb-cli"],
];

fn layer(name: &str) -> Option<usize> {
    DIRECTIONS.iter().position(|layer| layer.contains(&name))
}

/// Dependencies that point upward or sideways, and crates without a layer.
pub fn direction_findings(tree: &Tree) -> Findings {
    let mut found = Findings::new();
    let manifests = tree
        .entries
        .iter()
        .filter(|entry| entry.path.starts_with("crates/") && entry.name() == "Cargo.toml");
    for manifest in manifests {
        let (name, uses) = read_manifest(&manifest.text);
        let Some(own) = layer(&name) else {
            found.push(format!("{}: `{name}` stands in no layer", manifest.path));
            continue;
        };
        for used in uses {
            if layer(&used).is_none_or(|other| other >= own) {
                found.push(format!(
                    "{}: `{name}` uses `{used}`, which is not below it",
                    manifest.path
                ));
            }
        }
    }
    found
}

/// The name of a package and those of the workspace's crates that it is built from.
fn read_manifest(text: &str) -> (String, Vec<String>) {
    let (mut name, mut uses, mut section) = (String::new(), Vec::new(), "");
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
            if let Some(used) = section.strip_prefix("[dependencies.") {
                uses.push(used.trim_end_matches(']').to_owned());
            }
        } else if section == "[package]" && line.starts_with("name") {
            name = line.split('"').nth(1).unwrap_or_default().to_owned();
        } else if matches!(section, "[dependencies]" | "[build-dependencies]")
            || section.starts_with("[target.") && section.ends_with(".dependencies]")
        {
            let end = line.find(['.', ' ', '=']).unwrap_or(0);
            uses.push(line[..end].to_owned());
        }
    }
    uses.retain(|used| used == "converb" || used.starts_with("converb-"));
    (name, uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}")
    }

    #[test]
    fn upward_and_sideways_dependencies_are_found() {
        let wire =
            manifest("converb-wire", "[dependencies]\nlibc = \"1\"\nconverb-link.workspace = true");
        let cm = manifest("converb-cm", "[dependencies.converb-driver]\nworkspace = true");
        let link = manifest(
            "converb-link",
            "[dependencies]\nconverb-driver = { path = \"\" }\n[dev-dependencies]\nconverb.workspace = true",
        );
        let found = direction_findings(&Tree::of(&[
            ("crates/wire/Cargo.toml", &wire),
            ("crates/cm/Cargo.toml", &cm),
            ("crates/link/Cargo.toml", &link),
        ]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`converb-wire` uses `converb-link`"), "{found:?}");
        assert!(found[1].contains("`converb-cm` uses `converb-driver`"), "{found:?}");
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        let found = direction_findings(&Tree::of(&[(
            "crates/x/Cargo.toml",
            &manifest("converb-extra", ""),
        )]));
        assert_eq!(found, ["crates/x/Cargo.toml: `converb-extra` stands in no layer"]);
    }
}
