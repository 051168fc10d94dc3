//! The program, run as a person would.

mod ansible_kill;
mod background;
mod book;
mod charts;
mod cluster;
mod deploy;
mod dev;
mod doctor;
mod documents;
mod e2e_command;
mod embedded;
mod envtest;
mod errors;
mod helm;
mod help;
mod image;
mod imports;
mod kudo;
mod kudo_golden;
mod kustomize;
mod network;
mod operators;
mod releases;
mod scaffold;
mod scaffold_rust;
mod scaffold_update;
#[path = "../../../registry/tests/registry/support/mod.rs"]
mod servers;
mod sim_ansible;
mod sim_command;
mod sim_go;
mod support;
mod template;
