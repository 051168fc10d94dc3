//! Logs: readable on a terminal, JSON elsewhere.

use std::io::IsTerminal as _;

use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// The form of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Readable on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// A layer that takes events and spans to somewhere else.
pub(super) type More = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts logging, unless the program has done so itself.
pub(super) fn start(level: &str, format: Format, more: Option<More>) {
    let filter: Targets = level.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
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
    // Fails if there is a subscriber already, whose choice counts.
    let _ = tracing_subscriber::registry().with(more).with(layer.with_filter(filter)).try_init();
}
