//! The fuzz targets' kept inputs, run through the same walks without a fuzzer.

use std::fs;
use std::path::{Path, PathBuf};

mod walk;

#[test]
fn the_corpus_of_packets_holds() {
    let parsed = corpus("wire_packet").filter(|(_, bytes)| walk::packet(bytes).is_ok()).count();
    assert!(parsed >= 80, "only {parsed} of the kept packets are packets");
}

#[test]
fn the_corpus_of_frames_holds() {
    let (mut right, mut infiniband) = (0, 0);
    for (path, bytes) in corpus("wire_headers") {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some((packet, crc_is_right)) = walk::infiniband(&bytes)
            && name.starts_with("infiniband")
        {
            assert!(packet.is_ok() && crc_is_right, "{name}");
            infiniband += 1;
        }
        if let Some(roce) = walk::frame(&bytes)
            && roce.icrc_computed == roce.icrc_received
            && roce.packet.is_ok()
        {
            right += 1;
        }
    }
    assert!(right >= 36, "only {right} of the kept frames hold a packet");
    assert_eq!(infiniband, 2);
}

fn corpus(target: &str) -> impl Iterator<Item = (PathBuf, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries.map(|entry| {
        let path = entry.expect("the directory stays readable").path();
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, bytes)
    })
}
