//! Compiles the headers into symbols that Rust can call.

fn main() {
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-changed=src/ffi.c");
    cc::Build::new()
        .file("src/ffi.c")
        .include("include")
        .std("gnu11")
        // It runs at every ACK, in debug builds too.
        .opt_level(2)
        .extra_warnings(true)
        .compile("remuda_vm");
}
