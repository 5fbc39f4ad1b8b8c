//! Both ends of a connection, talking to each other over a network that may lose and double.

use super::*;
use crate::message::{DisconnectRequest, MessageRejected, Path, Request};
use converb_wire::Psn;

const ACTIVE_QPN: Qpn = Qpn::new(0x11);
const PASSIVE_QPN: Qpn = Qpn::new(0x22);

fn at(milliseconds: u64) -> Time {
    Time::from_nanoseconds(milliseconds * 1_000_000)
}

/// Two ends, and what each has been told.
struct Pair {
    now: u64,
    active: Connection,
    passive: Option<Connection>,
    to_passive: Vec<[u8; MAD_SIZE]>,
    to_active: Vec<[u8; MAD_SIZE]>,
    active_events: Vec<Event>,
    passive_events: Vec<Event>,
}

impl Pair {
    /// The REQ is on its way.
    fn new() -> Self {
        let request = Request {
            local_communication_id: 0xa,
            local_qpn: ACTIVE_QPN,
            starting_psn: Psn::new(5),
            remote_cm_response_timeout: 18,
            local_cm_response_timeout: 18,
            max_cm_retries: 15,
            primary: Path { local_ack_timeout: 14, ..Path::default() },
            ..Request::default()
        };
        let mut out = Outbox::default();
        let active = Connection::request(request, 77, at(0), &mut out);
        Self {
            now: 0,
            active,
            passive: None,
            to_passive: out.messages,
            to_active: Vec::new(),
            active_events: Vec::new(),
            passive_events: Vec::new(),
        }
    }

    fn passive(&mut self) -> &mut Connection {
        self.passive.as_mut().expect("a REQ has come")
    }

    /// Does something at the active end.
    fn act<T>(&mut self, what: impl FnOnce(&mut Connection, Time, &mut Outbox) -> T) -> T {
        let mut out = Outbox::default();
        let result = what(&mut self.active, at(self.now), &mut out);
        self.to_passive.extend(out.messages);
        self.active_events.extend(out.events);
        result
    }

    /// Does something at the passive end.
    fn react<T>(&mut self, what: impl FnOnce(&mut Connection, Time, &mut Outbox) -> T) -> T {
        let mut out = Outbox::default();
        let now = at(self.now);
        let result = what(self.passive(), now, &mut out);
        self.to_active.extend(out.messages);
        self.passive_events.extend(out.events);
        result
    }

    /// Delivers all that is under way, `times` times each, until nobody says anything more.
    fn deliver(&mut self, times: usize) {
        while !self.to_passive.is_empty() || !self.to_active.is_empty() {
            for mad in core::mem::take(&mut self.to_passive) {
                let (header, message) = Message::parse(&mad).unwrap();
                for _ in 0..times {
                    if let (None, Message::Request(request)) = (&self.passive, &message) {
                        self.passive = Some(Connection::requested(0xb, &header, request));
                    } else {
                        self.react(|passive, now, out| {
                            passive.handle(&header, &message, now, out);
                        });
                    }
                }
            }
            for mad in core::mem::take(&mut self.to_active) {
                let (header, message) = Message::parse(&mad).unwrap();
                for _ in 0..times {
                    self.act(|active, now, out| active.handle(&header, &message, now, out));
                }
            }
        }
    }

    /// Loses all that is under way.
    fn lose(&mut self) {
        self.to_passive.clear();
        self.to_active.clear();
    }

    /// Lets the next deadline of either end pass.
    fn pass(&mut self) {
        let passive = self.passive.as_ref().map_or(Time::NEVER, Connection::deadline);
        let next = self.active.deadline().min(passive);
        if next == Time::NEVER {
            return;
        }
        self.now = next.nanoseconds().div_ceil(1_000_000);
        self.act(Connection::expire);
        if self.passive.is_some() {
            self.react(Connection::expire);
        }
    }

    fn accept(&mut self) {
        let reply = Reply { local_qpn: PASSIVE_QPN, ..Reply::default() };
        self.react(|passive, now, out| passive.reply(reply, now, out)).unwrap();
    }

    fn established(times: usize) -> Self {
        let mut pair = Self::new();
        pair.deliver(times);
        pair.accept();
        pair.deliver(times);
        assert!(matches!(pair.active_events[..], [Event::Replied(_)]), "{:?}", pair.active_events);
        pair.act(|active, now, out| active.ready(PrivateData::EMPTY, now, out)).unwrap();
        pair.deliver(times);
        assert_eq!(pair.passive_events, [Event::Ready(PrivateData::EMPTY)]);
        assert_eq!(
            (pair.active.remote_qpn(), pair.passive().remote_qpn()),
            (PASSIVE_QPN, ACTIVE_QPN)
        );
        pair
    }

    fn disconnect(&mut self) {
        self.act(|active, now, out| active.disconnect(PrivateData::EMPTY, now, out)).unwrap();
    }

    fn confirm(&mut self) {
        let agree = |passive: &mut Connection, now, out: &mut Outbox| {
            passive.confirm_disconnect(PrivateData::EMPTY, now, out)
        };
        self.react(agree).unwrap();
    }

    fn last_events(&self) -> (Option<&Event>, Option<&Event>) {
        (self.active_events.last(), self.passive_events.last())
    }
}

#[test]
fn a_connection_is_made_and_ended_however_often_messages_come() {
    for times in 1..=3 {
        let mut pair = Pair::established(times);
        pair.disconnect();
        pair.deliver(times);
        assert_eq!(pair.passive_events[1..], [Event::DisconnectRequested(PrivateData::EMPTY)]);
        pair.confirm();
        pair.deliver(times);
        assert_eq!(pair.active_events[1..], [Event::Disconnected(PrivateData::EMPTY)]);
        for _ in 0..2 {
            pair.pass();
        }
        assert_eq!(pair.last_events(), (Some(&Event::TimeWaitOver), Some(&Event::TimeWaitOver)));
        assert!(pair.active.is_closed() && pair.passive().is_closed());
        assert_eq!((pair.active_events.len(), pair.passive_events.len()), (3, 3));
    }
}

#[test]
fn each_message_may_get_lost() {
    // The REQ.
    let mut pair = Pair::new();
    pair.lose();
    pair.pass();
    pair.deliver(1);
    // The REP.
    pair.accept();
    pair.lose();
    pair.pass();
    pair.deliver(1);
    // The RTU: the REP is sent again, and answered again.
    pair.act(|active, now, out| active.ready(PrivateData::EMPTY, now, out)).unwrap();
    pair.lose();
    assert_eq!(pair.active.deadline(), Time::NEVER);
    pair.pass();
    pair.deliver(1);
    assert_eq!(pair.passive_events, [Event::Ready(PrivateData::EMPTY)]);
    // The DREQ.
    pair.disconnect();
    pair.lose();
    pair.pass();
    pair.deliver(1);
    // The DREP: the DREQ is sent again, and answered again.
    pair.confirm();
    pair.lose();
    pair.pass();
    pair.deliver(1);
    assert_eq!(pair.active_events[1..], [Event::Disconnected(PrivateData::EMPTY)]);
}

#[test]
fn a_program_that_takes_its_time_is_waited_for() {
    let mut pair = Pair::new();
    pair.deliver(1);
    // The REQ comes again, and is answered with an MRA.
    pair.pass();
    pair.deliver(1);
    let patient = pair.active.deadline();
    assert!(patient > at(pair.now + 17_000), "{patient:?}");
    pair.accept();
    pair.deliver(1);
    // So does the REP.
    pair.pass();
    pair.deliver(1);
    assert!(pair.passive().deadline() > at(pair.now + 17_000));
    pair.act(|active, now, out| active.ready(PrivateData::EMPTY, now, out)).unwrap();
    pair.deliver(1);
    assert_eq!(pair.passive_events, [Event::Ready(PrivateData::EMPTY)]);
}

#[test]
fn who_is_not_answered_gives_up_and_says_so() {
    let mut pair = Pair::new();
    for _ in 0..16 {
        pair.lose();
        pair.pass();
    }
    assert_eq!(pair.active_events, [Event::Unreachable]);
    let (_, message) = Message::parse(pair.to_passive.last().unwrap()).unwrap();
    assert!(matches!(message, Message::Reject(Reject { reason: Reason::TIMEOUT, .. })));

    let mut pair = Pair::new();
    pair.deliver(1);
    pair.accept();
    for _ in 0..16 {
        pair.lose();
        pair.pass();
    }
    assert_eq!(pair.passive_events, [Event::Unreachable]);

    let mut pair = Pair::established(1);
    pair.disconnect();
    for _ in 0..16 {
        pair.lose();
        pair.pass();
    }
    assert_eq!(pair.active_events[1..], [Event::Disconnected(PrivateData::EMPTY)]);
}

#[test]
fn a_refusal_ends_it_on_both_sides() {
    let mut pair = Pair::new();
    pair.deliver(1);
    let private_data = PrivateData::new(b"no").unwrap();
    let refuse = |passive: &mut Connection, now, out: &mut Outbox| {
        passive.reject(
            Reason::CONSUMER_REJECT,
            AdditionalInformation::EMPTY,
            private_data,
            now,
            out,
        )
    };
    pair.react(refuse).unwrap();
    pair.deliver(2);
    let [Event::Rejected(reject)] = pair.active_events[..] else { panic!() };
    assert_eq!((reject.reason, reject.private_data), (Reason::CONSUMER_REJECT, private_data));
    assert_eq!(reject.message_rejected, MessageRejected::REQUEST);
    assert_eq!(pair.react(refuse), Err(WrongState));
    pair.pass();
    assert!(pair.active.is_closed() && pair.passive().is_closed());

    // The active side may refuse, too.
    let mut pair = Pair::new();
    pair.deliver(1);
    pair.accept();
    pair.deliver(1);
    pair.act(|active, now, out| {
        active.reject(Reason::CONSUMER_REJECT, AdditionalInformation::EMPTY, private_data, now, out)
    })
    .unwrap();
    pair.deliver(1);
    let [Event::Rejected(reject)] = pair.passive_events[..] else { panic!() };
    assert_eq!(reject.message_rejected, MessageRejected::REPLY);
}

#[test]
fn a_refusal_that_gets_lost_is_repeated_without_asking_again() {
    let mut pair = Pair::new();
    pair.deliver(1);
    pair.react(|passive, now, out| passive.release(now, out));
    pair.lose();
    // The REQ comes again.
    pair.pass();
    pair.deliver(1);
    let [Event::Rejected(reject)] = pair.active_events[..] else { panic!() };
    assert_eq!(reject.message_rejected, MessageRejected::REQUEST);
    // It is forgotten when the peer has lost its patience, and nobody is told of it.
    let until = pair.passive().deadline();
    assert!((at(17_000)..at(19_000)).contains(&until), "{until:?}");
    pair.pass();
    assert!(pair.passive().is_closed() && pair.passive_events.is_empty());
}

#[test]
fn a_refusal_outlives_the_time_that_was_asked_for() {
    let mut pair = Pair::new();
    pair.deliver(2);
    pair.react(|passive, now, out| passive.release(now, out));
    for _ in 0..3 {
        pair.lose();
        pair.pass();
    }
    assert!(pair.passive().deadline() > at(29_000));
}

#[test]
fn who_was_asked_to_wait_gets_the_answer_again_unasked() {
    // The passive side was slow, and refuses; the REJ is lost.
    let mut pair = Pair::new();
    pair.deliver(2);
    let nothing = AdditionalInformation::EMPTY;
    let refuse = |passive: &mut Connection, now, out: &mut Outbox| {
        passive.reject(Reason::CONSUMER_REJECT, nothing, PrivateData::EMPTY, now, out)
    };
    pair.react(refuse).unwrap();
    pair.lose();
    pair.pass();
    pair.deliver(1);
    assert!(pair.now <= 50 && matches!(pair.active_events[..], [Event::Rejected(_)]));

    // The active side was slow to be ready; two RTUs are lost.
    let mut pair = Pair::new();
    pair.deliver(1);
    pair.accept();
    pair.deliver(2);
    pair.act(|active, now, out| active.ready(PrivateData::EMPTY, now, out)).unwrap();
    pair.lose();
    pair.pass();
    pair.lose();
    pair.pass();
    pair.deliver(1);
    assert!(pair.now <= 250);
    assert_eq!(pair.passive_events, [Event::Ready(PrivateData::EMPTY)]);
    // It ends: nobody is told for ever.
    for _ in 0..3 {
        pair.pass();
    }
    assert_eq!(pair.active.deadline(), Time::NEVER);
}

#[test]
fn who_has_given_up_still_agrees_that_it_ends() {
    let mut pair = Pair::new();
    pair.deliver(1);
    pair.accept();
    pair.deliver(1);
    pair.act(|active, now, out| active.ready(PrivateData::EMPTY, now, out)).unwrap();
    // The RTU is lost, and so is what the other side says on letting go.
    pair.react(|passive, now, out| passive.release(now, out));
    pair.lose();
    pair.disconnect();
    pair.deliver(1);
    assert_eq!(pair.active_events[1..], [Event::Disconnected(PrivateData::EMPTY)]);
}

#[test]
fn a_late_copy_of_the_request_that_nobody_serves_ends_nothing() {
    let mut pair = Pair::established(1);
    let late = Reject {
        local_communication_id: 0,
        remote_communication_id: 0xa,
        message_rejected: MessageRejected::REQUEST,
        reason: Reason::INVALID_SERVICE_ID,
        ..Reject::default()
    };
    pair.act(|active, now, out| active.handle_reject(&late, now, out));
    assert_eq!(pair.active_events.len(), 1, "{:?}", pair.active_events);
    pair.disconnect();
}

#[test]
fn both_may_end_it_at_once() {
    let mut pair = Pair::established(1);
    pair.disconnect();
    pair.react(|passive, now, out| passive.disconnect(PrivateData::EMPTY, now, out)).unwrap();
    pair.deliver(1);
    let ended = Event::Disconnected(PrivateData::EMPTY);
    assert_eq!(pair.last_events(), (Some(&ended), Some(&ended)));
}

#[test]
fn data_may_come_before_the_message_that_says_so() {
    let mut pair = Pair::new();
    pair.deliver(1);
    pair.accept();
    pair.deliver(1);
    pair.react(|passive, _, out| passive.heard(out));
    assert_eq!(pair.passive_events, [Event::Ready(PrivateData::EMPTY)]);
    pair.act(|active, now, out| active.ready(PrivateData::EMPTY, now, out)).unwrap();
    pair.deliver(1);
    assert_eq!(pair.passive_events.len(), 1, "once");
}

#[test]
fn a_program_may_let_go_at_any_time() {
    let let_go = |connection: &mut Connection, now, out: &mut Outbox| connection.release(now, out);
    // REQ sent, answered or not: the peer gets a REJ.
    let mut pair = Pair::new();
    pair.deliver(1);
    pair.act(let_go);
    pair.deliver(1);
    assert!(matches!(pair.passive_events[..], [Event::Rejected(_)]));
    let mut pair = Pair::new();
    pair.deliver(1);
    pair.react(let_go);
    pair.deliver(1);
    assert!(matches!(pair.active_events[..], [Event::Rejected(_)]));
    // Established: a DREQ, which is sent again if need be.
    let mut pair = Pair::established(1);
    pair.react(let_go);
    pair.lose();
    pair.pass();
    pair.deliver(1);
    assert!(matches!(pair.active_events[1..], [Event::DisconnectRequested(_)]));
    pair.act(let_go);
    pair.deliver(1);
    for _ in 0..2 {
        pair.pass();
    }
    assert!(pair.active.is_closed() && pair.passive().is_closed());
    assert_eq!((pair.active_events.len(), pair.passive_events.len()), (2, 1), "nobody is told");
}

#[test]
fn what_a_dead_process_leaves_unsaid_is_known_beforehand() {
    let kinds = |connection: &Connection| -> Vec<Message> {
        let words = connection.last_words(at(0));
        words.iter().map(|mad| Message::parse(mad).unwrap().1).collect()
    };
    let mut pair = Pair::new();
    // What the peer sends again is answered by somebody else.
    assert!(kinds(&pair.active).is_empty());
    pair.deliver(1);
    assert!(kinds(pair.passive()).is_empty());
    pair.accept();
    assert!(matches!(kinds(pair.passive())[..], [Message::Reject(_)]));
    let mut pair = Pair::established(1);
    assert!(matches!(kinds(&pair.active)[..], [Message::DisconnectRequest(_)]));
    pair.disconnect();
    assert!(matches!(kinds(&pair.active)[..], [Message::DisconnectRequest(_)]));
    pair.deliver(1);
    assert!(kinds(pair.passive()).is_empty());
    pair.confirm();
    pair.deliver(1);
    assert!(kinds(&pair.active).is_empty() && kinds(pair.passive()).is_empty());
}

#[test]
fn what_names_no_connection_is_answered_so_that_nobody_waits() {
    let mut out = Outbox::default();
    let request = DisconnectRequest {
        local_communication_id: 3,
        remote_communication_id: 4,
        ..DisconnectRequest::default()
    };
    Connection::confirm_unknown_disconnect(&request, 9, &mut out);
    let reply = Reply { local_communication_id: 3, remote_communication_id: 4, ..Reply::default() };
    Connection::refuse_unknown_reply(&reply, 9, &mut out);
    let answers: Vec<_> = out.messages.iter().map(|mad| Message::parse(mad).unwrap()).collect();
    assert!(answers.iter().all(|(header, _)| header.transaction_id == 9));
    let Message::DisconnectReply(confirmed) = answers[0].1 else { panic!() };
    assert_eq!((confirmed.local_communication_id, confirmed.remote_communication_id), (4, 3));
    let Message::Reject(refused) = answers[1].1 else { panic!() };
    assert_eq!((refused.local_communication_id, refused.remote_communication_id), (4, 3));
    assert_eq!(refused.message_rejected, MessageRejected::REPLY);
}
