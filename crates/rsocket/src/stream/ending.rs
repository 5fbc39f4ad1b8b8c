//! How streams end.

use super::{Patience, Phase, Stream};
use crate::error::errno;
use crate::protocol::Control;
use std::io;
use std::time::{Duration, Instant};

/// Which direction of a stream ends (shutdown(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Nothing is received any more.
    Read,
    /// Nothing is sent any more.
    Write,
    /// Neither.
    Both,
}

/// Who closes a stream waits so long until its peer has everything, unless asked for another time
/// (`SO_LINGER`): it lies in this process, and nowhere else.
const LINGER: Duration = Duration::from_secs(10);

impl Stream {
    /// Ends a direction, or both; the peer is told.
    ///
    /// # Errors
    /// `ENOTCONN` for a stream that is not, or no longer.
    pub fn shut_down(&self, direction: Direction) -> io::Result<()> {
        self.shut_down_within(direction, Patience::Until(Instant::now() + LINGER))
    }

    fn shut_down_within(&self, direction: Direction, patience: Patience) -> io::Result<()> {
        let control = {
            let mut flow = self.lock();
            self.absorb(&mut flow);
            if !matches!(flow.phase, Phase::Open | Phase::Accepting) {
                return Err(errno(libc::ENOTCONN));
            }
            let before = (flow.can_read, flow.can_write);
            if direction != Direction::Write {
                flow.can_read = false;
            }
            if direction != Direction::Read {
                (flow.can_write, flow.ended_here) = (false, true);
            }
            if flow.sleepers > 0 {
                self.changed.notify_all();
            }
            match (flow.can_read, flow.can_write) {
                after if after == before => return Ok(()),
                (_, true) => return Ok(()),
                (true, false) => Control::Shutdown,
                (false, false) => Control::Disconnect,
            }
        };
        // Who waits for this stream waits in vain from now on.
        self.channel.nudge();
        let may_say = self.wait_until(patience, |flow| match flow.phase {
            Phase::Open => flow.sending()?.reserve_control().then_some(Ok(true)),
            Phase::Connecting | Phase::Accepting => None,
            Phase::Closed | Phase::Failed => Some(Ok(false)),
        })?;
        if may_say { self.post_control(control) } else { Ok(()) }
    }

    /// Ends it, and lets go of everything: waits until the peer has what was sent, for as long as
    /// `linger` says if it does. Nobody uses it afterwards.
    pub fn close(&self, linger: Option<Duration>) {
        let patience = Patience::Until(Instant::now() + linger.unwrap_or(LINGER));
        let is_abort = linger == Some(Duration::ZERO);
        if !is_abort {
            let _ = self.shut_down_within(Direction::Both, patience);
            let _ = self.wait_until(patience, |flow| {
                let is_done = match flow.phase {
                    Phase::Open => flow.sending()?.is_done(),
                    _ => true,
                };
                is_done.then_some(Ok(()))
            });
        }
        {
            let mut flow = self.lock();
            flow.close();
            flow.mappings.clear();
            self.changed.notify_all();
        }
        let _ = self.identifier.disconnect();
        self.identifier.close();
        self.queue_pair.close();
        // Whoever waits in another thread finds the end.
        self.channel.nudge();
    }
}
