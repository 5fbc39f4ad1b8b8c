//! Writes the exports and the version script of the library from the table of symbols.
//!
//! The version script holds only the nodes: which symbol belongs to which node is said by the
//! `.symver` directives in the exports. A version script that named symbols would clash with the
//! one that rustc passes for a cdylib.

use std::fmt::Write as _;
use std::path::Path;

#[path = "src/symbols/mod.rs"]
#[allow(dead_code)]
mod symbols;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/symbols");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);

    std::fs::write(out.join("exports.rs"), exports()).expect("cargo's OUT_DIR is writable");
    let script = out.join("nodes.map");
    std::fs::write(&script, version_script()).expect("cargo's OUT_DIR is writable");

    // The library answers to the name that programs have in DT_NEEDED, whatever its file is called.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libibverbs.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", script.display());
    // A thread of ours may be running, and programs keep pointers to our functions in their
    // objects: the library is never unmapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

fn version_script() -> String {
    let mut script = String::new();
    for nodes in [symbols::PUBLIC_NODES, symbols::CONNECTION_NODES] {
        let mut parent = None;
        for node in nodes {
            match parent {
                None => writeln!(script, "{node} {{ }};"),
                Some(parent) => writeln!(script, "{node} {{ }} {parent};"),
            }
            .expect("writing to a string cannot fail");
            parent = Some(node);
        }
    }
    writeln!(script, "{} {{ }};", symbols::OWN_NODE).expect("writing to a string cannot fail");
    for abi in symbols::PRIVATE_ABIS {
        writeln!(script, "IBVERBS_PRIVATE_{abi} {{ }};").expect("writing to a string cannot fail");
    }
    script
}

fn exports() -> String {
    let mut code = String::new();
    let tables = [symbols::PUBLIC, symbols::TWINS, symbols::OWN, symbols::CONNECTION];
    for symbol in tables.into_iter().flatten() {
        code += &export(symbol.name, symbol.node, symbol.is_default, symbol.is_object, symbol.item);
    }
    for (name, node, symbol) in symbols::private_symbols() {
        let is_default = symbols::is_default_private(&name, &node);
        code += &export(&name, &node, is_default, symbol.is_object, symbol.item);
    }
    code
}

/// One definition: a jump to the Rust function, under the versioned name. An assembler alias of the
/// function would be shorter, but works only where both land in the same object file, which rustc
/// does not promise. The data that is exported is all zero.
fn export(name: &str, node: &str, is_default: bool, is_object: bool, item: &str) -> String {
    let alias = format!("converb_export_{name}_{}", node.replace('.', "_"));
    let at = if is_default { "@@" } else { "@" };
    let (section, kind, body, operand) = if is_object {
        (".section .rodata", "@object", ".zero 8".to_owned(), String::new())
    } else {
        (".text", "@function", jump(), format!("    item = sym crate::entry::{item},\n"))
    };
    format!(
        "core::arch::global_asm!(\n\
         \x20   \"{section}\",\n\
         \x20   \".balign 16\",\n\
         \x20   \".globl {alias}\",\n\
         \x20   \".type {alias},{kind}\",\n\
         \x20   \"{alias}:\",\n\
         \x20   \"{body}\",\n\
         \x20   \".size {alias}, . - {alias}\",\n\
         \x20   \".symver {alias}, {name}{at}{node}, remove\",\n\
         {operand});\n"
    )
}

/// Jumps to the operand `item`; the first instruction is a landing pad for programs built with
/// control-flow protection.
fn jump() -> String {
    match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "endbr64; jmp {item}".to_owned(),
        Ok("aarch64") => "hint #34; b {item}".to_owned(),
        architecture => panic!("no jump instruction is known for {architecture:?}: add it here"),
    }
}
