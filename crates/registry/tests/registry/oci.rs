//! Charts from OCI registries, over real sockets.

use std::fs;

use steersman_registry::{Access, Error, Limits, Request};

use crate::support::{
    CHART, CONFIG, Certificates, Home, INDEX, Login, MANIFEST, OciServer, Repository, sha256,
};

const DATA: &[u8] = b"a packed chart";

fn plain() -> Access {
    Access { plain_http: true, ..Access::default() }
}

fn ada() -> Access {
    Access { username: Some("ada".into()), password: Some("secret".into()), ..plain() }
}

#[tokio::test]
async fn a_chart_is_pulled_by_its_version() {
    let server = OciServer::default();
    let digest = server.push("charts/shop", "1.2.3_build.5", DATA, Some(b"signed"));
    let host = server.start().await;
    let home = Home::new();
    let request =
        Request::new(format!("oci://{host}/charts/shop")).version("1.2.3+build.5").with_provenance();
    let chart = home.fetcher().fetch(&request, &plain()).await.unwrap();
    assert_eq!(chart.file_name, "shop-1.2.3+build.5.tgz");
    assert_eq!(chart.url, format!("oci://{host}/charts/shop:1.2.3_build.5"));
    assert_eq!((chart.data.as_slice(), chart.digest), (DATA, sha256(DATA)));
    assert_eq!(chart.manifest_digest, Some(digest));
    assert_eq!(chart.provenance.as_deref(), Some(&b"signed"[..]));
}

#[tokio::test]
async fn a_range_is_resolved_over_the_tags() {
    let server = OciServer::default();
    for tag in ["1.2.3", "1.10.0", "2.0.0", "3.0.0-rc.1", "latest", "1.2", "v9.0.0"] {
        server.push("shop", tag, tag.as_bytes(), None);
    }
    let host = server.start().await;
    let home = Home::new();
    let fetcher = home.fetcher();
    let pulled = async |version: &str| {
        let request = Request::new(format!("oci://{host}/shop")).version(version);
        fetcher.fetch(&request, &plain()).await.map(|chart| String::from_utf8(chart.data).unwrap())
    };
    assert_eq!(pulled("").await.unwrap(), "2.0.0");
    assert_eq!(pulled("^1").await.unwrap(), "1.10.0");
    assert_eq!(pulled("~1.2.0").await.unwrap(), "1.2.3");
    assert_eq!(pulled(">0.0.0-0").await.unwrap(), "3.0.0-rc.1");
    let error = pulled("^7").await.unwrap_err();
    assert_eq!(error.to_string(), "Could not locate a version matching provided version string ^7");
}

#[tokio::test]
async fn more_tags_than_a_page_holds_are_all_seen() {
    let server = OciServer::default();
    for patch in 0..2345 {
        server.push("shop", &format!("1.0.{patch}"), b"chart", None);
    }
    let host = server.start().await;
    let request = Request::new(format!("oci://{host}/shop"));
    let chart = Home::new().fetcher().fetch(&request, &plain()).await.unwrap();
    assert_eq!(chart.file_name, "shop-1.0.2344.tgz");
    assert_eq!(server.seen().iter().filter(|path| path.ends_with("/tags/list")).count(), 3);
}

#[tokio::test]
async fn a_tag_in_the_reference_must_be_the_version() {
    let server = OciServer::default();
    server.push("shop", "1.2.3", DATA, None);
    server.push("shop", "latest", DATA, None);
    let host = server.start().await;
    let fetcher = Home::new().fetcher();
    for (tag, version) in [("1.2.3", ""), ("1.2.3", "1.2.3"), ("latest", "")] {
        let request = Request::new(format!("oci://{host}/shop:{tag}")).version(version);
        assert_eq!(fetcher.fetch(&request, &plain()).await.unwrap().data, DATA);
    }
    let request = Request::new(format!("oci://{host}/shop:1.2.3")).version("1.2.4");
    let error = fetcher.fetch(&request, &plain()).await.unwrap_err();
    assert_eq!(error.to_string(), "chart reference and version mismatch: 1.2.4 is not 1.2.3");
}

#[tokio::test]
async fn a_digest_pins_the_content() {
    let server = OciServer::default();
    let digest = server.push("shop", "1.2.3", DATA, None);
    server.push("shop", "1.2.4", b"another chart", None);
    let host = server.start().await;
    let home = Home::new();
    let fetcher = home.fetcher();
    let pinned = format!("oci://{host}/shop@{digest}");
    let chart = fetcher.fetch(&Request::new(&pinned), &plain()).await.unwrap();
    assert_eq!(chart.data, DATA);
    assert_eq!(chart.file_name, format!("shop@{}.tgz", digest.replace(':', "-")));

    // All of it is cached now: no request is needed at all.
    let before = server.seen().len();
    assert!(fetcher.fetch(&Request::new(&pinned), &plain()).await.unwrap().from_cache);
    assert_eq!(server.seen().len(), before);

    assert!(fetcher.fetch(&Request::new(&pinned).version("1.2.3"), &plain()).await.is_ok());
    assert!(fetcher.fetch(&Request::new(&pinned).version("9.9.9"), &plain()).await.is_ok());
    let error = fetcher.fetch(&Request::new(&pinned).version("1.2.4"), &plain()).await.unwrap_err();
    assert!(matches!(error, Error::ReferenceDigest { .. }), "{error}");
}

#[tokio::test]
async fn a_blob_that_is_not_what_its_digest_says_is_refused() {
    let server = OciServer::default();
    server.push("shop", "1.2.3", DATA, None);
    let digest = format!("sha256:{}", sha256(DATA));
    server.blobs.lock().unwrap().insert(digest, b"a poison chart".to_vec());
    let host = server.start().await;
    let home = Home::new();
    let request = Request::new(format!("oci://{host}/shop")).version("1.2.3");
    let error = home.fetcher().fetch(&request, &plain()).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("digest"), "{error}");
}

#[tokio::test]
async fn a_manifest_that_is_not_what_its_digest_says_is_refused() {
    let server = OciServer::default();
    let digest = server.push("shop", "1.2.3", DATA, None);
    let other = server.push("shop", "1.2.4", b"a poison chart", None);
    {
        let mut manifests = server.manifests.lock().unwrap();
        let poison = manifests[&("shop".into(), other)].clone();
        manifests.insert(("shop".into(), digest.clone()), poison);
    }
    let host = server.start().await;
    let request = Request::new(format!("oci://{host}/shop@{digest}"));
    let error = Home::new().fetcher().fetch(&request, &plain()).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("digest"), "{error}");
}

#[tokio::test]
async fn sizes_are_believed_neither_too_much_nor_too_little() {
    let server = OciServer::default();
    let config = server.blob(CONFIG, b"{}");
    let chart = server.blob(CHART, DATA);
    let manifest = |size: u64| {
        let mut chart = chart.clone();
        chart["size"] = size.into();
        serde_json::json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [chart]})
    };
    server.manifest("shop", "1.0.0", MANIFEST, &manifest(1 << 40));
    server.manifest("shop", "1.0.1", MANIFEST, &manifest(3));
    let host = server.start().await;
    let fetcher = Home::new().fetcher_limited(Limits { chart: 1000, ..Limits::default() });
    for (version, limit) in [("1.0.0", 1000), ("1.0.1", 3)] {
        let request = Request::new(format!("oci://{host}/shop")).version(version);
        let error = fetcher.fetch(&request, &plain()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("oci://{host}/shop:{version} is larger than {limit} bytes"));
    }
}

#[tokio::test]
async fn a_token_is_bought_with_name_and_password() {
    let login = Login::Token { name: "ada".into(), password: "secret".into(), identity: "none".into() };
    let server = OciServer { login, ..OciServer::default() };
    server.push("charts/shop", "1.2.3", DATA, None);
    let host = server.start().await;
    let fetcher = Home::new().fetcher();
    let request = Request::new(format!("oci://{host}/charts/shop"));
    assert_eq!(fetcher.fetch(&request, &ada()).await.unwrap().data, DATA);
    assert!(server.seen().contains(&"GET /token".to_owned()));

    let error = fetcher.fetch(&request, &plain()).await.unwrap_err();
    assert!(matches!(&error, Error::Unauthorized { registry, .. } if *registry == host), "{error}");
    assert!(error.help().unwrap().contains(&format!("helm registry login {host}")));
    let wrong = Access { password: Some("guess".into()), ..ada() };
    let error = fetcher.fetch(&request, &wrong).await.unwrap_err();
    assert!(error.to_string().ends_with("not authorized: wrong name or password"), "{error}");
}

#[tokio::test]
async fn credentials_come_from_helms_file_and_then_dockers() {
    let login = Login::Basic("ada".into(), "secret".into());
    let server = OciServer { login, ..OciServer::default() };
    server.push("shop", "1.2.3", DATA, None);
    let host = server.start().await;
    let request = Request::new(format!("oci://{host}/shop")).version("1.2.3");
    let config = |auth: &str| format!(r#"{{"auths": {{"{host}": {{"auth": "{auth}"}}}}}}"#);
    let (right, wrong) = (config("YWRhOnNlY3JldA=="), config("YWRhOndyb25n"));

    let home = Home::new();
    home.write(&home.paths().docker_config.unwrap(), &right);
    assert_eq!(home.fetcher().fetch(&request, &plain()).await.unwrap().data, DATA);

    let home = Home::new();
    home.write(&home.paths().registry_config, &right);
    home.write(&home.paths().docker_config.unwrap(), &wrong);
    assert_eq!(home.fetcher().fetch(&request, &plain()).await.unwrap().data, DATA);

    // Explicit credentials take precedence.
    let home = Home::new();
    home.write(&home.paths().registry_config, &wrong);
    assert!(home.fetcher().fetch(&request, &plain()).await.is_err());
    assert_eq!(home.fetcher().fetch(&request, &ada()).await.unwrap().data, DATA);

    home.write(&home.paths().registry_config, "{");
    let error = home.fetcher().fetch(&request, &plain()).await.unwrap_err();
    assert!(matches!(error, Error::CredentialsFile { .. }), "{error}");
}

#[tokio::test]
async fn an_identity_token_buys_an_access_token() {
    let login = Login::Token { name: "x".into(), password: "x".into(), identity: "long-lived".into() };
    let server = OciServer { login, ..OciServer::default() };
    server.push("charts/shop", "1.2.3", DATA, None);
    let host = server.start().await;
    let home = Home::new();
    let config = format!(r#"{{"auths": {{"{host}": {{"identitytoken": "long-lived"}}}}}}"#);
    home.write(&home.paths().registry_config, &config);
    let request = Request::new(format!("oci://{host}/charts/shop"));
    assert_eq!(home.fetcher().fetch(&request, &plain()).await.unwrap().data, DATA);
    assert!(server.seen().contains(&"POST /token".to_owned()));
}

#[cfg(unix)]
#[tokio::test]
async fn helpers_that_cannot_answer_are_named() {
    let server = OciServer::default();
    let host = server.start().await;
    let home = Home::new();
    for (helper, message) in [
        ("no-such-helper-here", "No such file or directory"),
        ("../../bin/sh", "not a name that a helper can have"),
    ] {
        let config = format!(r#"{{"credHelpers": {{"{host}": "{helper}"}}}}"#);
        home.write(&home.paths().docker_config.unwrap(), &config);
        let request = Request::new(format!("oci://{host}/shop"));
        let error = home.fetcher().fetch(&request, &plain()).await.unwrap_err();
        assert!(matches!(&error, Error::CredentialHelper { .. }), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[tokio::test]
async fn an_index_of_manifests_is_searched_for_the_chart() {
    let server = OciServer::default();
    let image_config = server.blob("application/vnd.oci.image.config.v1+json", b"{}");
    let image =
        serde_json::json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": image_config, "layers": []});
    let image_digest = server.manifest("shop", "image", MANIFEST, &image);
    let chart_digest = server.push("shop", "chart", DATA, None);
    let entries: Vec<_> = [&image_digest, &chart_digest]
        .map(|digest| serde_json::json!({"mediaType": MANIFEST, "digest": digest, "size": 1}))
        .into();
    let index = serde_json::json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
    server.manifest("shop", "1.2.3", INDEX, &index);
    let host = server.start().await;
    let fetcher = Home::new().fetcher();
    let request = Request::new(format!("oci://{host}/shop")).version("1.2.3");
    assert_eq!(fetcher.fetch(&request, &plain()).await.unwrap().data, DATA);

    let request = Request::new(format!("oci://{host}/shop:image"));
    let error = fetcher.fetch(&request, &plain()).await.unwrap_err();
    assert!(error.to_string().contains("could not load config with mediatype"), "{error}");
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let server = OciServer::default();
    server.push("shop", "not-a-version", DATA, None);
    let host = server.start().await;
    let fetcher = Home::new().fetcher();
    let message = async |reference: String| {
        fetcher.fetch(&Request::new(reference), &plain()).await.unwrap_err().to_string()
    };
    assert_eq!(
        message(format!("oci://{host}/shop:1.2.3")).await,
        format!("oci://{host}/shop:1.2.3: not found")
    );
    assert_eq!(message(format!("oci://{host}/bazaar")).await, format!("oci://{host}/bazaar: not found"));
    assert_eq!(
        message(format!("oci://{host}/shop")).await,
        format!("Unable to locate any tags in provided repository: oci://{host}/shop")
    );
    assert!(message("oci://shop".into()).await.contains("missing registry or repository"));
}

#[tokio::test]
async fn tls_is_the_rule_and_the_authority_can_be_given() {
    let certificates = Certificates::new(false);
    let server = OciServer::default();
    server.push("shop", "1.2.3", DATA, None);
    let address = certificates.serve(server.router()).await;
    let request = Request::new(format!("oci://{address}/shop")).version("1.2.3");
    let home = Home::new();
    let error = home.fetcher().fetch(&request, &Access::default()).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    let trusting = Access { ca_file: Some(certificates.path("ca.pem")), ..Access::default() };
    assert_eq!(home.fetcher().fetch(&request, &trusting).await.unwrap().data, DATA);
    let careless = Access { insecure_skip_tls_verify: true, ..Access::default() };
    assert_eq!(Home::new().fetcher().fetch(&request, &careless).await.unwrap().data, DATA);
}

#[tokio::test]
async fn a_registry_on_this_machine_may_lack_tls() {
    let server = OciServer::default();
    server.push("shop", "1.2.3", DATA, None);
    let host = server.start().await;
    let request = Request::new(format!("oci://{host}/shop")).version("1.2.3");
    assert_eq!(Home::new().fetcher().fetch(&request, &Access::default()).await.unwrap().data, DATA);
}

#[tokio::test]
async fn an_index_may_point_into_a_registry() {
    let server = OciServer::default();
    server.push("charts/shop", "1.2.3", DATA, None);
    let host = server.start().await;
    let repository = Repository::default();
    repository.put_index("shop", "1.2.3", &format!("oci://{host}/charts/shop:1.2.3"), None);
    let url = repository.start().await;
    let request = Request::new("shop").repository(url).version("^1");
    assert_eq!(Home::new().fetcher().fetch(&request, &plain()).await.unwrap().data, DATA);
}

#[tokio::test]
async fn nothing_is_left_half_written() {
    let server = OciServer::default();
    server.push("shop", "1.2.3", DATA, None);
    let host = server.start().await;
    let home = Home::new();
    let request = Request::new(format!("oci://{host}/shop")).version("1.2.3");
    let chart = home.fetcher().fetch(&request, &plain()).await.unwrap();
    let target = tempfile::tempdir().unwrap();
    chart.save(target.path()).unwrap();
    let names: Vec<_> =
        fs::read_dir(target.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["shop-1.2.3.tgz"]);
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let certificates = Certificates::new(true);
    let server = OciServer::default();
    server.push("shop", "1.2.3", DATA, None);
    let address = certificates.serve(server.router()).await;
    let request = Request::new(format!("oci://{address}/shop")).version("1.2.3");
    let nameless = Access { ca_file: Some(certificates.path("ca.pem")), ..Access::default() };
    let error = Home::new().fetcher().fetch(&request, &nameless).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    let named = Access {
        cert_file: Some(certificates.path("client.pem")),
        key_file: Some(certificates.path("client.key")),
        ..nameless
    };
    assert_eq!(Home::new().fetcher().fetch(&request, &named).await.unwrap().data, DATA);
}

#[tokio::test]
async fn a_manifest_has_a_limit() {
    let server = OciServer::default();
    let manifest = serde_json::json!({"layers": [], "padding": " ".repeat(4 << 20)});
    server.manifest("shop", "1.2.3", MANIFEST, &manifest);
    let host = server.start().await;
    let request = Request::new(format!("oci://{host}/shop")).version("1.2.3");
    let error = Home::new().fetcher().fetch(&request, &plain()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("oci://{host}/shop:1.2.3 is larger than 4194304 bytes"));
}
