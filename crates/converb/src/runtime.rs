//! What a process has once: its membership in the group that owns the port, the driver, and the
//! threads that keep both going.
//!
//! Nothing of it happens before the first object needs the network. No thread moves packets before
//! the first queue pair, and nothing is torn down: the kernel does that when the process ends. A
//! fork child is another process: the parent's runtime is not touched there, and a new one is made
//! when the child creates objects of its own.

use crate::chaos::{self, Chaotic};
use crate::counters::Published;
use crate::error::Error;
use crate::fork::ForkWord;
use converb_agent::{FailureWords, JoinOptions, Membership};
use converb_driver::Port;
use converb_link::{Settings, Slot, UdpPort};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// The driver over UDP.
pub(crate) type Driver = converb_driver::Driver<UdpPort, Chaotic>;
/// A queue pair of that driver.
pub(crate) type QueuePairHandle =
    converb_driver::QueuePairHandle<converb_link::EventSignal, Chaotic>;
/// A completion queue of that driver.
pub(crate) type CompletionQueueHandle =
    converb_driver::CompletionQueueHandle<converb_link::EventSignal, Chaotic>;
/// A completion channel of that driver.
pub(crate) type ChannelHandle = converb_driver::Channel<converb_link::EventSignal, Chaotic>;

/// A process's part in the network. It lives as long as the process.
pub(crate) struct Runtime {
    driver: Arc<Driver>,
    membership: Membership,
    word: &'static ForkWord,
    number: u32,
    progress: Once,
    is_standing_by: AtomicBool,
    published: Published,
}

/// How often counters are published and rings of dead processes forgotten.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// How long a thread of the program's may be held up to fetch slots again that the program has
/// closed; an agent answers within a millisecond, unless it has lost the processor.
const FETCH_LIMIT: Duration = Duration::from_millis(100);

/// The runtime of the process, or of the parent it was forked from.
static CURRENT: AtomicPtr<Runtime> = AtomicPtr::new(core::ptr::null_mut());

impl Runtime {
    /// The runtime of this process; joins the network the first time.
    ///
    /// # Errors
    /// Why the network cannot be joined.
    pub(crate) fn get() -> Result<&'static Self, Error> {
        if let Some(runtime) = Self::current() {
            return Ok(runtime);
        }
        let word = ForkWord::of_process().map_err(Error::system("watch for forks"))?;
        let _creating = word.runtime.lock();
        if let Some(runtime) = Self::current() {
            return Ok(runtime);
        }
        abandon_inherited();
        let runtime: &'static Self = Box::leak(Box::new(Self::join(word)?));
        CURRENT.store(core::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
        // The agent may die before there is a queue pair, and only members can start another. If
        // no thread can be had now, the first queue pair tries again.
        let _ = runtime.start_standing_by();
        Ok(runtime)
    }

    /// The runtime, if this process has joined the network already.
    pub(crate) fn current() -> Option<&'static Self> {
        // SAFETY: the pointer is null or to a runtime, which is never freed.
        let runtime = unsafe { CURRENT.load(Ordering::Acquire).as_ref() }?;
        runtime.is_ours().then_some(runtime)
    }

    /// Whether this process made it, and not the one it was forked from.
    pub(crate) fn is_ours(&self) -> bool {
        self.word.runtime.is_owner(self.number)
    }

    /// Its number, which is another one in every generation of children.
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// # Errors
    /// `Forked` in a child of the process that made it.
    pub(crate) fn check(&self) -> Result<&Arc<Driver>, Error> {
        if self.is_ours() { Ok(&self.driver) } else { Err(Error::Forked) }
    }

    /// Starts the thread that receives while the program does not, and the one that stands by if
    /// it could not be had at joining. Called with the first queue pair.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start_threads(&'static self) -> Result<(), Error> {
        let mut result = Ok(());
        self.progress.call_once(|| result = spawn("converb", || self.driver.run_progress()));
        result
            .and_then(|()| self.start_standing_by())
            .map_err(Error::system("start the progress thread"))
    }

    /// Starts the thread that stands by when the agent dies.
    fn start_standing_by(&'static self) -> io::Result<()> {
        if self.is_standing_by.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let result = spawn("converb-member", || self.stand_by());
        self.is_standing_by.store(result.is_ok(), Ordering::Relaxed);
        result
    }

    fn join(word: &'static ForkWord) -> Result<Self, Error> {
        let mut options =
            JoinOptions { counters: Published::names(), has_ring: true, ..JoinOptions::default() };
        if options.program.is_none() {
            options.program = crate::program::find();
        }
        let mut membership = Membership::join(&options)
            .map_err(|error| Error::Network { reason: error.to_string() })?;
        let carried_by = membership.carried_by();
        let slots = membership
            .take_slots()
            .into_iter()
            .map(|(index, socket)| Slot { index, socket })
            .collect();
        chaos::prepare();
        let settings = Settings::from_environment()
            .map_err(|error| Error::Network { reason: error.to_string() })?;
        let port = match carried_by {
            None => UdpPort::new(slots, settings),
            Some(by) => UdpPort::carried(slots, by.receive_buffer_bytes, settings),
        };
        let port = port
            .map_err(|error| Error::System { what: "prepare the sockets", error: error.into() })?;
        let relay = membership.take_relay().map_err(Error::system("share packets"))?;
        if let Some(relay) = relay {
            port.set_relay(Box::new(relay));
        }
        port.set_slot_source(Box::new(|| {
            let deadline = Instant::now() + FETCH_LIMIT;
            Self::current()?.membership.fetch_slots_again(deadline).ok()
        }));
        if let Some(by) = carried_by {
            crate::carried::tell(by);
        }
        let driver = Driver::new(port);
        watch_forks();
        Ok(Self {
            driver,
            membership,
            word,
            number: word.runtime.adopt(),
            progress: Once::new(),
            is_standing_by: AtomicBool::new(false),
            published: Published::default(),
        })
    }

    /// Says that the traffic from now on is the traffic of this device.
    pub(crate) fn count_for(&self, device: &str) {
        self.publish_counters();
        self.published.set_device(device);
    }

    /// Makes the counters visible to `converb devices`.
    pub(crate) fn publish_counters(&self) {
        self.published.publish(&self.driver, self.membership.counters());
    }

    /// Writes down a failure for the agent.
    pub(crate) fn record(&self, key: u64, failure: &FailureWords) {
        self.membership.counters().record(key, failure);
    }

    /// Waits for news of the agent and of rings, and publishes counters now and then, for ever.
    fn stand_by(&self) {
        let mut refreshed = Instant::now();
        while self.is_ours() {
            if refreshed.elapsed() >= REFRESH_INTERVAL {
                refreshed = Instant::now();
                self.publish_counters();
                self.membership.refresh_rings();
                // A program that closes all descriptors and then only waits may have nobody who
                // notices, and its slots are not kept for it for ever.
                self.driver.port().check_descriptors();
                self.driver.port().mend();
            }
            let Some(descriptor) = self.membership.watch_fd() else { return };
            let mut descriptors = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
            let interval = Timespec { tv_sec: REFRESH_INTERVAL.as_secs() as i64, tv_nsec: 0 };
            match poll(&mut descriptors, Some(&interval)) {
                Ok(0) => {}
                Ok(_) => {
                    // However we stand with the agent, packets go on as before.
                    let _ = self.membership.handle_event();
                    for (index, end) in self.membership.take_renewed() {
                        // It fails only if there is no such slot, or no descriptor to be had:
                        // then nothing arrives there, and queue pairs fail by their retries.
                        let _ = self.driver.port().renew(index, end);
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                // The program has closed the descriptor; the membership makes another one when
                // the slots are fetched again.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

/// Closes what a fork child inherited, so that an orphan does not hold the port. Takes no lock, for
/// in a fork child any may be taken for ever.
extern "C" fn abandon_inherited() {
    // SAFETY: the pointer is null or to a runtime, which is never freed.
    let Some(inherited) = (unsafe { CURRENT.load(Ordering::Acquire).as_ref() }) else { return };
    if !inherited.is_ours() && inherited.word.first_to_abandon() {
        inherited.membership.abandon_in_child();
        inherited.driver.port().abandon_in_child();
    }
}

/// Sends what waits for a moment that will not come, and publishes what was counted last. Called
/// when the process exits through libc; waits for no lock.
extern "C" fn finish() {
    if let Some(runtime) = Runtime::current() {
        runtime.driver.send_held_answers();
        runtime.driver.say_farewells();
        runtime.driver.port().send_delayed();
        runtime.published.publish_last(&runtime.driver, runtime.membership.counters());
    }
}

// SAFETY: libc calls what the section lists, with the C calling convention, once, at exit or when
// the library is unloaded.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = finish;

/// Has [`abandon_inherited`] called in every child that is forked through libc. Others do it when
/// they first use the library themselves.
fn watch_forks() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        // SAFETY: the function may run in any fork child, and the library is never unloaded. If
        // there is no memory for it, children abandon later.
        unsafe { libc::pthread_atfork(None, None, Some(abandon_inherited)) };
    });
}

/// Starts a thread that takes none of the program's signals from its first instruction on.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mask = crate::signals::block_all()?;
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // It has blocked what the spawning thread had blocked: everything. The rest is best
        // effort.
        let _ = converb_link::thread::prepare_progress_thread();
        body();
    });
    crate::signals::restore(&mask);
    thread.map(|_| ())
}
