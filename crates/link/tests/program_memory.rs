//! Moves to and from memory that is not there, or behind the back of its program, end in a fault
//! and never in the process.

use converb_engine::{Fault, Memory};
use converb_link::ProgramMemory;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::process::Command;

const PAGE: usize = 4096;

/// Pages of our own to take away.
struct Pages {
    start: *mut c_void,
    count: usize,
}

impl Pages {
    fn new(count: usize) -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE;
        // SAFETY: a fresh mapping wherever the kernel likes.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), count * PAGE, protection, flags) }
                .expect("memory");
        Self { start, count }
    }

    fn address(&self) -> u64 {
        self.start as u64
    }

    fn page(&self, index: usize) -> *mut c_void {
        assert!(index < self.count);
        self.start.wrapping_byte_add(index * PAGE)
    }

    /// Takes a page away, leaving a hole that nothing else is mapped to while this lives.
    fn unmap(&self, index: usize) {
        // SAFETY: the page is ours and nobody has a reference into it. No access at all is what
        // a hole is to a copy, and nothing else can be mapped there meanwhile.
        unsafe { mprotect(self.page(index), PAGE, MprotectFlags::empty()) }.expect("ours");
    }

    fn protect(&self, index: usize) {
        // SAFETY: the page is ours and nobody has a reference into it.
        unsafe { mprotect(self.page(index), PAGE, MprotectFlags::READ) }.expect("ours");
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody has a reference into it.
        unsafe { munmap(self.start, self.count * PAGE) }.expect("ours");
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 251) as u8).collect()
}

#[test]
fn every_length_and_alignment_is_moved_exactly() {
    let memory = ProgramMemory::new();
    let pages = Pages::new(2);
    for length in (0..200).chain([255, 256, 1000, 4112]) {
        for (ours, theirs) in [(0, 0), (0, 1), (3, 0), (12, 28), (5, 31), (28, 4), (1, 63)] {
            let source = pattern(length + ours);
            let address = pages.address() + theirs;
            memory.write(address - theirs, &vec![0xaa; 4400]).expect("mapped");
            memory.write(address, &source[ours..]).expect("mapped");
            let mut back = vec![0xbb; 4400 + ours];
            memory.read(address - theirs, &mut back[ours..]).expect("mapped");
            let (head, rest) = back[ours..].split_at(theirs as usize);
            let (body, tail) = rest.split_at(length);
            assert!(head.iter().all(|byte| *byte == 0xaa), "before {length} {ours} {theirs}");
            assert_eq!(body, &source[ours..], "{length} {ours} {theirs}");
            assert!(tail.iter().all(|byte| *byte == 0xaa), "after {length} {ours} {theirs}");
            let mut part = vec![0; length];
            memory.read(address, &mut part).expect("mapped");
            assert_eq!(part, &source[ours..]);
        }
    }
}

#[test]
fn memory_that_is_not_there_is_a_fault_at_its_first_byte() {
    let memory = ProgramMemory::new();
    let pages = Pages::new(3);
    pages.unmap(1);
    let hole = pages.address() + PAGE as u64;
    let expected = Err(Fault { address: hole });
    for length in [1, 8, 63, 64, 500, 2 * PAGE] {
        for before in [0, 1, 7, 40] {
            if before >= length {
                continue;
            }
            let address = hole - before as u64;
            let mut buffer = vec![0; length];
            // The first byte that is missing; or the piece that it is in began before.
            let near = |result: Result<(), Fault>| {
                let fault = result.expect_err("a hole");
                assert!((hole..hole + 32).contains(&fault.address), "{fault:?} {hole:#x}");
            };
            near(memory.read(address, &mut buffer));
            near(memory.write(address, &buffer));
        }
    }
    assert_eq!(memory.read(hole, &mut [0; 8]), expected);
    assert_eq!(memory.compare_and_swap(hole, 0, 1), Err(Fault { address: hole }));
    assert_eq!(memory.fetch_and_add(hole, 1), Err(Fault { address: hole }));
    // What lies before it was written.
    memory.write(hole - 4, &[1, 2, 3, 4, 5]).expect_err("a hole");
    let mut written = [0; 4];
    memory.read(hole - 4, &mut written).expect("mapped");
    assert_eq!(written, [1, 2, 3, 4]);
}

#[test]
fn addresses_that_no_memory_can_have_are_faults() {
    let memory = ProgramMemory::new();
    for address in [0, 8, 0x0000_8000_0000_0000, 0xdead_beef_dead_beef, u64::MAX - 100] {
        for length in [1, 64, 100] {
            assert!(memory.read(address, &mut vec![0; length]).is_err(), "{address:#x}");
            assert!(memory.write(address, &vec![0; length]).is_err(), "{address:#x}");
        }
        assert!(memory.fetch_and_add(address & !7, 1).is_err());
    }
    assert_eq!(memory.read(0, &mut []), Ok(()), "nothing is everywhere");
}

#[test]
fn read_only_memory_can_be_read() {
    let memory = ProgramMemory::new();
    let pages = Pages::new(1);
    memory.write(pages.address(), &[7; 16]).expect("mapped");
    pages.protect(0);
    let expected = Fault { address: pages.address() };
    assert_eq!(memory.write(pages.address(), &[1; 16]), Err(expected));
    assert_eq!(memory.fetch_and_add(pages.address(), 1), Err(expected));
    assert_eq!(memory.compare_and_swap(pages.address(), 1, 2), Err(expected));
    let mut bytes = [0; 16];
    assert_eq!(memory.read(pages.address(), &mut bytes), Ok(()));
    assert_eq!(bytes, [7; 16]);
}

#[test]
fn memory_beyond_the_end_of_a_truncated_file_is_a_fault() {
    let memory = ProgramMemory::new();
    let file =
        rustix::fs::memfd_create("truncated", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
    rustix::fs::ftruncate(&file, 2 * PAGE as u64).expect("ours");
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping wherever the kernel likes; only `memory` touches it.
    let start =
        unsafe { mmap(std::ptr::null_mut(), 2 * PAGE, protection, MapFlags::SHARED, &file, 0) }
            .expect("memory");
    memory.write(start as u64, &[1; 2 * PAGE]).expect("mapped");
    rustix::fs::ftruncate(&file, PAGE as u64).expect("ours");
    let end = start as u64 + PAGE as u64;
    assert_eq!(memory.read(end, &mut [0; 8]), Err(Fault { address: end }));
    let fault = memory.write(end - 64, &[2; 128]).expect_err("the file ends there");
    assert!((end..end + 32).contains(&fault.address));
    // SAFETY: the mapping is ours and nobody has a reference into it.
    unsafe { munmap(start, 2 * PAGE) }.expect("ours");
}

#[test]
fn atomics_are_atomic() {
    let memory = ProgramMemory::new();
    let pages = Pages::new(1);
    let address = pages.address() + 8;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    memory.fetch_and_add(address, 3).expect("mapped");
                    let mut seen = memory.compare_and_swap(address, 0, 0).expect("mapped");
                    loop {
                        let found = memory.compare_and_swap(address, seen, seen + 1);
                        match found.expect("mapped") {
                            value if value == seen => break,
                            value => seen = value,
                        }
                    }
                }
            });
        }
    });
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes).expect("mapped");
    assert_eq!(u64::from_ne_bytes(bytes), 2 * 10_000 * 4);
    assert_eq!(memory.fetch_and_add(address, u64::MAX).expect("mapped"), 80_000, "wraps");
    assert_eq!(memory.compare_and_swap(address, 5, 6).expect("mapped"), 79_999);
}

fn set_mask(how: i32) {
    // SAFETY: the set is initialised by sigemptyset before it is used.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGSEGV);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGBUS);
        assert_eq!(libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_thread_that_blocks_the_signals_gets_faults_too() {
    let memory = ProgramMemory::new();
    let pages = Pages::new(2);
    pages.unmap(1);
    let hole = pages.address() + PAGE as u64;
    std::thread::spawn(move || {
        set_mask(libc::SIG_BLOCK);
        memory.arm();
        let mut bytes = [0; 64];
        assert_eq!(memory.read(hole, &mut bytes), Err(Fault { address: hole }));
        assert!(memory.write(hole - 8, &bytes).is_err());
        assert!(memory.fetch_and_add(hole, 1).is_err());
        memory.write(hole - 64, &[9; 64]).expect("mapped");
        memory.read(hole - 64, &mut bytes).expect("mapped");
        assert_eq!(bytes, [9; 64]);
        assert_eq!(memory.fetch_and_add(hole - 8, 1), Ok(0x0909_0909_0909_0909));
        assert_eq!(
            memory.compare_and_swap(hole - 8, 0x0909_0909_0909_090a, 5),
            Ok(0x0909_0909_0909_090a)
        );
        set_mask(libc::SIG_UNBLOCK);
        memory.arm();
        assert_eq!(memory.read(hole, &mut bytes), Err(Fault { address: hole }));
    })
    .join()
    .expect("the thread's own checks");
}

/// The environment variable that makes this test program play a part in a process of its own.
const PART: &str = "CONVERB_TEST_PART";

fn play(part: &str) -> std::process::Output {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "parts_that_need_a_process_of_their_own", "--nocapture"])
        .env(PART, part)
        .output()
        .expect("started")
}

extern "C" fn exit_42(_: i32) {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(42) }
}

extern "C" fn exit_43(_: i32, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo; ends the process at once.
    unsafe { libc::_exit(if (*info).si_addr() as usize == 16 { 43 } else { 1 }) }
}

fn handle_with(handler: usize, flags: i32) {
    // SAFETY: a complete action; the handlers above have the signature that the flags say.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Faults outside of any guarded copy.
fn crash() {
    // SAFETY: none; it is meant to fault, and a volatile read is not optimised away.
    unsafe { std::ptr::read_volatile(std::ptr::without_provenance::<u8>(16)) };
}

#[test]
fn parts_that_need_a_process_of_their_own() {
    let Ok(part) = std::env::var(PART) else { return };
    let memory = ProgramMemory::new();
    let faults = || memory.read(16, &mut [0; 8]) == Err(Fault { address: 16 });
    match part.as_str() {
        "plain handler before" => {
            handle_with(exit_42 as *const () as usize, 0);
            assert!(faults());
            crash();
        }
        "handler with details before" => {
            handle_with(exit_43 as *const () as usize, libc::SA_SIGINFO);
            assert!(faults());
            crash();
        }
        "default before" => {
            handle_with(libc::SIG_DFL, 0);
            assert!(faults());
            crash();
        }
        "sent, default before" => {
            handle_with(libc::SIG_DFL, 0);
            assert!(faults());
            // SAFETY: sends a signal to ourselves.
            unsafe { libc::raise(libc::SIGSEGV) };
        }
        "sent, ignored before" => {
            handle_with(libc::SIG_IGN, 0);
            assert!(faults());
            // SAFETY: sends a signal to ourselves.
            unsafe { libc::raise(libc::SIGSEGV) };
            std::process::exit(44);
        }
        "handler replaced later" => {
            assert!(faults());
            handle_with(exit_42 as *const () as usize, 0);
            memory.arm();
            assert!(faults());
            std::process::exit(45);
        }
        "unmapped" => {
            let pages = Pages::new(1);
            let address = pages.address();
            memory.write(address, &[1; 8]).expect("mapped");
            drop(pages);
            assert_eq!(memory.read(address, &mut [0; 8]), Err(Fault { address }));
            assert_eq!(memory.write(address, &[1; 8]), Err(Fault { address }));
            std::process::exit(47);
        }
        "untouched before use" => {
            // SAFETY: with a null action only the present one is written.
            let ours_is_there = unsafe {
                let mut before: libc::sigaction = std::mem::zeroed();
                libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before);
                memory.arm();
                let mut after: libc::sigaction = std::mem::zeroed();
                libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut after);
                before.sa_sigaction != after.sa_sigaction
            };
            std::process::exit(if ours_is_there { 46 } else { 1 });
        }
        _ => unreachable!("a part that this test names"),
    }
}

#[test]
fn signals_that_are_not_ours_reach_whoever_had_them_before() {
    use std::os::unix::process::ExitStatusExt;
    for (part, code) in [
        ("plain handler before", 42),
        ("handler with details before", 43),
        ("sent, ignored before", 44),
        ("handler replaced later", 45),
        ("untouched before use", 46),
        ("unmapped", 47),
    ] {
        let output = play(part);
        assert_eq!(output.status.code(), Some(code), "{part}: {output:?}");
    }
    for part in ["default before", "sent, default before"] {
        let output = play(part);
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{part}: {output:?}");
    }
}
