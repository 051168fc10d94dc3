//! The API server, asked as clients ask.

mod access;
mod client;
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
