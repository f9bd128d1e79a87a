use super::networks::{ACTOR, CHANGE};
use super::*;
use crate::scripted::{at, drive, path, proposals, report, suits, whatever_is_reported};
use proptest::prelude::*;
use remuda_algorithms::loaded::digest_of;
use remuda_algorithms::{ARMS, Loaded, Network, Validity};

/// Networks whose cards say `kind`, with these inputs and outputs; each output is its bias.
fn constant(kind: &str, inputs: &[String], outputs: &[(&str, f32)], last: &str) -> Network {
    let (rows, columns) = (inputs.len(), outputs.len());
    let weight = vec![0.0; rows * columns];
    let bias: Vec<f32> = outputs.iter().map(|(_, bias)| *bias).collect();
    let data: Vec<u8> = bias.iter().chain(&weight).flat_map(|it| it.to_le_bytes()).collect();
    let end = bias.len() * 4;
    let header = format!(
        "{{\"only.bias\":{{\"dtype\":\"F32\",\"shape\":[{columns}],\"data_offsets\":[0,{end}]}},\
         \"only.weight\":{{\"dtype\":\"F32\",\"shape\":[{rows},{columns}],\
         \"data_offsets\":[{end},{}]}}}}",
        data.len()
    );
    let weights = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    let inputs: Vec<String> = inputs
        .iter()
        .map(|name| format!("{{\"name\":\"{name}\",\"low\":-1e12,\"high\":1e12}}"))
        .collect();
    let outputs: Vec<String> = outputs.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let card = format!(
        "{{\"format\":1,\"name\":\"test\",\"kind\":\"{kind}\",\"weights\":\"{}\",\
         \"inputs\":[{}],\"outputs\":[{}],\"layers\":[{{\"name\":\"only\",\"reads\":[0,{rows}],\
         \"activation\":\"{last}\",\"shape\":{{\"type\":\"dense\",\"outputs\":{columns}}}}}],\
         \"data\":\"\",\"families\":[],\"commit\":\"\",\"seed\":1,\"hyperparameters\":{{}},\
         \"scores\":{{}},\"limits\":[]}}",
        digest_of(&weights),
        inputs.join(","),
        outputs.join(",")
    );
    Network::parse(&weights, &card).expect("it is sound")
}

fn names(prefixes: &[&str], wants: bool, arms: &[&str]) -> Vec<String> {
    let states = prefixes.iter().flat_map(|it| state::NAMES.map(|name| format!("{it}{name}")));
    let wants = ["want_throughput", "want_delay"].into_iter().filter(|_| wants);
    let arms = arms.iter().map(|arm| format!("arm_{arm}"));
    states.chain(wants.map(str::to_owned)).chain(arms).collect()
}

/// Networks that always say the same: of each arm, how likely it is, and of a change.
fn always(arms: &[(&str, f32)], changed: f32) -> Arc<Networks> {
    let of_arms: Vec<&str> = arms.iter().map(|(arm, _)| *arm).collect();
    let actor = constant(ACTOR, &names(&[""], true, &of_arms), arms, "softmax");
    let inputs = names(&["last_", ""], false, &of_arms);
    let change = constant(CHANGE, &inputs, &[("changed", changed)], "sigmoid");
    Arc::new(Networks::of(Arc::new(actor), Arc::new(change)).expect("they fit"))
}

const THREE: [(&str, f32); 3] = [("copa", 0.0), ("bbr", 2.0), ("vegas", 1.0)];

/// The default settings, but flows begin with an arm that all these networks know.
fn of_copa() -> TcpRlConfig {
    TcpRlConfig { first: "copa".to_owned(), ..TcpRlConfig::default() }
}

fn policy(config: TcpRlConfig, networks: Arc<Networks>) -> ArmRunner<TcpRl> {
    let slot = Slot::new(networks);
    let mut policy = ArmRunner::new(TcpRl::new(config, Some(slot)), &Loaded::default());
    policy.resume(&path(), Time::ZERO);
    policy
}

fn arms(config: TcpRlConfig, changed: f32, secs: u64) -> Vec<(u64, &'static str)> {
    drive(&mut policy(config, always(&THREE, changed)), secs, |_, _| report(10_000, 40))
}

#[test]
fn the_actor_picks_after_a_step_and_the_flow_keeps_that_arm() {
    assert_eq!(arms(of_copa(), -9.0, 300), [(0, "copa"), (0, "bbr")]);
}

#[test]
fn a_change_is_found_twice_before_the_actor_picks_again() {
    let mut policy = policy(of_copa(), always(&THREE, 9.0));
    let mut said = Vec::new();
    let report = |_: &'static str, _| report(10_000, 40);
    proposals(&mut policy, 40, report, |ms, proposal, _| {
        said.push((ms / 1_000, proposal.to, proposal.why.text.clone()));
    });
    let settled: Vec<u64> =
        said.iter().filter(|it| it.2.starts_with("settles")).map(|it| it.0).collect();
    // Its first step ends at 0.5 s, the others 5 s after one another, so it settles at 5.5 s. The
    // first finding is at 10.5 s, the second at 15.5 s, and the actor picks again.
    assert_eq!(settled, [5, 15, 25, 35], "{said:?}");
    assert!(said.iter().all(|it| it.1 == "bbr"), "{said:?}");
}

#[test]
fn a_flow_settles_with_its_first_arm_only_after_a_whole_step() {
    let said = |networks: Arc<Networks>| {
        let mut policy = policy(of_copa(), networks);
        let mut said = Vec::new();
        let report = |_: &'static str, _| report(10_000, 40);
        proposals(&mut policy, 20, report, |ms, proposal, _| {
            said.push((ms / 1_000, proposal.why.text.clone()));
        });
        said
    };
    let kept = said(always(&[("copa", 2.0), ("bbr", 0.0)], -9.0));
    assert!(kept[0].1.starts_with("keeps copa for a whole step"), "{kept:?}");
    assert!(kept[1].0 == 5 && kept[1].1.starts_with("settles with copa"), "{kept:?}");
    assert!(kept[2].1.starts_with("stays with copa"), "{kept:?}");
}

#[test]
fn without_a_detector_the_first_choice_stays() {
    let config = TcpRlConfig { detector: DetectorKind::None, ..of_copa() };
    assert_eq!(arms(config, 9.0, 300).len(), 2);
}

#[test]
fn after_a_change_any_arm_is_drawn_if_it_is_to_be_uniform() {
    let config = TcpRlConfig { on_change: OnChange::Uniform, ..of_copa() };
    let mut policy = policy(config, always(&THREE, 9.0));
    let mut explored = Vec::new();
    proposals(
        &mut policy,
        600,
        |_, _| report(10_000, 40),
        |_, proposal, _| {
            explored.extend(proposal.explores.then_some(proposal.to));
        },
    );
    let distinct = THREE.iter().filter(|(arm, _)| explored.contains(arm)).count();
    assert!(distinct >= 2, "{explored:?}");
}

#[test]
fn what_suited_before_is_first_if_the_actor_knows_it() {
    for (remembered, want) in [("vegas", "vegas"), ("reno", "copa")] {
        let networks = always(&THREE, -9.0);
        let slot = Some(Slot::new(networks));
        let policy = TcpRl::new(of_copa(), slot);
        let mut policy = ArmRunner::new(policy, &Loaded::default());
        policy.resume(&suits(remembered), Time::ZERO);
        assert_eq!(policy.arm(), want);
    }
}

#[test]
fn only_arms_that_are_allowed_are_picked() {
    let allowed = vec!["copa".to_owned(), "vegas".to_owned()];
    let config = TcpRlConfig { arms: allowed, ..of_copa() };
    assert_eq!(arms(config, -9.0, 60), [(0, "copa"), (0, "vegas")]);
    let config = TcpRlConfig { arms: vec!["vegas".to_owned()], ..of_copa() };
    assert_eq!(arms(config, -9.0, 60), [(0, "vegas")]);
}

#[test]
fn a_dry_run_says_what_it_would_decide_and_changes_nothing() {
    let config = TcpRlConfig { dry_run: true, ..of_copa() };
    let mut policy = policy(config, always(&THREE, -9.0));
    let mut said = Vec::new();
    proposals(
        &mut policy,
        20,
        |_, _| report(10_000, 40),
        |_, proposal, _| {
            said.push((proposal.to, proposal.why.text.clone()));
        },
    );
    assert!(said.iter().all(|it| it.0 == "copa" && it.1.starts_with("would decide:")), "{said:?}");
    assert!(said[0].1.contains("the actor picks bbr"), "{said:?}");
}

#[test]
fn each_decision_has_a_score_for_each_arm_and_the_states() {
    let mut policy = policy(of_copa(), always(&THREE, -9.0));
    let mut why = None;
    proposals(
        &mut policy,
        6,
        |_, _| report(10_000, 40),
        |_, proposal, _| {
            why = Some(proposal.why.clone());
        },
    );
    let features = why.expect("decisions after 0.5 s and 5.5 s").features;
    let of = |name: &str| {
        features.iter().find(|(it, _)| *it == name).map(|(_, value)| value.parse::<f64>().unwrap())
    };
    assert!(of("bbr").unwrap() > of("vegas").unwrap(), "{features:?}");
    assert_eq!(of("rtt_s"), Some(0.04));
    // 10,000 bytes in 10 ms.
    assert!((of("throughput_bit_per_sec").unwrap() - 8e6).abs() < 1e4, "{features:?}");
    let verdict = policy.verdict().expect("it has picked");
    assert_eq!(verdict.arm, "bbr");
}

#[test]
fn what_the_training_did_not_cover_leaves_the_arm_as_it_is() {
    let networks = Networks::shipped();
    let mut policy = policy(of_copa(), networks);
    // 16 Gbit/s.
    let arms = drive(&mut policy, 60, |_, _| report(20_000_000, 40));
    assert_eq!(arms.len(), 1, "{arms:?}");
}

#[test]
fn foreign_networks_are_refused_by_place_and_rule() {
    let shipped = Networks::shipped();
    let swapped = Networks::of(Arc::clone(&shipped.change), Arc::clone(&shipped.actor));
    let error = swapped.expect_err("they are swapped").to_string();
    assert!(error.contains("output \"changed\""), "{error}");
    let other = always(&THREE, 0.0);
    let error = Networks::of(Arc::clone(&shipped.actor), Arc::clone(&other.change));
    let error = error.expect_err("other arms").to_string();
    assert!(
        error.contains("the network that tells changes") && error.contains("inputs"),
        "{error}"
    );
    let twice = constant(ACTOR, &["x".to_owned()], &[("copa", 0.0), ("copa", 0.0)], "softmax");
    let error = Networks::of(Arc::new(twice), Arc::clone(&other.change)).expect_err("twice");
    assert_eq!(error, Unfit::Arm("copa".to_owned()));
}

#[test]
fn running_flows_keep_the_networks_that_they_began_with() {
    let slot = Slot::new(always(&THREE, -9.0));
    let tcp_rl = TcpRl::new(of_copa(), Some(slot.clone()));
    let mut policy = ArmRunner::new(tcp_rl, &Loaded::default());
    policy.resume(&path(), Time::ZERO);
    slot.put(always(&[("copa", 9.0), ("bbr", 0.0)], -9.0));
    assert_eq!(drive(&mut policy, 60, |_, _| report(10_000, 40)).len(), 2);
    policy.resume(&path(), Time::ZERO);
    assert_eq!(drive(&mut policy, 60, |_, _| report(10_000, 40)).len(), 1, "a new flow");
}

/// A number from 0 to below 1, by splitmix64.
fn drawn(place: u64) -> f32 {
    let mut z = place.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32
}

/// `tcp_rl.expected` has what JAX computes; a Python test makes it again.
#[test]
fn a_flow_of_a_thousand_steps_is_that_of_jax() {
    let actor = &Networks::shipped().actor;
    let (expected, _) = include_bytes!("../../models/tcp_rl.expected").as_chunks::<4>();
    let mut state = Memory::new(actor);
    let mut inputs = vec![0.0; actor.inputs_len()];
    let mut got = vec![0.0; actor.outputs_len()];
    let mut place = 0;
    for (row, want) in expected.chunks_exact(got.len()).enumerate() {
        for (index, input) in inputs.iter_mut().enumerate() {
            place += 1;
            let (low, high) = actor.input_range(index);
            *input = low + (high - low) * drawn(place);
        }
        assert_eq!(actor.evaluate(&inputs, &mut state, &mut got), Validity::Inside);
        for (got, want) in got.iter().zip(want) {
            let want = f32::from_le_bytes(*want);
            assert!((got - want).abs() < 1e-5, "row {row}: {got} and {want}");
        }
    }
    assert_eq!(expected.len(), 1_000 * got.len());
}

#[test]
fn the_shipped_networks_have_the_papers_layers() {
    let networks = Networks::shipped();
    let layers = |network: &Network| -> Vec<String> {
        let shapes = network.card().layers.iter();
        shapes.map(|layer| format!("{} {:?}", layer.name, layer.shape)).collect()
    };
    assert_eq!(networks.arms().len(), 10);
    let actor = layers(&networks.actor);
    assert_eq!(actor[2], "memory Lstm { outputs: 128 }", "{actor:?}");
    assert_eq!((actor.len(), layers(&networks.change).len()), (5, 3));
}

#[test]
fn a_bad_setting_is_named_with_its_value_and_the_rule() {
    for (config, want) in [
        (TcpRlConfig { first: "x".to_owned(), ..Default::default() }, "tcp_rl.first = x"),
        (TcpRlConfig { arms: vec!["x".to_owned()], ..Default::default() }, "tcp_rl.arms = x"),
        (TcpRlConfig { step_ms: 1, ..Default::default() }, "tcp_rl.step_ms = 1"),
        (TcpRlConfig { first_step_ms: 1, ..Default::default() }, "tcp_rl.first_step_ms = 1"),
        (TcpRlConfig { trials_max: 0, ..Default::default() }, "tcp_rl.trials_max = 0"),
        (TcpRlConfig { agreements: 0, ..Default::default() }, "tcp_rl.agreements = 0"),
        (TcpRlConfig { changed_above: 2.0, ..Default::default() }, "tcp_rl.changed_above = 2"),
    ] {
        let error = config.validate().expect_err(want).to_string();
        assert!(error.starts_with(want), "{error}");
    }
}

proptest! {
    #[test]
    fn whatever_is_reported_the_arm_is_one_of_the_networks(
        reports in whatever_is_reported(),
        uniform in any::<bool>(),
        draws in any::<bool>(),
    ) {
        let on_change = if uniform { OnChange::Uniform } else { OnChange::Policy };
        let config = TcpRlConfig { step_ms: 100, draws, on_change, ..of_copa() };
        let networks = always(&THREE, 0.1);
        let mut policy = policy(config, Arc::clone(&networks));
        let mut path = path();
        for (m, now, to) in &reports {
            path.observe(m, *now);
            policy.on_measurement(m, *now);
            if let Some(proposal) = policy.proposal() {
                prop_assert!(networks.place(proposal.to).is_some(), "{proposal:?}");
                for (name, value) in &proposal.why.features {
                    let value: f64 = value.parse().expect("a number");
                    prop_assert!(value.is_finite(), "{name} = {value}");
                }
            }
            if let Some(verdict) = policy.verdict() {
                prop_assert!((0.0..=1.0).contains(&verdict.score), "{verdict:?}");
            }
            if let Some(to) = to {
                let to = ARMS[*to].name;
                policy.hand_off(&mut path);
                let done = policy.switch_to(to, &path, *now);
                prop_assert!(done.is_err() || networks.place(to).is_some(), "{to}");
            }
            prop_assert!(networks.place(policy.arm()).is_some());
        }
        prop_assert!(policy.on_measurement(&report(1, 1), at(200_000_000)).cwnd > Bytes(0));
    }
}
