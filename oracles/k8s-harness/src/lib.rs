//! The differential harness for the embedded API server.
//!
//! A [`corpus::Case`] is a short sequence of HTTP requests. The [`run`] module sends it to a
//! [`target::Target`] and gives the answers with everything [`mask`]ed that may rightly differ between
//! two servers (uids, times, resource versions). The real server's answers are kept in a
//! [`recording`], and [`compare`] says in which fields two servers disagree. Cases come from the files under
//! `corpus/` and, seeded, from [`generate`].

pub mod commands;
pub mod compare;
pub mod corpus;
pub mod generate;
pub mod mask;
pub mod recording;
pub mod run;
pub mod suite;
pub mod target;
