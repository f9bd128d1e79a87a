use super::*;
use crate::trees::leaf;
use serde_json::{Value, json};

/// bbr and vegas, whose scores do not depend on the path.
pub fn constant(default: [f32; 2], throughput: [f32; 2], delay: [f32; 2]) -> Arc<Model> {
    let one = |value: f32| vec![leaf(value, COUNT)];
    let mode = |[bbr, vegas]: [f32; 2]| json!({ "bbr": one(bbr), "vegas": one(vegas) });
    let mut document = document();
    document["modes"] = json!({
        "default": mode(default), "throughput": mode(throughput), "delay": mode(delay)
    });
    Arc::new(parse(&document).expect("a model"))
}

/// bbr, at home, and vegas, of whose gain so much is doubted.
pub fn doubted(default: [f32; 2], doubt: f32) -> Arc<Model> {
    let mut document = document();
    let [bbr, vegas] = default.map(|score| [leaf(score, COUNT)]);
    document["modes"]["default"] = json!({ "bbr": bbr, "vegas": vegas });
    let squared = json!({ "vegas": leaf(doubt * doubt, COUNT) });
    document["doubts"] = json!({ "default": squared, "throughput": squared, "delay": squared });
    Arc::new(parse(&document).expect("a model"))
}

#[test]
fn doubts_are_of_every_arm_but_the_home_arm() {
    let model = doubted([0.8, 0.6], 0.3);
    assert_eq!(model.home(), "bbr");
    let said = model.predict(&NOTHING, Preference::DEFAULT);
    assert_eq!(said[0].uncertainty, 0.0);
    assert!((said[1].uncertainty - 0.3).abs() < 1e-6);
    let both = json!({ "bbr": leaf(0.1, COUNT), "vegas": leaf(0.1, COUNT) });
    for (doubts, want) in [
        (both, "doubts.default: it must have an entry for each arm except the home arm"),
        (json!({ "bbr": leaf(0.1, COUNT) }), "doubts.default.vegas: it is missing"),
    ] {
        let mut document = document();
        document["doubts"] = json!({ "default": doubts, "throughput": doubts, "delay": doubts });
        assert!(parse(&document).expect_err("a refusal").to_string().starts_with(want), "{want}");
    }
    let mut document = document();
    document["home"] = json!("cubic");
    assert!(parse(&document).expect_err("a refusal").to_string().starts_with("home = cubic"));
}

/// bbr: .8 in default, 1 for throughput, .5 for delay; vegas: .6, .2 and 1, of two ensembles.
fn document() -> Value {
    let one = |value: f32| vec![leaf(value, COUNT)];
    let two = |value: f32| vec![leaf(value - 0.1, COUNT), leaf(value + 0.1, COUNT)];
    let mode = |bbr, vegas| json!({ "bbr": one(bbr), "vegas": two(vegas) });
    let each = |bbr, vegas| json!({ "bbr": leaf(bbr, COUNT), "vegas": leaf(vegas, COUNT) });
    json!({
        "format": 3, "policy": "antelope", "home": "bbr", "doubts": null,
        "schema_version": schema().version, "schema_hash": SchemaHash::ours().to_string(),
        "kind": "per_arm", "arms": ["bbr", "vegas"], "checks": [],
        "card": {
            "name": "t", "data": "", "commit": "", "seed": 1, "environments_trained": 1,
            "environments_held_out": 1, "rows": 1, "scores": {}, "limits": ""
        },
        "modes": {
            "default": mode(0.8, 0.6), "throughput": mode(1.0, 0.2), "delay": mode(0.5, 1.0)
        },
        "values": { "throughput": each(-0.5, -0.75), "delay": each(0.5, 0.25) }
    })
}

fn parse(document: &Value) -> Result<Model, Error> {
    Model::parse(&document.to_string())
}

const NOTHING: Features = Features([f32::NAN; COUNT]);

#[test]
fn the_shipped_model_is_whole_small_and_of_this_schema() {
    let model = Model::shipped();
    assert!(SHIPPED.len() < 8_000_000, "{} bytes", SHIPPED.len());
    assert!(model.arms().contains(&"bbr") && model.arms().len() > 4);
    let scores = &model.card().scores;
    assert!(scores["default"] > scores["default_best_fixed_arm"], "{scores:?}");
    let said = model.predict(&NOTHING, Preference::DEFAULT);
    assert!(said.iter().all(|score| score.mean.is_finite()));
}

#[test]
fn weights_between_the_modes_mix_their_scores() {
    let model = parse(&document()).expect("a model");
    let at = |throughput, delay| {
        let said = model.predict(&NOTHING, Preference { throughput, delay });
        let hundredths = |value: f32| (value * 100.0).round() as i32;
        said.iter().map(|it| hundredths(it.mean)).collect::<Vec<_>>()
    };
    assert_eq!(at(1.0, 1.0), [80, 60]);
    assert_eq!(at(0.5, 0.5), [80, 60], "what counts is how they compare");
    assert_eq!(at(1.0, 0.0), [100, 20]);
    assert_eq!(at(1.0, 0.5), [90, 40]);
    assert_eq!(at(0.0, 1.0), [50, 100]);
    assert_eq!(at(0.25, 1.0), [58, 90]);
    assert_eq!(at(0.0, 0.0), [80, 60], "no preference is the default one");
    let said = model.predict(&NOTHING, Preference::DEFAULT);
    assert_eq!(said[0].uncertainty, 0.0);
    assert!((said[1].uncertainty - 0.1).abs() < 1e-6);
}

#[test]
fn a_joint_model_gets_the_arm_as_features() {
    let mut joint = document();
    joint["kind"] = json!("joint");
    // The second arm's feature, COUNT + 1, is 1 for vegas alone.
    let tree = json!({
        "left_children": [1, -1, -1], "right_children": [2, -1, -1],
        "split_indices": [COUNT + 1, 0, 0], "split_conditions": [0.5, 0.25, 0.75],
        "default_left": [0, 0, 0]
    });
    let mut of = leaf(0.0, COUNT + 2);
    *of.pointer_mut("/learner/gradient_booster/model/trees/0").expect("a model") = tree;
    for mode in ["default", "throughput", "delay"] {
        joint["modes"][mode] = json!({ "all": [of] });
    }
    let model = parse(&joint).expect("a model");
    assert_eq!(model.kind(), Kind::Joint);
    let said = model.predict(&NOTHING, Preference::DEFAULT);
    assert_eq!((said[0].mean, said[1].mean), (0.25, 0.75));
}

/// [`document`], with vegas alone corrected: throughput e^.5 times as large, delay e^-.25.
fn taught() -> Value {
    let mut document = document();
    let (shared, vegas) = (leaf(-4.0, COUNT), |value| json!({ "vegas": leaf(value, COUNT) }));
    document["online"] = json!({
        "parent": "0a".repeat(32), "rows": 7, "flows": 3,
        "shared": { "throughput": shared, "delay": shared },
        "corrections": { "throughput": vegas(0.5), "delay": vegas(-0.25) }
    });
    document
}

#[test]
fn a_value_is_the_arms_and_what_live_flows_have_taught_of_it() {
    let value = |document: &Value, arm: &str| {
        let of = parse(document).expect("a model").value(&NOTHING, arm);
        of.map(|it| (it.ln_throughput, it.ln_delay))
    };
    assert_eq!(value(&document(), "bbr"), Some((-0.5, 0.5)));
    assert_eq!(value(&taught(), "bbr"), Some((-4.5, -3.5)));
    assert_eq!(value(&taught(), "vegas"), Some((-4.25, -4.0)));
    assert_eq!(value(&taught(), "reno"), None);
    let model = parse(&taught()).expect("a model");
    let lineage = Lineage { parent: "0a".repeat(32), rows: 7, flows: 3 };
    assert_eq!(
        (model.lineage(), parse(&document()).expect("a model").lineage()),
        (Some(&lineage), None)
    );
}

#[test]
fn corrections_of_an_arm_move_its_score_by_what_is_wanted_and_not_far() {
    let at = |document: &Value, throughput, delay| {
        let model = parse(document).expect("a model");
        model.predict(&NOTHING, Preference { throughput, delay })
    };
    for (throughput, delay, want) in [(1.0, 1.0, 0.75f32), (1.0, 0.0, 0.5), (0.0, 1.0, 0.25)] {
        let (was, is) = (at(&document(), throughput, delay), at(&taught(), throughput, delay));
        assert_eq!(was[0], is[0], "bbr has no correction of its own");
        let near = |one: f32, other: f32| assert!((one - other).abs() < 1e-6, "{one} {other}");
        near(is[1].mean, was[1].mean * want.exp());
        near(is[1].uncertainty, was[1].uncertainty * want.exp());
    }
    for (correction, want) in [(9.0, 4.0), (-9.0, 0.25)] {
        let mut document = taught();
        document["online"]["corrections"]["throughput"]["vegas"] = leaf(correction, COUNT);
        let is = at(&document, 1.0, 0.0)[1].mean;
        assert!((is - 0.2 * want).abs() < 1e-6, "{is}");
    }
}

#[test]
fn what_was_taught_is_held_to_its_rules() {
    let check = |mode: &str, arm: &str, says: f32| {
        let features = vec![Value::Null; COUNT];
        json!([{ "mode": mode, "arm": arm, "features": features, "says": says }])
    };
    let part = "online.corrections.delay.reno: it must be one of the model's arms";
    for (path, value, want) in [
        ("/online/parent", json!("0A".repeat(32)), "online.parent"),
        ("/online/parent", json!("00"), "online.parent: it must be 64 digits"),
        ("/online/rows", json!(-1), "not a model"),
        ("/online/shared/delay", leaf(0.0, 3), "online.shared.delay: num_feature = 3"),
        ("/online/corrections/delay", json!({ "reno": leaf(0.0, COUNT) }), part),
        ("/checks", check("shared_delay", "bbr", -4.0), "check 0: it must have a mode"),
        ("/checks", check("shared_delay", "reno", -4.0), "check 0: it must have a mode"),
        ("/checks", check("value_delay", "", 0.5), "check 0: it must have a mode"),
        ("/checks", check("correction_delay", "bbr", 0.0), "check 0: it must have a mode"),
        ("/checks", check("correction_delay", "vegas", 0.0), "check 0 is -0.25, and was 0"),
    ] {
        let mut document = taught();
        *document.pointer_mut(path).expect("a model") = value;
        let error = parse(&document).expect_err("a refusal").to_string();
        assert!(error.contains(want), "{path}: {error}");
    }
    for (mode, arm, says) in [
        ("value_throughput", "vegas", -0.75),
        ("value_delay", "bbr", 0.5),
        ("correction_throughput", "vegas", 0.5),
        ("correction_delay", "vegas", -0.25),
        ("shared_throughput", "", -4.0),
        ("shared_delay", "", -4.0),
    ] {
        let mut document = taught();
        document["checks"] = check(mode, arm, says);
        parse(&document).unwrap_or_else(|error| panic!("{mode}: {error}"));
    }
    let mut document = taught();
    document["online"] = Value::Null;
    assert!(parse(&document).expect("a model").lineage().is_none());
}

#[test]
fn a_digest_is_of_the_files_bytes() {
    let text = document().to_string();
    let (one, other) = (Model::parse(&text).expect("a model"), Model::parse(&format!("{text}\n")));
    assert_eq!(one.digest().len(), 64);
    assert_ne!(one.digest(), other.expect("a model").digest(), "the same model, and another file");
}

#[test]
fn what_breaks_a_rule_is_refused_and_named() {
    let check = |says: f32| {
        json!([{
            "mode": "delay", "arm": "bbr", "features": vec![Value::Null; COUNT], "says": says
        }])
    };
    let cases = [
        ("/format", json!(1), "its format is 1, and this program's 3\nfix: train it anew"),
        ("/policy", json!("rein"), "policy = rein"),
        ("/schema_hash", json!("00"), "it was trained on other features"),
        ("/arms/0", json!("bbbr"), "arms: bbbr"),
        ("/arms/0", json!("vegas"), "must be there once"),
        ("/modes/delay/bbr", json!([]), "modes.delay.bbr: it must have 1 to 16"),
        ("/modes/delay/bbr", json!([leaf(0.0, 2)]), "modes.delay.bbr: num_feature = 2"),
        ("/modes/delay", json!({ "bbr": [] }), "modes.delay: it must have an entry for each"),
        ("/modes/delay", json!({ "bbr": [], "reno": [] }), "modes.delay"),
        ("/values", Value::Null, "values: it is missing"),
        ("/values/delay", json!({}), "values.delay: it must have an entry for each"),
        ("/values/delay/bbr", leaf(0.0, 2), "values.delay.bbr: num_feature = 2"),
        ("/values/delay/bbr", leaf(f32::NAN, COUNT), "not a model"),
        ("/checks", check(0.25), "check 0 is 0.5, and was 0.25"),
        ("/checks", json!([{ "mode": "x", "arm": "", "features": [], "says": 0 }]), "check 0"),
        ("/card/seed", json!("x"), "not a model"),
    ];
    for (path, value, want) in cases {
        let mut document = document();
        *document.pointer_mut(path).expect("a model") = value;
        let error = parse(&document).expect_err("a refusal").to_string();
        assert!(error.contains(want), "{path}: {error}");
    }
    let mut good = document();
    good["checks"] = check(0.5);
    parse(&good).expect("a model");
    let text = good.to_string();
    for cut in [0, 1, text.len() / 2, text.len() - 1] {
        Model::parse(&text[..cut]).expect_err("truncated");
    }
}
