//! `steer`: build, run, test and drive Kubernetes operators.
//!
//! There is one thin module per command under [`commands`]: logic worth testing individually belongs in the libraries.

// Doc comments of flags are help texts for a terminal, in which brackets and URLs are not links.
#![allow(rustdoc::bare_urls, rustdoc::broken_intra_doc_links)]
// Helpers of commands missing in a build are unused.
#![cfg_attr(not(feature = "default"), allow(dead_code))]

mod args;
mod ask;
mod charts;
mod cluster;
mod commands;
mod envtest;
mod failure;
mod flags;
mod kubeconfig;
mod namespace;
mod output;
mod postrender;
#[cfg(feature = "registry")]
mod remote;
#[cfg(not(feature = "registry"))]
#[path = "without_remote.rs"]
mod remote;
mod runtime;
#[cfg(feature = "scaffold")]
mod scaffold;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::commands::Steer;
use crate::failure::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some(code) = envtest::run_by_name(&words) {
        return code;
    }
    let steer = match Steer::parse(flags::as_other_program(words.into_iter())) {
        Ok(steer) => steer,
        Err(error) => return show_usage(&error),
    };

    let mut output = Output::default();
    let result = steer.run(&mut output);
    // Output before a failure matters: lint messages, or a broken manifest with --debug.
    let written = output.flush();
    match result.and(written) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.show();
            failure.exit_code()
        }
    }
}

/// Prints help or a usage error.
///
/// Help goes to standard output, even if it is shown because no command was given; all else is a failure with Helm's exit code.
fn show_usage(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = write!(anstream::stdout(), "{}", error.render().ansi());
        return ExitCode::SUCCESS;
    }
    let _ = error.print();
    if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
