//! Whether the dynamic loader will put our library under a program, before it is started: a
//! program that ignores us would run as if there were no RDMA, and nobody would know why.
//!
//! `elf` reads what the file is; here scripts are followed to what runs them, and privilege that
//! makes the loader ignore LD_PRELOAD is found (AT_SECURE, ld.so(8)).

mod elf;
mod privilege;

use crate::failure::{Failure, NOT_EXECUTABLE};
use crate::program;
use elf::{Elf, Format};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// As many scripts run one another as the kernel allows.
const SCRIPTS_MAX: usize = 5;
/// What of a file tells what it is: the first line of a script, the headers of an ELF file.
const HEAD_BYTES: u64 = 64 << 10;

/// Refuses a program that would run without our library. What cannot be read is left to the
/// kernel.
///
/// # Errors
/// With what the program is and the exit status of a program that cannot be run.
pub(crate) fn check(program: &Path) -> Result<(), Failure> {
    let mut path = program.to_owned();
    let mut from = String::new();
    for _ in 0..SCRIPTS_MAX {
        let Some(head) = head(&path) else { return Ok(()) };
        if let Some(interpreter) = script_interpreter(&head) {
            if !interpreter.exists() {
                let text = format!(
                    "{} is a script for {}, which is not there",
                    path.display(),
                    interpreter.display()
                );
                return Err(Failure::with_status(text, NOT_EXECUTABLE));
            }
            from = format!(" (which runs {})", program.display());
            path = interpreter;
            continue;
        }
        let refuse = |reason: String| {
            let text = format!("{}{from} {reason}", path.display());
            Err(Failure::with_status(text, NOT_EXECUTABLE))
        };
        if let Some(elf) = Elf::parse(&head)
            && let Some(reason) = problem(&path, &elf)
        {
            return refuse(reason);
        }
        return privilege::gained(&path).map_or(Ok(()), |gained| {
            refuse(format!(
                "{gained}, so the dynamic loader will not put Converb's library under it; run it \
                 as that user from the start, or run a copy without the privilege"
            ))
        });
    }
    Ok(())
}

/// Why an ELF file cannot run with our library.
fn problem(path: &Path, elf: &Elf) -> Option<String> {
    match elf.format {
        Format::OtherClass => {
            return Some("is a 32-bit program, and Converb's library is a 64-bit one".to_owned());
        }
        Format::OtherMachine(machine) => {
            return Some(format!(
                "is a program for {}, and Converb's library one for {}",
                elf::machine_name(machine),
                elf::machine_name(elf::OWN_MACHINE)
            ));
        }
        Format::Own => {}
    }
    let Some(interpreter) = &elf.interpreter else {
        // The loader itself may be called by name; it looks at our variables.
        let name = path.file_name().unwrap_or_default().as_bytes();
        let is_loader = [&b"ld-"[..], b"ld.so", b"ld64"].iter().any(|part| name.starts_with(part));
        return (!is_loader).then(|| {
            "is linked statically, so no library can be put under it, and it would find no RDMA \
             device; link it dynamically against libibverbs"
                .to_owned()
        });
    };
    let loader = Path::new(interpreter);
    if loader.file_name().unwrap_or_default().as_bytes().starts_with(b"ld-musl") {
        return Some(format!(
            "is a program for musl (it is loaded by {}), and Converb's library needs glibc; build \
             it for glibc, in a Debian or Fedora container for example",
            loader.display()
        ));
    }
    (!loader.exists())
        .then(|| format!("is loaded by {}, which this system does not have", loader.display()))
}

fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(head)
}

/// The program that runs a script, by its first line. Of `/usr/bin/env NAME` the program that env
/// will find.
fn script_interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line
        .split(|byte| b" \t\r".contains(byte))
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let interpreter = Path::new(words.next()?);
    let named = words.next().filter(|name| !name.as_bytes().starts_with(b"-"));
    if let (Some("env"), Some(name)) = (interpreter.file_name().and_then(OsStr::to_str), named) {
        let search = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
        // If there is none, env says so.
        if let Ok(found) = program::find(name, &search) {
            return Some(found);
        }
    }
    Some(interpreter.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_followed_to_what_runs_it() {
        let of = |line: &str| script_interpreter(line.as_bytes());
        assert_eq!(of("#! /bin/sh -e\nexit"), Some("/bin/sh".into()));
        assert_eq!(of("#!/usr/bin/env -S x y\n"), Some("/usr/bin/env".into()));
        assert!(of("#!/usr/bin/env sh\n").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(of("exit"), None);
        assert_eq!(of("#!\n"), None);
    }

    #[test]
    fn a_script_without_its_interpreter_is_told() {
        let path = std::env::temp_dir().join(format!("converb-script-{}", std::process::id()));
        std::fs::write(&path, "#!/no/such/shell -e\n").unwrap();
        let failure = check(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(failure.message.ends_with("is a script for /no/such/shell, which is not there"));
        assert_eq!(failure.status, NOT_EXECUTABLE);
    }

    #[test]
    fn ordinary_programs_and_the_loader_are_not_refused() {
        assert!(check(Path::new("/bin/sh")).is_ok());
        assert!(check(Path::new("/etc/passwd")).is_ok(), "the kernel says what is wrong with it");
        let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
        assert!(!loader.exists() || check(loader).is_ok());
    }

    #[test]
    fn each_kind_that_ignores_us_is_named() {
        let path = Path::new("/opt/program");
        let said = |format, interpreter: Option<&str>| {
            problem(path, &Elf { format, interpreter: interpreter.map(Into::into) })
        };
        assert_eq!(said(Format::Own, Some("/lib64/ld-linux-x86-64.so.2")), None);
        for (format, interpreter, word) in [
            (Format::Own, None, "statically"),
            (Format::Own, Some("/lib/ld-musl-x86_64.so.1"), "musl"),
            (Format::Own, Some("/nix/store/no/ld-linux-x86-64.so.2"), "does not have"),
            (Format::OtherClass, Some("/lib/ld-linux.so.2"), "32-bit"),
            (Format::OtherMachine(243), Some("/lib/ld-linux-riscv64-lp64d.so.1"), "RISC-V"),
        ] {
            let text = said(format, interpreter).expect(word);
            assert!(text.contains(word), "{text}");
        }
    }
}
