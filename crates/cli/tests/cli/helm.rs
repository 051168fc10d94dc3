//! Compares the program with the real `helm`: the same arguments must give the same output.
//!
//! Needs Helm (`oracles/helm/build helm`); `make test-slow` runs it. Third-party charts are in `../shared/charts`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::servers::{Login, OciServer, Repository, basic, sha256};
use crate::support::{Outcome, Steer, outcome, pack, shop};

/// Third-party charts that render deterministically.
const SHARED: [&str; 4] = [
    "dexidp_helm-charts__dex",
    "fluent_helm-charts__fluent-bit",
    "elastic_helm-charts__kibana",
    "cert-manager_cert-manager__cert-manager",
];

fn helm() -> PathBuf {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracles/helm/build");
    let built =
        Command::new(&build).arg("helm").stderr(Stdio::inherit()).output().expect("the build script runs");
    assert!(built.status.success(), "{} helm failed", build.display());
    PathBuf::from(String::from_utf8(built.stdout).unwrap().trim())
}

/// Returns this repository's chart and the third-party ones, if they exist.
fn charts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("STEERSMAN_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let mut charts = vec![shop()];
    for name in SHARED {
        let chart = shared.join("charts").join(name).join("chart");
        if chart.exists() {
            charts.push(chart.display().to_string());
        } else {
            eprintln!("ABSENT: {} is not there, its flags are not compared", chart.display());
        }
    }
    charts
}

struct Pair {
    helm: PathBuf,
    steer: Steer,
    tried: usize,
    different: Vec<String>,
}

impl Pair {
    fn new() -> Self {
        Self { helm: helm(), steer: Steer::new(), tried: 0, different: Vec::new() }
    }

    fn helm(&self, arguments: &[&str]) -> Outcome {
        let mut command = Command::new(&self.helm);
        command.args(arguments).current_dir(self.steer.home.path()).env_clear().stdin(Stdio::null());
        command.env("HOME", self.steer.home.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        outcome(&mut command)
    }

    /// Runs both with the same arguments and records differences.
    fn compare(&mut self, arguments: &[&str]) {
        self.compare_as(arguments, arguments);
    }

    /// Runs both with different arguments, for commands with another name here.
    fn compare_as(&mut self, theirs: &[&str], ours: &[&str]) {
        self.tried += 1;
        let (helm, steer) = (self.helm(theirs), self.steer.run(ours));
        let mut complain = |what: &str, helm: &str, steer: &str| {
            self.different
                .push(format!("{}\n  {what}\n  helm:  {helm:?}\n  steer: {steer:?}", theirs.join(" ")));
        };
        if helm.code != steer.code {
            complain("exit code", &helm.code.to_string(), &steer.code.to_string());
        }
        if helm.stdout != steer.stdout {
            let (at, left, right) = first_difference(&helm.stdout, &steer.stdout);
            complain(&format!("standard output, line {at}"), left, right);
        }
        if helm.code == 0 {
            // Helm explains at length why a tag has `_` for `+`; no action follows from it.
            let lines = helm.stderr.lines().take_while(|line| !line.ends_with("contains an underscore."));
            let unheard = lines.map(warning_text).find(|line| !steer.stderr.contains(line));
            if let Some(line) = unheard {
                complain("warning", line, &steer.stderr);
            }
            return;
        }
        let (expected, said) = (settled(error_text(&helm.stderr)), settled(&steer.stderr));
        if !said.strip_prefix("error: ").is_some_and(|said| said.starts_with(&expected)) {
            complain("error", &expected, &said);
        }
    }

    fn finish(self) {
        eprintln!("{} runs of helm and steer compared, {} differ", self.tried, self.different.len());
        assert!(self.different.is_empty(), "{}", self.different.join("\n"));
    }
}

/// Strips Helm's error message of its prefix and hints.
fn error_text(stderr: &str) -> &str {
    let from_error = stderr.find("Error: ").map_or("", |at| &stderr[at + "Error: ".len()..]);
    from_error.trim_end().trim_end_matches("Use --debug flag to render out invalid YAML").trim_end()
}

/// Returns Helm's warning without its position in the code.
fn warning_text(line: &str) -> &str {
    let lower = line.to_ascii_lowercase();
    lower.find("warning: ").and_then(|at| line.get(at + "warning: ".len()..)).unwrap_or(line)
}

/// Sorts additional properties in an error, since Helm lists them in random order.
fn settled(text: &str) -> String {
    const START: &str = "additional properties ";
    let settle = |line: &str| {
        let Some((before, rest)) = line.split_once(START) else { return line.to_owned() };
        let Some((names, after)) = rest.split_once(" not allowed") else { return line.to_owned() };
        let mut names: Vec<_> = names.split(", ").collect();
        names.sort_unstable();
        format!("{before}{START}{} not allowed{after}", names.join(", "))
    };
    text.split('\n').map(settle).collect::<Vec<_>>().join("\n")
}

fn first_difference<'a>(left: &'a str, right: &'a str) -> (usize, &'a str, &'a str) {
    let (mut lefts, mut rights) = (left.split('\n'), right.split('\n'));
    for line in 1.. {
        match (lefts.next(), rights.next()) {
            (None, None) => break,
            (left, right) if left == right => {}
            (left, right) => return (line, left.unwrap_or("(end)"), right.unwrap_or("(end)")),
        }
    }
    (0, "", "")
}

#[test]
#[ignore = "needs the real helm: make test-slow"]
fn template_flag_by_flag() {
    let mut pair = Pair::new();
    pair.steer.write("a.yaml", "replicas: 3\nextra: from a\nreplicaCount: 3\n");
    pair.steer.write("b.yaml", "extra: {nested: [1, 2.5, null, true]}\n");
    pair.steer.write("bad.yaml", "a: [\n");
    pair.steer.write("note.txt", "line one\nline two\n");
    pair.steer
        .write(".kube/config", "current-context: c\ncontexts: [{name: c, context: {namespace: kept}}]\n");
    let flags: &[&[&str]] = &[
        &[],
        &["-n", "lab"],
        &["--namespace=lab"],
        &["--kube-version", "1.30"],
        &["--kube-version", "v1.25.3-gke.100"],
        &["--kube-version", "1.2"],
        &["--kube-version", "nonsense"],
        &["--api-versions", "a/v1,b/v2/Kind", "-a", "shop.example.com/v1"],
        &["--is-upgrade"],
        &["--include-crds"],
        &["--include-crds", "--skip-crds"],
        &["--include-crds=true", "--no-hooks=false"],
        &["--no-hooks"],
        &["--skip-tests"],
        &["-s", "templates/deployment.yaml"],
        &["-s", "templates/*.yaml"],
        &["-s", "templates/deployment.yaml", "-s", "templates/service.yaml"],
        &["--show-only", "templates/none.yaml"],
        &["--show-only", "["],
        &["-f", "a.yaml"],
        &["-f", "a.yaml,b.yaml"],
        &["-f", "b.yaml", "-f", "a.yaml"],
        &["-f", "missing.yaml"],
        &["-f", "bad.yaml"],
        &["--set", "extra=1,replicas=4"],
        &["--set", "extra.list[2]=x"],
        &["--set", "extra={a,b,c}"],
        &["--set", "extra=null"],
        &["--set", "extra"],
        &["--set", "a[x]=1"],
        &["--set-string", "extra=true"],
        &["--set-json", "extra={\"a\":[1,2]}"],
        &["--set-json", "{\"extra\":1}"],
        &["--set-json", "extra={"],
        &["--set-file", "extra=note.txt"],
        &["--set-file", "extra=missing.txt"],
        &["--set-literal", "extra=a,b=c"],
        &["--skip-schema-validation"],
        &["--set", "replicas=many"],
        &["--set", "replicas=many", "--skip-schema-validation"],
        &["--output-dir", "out"],
        &["--output-dir", "out2", "--release-name", "--include-crds", "--no-hooks"],
        &["--post-renderer", "cat"],
        &[
            "--post-renderer",
            "sed",
            "--post-renderer-args",
            "-e",
            "--post-renderer-args",
            "s/apiVersion/apiversion/",
        ],
        &["--post-renderer", "false"],
        &["--post-renderer", "no-such-program"],
        &["--dependency-update"],
        &["--enable-dns"],
        &["--wait", "--timeout", "3m", "--atomic", "--create-namespace", "--hide-notes"],
        &["--dry-run=bogus"],
        &["--generate-name"],
        &["--name-template", "x"],
        &["--no-such-flag"],
    ];
    for chart in charts() {
        for given in flags {
            let mut arguments = vec!["template", "rel", &chart];
            if chart == shop() {
                // Without it the shop chart generates a random one.
                arguments.extend(["--set", "token=t"]);
            }
            arguments.extend(*given);
            if given.contains(&"--no-such-flag") {
                // Only the exit codes are compared: each parser has its own wording.
                assert_eq!(pair.steer.run(&arguments).code, pair.helm(&arguments).code);
                continue;
            }
            pair.compare(&arguments);
        }
    }
    pair.finish();
}

#[test]
#[ignore = "needs the real helm: make test-slow"]
fn names_and_places() {
    let mut pair = Pair::new();
    let chart = shop();
    pair.steer.write("shop-1.2.3.tgz", pack(Path::new(&chart)));
    pair.steer.write("text.tgz", "this is no archive");
    pair.steer.write("notes.yaml", "a: b\n");
    pair.steer.write("library/Chart.yaml", "apiVersion: v2\nname: library\nversion: 1.0.0\ntype: library\n");
    pair.steer.write("nameless/Chart.yaml", "apiVersion: v2\nversion: 1.0.0\n");
    pair.steer.write("wrong/Chart.yaml", "apiVersion: v2\nname: [\n");
    pair.steer.write("empty/readme", "");
    pair.steer.write(
        "needy/Chart.yaml",
        "apiVersion: v2\nname: needy\nversion: 1.0.0\ndependencies:\n- {name: gone, version: 1.x.x, repository: 'https://x'}\n",
    );
    let set = "--set=token=t";
    for arguments in [
        &[&chart, set][..],
        &[&chart, set, "--generate-name"],
        &[&chart, set, "--name-template", "{{ \"ABC\" | lower }}-{{ add 1 2 }}"],
        &[&chart, set, "--name-template", "{{ nope }}"],
        &[&chart, set, "--name-template", "{{ fail \"no\" }}"],
        &[&chart, set, "--name-template", "{{ .a.b }}"],
        &[&chart, set, "--name-template", "Not Valid"],
        &["a", &chart, "c", "d"],
        &["Not_Valid", &chart],
        &["", &chart],
        &["a..b", &chart],
        &["a.b-c.d", &chart, set],
        &["r", "shop-1.2.3.tgz", set],
        &["r", "./shop-1.2.3.tgz", set],
        &["r", "./nothing"],
        &["r", "/nothing/at/all"],
        &["r", "nothing"],
        &["r", "no/thing"],
        &["r", "text.tgz"],
        &["r", "notes.yaml"],
        &["r", "library"],
        &["r", "nameless"],
        &["r", "wrong"],
        &["r", "empty"],
        &["r", "needy"],
        &["r", "ftp://example.com/a.tgz"],
    ] {
        let mut words = vec!["template"];
        words.extend(arguments);
        pair.compare(&words);
    }
    pair.finish();
}

#[test]
#[ignore = "needs the real helm: make test-slow"]
fn show_lint_and_dependencies() {
    let mut pair = Pair::new();
    for chart in charts() {
        for part in ["chart", "values", "readme", "crds", "all"] {
            pair.compare_as(&["show", part, &chart], &["chart", "show", part, &chart]);
        }
        for flags in
            [&[][..], &["--strict"], &["--quiet"], &["--with-subcharts"], &["--kube-version", "1.30"]]
        {
            let mut words = vec!["lint", &chart];
            words.extend(flags);
            pair.compare(&words);
        }
        pair.compare_as(&["dependency", "list", &chart], &["chart", "dependency", "list", &chart]);
    }
    pair.finish();
}

#[test]
#[ignore = "needs the real helm: make test-slow"]
fn dependency_update_writes_the_same_lock() {
    let pair = Pair::new();
    pair.steer.write("child/Chart.yaml", "apiVersion: v2\nname: child\nversion: 0.3.0\n");
    pair.steer.write("other/Chart.yaml", "apiVersion: v1\nname: other\nversion: 1.0.0+build\n");
    let text = "apiVersion: v2\nname: parent\nversion: 0.1.0\ndependencies:\n\
        - {name: child, version: '>=0.1.0 <1', repository: 'file://../child', condition: child.enabled, tags: [a, b], alias: kid}\n\
        - {name: child, version: '^0.3', repository: 'file://../child', import-values: [data, {child: x, parent: y}]}\n\
        - {name: other, version: '*', repository: 'file://../other'}\n";
    let mut printed = Vec::new();
    for name in ["theirs", "ours"] {
        pair.steer.write(&format!("{name}/Chart.yaml"), text);
        let outcome = match name {
            "theirs" => pair.helm(&["dependency", "update", name]),
            _ => pair.steer.run(&["chart", "dependency", "update", name]),
        };
        printed.push(outcome.success());
    }
    assert_eq!(printed[0], printed[1]);
    let lock = |name: &str| {
        let text = std::fs::read_to_string(pair.steer.path(name).join("Chart.lock")).unwrap();
        text.lines().filter(|line| !line.starts_with("generated: ")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(lock("theirs"), lock("ours"));
    let names = |name: &str| {
        let entries = std::fs::read_dir(pair.steer.path(name).join("charts")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("theirs"), names("ours"));
    // Each builds from what the other locked.
    pair.helm(&["dependency", "build", "ours"]).success();
    pair.steer.run(&["chart", "dependency", "build", "theirs"]).success();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "needs the real helm: make test-slow"]
async fn charts_are_pulled_alike() {
    let chart = pack(Path::new(&shop()));
    let repository = Repository { required: Some(basic("ada", "secret")), ..Repository::default() };
    repository.put_index("shop", "1.2.3", "files/shop-1.2.3.tgz", Some(&sha256(&chart)));
    repository.put("/files/shop-1.2.3.tgz", chart.clone());
    repository.put("/files/shop-1.2.3.tgz.prov", "signed");
    let url = repository.start().await;
    let login = Login::Token { name: "ada".into(), password: "secret".into(), identity: "none".into() };
    let server = OciServer { login, ..OciServer::default() };
    for version in ["1.2.3", "1.3.0-rc.1", "2.0.0_build.7"] {
        server.push("charts/shop", version, &chart, Some(b"signed"));
    }
    let digest = server.push("charts/shop", "1.0.0", &chart, None);
    let oci = format!("oci://{}/charts/shop", server.start().await);
    let pinned = format!("{oci}@{digest}");
    let tagged = format!("{oci}:1.2.3");

    let mut pair = Pair::new();
    let who = ["--username", "ada", "--password", "secret", "--plain-http"];
    for words in [
        &["shop", "--repo", &url][..],
        &["shop", "--repo", &url, "--version", "^1", "--prov"],
        &["shop", "--repo", &url, "--version", "^2"],
        &["bazaar", "--repo", &url],
        &["shop", "--repo", &url, "--untar", "--untardir", "here"],
        &[&oci],
        &[&oci, "--version", "1.2.3", "--prov"],
        &[&oci, "--version", "2.0.0+build.7"],
        &[&oci, "--version", "~1.2"],
        &[&oci, "--version", "^9"],
        &[&oci, "--version", "not a range"],
        &[&oci, "--devel"],
        &[&tagged],
        &[&tagged, "--version", "1.2.4"],
        &[&pinned],
        &[&pinned, "--version", "1.2.3"],
    ] {
        for name in ["theirs", "ours"] {
            let _ = std::fs::remove_dir_all(pair.steer.path(name));
            std::fs::create_dir_all(pair.steer.path(name)).unwrap();
        }
        let theirs = [&["pull"], words, &who, &["-d", "theirs"]].concat();
        let ours = [&["chart", "pull"], words, &who, &["-d", "ours"]].concat();
        pair.compare_as(&theirs, &ours);
        let files = ["theirs", "ours"].map(|name| tree(&pair.steer.path(name)));
        if files[0] != files[1] {
            pair.different.push(format!("{}: {:?} and {:?}", words.join(" "), files[0], files[1]));
        }
    }
    pair.finish();
}

/// The files beneath a directory, by their paths.
fn tree(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(directory).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}
