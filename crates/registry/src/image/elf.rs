//! The requirements of a Linux executable: its architecture, and the shared libraries that it links
//! to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::layer::ImageFile;
use crate::Error;

/// The directories searched for shared libraries, as by the dynamic linker.
const DIRECTORIES: [&str; 8] = [
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib",
    "/usr/lib",
];
const INTERPRETER: u32 = 3;
const DYNAMIC: u32 = 2;
const LOAD: u32 = 1;
const NEEDED: u64 = 1;
const STRING_TABLE: u64 = 5;
/// The maximum number of entries read from a table.
const MAX_ENTRIES: usize = 4096;

/// The header data of a Linux executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// The architecture as Go names it: `amd64` or `arm64`.
    pub architecture: &'static str,
    /// The dynamic linker; None for a static executable.
    pub interpreter: Option<String>,
    /// The shared libraries that it links to.
    pub needed: Vec<String>,
}

impl Executable {
    /// Parses an executable's header.
    ///
    /// # Errors
    /// Explains why it is not a Linux executable for a known 64-bit architecture.
    pub fn parse(data: &[u8]) -> Result<Self, String> {
        let bytes = |at: u64, count: usize| {
            let at = usize::try_from(at).ok()?;
            data.get(at..at.checked_add(count)?)
        };
        let number = |at: u64, count: usize| -> Option<u64> {
            let mut value = [0; 8];
            value.get_mut(..count)?.copy_from_slice(bytes(at, count)?);
            Some(u64::from_le_bytes(value))
        };
        let text = |at: u64| {
            let rest = data.get(usize::try_from(at).ok()?..)?;
            let end = rest.iter().take(MAX_ENTRIES).position(|byte| *byte == 0)?;
            String::from_utf8(rest.get(..end)?.to_vec()).ok()
        };
        if bytes(0, 6) != Some(b"\x7fELF\x02\x01") {
            return Err("not a 64-bit Linux program".into());
        }
        let architecture = match number(18, 2) {
            Some(0x3e) => "amd64",
            Some(0xb7) => "arm64",
            other => return Err(format!("unsupported architecture {other:x?}")),
        };
        let read = || -> Option<Self> {
            let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
            let mut segments = Vec::new();
            for index in 0..count.min(MAX_ENTRIES as u64) {
                let at = table.checked_add(size.checked_mul(index)?)?;
                // Type, file offset, address, size in the file.
                segments.push((number(at, 4)?, number(at + 8, 8)?, number(at + 16, 8)?, number(at + 32, 8)?));
            }
            let interpreter = segments.iter().find(|segment| segment.0 == u64::from(INTERPRETER));
            let interpreter = interpreter.and_then(|segment| text(segment.1));
            let mut needed = Vec::new();
            if let Some((_, place, _, length)) =
                segments.iter().find(|segment| segment.0 == u64::from(DYNAMIC))
            {
                let mut entries = Vec::new();
                for index in 0..(length / 16).min(MAX_ENTRIES as u64) {
                    let at = place.checked_add(index * 16)?;
                    entries.push((number(at, 8)?, number(at + 8, 8)?));
                }
                let strings =
                    entries.iter().find(|(tag, _)| *tag == STRING_TABLE).map(|(_, address)| *address);
                let strings = strings.and_then(|address| {
                    let loaded = segments.iter().filter(|segment| segment.0 == u64::from(LOAD));
                    let mut loaded = loaded.filter(|(_, _, start, length)| {
                        (*start..start.saturating_add(*length)).contains(&address)
                    });
                    loaded.next().and_then(|(_, place, start, _)| (address - start).checked_add(*place))
                });
                if let Some(strings) = strings {
                    for (_, offset) in entries.iter().filter(|(tag, _)| *tag == NEEDED) {
                        needed.extend(text(strings.checked_add(*offset)?));
                    }
                }
            }
            Some(Self { architecture, interpreter, needed })
        };
        read().ok_or_else(|| "truncated header".into())
    }
}

/// Reads the dynamic linker and shared libraries of an executable from this machine. Empty for a
/// static executable.
///
/// # Errors
/// Fails if a library is not found, or cannot be read.
pub fn shared_libraries(program: &Executable) -> Result<Vec<ImageFile>, Error> {
    let Some(interpreter) = &program.interpreter else { return Ok(Vec::new()) };
    let mut files = vec![read(Path::new(interpreter), interpreter)?];
    let mut left: Vec<String> = program.needed.clone();
    let linker = interpreter.rsplit('/').next().unwrap_or_default().to_owned();
    let mut seen: BTreeSet<String> = [linker].into();
    while let Some(name) = left.pop() {
        if name.contains('/') || !seen.insert(name.clone()) {
            continue;
        }
        let found =
            DIRECTORIES.iter().map(|directory| Path::new(directory).join(&name)).find(|path: &PathBuf| {
                std::fs::read(path).is_ok_and(|data| {
                    Executable::parse(&data).is_ok_and(|library| library.architecture == program.architecture)
                })
            });
        let Some(found) = found else {
            return Err(Error::Image(format!(
                "the program needs the shared library {name}, which is not on this machine; build it statically, for the target {}-unknown-linux-musl for instance",
                if program.architecture == "arm64" { "aarch64" } else { "x86_64" }
            )));
        };
        let file = read(&found, &found.display().to_string())?;
        if let Ok(library) = Executable::parse(&file.data) {
            left.extend(library.needed);
        }
        files.push(file);
    }
    Ok(files)
}

/// Reads a file for the image under the name by which it is requested, even if that is a symlink.
fn read(path: &Path, place: &str) -> Result<ImageFile, Error> {
    let data = std::fs::read(path).map_err(|source| Error::file(path, source))?;
    Ok(ImageFile::executable(place, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_are_cut_short_or_lie_are_refused() {
        assert!(Executable::parse(b"#!/bin/sh\n").is_err());
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let known = Executable::parse(&program).unwrap();
        assert!(["amd64", "arm64"].contains(&known.architecture));
        for length in [0, 6, 20, 40, 63, 64, 100, 300] {
            let _ = Executable::parse(&program[..length]);
        }
        for at in 16..64 {
            let mut broken = program[..4096].to_vec();
            broken[at] = 0xff;
            let _ = Executable::parse(&broken);
        }
    }

    #[test]
    fn a_dynamic_program_brings_its_libraries() {
        let program = Executable::parse(&std::fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap();
        let libraries = shared_libraries(&program).unwrap();
        assert_eq!(program.interpreter.is_some(), !libraries.is_empty());
        for name in &program.needed {
            assert!(libraries.iter().any(|file| file.path.ends_with(name.as_str())), "{name}");
        }
    }
}
