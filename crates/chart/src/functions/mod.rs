//! Every function that Helm offers to templates.

mod args;
mod cast;
pub(crate) mod constraint;
mod crypto;
mod data;
mod dates;
mod decimal;
mod dicts;
mod duration;
mod encoding;
mod gofmt;
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
mod words;

use args::define;
use steersman_gotemplate::{CallError, Funcs, Map, Str, Value};

use crate::environment::Environment;

/// What the functions need of the state that a render carries.
pub trait Host {
    /// The outside world of this render.
    fn environment(&mut self) -> &mut dyn Environment;

    /// Is told of a map that got a map or a list: only such a one can contain itself, and would then never be freed.
    fn changed(&mut self, map: &Map);
}

/// Adds sprig's functions and those of Helm's that need nothing but their arguments and the environment.
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

/// One of a host's addresses, empty if it has none. Helm asks no name server unless told to, and neither does an
/// environment that gives no addresses.
fn get_host_by_name(env: &mut dyn Environment, name: &Str) -> String {
    let mut addresses = env.resolve_host(&name.to_str_lossy());
    let chosen = random::below(env, addresses.len() as u64) as usize;
    if chosen < addresses.len() { addresses.swap_remove(chosen) } else { String::new() }
}

/// What Go's runtime says when a nil interface is asked for its type.
const NIL_DEREFERENCE: &str = "runtime error: invalid memory address or nil pointer dereference";

/// What an entry of a map takes beside the text of its key, with its share of the tree.
const MAP_ENTRY: usize = 96;

/// What a map of so many entries takes, beside the texts of its keys.
pub(crate) fn map_memory(entries: usize) -> usize {
    /// The smallest tree.
    const TREE: usize = 512;
    if entries == 0 { MAP_ENTRY } else { entries.saturating_mul(MAP_ENTRY).saturating_add(TREE) }
}

/// What a text takes beside its bytes.
pub(crate) const TEXT: usize = 32;

/// Runs one level of a recursion that values control, taking more stack from the heap where little is left.
fn deeper<R>(step: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(128 << 10, 2 << 20, step)
}
