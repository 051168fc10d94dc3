//! The software bill of materials (SBOM) of an image, in SPDX.

use serde_json::{Value, json};

use super::layer::ImageFile;
use super::timestamp;
use crate::cache::sha256;

/// A package that an image contains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its package URL, such as `pkg:cargo/serde@1.0.0`.
    pub purl: String,
}

/// Returns the packages of a `Cargo.lock`.
pub fn cargo_packages(lock: &str) -> Vec<Package> {
    let value = |line: &str, key: &str| {
        let rest = line.strip_prefix(key)?.trim_start().strip_prefix('=')?;
        Some(rest.trim().trim_matches('"').to_owned())
    };
    let mut packages = Vec::new();
    for section in lock.split("[[package]]").skip(1) {
        let find = |key: &str| section.lines().find_map(|line| value(line, key));
        if let (Some(name), Some(version)) = (find("name "), find("version ")) {
            let purl = format!("pkg:cargo/{name}@{version}");
            packages.push(Package { name, version, purl });
        }
    }
    packages.sort();
    packages.dedup();
    packages
}

pub(super) fn document(name: &str, files: &[ImageFile], packages: &[Package], created: u64) -> Vec<u8> {
    let mut sorted: Vec<&ImageFile> = files.iter().collect();
    sorted.sort_by(|one, other| one.path.cmp(&other.path));
    let listed: Vec<Value> = sorted
        .iter()
        .enumerate()
        .map(|(index, file)| {
            json!({
                "SPDXID": format!("SPDXRef-File-{index}"), "fileName": format!("./{}", file.path),
                "checksums": [{"algorithm": "SHA256", "checksumValue": sha256(&file.data)}],
            })
        })
        .collect();
    let mut parts = packages.to_vec();
    parts.sort();
    let mut all = vec![json!({
        "SPDXID": "SPDXRef-Image", "name": name, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
        "primaryPackagePurpose": "CONTAINER",
    })];
    let mut relations = vec![relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image")];
    for (index, part) in parts.iter().enumerate() {
        let id = format!("SPDXRef-Package-{index}");
        relations.push(relation("SPDXRef-Image", "CONTAINS", &id));
        all.push(json!({
            "SPDXID": id, "name": part.name, "versionInfo": part.version, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": false,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": part.purl}],
        }));
    }
    relations.extend(
        (0..listed.len())
            .map(|index| relation("SPDXRef-Image", "CONTAINS", &format!("SPDXRef-File-{index}"))),
    );
    let content = sha256(json!([listed, all]).to_string().as_bytes());
    let document = json!({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": format!("https://steersman.dev/spdx/{name}-{content}"),
        "creationInfo": {"created": timestamp(created), "creators": [concat!("Tool: steer-", env!("CARGO_PKG_VERSION"))]},
        "packages": all, "files": listed, "relationships": relations,
    });
    format!("{document:#}\n").into_bytes()
}

fn relation(from: &str, kind: &str, to: &str) -> Value {
    json!({"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_a_lock() {
        let lock = "version = 4\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\ndependencies = [\n \"a\",\n]\n\n[[package]]\nname = \"a\"\nversion = \"0.1.0\"\n";
        let names: Vec<String> = cargo_packages(lock).into_iter().map(|package| package.purl).collect();
        assert_eq!(names, ["pkg:cargo/a@0.1.0", "pkg:cargo/b@1.0.0"]);
    }
}
