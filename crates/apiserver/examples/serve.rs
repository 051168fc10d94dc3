//! Serves plain HTTP on a loopback port, to try clients: `cargo run --example serve -- 8001`.

use hyper_util::rt::{TokioExecutor, TokioIo};
use steersman_apiserver::Server;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).and_then(|p| p.parse().ok()).unwrap_or(8001_u16);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let server = Server::default();
    println!("http://127.0.0.1:{port}");
    loop {
        let (stream, _) = listener.accept().await?;
        let service = hyper_util::service::TowerToHyperService::new(server.service());
        tokio::spawn(async move {
            let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
