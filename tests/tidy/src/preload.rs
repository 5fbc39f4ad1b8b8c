//! What the library that is loaded into other people's processes is made of.

use crate::Findings;

/// Foreign packages that the preloaded library may contain.
const ALLOWED: &[&str] =
    &["bitflags", "cfg-if", "crc32fast", "errno", "libc", "linux-raw-sys", "rustix", "zerocopy"];

/// Packages in `tree`, the output of `cargo tree --prefix none`, that must not be there.
pub fn preload_findings(tree: &str) -> Findings {
    let mut names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    names.dedup();
    let ours = |name: &str| name == "converb" || name.starts_with("converb-");
    if !names.iter().any(|name| ours(name)) {
        return vec!["no crate of this workspace is in the list".to_owned()];
    }
    names
        .into_iter()
        .filter(|name| !name.is_empty() && !ours(name) && !ALLOWED.contains(name))
        .map(|name| format!("the preloaded library must not contain `{name}`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_in_the_library_is_found() {
        let tree = "converb-abi v0.1.0 (/x)\nlibc v0.2.1\nserde v1.0.0\nlibc v0.2.1 (*)\n";
        assert_eq!(preload_findings(tree), ["the preloaded library must not contain `serde`"]);
    }

    #[test]
    fn an_empty_list_does_not_pass() {
        assert_eq!(preload_findings("").len(), 1);
    }
}
