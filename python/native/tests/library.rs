//! Checks the library that Python loads, in the folder of this test program. `cargo test` builds it
//! for this test.

#[test]
fn it_is_the_module_that_the_package_imports() {
    let program = std::env::current_exe().unwrap();
    let library = std::fs::read(program.with_file_name("libremuda_native.so")).unwrap();
    let has = |text: &[u8]| library.windows(text.len()).any(|window| window == text);
    assert!(has(b"PyInit__native"), "Python looks for this function");
    assert!(!has(b"libpython"), "Python itself provides its functions");
}
