//! Recorded answers of the original programs. With them, `make test` can compare where those are not installed.
//!
//! A recording is a file of compressed JSON lines, one per case, named after its area and the program that answered, such as
//! `cel.kubernetes-1.36.3.jsonl.gz`. `make recordings` rewrites them. For tests only: I/O and parse errors panic.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The suffix of a recording's file name.
const SUFFIX: &str = ".jsonl.gz";

/// Whether this run writes recordings, that is, `STEERSMAN_RECORD` is set.
#[must_use]
pub fn recording() -> bool {
    std::env::var_os("STEERSMAN_RECORD").is_some()
}

/// Returns the version of a module in a go.mod, without the `v`.
///
/// # Panics
///
/// If go.mod does not require the module.
#[must_use]
pub fn required_version(go_mod: &str, module: &str) -> String {
    let version = go_mod.lines().find_map(|line| line.trim().strip_prefix(module)?.trim().strip_prefix('v'));
    let version = version.unwrap_or_else(|| panic!("go.mod does not require {module}"));
    version.split_whitespace().next().unwrap_or_default().to_owned()
}

/// The directory of a package's recordings, `tests/recorded` in the package.
#[derive(Clone, Debug)]
pub struct Recordings {
    folder: PathBuf,
}

impl Recordings {
    /// Returns the recordings of the package in a directory, `env!("CARGO_MANIFEST_DIR")`.
    #[must_use]
    pub fn of(package: &str) -> Self {
        Self { folder: Path::new(package).join("tests/recorded") }
    }

    /// Returns the names of all areas, sorted.
    #[must_use]
    pub fn areas(&self) -> Vec<String> {
        let names = self.files().map(|(name, _)| name);
        let mut areas: Vec<String> =
            names.filter_map(|name| Some(name.split_once('.')?.0.to_owned())).collect();
        areas.sort();
        areas
    }

    /// Reads the cases of an area, recorded from any program.
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

    /// Replaces the recording of an area by answers of `program`, such as `kubernetes-1.36.3`.
    ///
    /// The output is reproducible.
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

    /// Returns the recordings, with their names.
    fn files(&self) -> impl Iterator<Item = (String, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let named = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
        named.filter(|(name, _)| name.ends_with(SUFFIX))
    }
}
