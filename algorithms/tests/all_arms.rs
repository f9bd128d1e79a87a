//! What must hold for every arm, whatever is reported. A line in `ARMS` enrols a new one.

use portus::lang::Reg;
use proptest::prelude::*;
use remuda_algorithms::signals::{FIELDS, REPORT_INTERVAL};
use remuda_algorithms::units::{Bytes, Gain, Packets, Rate, Time};
use remuda_algorithms::window::CWND_MAX;
use remuda_algorithms::{
    ARMS, Arm, ArmInfo, CwndUse, Decision, Measurement, OWN_FIELDS_MAX, PathState, RttSamples,
};
use std::time::Duration;

const MSS: Bytes = Bytes(1_448);
const RTT: Duration = Duration::from_millis(40);

/// Whatever a datapath could report: sensible numbers as well as the ends of their ranges.
fn any_number() -> BoxedStrategy<u64> {
    prop_oneof![3 => 0u64..2_000_000, 1 => Just(0), 1 => Just(u64::MAX), 1 => any::<u64>()].boxed()
}

fn any_span() -> BoxedStrategy<Duration> {
    prop_oneof![
        4 => any_number().prop_map(Duration::from_micros),
        1 => Just(Duration::MAX),
        1 => Just(Duration::ZERO),
    ]
    .boxed()
}

prop_compose! {
    fn any_rtt()(
        last in any_span(),
        min in any_span(),
        max in any_span(),
        sum_us in any_number(),
        sq_sum_us2 in any_number(),
        count in any_number(),
    ) -> RttSamples {
        RttSamples { last, min, max, sum_us, sq_sum_us2, count }
    }
}

prop_compose! {
    fn any_measurement()(
        (acked, delivered, lost) in (any_number(), any_number(), 0u64..4),
        ecn_marked in 0u64..2,
        (lost_wildly, timed_out) in (prop::bool::weighted(0.05), prop::bool::weighted(0.1)),
        rtt in prop::option::of(any_rtt()),
        (send_rate, delivery_rate) in (any_number(), any_number()),
        (in_flight, cwnd) in (any_number(), any_number()),
        mss in prop_oneof![8 => Just(0), 1 => 1_200u64..9_000, 1 => any_number()],
        ack_train in any_span(),
        cwnd_use in prop::option::of(prop::sample::select(vec![
            CwndUse::Little, CwndUse::Half, CwndUse::Full,
        ])),
        (app_limited, in_recovery) in any::<(bool, bool)>(),
        (undone, restarted) in (prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
        own in prop::array::uniform1(any_number()),
    ) -> Measurement {
        Measurement {
            acked: Bytes(acked),
            delivered: Bytes(delivered),
            lost: Packets(if lost_wildly { u64::MAX } else { lost }),
            ecn_marked: Packets(ecn_marked),
            timed_out,
            rtt,
            send_rate: Rate::from_bytes_per_sec(send_rate),
            delivery_rate: Rate::from_bytes_per_sec(delivery_rate),
            in_flight: Bytes(in_flight),
            app_limited,
            in_recovery,
            undone,
            restarted,
            cwnd: Bytes(cwnd),
            mss: Bytes(mss),
            ack_train,
            cwnd_use,
            companions: 0,
            own,
        }
    }
}

fn any_path() -> BoxedStrategy<PathState> {
    let mss = prop_oneof![4 => Just(MSS), 1 => Just(Bytes(0)), 1 => Just(Bytes(1)),
        1 => any_number().prop_map(Bytes)];
    let learned = prop::option::of((any_measurement().boxed(), any_span()));
    let rate = prop::option::of(any_number().prop_map(Rate::from_bytes_per_sec));
    let ssthresh = prop::option::of(any_number().prop_map(Bytes));
    let w_max = prop::option::of((any_number().prop_map(Bytes), any_span().prop_map(Time)));
    (mss, any_number(), rate, ssthresh, w_max, any_span(), learned)
        .prop_map(|(mss, cwnd, rate, ssthresh, w_max, recovery_until, learned)| {
            let mut path = PathState::new(mss, Bytes(cwnd));
            if let Some((m, at)) = learned {
                path.observe(&m, Time(at));
            }
            path.recovery_until = Time(recovery_until);
            (path.rate, path.ssthresh, path.w_max) = (rate, ssthresh, w_max);
            path
        })
        .boxed()
}

/// The least and the greatest segment that an arm was told of.
fn sizes(path: &PathState, script: &[(Measurement, Time)]) -> (Bytes, Bytes) {
    let told = script.iter().map(|(m, _)| m.mss).filter(|mss| *mss > Bytes(0));
    let all: Vec<Bytes> = told.chain([path.mss.max(Bytes(1))]).collect();
    (*all.iter().min().expect("one"), *all.iter().max().expect("one"))
}

/// The floor is two segments of at least a byte each; the ceiling is what the wire's 32 bits hold,
/// 4 GiB, unless two segments are more.
fn assert_sane(
    arm: &ArmInfo,
    (least, greatest): (Bytes, Bytes),
    decision: Decision,
) -> Result<(), TestCaseError> {
    let floor = Packets(2).to_bytes(least);
    let most = CWND_MAX.max(Packets(4).to_bytes(greatest));
    prop_assert!(decision.cwnd >= floor, "{}: {decision:?}", arm.name);
    prop_assert!(decision.cwnd <= most, "{}: {decision:?}", arm.name);
    prop_assert!(decision.rate != Some(Rate::default()), "{}: {decision:?}", arm.name);
    Ok(())
}

fn built(arm: &ArmInfo) -> Box<dyn Arm> {
    arm.build().expect(arm.name)
}

fn decisions(arm: &ArmInfo, path: &PathState, script: &[(Measurement, Time)]) -> Vec<Decision> {
    let mut controller = built(arm);
    let first = controller.resume(path, Time::ZERO);
    let step = |(m, now): &(Measurement, Time)| controller.on_measurement(m, *now);
    std::iter::once(first).chain(script.iter().map(step)).collect()
}

/// Reports at any times: in order if `sorted`, or as they come, also backwards.
fn any_script() -> BoxedStrategy<Vec<(Measurement, Time)>> {
    let report = (any_measurement().boxed(), any_span().prop_map(Time)).boxed();
    let in_order = |(mut reports, sorted): (Vec<(Measurement, Time)>, bool)| {
        if sorted {
            reports.sort_by_key(|(_, at)| *at);
        }
        reports
    };
    (prop::collection::vec(report, 0..48), any::<bool>()).prop_map(in_order).boxed()
}

proptest! {
    #[test]
    fn no_report_breaks_an_arm_and_the_same_reports_give_the_same_decisions(
        path in any_path(),
        script in any_script(),
    ) {
        for arm in ARMS {
            let first = decisions(arm, &path, &script);
            for decision in &first {
                assert_sane(arm, sizes(&path, &script), *decision)?;
            }
            prop_assert_eq!(&first, &decisions(arm, &path, &script), "{} differs", arm.name);
        }
    }

    #[test]
    fn every_pair_hands_off_safely(path in any_path(), script in any_script(), at in any_span()) {
        for from in ARMS {
            let mut path = path.clone();
            let mut incumbent = built(from);
            incumbent.resume(&path, Time::ZERO);
            for (m, now) in &script {
                path.observe(m, *now);
                incumbent.on_measurement(m, *now);
            }
            incumbent.hand_off(&mut path);
            path.answered_losses = from.answers_losses;
            for to in ARMS {
                let first = built(to).resume(&path, Time(at));
                assert_sane(to, sizes(&path, &[]), first)?;
                // Two segments are the least, whatever their size has become.
                let most = path.cwnd.max(path.cwnd_floor());
                prop_assert!(first.cwnd <= most, "{} to {}: {first:?}", from.name, to.name);
                if let (Some(before), Some(after)) = (path.rate, first.rate) {
                    let mss = path.mss.max(Bytes(1));
                    let floor = Packets(4).to_bytes(mss) / Duration::from_millis(1);
                    prop_assert!(after <= before.max(floor), "{} to {}", from.name, to.name);
                }
            }
        }
    }
}

/// An arm that hands off before its first report leaves half of its window at least: nothing has
/// been measured that would be a reason for less.
#[test]
fn handing_off_at_once_leaves_a_window() {
    let mss = Bytes(1_448);
    for (pkts, rtt_ms) in [(10, None), (10, Some(1)), (100, Some(10)), (1_000, Some(200))] {
        for arm in ARMS {
            let mut path = PathState::new(mss, Packets(pkts).to_bytes(mss));
            if let Some(ms) = rtt_ms {
                let rtt = Some(RttSamples::one(Duration::from_millis(ms)));
                let delivery_rate = path.cwnd / Duration::from_millis(ms);
                path.observe(&Measurement { rtt, delivery_rate, ..Measurement::QUIET }, Time::ZERO);
            }
            let mut controller = built(arm);
            let first = controller.resume(&path, Time::ZERO).cwnd;
            controller.hand_off(&mut path);
            assert!(path.cwnd >= Bytes(first.0 / 2), "{}: {:?} of {first:?}", arm.name, path.cwnd);
            let rate = path.rate.unwrap_or(Rate::from_bytes_per_sec(u64::MAX));
            let least = Bytes(first.0 / 2) / Duration::from_millis(rtt_ms.unwrap_or(100));
            assert!(rate >= least, "{}: {rate} of {least}", arm.name);
        }
    }
}

proptest! {
    /// Nothing of a former flow is left in an arm that takes another one.
    #[test]
    fn an_arm_takes_its_second_flow_like_its_first(
        path in any_path(),
        before in any_script(),
        script in any_script(),
    ) {
        for arm in ARMS {
            let mut used = built(arm);
            used.resume(&path, Time::ZERO);
            for (m, now) in &before {
                used.on_measurement(m, *now);
            }
            let mut fresh = built(arm);
            let start = Time(Duration::from_secs(1_000));
            let first = (used.resume(&path, start), fresh.resume(&path, start));
            prop_assert_eq!(first.0, first.1, "{} starts differently", arm.name);
            for (m, now) in &script {
                let next = (used.on_measurement(m, *now), fresh.on_measurement(m, *now));
                prop_assert_eq!(next.0, next.1, "{} goes on differently", arm.name);
            }
        }
    }
}

/// An arm that learned the base RTT in a standing queue would take the queue for the path.
#[test]
fn a_base_rtt_is_not_learned_in_a_standing_queue() {
    for name in ["vegas", "c2tcp", "copa", "ledbat", "bbr", "bbr3", "verus"] {
        let arm = remuda_algorithms::arm(name).expect(name);
        let rate = Rate::from_bytes_per_sec(3_000_000);
        let mut path = PathState::new(MSS, Packets(300).to_bytes(MSS));
        path.ssthresh = Some(path.cwnd);
        // One round trip of an empty path, and twenty seconds of a queue of two.
        for (ms, rtt_ms) in std::iter::once((10, 40)).chain((1..2_000).map(|n| (n * 10 + 10, 120)))
        {
            let m = Measurement {
                delivery_rate: rate,
                in_flight: path.cwnd,
                rtt: Some(RttSamples::one(Duration::from_millis(rtt_ms))),
                ..Measurement::QUIET
            };
            path.observe(&m, Time(Duration::from_millis(ms)));
        }
        let mut controller = built(arm);
        let mut cwnd = controller.resume(&path, Time(Duration::from_millis(20_010))).cwnd;
        for ms in (20_020..24_000).step_by(10) {
            let m = Measurement {
                acked: rate * Duration::from_millis(10),
                delivered: rate * Duration::from_millis(10),
                delivery_rate: rate,
                in_flight: cwnd,
                rtt: Some(RttSamples { count: 8, ..RttSamples::one(Duration::from_millis(120)) }),
                ..Measurement::QUIET
            };
            cwnd = controller.on_measurement(&m, Time(Duration::from_millis(ms))).cwnd;
        }
        // An arm that takes the queue for others' may compete with them, within what the flow had.
        let most = path.cwnd * Gain(1_050);
        assert!(cwnd <= most, "{name}: {:?} became {cwnd:?}", path.cwnd);
    }
}

/// A flow that runs for a second at 24 Mbit/s, and then loses a segment at `at_ms`.
fn flow_in_recovery(arm: &ArmInfo, at_ms: u64) -> (Box<dyn Arm>, PathState) {
    let rate = Rate::from_bytes_per_sec(3_000_000);
    let mut path = PathState::new(MSS, Packets(100).to_bytes(MSS));
    path.ssthresh = Some(path.cwnd);
    let mut controller = built(arm);
    let mut cwnd = controller.resume(&path, Time::ZERO).cwnd;
    for ms in (10..=at_ms).step_by(10) {
        let m = Measurement {
            acked: rate * Duration::from_millis(10),
            delivered: rate * Duration::from_millis(10),
            rtt: Some(RttSamples::one(RTT)),
            delivery_rate: rate,
            in_flight: cwnd,
            lost: Packets(u64::from(ms == at_ms)),
            in_recovery: ms == at_ms,
            ..Measurement::QUIET
        };
        let now = Time(Duration::from_millis(ms));
        path.observe(&m, now);
        cwnd = controller.on_measurement(&m, now).cwnd;
    }
    (controller, path)
}

#[test]
fn a_switch_during_recovery_does_not_reduce_again_for_the_same_loss() {
    let reducing = ["reno", "cubic", "westwood", "vegas", "illinois", "c2tcp", "dctcp", "ledbat"];
    let windows = |arm: &&ArmInfo| reducing.contains(&arm.name);
    for from in ARMS.iter().filter(|arm| arm.adapts) {
        for to in ARMS.iter().filter(windows) {
            let (incumbent, mut path) = flow_in_recovery(from, 1_000);
            incumbent.hand_off(&mut path);
            let mut successor = built(to);
            let first = successor.resume(&path, Time(Duration::from_millis(1_001))).cwnd;
            let loss = Measurement {
                lost: Packets(2),
                in_recovery: true,
                rtt: Some(RttSamples::one(RTT)),
                ..Measurement::QUIET
            };
            for ms in [1_002, 1_020, 1_039, 1_060] {
                let now = Time(Duration::from_millis(ms));
                let cwnd = successor.on_measurement(&loss, now).cwnd;
                assert_eq!(cwnd, first, "{} to {} at {ms} ms", from.name, to.name);
            }
        }
    }
}

#[test]
fn a_threshold_handed_off_after_a_loss_is_finite() {
    for arm in ARMS {
        let (controller, mut path) = flow_in_recovery(arm, 1_000);
        path.ssthresh = None;
        controller.hand_off(&mut path);
        assert!(path.ssthresh.is_some(), "{}", arm.name);
    }
}

#[test]
fn a_flow_starts_with_the_window_it_is_given() {
    let path = PathState::new(MSS, Packets(10).to_bytes(MSS));
    for arm in ARMS {
        let first = built(arm).resume(&path, Time::ZERO);
        assert_eq!(first.cwnd, path.cwnd, "{}", arm.name);
    }
}

#[test]
fn names_are_unique_and_programs_are_named_after_their_arm() {
    for (i, arm) in ARMS.iter().enumerate() {
        assert!(ARMS[..i].iter().all(|other| other.name != arm.name), "{} twice", arm.name);
        assert_eq!(arm.program.0.split('/').next(), Some(arm.name));
        let controller = built(arm);
        assert_eq!((controller.info().name, controller.program()), (arm.name, arm.program));
        assert!(!arm.summary.is_empty() && arm.summary.len() < 72, "{}", arm.name);
    }
}

/// Two seconds at 24 Mbit/s on a path known to have it, of which so many segments in ten are lost.
fn sends_after(info: &ArmInfo, lost_in_ten: u64) -> (Bytes, Option<Rate>) {
    let rate = Rate::from_bytes_per_sec(3_000_000);
    let mut path = PathState::new(MSS, Packets(100).to_bytes(MSS));
    path.ecn = true;
    let mut arm = built(info);
    let mut decision = arm.resume(&path, Time::ZERO);
    for ms in (10..=2_000).step_by(10) {
        let came = rate * Duration::from_millis(10);
        let mut own = [0; OWN_FIELDS_MAX];
        own[0] = u64::from(ms % 40 == 0);
        let m = Measurement {
            acked: came,
            delivered: came,
            lost: Packets(came.to_packets(MSS).0 * lost_in_ten / 10),
            rtt: Some(RttSamples { count: 8, ..RttSamples::one(RTT) }),
            send_rate: rate,
            delivery_rate: rate,
            in_flight: rate * RTT,
            cwnd: decision.cwnd,
            own,
            ..Measurement::QUIET
        };
        let now = Time(Duration::from_millis(ms));
        path.observe(&m, now);
        decision = arm.on_measurement(&m, now);
    }
    (decision.cwnd, decision.rate)
}

/// Arms that try rates out are excused from the loss part: these reports do not answer trials.
#[test]
fn the_facts_of_an_arm_are_so() {
    for info in ARMS.iter().filter(|info| info.loads.is_none()) {
        let ((clean, rate), (lossy, lossy_rate)) = (sends_after(info, 0), sends_after(info, 4));
        assert_eq!(rate.is_some(), info.paces, "{}", info.name);
        let goes_on = match lossy_rate {
            Some(rate) => rate >= Rate::from_bytes_per_sec(2_900_000),
            None => lossy == clean,
        };
        let tries_rates = info.own_fields.contains(&"Report.crossed_bytes");
        assert!(tries_rates || goes_on != info.answers_losses, "{}: {lossy:?}", info.name);
    }
}

/// A program uses at most the eight temporaries that libccp has, and the arm's own report fields
/// follow the shared ones.
#[test]
fn every_program_compiles_within_the_limits() {
    for arm in ARMS {
        let text = arm.program_text.as_bytes();
        let (program, scope) = portus::lang::compile(text, &[]).expect(arm.name);
        let temporaries = format!("{program:?}");
        let used = (0..256).filter(|i| temporaries.contains(&format!("Tmp({i},"))).count();
        assert!((1..=8).contains(&used), "{} uses {used} temporaries", arm.name);
        for (want, name) in (0u8..).zip(FIELDS) {
            let register = scope.get(name);
            assert!(
                matches!(register, Some(Reg::Report(got, _, true)) if *got == want),
                "{}: {name} is {register:?}",
                arm.name
            );
        }
        assert!(scope.get(REPORT_INTERVAL).is_some(), "{}", arm.name);
        let fields = declared(arm.program_text);
        let fields: Vec<&String> =
            fields.iter().filter(|name| name.starts_with("Report.")).collect();
        let built = built(arm);
        let own = built.own_fields();
        assert!(own.len() <= OWN_FIELDS_MAX, "{} reports too many fields", arm.name);
        assert_eq!(fields[FIELDS.len()..], *own, "{} reports others than it says", arm.name);
    }
}

/// What a datapath provides to a program, of what the shared signals use.
const PROVIDED: [&str; 13] = [
    "Ack.bytes_acked",
    "Ack.packets_acked",
    "Ack.lost_pkts_sample",
    "Ack.now",
    "Ack.ecn_packets",
    "Flow.was_timeout",
    "Flow.rtt_sample_us",
    "Flow.rate_outgoing",
    "Flow.rate_incoming",
    "Flow.bytes_in_flight",
    "Micros",
    "Cwnd",
    "Rate",
];
const KEYWORDS: [&str; 7] = ["when", "true", "report", "fallthrough", "min", "max", "false"];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == '(' || c == ')')
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The names that the `def` of a program declares: report fields, which are all volatile, and
/// control registers.
fn declared(text: &str) -> Vec<String> {
    let (definitions, _) = text.split_once("(when").expect("a body");
    let mut last = "";
    let mut declared = Vec::new();
    for word in words(definitions).filter(|word| !["def", "Report"].contains(word)) {
        match (last, word) {
            (_, "volatile") => {}
            ("volatile", field) => declared.push(format!("Report.{field}")),
            (_, register) => declared.push(register.to_owned()),
        }
        last = word;
    }
    declared
}

/// portus compiles a misspelt name, as a register that nothing sets.
#[test]
fn every_program_knows_the_names_it_uses() {
    for arm in ARMS {
        let known = declared(arm.program_text);
        let body = arm.program_text.find("(when").expect("a body");
        let names = words(&arm.program_text[body..]).filter(|word| !KEYWORDS.contains(word));
        for name in names {
            let is_known = PROVIDED.contains(&name) || known.iter().any(|known| known == name);
            assert!(is_known, "{}: nothing sets {name}", arm.name);
        }
    }
}
