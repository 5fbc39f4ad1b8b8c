//! What a client says to the agent.

use super::fields::{Malformed, Name, Reader, Writer};
use super::services::ManagementDatagram;
use super::{Header, LETTER_BYTES_MAX, SLOTS_PER_MEMBER_MAX};
use crate::services::Service;

/// A message to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first message on every connection.
    Hello(Hello),
    /// A member goes on purpose: its slots are free at once.
    Leave,
    /// A member asks how to pass packets on to the owner of a slot; see [`super::Reply::Ring`].
    RingQuery {
        /// The slot.
        slot: u16,
    },
    /// An observer asks for [`super::StatusReply`].
    StatusQuery,
    /// An observer asks for members, from the given place in the list.
    MembersQuery {
        /// How many members to skip.
        from: u16,
    },
    /// An observer asks for one device's counters.
    CountersQuery {
        /// The device's place in the list of devices.
        index: u16,
    },
    /// An observer asks for [`super::FailuresReply`], from the given place in the list, whose
    /// first is the newest. Agents of the first releases refuse it as malformed.
    FailuresQuery {
        /// How many failures to skip.
        from: u16,
    },
    /// An observer of the agent's user writes to the owner of a slot, who gets a
    /// [`super::Reply::Letter`] with the same descriptors; the answer is [`super::Reply::Delivered`]
    /// or a refusal. Agents of the first releases refuse it as malformed, and the next one too.
    Letter {
        /// The slot.
        slot: u16,
        /// At most [`super::LETTER_BYTES_MAX`].
        bytes: Vec<u8>,
    },
    /// An observer whose process is a member asks for a slot that nobody owns; the answer is
    /// [`super::Reply::Slots`] or a refusal.
    TakeOver {
        /// The slot.
        slot: u16,
    },
    /// A member takes a service, or changes one that it has at the same place. The answer,
    /// [`super::Reply::Served`], has the same token; agents of the first releases give none. After
    /// a rejoin it says so again.
    Serve {
        /// The member's name for it.
        token: u32,
        /// The service.
        service: Service,
    },
    /// A member gives a service back.
    ServeNoMore {
        /// The service, by its number and place.
        service: Service,
    },
    /// A member leaves word of what is to be said to the peer of one of its connections when it is no
    /// more, in place of what it has left for that before. After a rejoin it says so again.
    Remember {
        /// The member's name for the connection.
        id: u32,
        /// What is to be said. Its source is the peer.
        words: ManagementDatagram,
    },
    /// Nothing is to be said for a connection any more.
    Forget {
        /// The member's name for it.
        id: u32,
    },
    /// Asks the agent to exit.
    Stop {
        /// Also when there are members.
        force: bool,
    },
}

/// Who a client is and what it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What it will be.
    pub role: Role,
    /// The program's name, for people.
    pub program: Name<16>,
}

/// What a client wants to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A new member that wants slots. With the message may come one descriptor, the counter
    /// page; or two, its ring's memory and bell; or all three, in this order. The same is true of
    /// [`Role::Rejoin`].
    Join {
        /// How many slots it wants, 1 to 64; it may get fewer, at least one.
        slots: u16,
        /// Whether it takes no sockets, but wants its datagrams carried: it holds the agent for
        /// another user's.
        is_carried: bool,
    },
    /// A member that owns slots already and was left by its agent, or closed its descriptors.
    Rejoin {
        /// The group that the slots belong to.
        group: u64,
        /// Its slots.
        slots: Vec<u16>,
        /// Whether it wants the slots' descriptors again. One whose datagrams are carried always
        /// does, for what it had ended with the agent.
        wants_descriptors: bool,
        /// The same as for [`Role::Join`].
        is_carried: bool,
    },
    /// Somebody who only asks.
    Observe,
}

impl Role {
    /// Whether the agent is to carry the member's datagrams.
    pub fn is_carried(&self) -> bool {
        match self {
            Self::Join { is_carried, .. } | Self::Rejoin { is_carried, .. } => *is_carried,
            Self::Observe => false,
        }
    }
}

const HELLO: u16 = 1;
const LEAVE: u16 = 2;
const STATUS_QUERY: u16 = 3;
const MEMBERS_QUERY: u16 = 4;
const COUNTERS_QUERY: u16 = 5;
const STOP: u16 = 6;
const RING_QUERY: u16 = 7;
const FAILURES_QUERY: u16 = 8;
const LETTER: u16 = 9;
const TAKE_OVER: u16 = 10;
const SERVE: u16 = 11;
const SERVE_NO_MORE: u16 = 12;
const REMEMBER: u16 = 13;
const FORGET: u16 = 14;

const ROLE_JOIN: u8 = 0;
const ROLE_REJOIN: u8 = 1;
const ROLE_OBSERVE: u8 = 2;
const ROLE_JOIN_CARRIED: u8 = 3;
const ROLE_REJOIN_CARRIED: u8 = 4;

impl Request {
    /// The message's bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let header = |kind| Header::new(kind);
        match self {
            Self::Hello(hello) => {
                header(HELLO).write(&mut writer);
                hello.write(&mut writer);
            }
            Self::Leave => header(LEAVE).write(&mut writer),
            Self::RingQuery { slot } => {
                header(RING_QUERY).write(&mut writer);
                writer.u16(*slot);
            }
            Self::StatusQuery => header(STATUS_QUERY).write(&mut writer),
            Self::MembersQuery { from } => {
                header(MEMBERS_QUERY).write(&mut writer);
                writer.u16(*from);
            }
            Self::CountersQuery { index } => {
                header(COUNTERS_QUERY).write(&mut writer);
                writer.u16(*index);
            }
            Self::FailuresQuery { from } => {
                header(FAILURES_QUERY).write(&mut writer);
                writer.u16(*from);
            }
            Self::Letter { slot, bytes } => {
                header(LETTER).write(&mut writer);
                writer.u16(*slot);
                writer.bytes(bytes, LETTER_BYTES_MAX);
            }
            Self::TakeOver { slot } => {
                header(TAKE_OVER).write(&mut writer);
                writer.u16(*slot);
            }
            Self::Serve { token, service } => {
                header(SERVE).write(&mut writer);
                writer.u32(*token);
                service.write(&mut writer);
            }
            Self::ServeNoMore { service } => {
                header(SERVE_NO_MORE).write(&mut writer);
                service.write(&mut writer);
            }
            Self::Remember { id, words } => {
                header(REMEMBER).write(&mut writer);
                writer.u32(*id);
                words.write(&mut writer);
            }
            Self::Forget { id } => {
                header(FORGET).write(&mut writer);
                writer.u32(*id);
            }
            Self::Stop { force } => {
                header(STOP).write(&mut writer);
                writer.u8(u8::from(*force));
            }
        }
        writer.finish()
    }

    /// The message in `bytes`. Call it once [`Header::parse`] has shown the right version.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        match Header::read(&mut reader)?.kind {
            HELLO => Ok(Self::Hello(Hello::read(&mut reader)?)),
            LEAVE => Ok(Self::Leave),
            RING_QUERY => Ok(Self::RingQuery { slot: reader.u16()? }),
            STATUS_QUERY => Ok(Self::StatusQuery),
            MEMBERS_QUERY => Ok(Self::MembersQuery { from: reader.u16()? }),
            COUNTERS_QUERY => Ok(Self::CountersQuery { index: reader.u16()? }),
            FAILURES_QUERY => Ok(Self::FailuresQuery { from: reader.u16()? }),
            LETTER => {
                Ok(Self::Letter { slot: reader.u16()?, bytes: reader.bytes(LETTER_BYTES_MAX)? })
            }
            SERVE => {
                let (token, service) = (reader.u32()?, Service::read(&mut reader)?);
                Ok(Self::Serve { token, service })
            }
            SERVE_NO_MORE => Ok(Self::ServeNoMore { service: Service::read(&mut reader)? }),
            REMEMBER => {
                let (id, words) = (reader.u32()?, ManagementDatagram::read(&mut reader)?);
                Ok(Self::Remember { id, words })
            }
            FORGET => Ok(Self::Forget { id: reader.u32()? }),
            TAKE_OVER => Ok(Self::TakeOver { slot: reader.u16()? }),
            STOP => Ok(Self::Stop { force: reader.u8()? != 0 }),
            _ => Err(Malformed),
        }
    }
}

impl Hello {
    fn write(&self, writer: &mut Writer) {
        writer.name(&self.program);
        match &self.role {
            Role::Join { slots, is_carried } => {
                writer.u8(if *is_carried { ROLE_JOIN_CARRIED } else { ROLE_JOIN });
                writer.u16(*slots);
            }
            Role::Rejoin { group, slots, wants_descriptors, is_carried } => {
                writer.u8(if *is_carried { ROLE_REJOIN_CARRIED } else { ROLE_REJOIN });
                writer.u64(*group);
                writer.u8(u8::from(*wants_descriptors));
                writer.slots(slots, SLOTS_PER_MEMBER_MAX);
            }
            Role::Observe => writer.u8(ROLE_OBSERVE),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let program = reader.name()?;
        let role = match reader.u8()? {
            role @ (ROLE_JOIN | ROLE_JOIN_CARRIED) => {
                Role::Join { slots: reader.u16()?, is_carried: role == ROLE_JOIN_CARRIED }
            }
            role @ (ROLE_REJOIN | ROLE_REJOIN_CARRIED) => {
                let group = reader.u64()?;
                let wants_descriptors = reader.u8()? != 0;
                Role::Rejoin {
                    group,
                    slots: reader.slots(SLOTS_PER_MEMBER_MAX)?,
                    wants_descriptors,
                    is_carried: role == ROLE_REJOIN_CARRIED,
                }
            }
            ROLE_OBSERVE => Role::Observe,
            _ => return Err(Malformed),
        };
        Ok(Self { role, program })
    }
}
