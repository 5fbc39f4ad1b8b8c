//! What the agent says to a client.

use super::fields::{Malformed, Name, Reader, Writer};
use super::{
    DESCRIPTORS_MAX, FailuresReply, Header, LETTER_BYTES_MAX, ManagementDatagram, MembersReply,
    Served,
};

/// A message from the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The answer to a good hello.
    Welcome(Welcome),
    /// The answer to a good hello of a member whose datagrams the agent carries.
    CarriedWelcome(CarriedWelcome),
    /// Some of a member's slots; their descriptors come with the message, in the same order: the
    /// sockets, or after [`Reply::CarriedWelcome`] the ends of pairs.
    Slots(Slots),
    /// The answer to a ring query. With it come two descriptors, the ring's memory and its bell,
    /// or none if nobody offers a ring for that slot.
    Ring {
        /// The slot.
        slot: u16,
        /// What the slot table calls the ownership of the slot for which the ring is good.
        generation: u64,
    },
    /// The answer to a hello or a request that is not granted; the agent hangs up after it.
    Refused(Refusal),
    /// The answer to a status query.
    Status(StatusReply),
    /// The answer to a members query.
    Members(MembersReply),
    /// The answer to a counters query.
    Device(DeviceReply),
    /// The answer to a failures query.
    Failures(FailuresReply),
    /// Another member has written; its descriptors come along.
    Letter {
        /// At most [`super::LETTER_BYTES_MAX`].
        bytes: Vec<u8>,
    },
    /// A letter was handed over.
    Delivered,
    /// The answer to [`super::Request::Serve`].
    Served {
        /// That of the request.
        token: u32,
        /// What became of it.
        served: Served,
    },
    /// A management datagram for a member: one that asks for a service of its own, or that names
    /// something by a number of its own.
    Management(ManagementDatagram),
    /// The agent exits on request: members keep their slots, but start no successor for it.
    Goodbye,
}

/// What a client learns about the agent that accepts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The group's number, random, the same for every agent that serves this group of sockets.
    pub group: u64,
    /// How many slots follow in [`Reply::Slots`] messages. With a member's welcome come two
    /// descriptors: the vault's receiving end and the slot table.
    pub slots: u16,
}

/// What a member learns whose datagrams the agent carries. No descriptor comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedWelcome {
    /// As in [`Welcome`].
    pub group: u64,
    /// As in [`Welcome`].
    pub slots: u16,
    /// The size of a slot's receive buffer, as the kernel counts it.
    pub receive_buffer_bytes: u32,
}

/// A part of the slots of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The numbers, 1 to 1022.
    pub numbers: Vec<u16>,
}

/// Why the agent does not serve a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The agent speaks another version of the protocol, which the message's header tells.
    Version,
    /// The client belongs to another user, or to one whose number cannot be known.
    OtherUser,
    /// All slots are in use, and there can be no more of them.
    NoSlots {
        /// How many there are.
        total: u16,
        /// Whether some are only waiting for stray packets to end, so that asking again in a
        /// second or two helps.
        soon: bool,
        /// Whether there are so few because the user has too many descriptors in flight.
        too_many_in_flight: bool,
    },
    /// A slot that a member says it owns belongs to somebody else, or to another group.
    SlotLost,
    /// A message that makes no sense.
    Malformed,
    /// The agent has members and was not forced to stop.
    HasMembers {
        /// How many.
        members: u16,
    },
    /// Too many connections.
    Busy,
}

/// The agent's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusReply {
    /// Its process, as its own process namespace numbers it.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// The version of the program.
    pub program_version: Name<16>,
    /// The group's number.
    pub group: u64,
    /// Slots that exist, slot 0 included.
    pub slots_total: u16,
    /// Slots that members own, and the agent's own slot 0.
    pub slots_used: u16,
    /// Slots that wait until packets for their last owner are gone.
    pub slots_waiting: u16,
    /// Members.
    pub members: u16,
    /// Whether the group cannot grow: the user has too many descriptors in flight.
    pub too_many_in_flight: bool,
    /// Whether it took over from an agent that died.
    pub is_successor: bool,
    /// Datagrams that reached slot 0.
    pub management_datagrams: u64,
    /// Those of them that were dropped, for every reason.
    pub management_drops: u64,
    /// Services for which a member listens.
    pub listeners: u32,
}

/// The counters of one device: those of dead members and of the living ones together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceReply {
    /// How many devices there are.
    pub devices: u16,
    /// The name of this one; empty if there are fewer.
    pub name: Name<32>,
    /// Names and values.
    pub counters: Vec<(Name<32>, u64)>,
}

const WELCOME: u16 = 0x8001;
const SLOTS: u16 = 0x8002;
const REFUSED: u16 = 0x8003;
const STATUS: u16 = 0x8004;
const MEMBERS: u16 = 0x8005;
const DEVICE: u16 = 0x8006;
const GOODBYE: u16 = 0x8007;
const RING: u16 = 0x8008;
const FAILURES: u16 = 0x8009;
const CARRIED_WELCOME: u16 = 0x800a;
const LETTER: u16 = 0x800b;
const DELIVERED: u16 = 0x800c;
const SERVED: u16 = 0x800d;
const MANAGEMENT: u16 = 0x800e;

impl DeviceReply {
    /// The most counters of a device.
    pub const COUNTERS_MAX: usize = 128;
}

impl Reply {
    /// The message's bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let header = |kind| Header::new(kind);
        match self {
            Self::Welcome(welcome) => {
                header(WELCOME).write(&mut writer);
                writer.u64(welcome.group);
                writer.u16(welcome.slots);
            }
            Self::CarriedWelcome(welcome) => {
                header(CARRIED_WELCOME).write(&mut writer);
                writer.u64(welcome.group);
                writer.u16(welcome.slots);
                writer.u32(welcome.receive_buffer_bytes);
            }
            Self::Slots(slots) => {
                header(SLOTS).write(&mut writer);
                writer.slots(&slots.numbers, DESCRIPTORS_MAX);
            }
            Self::Ring { slot, generation } => {
                header(RING).write(&mut writer);
                writer.u16(*slot);
                writer.u64(*generation);
            }
            Self::Refused(refusal) => {
                header(REFUSED).write(&mut writer);
                refusal.write(&mut writer);
            }
            Self::Status(status) => {
                header(STATUS).write(&mut writer);
                status.write(&mut writer);
            }
            Self::Members(members) => {
                header(MEMBERS).write(&mut writer);
                members.write(&mut writer);
            }
            Self::Device(device) => {
                header(DEVICE).write(&mut writer);
                device.write(&mut writer);
            }
            Self::Failures(failures) => {
                header(FAILURES).write(&mut writer);
                failures.write(&mut writer);
            }
            Self::Letter { bytes } => {
                header(LETTER).write(&mut writer);
                writer.bytes(bytes, LETTER_BYTES_MAX);
            }
            Self::Served { token, served } => {
                header(SERVED).write(&mut writer);
                writer.u32(*token);
                served.write(&mut writer);
            }
            Self::Management(datagram) => {
                header(MANAGEMENT).write(&mut writer);
                datagram.write(&mut writer);
            }
            Self::Delivered => header(DELIVERED).write(&mut writer),
            Self::Goodbye => header(GOODBYE).write(&mut writer),
        }
        writer.finish()
    }

    /// The message in `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let header = Header::read(&mut reader)?;
        match header.kind {
            WELCOME => Ok(Self::Welcome(Welcome { group: reader.u64()?, slots: reader.u16()? })),
            CARRIED_WELCOME => Ok(Self::CarriedWelcome(CarriedWelcome {
                group: reader.u64()?,
                slots: reader.u16()?,
                receive_buffer_bytes: reader.u32()?,
            })),
            SLOTS => Ok(Self::Slots(Slots { numbers: reader.slots(DESCRIPTORS_MAX)? })),
            RING => Ok(Self::Ring { slot: reader.u16()?, generation: reader.u64()? }),
            REFUSED => Ok(Self::Refused(Refusal::read(&mut reader)?)),
            STATUS => Ok(Self::Status(StatusReply::read(&mut reader)?)),
            MEMBERS => Ok(Self::Members(MembersReply::read(&mut reader, header.features)?)),
            DEVICE => Ok(Self::Device(DeviceReply::read(&mut reader)?)),
            FAILURES => Ok(Self::Failures(FailuresReply::read(&mut reader)?)),
            LETTER => Ok(Self::Letter { bytes: reader.bytes(LETTER_BYTES_MAX)? }),
            SERVED => Ok(Self::Served { token: reader.u32()?, served: Served::read(&mut reader)? }),
            MANAGEMENT => Ok(Self::Management(ManagementDatagram::read(&mut reader)?)),
            DELIVERED => Ok(Self::Delivered),
            GOODBYE => Ok(Self::Goodbye),
            _ => Err(Malformed),
        }
    }
}

impl Refusal {
    fn write(&self, writer: &mut Writer) {
        let (code, value, flags) = match *self {
            Self::Version => (1, 0, 0),
            Self::OtherUser => (2, 0, 0),
            Self::NoSlots { total, soon, too_many_in_flight } => {
                (3, total, u8::from(soon) | u8::from(too_many_in_flight) << 1)
            }
            Self::SlotLost => (4, 0, 0),
            Self::Malformed => (5, 0, 0),
            Self::HasMembers { members } => (6, members, 0),
            Self::Busy => (7, 0, 0),
        };
        writer.u8(code);
        writer.u16(value);
        writer.u8(flags);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (code, value, flags) = (reader.u8()?, reader.u16()?, reader.u8()?);
        match code {
            1 => Ok(Self::Version),
            2 => Ok(Self::OtherUser),
            3 => Ok(Self::NoSlots {
                total: value,
                soon: flags & 1 != 0,
                too_many_in_flight: flags & 2 != 0,
            }),
            4 => Ok(Self::SlotLost),
            5 => Ok(Self::Malformed),
            6 => Ok(Self::HasMembers { members: value }),
            7 => Ok(Self::Busy),
            _ => Err(Malformed),
        }
    }
}

impl StatusReply {
    fn write(&self, writer: &mut Writer) {
        writer.u32(self.pid);
        writer.u32(self.uid);
        writer.u64(self.uptime_ms);
        writer.name(&self.program_version);
        writer.u64(self.group);
        writer.u16(self.slots_total);
        writer.u16(self.slots_used);
        writer.u16(self.slots_waiting);
        writer.u16(self.members);
        writer.u8(u8::from(self.too_many_in_flight) | u8::from(self.is_successor) << 1);
        writer.u64(self.management_datagrams);
        writer.u64(self.management_drops);
        writer.u32(self.listeners);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut status = Self {
            pid: reader.u32()?,
            uid: reader.u32()?,
            uptime_ms: reader.u64()?,
            program_version: reader.name()?,
            group: reader.u64()?,
            slots_total: reader.u16()?,
            slots_used: reader.u16()?,
            slots_waiting: reader.u16()?,
            members: reader.u16()?,
            ..Self::default()
        };
        let flags = reader.u8()?;
        status.too_many_in_flight = flags & 1 != 0;
        status.is_successor = flags & 2 != 0;
        status.management_datagrams = reader.u64()?;
        status.management_drops = reader.u64()?;
        status.listeners = reader.u32()?;
        Ok(status)
    }
}

impl DeviceReply {
    fn write(&self, writer: &mut Writer) {
        let counters = &self.counters[..self.counters.len().min(Self::COUNTERS_MAX)];
        writer.u16(self.devices);
        writer.name(&self.name);
        writer.u16(counters.len() as u16);
        for (name, value) in counters {
            writer.name(name);
            writer.u64(*value);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (devices, name) = (reader.u16()?, reader.name()?);
        let count = reader.count(Self::COUNTERS_MAX)?;
        let counters =
            (0..count).map(|_| Ok((reader.name()?, reader.u64()?))).collect::<Result<_, _>>()?;
        Ok(Self { devices, name, counters })
    }
}
