//! Every size and offset is the installed header's.

use std::fmt::Write as _;
use std::process::Command;

/// A field as verbs.h calls it: `type` and `priv` are written `r#type` in Rust.
fn c_name(field: &str) -> &str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// The unions inside work requests have no Rust field of their own name; their members are checked
/// one by one.
fn nested() -> Vec<(&'static str, &'static str, usize)> {
    use super::{RemoteAtomic, RemoteMemory, RemoteQueuePair, ibv_send_wr};
    use core::mem::offset_of;
    let wr = offset_of!(ibv_send_wr, wr);
    let bind = offset_of!(ibv_send_wr, bind_mw);
    vec![
        ("ibv_send_wr", "wr.rdma.remote_addr", wr + offset_of!(RemoteMemory, remote_addr)),
        ("ibv_send_wr", "wr.rdma.rkey", wr + offset_of!(RemoteMemory, rkey)),
        ("ibv_send_wr", "wr.atomic.remote_addr", wr + offset_of!(RemoteAtomic, remote_addr)),
        ("ibv_send_wr", "wr.atomic.compare_add", wr + offset_of!(RemoteAtomic, compare_add)),
        ("ibv_send_wr", "wr.atomic.swap", wr + offset_of!(RemoteAtomic, swap)),
        ("ibv_send_wr", "wr.atomic.rkey", wr + offset_of!(RemoteAtomic, rkey)),
        ("ibv_send_wr", "wr.ud.ah", wr + offset_of!(RemoteQueuePair, ah)),
        ("ibv_send_wr", "wr.ud.remote_qpn", wr + offset_of!(RemoteQueuePair, remote_qpn)),
        ("ibv_send_wr", "wr.ud.remote_qkey", wr + offset_of!(RemoteQueuePair, remote_qkey)),
        ("ibv_send_wr", "qp_type.xrc.remote_srqn", offset_of!(ibv_send_wr, qp_type)),
        ("ibv_send_wr", "invalidate_rkey", offset_of!(ibv_send_wr, imm_data)),
        ("ibv_send_wr", "bind_mw.mw", bind + offset_of!(super::BindWindow, mw)),
        ("ibv_send_wr", "bind_mw.rkey", bind + offset_of!(super::BindWindow, rkey)),
        ("ibv_send_wr", "bind_mw.bind_info", bind + offset_of!(super::BindWindow, bind_info)),
        ("ibv_wc", "invalidated_rkey", offset_of!(super::ibv_wc, imm_data)),
    ]
}

#[test]
fn every_structure_is_laid_out_as_the_installed_header_has_it() {
    let layouts: Vec<_> = super::device::layouts()
        .into_iter()
        .chain(super::context::layouts())
        .chain(super::objects::layouts())
        .chain(super::work::layouts())
        .chain(super::attributes::layouts())
        .chain(super::connection::layouts())
        .collect();

    let mut ours = String::new();
    let mut program = String::from(
        "#include <rdma/rdma_cma.h>\n#include <stdio.h>\n#include <stddef.h>\nint main(void) {\n",
    );
    for layout in &layouts {
        let kind = if layout.name == "ibv_gid" { "union" } else { "struct" };
        let name = layout.name;
        writeln!(ours, "{name} {}", layout.size).unwrap();
        writeln!(program, "printf(\"{name} %zu\\n\", sizeof({kind} {name}));").unwrap();
        for &(field, offset, size) in &layout.fields {
            let field = c_name(field);
            writeln!(ours, "{name}.{field} {offset} {size}").unwrap();
            writeln!(
                program,
                "printf(\"{name}.{field} %zu %zu\\n\", offsetof({kind} {name}, {field}), \
                 sizeof((({kind} {name} *)0)->{field}));"
            )
            .unwrap();
        }
    }
    for (name, field, offset) in nested() {
        writeln!(ours, "{name}.{field} {offset}").unwrap();
        writeln!(program, "printf(\"{name}.{field} %zu\\n\", offsetof(struct {name}, {field}));")
            .unwrap();
    }
    program.push_str("return 0; }\n");

    let theirs = run_c(&program);
    let differences: Vec<_> = ours
        .lines()
        .zip(theirs.lines())
        .filter(|(ours, theirs)| ours != theirs)
        .map(|(ours, theirs)| format!("ours: {ours}; verbs.h: {theirs}"))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(ours.lines().count(), theirs.lines().count());
    assert!(ours.lines().count() > 300, "the list of fields is not the whole list");
}

/// Compiles and runs a C program that includes the system's verbs.h.
fn run_c(program: &str) -> String {
    let folder = std::env::temp_dir().join(format!("converb-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
    let source = folder.join("layout.c");
    let binary = folder.join("layout");
    std::fs::write(&source, program).expect("the folder for temporary files is writable");
    let compiler = Command::new("cc")
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .output()
        .expect("a C compiler is installed (apt-get install gcc)");
    assert!(
        compiler.status.success(),
        "the program does not compile; are libibverbs-dev and librdmacm-dev installed?\n{}",
        String::from_utf8_lossy(&compiler.stderr)
    );
    let output = Command::new(&binary).output().expect("the program that was just built runs");
    std::fs::remove_dir_all(&folder).expect("the folder was made above");
    String::from_utf8(output.stdout).expect("the program prints ASCII")
}
