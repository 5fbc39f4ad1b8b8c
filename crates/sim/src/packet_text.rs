//! A packet as a line of text.

use crate::network::Frame;
use converb_wire::{Packet, Syndrome};
use std::fmt::Write;

/// One line about a packet.
pub fn describe(frame: &Frame) -> String {
    let mut line = format!("{} -> {}  ", frame.source - 1, frame.destination.wrapping_sub(1));
    // Writing to a string does not fail.
    let _ = match Packet::parse(&frame.bytes) {
        Ok(packet) => write_packet(&mut line, &packet),
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
