//! The documents of this repository, and their content.

use std::path::{Path, PathBuf};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README.md and the pages of docs, each with its path and text, except for the generated reference.
pub fn documents() -> Vec<(String, String)> {
    let mut paths = vec!["README.md".to_owned()];
    paths.extend(pages().into_iter().filter(|path| !path.starts_with("docs/reference/")));
    paths
        .into_iter()
        .map(|path| (path.clone(), std::fs::read_to_string(root().join(path)).unwrap()))
        .collect()
}

/// All pages of docs.
pub fn pages() -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![root().join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// A fenced block.
#[derive(Debug)]
pub struct Fence {
    /// The line that opens it.
    pub line: usize,
    /// The info string after the fence.
    pub info: String,
    pub text: String,
}

impl Fence {
    pub fn is_shell(&self) -> bool {
        self.info.split_whitespace().next() == Some("sh")
    }
}

/// The fenced blocks of a document.
pub fn fences(document: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let mut lines = document.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let text: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        fences.push(Fence { line: number + 1, info: info.to_owned(), text: text.join("\n") });
    }
    fences
}
