//! `remuda doctor`
//!
//! ```text
//! checks of the host and its agent ─▶ table with fixes
//!        counts of flows and events ─▶ report without addresses
//! ```

mod checks;
mod report;

use crate::table::table;
use crate::{Failure, RunDirArgs};
use checks::Verdict;
use clap::Args;

/// Check what this host can do, and print what is missing and the fix.
///
/// The exit status is 0 if the agent can drive this host's TCP.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// Print text for a bug report instead: versions, checks, counts of flows and events
    ///
    /// It contains no address, user, cgroup or rule. Read it before you send it.
    #[arg(long)]
    report: bool,
}

/// The mark of a check; a module makes up for what BPF lacks.
fn mark(what: &str, verdict: &Verdict, has_module: bool) -> &'static str {
    match verdict {
        Verdict::Good(_) => "ok",
        Verdict::Bad(..) if !has_module || what == "agent" => "NO",
        Verdict::Lacks(..) | Verdict::Bad(..) => "--",
    }
}

impl DoctorArgs {
    pub fn run(self) -> Result<(), Failure> {
        let run_dir = &self.run_dir.run_dir;
        let has_module = checks::has_module();
        let all = checks::all(run_dir);
        if self.report {
            print!("{}", report::text(run_dir, &all, has_module));
            return Ok(());
        }
        let mut out = table(&["", "what", "state", "fix"]);
        let (mut bad, mut without) = (0, 0);
        for (what, verdict) in &all {
            let mark = mark(what, verdict, has_module);
            let (how, fix) = match verdict {
                Verdict::Good(how) => (how, ""),
                Verdict::Lacks(how, fix) | Verdict::Bad(how, fix) => (how, *fix),
            };
            bad += usize::from(mark == "NO");
            without += usize::from(matches!(verdict, Verdict::Bad(..)) && mark != "NO");
            out.add_row([mark, what, how, fix]);
        }
        println!("{out}");
        if bad > 0 {
            return Err(format!("{bad} of the above must be fixed before the agent can run").into());
        }
        if without > 0 {
            println!(
                "the agent can drive this host's TCP through the module: remuda agent --no-bpf"
            );
        } else {
            println!("the agent can drive this host's TCP");
        }
        Ok(())
    }
}
