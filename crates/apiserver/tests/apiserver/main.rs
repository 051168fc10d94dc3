//! The API server, tested through client requests.

mod access;
mod client;
mod columns;
mod conversion;
mod descriptions;
mod durability;
mod flow_control;
mod health;
mod hostile;
mod kinds;
mod policies;
mod rules;
mod watch;
