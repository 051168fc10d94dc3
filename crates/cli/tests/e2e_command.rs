//! `steer e2e` and `steer kuttl`.

#[test]
fn nothing() {}
