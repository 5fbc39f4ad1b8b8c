//! Messages: the four bytes of immediate data. The upper three bits say which kind it is.

/// Most bytes of data that a message can announce.
pub const MESSAGE_BYTES_MAX: u32 = VALUE;

/// The lower 29 bits.
const VALUE: u32 = (1 << KIND_SHIFT) - 1;
const KIND_SHIFT: u32 = 29;
const DATA: u32 = 0;
const CREDITS: u32 = 4;
const MAPPING: u32 = 6;
const CONTROL: u32 = 7;
const DISCONNECT: u32 = 0;
const KEEP_ALIVE: u32 = 1;
const SHUTDOWN: u32 = 2;

/// What an end of a stream says to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// So many bytes of data have been written into the receive buffer.
    Data(u32),
    /// Messages with data may be sent up to this number of the count that began with 0 when the
    /// stream did, and wraps; an entry of the table of buffers may have been written, too.
    Credits(u16),
    /// The entry at this index of the table of mappings has been written.
    Mapping(u32),
    /// Something about the stream itself.
    Control(Control),
}

/// What happens to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// It has ended in both directions.
    Disconnect,
    /// It is there.
    KeepAlive,
    /// No more data comes from who says so.
    Shutdown,
}

impl Message {
    /// The immediate data. Of data and mappings only the lower 29 bits count.
    pub const fn to_immediate(self) -> u32 {
        let (kind, value) = match self {
            Self::Data(bytes) => (DATA, bytes),
            Self::Credits(limit) => (CREDITS, limit as u32),
            Self::Mapping(index) => (MAPPING, index),
            Self::Control(Control::Disconnect) => (CONTROL, DISCONNECT),
            Self::Control(Control::KeepAlive) => (CONTROL, KEEP_ALIVE),
            Self::Control(Control::Shutdown) => (CONTROL, SHUTDOWN),
        };
        kind << KIND_SHIFT | value & VALUE
    }

    /// The message in immediate data; `None` for kinds that nobody sends. Credits have 16 bits,
    /// whatever stands above them.
    pub const fn from_immediate(immediate: u32) -> Option<Self> {
        let value = immediate & VALUE;
        Some(match (immediate >> KIND_SHIFT, value) {
            (DATA, bytes) => Self::Data(bytes),
            (CREDITS, limit) => Self::Credits(limit as u16),
            (MAPPING, index) => Self::Mapping(index),
            (CONTROL, DISCONNECT) => Self::Control(Control::Disconnect),
            (CONTROL, KEEP_ALIVE) => Self::Control(Control::KeepAlive),
            (CONTROL, SHUTDOWN) => Self::Control(Control::Shutdown),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_linux_sends_is_read() {
        // rstream over rxe: the first credits, 16 and 500 bytes of data, the end.
        for (immediate, message) in [
            (0x8000_0180, Message::Credits(0x180)),
            (0x0000_0010, Message::Data(16)),
            (0x0000_01f4, Message::Data(500)),
            (0xe000_0000, Message::Control(Control::Disconnect)),
        ] {
            assert_eq!(Message::from_immediate(immediate), Some(message));
            assert_eq!(message.to_immediate(), immediate);
        }
    }

    #[test]
    fn kinds_that_nobody_sends_are_none() {
        for kind in [1, 2, 3, 5] {
            assert_eq!(Message::from_immediate(kind << 29), None);
        }
        assert_eq!(Message::from_immediate(0xe000_0003), None);
    }

    proptest! {
        #[test]
        fn messages_survive_the_wire(immediate: u32) {
            if let Some(message) = Message::from_immediate(immediate) {
                let again = message.to_immediate();
                prop_assert_eq!(Message::from_immediate(again), Some(message));
                if !matches!(message, Message::Credits(_)) {
                    prop_assert_eq!(again, immediate);
                }
            }
        }

        #[test]
        fn credits_survive_the_wire(limit: u16) {
            let message = Message::Credits(limit);
            prop_assert_eq!(Message::from_immediate(message.to_immediate()), Some(message));
        }
    }
}
