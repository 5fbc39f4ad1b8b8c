//! Carrying datagrams to members that may not have their slots' sockets.
//!
//! Whoever has a slot's socket can take the packets of the whole group, so members of another
//! user have none: what arrives for them goes through this process, in a thread of its own, so
//! that neither their traffic nor their slowness holds the agent up. The thread owns everything
//! that it works with; the agent tells it by a channel whom to serve.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use converb_link::{Carried, Carrier, Space};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

/// The agent's way to the thread that carries.
#[derive(Debug)]
pub struct Carriage {
    commands: Sender<Command>,
    bell: Arc<OwnedFd>,
}

#[derive(Debug)]
enum Command {
    /// Serve this slot.
    Add(Carrier),
    /// Serve it no more.
    Remove(u16),
}

impl Carriage {
    /// Starts the thread.
    pub fn start() -> Result<Self, Errno> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(BELL);
        epoll::add(&epoll, &bell, data, epoll::EventFlags::IN)?;
        let (commands, receiver) = channel();
        let thread = Thread {
            epoll,
            bell: Arc::clone(&bell),
            commands: receiver,
            lines: BTreeMap::new(),
            space: Space::new(),
        };
        std::thread::Builder::new()
            .name("carrying".into())
            .spawn(move || thread.run())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        Ok(Self { commands, bell })
    }

    /// Carries what arrives at a slot from now on; who was served there before is no more.
    pub fn add(&self, carrier: Carrier) {
        self.tell(Command::Add(carrier));
    }

    /// Carries nothing of `slot` any more. A turn that has begun may still end; the slot rests
    /// for much longer than that before it has another owner.
    pub fn remove(&self, slot: u16) {
        self.tell(Command::Remove(slot));
    }

    fn tell(&self, command: Command) {
        // The thread ends only after this end of the channel.
        let _ = self.commands.send(command);
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
    }
}

struct Thread {
    epoll: OwnedFd,
    bell: Arc<OwnedFd>,
    commands: Receiver<Command>,
    lines: BTreeMap<u16, Line>,
    space: Space,
}

/// A slot that is served.
struct Line {
    carrier: Carrier,
    /// Whether to wait for room, and not for datagrams.
    is_full: bool,
}

const BELL: u64 = u64::MAX;
const EVENTS: usize = 64;

impl Thread {
    fn run(mut self) {
        loop {
            let mut space = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
            let codes: Vec<u64> = match epoll::wait(&self.epoll, &mut space[..], None) {
                Ok((events, _)) => events.iter().map(|event| event.data.u64()).collect(),
                Err(Errno::INTR) => continue,
                // Its descriptor is gone: nothing could be carried any more.
                Err(_) => return,
            };
            for code in codes {
                match u16::try_from(code) {
                    Ok(slot) => self.take_turn(slot),
                    Err(_) if !self.obey() => return,
                    Err(_) => {}
                }
            }
        }
    }

    /// Does what the agent has told; false if it is gone.
    fn obey(&mut self) -> bool {
        let _ = rustix::io::read(&*self.bell, &mut [0u8; 8]);
        loop {
            match self.commands.try_recv() {
                Ok(Command::Add(carrier)) => {
                    let slot = carrier.slot();
                    self.remove(slot);
                    let line = Line { carrier, is_full: false };
                    if self.watch(&line).is_ok() {
                        self.lines.insert(slot, line);
                    }
                }
                Ok(Command::Remove(slot)) => self.remove(slot),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn take_turn(&mut self, slot: u16) {
        let Some(line) = self.lines.get_mut(&slot) else { return };
        let is_full = match line.carrier.carry(&mut self.space) {
            Carried::Some => false,
            Carried::Full => true,
            Carried::Gone => {
                self.remove(slot);
                return;
            }
        };
        if is_full != line.is_full {
            unwatch(&self.epoll, line);
            line.is_full = is_full;
            let line = &self.lines[&slot];
            if self.watch(line).is_err() {
                self.remove(slot);
            }
        }
    }

    fn watch(&self, line: &Line) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(line.carrier.slot().into());
        let (descriptor, events) = line.watched();
        epoll::add(&self.epoll, descriptor, data, events)
    }

    fn remove(&mut self, slot: u16) {
        if let Some(line) = self.lines.remove(&slot) {
            unwatch(&self.epoll, &line);
        }
    }
}

impl Line {
    fn watched(&self) -> (std::os::fd::BorrowedFd<'_>, epoll::EventFlags) {
        if self.is_full {
            (self.carrier.pipe(), epoll::EventFlags::OUT)
        } else {
            (self.carrier.socket(), epoll::EventFlags::IN)
        }
    }
}

/// The slot's socket lives on in the vault, so that closing ours would leave it in the set.
fn unwatch(epoll: impl AsFd, line: &Line) {
    let _ = epoll::delete(epoll, line.watched().0);
}
