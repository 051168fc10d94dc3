//! Charts over the network, as a person would fetch them.

use std::fs;
use std::path::Path;

use crate::servers::{Login, OciServer, Repository, basic, sha256};
use crate::support::{Steer, outcome, pack, shop};

fn packed_shop() -> Vec<u8> {
    pack(Path::new(&shop()))
}

/// A repository with the shop in it.
fn repository() -> Repository {
    let repository = Repository::default();
    let chart = packed_shop();
    repository.put_index("shop", "1.2.3", "shop-1.2.3.tgz", Some(&sha256(&chart)));
    repository.put("/shop-1.2.3.tgz", chart);
    repository
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_chart_is_rendered_from_a_repository() {
    let url = repository().start().await;
    let steer = Steer::new();
    let near = steer.run(&["template", "r", &shop(), "--set", "token=t"]).success();
    let far = steer.run(&["template", "r", "shop", "--repo", &url, "--set", "token=t"]).success();
    assert_eq!(far, near);
    let direct = format!("{url}/shop-1.2.3.tgz");
    assert_eq!(steer.run(&["template", "r", &direct, "--set", "token=t"]).success(), near);
    let failed = steer.run(&["template", "r", "bazaar", "--repo", &url]).failure();
    assert!(
        failed.starts_with(&format!("error: chart \"bazaar\" not found in {url} repository\n")),
        "{failed}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_project_is_made_from_a_repository() {
    let url = repository().start().await;
    let direct = format!("{url}/shop-1.2.3.tgz");
    for source in [
        &["--helm-chart", "shop", "--helm-chart-repo", &url, "--helm-chart-version", "~1.2"][..],
        &["--helm-chart", &direct],
    ] {
        let steer = Steer::new();
        let directory = steer.path("shop-operator");
        fs::create_dir(&directory).unwrap();
        let run = |more: &[&str]| {
            let words: Vec<&str> = ["init", "--plugins", "helm"].iter().chain(more).copied().collect();
            outcome(steer.command(&words).current_dir(&directory))
        };
        run(source).success();
        assert!(directory.join("helm-charts/shop/Chart.yaml").exists());
        assert!(directory.join("config/crd/bases/charts.my.domain_shops.yaml").exists());
    }
    let steer = Steer::new();
    let wanted = [
        "init",
        "--plugins",
        "helm",
        "--helm-chart",
        "shop",
        "--helm-chart-repo",
        &url,
        "--helm-chart-version",
        "9",
    ];
    let failed = steer.run(&wanted).failure();
    assert!(failed.contains("\"shop\"") && failed.contains('9'), "{failed}");
    assert!(!steer.path("PROJECT").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_chart_is_pulled_and_unpacked() {
    let url = repository().start().await;
    let steer = Steer::new();
    steer.run(&["chart", "pull", "shop", "--repo", &url]).success();
    assert_eq!(fs::read(steer.path("shop-1.2.3.tgz")).unwrap(), packed_shop());
    steer
        .run(&["chart", "pull", "shop", "--repo", &url, "-d", "away", "--untar", "--untardir", "in"])
        .success();
    assert!(steer.path("away/in/shop/templates/deployment.yaml").exists());
    assert!(!steer.path("away/in/shop-1.2.3.tgz").exists());

    steer.run(&["chart", "pull", "shop", "--repo", &url, "--untar"]).success();
    let failed = steer.run(&["chart", "pull", "shop", "--repo", &url, "--untar"]).failure();
    assert_eq!(failed, "error: failed to untar: a file or directory with the name shop already exists\n");
    let failed = steer.run(&["chart", "pull", "shop", "--repo", &url, "--verify"]).failure();
    assert!(failed.starts_with("error: --verify is not supported"), "{failed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_archive_cannot_write_outside_its_directory() {
    let repository = Repository::default();
    let mut header = tar::Header::new_gnu();
    let mut archive =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, text) in [("evil/Chart.yaml", "apiVersion: v2\nname: evil\nversion: 1.0.0\n"), ("evil/x", "x")]
    {
        let place = if name.ends_with('x') { "evil/../../escaped" } else { name };
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        // The builder rejects such names, so the bytes are set directly.
        let bytes = header.as_old_mut();
        bytes.name = [0; 100];
        bytes.name[..place.len()].copy_from_slice(place.as_bytes());
        header.set_cksum();
        archive.append(&header, text.as_bytes()).unwrap();
    }
    repository.put("/evil-1.0.0.tgz", archive.into_inner().unwrap().finish().unwrap());
    let url = repository.start().await;
    let steer = Steer::new();
    steer.run(&["chart", "pull", &format!("{url}/evil-1.0.0.tgz"), "--untar", "-d", "a/b"]).failure();
    assert!(!steer.path("escaped").exists() && !steer.path("a/escaped").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_closed_repository_opens_to_name_and_password() {
    let repository = Repository { required: Some(basic("ada", "secret")), ..repository() };
    let url = repository.start().await;
    let steer = Steer::new();
    let failed = steer.run(&["chart", "pull", "shop", "--repo", &url]).failure();
    assert!(
        failed.contains("401 Unauthorized\nhelp: give a name and password with --username and --password\n"),
        "{failed}"
    );
    steer
        .run(&["chart", "pull", "shop", "--repo", &url, "--username", "ada", "--password", "secret"])
        .success();

    // Repositories added by `helm repo add` work as well.
    let config = format!("repositories:\n- {{name: main, url: '{url}', username: ada, password: secret}}\n");
    steer.write(".config/helm/repositories.yaml", config);
    steer.run(&["chart", "pull", "main/shop", "-d", "again"]).success();
    assert!(steer.path("again/shop-1.2.3.tgz").exists());
    assert!(steer.path(".cache/helm/repository/main-index.yaml").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_chart_comes_from_a_registry() {
    let login = Login::Token { name: "ada".into(), password: "secret".into(), identity: "id".into() };
    let server = OciServer { login, ..OciServer::default() };
    let digest = server.push("charts/shop", "1.2.3", &packed_shop(), None);
    let host = server.start().await;
    let steer = Steer::new();
    let chart = format!("oci://{host}/charts/shop");
    let failed = steer.run(&["chart", "pull", &chart, "--plain-http"]).failure();
    assert!(failed.contains(&format!("help: log in with `helm registry login {host}`")), "{failed}");

    let flags = ["--plain-http", "--username", "ada", "--password", "secret", "--version", "^1"];
    let mut arguments = vec!["chart", "pull", &chart];
    arguments.extend(flags);
    let pulled = steer.run(&arguments);
    assert_eq!(pulled.stderr, format!("Pulled: {host}/charts/shop:1.2.3\nDigest: {digest}\n"));
    assert_eq!(fs::read(steer.path("shop-1.2.3.tgz")).unwrap(), packed_shop());

    let mut arguments = vec!["template", "r", &chart, "--set", "token=t"];
    arguments.extend(flags);
    let far = steer.run(&arguments).success();
    assert_eq!(far, steer.run(&["template", "r", &shop(), "--set", "token=t"]).success());
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_credential_helper_is_asked_without_a_shell() {
    use std::os::unix::fs::PermissionsExt;
    let server = OciServer { login: Login::Basic("ada".into(), "secret".into()), ..OciServer::default() };
    server.push("shop", "1.2.3", &packed_shop(), None);
    let host = server.start().await;
    let steer = Steer::new();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = get ] && [ \"$(cat)\" = \"{host}\" ] || {{ echo 'credentials not found in native keychain'; exit 1; }}\necho '{{\"ServerURL\":\"{host}\",\"Username\":\"ada\",\"Secret\":\"secret\"}}'\n"
    );
    let helper = steer.write("bin/docker-credential-vault", script);
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", steer.path("bin").display(), std::env::var("PATH").unwrap());
    let chart = format!("oci://{host}/shop");
    let pull = |config: String| {
        steer.write(".docker/config.json", config);
        let _ = fs::remove_dir_all(steer.path(".cache"));
        outcome(
            steer
                .command(&["chart", "pull", &chart, "--version", "1.2.3", "--plain-http"])
                .env("PATH", &path),
        )
    };
    pull(format!(r#"{{"credHelpers": {{"{host}": "vault"}}}}"#)).success();
    pull(r#"{"credsStore": "vault"}"#.into()).success();
    pull(r#"{"credHelpers": {"elsewhere": "vault"}}"#.into()).failure();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn values_files_may_be_far_away() {
    let repository = Repository::default();
    repository.put("/prod.yaml", "replicas: 33\n");
    let url = repository.start().await;
    let steer = Steer::new();
    let far = format!("{url}/prod.yaml");
    assert!(steer.run(&["template", "r", &shop(), "-f", &far]).success().contains("replicas: 33\n"));
    let printed = steer.run(&["template", "r", &shop(), "--set-file", &format!("extra={far}")]).success();
    assert!(printed.contains("extra: \"replicas: 33\\n\""), "{printed}");
    let gone = format!("{url}/gone.yaml");
    let failed = steer.run(&["template", "r", &shop(), "-f", &gone]).failure();
    assert_eq!(failed, format!("error: failed to fetch {gone} : 404 Not Found\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn dependencies_come_from_repositories_and_registries() {
    let repository = repository();
    let url = repository.start().await;
    let server = OciServer::default();
    let steer = Steer::new();
    steer.chart("web", &[("templates/a.yaml", "kind: Web\napiVersion: v1\n")]);
    server.push("charts/web", "0.1.0", &pack(&steer.path("web")), None);
    let host = server.start().await;
    let text = format!(
        "apiVersion: v2\nname: p\nversion: 0.1.0\ndependencies:\n- {{name: shop, version: ^1, repository: '{url}'}}\n- {{name: web, version: '>=0.1.0', repository: 'oci://{host}/charts'}}\n"
    );
    steer.write("p/Chart.yaml", text);
    steer.write("p/charts/shop-1.0.0.tgz", packed_shop());
    let printed = steer.run(&["chart", "dependency", "update", "p", "--plain-http"]).success();
    assert_eq!(
        printed,
        format!(
            "Getting updates for unmanaged Helm repositories...\n...Successfully got an update from the {url:?} chart repository\nSaving 2 charts\nDownloading shop from repo {url}\nDownloading web from repo oci://{host}/charts\nDeleting outdated charts\n"
        )
    );
    let mut names: Vec<_> =
        fs::read_dir(steer.path("p/charts")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["shop-1.2.3.tgz", "web-0.1.0.tgz"]);
    let before = fs::read_to_string(steer.path("p/Chart.lock")).unwrap();
    assert!(before.contains("  version: 1.2.3\n") && before.contains("digest: sha256:"), "{before}");

    // Nothing changed, so neither does the lock; a build fetches what it specifies.
    steer.run(&["chart", "dependency", "update", "p", "--plain-http", "--skip-refresh"]).success();
    assert_eq!(fs::read_to_string(steer.path("p/Chart.lock")).unwrap(), before);
    fs::remove_dir_all(steer.path("p/charts")).unwrap();
    steer.run(&["chart", "dependency", "build", "p", "--plain-http"]).success();
    assert!(steer.path("p/charts/shop-1.2.3.tgz").exists());
}
