//! A packet as a line of text.

use crate::network::{Fate, Frame};
use converb_engine::iba::CreditMessage;
use converb_wire::{Packet, Syndrome};
use std::fmt::Write;

/// One line about a packet.
pub fn describe(frame: &Frame) -> String {
    let mut line = format!("{} -> {}  ", frame.source - 1, frame.destination.wrapping_sub(1));
    // Writing to a string does not fail.
    let _ = match Packet::parse(&frame.bytes) {
        Ok(packet) => write_packet(&mut line, &packet),
        Err(_) if CreditMessage::parse(&frame.bytes).is_some() => {
            let message = CreditMessage::parse(&frame.bytes);
            write!(line, "{message:?}")
        }
        Err(error) => write!(line, "{} bytes, {error:?}", frame.bytes.len()),
    };
    line
}

fn write_packet(line: &mut String, packet: &Packet<'_>) -> std::fmt::Result {
    let bth = packet.bth();
    let name = bth.opcode.name().unwrap_or("?").trim_start_matches("RC_");
    write!(line, "qp {:06x} {name} psn {}", bth.destination.value(), bth.psn.value())?;
    if let Some(reth) = packet.reth() {
        write!(line, " addr {:x} rkey {:08x} len {}", reth.address, reth.rkey.0, reth.length)?;
    }
    if let Some(deth) = packet.deth() {
        write!(line, " from {:06x} Q_Key {:x}", deth.source.value(), deth.queue_key)?;
    }
    if let Some(atomic) = packet.atomic_eth() {
        write!(
            line,
            " addr {:x} rkey {:08x} compare {:x} swap or add {:x}",
            atomic.address, atomic.rkey.0, atomic.compare, atomic.swap_or_add
        )?;
    }
    if let Some(found) = packet.atomic_ack_eth() {
        write!(line, " found {:x}", found.original)?;
    }
    if let Some(aeth) = packet.aeth() {
        match aeth.syndrome {
            Syndrome::Ack { credit } => write!(line, " ack credit {credit} msn {}", aeth.msn)?,
            syndrome => write!(line, " {syndrome:?} msn {}", aeth.msn)?,
        }
    }
    if let Some(immediate) = packet.immediate() {
        write!(line, " imm {:x}", immediate.0)?;
    }
    if packet.info().has_payload() {
        write!(line, " +{}", packet.payload().len())?;
    }
    if bth.ack_request {
        line.push_str(" A");
    }
    if bth.solicited {
        line.push_str(" S");
    }
    Ok(())
}

/// To which queue pair and about which packet this is an RNR NAK, if it is one.
pub fn rnr_nak(frame: &Frame) -> Option<(u32, u32)> {
    let packet = Packet::parse(&frame.bytes).ok()?;
    matches!(packet.aeth()?.syndrome, Syndrome::RnrNak { .. })
        .then(|| (packet.bth().destination.value(), packet.bth().psn.value()))
}

/// What became of a packet that was sent at this time.
pub struct Told<'a>(pub &'a Fate, pub u64);

impl std::fmt::Display for Told<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let after = |at: u64| (at - self.1) as f64 / 1000.0;
        match self.0 {
            Fate::Lost => formatter.write_str("  LOST"),
            Fate::Arrives { at, flipped, again } => {
                write!(formatter, "  arrives in {:.1} us", after(*at))?;
                if let Some(bit) = flipped {
                    write!(formatter, " with bit {bit} FLIPPED")?;
                }
                if let Some(again) = again {
                    write!(formatter, " and AGAIN in {:.1} us", after(*again))?;
                }
                Ok(())
            }
        }
    }
}
