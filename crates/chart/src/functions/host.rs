//! What functions need beside their arguments, and what their results take.

use steersman_gotemplate::Map;

use crate::environment::Environment;

/// What the functions need of the state that a render carries.
pub trait Host {
    /// The outside world of this render.
    fn environment(&mut self) -> &mut dyn Environment;

    /// Is told of a map that got a map or a list: only such a one can contain itself, and would then never be freed.
    fn changed(&mut self, map: &Map);
}

/// What Go's runtime says when a nil interface is asked for its type.
pub(super) const NIL_DEREFERENCE: &str = "runtime error: invalid memory address or nil pointer dereference";

/// What an entry of a map takes beside the text of its key, with its share of the tree.
pub(super) const MAP_ENTRY: usize = 96;

/// What a map of so many entries takes, beside the texts of its keys.
pub(crate) fn map_memory(entries: usize) -> usize {
    /// The smallest tree.
    const TREE: usize = 512;
    if entries == 0 { MAP_ENTRY } else { entries.saturating_mul(MAP_ENTRY).saturating_add(TREE) }
}

/// What a text takes beside its bytes.
pub(crate) const TEXT: usize = 32;

/// Runs one level of a recursion that values control, taking more stack from the heap where little is left.
pub(super) fn deeper<R>(step: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(128 << 10, 2 << 20, step)
}
