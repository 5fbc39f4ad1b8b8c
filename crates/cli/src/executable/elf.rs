//! What of an ELF file's headers tells how it is loaded (elf(5)).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// A program or library.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elf {
    pub(super) format: Format,
    /// The program that loads it (PT_INTERP); a static program has none.
    pub(super) interpreter: Option<OsString>,
}

/// What it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// This machine, as our library.
    Own,
    /// 32-bit.
    OtherClass,
    /// Another processor, or another order of bytes.
    OtherMachine(u16),
}

/// EM_X86_64 or EM_AARCH64.
pub(super) const OWN_MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const INTERPRETER: u32 = 3;
const HEADER_MIN: usize = 64;
/// ET_EXEC and ET_DYN.
const PROGRAM_TYPES: [u16; 2] = [2, 3];
const PROGRAM_HEADER_MIN: usize = 56;

impl Elf {
    /// The file that begins with `head`; `None` if it is none of this kind, or if its headers cannot
    /// be read: they are damaged, or beyond `head`.
    pub(super) fn parse(head: &[u8]) -> Option<Self> {
        if !head.starts_with(b"\x7fELF") || head.len() < 20 {
            return None;
        }
        let (class, order) = (head[4], head[5]);
        let half = |bytes: [u8; 2]| {
            if order == LITTLE_ENDIAN {
                u16::from_le_bytes(bytes)
            } else {
                u16::from_be_bytes(bytes)
            }
        };
        let machine = half([head[18], head[19]]);
        let format = match (class, order, machine) {
            (CLASS_64, LITTLE_ENDIAN, OWN_MACHINE) => Format::Own,
            // x32 and 32-bit x86 are what people mean by 32-bit.
            (class, LITTLE_ENDIAN, 3 | 62) if class != CLASS_64 => Format::OtherClass,
            _ => Format::OtherMachine(machine),
        };
        if format != Format::Own {
            return Some(Self { format, interpreter: None });
        }
        if head.len() < HEADER_MIN || !PROGRAM_TYPES.contains(&half([head[16], head[17]])) {
            return None;
        }
        Some(Self { format, interpreter: Self::interpreter(head)? })
    }

    /// The program that loads it, `Some(None)` if there is none.
    fn interpreter(head: &[u8]) -> Option<Option<OsString>> {
        let long = |at: usize| Some(u64::from_le_bytes(*head.get(at..)?.first_chunk()?));
        let start = usize::try_from(long(32)?).ok()?;
        let size = usize::from(u16::from_le_bytes([head[54], head[55]]));
        let count = usize::from(u16::from_le_bytes([head[56], head[57]]));
        if size < PROGRAM_HEADER_MIN || count == 0 {
            return None;
        }
        for number in 0..count {
            let at = number.checked_mul(size)?.checked_add(start)?;
            let header = head.get(at..at.checked_add(PROGRAM_HEADER_MIN)?)?;
            let kind = u32::from_le_bytes(*header.first_chunk()?);
            if kind != INTERPRETER {
                continue;
            }
            let offset = usize::try_from(long(at + 8)?).ok()?;
            let length = usize::try_from(long(at + 32)?).ok()?;
            let path = head.get(offset..offset.checked_add(length)?)?;
            let end = path.iter().position(|&byte| byte == 0).filter(|&end| end > 0)?;
            return Some(Some(OsStr::from_bytes(&path[..end]).to_owned()));
        }
        Some(None)
    }
}

/// What people call a machine.
pub(super) fn machine_name(machine: u16) -> String {
    let name = match machine {
        3 => "32-bit x86",
        8 => "MIPS",
        21 => "POWER",
        22 => "s390x",
        40 => "32-bit ARM",
        62 => "x86-64",
        183 => "64-bit ARM",
        243 => "RISC-V",
        258 => "LoongArch",
        _ => return format!("another machine (number {machine})"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(class: u8, machine: u16, interpreter: Option<&str>) -> Vec<u8> {
        let mut bytes = vec![0; 200];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        bytes[16] = 3;
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        if let Some(text) = interpreter {
            bytes[64] = 3;
            bytes[72] = 150;
            bytes[96] = text.len() as u8 + 1;
            bytes[150..150 + text.len()].copy_from_slice(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn the_interpreter_is_read() {
        let loaded = Elf::parse(&file(2, OWN_MACHINE, Some("/lib/ld-musl-x86_64.so.1"))).unwrap();
        assert_eq!(loaded.interpreter.unwrap(), "/lib/ld-musl-x86_64.so.1");
        let alone = Elf::parse(&file(2, OWN_MACHINE, None)).unwrap();
        assert_eq!(alone, Elf { format: Format::Own, interpreter: None });
    }

    #[test]
    fn what_cannot_be_read_is_not_called_static() {
        let whole = file(2, OWN_MACHINE, None);
        // Another type, no program headers, or such as are beyond what was read.
        for (place, value) in [(16, 1), (56, 0), (54, 8), (33, 1), (56, 9)] {
            let mut other = whole.clone();
            other[place] = value;
            assert_eq!(Elf::parse(&other), None, "byte {place}");
        }
        let mut named = file(2, OWN_MACHINE, Some("/lib64/ld-linux-x86-64.so.2"));
        named[73] = 1;
        assert_eq!(Elf::parse(&named), None, "its loader's name is beyond");
        assert_eq!(Elf::parse(&whole[..100]), None);
    }

    #[test]
    fn other_formats_are_told_apart() {
        let format = |class, machine| Elf::parse(&file(class, machine, None)).unwrap().format;
        assert_eq!(format(1, 3), Format::OtherClass);
        assert_eq!(format(2, 243), Format::OtherMachine(243));
        assert_eq!(format(1, 40), Format::OtherMachine(40));
        assert_eq!(Elf::parse(b"#!/bin/sh"), None);
    }

    #[test]
    fn damaged_headers_never_panic() {
        let whole = file(2, OWN_MACHINE, Some("/lib64/ld-linux-x86-64.so.2"));
        for length in 0..whole.len() {
            let _ = Elf::parse(&whole[..length]);
        }
        for place in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[place] = value;
                let _ = Elf::parse(&damaged);
            }
        }
    }
}
