//! The files of a tree, read once.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A text file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Path from the root of the tree, with `/` between its parts.
    pub path: String,
    /// All of its text.
    pub text: String,
    /// Whether its owner may execute it.
    pub executable: bool,
}

impl Entry {
    /// The name without folders.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether this is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is test code.
    pub fn is_test(&self) -> bool {
        self.name() == "tests.rs"
            || self.path.contains("/tests/")
            || self.path.starts_with("tests/")
            || self.path.contains("/benches/")
    }
}

/// The text files of a tree, in the order of their paths.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The files.
    pub entries: Vec<Entry>,
}

/// Folders that hold what was built, or what version control keeps.
const SKIPPED: &[&str] = &[".git", "target", "artifacts", "corpus", "__pycache__", "node_modules"];

impl Tree {
    /// Reads all text files under `root`.
    ///
    /// # Errors
    /// A folder or a file cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.collect(root, "")?;
        tree.entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(tree)
    }

    fn collect(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.collect(&entry.path(), &format!("{prefix}{name}/"))?;
            } else if kind.is_file() {
                // What is not UTF-8, such as a capture, is not ours to judge.
                if let Ok(text) = String::from_utf8(fs::read(entry.path())?) {
                    let executable = entry.metadata()?.permissions().mode() & 0o100 != 0;
                    let path = format!("{prefix}{name}");
                    self.entries.push(Entry { path, text, executable });
                }
            }
        }
        Ok(())
    }

    /// A tree of the given files, for planted faults.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let entries = files
            .iter()
            .map(|(path, text)| Entry {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
                executable: false,
            })
            .collect();
        Self { entries }
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_rust())
    }

    /// The file at `path`, if there is one.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.path == path)
    }
}
