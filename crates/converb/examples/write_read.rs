//! One process, two queue pairs connected to each other: a WRITE into the other's memory, and a
//! READ of it.
//!
//! `cargo run --release --example write_read` (build the workspace first: the agent is the
//! `converb` program).

use converb::memory::Access;
use converb::work::{Operation, Payload, RemoteAddress, SendFlags, SendRequest};
use converb::{
    Completion, CompletionQueue, Context, Device, Error, MemoryRegion, ProtectionDomain, QueuePair,
    QueuePairOptions, Status,
};
use std::sync::Arc;

/// 0, 1 and 3 are the primary IPv4 address of every device.
const GID_INDEX: usize = 0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let devices = Device::list()?;
    let device = devices.last().ok_or("no network interface is up")?;
    let context = Context::open(device)?;
    let domain = ProtectionDomain::new(&context);
    let queue = CompletionQueue::new(&context, 16, None, 0)?;

    // What each side lets the other one do is said twice: for the memory, and for the queue pair.
    let allowed = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE).with(Access::REMOTE_READ);
    let ours = domain.allocate(4096, allowed)?;
    let theirs = domain.allocate(4096, allowed)?;
    let (left, right) = (queue_pair(&domain, &queue)?, queue_pair(&domain, &queue)?);
    left.connect(GID_INDEX, &right.endpoint(GID_INDEX)?, allowed)?;
    right.connect(GID_INDEX, &left.endpoint(GID_INDEX)?, allowed)?;

    ours.write(0, b"written by one side");
    run(&left, &queue, &ours, 0, Operation::Write(whole(&theirs)))?;
    let mut seen = [0; 19];
    theirs.read(0, &mut seen);
    println!("the other side's memory: {}", String::from_utf8_lossy(&seen));

    theirs.write(0, b"changed by the other");
    run(&left, &queue, &ours, 1024, Operation::Read(whole(&theirs)))?;
    let mut seen = [0; 20];
    ours.read(1024, &mut seen);
    println!("read back: {}", String::from_utf8_lossy(&seen));
    Ok(())
}

fn queue_pair(
    domain: &Arc<ProtectionDomain>,
    queue: &Arc<CompletionQueue>,
) -> Result<Arc<QueuePair>, Error> {
    QueuePair::new(domain, QueuePairOptions::reliable(queue))
}

fn whole(region: &MemoryRegion) -> RemoteAddress {
    RemoteAddress { address: region.first_address(), rkey: region.remote_key() }
}

/// Posts one operation on 32 bytes of `region` and waits until it is complete.
fn run(
    queue_pair: &QueuePair,
    queue: &CompletionQueue,
    region: &MemoryRegion,
    offset: usize,
    operation: Operation,
) -> Result<(), Box<dyn std::error::Error>> {
    let request = SendRequest {
        wr_id: 1,
        operation,
        flags: SendFlags::default(),
        payload: Payload::Gather(&[region.part(offset..offset + 32)]),
        destination: None,
    };
    queue_pair.post_send(&[request]).map_err(|(_, error)| error)?;
    let mut completions = [Completion::default()];
    while queue.poll(&mut completions)? == 0 {}
    match completions[0].status {
        Status::Success => Ok(()),
        status => Err(format!("the operation failed: {status:?}").into()),
    }
}
