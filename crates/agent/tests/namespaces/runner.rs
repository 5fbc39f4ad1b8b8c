//! Runs each test as a process of its own, in a network namespace of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getuid, kill_process};

use crate::{Test, Users};

/// Names the test that a process has to run.
pub const TEST_VARIABLE: &str = "CONVERB_AGENT_TEST";
/// The user that it has to become.
const USER_VARIABLE: &str = "CONVERB_AGENT_TEST_USER";

const ORDINARY_USER: u32 = 65534;
const LIMIT: Duration = Duration::from_secs(120);

/// Runs all tests whose name contains one of `arguments`, or all.
pub fn run_all(arguments: &[OsString], tests: &[Test]) -> ExitCode {
    let filters: Vec<&str> = arguments
        .iter()
        .filter_map(|argument| argument.to_str())
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for test in tests {
            println!("{}: test", test.name);
        }
        return ExitCode::SUCCESS;
    }
    let program = Program::copy();
    let mut runs = Vec::new();
    for test in tests {
        if !filters.is_empty() && !filters.iter().any(|filter| test.name.contains(filter)) {
            continue;
        }
        match (getuid().is_root(), test.users) {
            (true, Users::Both) => {
                runs.extend([(test, Some(0)), (test, Some(ORDINARY_USER))]);
            }
            (true, Users::Root) => runs.push((test, Some(0))),
            (false, Users::Both) => runs.push((test, None)),
            (false, Users::Root) => println!("test {} ... skipped, it needs root", test.name),
        }
    }
    let (alone, together) = runs.into_iter().partition(|(test, _)| test.is_alone);
    let failures = run_in_threads(AT_A_TIME, together, &program.path)
        + run_in_threads(1, alone, &program.path);
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A test and the user that it has to become.
type Run<'a> = (&'a Test, Option<u32>);

/// Most tests wait most of the time.
const AT_A_TIME: usize = 4;

/// Runs some tests at a time, and counts those that fail.
fn run_in_threads(count: usize, runs: Vec<Run<'_>>, program: &Path) -> usize {
    let runs = Mutex::new(runs.into_iter());
    let failures = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                loop {
                    let next = runs.lock().expect("no test panics here").next();
                    let Some((test, user)) = next else { return };
                    let start = Instant::now();
                    let is_ok = run_in_process(program, test, user);
                    let result = if is_ok { "ok" } else { "FAILED" };
                    let user = user.map_or(String::new(), |user| format!(" as user {user}"));
                    println!("test {}{user} ... {result} ({:?})", test.name, start.elapsed());
                    failures.fetch_add(usize::from(!is_ok), Ordering::Relaxed);
                }
            });
        }
    });
    failures.into_inner()
}

fn run_in_process(program: &Path, test: &Test, user: Option<u32>) -> bool {
    let mut command = Command::new(program);
    command.env(TEST_VARIABLE, test.name).env("CONVERB_BIN", program).stdin(Stdio::null());
    if let Some(user) = user {
        command.env(USER_VARIABLE, user.to_string());
    }
    let mut child = command.spawn().expect("the test's own program runs");
    let give_up = Instant::now() + LIMIT;
    loop {
        match child.try_wait().expect("our own child") {
            Some(status) => return status.success(),
            None if Instant::now() > give_up => {
                eprintln!("test {} takes too long", test.name);
                // The test's descendants are killed by their own process when it ends, so it gets
                // a signal that it can still handle: its stdin and deadline do that.
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// A copy of this program where every user may execute it.
struct Program {
    folder: PathBuf,
    path: PathBuf,
}

impl Program {
    fn copy() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder =
            std::env::temp_dir().join(format!("converb-agent-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let path = folder.join("namespaces");
        let own = std::env::current_exe().expect("/proc is mounted");
        std::fs::copy(own, &path).expect("room for a copy");
        for path in [&folder, &path] {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(path, mode).expect("our own file");
        }
        Self { folder, path }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs one test in this process, after making its namespace.
pub fn run_one(name: &str, tests: &[Test]) -> ExitCode {
    let Some(test) = tests.iter().find(|test| test.name == name) else {
        eprintln!("there is no test {name}");
        return ExitCode::FAILURE;
    };
    // SAFETY: no other thread exists yet.
    unsafe { std::env::remove_var(TEST_VARIABLE) };
    become_subreaper();
    make_namespace();
    if let Ok(user) = std::env::var(USER_VARIABLE) {
        become_user(user.parse().expect("the runner writes numbers"));
    }
    let result = std::panic::catch_unwind(test.run);
    end_descendants();
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The agent leaves its starter; this makes it come to the test, which ends it.
fn become_subreaper() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("Linux 3.4");
}

/// Ends every process that a test has left, by its number: only our own children are listed.
fn end_descendants() {
    loop {
        let own = std::process::id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"))
            .expect("/proc lists children");
        if children.trim().is_empty() {
            return;
        }
        for pid in children.split_ascii_whitespace() {
            let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
            let pid = pid.expect("the kernel lists process numbers");
            let _ = kill_process(pid, Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        }
    }
}

fn make_namespace() {
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    let mut flags = UnshareFlags::NEWNET;
    let (uid, gid) = (getuid().as_raw(), rustix::process::getgid().as_raw());
    if uid != 0 {
        flags |= UnshareFlags::NEWUSER;
    }
    // SAFETY: neither flag affects descriptors or memory that this process uses.
    unsafe { unshare_unsafe(flags) }.expect("namespaces are allowed on the test machine");
    if uid != 0 {
        for (file, map) in [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("{uid} {uid} 1")),
            ("gid_map", format!("{gid} {gid} 1")),
        ] {
            std::fs::write(format!("/proc/self/{file}"), map).expect("one own number may be set");
        }
    }
    bring_up_loopback();
    if uid != 0 {
        drop_capabilities();
    }
}

/// Who has them is no ordinary user: those who have not may not see its descriptors, for one.
fn drop_capabilities() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).expect("less is always allowed");
}

fn bring_up_loopback() {
    // SAFETY: the request is a live local of the type that these two calls take.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        assert!(socket >= 0);
        let mut request: libc::ifreq = core::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        assert_eq!(libc::ioctl(socket, libc::SIOCGIFFLAGS, &mut request), 0);
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        assert_eq!(libc::ioctl(socket, libc::SIOCSIFFLAGS, &request), 0);
        libc::close(socket);
    }
}

/// Gives up root for good.
pub fn become_user(user: u32) {
    if user == getuid().as_raw() {
        return;
    }
    // SAFETY: no memory is passed.
    unsafe {
        assert_eq!(libc::setgroups(0, core::ptr::null()), 0);
        assert_eq!(libc::setresgid(user, user, user), 0);
        assert_eq!(libc::setresuid(user, user, user), 0);
        // Else /proc/self belongs to root, as after an exec of a setuid program.
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
    }
}
