//! Recursion that cannot overflow the stack.

/// Runs `step` with enough stack for it and a few levels below, taking more from the heap where little is left.
/// Every recursion in this crate that input controls goes through here.
#[inline]
pub(crate) fn grow<R>(step: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(128 << 10, 2 << 20, step)
}
