//! The headers compile as a kernel and others would compile them, and the README's example runs.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
const WARNINGS: [&str; 8] = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wshadow",
    "-Wvla",
    "-Wdeclaration-after-statement",
    "-Wframe-larger-than=1024",
    "-std=gnu11",
];

/// The compilers there are.
fn compilers() -> Vec<&'static str> {
    let found: Vec<_> = ["gcc", "clang"]
        .into_iter()
        .filter(|name| Command::new(name).arg("--version").output().is_ok())
        .collect();
    if found.len() < 2 {
        eprintln!("SKIPPED in part: only {found:?} of gcc and clang are here");
    }
    found
}

fn compile(compiler: &str, source: &Path, arguments: &[&str]) {
    let output = Command::new(compiler)
        .args(WARNINGS)
        .args(arguments)
        .arg(format!("-I{FOLDER}/include"))
        .arg(source)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {arguments:?}\n{errors}");
}

#[test]
fn headers_compile_without_a_warning_and_without_a_libc() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("out.o");
    let object = object.to_str().unwrap();
    let u64_first = "typedef unsigned long long u64;\n";
    for (header, name, before) in [
        ("vm", "remuda_vm.h", "#define REMUDA_API\n"),
        ("datapath", "remuda_datapath.h", "#define REMUDA_API\n"),
        ("reduction", "remuda_reduction.h", u64_first),
    ] {
        let source = folder.path().join(format!("{header}.c"));
        fs::write(&source, format!("{before}#include \"{name}\"\n")).unwrap();
        for compiler in compilers() {
            for more in ["-O2", "-O0", "-Os"] {
                compile(compiler, &source, &["-c", "-ffreestanding", more, "-o", object]);
            }
            // The kernel has no floating point, and a red zone is not its.
            let kernel = ["-c", "-O2", "-ffreestanding", "-mno-sse", "-mno-red-zone", "-o", object];
            if cfg!(target_arch = "x86_64") {
                compile(compiler, &source, &kernel);
            }
        }
    }
}

/// What they take from a kernel, whose u64 is not a libc's.
const KERNEL_HEADERS: [(&str, &str); 4] = [
    (
        "types.h",
        "typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
         typedef unsigned long long u64; typedef _Bool bool; typedef __SIZE_TYPE__ size_t;
         enum { false, true };",
    ),
    ("stddef.h", "#define NULL ((void *)0)\n#define offsetof(t, m) __builtin_offsetof(t, m)"),
    ("string.h", "void *memcpy(void *, const void *, __SIZE_TYPE__);"),
    (
        "math64.h",
        "static inline unsigned long long div64_u64(unsigned long long a, unsigned long long b)
         { return a / b; }",
    ),
];

#[test]
fn headers_compile_with_a_kernels_types() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("linux")).unwrap();
    for (name, text) in KERNEL_HEADERS {
        fs::write(folder.path().join("linux").join(name), format!("{text}\n")).unwrap();
    }
    let (source, object) = (folder.path().join("kernel.c"), folder.path().join("kernel.o"));
    fs::write(&source, "#define REMUDA_API\n#include \"remuda_datapath.h\"\n").unwrap();
    let include = format!("-I{}", folder.path().display());
    let arguments = ["-c", "-O2", "-ffreestanding", "-nostdinc", "-D__KERNEL__", &include, "-o"];
    for compiler in compilers() {
        compile(compiler, &source, &[&arguments[..], &[object.to_str().unwrap()]].concat());
    }
}

#[test]
fn what_the_headers_call_is_what_a_kernel_has() {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("all.c"), folder.path().join("all.o"));
    fs::write(&source, "#define REMUDA_API\n#include \"remuda_datapath.h\"\n").unwrap();
    for compiler in compilers() {
        let arguments = ["-c", "-O2", "-ffreestanding", "-o", object.to_str().unwrap()];
        compile(compiler, &source, &arguments);
        let Ok(output) = Command::new("nm").arg("-u").arg(&object).output() else {
            eprintln!("SKIPPED: no nm");
            return;
        };
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        let unknown: Vec<&str> = names
            .split_whitespace()
            .filter(|word| !["U", "memcpy", "memset", "memcmp", "bcmp"].contains(word))
            .collect();
        assert!(unknown.is_empty(), "{compiler}: {unknown:?}");
    }
}

#[test]
fn the_example_of_the_readme_runs() {
    let readme = fs::read_to_string(Path::new(FOLDER).join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```c\n").expect("the README has an example");
    let (example, _) = rest.split_once("```").expect("the example ends");
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("example.c"), folder.path().join("example"));
    fs::write(&source, example).unwrap();
    for compiler in compilers() {
        compile(compiler, &source, &["-O2", "-o", program.to_str().unwrap()]);
        let output = Command::new(&program).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{compiler}: {said}");
        assert_eq!(said, "cwnd 20000\nreport 1448\n", "{compiler}");
    }
}
