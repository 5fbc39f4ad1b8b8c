//! Bytes as credit datagrams, and as the life of a path whose peer answers what it likes.

#![no_main]

use converb_engine::Time;
use converb_engine::iba::{Admission, CreditMessage, PathWindow};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(message) = CreditMessage::parse(bytes) {
        let mut again = [0; CreditMessage::LENGTH];
        message.emit(3, &mut again);
        assert_eq!(CreditMessage::parse(&again), Some(message));
    }
    let path = PathWindow::default();
    let credit = path.credit();
    let mut now = 1;
    let (steps, _) = bytes.as_chunks::<9>();
    for [step, a0, a1, a2, a3, b0, b1, b2, b3] in steps {
        let a = u32::from_le_bytes([*a0, *a1, *a2, *a3]);
        let b = u32::from_le_bytes([*b0, *b1, *b2, *b3]);
        let at = Time::from_nanoseconds(now);
        match step % 4 {
            0 => {
                let size = a % 9000;
                if credit.admit(size, at) == Admission::Go {
                    credit.sent(size);
                }
            }
            1 => {
                let _ = credit.question(a as u16, at, b & 1 == 0);
            }
            // From anybody: the source of a datagram can be forged.
            2 => credit.answered(a, b),
            _ => {
                credit.met_converb();
                now += u64::from(a);
            }
        }
    }
});
