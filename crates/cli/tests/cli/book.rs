//! The documentation's book has every page, its links are valid, and its reference matches the code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::support::Steer;
use crate::support::markdown::{pages, root};

/// The lines of a document that are not in fences.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of a document's links and images.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        // Text in backquotes contains no links.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        for part in line.split("](").skip(1) {
            found.extend(part.split(')').next().map(str::to_owned));
        }
    }
    found
}

/// The anchors of a document's headings, as mdBook and GitHub make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let count = counts.entry(slug.clone()).or_default();
            *count += 1;
            if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
        })
        .collect()
}

/// A path without `.` and `..`.
fn normalized(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, component| {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
        path
    })
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_page_is_in_the_summary_once() {
    let listed = links(&read("docs/SUMMARY.md"));
    let mut listed: Vec<String> = listed.iter().map(|link| format!("docs/{link}")).collect();
    listed.sort();
    let mut expected = pages();
    expected.retain(|page| page != "docs/SUMMARY.md");
    assert_eq!(listed, expected);
}

#[test]
fn every_link_leads_somewhere() {
    let mut documents = pages();
    documents.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned));
    let mut wrong = Vec::new();
    for document in &documents {
        for link in links(&read(document)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let directory = Path::new(document).parent().unwrap();
            let target =
                if path.is_empty() { PathBuf::from(document) } else { normalized(&directory.join(path)) };
            if !root().join(&target).exists() {
                wrong.push(format!("{document}: there is no {link}"));
            } else if !anchor.is_empty() && !anchors(&read(&target)).contains(anchor) {
                wrong.push(format!("{document}: {} has no heading #{anchor}", target.display()));
            } else if document.starts_with("docs/") && !target.starts_with("docs") {
                wrong.push(format!("{document}: {link} is not in the book"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# One `two`: Three_x\n## One two three_x\n[a](b.md#c) `[no](d)` ![e](f.png)\n```\n[no](g)\n# no\n```\n";
    assert_eq!(links(text), ["b.md#c", "f.png"]);
    assert_eq!(anchors(text), BTreeSet::from(["one-two-three_x".to_owned(), "one-two-three_x-1".to_owned()]));
}

#[test]
fn the_reference_is_what_the_code_says() {
    let steer = Steer::new();
    let made = steer.path("reference");
    steer.run(&["man", "--markdown", made.to_str().unwrap()]).success();
    let files = |directory: &Path| -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, std::fs::read_to_string(&path).unwrap())
            })
            .collect()
    };
    let (expected, kept) = (files(&made), files(&root().join("docs/reference")));
    assert_eq!(expected.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>());
    for (name, text) in &expected {
        assert!(
            kept.get(name) == Some(text),
            "docs/reference/{name} is not what the code says: make reference"
        );
    }
}

/// A reason written as a literal where it is used would be missing in the reference.
#[test]
fn reasons_of_events_come_from_the_tables() {
    for crate_name in ["steersman", "helm-operator", "ansible-operator", "kudo", "kudo-operator"] {
        let mut directories = vec![root().join("crates").join(crate_name).join("src")];
        while let Some(directory) = directories.pop() {
            for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    directories.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                for line in code.take_while(|line| !line.contains("#[cfg(test)]")) {
                    let is_literal = line.contains("context.event(\"") || line.contains("context.warn(\"");
                    assert!(!is_literal, "{}: {}", path.display(), line.trim());
                }
            }
        }
    }
}
