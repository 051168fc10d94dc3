//! `steer image`: builds are reproducible, and a real registry accepts the image.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Outcome, Steer, outcome};

struct Place {
    steer: Steer,
    directory: PathBuf,
}

impl Place {
    fn new() -> Self {
        let steer = Steer::new();
        let directory = steer.path("shop-operator");
        std::fs::create_dir(&directory).unwrap();
        let place = Self { steer, directory };
        let chart =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/minimart/helm-charts/minimart");
        place.run(&["init", "--plugins", "helm", "--helm-chart", &chart.display().to_string()]).success();
        // An ELF header without segments suffices as a program for an image.
        let mut header = vec![0; 64];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        header[18] = 0x3e;
        place.steer.write("shop-operator/bin/steer", header);
        place
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        outcome(self.steer.command(arguments).current_dir(&self.directory).stdin(Stdio::null()))
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.directory.join(path)).unwrap()).unwrap()
    }
}

/// A stub for `steer` in images: a debug build of it takes minutes to pack.
const PROGRAM: &str = "bin/steer";

fn digest(said: &str) -> String {
    said.split_whitespace().find(|word| word.starts_with("sha256:")).unwrap().to_owned()
}

#[test]
fn the_same_project_gives_the_same_image() {
    let (one, other) = (Place::new(), Place::new());
    let build =
        ["image", "build", "--tag", "example.com/shop:v1", "--binary", PROGRAM, "--output", "dist/layout"];
    let said = one.run(&build).success();
    assert_eq!(digest(&said), digest(&other.run(&build).success()), "in another directory, at another time");

    let index = one.json("dist/layout/index.json");
    assert_eq!(index["manifests"][0]["digest"], digest(&said));
    assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "v1");
    let blob = |descriptor: &Value| {
        one.json(&format!(
            "dist/layout/blobs/{}",
            descriptor["digest"].as_str().unwrap().replacen(':', "/", 1)
        ))
    };
    let manifest = blob(&index["manifests"][0]);
    let config = blob(&manifest["config"]);
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"][1], "run");
    assert_eq!(config["config"]["WorkingDir"], "/opt/helm");

    // The digest depends only on the content of the image.
    one.steer.write("shop-operator/notes.txt", "beside the image");
    assert_eq!(digest(&one.run(&build).success()), digest(&said));
    one.steer.write("shop-operator/helm-charts/minimart/more.txt", "in the image");
    assert_ne!(digest(&one.run(&build).success()), digest(&said));

    let failed = one.run(&["image", "build", "--binary", "watches.yaml"]).failure();
    assert!(failed.contains("watches.yaml: not a 64-bit Linux program"), "{failed}");
    let failed = one.run(&["image", "push", "dist/layout", "shop:v1"]).failure();
    assert!(failed.contains("name the registry too"), "{failed}");
}

/// The image's program runs with only the unpacked image as its root directory.
#[test]
fn the_image_has_all_that_its_program_needs() {
    let place = Place::new();
    place.run(&["image", "build", "--tag", "shop:v1", "--binary", "/bin/ls"]).success();
    let layout = place.steer.path("unpacked");
    let mut archive = tar::Archive::new(std::fs::File::open(place.directory.join("dist/image.tar")).unwrap());
    archive.unpack(&layout).unwrap();
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(layout.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest[0]["RepoTags"][0], "shop:v1");
    let layer = std::fs::File::open(layout.join(manifest[0]["Layers"][0].as_str().unwrap())).unwrap();
    let root = place.steer.path("root");
    tar::Archive::new(flate2::read::GzDecoder::new(layer)).unpack(&root).unwrap();
    assert!(root.join("opt/helm/helm-charts/minimart/Chart.yaml").exists());
    let bill: Value =
        serde_json::from_slice(&std::fs::read(root.join("usr/share/sbom/shop-operator.spdx.json")).unwrap())
            .unwrap();
    let names: Vec<&str> =
        bill["packages"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["shop-operator", "minimart", "steer"]);
    let program = root.join("usr/local/bin/steer");
    let linker = std::fs::read_dir(root.join("lib64"))
        .ok()
        .and_then(|mut all| all.next())
        .map(|entry| entry.unwrap().path());
    let Some(linker) = linker else {
        // A static program needs no linker.
        return;
    };
    let run = Command::new(linker)
        .arg("--library-path")
        .arg(
            ["lib64", "usr/lib64", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib", "usr/lib"]
                .map(|directory| root.join(directory).display().to_string())
                .join(":"),
        )
        .arg("--inhibit-cache")
        .arg(&program)
        .arg("--version")
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs the real registry, built by Go: make oracle-registry"]
fn a_real_registry_takes_the_image() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = Command::new(root.join("oracles/kubernetes/build")).arg("registry").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let program = String::from_utf8(built.stdout).unwrap();
    let place = Place::new();
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let storage = place.steer.path("registry");
    let config = place.steer.write(
        "registry.yaml",
        format!(
            "version: 0.1\nstorage:\n  filesystem: {{rootdirectory: {}}}\nhttp: {{addr: '{address}'}}\n",
            storage.display()
        ),
    );
    let registry = Command::new(program.trim())
        .arg("serve")
        .arg(config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _registry = Running(registry.unwrap());
    while std::net::TcpStream::connect(address).is_err() {
        std::thread::yield_now();
    }
    let image = format!("{address}/team/shop:v1");
    let said = place.run(&["image", "build", "--tag", &image, "--binary", PROGRAM, "--push"]).success();
    let built = said.trim().rsplit('@').next().unwrap().to_owned();
    // The same through a file.
    place
        .run(&["image", "build", "--tag", &image, "--binary", PROGRAM, "--output", "dist/image.tar"])
        .success();
    let said = place.run(&["image", "push", "dist/image.tar", &format!("{address}/team/shop:v2")]).success();
    assert!(said.ends_with(&format!("@{built}\n")), "{said}");
    let head = Command::new("curl")
        .args(["-sf", "-o", "/dev/null", "-w", "%header{docker-content-digest}", "-H"])
        .arg("Accept: application/vnd.oci.image.manifest.v1+json")
        .arg(format!("http://{address}/v2/team/shop/manifests/v2"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&head.stdout), built);
}

/// Without Docker, `make docker-build` makes the image with steer.
#[cfg(unix)]
#[test]
fn make_builds_the_image_without_docker() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Place::new();
    let script = format!("#!/bin/sh\nexec {} \"$@\" --binary {PROGRAM}\n", env!("CARGO_BIN_EXE_steer"));
    let steer = place.steer.write("steer", script);
    std::fs::set_permissions(&steer, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut make = Command::new("make");
    // Uses the existing stub: a debug build takes minutes to pack.
    make.args([
        "docker-build",
        "--assume-old=build",
        "CONTAINER_TOOL=no-such-program",
        "IMG=example.com/shop:v1",
    ]);
    make.arg(format!("STEER={}", steer.display())).current_dir(&place.directory).stdin(Stdio::null());
    let said = outcome(&mut make).success();
    assert!(said.contains("sha256:"), "{said}");
    let archive = std::fs::File::open(place.directory.join("dist/image.tar")).unwrap();
    let mut archive = tar::Archive::new(archive);
    let names: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert!(names.iter().any(|name| name == "index.json"), "{names:?}");
}
