//! Each line of SECURITY.md's tables names the tests that try it, and they exist.

use remuda_tests::root;
use std::fs;
use std::path::Path;

/// All Rust sources in which a test may be.
fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        let is_built = path.file_name().is_some_and(|name| name == "target");
        if path.is_dir() && !is_built {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).expect("UTF-8"));
        }
    }
}

#[test]
fn every_line_of_the_threat_model_has_a_test() {
    let mut code = String::new();
    for folder in ["ccp-agent", "cli", "datapath", "tests"] {
        sources(&root().join(folder), &mut code);
    }
    let page = fs::read_to_string(root().join("SECURITY.md")).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let rows = rows.filter(|line| !line.starts_with("|---") && !line.ends_with("| test |"));
    let mut count = 0;
    for row in rows {
        let tests = row.trim_end_matches('|').rsplit('|').next().expect("a last column");
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            let test = format!("#[test]\nfn {name}()");
            let nested = format!("#[test]\n    fn {name}()");
            let has = code.contains(&test) || code.contains(&nested);
            assert!(has, "SECURITY.md: there is no test {name}");
            count += 1;
        }
    }
    println!("{count} tests are named");
    assert!(count > 40, "the tables are not found");
}
