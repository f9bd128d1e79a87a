//! Compiles the objects of the kernel side with Debian's clang. Neither BTF nor kernel headers are
//! needed here: libbpf's own headers come with the crate, the types are in src/bpf/kernel_types.h.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::PathBuf;

/// The files of src/bpf that are objects; the others are parts of them.
const OBJECTS: [&str; 2] = ["remuda", "owner"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    // clang for the bpf target does not look into the multiarch folder, where Debian has
    // asm/types.h, nor where the headers of a cross compiler are
    let include = format!("-I/usr/include/{arch}-linux-gnu");
    let include_cross = format!("-I/usr/{arch}-linux-gnu/include");
    for object in OBJECTS {
        let source = format!("src/bpf/{object}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{object}.bpf.o")))
            .clang_args([
                include.as_str(),
                include_cross.as_str(),
                "-I../tcp",
                "-I../vm/include",
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
            ])
            .build()
            .unwrap_or_else(|error| {
                panic!("{source}: {error}\nfix: apt-get install clang libelf-dev zlib1g-dev")
            });
    }
    for folder in ["src/bpf", "../tcp", "../vm/include"] {
        println!("cargo:rerun-if-changed={folder}");
    }
}
