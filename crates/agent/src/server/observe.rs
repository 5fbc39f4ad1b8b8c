//! Answers to those who only ask.

use super::Agent;
use super::members::{Member, Presence};
use crate::failures::Kept;
use crate::identity::User;
use crate::protocol::{
    DeviceReply, FailureEntry, FailuresReply, MemberEntry, MembersReply, Name, Refusal, Reply,
    Request, StatusReply,
};
use crate::transfer;

impl Agent {
    /// The answer to an observer's request. Other users learn who is there and the sums of
    /// counters, not what failed, and they stop nothing.
    pub(super) fn answer(&mut self, request: Request, user: User) -> Reply {
        match request {
            Request::FailuresQuery { .. } | Request::Stop { .. } if user != User::Same => {
                Reply::Refused(Refusal::OtherUser)
            }
            Request::StatusQuery => Reply::Status(self.status()),
            Request::MembersQuery { from } => Reply::Members(self.list_members(from)),
            Request::CountersQuery { index } => Reply::Device(self.counters(index)),
            Request::FailuresQuery { from } => Reply::Failures(self.failures(from)),
            Request::Stop { force } => self.stop(force),
            Request::Hello(_)
            | Request::Leave
            | Request::RingQuery { .. }
            | Request::Letter { .. }
            | Request::TakeOver { .. }
            | Request::Serve { .. }
            | Request::ServeNoMore { .. }
            | Request::Remember { .. }
            | Request::Forget { .. } => Reply::Refused(Refusal::Malformed),
        }
    }

    fn status(&mut self) -> StatusReply {
        self.drain_free();
        let now = self.now();
        let (management_datagrams, management_drops) = self.management.counts();
        StatusReply {
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            uptime_ms: now.as_millis() as u64,
            program_version: Name::new(env!("CARGO_PKG_VERSION")),
            group: self.vault.group(),
            slots_total: self.slots.total(),
            slots_used: self.slots.used(),
            slots_waiting: self.slots.waiting(now),
            members: self.members.len() as u16,
            too_many_in_flight: self.cannot_grow(),
            is_successor: self.is_successor,
            management_datagrams,
            management_drops,
            listeners: self.services.listeners() as u32,
        }
    }

    fn list_members(&self, from: u16) -> MembersReply {
        let now = self.now();
        let entry = |member: &Member| MemberEntry {
            pid: member.process.pid,
            uid: member.uid,
            joined_ms: now.saturating_sub(member.joined).as_millis() as u64,
            program: member.program,
            slots: member.slots.clone(),
            is_carried: member.is_carried,
        };
        let some = self.members.values().skip(from.into()).take(MembersReply::ENTRIES_MAX);
        MembersReply { total: self.members.len() as u16, entries: some.map(entry).collect() }
    }

    fn counters(&self, index: u16) -> DeviceReply {
        let living = self.members.values().filter_map(|member| member.offer.page.as_ref());
        let sums = self.totals.with(living);
        let mut devices = Vec::new();
        for sum in &sums {
            if !devices.contains(&sum.device) {
                devices.push(sum.device);
            }
        }
        let name = devices.get(usize::from(index)).copied().unwrap_or_default();
        let counters = sums
            .iter()
            .filter(|sum| !name.is_empty() && sum.device == name)
            .map(|sum| (sum.counter, sum.value))
            .take(DeviceReply::COUNTERS_MAX)
            .collect();
        DeviceReply { devices: devices.len() as u16, name, counters }
    }

    fn failures(&self, from: u16) -> FailuresReply {
        let all = self.history.with(self.members.values().flat_map(Member::failures));
        let some = all.iter().skip(from.into()).take(FailuresReply::ENTRIES_MAX);
        let entry = |kept: &Kept| FailureEntry {
            pid: kept.pid,
            program: kept.program,
            words: kept.record.words,
        };
        FailuresReply { total: all.len() as u16, entries: some.map(entry).collect() }
    }

    /// Prepares to exit, if there are no members or it is forced; members are told so, else they
    /// would start a successor at once.
    fn stop(&mut self, force: bool) -> Reply {
        if !force && !self.members.is_empty() {
            return Reply::Refused(Refusal::HasMembers { members: self.members.len() as u16 });
        }
        let goodbye = Reply::Goodbye.emit();
        for member in self.members.values() {
            if let Presence::Connected(connection) = &member.presence {
                // One whose queue is full learns it by the hang-up, and starts a successor.
                let _ = transfer::send(connection, &goodbye, &[]);
            }
        }
        self.is_stopping = true;
        Reply::Goodbye
    }
}
