//! Releases on the embedded cluster.

mod adopt;
mod apply_set;
mod crash;
mod diff;
mod embedded;
mod hooks;
mod hostile;
mod lookups;
mod operations;
mod records;
mod render_limits;
mod support;
mod uninstall;
mod write_modes;
