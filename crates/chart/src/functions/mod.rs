//! Every function that Helm offers to templates.

use steersman_gotemplate::Funcs;

use crate::environment::Environment;

/// What the functions need of the state that a render carries.
pub(crate) trait Host {
    /// The outside world of this render.
    fn environment(&mut self) -> &mut dyn Environment;
}

/// Adds sprig's functions and those of Helm's that need nothing but their arguments and the environment.
pub(crate) fn register<H: Host>(funcs: &mut Funcs<H>) {
    let _ = funcs;
}
