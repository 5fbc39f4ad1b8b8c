//! Two processes send each other messages, and sleep until one comes.
//!
//! `cargo run --release --example pingpong` in one terminal, and the same with the first one's
//! address in another (`... --example pingpong 127.0.0.1`). They tell each other about their queue
//! pairs over TCP port 18600.

use converb::memory::Access;
use converb::work::{Operation, Payload, ReceiveRequest, SendFlags, SendRequest};
use converb::{
    Completion, CompletionChannel, CompletionKind, CompletionQueue, Context, Device, Endpoint,
    MemoryRegion, ProtectionDomain, QueuePair, QueuePairOptions, Status,
};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

const TCP_PORT: u16 = 18600;
const ROUNDS: u32 = 1000;
const MESSAGE_BYTES: usize = 64;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let server = std::env::args().nth(1);
    let stream = match &server {
        Some(address) => TcpStream::connect((address.as_str(), TCP_PORT))?,
        None => {
            println!("waiting for the other side");
            TcpListener::bind(("::", TCP_PORT))?.accept()?.0
        }
    };
    // The device and the GID that packets to the peer leave by are those of the TCP connection.
    let (device, gid_index) = device_of(stream.local_addr()?.ip())?;
    let context = Context::open(&device)?;
    let domain = ProtectionDomain::new(&context);
    let channel = CompletionChannel::new(&context)?;
    let queue = CompletionQueue::new(&context, 16, Some(&channel), 0)?;
    let queue_pair = QueuePair::new(&domain, QueuePairOptions::reliable(&queue))?;
    let memory = domain.allocate(2 * MESSAGE_BYTES, Access::LOCAL_WRITE)?;

    // A receive has to be there before the first message can come.
    let side = Side { queue_pair, queue, channel, memory };
    let mut stream = BufReader::new(stream);
    let peer = exchange(&mut stream, &side.queue_pair.endpoint(gid_index)?)?;
    side.queue_pair.connect(gid_index, &peer, Access::LOCAL_WRITE)?;
    side.receive()?;
    exchange(&mut stream, &side.queue_pair.endpoint(gid_index)?)?;

    let start = Instant::now();
    for round in 0..ROUNDS {
        if server.is_some() {
            side.send(round)?;
        }
        side.wait_for(CompletionKind::Receive)?;
        side.receive()?;
        if server.is_none() {
            side.send(round)?;
        }
    }
    println!(
        "{ROUNDS} rounds, {:.1} us each",
        start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
    );
    // The peer may still need an acknowledgement of ours.
    exchange(&mut stream, &peer)?;
    Ok(())
}

/// The device that has an address, and the index of its GID.
fn device_of(address: IpAddr) -> Result<(Arc<Device>, usize)> {
    for device in Device::list()? {
        let found = device
            .gids()
            .entries()
            .find(|(_, gid)| gid.ip().to_canonical() == address.to_canonical())
            .map(|(index, _)| index);
        if let Some(index) = found {
            return Ok((device, index));
        }
    }
    Err(format!("no device has the address {address}").into())
}

/// Tells the other side about our queue pair and hears about its.
fn exchange(peer: &mut BufReader<TcpStream>, ours: &Endpoint) -> Result<Endpoint> {
    writeln!(peer.get_mut(), "{ours}")?;
    let mut line = String::new();
    peer.read_line(&mut line)?;
    Ok(line.parse()?)
}

/// One side of the connection.
struct Side {
    queue_pair: Arc<QueuePair>,
    queue: Arc<CompletionQueue>,
    channel: Arc<CompletionChannel>,
    memory: Arc<MemoryRegion>,
}

impl Side {
    fn receive(&self) -> Result<()> {
        let scatter = [self.memory.part(0..MESSAGE_BYTES)];
        let request = ReceiveRequest { wr_id: 0, scatter: &scatter };
        Ok(self.queue_pair.post_receive(&[request]).map_err(|(_, error)| error)?)
    }

    fn send(&self, round: u32) -> Result<()> {
        self.memory.write(MESSAGE_BYTES, &round.to_le_bytes());
        let request = SendRequest {
            wr_id: 1,
            operation: Operation::Send,
            flags: SendFlags::default(),
            payload: Payload::Gather(&[self.memory.part(MESSAGE_BYTES..2 * MESSAGE_BYTES)]),
            destination: None,
        };
        Ok(self.queue_pair.post_send(&[request]).map_err(|(_, error)| error)?)
    }

    /// Sleeps until a completion of this kind comes; others are only looked at for failures.
    fn wait_for(&self, kind: CompletionKind) -> Result<()> {
        let mut is_armed = false;
        loop {
            let mut completions = [Completion::default()];
            if self.queue.poll(&mut completions)? == 1 {
                match completions[0] {
                    Completion { status: Status::Success, kind: found, .. } if found == kind => {
                        return Ok(());
                    }
                    Completion { status: Status::Success, .. } => {}
                    Completion { status, .. } => {
                        return Err(format!("a work request failed: {status:?}").into());
                    }
                }
            } else if is_armed {
                self.channel.next_event(|_| ())?;
                is_armed = false;
            } else {
                // Armed first and looked at once more: what comes in between raises an event.
                self.queue.arm(false)?;
                is_armed = true;
            }
        }
    }
}
