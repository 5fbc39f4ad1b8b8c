//! What has happened is taken in: completions, messages of the peer, events of the connection.

use super::making::{BUFFERS, RECEIVES_TOGETHER};
use super::posting::Work;
use super::{Flow, Phase, Stream};
use crate::protocol::{Control, Greeting, Message, Order, Span};
use converb::cm::{Event, EventKind, Parameters};
use converb::{Completion, Extra, Status};
use std::sync::atomic::Ordering;

impl Stream {
    /// Takes in all that has happened, and tells the peer what follows.
    pub(super) fn absorb(&self, flow: &mut Flow) {
        if self.has_events.load(Ordering::Relaxed) {
            self.absorb_events(flow);
        }
        let mut completions = [Completion::default(); RECEIVES_TOGETHER];
        loop {
            let Ok(count) = self.queue.poll(&mut completions) else {
                flow.fail(libc::EIO);
                return;
            };
            for completion in &completions[..count] {
                self.completed(flow, completion);
            }
            if count > 0 && flow.sleepers > 0 {
                self.changed.notify_all();
            }
            if count < completions.len() {
                break;
            }
        }
        if flow.phase == Phase::Open {
            if flow.owed_receives >= RECEIVES_TOGETHER && self.post_receives(flow).is_err() {
                flow.fail(libc::EIO);
            }
            self.tell(flow);
        }
    }

    fn absorb_events(&self, flow: &mut Flow) {
        self.has_events.store(false, Ordering::Release);
        while let Ok(event) = self.events.next(|_| ()) {
            self.happened(flow, &event.follow());
        }
        if flow.sleepers > 0 {
            self.changed.notify_all();
        }
    }

    fn happened(&self, flow: &mut Flow, event: &Event) {
        match event.kind {
            EventKind::Established => {
                if flow.peer.is_none() {
                    let Some(greeting) = greeting_of(event) else {
                        return flow.fail(libc::EPROTO);
                    };
                    self.meet(flow, greeting);
                }
                if !flow.is_settled() {
                    flow.phase = Phase::Open;
                }
            }
            EventKind::Rejected => flow.fail(libc::ECONNREFUSED),
            EventKind::Unreachable => flow.fail(libc::ETIMEDOUT),
            EventKind::Disconnected => flow.close(),
            EventKind::ConnectError | EventKind::AddressError | EventKind::RouteError => {
                flow.fail(if event.status < 0 { -event.status } else { libc::ECONNREFUSED });
            }
            EventKind::DeviceRemoval => flow.fail(libc::ENETDOWN),
            _ => {}
        }
    }

    fn completed(&self, flow: &mut Flow, completion: &Completion) {
        match Work::of(completion.wr_id) {
            Work::Receive => {
                flow.owed_receives += 1;
                if let (Status::Success, Extra::Immediate(immediate)) =
                    (completion.status, completion.extra)
                {
                    self.told(flow, immediate);
                }
            }
            Work::Data(bytes) => {
                if let Some(sending) = flow.sending() {
                    sending.complete(bytes as usize);
                }
            }
            Work::Control => {
                if let Some(sending) = flow.sending() {
                    sending.complete_control();
                }
            }
        }
        match completion.status {
            Status::Success => {}
            Status::RetryExceeded => flow.fail(libc::ETIMEDOUT),
            Status::WorkRequestFlushed => flow.fail(libc::ECONNRESET),
            _ => flow.fail(libc::EIO),
        }
    }

    /// The peer says something.
    fn told(&self, flow: &mut Flow, immediate: u32) {
        if flow.phase == Phase::Accepting {
            // It would not if it had not heard us, whatever became of its word for that.
            let _ = self.identifier.heard();
            flow.phase = Phase::Open;
        }
        match Message::from_immediate(immediate) {
            Some(Message::Data(bytes)) => {
                if flow.receiving.arrived(bytes).is_err() {
                    flow.fail(libc::EPROTO);
                }
            }
            Some(Message::Credits(limit)) => {
                if let Some(sending) = flow.sending() {
                    sending.grant(limit);
                }
                self.take_offers(flow);
            }
            Some(Message::Mapping(_)) => flow.receiving.arrived_empty(),
            Some(Message::Control(Control::Disconnect)) => flow.close(),
            Some(Message::Control(Control::Shutdown)) => {
                flow.can_read = false;
                if !flow.can_write {
                    flow.close();
                }
            }
            Some(Message::Control(Control::KeepAlive)) => {}
            None => flow.fail(libc::EPROTO),
        }
    }

    /// Takes the buffers that the peer has named in our table.
    fn take_offers(&self, flow: &mut Flow) {
        for _ in 0..BUFFERS {
            let at = flow.next_offered as usize * Span::BYTES;
            let span = self.table_entry(at);
            // A word about credits may come while the entry is being written for a later one, so it
            // counts only when it stays what it is; and that later one comes back here.
            if span.length == 0 || span != self.table_entry(at) {
                return;
            }
            self.tables.write(at, &[0; Span::BYTES]);
            flow.next_offered = (flow.next_offered + 1) % BUFFERS;
            if let Some(sending) = flow.sending() {
                sending.offer(span);
            }
        }
    }

    fn table_entry(&self, at: usize) -> Span {
        let mut bytes = [0; Span::BYTES];
        self.tables.read(at, &mut bytes);
        Span::from_bytes(&bytes, Order::NATIVE)
    }
}

fn greeting_of(event: &Event) -> Option<Greeting> {
    let Parameters::Connection(parameters) = &event.parameters else { return None };
    Greeting::from_bytes(&parameters.private_data).ok()
}
