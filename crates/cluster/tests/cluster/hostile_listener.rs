//! The API server's port under attack, in a process with a low limit on open files.
#![cfg(unix)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use steersman_cluster::Cluster;

/// Set in the server's process.
const SERVER: &str = "STEERSMAN_TEST_SERVER";

/// Not a test: the server's process, for which this program starts itself.
#[tokio::test]
async fn server_process() {
    if std::env::var_os(SERVER).is_none() {
        return;
    }
    let address = "127.0.0.1:0".parse().unwrap();
    let cluster = Cluster::builder().workloads(false).listen(address).start().await.unwrap();
    let certificate = cluster.root_certificate().replace('\n', "|");
    // The test harness writes to the same stream.
    println!("\nlistens {} {certificate}", cluster.address().unwrap());
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    let _ = end.await;
}

struct Server {
    process: Child,
    address: String,
    certificate: String,
}

impl Server {
    /// Starts this program again, as the server, with a limit on open files.
    fn start(files: usize) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut process = Command::new("sh")
            .arg("-c")
            .arg(format!(
                "ulimit -n {files}; exec \"$0\" --exact hostile_listener::server_process --nocapture"
            ))
            .arg(program)
            .env(SERVER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.map_while(Result::ok).find(|line| line.starts_with("listens ")).unwrap();
        let mut words = line.splitn(3, ' ').skip(1);
        let address = words.next().unwrap().to_owned();
        let certificate = words.next().unwrap().replace('|', "\n");
        Self { process, address, certificate }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Requests `/version` over TLS.
    fn ask(&self) -> String {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(client, self.connect());
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn idle_sockets_do_not_keep_others_out() {
    let server = Server::start(256);
    assert_eq!(server.ask(), "HTTP/1.1 200 OK\r\n");
    let idle: Vec<TcpStream> = (0..300).map(|_| server.connect()).collect();
    for _ in 0..3 {
        assert_eq!(server.ask(), "HTTP/1.1 200 OK\r\n");
    }
    drop(idle);
}
