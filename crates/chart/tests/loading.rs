//! Loading charts from directories, archives and memory: contents, rejections and warnings.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use steersman_chart::{Chart, File, Links, LoadOptions};

const V2: &str = "{apiVersion: v2, name: c, version: 0.1.0}";
const V1: &str = "{apiVersion: v1, name: c, version: 0.1.0}";

fn from_files(files: &[(&str, &str)]) -> Chart {
    Chart::from_files(files.iter().map(|(name, text)| File::new(*name, *text))).unwrap()
}

fn names(files: &[File]) -> Vec<&str> {
    files.iter().map(|file| file.name.as_str()).collect()
}

/// Creates a directory with these files.
fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    directory
}

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn refusal(path: &Path) -> String {
    Chart::load(path).unwrap_err().to_string()
}

#[test]
fn requirements_belong_to_the_first_version() {
    let requirements = "dependencies: [{name: s, version: 0.1.0}]";
    let lock = "{digest: d, dependencies: [{name: s, version: 0.1.0}]}";
    let files = |metadata| {
        from_files(&[
            ("Chart.yaml", metadata),
            ("requirements.yaml", requirements),
            ("requirements.lock", lock),
        ])
    };
    let old = files(V1);
    assert_eq!(names(old.files()), ["requirements.yaml", "requirements.lock"]);
    assert!(old.warnings().is_empty());
    let new = files(V2);
    assert!(new.files().is_empty());
    let warnings = new.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].starts_with("Warning: Dependencies are handled in Chart.yaml since apiVersion \"v2\".")
    );
    assert!(warnings[1].starts_with("Warning: Dependency locking is handled in Chart.lock since"));
    for chart in [old, new] {
        assert_eq!(chart.metadata().dependencies.as_ref().map(Vec::len), Some(1));
        assert_eq!(chart.lock().map(|lock| lock.digest.as_str()), Some("d"));
    }
}

#[test]
fn files_are_sorted_by_what_they_are() {
    let chart = from_files(&[
        ("Chart.yaml", V2),
        ("values.yaml", "a: 1"),
        ("values.schema.json", "{}"),
        ("templates/a.yaml", "x"),
        ("templates/b/c.yaml", "y"),
        ("templatesx", "z"),
        ("charts/s/Chart.yaml", "{apiVersion: v2, name: s, version: 0.1.0}"),
        ("charts/s/templates/t.yaml", "t"),
        ("charts/_hidden/Chart.yaml", "nothing"),
        ("charts/.hidden/Chart.yaml", "nothing"),
        ("charts/s-0.1.0.tgz.prov", "signature"),
        ("README.md", "readme"),
        ("crds/c.yaml", "crd"),
    ]);
    assert_eq!(names(chart.templates()), ["templates/a.yaml", "templates/b/c.yaml"]);
    assert_eq!(names(chart.files()), ["templatesx", "charts/s-0.1.0.tgz.prov", "README.md", "crds/c.yaml"]);
    assert_eq!(chart.schema(), Some(&b"{}"[..]));
    assert_eq!(chart.file("README.md"), Some(&b"readme"[..]));
    assert_eq!(chart.file("nope"), None);
    let [sub] = chart.subcharts() else { panic!("not one subchart") };
    assert_eq!((sub.name(), names(sub.templates())), ("s", vec!["templates/t.yaml"]));
    assert_eq!(chart.all_files().len(), 13);
}

#[test]
fn a_byte_order_mark_is_left_out() {
    let metadata = [b"\xEF\xBB\xBF", V2.as_bytes()].concat();
    let found = directory(&[("Chart.yaml", &metadata), ("a.txt", b"\xEF\xBB\xBFa"), ("b.txt", b"\xEF\xBBb")]);
    let chart = Chart::load(found.path()).unwrap();
    assert_eq!(chart.file("a.txt"), Some(&b"a"[..]));
    assert_eq!(chart.file("b.txt"), Some(&b"\xEF\xBBb"[..]));
    let packed = archive(&[("c/Chart.yaml", metadata.as_slice()), ("c/a.txt", b"\xEF\xBB\xBFa")]);
    assert_eq!(Chart::from_archive(&packed).unwrap().file("a.txt"), Some(&b"a"[..]));
}

#[test]
fn files_are_loaded_up_to_five_mebibytes() {
    let large = vec![b'x'; 5 * 1024 * 1024];
    let larger = vec![b'x'; 5 * 1024 * 1024 + 1];
    assert!(Chart::load(directory(&[("Chart.yaml", V2.as_bytes()), ("f", &large)]).path()).is_ok());
    let found = directory(&[("Chart.yaml", V2.as_bytes()), ("f", &larger)]);
    assert_eq!(refusal(found.path()), "chart file \"f\" is larger than the maximum file size 5242880");
    assert!(Chart::from_archive(&archive(&[("c/Chart.yaml", V2.as_bytes()), ("c/f", &large)])).is_ok());
    let error =
        Chart::from_archive(&archive(&[("c/Chart.yaml", V2.as_bytes()), ("c/f", &larger)])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "decompressed chart file \"c/f\" is larger than the maximum file size 5242880"
    );
}

#[test]
fn what_is_no_archive_is_told() {
    let found = directory(&[
        ("a.yaml", b"a: 1"),
        ("a.yml", b"a: 1"),
        ("a.txt", b"text"),
        ("a.zip", b"PK\x03\x04"),
        ("empty.tgz", b""),
        ("good.tgz", &archive(&[("c/Chart.yaml", V2.as_bytes())])),
    ]);
    let path = |name: &str| found.path().join(name);
    for (name, end) in [
        ("a.yaml", "seems to be a YAML file, but expected a gzipped archive"),
        ("a.yml", "seems to be a YAML file, but expected a gzipped archive"),
        ("a.txt", "does not appear to be a gzipped archive; got 'application/octet-stream'"),
        ("a.zip", "does not appear to be a gzipped archive; got 'application/zip'"),
        ("empty.tgz", "does not appear to be a gzipped archive; got 'application/octet-stream'"),
        ("nope", "no such file or directory"),
    ] {
        let error = refusal(&path(name));
        assert!(error.ends_with(end), "{name}: {error}");
    }
    assert_eq!(Chart::load(path("good.tgz")).unwrap().name(), "c");
    let none = archive(&[("c/", b"")]);
    assert_eq!(Chart::from_archive(&none).unwrap_err().to_string(), "no files in chart archive");
    assert_eq!(Chart::from_archive(b"").unwrap_err().to_string(), "EOF");
    let mut broken = archive(&[("c/Chart.yaml", V2.as_bytes())]);
    broken.truncate(broken.len() / 2);
    assert!(Chart::from_archive(&broken).is_err());
    let mut plain = GzEncoder::new(Vec::new(), Compression::fast());
    plain.write_all(b"no tar at all").unwrap();
    assert!(Chart::from_archive(&plain.finish().unwrap()).is_err());
}

#[test]
fn a_packed_subchart_is_named_after_its_file() {
    let packed = archive(&[("s/Chart.yaml", b"{apiVersion: v2, name: s, version: 0.1.0}")]);
    let files = |name: &str| {
        let packed = File::new(name, packed.clone());
        Chart::from_files([File::new("Chart.yaml", V2), packed])
    };
    assert_eq!(files("charts/s-0.1.0.tgz").unwrap().subcharts()[0].name(), "s");
    let error = files("charts/s.tgz/inner").unwrap_err().to_string();
    assert!(error.contains("expected s.tgz, got s.tgz/inner"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_with_a_warning_or_kept_inside() {
    let outside = directory(&[("o.txt", b"outside")]);
    let found = directory(&[("Chart.yaml", V2.as_bytes()), ("real/a.txt", b"inside")]);
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, found.path().join(name)).unwrap();
    link(&found.path().join("real"), "linked");
    let load = |links| Chart::load_with(found.path(), LoadOptions { links });
    let chart = load(Links::Inside).unwrap();
    assert_eq!(names(chart.files()), ["linked/a.txt", "real/a.txt"]);
    assert_eq!(chart.warnings().len(), 1);
    assert!(chart.warnings()[0].starts_with("found symbolic link in path: "), "{:?}", chart.warnings());
    link(&outside.path().join("o.txt"), "o.txt");
    assert_eq!(load(Links::Follow).unwrap().file("o.txt"), Some(&b"outside"[..]));
    let error = load(Links::Inside).unwrap_err().to_string();
    assert!(error.contains("points outside the chart directory"), "{error}");
    std::fs::remove_file(found.path().join("o.txt")).unwrap();
    link(Path::new("/nowhere/at/all"), "gone");
    let error = load(Links::Follow).unwrap_err().to_string();
    assert!(error.starts_with("error evaluating symlink "), "{error}");
}

#[test]
fn directories_nest_to_a_depth() {
    let nested = |depth: usize| {
        let path = "d/".repeat(depth) + "f.txt";
        directory(&[("Chart.yaml", V2.as_bytes()), (&path, b"x")])
    };
    assert!(Chart::load(nested(64).path()).is_ok());
    let error = refusal(nested(65).path());
    assert!(error.starts_with("directories are nested deeper than 64 levels"), "{error}");
}
