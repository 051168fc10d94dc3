//! Charts from HTTP repositories, over real sockets.

use std::time::Duration;

use steersman_registry::{Access, Error, Limits, Request};

use crate::support::{Certificates, Home, Repository, basic, endless, raw, sha256};

const CHART: &[u8] = b"a packed chart";

fn ada() -> Access {
    Access { username: Some("ada".into()), password: Some("secret".into()), ..Access::default() }
}

#[tokio::test]
async fn a_chart_is_found_by_name_in_a_repository() {
    let repository = Repository::default();
    repository.put_index("shop", "1.2.3", "charts/shop-1.2.3.tgz", Some(&sha256(CHART)));
    repository.put("/charts/shop-1.2.3.tgz", CHART);
    let url = repository.start().await;

    let fetcher = Home::new().fetcher();
    let chart = fetcher.fetch(&Request::new("shop").repository(&url), &Access::default()).await.unwrap();
    assert_eq!(chart.file_name, "shop-1.2.3.tgz");
    assert_eq!(chart.url, format!("{url}/charts/shop-1.2.3.tgz"));
    assert_eq!(chart.data, CHART);
    assert_eq!(chart.digest, sha256(CHART));
    assert_eq!((chart.manifest_digest, chart.provenance, chart.from_cache), (None, None, false));
}

#[tokio::test]
async fn what_is_in_the_cache_is_not_fetched_again() {
    let repository = Repository::default();
    repository.put_index("shop", "1.2.3", "shop-1.2.3.tgz", Some(&sha256(CHART)));
    repository.put("/shop-1.2.3.tgz", CHART);
    let request = Request::new("shop").repository(repository.start().await);
    let home = Home::new();
    let fetcher = home.fetcher();
    fetcher.fetch(&request, &Access::default()).await.unwrap();
    let second = fetcher.fetch(&request, &Access::default()).await.unwrap();
    assert!(second.from_cache && second.data == CHART);
    let fetched = repository.seen().iter().filter(|(path, _)| path == "/shop-1.2.3.tgz").count();
    assert_eq!(fetched, 1);
}

#[tokio::test]
async fn a_chart_with_another_digest_than_the_index_says_is_refused() {
    let repository = Repository::default();
    repository.put_index("shop", "1.2.3", "shop-1.2.3.tgz", Some(&sha256(b"what was published")));
    repository.put("/shop-1.2.3.tgz", CHART);
    let url = repository.start().await;
    let home = Home::new();
    let fetcher = home.fetcher();
    let result = fetcher.fetch(&Request::new("shop").repository(url), &Access::default()).await;
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::Digest { actual, .. } if *actual == sha256(CHART)), "{error}");
    assert!(error.help().is_some());
    // Nor is it stored in the cache under either digest.
    assert!(!home.paths().content_cache.unwrap().join("charts").exists());
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_chart() {
    let address = raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nonly a part").await;
    let request = Request::new(format!("http://{address}/shop-1.tgz"));
    let error = Home::new().fetcher().fetch(&request, &Access::default()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let url = format!("http://{}/shop-1.tgz", endless().await);
    let fetcher = Home::new().fetcher_limited(Limits { chart: 10_000, ..Limits::default() });
    let error = fetcher.fetch(&Request::new(&url), &Access::default()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{url} is larger than 10000 bytes"));
}

#[tokio::test]
async fn a_server_that_says_nothing_runs_out_of_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/shop-1.tgz", listener.local_addr().unwrap());
    let fetcher =
        Home::new().fetcher_limited(Limits { request: Duration::from_millis(100), ..Limits::default() });
    let error = fetcher.fetch(&Request::new(&url), &Access::default()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("Get {url:?}: timed out"));
}

#[tokio::test]
async fn name_and_password_open_a_closed_repository() {
    let repository = Repository { required: Some(basic("ada", "secret")), ..Repository::default() };
    repository.put_index("shop", "1.2.3", "shop-1.2.3.tgz", None);
    repository.put("/shop-1.2.3.tgz", CHART);
    let url = repository.start().await;
    let request = Request::new("shop").repository(&url);
    let fetcher = Home::new().fetcher();
    assert_eq!(fetcher.fetch(&request, &ada()).await.unwrap().data, CHART);

    let error = fetcher.fetch(&request, &Access::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "looks like {url:?} is not a valid chart repository or cannot be reached: failed to fetch {url}/index.yaml : 401 Unauthorized"
        )
    );
    assert!(error.help().unwrap().contains("--username"));
    // A username alone is ignored, as in Helm.
    let half = Access { username: Some("ada".into()), ..Access::default() };
    assert!(fetcher.fetch(&request, &half).await.is_err());
}

#[tokio::test]
async fn name_and_password_stay_with_their_host() {
    let elsewhere = Repository::default();
    elsewhere.put("/shop-1.2.3.tgz", CHART);
    let far = elsewhere.start().await;
    let repository = Repository::default();
    repository.put_index("shop", "1.2.3", &format!("{far}/shop-1.2.3.tgz"), None);
    let near = repository.start().await;
    let fetcher = Home::new().fetcher();

    fetcher.fetch(&Request::new("shop").repository(&near), &ada()).await.unwrap();
    assert_eq!(repository.seen()[0].1, Some(basic("ada", "secret")));
    assert_eq!(elsewhere.seen(), [("/shop-1.2.3.tgz".to_owned(), None)]);

    let generous = Access { pass_credentials: true, ..ada() };
    fetcher.fetch(&Request::new("shop").repository(&near), &generous).await.unwrap();
    assert_eq!(elsewhere.seen()[1].1, Some(basic("ada", "secret")));
}

#[tokio::test]
async fn a_redirect_takes_no_password_to_another_host() {
    let elsewhere = Repository::default();
    elsewhere.put("/stored", CHART);
    let far = elsewhere.start().await;
    let repository = Repository { required: Some(basic("ada", "secret")), ..Repository::default() };
    repository.redirect("/shop-1.2.3.tgz", format!("{far}/stored"));
    let near = repository.start().await;
    let request = Request::new(format!("{near}/shop-1.2.3.tgz"));
    let chart = Home::new().fetcher().fetch(&request, &ada()).await.unwrap();
    assert_eq!((chart.data.as_slice(), chart.file_name.as_str()), (CHART, "shop-1.2.3.tgz"));
    assert_eq!(elsewhere.seen(), [("/stored".to_owned(), None)]);
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let repository = Repository::default();
    repository.redirect("/shop-1.tgz", "/shop-1.tgz");
    let url = repository.start().await;
    let request = Request::new(format!("{url}/shop-1.tgz"));
    let error = Home::new().fetcher().fetch(&request, &Access::default()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    assert!(repository.seen().len() <= 12);
}

#[tokio::test]
async fn the_provenance_file_comes_along_untouched_if_it_is_there() {
    let repository = Repository::default();
    repository.put("/shop-1.2.3.tgz", CHART);
    let url = repository.start().await;
    let fetcher = Home::new().fetcher();
    let request = Request::new(format!("{url}/shop-1.2.3.tgz")).with_provenance();
    assert_eq!(fetcher.fetch(&request, &Access::default()).await.unwrap().provenance, None);

    repository.put("/shop-1.2.3.tgz.prov", "signed");
    let chart = fetcher.fetch(&request, &Access::default()).await.unwrap();
    assert_eq!(chart.provenance.as_deref(), Some(&b"signed"[..]));
    let directory = tempfile::tempdir().unwrap();
    let path = chart.save(directory.path()).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), CHART);
    assert_eq!(std::fs::read(directory.path().join("shop-1.2.3.tgz.prov")).unwrap(), b"signed");
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let repository = Repository::default();
    repository.put_index("shop", "1.2.3", "shop-1.2.3.tgz", None);
    let url = repository.start().await;
    let fetcher = Home::new().fetcher();
    let message =
        async |request: Request| fetcher.fetch(&request, &Access::default()).await.unwrap_err().to_string();
    assert_eq!(
        message(Request::new("bazaar").repository(&url)).await,
        format!("chart \"bazaar\" not found in {url} repository")
    );
    assert_eq!(
        message(Request::new("shop").version("^9").repository(&url)).await,
        format!("chart \"shop\" version \"^9\" not found in {url} repository")
    );
    assert_eq!(
        message(Request::new("shop").repository(&url)).await,
        format!("failed to fetch {url}/shop-1.2.3.tgz : 404 Not Found")
    );
    assert_eq!(message(Request::new("ftp://h/shop-1.tgz")).await, "scheme \"ftp\" not supported");
    assert_eq!(
        message(Request::new("shop")).await,
        "non-absolute URLs should be in form of repo_name/path_to_chart, got: shop"
    );
    assert_eq!(message(Request::new("main/shop")).await, "repo main not found");
}

#[tokio::test]
async fn added_repositories_serve_by_name() {
    let repository = Repository { required: Some(basic("ada", "secret")), ..Repository::default() };
    repository.put_index("shop", "1.2.3", "shop-1.2.3.tgz", None);
    repository.put("/shop-1.2.3.tgz", CHART);
    let url = repository.start().await;
    let home = Home::new();
    home.write(
        &home.paths().repository_config,
        &format!("repositories:\n- name: main\n  url: {url}\n  username: ada\n  password: secret\n"),
    );
    let fetcher = home.fetcher();
    let chart = fetcher.fetch(&Request::new("main/shop"), &Access::default()).await.unwrap();
    assert_eq!(chart.data, CHART);

    // The index is now where Helm caches it, and is used without being fetched again.
    assert!(home.paths().cached_index("main").exists());
    let names = std::fs::read_to_string(home.paths().repository_cache.join("main-charts.txt")).unwrap();
    assert_eq!(names, "shop\n");
    fetcher.fetch(&Request::new("main/shop").version("~1.2"), &Access::default()).await.unwrap();
    let indexes = repository.seen().iter().filter(|(path, _)| path == "/index.yaml").count();
    assert_eq!(indexes, 1);

    let error = fetcher.fetch(&Request::new("main/shop").version("2"), &Access::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "chart \"shop\" matching 2 not found in main index. (try 'helm repo update'): no chart version found for shop-2"
    );
}

#[tokio::test]
async fn a_url_in_an_added_repository_takes_its_credentials() {
    let repository = Repository { required: Some(basic("ada", "secret")), ..Repository::default() };
    repository.put("/shop-1.2.3.tgz", CHART);
    let url = repository.start().await;
    let home = Home::new();
    home.write(
        &home.paths().repository_config,
        &format!("repositories:\n- name: main\n  url: {url}\n  username: ada\n  password: secret\n"),
    );
    let index = format!(
        "apiVersion: v1\nentries:\n  shop:\n  - {{name: shop, version: 1.2.3, urls: [\"{url}/shop-1.2.3.tgz\"]}}\n"
    );
    home.write(&home.paths().cached_index("main"), &index);
    let request = Request::new(format!("{url}/shop-1.2.3.tgz"));
    assert_eq!(home.fetcher().fetch(&request, &Access::default()).await.unwrap().data, CHART);
}

#[tokio::test]
async fn tls_is_checked_against_the_given_authority() {
    let certificates = Certificates::new(false);
    let repository = Repository::default();
    repository.put("/shop-1.2.3.tgz", CHART);
    let address = certificates.serve(repository.router()).await;
    let request = Request::new(format!("https://{address}/shop-1.2.3.tgz"));
    let fetcher = Home::new().fetcher();

    let error = fetcher.fetch(&request, &Access::default()).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(error.help().unwrap().contains("--ca-file"));

    let trusting = Access { ca_file: Some(certificates.path("ca.pem")), ..Access::default() };
    assert_eq!(fetcher.fetch(&request, &trusting).await.unwrap().data, CHART);
    let careless = Access { insecure_skip_tls_verify: true, ..Access::default() };
    assert_eq!(fetcher.fetch(&request, &careless).await.unwrap().data, CHART);

    let wrong = Access { ca_file: Some(certificates.path("client.key")), ..Access::default() };
    let error = fetcher.fetch(&request, &wrong).await.unwrap_err();
    assert!(error.to_string().contains("failed to append certificates from file"), "{error}");
    let absent = Access { ca_file: Some("/nowhere.pem".into()), ..Access::default() };
    let error = fetcher.fetch(&request, &absent).await.unwrap_err();
    assert_eq!(error.to_string(), "can't create TLS config for client: can't read CA file: /nowhere.pem");
}

#[tokio::test]
async fn a_server_without_tls_is_told_apart() {
    let url = Repository::default().start().await.replace("http:", "https:");
    let request = Request::new(format!("{url}/shop-1.2.3.tgz"));
    let error = Home::new().fetcher().fetch(&request, &Access::default()).await.unwrap_err();
    assert!(error.help().unwrap().contains("does not use TLS"), "{error}");
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_one_is_wanted() {
    let certificates = Certificates::new(true);
    let repository = Repository::default();
    repository.put("/shop-1.2.3.tgz", CHART);
    let address = certificates.serve(repository.router()).await;
    let request = Request::new(format!("https://{address}/shop-1.2.3.tgz"));
    let fetcher = Home::new().fetcher();
    let anonymous = Access { ca_file: Some(certificates.path("ca.pem")), ..Access::default() };
    assert!(fetcher.fetch(&request, &anonymous).await.is_err());
    let known = Access {
        cert_file: Some(certificates.path("client.pem")),
        key_file: Some(certificates.path("client.key")),
        ..anonymous
    };
    assert_eq!(fetcher.fetch(&request, &known).await.unwrap().data, CHART);
}

#[tokio::test]
async fn values_files_come_by_url_too() {
    let repository = Repository::default();
    repository.put("/values.yaml", "replicas: 3\n");
    let url = repository.start().await;
    let data = Home::new().fetcher().fetch_file(&format!("{url}/values.yaml")).await.unwrap();
    assert_eq!(data, b"replicas: 3\n");
}
