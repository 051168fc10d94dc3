//! What functions need besides their arguments, and the memory of their results.

use steersman_gotemplate::Map;

use crate::environment::Environment;

/// Access to the state of a render.
pub trait Host {
    /// Returns the environment of this render.
    fn environment(&mut self) -> &mut dyn Environment;

    /// Records that a map or a list was put into `map`: only then can it contain itself and never be freed.
    fn changed(&mut self, map: &Map);
}

/// Go's runtime error when the type of a nil interface is requested.
pub(super) const NIL_DEREFERENCE: &str = "runtime error: invalid memory address or nil pointer dereference";

/// Memory of a map entry besides its key's string, including its share of the tree.
pub(super) const MAP_ENTRY: usize = 96;

/// Returns the memory of a map with this many entries, besides the strings of its keys.
pub(crate) fn map_memory(entries: usize) -> usize {
    /// The smallest tree.
    const TREE: usize = 512;
    if entries == 0 { MAP_ENTRY } else { entries.saturating_mul(MAP_ENTRY).saturating_add(TREE) }
}

/// Memory of a string besides its bytes.
pub(crate) const TEXT: usize = 32;

/// Runs one level of a recursion over values, allocating stack from the heap when little is left.
pub(super) fn deeper<R>(step: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(128 << 10, 2 << 20, step)
}
