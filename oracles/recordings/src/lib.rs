//! Keeps what the real programs answered, so that `make test` compares with them where they are not installed.
//!
//! A recording is a file of compressed JSON lines, one per case, named after its area and the program that answered, such as
//! `cel.kubernetes-1.36.3.jsonl.gz`. `make recordings` writes them anew. For tests alone: what cannot be read or written panics.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a recording's name ends with.
const SUFFIX: &str = ".jsonl.gz";

/// Whether this run writes recordings: `STEERSMAN_RECORD` is set.
#[must_use]
pub fn recording() -> bool {
    std::env::var_os("STEERSMAN_RECORD").is_some()
}

/// The version of a module that a go.mod requires, without its `v`.
///
/// # Panics
///
/// If the module is not among the requirements.
#[must_use]
pub fn required_version(go_mod: &str, module: &str) -> String {
    let version = go_mod.lines().find_map(|line| line.trim().strip_prefix(module)?.trim().strip_prefix('v'));
    let version = version.unwrap_or_else(|| panic!("go.mod does not require {module}"));
    version.split_whitespace().next().unwrap_or_default().to_owned()
}

/// The folder of one package's recordings, `tests/recorded` below its manifest.
#[derive(Clone, Debug)]
pub struct Recordings {
    folder: PathBuf,
}

impl Recordings {
    /// Those of the package with this folder, which `env!("CARGO_MANIFEST_DIR")` names.
    #[must_use]
    pub fn of(package: &str) -> Self {
        Self { folder: Path::new(package).join("tests/recorded") }
    }

    /// The names of all areas, in order.
    #[must_use]
    pub fn areas(&self) -> Vec<String> {
        let names = self.files().map(|(name, _)| name);
        let mut areas: Vec<String> =
            names.filter_map(|name| Some(name.split_once('.')?.0.to_owned())).collect();
        areas.sort();
        areas
    }

    /// Reads the cases of an area, whichever program's.
    ///
    /// # Panics
    ///
    /// If there is not exactly one recording of the area, or it cannot be read.
    #[must_use]
    pub fn read<T: DeserializeOwned>(&self, area: &str) -> Vec<T> {
        let paths = self.paths(area);
        let [path] = paths.as_slice() else {
            panic!("{}: {} recordings of {area}, not one", self.folder.display(), paths.len())
        };
        let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        BufReader::new(GzDecoder::new(file.as_slice()))
            .lines()
            .enumerate()
            .map(|(number, line)| {
                let place = || format!("{} line {}", path.display(), number + 1);
                let line = line.unwrap_or_else(|error| panic!("{}: {error}", place()));
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{}: {error}", place()))
            })
            .collect()
    }

    /// Replaces the recording of an area by these answers of `program`, such as `kubernetes-1.36.3`.
    ///
    /// The same cases give the same bytes.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn write<T: Serialize>(&self, area: &str, program: &str, cases: &[T]) {
        fs::create_dir_all(&self.folder).expect("the folder of recordings can be made");
        for old in self.paths(area) {
            fs::remove_file(old).expect("the old recording can be removed");
        }
        let mut out = GzEncoder::new(Vec::new(), Compression::best());
        for case in cases {
            serde_json::to_writer(&mut out, case).expect("a case is JSON");
            out.write_all(b"\n").expect("memory can be written");
        }
        let path = self.folder.join(format!("{area}.{program}{SUFFIX}"));
        fs::write(&path, out.finish().expect("memory can be written")).expect("the recording can be written");
        println!("recorded {} cases in {}", cases.len(), path.display());
    }

    fn paths(&self, area: &str) -> Vec<PathBuf> {
        let of_area = |name: &str| name.strip_prefix(area).is_some_and(|rest| rest.starts_with('.'));
        self.files().filter(|(name, _)| of_area(name)).map(|(_, path)| path).collect()
    }

    /// The recordings, with their names.
    fn files(&self) -> impl Iterator<Item = (String, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let named = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
        named.filter(|(name, _)| name.ends_with(SUFFIX))
    }
}
