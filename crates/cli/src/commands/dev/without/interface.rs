//! Replacement for the terminal interface in a build without the feature `screen`.

use crate::commands::dev::Format;
use crate::commands::dev::screen::Mark;
use crate::commands::dev::view::Scene;

/// An uninhabited type: there is no interface.
pub(in crate::commands::dev) enum Interface {}

impl Interface {
    pub(in crate::commands::dev) fn of(_: Format) -> Option<Self> {
        None
    }

    pub(in crate::commands::dev) fn set_title(&self, _: String) {
        match *self {}
    }

    pub(in crate::commands::dev) fn message(&self, _: Mark, _: &str) {
        match *self {}
    }

    pub(in crate::commands::dev) fn log(&self, _: &str) {
        match *self {}
    }

    pub(in crate::commands::dev) fn messages(&self) -> std::iter::Empty<&str> {
        match *self {}
    }

    pub(in crate::commands::dev) fn show(&self, _: &Scene) {
        match *self {}
    }
}

pub(in crate::commands::dev) mod terminal {
    use std::sync::Arc;

    use kube::Client;
    use tokio::sync::Notify;

    use crate::commands::dev::operators::Board;
    use crate::failure::{Failure, Result};

    /// An uninhabited type: there is no interface.
    pub(in crate::commands::dev) enum Terminal {}

    impl Terminal {
        pub(in crate::commands::dev) fn enter(_: Board, _: Arc<Notify>) -> Result<Self> {
            Err(Failure::of_feature("-o screen", "screen"))
        }

        pub(in crate::commands::dev) async fn run(&self, _: Client) -> Result {
            match *self {}
        }
    }
}
