//! Management datagrams: the header that all of them share, and who has to look at them.

/// The size of every management datagram but those of the multi-packet protocols' vendors: 256
/// bytes, of which the common header is the first 24 (IBA 13.4.2).
pub const MAD_SIZE: usize = 256;

/// The common header (IBA 13.4.2, figure 144).
///
/// ```text
///     0               1               2               3
///   | base version  | class         | class version | R | method    |
///   | status                        | class specific                |
///   | transaction id                                                |
///   | transaction id, low half                                      |
///   | attribute id                  | reserved                      |
///   | attribute modifier                                            |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the format: 1.
    pub base_version: u8,
    /// Management class: whose protocol the rest speaks.
    pub class: Class,
    /// Version of the class's own format.
    pub class_version: u8,
    /// Method, with the response bit 0x80.
    pub method: Method,
    /// Status of a response; 0 in requests.
    pub status: u16,
    /// For the class to use.
    pub class_specific: u16,
    /// Chosen by the requester, and returned in the response.
    pub transaction_id: u64,
    /// What the method is applied to.
    pub attribute_id: u16,
    /// A part or variant of it.
    pub attribute_modifier: u32,
}

/// A management class (IBA 13.4.4, table 109).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(pub u8);

/// A method with its response bit (IBA 13.4.5, table 110).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Method(pub u8);

/// Who has to look at a datagram that arrived at queue pair 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// It answers a request: it goes to the client whose number is the high half of the
    /// transaction id, since that is where this side puts it.
    Answer {
        /// The client's number.
        client: u32,
    },
    /// It asks: it goes to whoever serves the class.
    Request {
        /// The class.
        class: Class,
        /// The class's version.
        class_version: u8,
    },
    /// It is well-formed, but a class or a method that cannot come here.
    Unsupported,
    /// It is not a datagram of the version that we know.
    Malformed,
}

impl Header {
    /// The header's size in bytes.
    pub const SIZE: usize = 24;

    /// The header at the start of a management datagram; `None` if it is too short to have one.
    pub fn parse(mad: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = mad.first_chunk()?;
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        Some(Self {
            base_version: bytes[0],
            class: Class(bytes[1]),
            class_version: bytes[2],
            method: Method(bytes[3]),
            status: half(4),
            class_specific: half(6),
            transaction_id: u64::from(word(8)) << 32 | u64::from(word(12)),
            attribute_id: half(16),
            attribute_modifier: word(20),
        })
    }

    /// Writes the header to the start of a datagram.
    pub fn emit(&self, mad: &mut [u8; MAD_SIZE]) {
        mad[0] = self.base_version;
        mad[1] = self.class.0;
        mad[2] = self.class_version;
        mad[3] = self.method.0;
        mad[4..6].copy_from_slice(&self.status.to_be_bytes());
        mad[6..8].copy_from_slice(&self.class_specific.to_be_bytes());
        mad[8..16].copy_from_slice(&self.transaction_id.to_be_bytes());
        mad[16..18].copy_from_slice(&self.attribute_id.to_be_bytes());
        mad[18..20].fill(0);
        mad[20..24].copy_from_slice(&self.attribute_modifier.to_be_bytes());
    }
}

impl Class {
    /// Subnet management along routes by local identifier; only for queue pair 0.
    pub const SUBNET_LID_ROUTED: Self = Self(0x01);
    /// Subnet administration.
    pub const SUBNET_ADMINISTRATION: Self = Self(0x03);
    /// Performance management.
    pub const PERFORMANCE: Self = Self(0x04);
    /// Baseboard management, whose responses have a bit of their own.
    pub const BASEBOARD: Self = Self(0x05);
    /// Device management.
    pub const DEVICE: Self = Self(0x06);
    /// Communication management: connections.
    pub const COMMUNICATION: Self = Self(0x07);
    /// Subnet management along a given path; only for queue pair 0.
    pub const SUBNET_DIRECTED_ROUTE: Self = Self(0x81);

    /// Whether queue pair 1 carries the class at all.
    const fn is_general_service(self) -> bool {
        // 0x02 is reserved, as is what lies between the ranges: 0x09 to 0x0f and 0x30 to 0x4f
        // are the vendors', 0x10 to 0x2f the applications'.
        matches!(self.0, 0x03..=0x4f)
    }
}

impl Method {
    /// Asks for an attribute.
    pub const GET: Self = Self(0x01);
    /// Changes an attribute.
    pub const SET: Self = Self(0x02);
    /// One-way: what connection management uses.
    pub const SEND: Self = Self(0x03);
    /// Tells of an event.
    pub const TRAP: Self = Self(0x05);
    /// Passes a trap on.
    pub const REPORT: Self = Self(0x06);
    /// Says that a trap has arrived.
    pub const TRAP_REPRESS: Self = Self(0x07);
    /// Answers [`Method::GET`] and [`Method::SET`].
    pub const GET_RESPONSE: Self = Self(0x81);
    /// Answers [`Method::REPORT`].
    pub const REPORT_RESPONSE: Self = Self(0x86);

    /// The bit that says "answer".
    pub const RESPONSE: u8 = 0x80;

    /// Whether somebody asked for this. A trap's repression answers it without the bit.
    pub const fn is_response(self) -> bool {
        self.0 & Self::RESPONSE != 0 || self.0 == Self::TRAP_REPRESS.0
    }
}

/// The only version of the format.
const BASE_VERSION: u8 = 1;
/// The bit of a baseboard management attribute modifier that says "answer" (IBA 16.2.2).
const BASEBOARD_RESPONSE: u32 = 1;

/// Decides who has to look at a datagram that arrived at queue pair 1 (IBA 13.4.5 and 13.4.6).
///
/// Connection management's messages are all one-way sends, told apart by attribute, so even its
/// replies are requests here: they go to whoever serves the class.
pub fn dispatch(header: &Header) -> Dispatch {
    if header.base_version != BASE_VERSION {
        return Dispatch::Malformed;
    }
    if !header.class.is_general_service() || header.method.0 & !Method::RESPONSE == 0 {
        return Dispatch::Unsupported;
    }
    let is_baseboard_response =
        header.class == Class::BASEBOARD && header.attribute_modifier & BASEBOARD_RESPONSE != 0;
    if header.method.is_response() || is_baseboard_response {
        return Dispatch::Answer { client: (header.transaction_id >> 32) as u32 };
    }
    Dispatch::Request { class: header.class, class_version: header.class_version }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(class: Class, method: Method) -> Header {
        Header {
            base_version: 1,
            class,
            class_version: 2,
            method,
            status: 0x1234,
            class_specific: 0x5678,
            transaction_id: 0x0123_4567_89ab_cdef,
            attribute_id: 0x0010,
            attribute_modifier: 0xdead_beee,
        }
    }

    #[test]
    fn a_header_comes_back_as_it_was() {
        let header = header(Class::COMMUNICATION, Method::SEND);
        let mut mad = [0xff; MAD_SIZE];
        header.emit(&mut mad);
        assert_eq!(Header::parse(&mad), Some(header));
        assert_eq!(mad[..4], [1, 7, 2, 3]);
        assert_eq!(mad[8..16], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        assert_eq!(Header::parse(&mad[..Header::SIZE]), Some(header));
        assert_eq!(Header::parse(&mad[..Header::SIZE - 1]), None);
    }

    #[test]
    fn connection_messages_go_to_the_service_and_answers_to_the_client() {
        let request = Dispatch::Request { class: Class::COMMUNICATION, class_version: 2 };
        assert_eq!(dispatch(&header(Class::COMMUNICATION, Method::SEND)), request);
        let answer = Dispatch::Answer { client: 0x0123_4567 };
        let administration = Class::SUBNET_ADMINISTRATION;
        assert_eq!(dispatch(&header(administration, Method::GET_RESPONSE)), answer);
        assert_eq!(dispatch(&header(administration, Method::TRAP_REPRESS)), answer);
        assert_eq!(dispatch(&header(administration, Method::REPORT_RESPONSE)), answer);
    }

    #[test]
    fn baseboard_answers_are_told_by_their_modifier() {
        let mut header = header(Class::BASEBOARD, Method::SEND);
        assert!(matches!(dispatch(&header), Dispatch::Request { .. }));
        header.attribute_modifier |= BASEBOARD_RESPONSE;
        assert!(matches!(dispatch(&header), Dispatch::Answer { .. }));
    }

    /// All classes: subnet management and the reserved ranges do not belong to queue pair 1.
    #[test]
    fn classes_that_cannot_come_here_are_unsupported() {
        for class in (0..=255).map(Class) {
            let is_served =
                matches!(dispatch(&header(class, Method::GET)), Dispatch::Request { .. });
            assert_eq!(is_served, (0x03..=0x4f).contains(&class.0), "{class:?}");
        }
        for method in [0x00, 0x80].map(Method) {
            let header = header(Class::COMMUNICATION, method);
            assert_eq!(dispatch(&header), Dispatch::Unsupported);
        }
    }

    #[test]
    fn another_base_version_is_malformed() {
        let header = Header { base_version: 2, ..header(Class::COMMUNICATION, Method::SEND) };
        assert_eq!(dispatch(&header), Dispatch::Malformed);
    }
}
