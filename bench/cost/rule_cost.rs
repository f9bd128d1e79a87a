//! What rules cost a new flow: to find the first of 10,000 that matches. This needs no root.
//!
//! Rules by address, by network, by port and by mark are drawn with one seed; so are the flows,
//! half of which match none. Rounds with all rules and with ten alternate.

use crate::cpu::own_ns;
use crate::{Fallible, Options, Promise, Verdict};
use ccp_agent::rules::{Book, Reach, Rules};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_bench::stats::Spread;
use remuda_wire::to_agent::FlowInfo;
use std::fmt::Write as _;
use std::hint::black_box;
use std::net::Ipv4Addr;

const RULES: u32 = 10_000;
const FEW: u32 = 10;
const FLOWS: usize = 100_000;
const BOUND_US: f64 = 1.0;

#[derive(serde::Deserialize)]
struct File {
    rule: Rules,
}

/// A text of so many rules, of four kinds in turn.
fn rules(count: u32) -> Fallible<Rules> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut text = String::new();
    for number in 0..count {
        let address = Ipv4Addr::from(rng.random::<u32>() & 0x3fff_ffff | 0x4000_0000);
        let _ = match number % 4 {
            0 => writeln!(text, "[[rule]]\nuse = 'bbr'\ndestination = '{address}'"),
            1 => {
                let bits = 16 + number % 13;
                let net = Ipv4Addr::from(u32::from(address) & (u32::MAX << (32 - bits)));
                writeln!(text, "[[rule]]\nuse = 'copa'\ndestination = '{net}/{bits}'")
            }
            2 => writeln!(
                text,
                "[[rule]]\nuse = 'vegas'\nlocal_port = {}\ndestination = '{address}'",
                1 + number % 60_000
            ),
            _ => writeln!(text, "[[rule]]\nuse = 'reno'\nmark = {}", number + 1),
        };
    }
    Ok(toml::from_str::<File>(&text)?.rule)
}

fn flows() -> Vec<FlowInfo> {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let flow = |at: usize| {
        let address = Ipv4Addr::from(rng.random::<u32>() & 0x3fff_ffff | 0x4000_0000);
        let mark = if at.is_multiple_of(2) { rng.random_range(1..=RULES) } else { 0 };
        let remote = (address.into(), 50_000);
        FlowInfo { mark, ..FlowInfo::between(([10, 0, 0, 1].into(), 443), remote) }
    };
    (0..FLOWS).map(flow).collect()
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    let (all, few) = (rules(RULES)?, rules(FEW)?);
    let mut books = [all, few].map(|rules| Book::new(&rules, Reach::default()));
    let flows = flows();
    let mut took_us = [Vec::new(), Vec::new()];
    let mut matched = 0;
    for _ in 0..options.rounds {
        for (book, took_us) in books.iter_mut().zip(&mut took_us) {
            let before_ns = own_ns();
            let mut found = 0;
            for flow in &flows {
                if let Some(ruled) = black_box(book.of(flow)) {
                    book.count(&ruled);
                    found += 1;
                }
            }
            matched = matched.max(found);
            took_us.push((own_ns() - before_ns) as f64 / 1e3 / FLOWS as f64);
        }
    }
    let [all, few] = took_us.map(Spread::of);
    println!("{matched} of {FLOWS} flows match one of {RULES} rules");
    Ok(vec![Promise {
        what: format!(
            "the rule of a new flow, of {RULES} rules (of {FEW}: {:.3}), us of CPU",
            few.median
        ),
        figure: format!("{:.3} ({:.3}..{:.3})", all.median, all.low, all.high),
        bound: format!("<= {BOUND_US}"),
        verdict: Verdict::of(all.high <= BOUND_US),
    }])
}
