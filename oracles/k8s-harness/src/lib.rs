//! The differential harness for the embedded API server.
//!
//! A [`corpus::Case`] is a short sequence of HTTP requests. The [`run`] module sends it to a
//! [`target::Target`] and returns the responses, [`mask`]ing everything that legitimately differs between
//! two servers (UIDs, times, resourceVersions). The real server's responses are stored in a [`recording`],
//! and [`compare`] lists the fields in which two servers differ. Cases come from the files under `corpus/`
//! and, seeded, from [`generate`].

pub mod commands;
pub mod compare;
pub mod corpus;
pub mod generate;
pub mod mask;
pub mod recording;
pub mod run;
pub mod suite;
pub mod target;
