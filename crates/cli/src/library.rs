//! Where the library is, and the folder of links under whose names programs find it.
//!
//! There is one file, `libconverb_verbs.so`; the names that programs ask for are links to it, so
//! that the dynamic linker loads it once, with one set of state, whatever it is asked for. Two
//! layouts are known, both relative to the folder of the `converb` binary:
//!
//! - installed: `PREFIX/bin/converb`, `PREFIX/lib/libconverb_verbs.so` and the links
//!   `PREFIX/lib/converb/libibverbs.so.1 -> ../libconverb_verbs.so` (and `libibverbs.so`), made by
//!   `make install`;
//! - built: `target/release/converb`, `target/release/libconverb_verbs.so` and the links
//!   `target/release/converb-lib/libibverbs.so.1 -> ../libconverb_verbs.so`. `converb run` makes
//!   these when they are missing; where it cannot, LD_PRELOAD alone has to do.

use crate::failure::Failure;
use std::io;
use std::path::{Path, PathBuf};

/// The library's file.
const FILE: &str = "libconverb_verbs.so";

/// The names that programs ask for: in DT_NEEDED, and with dlopen.
pub(crate) const NAMES: &[&str] =
    &["libibverbs.so.1", "libibverbs.so", "librdmacm.so.1", "librdmacm.so"];

/// The library of a `converb` binary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Library {
    /// The file.
    pub(crate) file: PathBuf,
    /// The folder of links; `None` where there is none and none could be made.
    pub(crate) links: Option<PathBuf>,
}

/// Finds the library that belongs to the binary at `binary`.
pub(crate) fn find(binary: &Path) -> Result<Library, Failure> {
    let folder = binary.parent().unwrap_or(Path::new("/"));
    let built = folder.join(FILE);
    if built.is_file() {
        let links = folder.join("converb-lib");
        let links = make_links(&links).is_ok().then_some(links);
        return Ok(Library { file: built, links });
    }
    let prefix = folder.parent().unwrap_or(Path::new("/"));
    let installed = prefix.join("lib").join(FILE);
    if installed.is_file() {
        let links = prefix.join("lib/converb");
        let links = links.join(NAMES[0]).exists().then_some(links);
        return Ok(Library { file: installed, links });
    }
    Err(Failure::new(format!(
        "the library {FILE} is neither in {} nor in {}; in a source tree, run `make build`",
        folder.display(),
        prefix.join("lib").display()
    )))
}

/// Makes the links that are missing. Another process may be doing the same.
fn make_links(folder: &Path) -> io::Result<()> {
    let target = Path::new("..").join(FILE);
    for name in NAMES {
        let link = folder.join(name);
        if std::fs::read_link(&link).is_ok_and(|found| found == target) {
            continue;
        }
        std::fs::create_dir_all(folder)?;
        // A new name that replaces the old one: a program that starts now finds one or the other.
        let draft = folder.join(format!(".{name}.{}", std::process::id()));
        std::os::unix::fs::symlink(&target, &draft)?;
        std::fs::rename(&draft, &link)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("converb-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_build_tree_gets_its_links() {
        let tree = Folder::new("build-tree");
        std::fs::write(tree.0.join(FILE), "").unwrap();
        for _ in 0..2 {
            let library = find(&tree.0.join("converb")).unwrap();
            let link = library.links.unwrap().join("libibverbs.so.1");
            assert_eq!(link.canonicalize().unwrap(), library.file.canonicalize().unwrap());
        }
    }

    #[test]
    fn an_installed_library_is_found_beside_bin() {
        let prefix = Folder::new("prefix");
        let lib = prefix.0.join("lib");
        std::fs::create_dir_all(lib.join("converb")).unwrap();
        std::fs::create_dir_all(prefix.0.join("bin")).unwrap();
        std::fs::write(lib.join(FILE), "").unwrap();
        let without = find(&prefix.0.join("bin/converb")).unwrap();
        assert_eq!(without, Library { file: lib.join(FILE), links: None });
        std::os::unix::fs::symlink("../libconverb_verbs.so", lib.join("converb/libibverbs.so.1"))
            .unwrap();
        assert_eq!(find(&prefix.0.join("bin/converb")).unwrap().links, Some(lib.join("converb")));
    }

    #[test]
    fn a_missing_library_says_what_to_do() {
        let empty = Folder::new("empty");
        let failure = find(&empty.0.join("converb")).unwrap_err();
        assert!(failure.message.contains("make build"), "{}", failure.message);
    }
}
