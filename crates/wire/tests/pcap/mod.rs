//! Reads classic pcap files with Ethernet frames, little-endian, as tcpdump writes them here.

/// The frames of a pcap file, in order. Panics if the file is anything else, or cut off.
pub fn frames(file: &[u8]) -> Vec<&[u8]> {
    let (header, mut records) = file.split_at(24);
    assert_eq!(word(header, 0), 0xa1b2_c3d4, "no pcap file in microseconds");
    assert_eq!(word(header, 20), 1, "not Ethernet");
    let mut frames = Vec::new();
    while !records.is_empty() {
        let (header, rest) = records.split_at(16);
        let captured = word(header, 8);
        assert_eq!(captured, word(header, 12), "a frame was cut off");
        let (frame, rest) = rest.split_at(captured as usize);
        frames.push(frame);
        records = rest;
    }
    frames
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    let bytes = bytes[offset..].first_chunk().expect("the header has that many bytes");
    u32::from_le_bytes(*bytes)
}
