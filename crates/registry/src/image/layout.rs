//! Images on disk: OCI layouts, as directories and archives.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Value, json};
use tar::{Archive, Builder, Header};

use super::{Descriptor, INDEX, Image, MANIFEST};
use crate::Error;
use crate::cache::{is_sha256, sha256, write_atomically};

/// The maximum size of a blob that is read: executables are a few dozen MiB.
const MAX_BLOB: u64 = 2 << 30;
/// The maximum number of archive members that are read.
const MAX_FILES: usize = 10_000;

const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// Returns the files of a layout, sorted by name.
fn files(image: &Image, tag: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> =
        image.blobs.iter().map(|(digest, data)| (blob_path(digest), data.clone())).collect();
    let mut root = image.root.json();
    root["annotations"] =
        json!({"io.containerd.image.name": tag, "org.opencontainers.image.ref.name": reference(tag)});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [root]});
    files.insert("oci-layout".into(), LAYOUT.into());
    files.insert("index.json".into(), index.to_string().into_bytes());
    // The file that older engines read: it describes the first architecture only.
    let manifest = image.manifests.first().and_then(|manifest| image.blobs.get(&manifest.digest));
    if let Some(manifest) = manifest.and_then(|data| serde_json::from_slice::<Value>(data).ok()) {
        let path = |descriptor: &Value| blob_path(descriptor["digest"].as_str().unwrap_or_default());
        let layers: Vec<String> = manifest["layers"].as_array().into_iter().flatten().map(path).collect();
        let legacy = json!([{"Config": path(&manifest["config"]), "RepoTags": [tag], "Layers": layers}]);
        files.insert("manifest.json".into(), legacy.to_string().into_bytes());
    }
    files
}

fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replacen(':', "/", 1))
}

/// The tag of a reference.
fn reference(tag: &str) -> &str {
    tag.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/')).unwrap_or("latest")
}

pub(super) fn write_directory(image: &Image, path: &Path, tag: &str) -> Result<(), Error> {
    for (name, data) in files(image, tag) {
        write_atomically(&path.join(name), &data)?;
    }
    Ok(())
}

pub(super) fn write_tar(image: &Image, path: &Path, tag: &str) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::file(path, error);
    let mut archive = Builder::new(Vec::new());
    for (name, data) in files(image, tag) {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(data.len() as u64);
        archive.append_data(&mut header, &name, &data[..]).map_err(failed)?;
    }
    write_atomically(path, &archive.into_inner().map_err(failed)?)
}

pub(super) fn read(path: &Path) -> Result<Image, Error> {
    let broken = |reason: String| Error::Image(format!("{}: {reason}", path.display()));
    let mut get = files_at(path)?;
    let mut file =
        |name: &str| get(name)?.ok_or_else(|| broken(format!("not an OCI layout: {name} not found")));
    let parse = |data: &[u8]| {
        serde_json::from_slice::<Value>(data).map_err(|error| broken(format!("not an OCI layout: {error}")))
    };
    let index = parse(&file("index.json")?)?;
    let listed = index["manifests"].as_array().cloned().unwrap_or_default();
    let [root] = listed.as_slice() else {
        return Err(broken(format!("expected one image, found {}", listed.len())));
    };
    let mut blobs = BTreeMap::new();
    let mut take = |descriptor: &Value| -> Result<(Descriptor, Vec<u8>), Error> {
        let descriptor = descriptor_of(descriptor).map_err(broken)?;
        let data = file(&blob_path(&descriptor.digest))?;
        let actual = sha256(&data);
        if descriptor.digest != format!("sha256:{actual}") {
            let expected = descriptor.digest.trim_start_matches("sha256:").to_owned();
            return Err(Error::Digest { url: path.display().to_string(), expected, actual });
        }
        blobs.insert(descriptor.digest.clone(), data.clone());
        Ok((Descriptor { size: data.len() as u64, ..descriptor }, data))
    };
    let (root, data) = take(root)?;
    let manifests: Vec<Value> = if root.media_type == INDEX {
        parse(&data)?["manifests"].as_array().cloned().unwrap_or_default()
    } else {
        vec![root.json()]
    };
    let mut found = Vec::new();
    for manifest in &manifests {
        let (descriptor, data) = take(manifest)?;
        if descriptor.media_type != MANIFEST {
            return Err(broken(format!("unsupported manifest type {}", descriptor.media_type)));
        }
        let manifest = parse(&data)?;
        for part in
            [&manifest["config"]].into_iter().chain(manifest["layers"].as_array().into_iter().flatten())
        {
            take(part)?;
        }
        found.push(descriptor);
    }
    Ok(Image { blobs, root, manifests: found })
}

fn descriptor_of(value: &Value) -> Result<Descriptor, String> {
    let digest = value["digest"].as_str().unwrap_or_default();
    if !digest.strip_prefix("sha256:").is_some_and(is_sha256) {
        return Err(format!("{digest:?} is not a sha256 digest"));
    }
    Ok(Descriptor {
        media_type: value["mediaType"].as_str().unwrap_or_default().to_owned(),
        digest: digest.to_owned(),
        size: value["size"].as_u64().unwrap_or_default(),
        architecture: value.pointer("/platform/architecture").and_then(Value::as_str).map(str::to_owned),
    })
}

/// Returns a file of a layout by name.
type Files = Box<dyn FnMut(&str) -> Result<Option<Vec<u8>>, Error>>;

fn files_at(path: &Path) -> Result<Files, Error> {
    if path.is_dir() {
        let root = path.to_owned();
        return Ok(Box::new(move |name| {
            let path = root.join(name);
            match fs::read(&path) {
                Ok(data) => Ok(Some(data)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::file(&path, error)),
            }
        }));
    }
    let failed = |error: std::io::Error| Error::file(path, error);
    let mut archive = Archive::new(fs::File::open(path).map_err(failed)?);
    let mut files = BTreeMap::new();
    for entry in archive.entries().map_err(failed)?.take(MAX_FILES) {
        let mut entry = entry.map_err(failed)?;
        let name = entry.path().map_err(failed)?.to_string_lossy().into_owned();
        let size = entry.size();
        if size > MAX_BLOB {
            return Err(Error::TooLarge { url: format!("{} in {}", name, path.display()), limit: MAX_BLOB });
        }
        let mut data = Vec::new();
        entry.by_ref().take(MAX_BLOB).read_to_end(&mut data).map_err(failed)?;
        files.insert(name, data);
    }
    Ok(Box::new(move |name| Ok(files.get(name).cloned())))
}
