//! Ansible operators with real plays.

mod advanced;
mod inputs;
mod oracle;
mod plays;
mod support;
