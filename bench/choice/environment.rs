//! The runs of one environment: those of the policy and of each fixed arm.

use remuda_matrix::{Course, Row};

/// A run, and what it got over time.
pub struct Run {
    pub row: Row,
    /// `None` if the tested flows have a fixed size.
    pub course: Option<Course>,
}

pub struct Environment {
    pub suite: String,
    pub name: String,
    pub policy: Run,
    pub arms: Vec<Run>,
}

impl Environment {
    /// The run of the fixed arm of the most merit.
    pub fn best_arm(&self) -> Option<&Run> {
        self.arms.iter().max_by(|a, b| a.row.merit.total_cmp(&b.row.merit))
    }

    fn most(&self, of: fn(&Row) -> f64) -> f64 {
        let all = self.arms.iter().chain([&self.policy]);
        all.map(|run| of(&run.row)).fold(0.0, f64::max)
    }

    /// What a run misses of the best merit of the environment, 0 to 1.
    pub fn missed(&self, run: &Run, of: fn(&Row) -> f64) -> f64 {
        let most = self.most(of);
        if most > 0.0 { 1.0 - of(&run.row) / most } else { 0.0 }
    }

    pub fn arm(&self, name: &str) -> Option<&Run> {
        self.arms.iter().find(|run| run.row.driver == name)
    }
}
