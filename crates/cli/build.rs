//! How `steer` is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Tens of thousands of pointers in tables would be relocated at every start, which takes as long as rendering a small
    // chart. At a fixed address they are not, which is how Go links helm and kubectl too.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
