//! What a process has once: its membership in the group that owns the port, the driver, and the
//! threads that keep both going.
//!
//! Nothing of it happens before the first object needs the network. No thread moves packets before
//! the first queue pair, and nothing is torn down: the kernel does that when the process ends. A
//! fork child is another process: the parent's runtime is not touched there, and a new one is made
//! when the child creates objects of its own.

mod inheritance;
mod reliances;
mod standing_by;

use crate::chaos::{self, Chaotic};
use crate::cm::Switchboard;
use crate::counters::Published;
use crate::error::Error;
use crate::fork::ForkWord;
use crate::heritage::Lost;
use converb_agent::{FailureWords, JoinOptions, Membership};
use converb_driver::Port;
use converb_link::{PortError, Settings, SharedJournal, Slot, UdpPort};
use reliances::Reliances;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, Once};
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
    /// A number that no other runtime has.
    id: u64,
    /// That of the first of those that inherit from each other.
    family: u64,
    /// What is noted since a fork.
    journal: Mutex<Option<Arc<SharedJournal>>>,
    /// The processes that pass on to us what comes for queue pairs which we have taken over.
    reliances: Reliances,
    /// That of the process we were forked from.
    inherited: Option<&'static Self>,
    /// In a child: whether the copy is whole, for nothing moved during the fork.
    is_whole: AtomicBool,
    /// Held by who takes over a queue pair.
    taking_over: Mutex<()>,
    connections: Switchboard,
}

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
        // SAFETY: the pointer is null or to a runtime, which is never freed.
        let inherited = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
        let inherited = inherited.filter(|inherited| inherited.is_whole_here());
        let runtime: &'static Self = Box::leak(Box::new(Self::join(word, inherited)?));
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

    /// Its driver, whosever it is.
    pub(crate) fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// Whether what was forked from it here is a whole copy.
    pub(crate) fn is_whole_here(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    /// Notes before a fork whether the child gets a whole copy.
    pub(crate) fn set_whole(&self, is_whole: bool) {
        self.is_whole.store(is_whole, Ordering::Release);
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) const fn family(&self) -> u64 {
        self.family
    }

    pub(crate) const fn membership(&self) -> &Membership {
        &self.membership
    }

    pub(crate) const fn connections(&self) -> &Switchboard {
        &self.connections
    }

    /// # Errors
    /// `Forked` in a child of the process that made it.
    pub(crate) fn check(&self) -> Result<&Arc<Driver>, Error> {
        if self.is_ours() { Ok(&self.driver) } else { Err(Lost::NotWhole.into()) }
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

    fn join(word: &'static ForkWord, inherited: Option<&'static Self>) -> Result<Self, Error> {
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
        let mut port = port.map_err(|error| match error {
            PortError::Sockets(error) => {
                Error::System { what: "prepare the sockets", error: error.into() }
            }
            PortError::Capture { .. } => Error::Network { reason: error.to_string() },
        })?;
        // They may end before us, and leave to us what only we use.
        let ancestors = core::iter::successors(inherited, |runtime| runtime.inherited);
        port.keep_places(ancestors.flat_map(|runtime| runtime.membership.slot_numbers()));
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
        if let Some(inherited) = inherited {
            driver.inherit_keys(&inherited.driver);
        }
        let id = driver.port().random();
        let slot = membership.slot_numbers().first().copied().unwrap_or_default();
        let connections = Switchboard::new(slot, driver.port().random());
        crate::around_fork::watch();
        Ok(Self {
            driver,
            membership,
            word,
            number: word.runtime.adopt(),
            progress: Once::new(),
            is_standing_by: AtomicBool::new(false),
            published: Published::default(),
            id,
            family: inherited.map_or(id, |parent| parent.family),
            journal: Mutex::default(),
            reliances: Reliances::default(),
            inherited,
            is_whole: AtomicBool::new(false),
            taking_over: Mutex::new(()),
            connections,
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
}

/// Closes what a fork child inherited, so that an orphan does not hold the port. Takes no lock, for
/// in a fork child any may be taken for ever.
pub(crate) fn abandon_inherited() {
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
