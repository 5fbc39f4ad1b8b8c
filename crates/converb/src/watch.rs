//! Watches the interfaces of open devices, and raises the asynchronous events of ports.
//!
//! Programs poll a context's descriptor without calling us, so somebody has to look by himself: one
//! thread in a process, from the first open device on. It sleeps until the kernel has news, asks
//! the kernel how things are, and raises what has changed since, so that a program which gets an
//! event finds what it tells of. Without a thread or a netlink socket to be had devices work all
//! the same, and their ports are silent.

use crate::context::PORT;
use crate::device::{Device, Snapshot};
use crate::events::{Element, Event, EventKind, EventQueue};
use crate::fork::{ForkWord, Gate};
use crate::interfaces::{Changes, Interface, Socket};
use crate::port::PortState;
use crate::runtime::spawn;
use rustix::event::Timespec;
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::{Duration, Instant};

/// An open context, as the watch knows it.
#[derive(Debug)]
pub(crate) struct Watched {
    device: Arc<Device>,
    events: Arc<EventQueue>,
    /// What the program was told last; `None` before it is watched.
    told: Mutex<Option<Snapshot>>,
    /// The number of the watch that has it on its list; 0 for none.
    watch: AtomicU32,
}

/// The watch of a process. It lives as long as the process.
struct Watch {
    changes: Changes,
    /// What the kernel is asked by. Opened beforehand: a thread in the background that opens a
    /// descriptor could take the number that the program was about to get.
    socket: Mutex<Socket>,
    contexts: Mutex<Vec<Weak<Watched>>>,
    word: &'static ForkWord,
    number: u32,
}

/// The watch of this process, or of the parent it was forked from.
static CURRENT: AtomicPtr<Watch> = AtomicPtr::new(core::ptr::null_mut());

/// Closed while the thread works, and while a thread forks.
static GATE: Gate = Gate::new();

/// When the kernel could not be asked, it is asked again after this.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Has the events of a context's port raised from now on, unless that is so already.
pub(crate) fn begin(watched: &Arc<Watched>) {
    if let Ok(watch) = Watch::get() {
        watch.add(watched);
    }
}

impl Watched {
    pub(crate) fn new(device: Arc<Device>, events: Arc<EventQueue>) -> Self {
        Self { device, events, told: Mutex::default(), watch: AtomicU32::new(0) }
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(crate) fn events(&self) -> &Arc<EventQueue> {
        &self.events
    }

    /// Raises what has changed since the last look.
    fn look(&self) {
        let mut told = lock(&self.told);
        let now = self.device.snapshot();
        if let Some(before) = &*told {
            changes(before, &now).for_each(|event| self.events.push(event));
        }
        *told = Some(now);
    }
}

/// The events between two moments, in the order in which they happen.
fn changes(before: &Snapshot, now: &Snapshot) -> impl Iterator<Item = Event> + use<> {
    let of_port = |kind| Event { kind, element: Element::Port(PORT) };
    let state = (before.state != now.state).then(|| match now.state {
        PortState::Active => of_port(EventKind::PortActive),
        PortState::Down => of_port(EventKind::PortError),
    });
    let gids = (before.gids != now.gids).then(|| of_port(EventKind::GidChange));
    let vanished = (before.exists && !now.exists)
        .then_some(Event { kind: EventKind::DeviceFatal, element: Element::Device });
    [state, gids, vanished].into_iter().flatten()
}

impl Watch {
    /// The watch of this process; begins it the first time.
    fn get() -> io::Result<&'static Self> {
        if let Some(watch) = Self::current() {
            return Ok(watch);
        }
        let word = ForkWord::of_process()?;
        let _creating = word.watch.lock();
        if let Some(watch) = Self::current() {
            return Ok(watch);
        }
        abandon_inherited();
        let watch: &'static Self = Box::leak(Box::new(Self {
            changes: Changes::subscribe()?,
            socket: Mutex::new(Socket::open()?),
            contexts: Mutex::default(),
            word,
            number: word.watch.adopt(),
        }));
        watch_forks();
        CURRENT.store(core::ptr::from_ref(watch).cast_mut(), Ordering::Release);
        // Without a thread this process has none of these events; it is not tried again and again.
        let _ = spawn("converb", || watch.run());
        Ok(watch)
    }

    fn current() -> Option<&'static Self> {
        // SAFETY: the pointer is null or to a watch, which is never freed.
        let watch = unsafe { CURRENT.load(Ordering::Acquire).as_ref() }?;
        watch.is_ours().then_some(watch)
    }

    fn is_ours(&self) -> bool {
        self.word.watch.is_owner(self.number)
    }

    fn add(&self, watched: &Arc<Watched>) {
        if watched.watch.load(Ordering::Acquire) == self.number {
            return;
        }
        let mut contexts = lock(&self.contexts);
        if watched.watch.swap(self.number, Ordering::AcqRel) == self.number {
            return;
        }
        contexts.retain(|context| context.strong_count() != 0);
        // The subscription is older than this: what changes after it is told.
        let _ = self.ask(&[Arc::clone(watched)]);
        watched.look();
        contexts.push(Arc::downgrade(watched));
    }

    /// Waits for news, for ever.
    fn run(&self) {
        let mut again = false;
        while self.is_ours() {
            let soon = again
                .then_some(Timespec { tv_sec: 0, tv_nsec: i64::from(AGAIN_AFTER.subsec_nanos()) });
            let news = self.changes.wait(soon.as_ref());
            GATE.close();
            let concerned: Vec<Arc<Watched>> = lock(&self.contexts)
                .iter()
                .filter_map(Weak::upgrade)
                .filter(|watched| match &news {
                    Ok(news) => again || news.concern(watched.device.interface_index()),
                    Err(_) => true,
                })
                .collect();
            // Whatever happens after this is news again, so it comes before asking.
            let subscribed = news.is_ok() || self.changes.subscribe_again().is_ok();
            again = !subscribed;
            if !concerned.is_empty() {
                again |= self.ask(&concerned).is_err();
                concerned.iter().for_each(|watched| watched.look());
            }
            GATE.open();
            if !subscribed {
                std::thread::sleep(AGAIN_AFTER);
            }
        }
    }

    /// Asks the kernel how these contexts' devices are now.
    fn ask(&self, contexts: &[Arc<Watched>]) -> io::Result<()> {
        let mut socket = lock(&self.socket);
        let asked = Instant::now();
        let all = match Interface::all_by(&mut socket) {
            Ok(all) => all,
            // The program may have closed it.
            Err(_) => {
                *socket = Socket::open()?;
                Interface::all_by(&mut socket)?
            }
        };
        for watched in contexts {
            watched.device.learn(asked, &all);
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes in a fork child what its parent listens on. Takes no lock.
extern "C" fn abandon_inherited() {
    // SAFETY: the pointer is null or to a watch, which is never freed.
    let Some(inherited) = (unsafe { CURRENT.load(Ordering::Acquire).as_ref() }) else { return };
    if !inherited.is_ours() {
        inherited.changes.abandon_in_child();
    }
}

extern "C" fn before_fork() {
    GATE.close();
}

extern "C" fn after_fork() {
    GATE.open();
}

extern "C" fn after_fork_in_child() {
    GATE.open();
    abandon_inherited();
}

fn watch_forks() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        let (before, after, child): (extern "C" fn(), extern "C" fn(), extern "C" fn()) =
            (before_fork, after_fork, after_fork_in_child);
        // SAFETY: these may run around any fork, and the library is never unloaded. If there is no
        // memory for them, forks happen as if there were no watch.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(child)) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gid::GidTable;

    fn snapshot(state: PortState, addresses: &[&str]) -> Snapshot {
        let interface = Interface {
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            ..Interface::for_tests("eth0", 2)
        };
        Snapshot { exists: true, state, gids: GidTable::of(&interface) }
    }

    fn kinds(before: &Snapshot, now: &Snapshot) -> Vec<EventKind> {
        changes(before, now).map(|event| event.kind).collect()
    }

    #[test]
    fn each_change_has_its_event() {
        use EventKind as K;
        let up = snapshot(PortState::Active, &["10.0.0.1"]);
        let down = snapshot(PortState::Down, &["10.0.0.1"]);
        assert_eq!(kinds(&up, &up), []);
        assert_eq!(kinds(&up, &down), [K::PortError]);
        assert_eq!(kinds(&down, &up), [K::PortActive]);
        let more = snapshot(PortState::Active, &["10.0.0.1", "10.0.0.2"]);
        assert_eq!(kinds(&up, &more), [K::GidChange]);
        assert_eq!(kinds(&down, &more), [K::PortActive, K::GidChange]);
        let gone = Snapshot { exists: false, ..snapshot(PortState::Down, &[]) };
        assert_eq!(kinds(&up, &gone), [K::PortError, K::GidChange, K::DeviceFatal]);
        assert_eq!(kinds(&gone, &gone), []);
    }

    #[test]
    fn a_context_is_watched_once_and_told_nothing_when_nothing_happens() {
        let device = Device::list().unwrap().pop().unwrap();
        let events = Arc::new(EventQueue::new("roce_lo").unwrap());
        let watched = Arc::new(Watched::new(device, Arc::clone(&events)));
        begin(&watched);
        begin(&watched);
        let watch = Watch::current().expect("it has begun");
        let known = |context: &&Weak<Watched>| context.as_ptr() == Arc::as_ptr(&watched);
        assert_eq!(lock(&watch.contexts).iter().filter(known).count(), 1);
        rustix::io::ioctl_fionbio(events.descriptor(), true).unwrap();
        assert!(events.take(|event| event).is_err());
    }
}
