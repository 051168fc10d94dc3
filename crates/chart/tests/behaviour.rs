//! Guarantees for charts, and limits on them: purity, helpful errors, hostile input.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use steersman_chart::{
    Chart, Environment, Error, File, HookEvent, Links, LoadOptions, OutputOptions, RenderOptions, Rendered,
    Seeded, ValueOptions, Values,
};

const CHART: &str = "{apiVersion: v2, name: c, version: 0.1.0}";

fn chart(files: &[(&str, &str)]) -> Chart {
    let own = files.iter().map(|(name, text)| File::new(*name, *text));
    Chart::from_files(own.chain([File::new("Chart.yaml", CHART)])).unwrap()
}

fn seeded() -> Seeded {
    Seeded::new(7, SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}

fn render(chart: &Chart) -> Result<Rendered, Error> {
    chart.render(&Values::new(), &RenderOptions::default(), seeded())
}

fn output(chart: &Chart) -> String {
    render(chart).unwrap().output(&OutputOptions::default(), None).unwrap()
}

#[test]
fn a_seed_renders_the_same_twice() {
    let chart = chart(&[(
        "templates/a.yaml",
        "a: {{ randAlphaNum 20 }}\nb: {{ uuidv4 }}\nc: {{ now | date \"2006-01-02\" }}\nd: {{ shuffle \"abcdefgh\" }}\n",
    )]);
    let first = output(&chart);
    assert_eq!(first, output(&chart));
    assert!(first.contains("c: 2023-11-14"), "{first}");
    let other =
        chart.render(&Values::new(), &RenderOptions::default(), Seeded::new(8, SystemTime::UNIX_EPOCH));
    assert_ne!(first, other.unwrap().output(&OutputOptions::default(), None).unwrap());
}

#[test]
fn renders_leave_the_chart_as_it_was_and_run_side_by_side() {
    let chart = Arc::new(chart(&[
        ("values.yaml", "list: [a]\nmap: {x: 1}\n"),
        (
            "templates/a.yaml",
            "{{- $_ := set .Values \"list\" (append .Values.list \"b\") }}{{- $_ := set .Values.map \"self\" .Values }}\n\
             list: {{ .Values.list | join \",\" }}\n",
        ),
    ]));
    let renders: Vec<_> = (0..8)
        .map(|_| {
            let chart = Arc::clone(&chart);
            std::thread::spawn(move || (0..20).map(|_| output(&chart)).collect::<Vec<_>>())
        })
        .collect();
    for render in renders {
        for output in render.join().unwrap() {
            assert_eq!(output, "---\n# Source: c/templates/a.yaml\nlist: a,b\n");
        }
    }
}

#[test]
fn lookups_come_from_the_environment() {
    struct Cluster;
    impl Environment for Cluster {
        fn now(&mut self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }
        fn fill_random(&mut self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
        fn resolve_host(&mut self, _: &str) -> Vec<String> {
            Vec::new()
        }
        fn lookup(
            &mut self,
            api_version: &str,
            kind: &str,
            namespace: &str,
            name: &str,
        ) -> Result<Option<serde_json::Value>, String> {
            match name {
                "web" => Ok(Some(serde_json::json!({ "kind": kind, "spec": { "replicas": 3 } }))),
                "broken" => Err(format!("cannot reach {api_version} in {namespace}")),
                _ => Ok(None),
            }
        }
    }
    let text = "replicas: {{ add (lookup \"apps/v1\" \"Deployment\" \"ns\" \"web\").spec.replicas 1 }}\n\
                none: {{ lookup \"v1\" \"Secret\" \"ns\" \"gone\" | toJson }}\n";
    let good = chart(&[("templates/a.yaml", text)]);
    let rendered = good.render(&Values::new(), &RenderOptions::default(), Cluster).unwrap();
    assert_eq!(rendered.manifests[0].content, "replicas: 4\nnone: {}");
    let bad = chart(&[("templates/a.yaml", "{{ lookup \"v1\" \"Secret\" \"ns\" \"broken\" }}")]);
    let error = bad.render(&Values::new(), &RenderOptions::default(), Cluster).unwrap_err();
    assert!(error.to_string().ends_with("error calling lookup: cannot reach v1 in ns"), "{error}");
}

#[test]
fn a_missing_key_is_named_with_its_nearest_neighbour() {
    let chart = chart(&[
        ("values.yaml", "images: {repository: x}\n"),
        ("templates/_h.tpl", "{{ define \"h\" }}\n  image: {{ .Values.image.repository }}:1\n{{ end }}"),
        ("templates/a.yaml", "kind: A\nspec: {{ include \"h\" . }}\n"),
    ]);
    let error = render(&chart).unwrap_err();
    let diagnostic = error.diagnostic().unwrap();
    assert_eq!(diagnostic.message, "nil pointer evaluating interface {}.repository");
    assert_eq!((diagnostic.location.file.as_str(), diagnostic.location.line), ("c/templates/_h.tpl", 2));
    let source = diagnostic.source.as_deref().unwrap();
    assert_eq!(source, "  image: {{ .Values.image.repository }}:1");
    assert_eq!(&source[diagnostic.span.clone()], "image");
    assert_eq!(diagnostic.span.start, "  image: {{ .Values.".len());
    assert_eq!(diagnostic.label, "not set in values.yaml or by -f/--set");
    assert_eq!(diagnostic.chain.len(), 1);
    assert_eq!((diagnostic.chain[0].file.as_str(), diagnostic.chain[0].line), ("c/templates/a.yaml", 2));
    assert_eq!(
        diagnostic.help.as_deref(),
        Some("values.yaml has `images.repository`; did you mean .Values.images.repository?")
    );
}

#[test]
fn an_unknown_function_is_named_with_its_nearest_neighbour() {
    let chart = chart(&[("templates/a.yaml", "kind: A\nname: {{ .Release.Name | qoute }}\n")]);
    let error = render(&chart).unwrap_err();
    let diagnostic = error.diagnostic().unwrap();
    assert_eq!(&diagnostic.source.as_deref().unwrap()[diagnostic.span.clone()], "qoute");
    assert_eq!(diagnostic.help.as_deref(), Some("did you mean the function `quote`?"));
}

#[test]
fn an_endless_include_ends() {
    let chart = chart(&[
        ("templates/_h.tpl", "{{ define \"h\" }}{{ include \"h\" . }}{{ end }}"),
        ("templates/a.yaml", "{{ include \"h\" . }}"),
    ]);
    let message = render(&chart).unwrap_err().to_string();
    let end = "error calling include: rendering template has a nested reference name: h: unable to execute template";
    assert!(message.ends_with(end), "{}", message.len());
    assert_eq!(message.matches("error calling include").count(), 1002);
}

#[test]
fn an_endless_tpl_ends() {
    let chart = chart(&[
        ("values.yaml", "again: '{{ tpl .Values.again . }}'\n"),
        ("templates/a.yaml", "{{ tpl .Values.again . }}"),
    ]);
    // Each level quotes the one below it; it only matters that this ends.
    assert!(render(&chart).is_err());
}

#[test]
fn imports_that_hold_themselves_end() {
    let files = [
        (
            "Chart.yaml",
            "{apiVersion: v2, name: c, version: 0.1.0, dependencies: [{name: s, version: 1.0.0, repository: '', \
             import-values: [{child: a, parent: .}, {child: a, parent: b}]}]}",
        ),
        ("charts/s/Chart.yaml", "{apiVersion: v2, name: s, version: 1.0.0}"),
        ("charts/s/values.yaml", "a: {b: {x: 1}}"),
    ];
    let chart = Chart::from_files(files.map(|(name, text)| File::new(name, text))).unwrap();
    let error = render(&chart).unwrap_err();
    assert_eq!(error.to_string(), "import-values of s are cyclic or too large");
}

#[test]
fn output_can_be_narrowed_and_changed() {
    let chart = chart(&[
        ("crds/x.yaml", "kind: CustomResourceDefinition\n"),
        ("templates/a.yaml", "kind: A\n---\nkind: B\n"),
        ("templates/sub/b.yaml", "kind: C\n"),
        ("templates/test.yaml", "kind: Pod\nmetadata: {annotations: {helm.sh/hook: test}}\n"),
    ]);
    let rendered = render(&chart).unwrap();
    assert_eq!(rendered.hooks[0].events, [HookEvent::Test]);
    let show = |options: OutputOptions| rendered.output(&options, None).map_err(|error| error.to_string());
    let only = |path: &str| OutputOptions { show_only: vec![path.into()], ..OutputOptions::default() };
    assert_eq!(
        show(only("templates/a.yaml")).unwrap(),
        "---\n# Source: c/templates/a.yaml\nkind: A\n---\n# Source: c/templates/a.yaml\nkind: B\n"
    );
    assert_eq!(show(only("templates/*/*.yaml")).unwrap(), "---\n# Source: c/templates/sub/b.yaml\nkind: C\n");
    assert_eq!(show(only("nope")).unwrap_err(), "could not find template nope in chart");
    assert!(!show(OutputOptions { skip_tests: true, ..OutputOptions::default() }).unwrap().contains("Pod"));
    assert!(!show(OutputOptions { no_hooks: true, ..OutputOptions::default() }).unwrap().contains("Pod"));
    let with_crds = show(OutputOptions { include_crds: true, ..OutputOptions::default() }).unwrap();
    assert!(with_crds.starts_with("---\n# Source: c/crds/x.yaml\nkind: CustomResourceDefinition\n"));
    let mut shout = |text: &str| Ok(text.to_uppercase());
    let changed = rendered.output(&OutputOptions::default(), Some(&mut shout)).unwrap();
    assert!(changed.contains("KIND: A") && changed.contains("kind: Pod"), "{changed}");
    let files = rendered.output_files(&OutputOptions::default());
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        ["c/templates/a.yaml", "c/templates/a.yaml", "c/templates/sub/b.yaml", "c/templates/test.yaml"]
    );
}

#[test]
fn values_come_together_in_the_order_of_flags() {
    let options = ValueOptions {
        files: vec!["a".into(), "b".into()],
        json: vec!["j={\"k\":1}".into()],
        set: vec!["x.w=5,list={a,b}".into()],
        set_string: vec!["s=5".into()],
        set_file: vec!["f=file".into()],
        set_literal: vec!["l=a,b={c}".into()],
    };
    let values = options
        .merge(&mut |name| match name {
            "a" => Ok(b"x: {w: 1, z: 2}".to_vec()),
            "b" => Ok(b"x: {z: null}".to_vec()),
            name => Ok(format!("content of {name}").into_bytes()),
        })
        .unwrap();
    assert_eq!(
        values.to_json(),
        serde_json::json!({
            "x": { "w": 5, "z": null }, "list": ["a", "b"], "j": { "k": 1 }, "s": "5", "f": "content of file",
            "l": "a,b={c}",
        })
    );
    let broken = ValueOptions { set: vec!["a".into()], ..ValueOptions::default() };
    let error = broken.merge(&mut |_| Err(String::new())).unwrap_err();
    assert_eq!(error.to_string(), "failed parsing --set data: key \"a\" has no value");
}

/// Builds a .tgz of these entries, with names unchanged.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, content) in entries {
        let mut header = tar::Header::new_gnu();
        // Set directly, because the builder rejects names that leave the directory.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

#[test]
fn archives_load_and_cannot_escape() {
    let good = archive(&[
        ("c/Chart.yaml", b"\xEF\xBB\xBF{apiVersion: v2, name: c, version: 0.1.0}"),
        ("c/templates/a.yaml", b"kind: A"),
    ]);
    assert_eq!(output(&Chart::from_archive(&good).unwrap()), "---\n# Source: c/templates/a.yaml\nkind: A\n");
    let windows = archive(&[("c\\Chart.yaml", CHART.as_bytes())]);
    assert_eq!(Chart::from_archive(&windows).unwrap().name(), "c");
    let cases: [(&str, &str); 6] = [
        ("c/../../etc/passwd", "chart illegally references parent directory"),
        ("c//etc/passwd", "chart illegally contains absolute paths"),
        ("passwd", "chart illegally contains content outside the base directory: \"passwd\""),
        ("c\\c:\\x", "chart contains illegally named files"),
        ("Chart.yaml/x", "chart yaml not in base directory"),
        ("c/..\\..\\x", "chart illegally references parent directory"),
    ];
    for (name, wanted) in cases {
        let error = Chart::from_archive(&archive(&[(name, b"x")])).unwrap_err();
        assert_eq!(error.to_string(), wanted, "{name}");
    }
    assert_eq!(Chart::from_archive(b"nonsense").unwrap_err().to_string(), "gzip: invalid header");
    assert_eq!(Chart::from_archive(&archive(&[])).unwrap_err().to_string(), "no files in chart archive");
}

#[test]
fn archives_cannot_expand_without_bound() {
    let large = vec![b' '; 6 * 1024 * 1024];
    let error = Chart::from_archive(&archive(&[("c/Chart.yaml", CHART.as_bytes()), ("c/large", &large)]));
    assert_eq!(
        error.unwrap_err().to_string(),
        "decompressed chart file \"c/large\" is larger than the maximum file size 5242880"
    );
    let piece = vec![b' '; 4 * 1024 * 1024];
    let names: Vec<String> = (0..30).map(|number| format!("c/{number}")).collect();
    let pieces: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), piece.as_slice())).collect();
    assert_eq!(
        Chart::from_archive(&archive(&pieces)).unwrap_err().to_string(),
        "decompressed chart is larger than the maximum file size 104857600"
    );
    let mut matryoshka = archive(&[("c/Chart.yaml", CHART.as_bytes())]);
    for _ in 0..40 {
        matryoshka = archive(&[("c/Chart.yaml", CHART.as_bytes()), ("c/charts/c.tgz", &matryoshka)]);
    }
    let message = Chart::from_archive(&matryoshka).unwrap_err().to_string();
    assert!(message.ends_with("charts are nested deeper than 16 levels"), "{message}");
}

#[cfg(unix)]
#[test]
fn links_can_be_kept_inside_the_chart() {
    let directory = tempfile::tempdir().unwrap();
    let outside = directory.path().join("outside.txt");
    std::fs::File::create(&outside).unwrap().write_all(b"secret").unwrap();
    let root = directory.path().join("c");
    std::fs::create_dir_all(root.join("templates")).unwrap();
    std::fs::write(root.join("Chart.yaml"), CHART).unwrap();
    std::fs::write(root.join("inside.txt"), "inside").unwrap();
    std::os::unix::fs::symlink("inside.txt", root.join("link.txt")).unwrap();
    let inside = LoadOptions { links: Links::Inside };
    let chart = Chart::load_with(&root, inside).unwrap();
    assert_eq!(chart.file("link.txt"), Some(&b"inside"[..]));
    assert!(chart.warnings()[0].starts_with("found symbolic link in path: "));
    std::os::unix::fs::symlink(&outside, root.join("out.txt")).unwrap();
    assert_eq!(Chart::load(&root).unwrap().file("out.txt"), Some(&b"secret"[..]));
    assert!(
        Chart::load_with(&root, inside)
            .unwrap_err()
            .to_string()
            .contains("points outside the chart directory")
    );
    std::os::unix::fs::symlink(&root, root.join("loop")).unwrap();
    assert!(Chart::load(&root).is_err());
}

#[test]
fn what_is_not_a_chart_is_said_so() {
    let load = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(name, text)| File::new(*name, *text));
        Chart::from_files(files).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(load(&[]), "Chart.yaml file is missing");
    assert_eq!(
        load(&[("Chart.yaml", "[]")]),
        "cannot load Chart.yaml: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go \
         value of type chart.Metadata"
    );
    assert_eq!(load(&[("Chart.yaml", "name: c")]), "validation: chart.metadata.version is required");
    assert_eq!(
        load(&[("Chart.yaml", "{name: c, version: x}")]),
        "validation: chart.metadata.version \"x\" is invalid"
    );
    assert_eq!(
        load(&[("Chart.yaml", CHART), ("charts/README.md", "x")]),
        "error unpacking subchart README.md in c: Chart.yaml file is missing"
    );
    assert_eq!(
        load(&[("Chart.yaml", CHART), ("values.yaml", "- a")]),
        "cannot load values.yaml: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go \
         value of type map[string]interface {}"
    );
}
