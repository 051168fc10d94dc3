//! Reads, writes and re-reads every YAML file of the shared charts.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use steersman_yaml::{from_slice, from_str, json, to_string, to_string_pretty};

fn shared() -> PathBuf {
    env::var_os("STEERSMAN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            // Templates are YAML only after rendering, and their output is among the expected files.
            if entry.file_name() != "templates" {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(path);
        }
    }
}

#[test]
fn shared_files_round_trip() {
    let charts = shared().join("charts");
    let mut files = Vec::new();
    collect(&charts, &mut files);
    if files.is_empty() {
        eprintln!("SKIPPED: no YAML files below {}; set STEERSMAN_SHARED", charts.display());
        return;
    }
    let (mut documents, mut broken) = (0, 0);
    for file in &files {
        let text = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        for document in text.split("\n---\n") {
            documents += 1;
            let value = match from_slice(document.as_bytes()) {
                Ok(value) => value,
                // A template outside the usual directory.
                Err(_) if document.contains("{{") => {
                    broken += 1;
                    continue;
                }
                Err(error) => panic!("{}: {error}", file.display()),
            };
            let written = to_string(&value).unwrap();
            assert_eq!(from_str(&written).unwrap(), value, "{}", file.display());
            assert_eq!(to_string(&from_str(&written).unwrap()).unwrap(), written, "{}", file.display());
            let written = json::to_string(&value).unwrap();
            assert_eq!(from_str(&written).unwrap(), value, "{}", file.display());
            assert_eq!(from_str(&to_string_pretty(&value).unwrap()).unwrap(), value, "{}", file.display());
        }
    }
    eprintln!("{} files, {documents} documents, {broken} of them templates", files.len());
    assert!(broken * 20 < documents, "{broken} of {documents}");
}
