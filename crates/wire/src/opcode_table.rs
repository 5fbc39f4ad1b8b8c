//! Every opcode of the specification, one row each (IBA table 38; XRC: annex A14; FLUSH and ATOMIC
//! WRITE: annex A19; CNP: annex A17). What is not listed is reserved; 0xC0 to 0xFF belong to the
//! manufacturers.

use crate::opcode::{Headers, Opcode, OpcodeInfo, OpcodeKind, Position, Transport};

/// Makes, from one list, the associated constants of [`Opcode`], [`INFO`] and [`name`].
macro_rules! opcodes {
    ($($name:ident = $value:literal, $transport:ident $operation:ident $position:ident,
        [$($header:ident)*];)*) => {
        impl Opcode {
            $(
                #[doc = concat!(
                    "`", stringify!($value), "`: ", stringify!($transport), ", ",
                    stringify!($operation), ", ", stringify!($position),
                    "; after the BTH: ", stringify!($($header)*), "."
                )]
                pub const $name: Self = Self($value);
            )*
        }

        /// The rows by opcode.
        pub(crate) static INFO: [Option<OpcodeInfo>; 256] = {
            let mut rows = [None; 256];
            $(
                assert!(rows[$value].is_none(), "two rows have the same opcode");
                rows[$value] = Some(OpcodeInfo::new(
                    Transport::$transport,
                    OpcodeKind::$operation,
                    Position::$position,
                    Headers::NONE$(.and(Headers::$header))*,
                ));
            )*
            rows
        };

        /// The name of the constant for `opcode`.
        pub(crate) fn name(opcode: Opcode) -> Option<&'static str> {
            match opcode.0 {
                $($value => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

opcodes! {
    RC_SEND_FIRST              = 0x00, Rc Send First,              [PAYLOAD];
    RC_SEND_MIDDLE             = 0x01, Rc Send Middle,             [PAYLOAD];
    RC_SEND_LAST               = 0x02, Rc Send Last,               [PAYLOAD];
    RC_SEND_LAST_IMMEDIATE     = 0x03, Rc Send Last,               [IMM_DT PAYLOAD];
    RC_SEND_ONLY               = 0x04, Rc Send Only,               [PAYLOAD];
    RC_SEND_ONLY_IMMEDIATE     = 0x05, Rc Send Only,               [IMM_DT PAYLOAD];
    RC_WRITE_FIRST             = 0x06, Rc Write First,             [RETH PAYLOAD];
    RC_WRITE_MIDDLE            = 0x07, Rc Write Middle,            [PAYLOAD];
    RC_WRITE_LAST              = 0x08, Rc Write Last,              [PAYLOAD];
    RC_WRITE_LAST_IMMEDIATE    = 0x09, Rc Write Last,              [IMM_DT PAYLOAD];
    RC_WRITE_ONLY              = 0x0a, Rc Write Only,              [RETH PAYLOAD];
    RC_WRITE_ONLY_IMMEDIATE    = 0x0b, Rc Write Only,              [RETH IMM_DT PAYLOAD];
    RC_READ_REQUEST            = 0x0c, Rc ReadRequest Only,        [RETH];
    RC_READ_RESPONSE_FIRST     = 0x0d, Rc ReadResponse First,      [AETH PAYLOAD];
    RC_READ_RESPONSE_MIDDLE    = 0x0e, Rc ReadResponse Middle,     [PAYLOAD];
    RC_READ_RESPONSE_LAST      = 0x0f, Rc ReadResponse Last,       [AETH PAYLOAD];
    RC_READ_RESPONSE_ONLY      = 0x10, Rc ReadResponse Only,       [AETH PAYLOAD];
    RC_ACKNOWLEDGE             = 0x11, Rc Acknowledge Only,        [AETH];
    RC_ATOMIC_ACKNOWLEDGE      = 0x12, Rc AtomicAcknowledge Only,  [AETH ATOMIC_ACK_ETH];
    RC_COMPARE_SWAP            = 0x13, Rc CompareSwap Only,        [ATOMIC_ETH];
    RC_FETCH_ADD               = 0x14, Rc FetchAdd Only,           [ATOMIC_ETH];
    RC_SEND_LAST_INVALIDATE    = 0x16, Rc Send Last,               [IETH PAYLOAD];
    RC_SEND_ONLY_INVALIDATE    = 0x17, Rc Send Only,               [IETH PAYLOAD];
    RC_FLUSH                   = 0x1c, Rc Flush Only,              [FETH RETH];
    RC_ATOMIC_WRITE            = 0x1d, Rc AtomicWrite Only,        [RETH PAYLOAD];

    UC_SEND_FIRST              = 0x20, Uc Send First,              [PAYLOAD];
    UC_SEND_MIDDLE             = 0x21, Uc Send Middle,             [PAYLOAD];
    UC_SEND_LAST               = 0x22, Uc Send Last,               [PAYLOAD];
    UC_SEND_LAST_IMMEDIATE     = 0x23, Uc Send Last,               [IMM_DT PAYLOAD];
    UC_SEND_ONLY               = 0x24, Uc Send Only,               [PAYLOAD];
    UC_SEND_ONLY_IMMEDIATE     = 0x25, Uc Send Only,               [IMM_DT PAYLOAD];
    UC_WRITE_FIRST             = 0x26, Uc Write First,             [RETH PAYLOAD];
    UC_WRITE_MIDDLE            = 0x27, Uc Write Middle,            [PAYLOAD];
    UC_WRITE_LAST              = 0x28, Uc Write Last,              [PAYLOAD];
    UC_WRITE_LAST_IMMEDIATE    = 0x29, Uc Write Last,              [IMM_DT PAYLOAD];
    UC_WRITE_ONLY              = 0x2a, Uc Write Only,              [RETH PAYLOAD];
    UC_WRITE_ONLY_IMMEDIATE    = 0x2b, Uc Write Only,              [RETH IMM_DT PAYLOAD];

    RD_SEND_FIRST              = 0x40, Rd Send First,              [RDETH DETH PAYLOAD];
    RD_SEND_MIDDLE             = 0x41, Rd Send Middle,             [RDETH DETH PAYLOAD];
    RD_SEND_LAST               = 0x42, Rd Send Last,               [RDETH DETH PAYLOAD];
    RD_SEND_LAST_IMMEDIATE     = 0x43, Rd Send Last,               [RDETH DETH IMM_DT PAYLOAD];
    RD_SEND_ONLY               = 0x44, Rd Send Only,               [RDETH DETH PAYLOAD];
    RD_SEND_ONLY_IMMEDIATE     = 0x45, Rd Send Only,               [RDETH DETH IMM_DT PAYLOAD];
    RD_WRITE_FIRST             = 0x46, Rd Write First,             [RDETH DETH RETH PAYLOAD];
    RD_WRITE_MIDDLE            = 0x47, Rd Write Middle,            [RDETH DETH PAYLOAD];
    RD_WRITE_LAST              = 0x48, Rd Write Last,              [RDETH DETH PAYLOAD];
    RD_WRITE_LAST_IMMEDIATE    = 0x49, Rd Write Last,              [RDETH DETH IMM_DT PAYLOAD];
    RD_WRITE_ONLY              = 0x4a, Rd Write Only,              [RDETH DETH RETH PAYLOAD];
    RD_WRITE_ONLY_IMMEDIATE    = 0x4b, Rd Write Only,              [RDETH DETH RETH IMM_DT PAYLOAD];
    RD_READ_REQUEST            = 0x4c, Rd ReadRequest Only,        [RDETH DETH RETH];
    RD_READ_RESPONSE_FIRST     = 0x4d, Rd ReadResponse First,      [RDETH AETH PAYLOAD];
    RD_READ_RESPONSE_MIDDLE    = 0x4e, Rd ReadResponse Middle,     [RDETH PAYLOAD];
    RD_READ_RESPONSE_LAST      = 0x4f, Rd ReadResponse Last,       [RDETH AETH PAYLOAD];
    RD_READ_RESPONSE_ONLY      = 0x50, Rd ReadResponse Only,       [RDETH AETH PAYLOAD];
    RD_ACKNOWLEDGE             = 0x51, Rd Acknowledge Only,        [RDETH AETH];
    RD_ATOMIC_ACKNOWLEDGE      = 0x52, Rd AtomicAcknowledge Only,  [RDETH AETH ATOMIC_ACK_ETH];
    RD_COMPARE_SWAP            = 0x53, Rd CompareSwap Only,        [RDETH DETH ATOMIC_ETH];
    RD_FETCH_ADD               = 0x54, Rd FetchAdd Only,           [RDETH DETH ATOMIC_ETH];
    RD_RESYNC                  = 0x55, Rd Resync Only,             [RDETH DETH];
    RD_FLUSH                   = 0x5c, Rd Flush Only,              [RDETH DETH FETH RETH];

    UD_SEND_ONLY               = 0x64, Ud Send Only,               [DETH PAYLOAD];
    UD_SEND_ONLY_IMMEDIATE     = 0x65, Ud Send Only,               [DETH IMM_DT PAYLOAD];

    CNP                        = 0x81, Cnp CongestionNotification Only, [PAYLOAD];

    XRC_SEND_FIRST             = 0xa0, Xrc Send First,             [XRCETH PAYLOAD];
    XRC_SEND_MIDDLE            = 0xa1, Xrc Send Middle,            [XRCETH PAYLOAD];
    XRC_SEND_LAST              = 0xa2, Xrc Send Last,              [XRCETH PAYLOAD];
    XRC_SEND_LAST_IMMEDIATE    = 0xa3, Xrc Send Last,              [XRCETH IMM_DT PAYLOAD];
    XRC_SEND_ONLY              = 0xa4, Xrc Send Only,              [XRCETH PAYLOAD];
    XRC_SEND_ONLY_IMMEDIATE    = 0xa5, Xrc Send Only,              [XRCETH IMM_DT PAYLOAD];
    XRC_WRITE_FIRST            = 0xa6, Xrc Write First,            [XRCETH RETH PAYLOAD];
    XRC_WRITE_MIDDLE           = 0xa7, Xrc Write Middle,           [XRCETH PAYLOAD];
    XRC_WRITE_LAST             = 0xa8, Xrc Write Last,             [XRCETH PAYLOAD];
    XRC_WRITE_LAST_IMMEDIATE   = 0xa9, Xrc Write Last,             [XRCETH IMM_DT PAYLOAD];
    XRC_WRITE_ONLY             = 0xaa, Xrc Write Only,             [XRCETH RETH PAYLOAD];
    XRC_WRITE_ONLY_IMMEDIATE   = 0xab, Xrc Write Only,             [XRCETH RETH IMM_DT PAYLOAD];
    XRC_READ_REQUEST           = 0xac, Xrc ReadRequest Only,       [XRCETH RETH];
    XRC_READ_RESPONSE_FIRST    = 0xad, Xrc ReadResponse First,     [AETH PAYLOAD];
    XRC_READ_RESPONSE_MIDDLE   = 0xae, Xrc ReadResponse Middle,    [PAYLOAD];
    XRC_READ_RESPONSE_LAST     = 0xaf, Xrc ReadResponse Last,      [AETH PAYLOAD];
    XRC_READ_RESPONSE_ONLY     = 0xb0, Xrc ReadResponse Only,      [AETH PAYLOAD];
    XRC_ACKNOWLEDGE            = 0xb1, Xrc Acknowledge Only,       [AETH];
    XRC_ATOMIC_ACKNOWLEDGE     = 0xb2, Xrc AtomicAcknowledge Only, [AETH ATOMIC_ACK_ETH];
    XRC_COMPARE_SWAP           = 0xb3, Xrc CompareSwap Only,       [XRCETH ATOMIC_ETH];
    XRC_FETCH_ADD              = 0xb4, Xrc FetchAdd Only,          [XRCETH ATOMIC_ETH];
    XRC_SEND_LAST_INVALIDATE   = 0xb6, Xrc Send Last,              [XRCETH IETH PAYLOAD];
    XRC_SEND_ONLY_INVALIDATE   = 0xb7, Xrc Send Only,              [XRCETH IETH PAYLOAD];
}
