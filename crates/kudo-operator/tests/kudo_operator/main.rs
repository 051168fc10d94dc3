//! KUDO operators on the embedded cluster.

mod bad_input;
mod crash;
mod plans;
mod public;
mod support;
mod upkeep;
