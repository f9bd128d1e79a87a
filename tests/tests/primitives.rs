//! The table of primitives in docs/wire-protocol.md says what the capability bits say.

use remuda_tests::root;
use remuda_wire::capability;
use std::fs;

/// The datapaths by their column. The module's bits are those that the kernel tests read from its
/// device.
const DATAPATHS: [(&str, u32); 5] = [
    ("BPF", remuda_bpf::announce::CAPABILITIES),
    ("module", capability::SIGNALS | capability::CCP),
    ("noq", remuda_quic::CAPABILITIES),
    ("quinn", remuda_quic::quinn::CAPABILITIES),
    ("simulator", capability::SIGNALS | capability::CCP),
];

/// The cells of the table's rows, the header row first.
fn table() -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("docs/wire-protocol.md")).expect("it is there");
    let lines = text.lines().skip_while(|line| !line.starts_with("| primitive |"));
    let rows = lines.take_while(|line| line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

#[test]
fn what_the_table_calls_exact_or_missing_is_what_the_bits_say() {
    let table = table();
    let (head, rows) = table.split_first().expect("the table");
    let mut seen = 0;
    for row in rows.iter().filter(|row| row[1].parse::<u32>().is_ok()) {
        let bit = 1 << row[1].parse::<u32>().expect("a number");
        seen |= bit;
        for ((name, bits), (title, cell)) in DATAPATHS.iter().zip(head[2..].iter().zip(&row[2..])) {
            assert_eq!(name, title, "columns");
            let said = if bits & bit == 0 { "missing" } else { "exact" };
            assert!(cell.starts_with(said), "{}, {name}: {cell:?} is to begin with {said}", row[0]);
        }
    }
    assert_eq!(seen, capability::NAMES.iter().fold(0, |all, (bit, _)| all | bit), "a row a bit");
}

#[test]
fn every_primitive_of_ccp_has_a_row() {
    let header = fs::read_to_string(root().join("datapath/vm/include/remuda_primitives.h"));
    let header = header.expect("it is there");
    let names = header.lines().filter_map(|line| line.strip_prefix("\tu64 ")?.split(';').next());
    let first: Vec<String> = table().into_iter().map(|mut row| row.swap_remove(0)).collect();
    for name in names {
        let quoted = format!("`{name}`");
        assert!(first.iter().any(|cell| cell.contains(&quoted)), "no row of {name}");
    }
}

#[test]
fn c_and_rust_have_the_same_bits() {
    let header = fs::read_to_string(root().join("datapath/vm/include/remuda_announce.h"));
    let header = header.expect("it is there");
    for (name, value) in [
        ("SIGNAL", capability::SIGNALS),
        ("NATIVE", capability::NATIVE),
        ("PACE", capability::PACING),
        ("MARKS", capability::MARKS),
        ("PACKETS", capability::PACKETS),
        ("PENDING", capability::PENDING),
    ] {
        let line = format!("REMUDA_CAN_{name} = {value:#x}");
        assert!(header.contains(&line), "remuda_announce.h lacks {line}");
    }
}
