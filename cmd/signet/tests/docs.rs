//! What the documents say is there is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The names of all tests below a folder.
fn tests_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            tests_in(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.extend(tests_of(&fs::read_to_string(&path).expect("a source file")));
        }
    }
}

/// Functions with a test's attribute, and those that `contract!` runs on each kind of store.
fn tests_of(text: &str) -> Vec<String> {
    let (mut found, mut marked, mut listed) = (Vec::new(), false, false);
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if let Some((name, _)) = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')) {
            found.extend(std::mem::take(&mut marked).then(|| name.to_owned()));
        } else if line.starts_with("contract!(") || line == ");" {
            listed = line != ");";
        } else if listed {
            found.push(line.to_owned());
        }
    }
    found
}

#[test]
fn a_function_that_no_harness_runs_is_no_test() {
    let text =
        "#[test]\n#[expect(lint)]\nfn a() {\n}\nfn b() {\n}\n#[tokio::test(start_paused = true)]\nasync fn c() {\n}
        // fn d()\nproptest! {\n    #[test]\n    fn e(\n    ) {}\n}\ncontract!(m, s, f:\n    g\n);\nh\nasync fn i() {}";
    assert_eq!(tests_of(text), ["a", "c", "e", "g"]);
}

#[test]
fn every_test_that_the_fault_table_names_exists() {
    let mut tests = BTreeSet::new();
    for folder in ["pkg", "cmd"] {
        tests_in(&repository().join(folder), &mut tests);
    }
    let page = fs::read_to_string(repository().join("docs/lineage.md")).expect("the page");
    let (_, table) = page.split_once("## Faults and their tests").expect("the table");
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 30, "{} rows", rows.len());
    for row in rows {
        let cell = row.trim_end_matches('|').rsplit('|').next().expect("a last cell");
        let named: Vec<_> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test in: {row}");
        for name in named {
            assert!(tests.contains(name), "there is no test `{name}`");
        }
    }
}

#[test]
fn every_code_of_the_verifier_is_in_the_document() {
    let page = fs::read_to_string(repository().join("docs/lineage.md")).expect("the page");
    let report = fs::read_to_string(repository().join("pkg/lineage/src/verify/report.rs")).expect("the source");
    let names = report.lines().filter_map(|line| line.trim().strip_prefix("Self::")?.split('"').nth(1));
    let names: Vec<_> = names.filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_')).collect();
    assert!(names.len() == 18, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("| {name} |")), "{name}");
    }
}
