//! Logs: readable on a terminal, JSON elsewhere.

use std::io::IsTerminal as _;

use tracing::{Level, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Text on a terminal, otherwise JSON.
    Auto,
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

/// A layer that exports events and spans.
pub(super) type More = Box<dyn Layer<Registry> + Send + Sync>;

/// Initializes logging, unless the program has done so itself.
pub(super) fn start(level: &str, format: Format, more: Option<More>) {
    let filter = filter(level);
    let terminal = std::io::stderr().is_terminal();
    let json = match format {
        Format::Auto => !terminal,
        Format::Text => false,
        Format::Json => true,
    };
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer = if json {
        layer.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
    } else {
        layer.with_ansi(terminal).with_target(false).boxed()
    };
    // Fails if a subscriber is set already, which then counts.
    let _ = tracing_subscriber::registry().with(more).with(layer.with_filter(filter)).try_init();
}

/// Returns the filter for a log level. The client's own lines repeat what an API server refused, values of Secrets
/// included, so they are logged only where the level names the client: `debug,kube_client=debug`.
fn filter(level: &str) -> Targets {
    const CLIENT: &str = "kube_client";
    let filter: Targets = level.parse().unwrap_or_else(|_| Targets::new().with_default(Level::INFO));
    if filter.iter().any(|(target, _)| target.starts_with(CLIENT)) {
        return filter;
    }
    let default = filter.default_level().unwrap_or(LevelFilter::OFF);
    filter
        .with_target("kube_client::client", default.min(LevelFilter::INFO))
        // Requests, without bodies.
        .with_target("kube_client::client::builder", default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_bodies_are_logged_only_on_request() {
        let debug = filter("debug");
        assert!(debug.would_enable("steersman", &Level::DEBUG));
        assert!(debug.would_enable("kube_client::client::builder", &Level::DEBUG));
        assert!(!debug.would_enable("kube_client::client", &Level::DEBUG));
        assert!(filter("info,kube_client=debug").would_enable("kube_client::client", &Level::DEBUG));
        assert!(!filter("error").would_enable("kube_client::client", &Level::INFO));
        assert!(filter("steersman=loud").would_enable("kube_client::client", &Level::INFO));
    }
}
