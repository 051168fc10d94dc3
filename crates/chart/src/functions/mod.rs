//! Every function that Helm provides to templates.

mod args;
mod cast;
pub(crate) mod constraint;
#[cfg(feature = "crypto")]
mod crypto;
mod data;
mod dates;
mod decimal;
mod dicts;
mod duration;
mod encoding;
mod gofmt;
mod host;
pub(crate) mod layout;
mod lists;
mod math;
mod merge;
mod random;
mod reflect;
pub(crate) mod regexes;
pub(crate) mod semver;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod toml;
mod unicode;
pub(crate) mod urls;
mod version;
#[cfg(any(test, not(feature = "crypto")))]
mod without_crypto;
mod words;

use args::define;
use steersman_gotemplate::{CallError, Funcs, Str, Value};
#[cfg(not(feature = "crypto"))]
use without_crypto as crypto;

pub use host::Host;
use host::{MAP_ENTRY, NIL_DEREFERENCE, deeper};
pub(crate) use host::{TEXT, map_memory};

use crate::environment::Environment;

/// Registers sprig's functions, and those of Helm that need only their arguments and the environment.
pub fn register<H: Host>(funcs: &mut Funcs<H>) {
    text::register(funcs);
    math::register(funcs);
    random::register(funcs);
    reflect::register(funcs);
    lists::register(funcs);
    dicts::register(funcs);
    encoding::register(funcs);
    version::register(funcs);
    regexes::register(funcs);
    dates::register(funcs);
    data::register(funcs);
    urls::register(funcs);
    crypto::register(funcs);
    define!(funcs {
        "getHostByName" [env] (name: &Str) => get_host_by_name(env, name);
        "fail" (message: &Str) => Err::<Value, _>(CallError::new(message.to_str_lossy()));
    });
}

/// Returns one of a host's addresses, empty if it has none.
///
/// Helm does not query DNS unless enabled; an environment without DNS returns no addresses.
fn get_host_by_name(env: &mut dyn Environment, name: &Str) -> String {
    let mut addresses = env.resolve_host(&name.to_str_lossy());
    let chosen = random::below(env, addresses.len() as u64) as usize;
    if chosen < addresses.len() { addresses.swap_remove(chosen) } else { String::new() }
}
