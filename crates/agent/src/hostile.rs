//! What the agent and its members read that others wrote: bytes without any rule, from the fuzzer
//! and from the tests.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use crate::counters::{PageView, Totals};
use crate::failures::{FAILURES_MAX, Kept};
use crate::protocol::{Header, MESSAGE_MAX, Name, Reply, Request};

/// Reads `bytes` as a message of either direction. Asserts that one that was understood is
/// understood again after it was written, and fits; whether it was.
pub fn message(bytes: &[u8]) -> bool {
    let _ = Header::parse(bytes);
    let request = Request::parse(bytes);
    if let Ok(request) = &request {
        let again = request.emit();
        assert!(again.len() <= MESSAGE_MAX);
        assert_eq!(Request::parse(&again).as_ref(), Ok(request));
    }
    let reply = Reply::parse(bytes);
    if let Ok(reply) = &reply {
        let again = reply.emit();
        assert!(again.len() <= MESSAGE_MAX);
        assert_eq!(Reply::parse(&again).as_ref(), Ok(reply));
    }
    request.is_ok() || reply.is_ok()
}

/// Reads `bytes` as the page of a member, with its ring of failures, and as the totals of a
/// predecessor. Asserts that no more is kept than is allowed; how many counters and failures
/// there were.
pub fn page(bytes: &[u8]) -> (usize, usize) {
    let view = PageView::open(memory(bytes, SealFlags::SHRINK));
    let mut totals = Totals::inherit(memory(bytes, SealFlags::empty()))
        .unwrap_or_else(|_| Totals::create().expect("memory"));
    let Ok(view) = view else {
        let history = totals.history().expect("a descriptor");
        return (totals.with([].iter()).len(), history.with([]).len());
    };
    let program = Name::new("program");
    let failures = || view.failures().into_iter().map(|record| Kept { pid: 1, program, record });
    // Twice: what a dead member left, and a living one.
    let _ = totals.fold(&view);
    let sums = totals.with([&view].into_iter());
    let mut history = totals.history().expect("a descriptor");
    history.add(failures()).expect("memory");
    let kept = history.with(failures());
    assert!(kept.len() <= FAILURES_MAX);
    (sums.len(), kept.len())
}

/// Memory that begins with `bytes`, as large as a page of a few devices.
fn memory(bytes: &[u8], seals: SealFlags) -> OwnedFd {
    const SIZE: u64 = 32 << 10;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create("converb-hostile", flags).expect("memory");
    ftruncate(&memory, SIZE).expect("memory");
    let file = File::from(memory);
    file.write_all_at(bytes, 0).expect("memory");
    fcntl_add_seals(&file, seals).expect("it takes seals");
    file.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::CounterPage;
    use core::sync::atomic::Ordering;

    fn corpus(target: &str) -> Vec<Vec<u8>> {
        let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
        let entries = std::fs::read_dir(folder).expect("the corpus");
        entries
            .map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a file"))
            .collect()
    }

    #[test]
    fn the_corpus_of_messages_holds() {
        let understood = corpus("agent_protocol").iter().filter(|bytes| message(bytes)).count();
        assert!(understood >= 18, "only {understood} of the kept messages are messages");
    }

    #[test]
    fn the_corpus_of_pages_holds() {
        let found: Vec<_> = corpus("agent_page").iter().map(|bytes| page(bytes)).collect();
        assert!(found.iter().any(|(counters, failures)| *counters > 0 && *failures > 0));
    }

    #[test]
    fn a_page_of_ours_is_read_whole() {
        let page_of_ours = CounterPage::create(&["packets"]).expect("memory");
        page_of_ours.device("roce_lo").expect("a place")[0].store(5, Ordering::Relaxed);
        for number in 0..5 {
            page_of_ours.record(0, &[number + 1; crate::FAILURE_WORDS]);
        }
        let file = page_of_ours.descriptor().expect("open").try_clone_to_owned().expect("open");
        let mut bytes = vec![0; 4096];
        File::from(file).read_exact_at(&mut bytes, 0).expect("a page");
        assert_eq!(page(&bytes), (1, 5));
    }
}
