//! Queue pairs and fork(2): how one that only the child uses goes over to the child.
//!
//! A child begins with a copy of all that its parent had. [`Stillness`] sees to it that the copy is
//! whole: who forks keeps others out and holds all locks. From then on the parent notes in memory
//! that it shares with its children ([`Journal`]) what packets its queue pairs handle, as long as
//! that is little. When the child uses one, its driver asks the parent's, which lets go of it
//! ([`Driver::hand_on`]); the child handles the noted packets with its own copy, and so gets to the
//! same state with its own memory ([`Driver::adopt`]). What still arrives at the parent is passed
//! on. If the parent has ended, nobody has to be asked, and the child takes its slots
//! ([`Driver::take_over_slot`]).
//!
//! A queue pair that the parent's program has used itself since the fork stays.
//!
//! [`Driver::hand_on`]: crate::Driver::hand_on
//! [`Driver::adopt`]: crate::Driver::adopt
//! [`Driver::take_over_slot`]: crate::Driver::take_over_slot

mod journal;
mod moving;
mod slots;
mod stillness;

pub(crate) use journal::Noting;
pub use journal::{Entry, Journal};
pub use moving::{Heir, Kept};
pub(crate) use slots::SlotSet;
pub(crate) use stillness::Forking;
pub use stillness::Stillness;
