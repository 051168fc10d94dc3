//! How `steer` is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Tens of thousands of pointers in tables would be relocated at every start, which takes as long as rendering a small
    // chart. At a fixed address they are not, which is how Go links helm and kubectl too. The price: the program itself is
    // always at the same place in memory, one obstacle less for an exploit of C code that it links; heap, stack
    // and libraries still move. musl links statically in a way of its own, which is left as it is.
    let is = |key: &str, wanted: &str| std::env::var(key).is_ok_and(|value| value == wanted);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
