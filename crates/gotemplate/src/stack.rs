//! Recursion that cannot overflow the stack.

/// Runs `step` with enough stack for a few more levels, allocating from the heap when little is left.
///
/// Every recursion in this crate whose depth depends on input must use it.
#[inline]
pub(crate) fn grow<R>(step: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(128 << 10, 2 << 20, step)
}
