//! The table of symbols, the built library and the distribution's library say the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

mod library;
#[path = "../src/symbols/mod.rs"]
#[allow(dead_code, unused_imports)]
mod symbols;

/// A definition as `readelf` prints it: `name@NODE`, or `name@@NODE` for the default version, and
/// whether it is data.
type Definition = (String, bool);

fn table() -> BTreeSet<Definition> {
    let mut definitions = BTreeSet::new();
    let mut add = |name: &str, node: &str, is_default: bool, is_object: bool| {
        let at = if is_default { "@@" } else { "@" };
        let is_new = definitions.insert((format!("{name}{at}{node}"), is_object));
        assert!(is_new, "{name}{at}{node} is twice in the table");
    };
    let tables = [symbols::PUBLIC, symbols::TWINS, symbols::OWN, symbols::CONNECTION];
    for symbol in tables.into_iter().flatten() {
        add(symbol.name, symbol.node, symbol.is_default, symbol.is_object);
    }
    for (name, node, symbol) in symbols::private_symbols() {
        add(&name, &node, symbols::is_default_private(&name, &node), symbol.is_object);
    }
    definitions
}

fn readelf(option: &str, file: &Path) -> String {
    let output = Command::new("readelf")
        .arg("-W")
        .arg(option)
        .arg(file)
        .output()
        .expect("readelf is installed (apt-get install binutils)");
    assert!(output.status.success(), "readelf {option} {} failed", file.display());
    String::from_utf8(output.stdout).expect("readelf prints ASCII here")
}

/// All versioned definitions of a library.
fn definitions(file: &Path) -> BTreeSet<Definition> {
    readelf("--dyn-syms", file)
        .lines()
        .filter_map(|line| {
            // Num: Value Size Type Bind Vis Ndx Name
            let columns: Vec<_> = line.split_whitespace().collect();
            let [_, _, _, kind, _, _, index, name] = columns[..] else { return None };
            let is_definition =
                index != "UND" && index != "ABS" && matches!(kind, "FUNC" | "OBJECT");
            (is_definition && name.contains('@')).then(|| (name.to_owned(), kind == "OBJECT"))
        })
        .collect()
}

/// All definitions without a version.
fn unversioned(file: &Path) -> Vec<String> {
    readelf("--dyn-syms", file)
        .lines()
        .filter_map(|line| {
            let columns: Vec<_> = line.split_whitespace().collect();
            let [_, _, _, kind, _, _, index, name] = columns[..] else { return None };
            let is_definition =
                index != "UND" && index != "ABS" && matches!(kind, "FUNC" | "OBJECT");
            (is_definition && !name.contains('@')).then(|| name.to_owned())
        })
        .collect()
}

fn system_library() -> PathBuf {
    let folders = ["/usr/lib", "/usr/lib64", "/lib"];
    let architecture = format!("{}-linux-gnu", std::env::consts::ARCH);
    folders
        .iter()
        .flat_map(|folder| [PathBuf::from(folder).join(&architecture), PathBuf::from(folder)])
        .map(|folder| folder.join("libibverbs.so.1"))
        .find(|path| path.exists())
        .expect("the distribution's libibverbs.so.1 is installed (apt-get install libibverbs1)")
}

#[test]
fn the_library_exports_exactly_what_the_table_says() {
    let (built, table) = (definitions(&library::path()), table());
    let missing: Vec<_> = table.difference(&built).collect();
    let extra: Vec<_> = built.difference(&table).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing: {missing:?}\nextra: {extra:?}");
    assert_eq!(unversioned(&library::path()), Vec::<String>::new());
}

#[test]
fn the_table_holds_every_definition_of_the_distribution() {
    let (system, table) = (definitions(&system_library()), table());
    let missing: Vec<_> = system.difference(&table).collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}

#[test]
fn the_table_holds_all_of_rdma_core_44() {
    let in_44 = symbols::PUBLIC.len() + symbols::TWINS.len() + symbols::PRIVATE.len() + 1;
    assert_eq!(in_44, symbols::RDMA_CORE_44_DEFINITIONS);
    let old = symbols::TWINS.len();
    let first = symbols::PUBLIC.iter().filter(|symbol| symbol.node == "IBVERBS_1.0").count();
    assert_eq!((old, old + first), (33, 42));
}

#[test]
fn every_node_is_defined_even_without_symbols() {
    let versions = readelf("-V", &library::path());
    let names = versions.split("Version needs").next().expect("split gives at least one part");
    let mut nodes: Vec<String> = symbols::PUBLIC_NODES.iter().map(|&node| node.into()).collect();
    nodes.push(symbols::OWN_NODE.into());
    nodes.extend(symbols::PRIVATE_ABIS.iter().map(|abi| format!("IBVERBS_PRIVATE_{abi}")));
    for node in nodes {
        assert!(names.contains(&format!("Name: {node}\n")), "{node} is not defined");
    }
}

#[test]
fn the_library_has_the_name_programs_ask_for_and_stays_loaded() {
    let dynamic = readelf("-d", &library::path());
    assert!(dynamic.contains("Library soname: [libibverbs.so.1]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

/// What is in the library is in every program that it is preloaded into.
#[test]
fn the_library_needs_only_libc() {
    let dynamic = readelf("-d", &library::path());
    let needed: Vec<_> = dynamic
        .lines()
        .filter_map(|line| line.split_once("Shared library: [")?.1.split_once(']'))
        .map(|(name, _)| name)
        .collect();
    let allowed = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
    for name in &needed {
        assert!(allowed.contains(name), "{name} is not to be needed");
    }
    assert!(needed.contains(&"libc.so.6"));
}

/// The list for people, made from the table.
fn document() -> String {
    use std::fmt::Write as _;
    let mut text = String::from(
        "# What libconverb_verbs.so exports\n\n\
         Made from `src/symbols` by `CONVERB_WRITE_DOCUMENTS=1 cargo test -p converb-abi --test symbols`.\n\n\
         *Works*: as its man page says. *Unsupported*: answers EOPNOTSUPP. *Stub*: is there to be\n\
         linked with; nothing calls it without a kernel device.\n\n\
         | symbol | node | status | who imports it on Debian 12 |\n| --- | --- | --- | --- |\n",
    );
    for symbol in symbols::PUBLIC.iter().chain(symbols::OWN) {
        let at = if symbol.is_default { "@@" } else { "@" };
        let (name, node) = (symbol.name, symbol.node);
        writeln!(text, "| `{name}{at}` | {node} | {:?} | {} |", symbol.status, symbol.users)
            .unwrap();
    }
    let abis: Vec<String> = symbols::PRIVATE_ABIS.iter().map(u32::to_string).collect();
    write!(
        text,
        "\nThe twins of {} functions in `IBVERBS_1.0` say that they are not supported: their\n\
         structures are those of before 2007.\n\n\
         Each of these is in the private nodes {}, with `verbs_register_driver_<number>`:\n\n\
         | symbol | status | who imports it on Debian 12 |\n| --- | --- | --- |\n",
        symbols::TWINS.len(),
        abis.join(", "),
    )
    .unwrap();
    for symbol in symbols::PRIVATE {
        writeln!(text, "| `{}` | {:?} | {} |", symbol.name, symbol.status, symbol.users).unwrap();
    }
    text
}

#[test]
fn the_list_for_people_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("SYMBOLS.md");
    if std::env::var_os("CONVERB_WRITE_DOCUMENTS").is_some() {
        std::fs::write(&path, document()).expect("the source tree is writable");
    }
    let written = std::fs::read_to_string(&path).expect("SYMBOLS.md is beside Cargo.toml");
    assert_eq!(written, document());
}
