//! OCI images, built without a container engine and reproducibly: the same input gives the same digest.

mod elf;
mod layer;
mod layout;
mod sbom;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use self::elf::{Executable, shared_libraries};
pub use self::layer::ImageFile;
pub use self::sbom::{Package, cargo_packages};
use crate::Error;
use crate::cache::sha256;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The user that programs run as: `nonroot`, as in distroless images.
const USER: u32 = 65532;

/// The content of an image for one architecture.
#[derive(Clone, Debug, Default)]
pub struct ImageSpec {
    /// The architecture as Go names it, such as `amd64`.
    pub architecture: String,
    /// The files, in any order.
    pub files: Vec<ImageFile>,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// The environment. Default: only `PATH`.
    pub env: BTreeMap<String, String>,
    /// The working directory. Default: the root.
    pub working_dir: String,
    /// Labels. Default: none.
    pub labels: BTreeMap<String, String>,
    /// The packages for the software bill of materials (SBOM). Default: none.
    pub packages: Vec<Package>,
    /// The modification time of all files, in seconds since 1970. Default: 0.
    pub created: u64,
}

/// An image: manifests, configurations and layers by their digests.
#[derive(Clone, Debug)]
pub struct Image {
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    /// The manifest, or the index of several.
    pub(crate) root: Descriptor,
    /// The manifests in the index; the root itself if there is only one.
    pub(crate) manifests: Vec<Descriptor>,
}

/// An OCI content descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    /// The architecture of a manifest.
    pub(crate) architecture: Option<String>,
}

impl Descriptor {
    fn json(&self) -> Value {
        let mut value = json!({"mediaType": self.media_type, "digest": self.digest, "size": self.size});
        if let Some(architecture) = &self.architecture {
            value["platform"] = json!({"architecture": architecture, "os": "linux"});
        }
        value
    }
}

impl Image {
    /// Builds an image, for several architectures if there is more than one specification.
    ///
    /// # Errors
    /// Fails if there is no specification, or an archive cannot hold a file's name.
    pub fn build(name: &str, specs: &[ImageSpec]) -> Result<Self, Error> {
        let mut blobs = BTreeMap::new();
        let mut manifests = Vec::new();
        for spec in specs {
            manifests.push(add_manifest(name, spec, &mut blobs)?);
        }
        let root = match manifests.as_slice() {
            [] => return Err(Error::Image("no program to build an image from".into())),
            [one] => Descriptor { architecture: None, ..one.clone() },
            several => {
                let all: Vec<Value> = several.iter().map(Descriptor::json).collect();
                let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": all});
                put(&mut blobs, INDEX, index.to_string().into_bytes())
            }
        };
        Ok(Self { blobs, root, manifests })
    }

    /// Returns the digest under which a registry stores the image.
    pub fn digest(&self) -> &str {
        &self.root.digest
    }

    /// Writes the image as an OCI layout, a directory. A path that ends with `.tar` becomes an archive, which `docker load`
    /// accepts too.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn write(&self, path: &Path, tag: &str) -> Result<(), Error> {
        if path.extension().is_some_and(|extension| extension == "tar") {
            layout::write_tar(self, path, tag)
        } else {
            layout::write_directory(self, path, tag)
        }
    }

    /// Reads an OCI layout, written by [`Image::write`] or another program.
    ///
    /// # Errors
    /// Fails if it is not the layout of a single image, or if a digest does not match.
    pub fn read(path: &Path) -> Result<Self, Error> {
        layout::read(path)
    }
}

fn put(blobs: &mut BTreeMap<String, Vec<u8>>, media_type: &str, data: Vec<u8>) -> Descriptor {
    let digest = format!("sha256:{}", sha256(&data));
    let size = data.len() as u64;
    blobs.insert(digest.clone(), data);
    Descriptor { media_type: media_type.to_owned(), digest, size, architecture: None }
}

fn add_manifest(
    name: &str,
    spec: &ImageSpec,
    blobs: &mut BTreeMap<String, Vec<u8>>,
) -> Result<Descriptor, Error> {
    let base = [
        ImageFile::new(
            "etc/passwd",
            format!(
                "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/sbin/nologin\n"
            ),
        ),
        ImageFile::new("etc/group", format!("root:x:0:\nnonroot:x:{USER}:\n")),
    ];
    let mut files: Vec<ImageFile> = base.into_iter().chain(spec.files.iter().cloned()).collect();
    let bill = sbom::document(name, &files, &spec.packages, spec.created);
    let bill_path = format!("usr/share/sbom/{name}.spdx.json");
    files.push(ImageFile::new(&bill_path, bill));
    let tar = layer::tar(&files, spec.created)?;
    let diff_id = format!("sha256:{}", sha256(&tar));
    let layer = put(blobs, LAYER, layer::gzip(&tar)?);
    let created = timestamp(spec.created);
    let mut env = vec!["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()];
    env.extend(spec.env.iter().map(|(key, value)| format!("{key}={value}")));
    let mut config = json!({
        "created": created, "architecture": spec.architecture, "os": "linux",
        "config": {"User": format!("{USER}:{USER}"), "Env": env, "Entrypoint": spec.entrypoint, "Labels": spec.labels},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": created, "created_by": "steer image build"}],
    });
    if !spec.working_dir.is_empty() {
        config["config"]["WorkingDir"] = spec.working_dir.as_str().into();
    }
    let config = put(blobs, CONFIG, config.to_string().into_bytes());
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config.json(), "layers": [layer.json()],
        "annotations": {"org.opencontainers.image.created": created, "dev.steersman.image.sbom": format!("/{bill_path}")},
    });
    let mut manifest = put(blobs, MANIFEST, manifest.to_string().into_bytes());
    manifest.architecture = Some(spec.architecture.clone());
    Ok(manifest)
}

fn timestamp(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or_default();
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

/// Collects the files of a directory tree, placed in a directory of the image.
///
/// # Errors
/// Fails if a file cannot be read, or an entry is neither a file nor a directory.
pub fn files_of(directory: &Path, place: &str) -> Result<Vec<ImageFile>, Error> {
    let mut files = Vec::new();
    let mut left: Vec<(PathBuf, String)> = vec![(directory.to_owned(), place.trim_matches('/').to_owned())];
    while let Some((path, place)) = left.pop() {
        let entries = std::fs::read_dir(&path).map_err(|source| Error::file(&path, source))?;
        for entry in entries {
            let entry = entry.map_err(|source| Error::file(&path, source))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let place = format!("{place}/{name}");
            let kind = entry.file_type().map_err(|source| Error::file(entry.path(), source))?;
            if kind.is_dir() {
                left.push((entry.path(), place));
            } else if kind.is_file() {
                let data = std::fs::read(entry.path()).map_err(|source| Error::file(entry.path(), source))?;
                files.push(ImageFile::new(&place, data));
            } else {
                return Err(Error::Image(format!(
                    "{} is neither a file nor a directory",
                    entry.path().display()
                )));
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(architecture: &str) -> ImageSpec {
        ImageSpec {
            architecture: architecture.into(),
            files: vec![
                ImageFile::new("opt/b", "b"),
                ImageFile::new("opt/a", "a"),
                ImageFile::executable("manager", vec![1, 2, 3]),
            ],
            entrypoint: vec!["/manager".into()],
            ..ImageSpec::default()
        }
    }

    #[test]
    fn the_same_input_gives_the_same_digest() {
        let one = Image::build("shop", &[spec("amd64")]).unwrap();
        let mut other = spec("amd64");
        other.files.reverse();
        assert_eq!(one.digest(), Image::build("shop", &[other.clone()]).unwrap().digest());
        other.files[0].data.push(4);
        assert_ne!(one.digest(), Image::build("shop", &[other]).unwrap().digest());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        for specs in [vec![spec("amd64")], vec![spec("amd64"), spec("arm64")]] {
            let image = Image::build("shop", &specs).unwrap();
            for name in ["image.tar", "layout"] {
                let path = directory.path().join(format!("{}-{name}", specs.len()));
                image.write(&path, "example.com/shop:v1").unwrap();
                let read = Image::read(&path).unwrap();
                assert_eq!(read.digest(), image.digest());
                assert_eq!(read.blobs, image.blobs);
                assert_eq!(read.manifests.len(), specs.len());
            }
        }
        // Content with a digest mismatch is rejected.
        let path = directory.path().join("1-layout");
        let image = Image::read(&path).unwrap();
        let blob = image.blobs.keys().next().unwrap().replacen(':', "/", 1);
        std::fs::write(path.join("blobs").join(blob), "other").unwrap();
        assert!(matches!(Image::read(&path), Err(Error::Digest { .. })));
    }

    #[test]
    fn programs_do_not_run_as_root_and_the_bill_names_what_is_in() {
        let mut spec = spec("amd64");
        spec.packages = vec![Package {
            name: "serde".into(),
            version: "1.0.0".into(),
            purl: "pkg:cargo/serde@1.0.0".into(),
        }];
        let image = Image::build("shop", &[spec]).unwrap();
        let json = |data: &[u8]| serde_json::from_slice::<Value>(data).unwrap();
        let manifest = json(&image.blobs[image.digest()]);
        let config = json(&image.blobs[manifest["config"]["digest"].as_str().unwrap()]);
        assert_eq!(config["config"]["User"], "65532:65532");
        let layer = &image.blobs[manifest["layers"][0]["digest"].as_str().unwrap()];
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&layer[..]));
        let mut bill = None;
        let mut paths = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            assert_eq!(entry.header().mtime().unwrap(), 0, "{path}");
            if path.ends_with(".spdx.json") {
                bill = Some(serde_json::from_reader::<_, Value>(&mut entry).unwrap());
            }
            paths.push(path);
        }
        let mut sorted = paths.clone();
        sorted.sort();
        assert_eq!(paths, sorted);
        let bill = bill.unwrap();
        assert_eq!(bill["spdxVersion"], "SPDX-2.3");
        assert_eq!(bill["packages"][1]["name"], "serde");
        assert!(bill["files"].as_array().unwrap().iter().any(|file| file["fileName"] == "./manager"));
    }
}
