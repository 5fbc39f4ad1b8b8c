//! Prints how fast guarded copies are, as a ratio to `memcpy` in the same run.
//!
//! `cargo run -p converb-link --release --example memory_speed`

use converb_engine::Memory;
use converb_link::ProgramMemory;
use std::hint::black_box;
use std::time::{Duration, Instant};

fn main() {
    let memory = ProgramMemory::new();
    memory.arm();
    println!("guarded copy, time of memcpy / time of ours (1.00: as fast)");
    println!("{:>9} {:>8} {:>8}  best of 15 interleaved rounds", "bytes", "write", "read");
    for length in [8, 64, 256, 1024, 4096, 65_536, 1 << 20, 16 << 20] {
        let from = vec![1u8; length + 64];
        let mut to = vec![0u8; length + 64];
        // As in a packet: our side is aligned to four bytes.
        let ours = 28;
        let rounds = (64 << 20) / (length + 400) / 16 + 1;
        let mut best = [Duration::MAX; 3];
        for _ in 0..15 {
            let address = to.as_ptr() as u64;
            best[0] = best[0].min(time(rounds, || {
                to[..length].copy_from_slice(black_box(&from[ours..ours + length]));
                black_box(&mut to);
            }));
            best[1] = best[1].min(time(rounds, || {
                memory.write(address, black_box(&from[ours..ours + length])).expect("mapped");
            }));
            let address = from.as_ptr() as u64;
            best[2] = best[2].min(time(rounds, || {
                memory.read(address, black_box(&mut to[ours..ours + length])).expect("mapped");
            }));
        }
        let ratio = |index: usize| best[0].as_secs_f64() / best[index].as_secs_f64();
        println!("{length:>9} {:>8.2} {:>8.2}", ratio(1), ratio(2));
    }
}

fn time(rounds: usize, mut copy: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..rounds {
        copy();
    }
    start.elapsed()
}
