//! A custom resource for tests.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each suite uses a part")]

pub mod faults;
pub mod outage;

use std::net::SocketAddr;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[kube(group = "test.steersman.dev", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
#[serde(default)]
pub struct WidgetSpec {
    pub color: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[serde(default)]
pub struct WidgetStatus {
    pub color: String,
    pub note: Option<String>,
}

pub fn widget(name: &str, color: &str) -> Widget {
    Widget::new(name, WidgetSpec { color: color.to_owned() })
}

pub fn shown(widget: Option<&Widget>) -> Option<&str> {
    Some(widget?.status.as_ref()?.color.as_str())
}

pub fn free_port() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

pub async fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
