//! `steer envtest`: the programs that envtest starts, as a suite starts them.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The programs, laid out in a directory of the test's own.
fn assets(directory: &Path) -> PathBuf {
    let output = Command::new(env!("CARGO_BIN_EXE_steer"))
        .args(["envtest", "use", "1.36.x", "-p", "path", "--bin-dir"])
        .arg(directory)
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// A program that ends with the test.
struct Program {
    child: Child,
    /// The address in the line by which it says that it is up.
    address: String,
}

impl Program {
    fn start(path: &Path, arguments: &[String], up: &str) -> Self {
        Self::try_start(path, arguments, up).unwrap_or_else(|said| panic!("{} ended: {said}", path.display()))
    }

    /// Starts it; the error is its output if it exits.
    fn try_start(path: &Path, arguments: &[String], up: &str) -> Result<Self, String> {
        let mut child = Command::new(path).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once(up) {
                let address = address.split(',').next().unwrap_or_default().trim().to_owned();
                return Ok(Self { child, address });
            }
            said.push_str(&line);
        }
        let _ = child.wait();
        Err(said)
    }

    /// Terminates it as envtest does, and returns how long that took.
    fn terminate(mut self) -> Duration {
        let begun = Instant::now();
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
        begun.elapsed()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn etcd(assets: &Path) -> Program {
    let arguments =
        ["--listen-client-urls=http://127.0.0.1:0", "--data-dir=/nonexistent", "--unsafe-no-fsync"];
    Program::start(&assets.join("etcd"), &arguments.map(str::to_owned), "client traffic on ")
}

fn server_arguments(etcd: &Program, certificates: &Path, port: &str) -> Vec<String> {
    vec![
        format!("--etcd-servers=http://{}", etcd.address),
        format!("--cert-dir={}", certificates.display()),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={port}"),
        "--authorization-mode=RBAC".into(),
        format!("--token-auth-file={}", certificates.join("tokens").display()),
        "--disable-admission-plugins=ServiceAccount".into(),
        "--allow-privileged=true".into(),
    ]
}

/// Sends a request as curl would, with the administrator's token.
fn ask(server: &Program, method: &str, path: &str, body: Option<&str>) -> (u16, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = kube::Config::new(format!("https://{}", server.address).parse().unwrap());
        config.accept_invalid_certs = true;
        config.auth_info.token = Some(String::from("secret").into());
        let client = kube::Client::try_from(config).unwrap();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(body.unwrap_or_default().as_bytes().to_vec())
            .unwrap();
        match client.request_text(request).await {
            Ok(text) => (200, text),
            Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
            Err(error) => panic!("{method} {path}: {error}"),
        }
    })
}

#[test]
fn servers_on_one_etcd_have_the_same_objects() {
    let directory = tempfile::tempdir().unwrap();
    let assets = assets(directory.path());
    let certificates = directory.path().join("certificates");
    std::fs::create_dir(&certificates).unwrap();
    std::fs::write(certificates.join("tokens"), "secret,admin,1,system:masters\n").unwrap();
    let etcd = etcd(&assets);
    let program = assets.join("kube-apiserver");
    let start = |port: &str| {
        Program::start(&program, &server_arguments(&etcd, &certificates, port), "Serving securely on ")
    };
    let first = start("0");
    for path in ["/readyz", "/livez", "/healthz", "/readyz/etcd"] {
        assert_eq!(ask(&first, "GET", path, None), (200, "ok".into()), "{path}");
    }
    // Without the plugin a pod needs no account, and gets none.
    let pods = "/api/v1/namespaces/default/pods";
    let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let (code, text) = ask(&first, "POST", pods, Some(pod));
    assert!(code == 200 && !text.contains("kube-api-access"), "{code} {text}");

    let second = start("0");
    assert!(ask(&second, "GET", &format!("{pods}/p"), None).1.contains(r#""name":"p""#));
    let port = first.address.rsplit(':').next().unwrap().to_owned();
    assert!(first.terminate() < Duration::from_secs(1));
    // The port is free again at once, and the objects are still there.
    let mut third = start(&port);
    assert!(ask(&third, "GET", &format!("{pods}/p"), None).1.contains(r#""name":"p""#));
    // The port of a server that is killed is closed for it.
    third.child.kill().unwrap();
    third.child.wait().unwrap();
    let arguments = server_arguments(&etcd, &certificates, &port);
    let begun = Instant::now();
    while let Err(said) = Program::try_start(&program, &arguments, "Serving securely on ") {
        assert!(begun.elapsed() < Duration::from_secs(10), "{said}");
    }
}

#[test]
fn flags_are_refused_as_the_real_program_refuses_them() {
    let directory = tempfile::tempdir().unwrap();
    let assets = assets(directory.path());
    let run = |arguments: &[&str]| {
        let output = Command::new(assets.join("kube-apiserver")).args(arguments).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(run(&["--insecure-port=0"]), "Error: unknown flag: --insecure-port\n");
    assert!(run(&[]).contains("--etcd-servers must be specified"));
    let plugin = run(&[
        "--etcd-servers=http://127.0.0.1:1",
        "--disable-admission-plugins=Nonsense",
        "--cert-dir",
        directory.path().to_str().unwrap(),
    ]);
    assert!(plugin.contains("plugin \"Nonsense\" is unknown"), "{plugin}");
    let help = Command::new(assets.join("kube-apiserver")).arg("--help").output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("--secure-port int"));
}

#[test]
fn a_real_etcd_is_told_apart() {
    // A server that responds without the mark is not this program's etcd.
    let directory = tempfile::tempdir().unwrap();
    let assets = assets(directory.path());
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = socket.accept().unwrap();
        let mut head = [0; 512];
        let _ = stream.read(&mut head).unwrap();
        let body = r#"{"etcdserver":"3.6.8","etcdcluster":"3.6.0"}"#;
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    });
    let output = Command::new(assets.join("kube-apiserver"))
        .arg(format!("--etcd-servers=http://{address}"))
        .arg("--cert-dir")
        .arg(directory.path())
        .args(["--secure-port=0", "--authorization-mode=RBAC"])
        .output()
        .unwrap();
    answering.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("is not the etcd of steer envtest"), "{said}");
}

#[test]
fn the_directory_is_listed_and_exported() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_steer"))
            .arg("envtest")
            .args(arguments)
            .arg("--bin-dir")
            .arg(directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["installed"]).0, "");
    assert!(run(&["list"]).0.starts_with("(available)  v1.36."));
    let (export, warned) = run(&["use", "1.29", "-p", "env"]);
    assert!(export.starts_with("export KUBEBUILDER_ASSETS='/"), "{export}");
    assert!(warned.contains("1.29"), "{warned}");
    assert!(run(&["installed"]).0.starts_with("(installed)  v1.36."));
    assert!(run(&["use"]).0.contains("OS/Arch: "));
}
