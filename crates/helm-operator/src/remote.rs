//! Charts that are fetched from a URL or a repository.

use steersman_chart::Chart;
use steersman_registry::{Access, Fetcher, Paths, Request};

use crate::chart::checked;
use crate::error::{Error, Result};
use crate::watches::WatchConfig;

/// Fetches the chart of a watch.
pub(crate) async fn fetch(watch: &WatchConfig) -> Result<Chart> {
    fetch_with(watch, Paths::from_env()).await
}

/// As [`fetch`], with other paths of Helm's files.
async fn fetch_with(watch: &WatchConfig, paths: Paths) -> Result<Chart> {
    let place = watch.chart.to_string_lossy();
    let mut request = Request::new(place.clone()).version(&watch.chart_version);
    request.repository.clone_from(&watch.chart_repo);
    let fetched = Fetcher::new(paths).fetch(&request, &Access::default()).await;
    let fetched =
        fetched.map_err(|source| Error::Fetch { chart: place.to_string(), source: Box::new(source) })?;
    tracing::info!(url = fetched.url, sha256 = fetched.digest, "fetched a chart");
    checked(Chart::from_archive(&fetched.data), &fetched.url)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};

    use super::*;

    /// A packed chart.
    fn archive() -> Vec<u8> {
        let text = b"{apiVersion: v2, name: far, version: 0.1.0}";
        let mut archive =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, "far/Chart.yaml", &text[..]).unwrap();
        archive.into_inner().unwrap().finish().unwrap()
    }

    /// Serves the chart, and an index that lists it. Returns the URL.
    fn serve() -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let index = "apiVersion: v1\nentries:\n  far:\n  - {apiVersion: v2, name: far, version: 0.1.0, urls: [far-0.1.0.tgz]}\n";
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let first = lines.next().unwrap_or_default();
                lines.find(String::is_empty);
                let (status, body) = match first.split(' ').nth(1) {
                    Some("/far-0.1.0.tgz") => ("200 OK", archive()),
                    Some("/index.yaml") => ("200 OK", index.as_bytes().to_vec()),
                    _ => ("404 Not Found", Vec::new()),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(&body).unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn charts_come_from_afar() {
        let address = serve();
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::from_lookup(|name| (name == "HOME").then(|| home.path().into()));
        let watch = |chart: String, repo: Option<String>| WatchConfig {
            chart: chart.into(),
            chart_repo: repo,
            ..WatchConfig::default()
        };
        let by_url =
            fetch_with(&watch(format!("{address}/far-0.1.0.tgz"), None), paths.clone()).await.unwrap();
        assert_eq!(by_url.name(), "far");
        let by_name = fetch_with(&watch("far".into(), Some(address.clone())), paths.clone()).await.unwrap();
        assert_eq!(by_name.name(), "far");
        let missing =
            fetch_with(&watch(format!("{address}/near.tgz"), None), paths.clone()).await.unwrap_err();
        assert!(missing.to_string().contains("404"), "{missing}");
    }
}
