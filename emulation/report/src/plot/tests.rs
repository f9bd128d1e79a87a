use super::*;
use crate::matrix::Matrix;
use remuda_matrix::Row;
use std::collections::BTreeMap;
use std::path::Path;

/// Arms whose names overlap in a scatter plot, and one that is markup if it is not escaped.
const ARMS: [&str; 8] = ["rein", "bbr", "cubic", "copa", "vegas", "<b>&", "reno", "westwood"];

fn board() -> Board {
    let mut rows = Vec::new();
    for place in 0..12usize {
        for (number, arm) in ARMS.iter().enumerate() {
            let (group, path) = [("A", "wired"), ("E", "cellular")][place % 2];
            let off = (place * 7 + number * 3) % 11;
            rows.push(Row {
                suite: "s".to_owned(),
                environment: format!("e{place}"),
                group: group.to_owned(),
                path: path.to_owned(),
                driver: (*arm).to_owned(),
                seed: 1,
                merit: 10.0 - number as f64 - off as f64 / 11.0,
                utilisation: Some(0.9 - off as f64 / 100.0),
                queueing_p95_ms: 5.0 + off as f64,
                ..Row::default()
            });
        }
    }
    Board::of(&Matrix { rows, about: BTreeMap::new() })
}

fn named<'a>(all: &'a [Plot], name: &str) -> &'a Plot {
    all.iter().find(|it| it.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn size(png: &[u8]) -> (u32, u32) {
    let mut reader = ::png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let dark = pixels.chunks(3).filter(|rgb| rgb.iter().all(|it| *it < 100)).count();
    assert!(dark > 1_000, "{dark} dark pixels of text");
    assert_eq!(pixels[..3], [255; 3], "the background is white");
    (info.width, info.height)
}

#[test]
fn every_chart_has_every_arm_and_its_axes_their_units() {
    let all = plots(&board(), &[], &[]).unwrap();
    if let Some(folder) = std::env::var_os("REMUDA_PLOTS") {
        for plot in &all {
            let at = Path::new(&folder).join(&plot.name);
            std::fs::write(at.with_extension("svg"), &plot.svg).unwrap();
            std::fs::write(at.with_extension("png"), &plot.png).unwrap();
        }
    }
    let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    let want = [
        "ranking-all-paths",
        "throughput-delay-all-paths",
        "cdf-merit-all-paths",
        "cdf-utilisation-all-paths",
        "cdf-queueing-delay-all-paths",
        "cdf-retransmitted-all-paths",
        "merit-by-group",
    ];
    assert_eq!(names, want, "no chart of a metric that no environment has");
    for name in ["ranking-all-paths", "throughput-delay-all-paths", "merit-by-group"] {
        let svg = &named(&all, name).svg;
        for arm in ARMS.iter().map(|it| it.replace('&', "&amp;").replace('<', "&lt;")) {
            let arm = arm.replace('>', "&gt;");
            assert!(svg.contains(&format!("\n{arm}\n")), "{name}: {arm}");
        }
        assert!(!svg.contains("<b>"), "{name}: a name is text, never markup");
    }
    for (name, labels) in [
        (
            "ranking-all-paths",
            &["below the best merit of the environment (%): mean, 95 % interval"][..],
        ),
        (
            "throughput-delay-all-paths",
            &["p95 queueing delay (ms), logarithmic", "utilisation of the link (%)"],
        ),
        (
            "cdf-queueing-delay-all-paths",
            &["p95 queueing delay (ms), logarithmic", "of the environments (%)"],
        ),
        ("merit-by-group", &["(%)", "E: cellular, Wi-Fi and satellite paths"]),
    ] {
        for label in labels.iter().chain(&[""]) {
            assert!(named(&all, name).svg.contains(label), "{name}: {label}");
        }
    }
    assert_eq!(plots(&board(), &[], &[]).unwrap(), all, "the same bytes");
}

#[test]
fn a_png_is_four_pixels_a_point_and_says_how_large_it_is_on_paper() {
    let all = plots(&board(), &[], &[]).unwrap();
    assert_eq!(size(&named(&all, "throughput-delay-all-paths").png), (1920, 1600));
    assert_eq!(size(&named(&all, "ranking-all-paths").png), (1920, (26 + 8 * 21 + 46) * 4));
    let png = &named(&all, "merit-by-group").png;
    let reader = ::png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let dims = reader.info().pixel_dims.unwrap();
    let inches = f64::from(reader.info().width) / f64::from(dims.xppu) / 0.0254;
    assert!((inches - 3.33).abs() < 0.01, "{inches} in");
}

#[test]
fn paths_and_arms_can_be_chosen() {
    let text = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let board = board();
    let all = plots(&board, &text(&["cellular paths"]), &text(&["reno", "bbr"])).unwrap();
    let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    assert!(names.contains(&"ranking-cellular-paths"), "only these paths: {names:?}");
    assert!(!names.iter().any(|name| name.contains("deep")), "{names:?}");
    let cdf = &named(&all, "cdf-merit-cellular-paths").svg;
    assert!(cdf.contains("\nreno\n") && cdf.contains("\nbbr\n") && !cdf.contains("\nrein\n"));
    let both = plots(&board, &text(&["cellular paths", "deep"]), &[]).unwrap();
    assert!(both.len() > all.len());
    let refused = |paths: &[&str], arms: &[&str]| {
        plots(&board, &text(paths), &text(arms)).unwrap_err().to_string()
    };
    let said = refused(&["lunar"], &[]);
    assert!(said.starts_with("--paths lunar: ") && said.contains("cellular paths"), "{said}");
    let said = refused(&[], &["cubik"]);
    assert!(said.starts_with("--arm cubik: is not in the table; fix: name one of "), "{said}");
    let said = refused(&[], &ARMS);
    assert!(said.starts_with("--arm: 8 arms; a plot has colours for 7"), "{said}");
}

#[test]
fn lines_are_told_apart_in_black_and_white() {
    let all = plots(&board(), &[], &[]).unwrap();
    let svg = &named(&all, "cdf-merit-all-paths").svg;
    let strokes = |colour: &str| svg.matches(&format!("stroke=\"{colour}\"")).count();
    assert_eq!(strokes("#0072B2"), 2, "the best is one line, and one in the legend");
    assert!(strokes("#D55E00") > 20, "the next has dashes");
    let patterns: std::collections::BTreeSet<_> = (0..COLOURS_MAX).map(canvas::dashes).collect();
    assert_eq!(patterns.len(), COLOURS_MAX);
}

#[test]
fn a_name_of_a_file_is_plain() {
    assert_eq!(
        slug("cellular paths with deep buffers (above 4 BDP)"),
        "cellular-paths-with-deep-buffers-above-4-bdp"
    );
    assert_eq!(slug("group ../E: x"), "group-e-x");
}
