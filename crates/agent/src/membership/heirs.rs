//! Between the processes of a family: a fork child asks its parent for what that has not used, and
//! takes over the slots of one that has ended.
//!
//! The child may have closed everything that it inherited, so it asks as anybody else would: the
//! agent hands letters to the owner of a slot. What a letter says is between the two. It goes to
//! processes of the same user only.

use core::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Membership;
use crate::greeting::{Answer, NoAnswer, await_answer, connect, say_hello};
use crate::protocol::{Refusal, Reply, Request, Role};
use crate::{table, transfer};

/// What another process of the family has written.
#[derive(Debug)]
pub struct Letter {
    /// The words.
    pub bytes: Vec<u8>,
    /// What came along.
    pub descriptors: Vec<OwnedFd>,
}

/// Why a letter was not handed over, or a slot is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// Nobody owns the slot: a letter cannot be handed over. Or somebody does: it is not to be had.
    Owner,
    /// There is no agent of this user's and this group, now or at all.
    Agent,
}

/// The letters that have come.
#[derive(Debug, Default)]
pub struct Letters(Mutex<Vec<Letter>>);

/// An agent answers within a millisecond, unless it has lost the processor, to many programs that
/// poll, or is being replaced.
const PATIENCE: Duration = Duration::from_secs(1);
/// More letters than that are not kept, if nobody looks at them.
const LETTERS_MAX: usize = 1024;

impl Letters {
    pub fn put(&self, letter: Letter) {
        let mut letters = self.lock();
        if letters.len() < LETTERS_MAX {
            letters.push(letter);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Letter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    /// The letters that came since the last call: to be looked at after each
    /// [`Membership::handle_event`].
    pub fn take_letters(&self) -> Vec<Letter> {
        mem::take(&mut *self.letters.lock())
    }

    /// Writes to the owner of `slot`; up to [`crate::LETTER_BYTES_MAX`] bytes and 4 descriptors.
    /// That it was handed over does not mean that it is read.
    ///
    /// # Errors
    /// Why it was not.
    pub fn write(
        &self,
        slot: u16,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Undelivered> {
        let letter = Request::Letter { slot, bytes: bytes.to_vec() };
        match self.ask(&letter, descriptors)?.reply {
            Reply::Delivered => Ok(()),
            Reply::Refused(Refusal::SlotLost) => Err(Undelivered::Owner),
            _ => Err(Undelivered::Agent),
        }
    }

    /// Takes over a slot of a process that has ended: its socket, with what has arrived there since
    /// the agent knows of that end. From then on it is ours as those that we joined with.
    ///
    /// # Errors
    /// Why it is not to be had.
    pub fn take_over_slot(&self, slot: u16) -> Result<OwnedFd, Undelivered> {
        let mut answer = self.ask(&Request::TakeOver { slot }, &[])?;
        match answer.reply {
            Reply::Slots(part) if part.numbers == [slot] && answer.descriptors.len() == 1 => {
                let mut numbers = self.numbers();
                if !numbers.contains(&slot) {
                    numbers.push(slot);
                }
                drop(numbers);
                Ok(converb_link::raise(answer.descriptors.remove(0)))
            }
            Reply::Refused(Refusal::SlotLost) => Err(Undelivered::Owner),
            _ => Err(Undelivered::Agent),
        }
    }

    /// Our own ring, to be given to another member along with a letter.
    pub fn own_ring(&self) -> Option<[BorrowedFd<'_>; 2]> {
        self.rings.as_ref()?.offered()
    }

    /// The ring of the member with that slot, as that one gives it: which owner of the slot it is.
    /// `None` if packets cannot be passed on to it.
    pub fn keep_ring(&self, slot: u16, descriptors: Vec<OwnedFd>) -> Option<u64> {
        let generation = self.generation(slot).filter(|&generation| generation != 0)?;
        self.rings.as_ref()?.keep(slot, generation, descriptors).then_some(generation)
    }

    /// Which owner the slot has now: another number for each, 0 for none. `None`: it is not known.
    pub fn generation(&self, slot: u16) -> Option<u64> {
        table::generation(self.table.get()?, slot)
    }

    /// Asks the agent by a connection of its own, for the other one's answers come when they come.
    fn ask(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Answer, Undelivered> {
        let deadline = Instant::now() + PATIENCE;
        let connection = connect().map_err(|_| Undelivered::Agent)?;
        // No other user's agent gets what goes with a letter.
        if !connection.is_of_same_user() || self.carried_by.is_some() {
            return Err(Undelivered::Agent);
        }
        let socket = connection.socket.as_fd();
        let unsent = |_: Errno| Undelivered::Agent;
        say_hello(socket, Role::Observe, &[]).map_err(unsent)?;
        let unanswered = |_: NoAnswer| Undelivered::Agent;
        // At once: on a busy machine each answer may take its time. In another group we are nobody.
        transfer::send(socket, &request.emit(), descriptors).map_err(unsent)?;
        match await_answer(socket, deadline).map_err(unanswered)?.reply {
            Reply::Welcome(welcome) if welcome.group == self.group => {}
            _ => return Err(Undelivered::Agent),
        }
        await_answer(socket, deadline).map_err(unanswered)
    }
}
