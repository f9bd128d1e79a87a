//! The paths of Anole's paper: one bottleneck, runs of 30 s.

use std::fmt::Write;

/// Seconds that a scene lasts.
pub const END_S: f64 = 30.0;

/// One scene, without what drives its flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    pub name: String,
    pub rate_mbit_per_sec: f64,
    /// The delay of one direction.
    pub delay_ms: f64,
    pub loss_percent: f64,
    pub buffer_bdp: f64,
    pub jitter_ms: f64,
    /// Flows, and how many seconds apart they start.
    pub flows: (u32, f64),
    /// The rate from half of the scene on, if it changes.
    pub then_mbit_per_sec: Option<f64>,
}

impl Scene {
    /// B1: 48 Mbit/s, 25 ms one way, a buffer of two BDPs.
    pub fn normal() -> Self {
        Self {
            name: "normal".to_owned(),
            rate_mbit_per_sec: 48.0,
            delay_ms: 25.0,
            loss_percent: 0.0,
            buffer_bdp: 2.0,
            jitter_ms: 0.0,
            flows: (1, 0.0),
            then_mbit_per_sec: None,
        }
    }

    /// B2 and B5: random loss.
    pub fn loss(percent: f64) -> Self {
        Self { name: format!("loss {percent} %"), loss_percent: percent, ..Self::normal() }
    }

    /// B3: twice the delay.
    pub fn long() -> Self {
        Self { name: "long".to_owned(), delay_ms: 50.0, ..Self::normal() }
    }

    /// B4: several flows on 96 Mbit/s.
    pub fn flows(count: u32) -> Self {
        let name = format!("{count} flows");
        Self { name, rate_mbit_per_sec: 96.0, flows: (count, 0.0), ..Self::normal() }
    }

    /// B6: another size of the buffer.
    pub fn buffer(bdp: f64) -> Self {
        Self { name: format!("{bdp} BDP"), buffer_bdp: bdp, ..Self::normal() }
    }

    /// B7: four flows, four seconds apart.
    pub fn joining() -> Self {
        Self { name: "joining".to_owned(), flows: (4, 4.0), ..Self::normal() }
    }

    /// B8: the rate doubles.
    pub fn step() -> Self {
        let then_mbit_per_sec = Some(96.0);
        Self { name: "step".to_owned(), then_mbit_per_sec, ..Self::normal() }
    }

    /// Figure 6: a long path with loss, a radio, a slow path.
    pub fn real_world() -> [Self; 3] {
        let long = Self { delay_ms: 45.0, ..Self::loss(0.1) };
        let radio =
            Self { delay_ms: 20.0, jitter_ms: 5.0, rate_mbit_per_sec: 30.0, ..Self::normal() };
        let slow = Self { delay_ms: 45.0, rate_mbit_per_sec: 4.0, ..Self::normal() };
        [
            Self { name: "90 ms, 0.1 % loss".to_owned(), ..long },
            Self { name: "Wi-Fi: 30 Mbit/s, 40 ms, jitter 5 ms".to_owned(), ..radio },
            Self { name: "4 Mbit/s, 90 ms".to_owned(), ..slow },
        ]
    }

    /// As TOML, each flow driven by that driver.
    pub fn text(&self, driver: &str, seed: u64) -> String {
        let Self { rate_mbit_per_sec, delay_ms, loss_percent, buffer_bdp, .. } = self;
        let (count, apart_s) = self.flows;
        let mut text = format!(
            "duration_s = {END_S}\nseed = {seed}\nsample_ms = 100\n[links.down]\n\
             rate_mbit_per_sec = {rate_mbit_per_sec:.1}\ndelay_ms = {delay_ms:.1}\n\
             loss_percent = {loss_percent:.2}\njitter_std_ms = {:.3}\n\
             queue = {{ kind = \"droptail\", limit_bdp = {buffer_bdp:.2} }}\n",
            self.jitter_ms
        );
        if let Some(then) = self.then_mbit_per_sec {
            let at_s = END_S / 2.0;
            let step = format!("{{ at_s = {at_s:.1}, rate_mbit_per_sec = {then:.1} }}");
            let _ = writeln!(text, "rate_steps = [{step}]");
        }
        let _ = write!(
            text,
            "[links.up]\ndelay_ms = {delay_ms:.1}\njitter_std_ms = 0.001\n\
             [[flows]]\ndriver = \"{driver}\"\ncount = {count}\nstagger_s = {apart_s:.1}\n"
        );
        text
    }
}
