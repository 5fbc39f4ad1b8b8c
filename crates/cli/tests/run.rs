//! `converb run` becomes the program: exit status, signals, environment, errors.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command with a library beside it, as in a build tree. What the library does is of no
/// interest here, so it is an empty one.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("converb-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_converb"), folder.join("converb")).unwrap();
        Self(folder)
    }

    fn with_library(name: &str) -> Self {
        let tree = Self::new(name);
        let source = tree.0.join("empty.c");
        std::fs::write(&source, "").unwrap();
        let library = tree.0.join("libconverb_verbs.so");
        let compiler = Command::new("cc").args(["-shared", "-o"]).arg(library).arg(source).status();
        assert!(compiler.expect("a C compiler is installed (apt-get install gcc)").success());
        tree
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.0.join("converb"));
        command.arg("run").args(arguments).env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD");
        command.output().unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_exit_status_is_the_programs() {
    let tree = Tree::with_library("status");
    assert_eq!(tree.run(&["sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(tree.run(&["true"]).status.code(), Some(0));
}

#[test]
fn a_signal_ends_the_command_as_it_ends_the_program() {
    let tree = Tree::with_library("signal");
    assert_eq!(tree.run(&["sh", "-c", "kill -TERM $$"]).status.signal(), Some(15));
}

#[test]
fn the_program_finds_the_library_and_the_command() {
    let tree = Tree::with_library("environment");
    let shown = "echo $LD_PRELOAD; echo $LD_LIBRARY_PATH; echo $CONVERB_BIN; \
                 echo $CONVERB_TRANSPORT; echo $CONVERB_DEVICE_NAME";
    let output =
        tree.run(&["--transport", "wire", "--device-name", "mlx5_0", "--", "sh", "-c", shown]);
    let output = text(&output.stdout);
    let lines: Vec<&str> = output.lines().collect();
    let tree_path = |name: &str| tree.0.join(name).to_str().unwrap().to_owned();
    assert_eq!(lines[0], tree_path("libconverb_verbs.so"));
    assert_eq!(lines[1], tree_path("converb-lib"));
    assert_eq!(lines[2..], [&tree_path("converb"), "wire", "mlx5_0"]);
    for name in ["libibverbs.so.1", "libibverbs.so"] {
        let link = Path::new(lines[1]).join(name);
        assert_eq!(link.canonicalize().unwrap(), tree.0.join("libconverb_verbs.so"));
    }
}

#[test]
fn what_is_missing_is_said() {
    let tree = Tree::with_library("missing");
    let output = tree.run(&["no-such-program-anywhere"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("no-such-program-anywhere"), "{output:?}");

    let bare = Tree::new("bare");
    let output = bare.run(&["true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("make build"), "{output:?}");
}

#[test]
fn what_would_ignore_the_library_is_refused_and_named() {
    let tree = Tree::with_library("ignored");
    let file = |name: &str| tree.0.join(name);
    std::fs::write(file("main.c"), "int main(void) { return 3; }\n").unwrap();
    let compile = |name: &str, options: &[&str]| {
        let mut command = Command::new("cc");
        command.args(options).arg("-o").arg(file(name)).arg(file("main.c"));
        assert!(command.status().expect("a C compiler").success(), "{name}");
    };
    compile("dynamic", &[]);
    compile("static", &["-static"]);
    compile("static-pie", &["-static-pie"]);
    let script = |name: &str, text: String| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(file(name), text).unwrap();
        std::fs::set_permissions(file(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("good", "#!/bin/sh\nexit 3\n".to_owned());
    script("bad", format!("#!{}\n", file("static").display()));
    script("worse", format!("#!{}\n", file("bad").display()));
    for name in ["dynamic", "good"] {
        let output = tree.run(&[file(name).to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(3), "{name}: {output:?}");
        assert!(output.stderr.is_empty(), "{name}: {output:?}");
    }
    for name in ["static", "static-pie", "bad", "worse"] {
        let output = tree.run(&[file(name).to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(126), "{name}: {output:?}");
        assert!(text(&output.stderr).contains("statically"), "{name}: {output:?}");
    }
}

#[test]
fn a_program_that_changes_the_user_is_refused_unless_nothing_changes() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let tree = Tree::with_library("privileged");
    let copy = tree.0.join("true");
    std::fs::copy("/bin/true", &copy).unwrap();
    let set = || std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).unwrap();
    set();
    // Our own already.
    assert_eq!(tree.run(&[copy.to_str().unwrap()]).status.code(), Some(0));
    // Another's: only root can give a file away.
    if chown(&copy, Some(1), None).is_ok() {
        set();
        let output = tree.run(&[copy.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(126), "{output:?}");
        assert!(text(&output.stderr).contains("setuid"), "{output:?}");
    }
}

#[test]
fn an_option_that_there_is_not_is_an_error_of_ours() {
    let tree = Tree::with_library("options");
    let output = tree.run(&["--bogus", "true"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("--bogus"), "{output:?}");
    let output = tree.run(&["--device-name", "a", "--device-name", "b", "true"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn what_is_no_file_takes_no_capture() {
    let tree = Tree::with_library("capture");
    let pipe = tree.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("coreutils").success());
    for (file, reason) in [
        ("-", "the standard output is the program's"),
        ("/dev/full", "a pipe or a device"),
        (pipe.to_str().unwrap(), "a pipe or a device"),
        ("/", "directory"),
    ] {
        let output = tree.run(&["--capture", file, "true"]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{file}: {errors}");
        assert!(errors.contains(&format!("cannot capture to {file}: ")), "{errors}");
        assert!(errors.contains(reason), "{errors}");
    }
}
