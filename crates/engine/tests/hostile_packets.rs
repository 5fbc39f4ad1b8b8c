//! The fuzz target's kept scripts, and random ones, played without a fuzzer.

mod conversation;
mod hostile;

use hostile::Told;

#[test]
fn the_corpus_of_scripts_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/queue_pair");
    let mut sum = Told::default();
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let script = std::fs::read(entry.expect("an entry").path()).expect("a file");
        add(&mut sum, &hostile::play(&script));
    }
    assert!(sum.heard > 100 && sum.said > 100 && sum.failed > 5, "scripts get far: {sum:?}");
}

#[test]
fn random_packets_harm_nobody() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut sum = Told::default();
    for _ in 0..2000 {
        let script: Vec<u8> = (0..400)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect();
        add(&mut sum, &hostile::play(&script));
    }
    assert!(sum.heard > 1000 && sum.said > 1000 && sum.failed > 100, "{sum:?}");
}

fn add(sum: &mut Told, told: &Told) {
    sum.heard += told.heard;
    sum.said += told.said;
    sum.failed += told.failed;
}
