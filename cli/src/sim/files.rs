//! Writes the files of a run.

use super::PlotKind;
use super::plan::{Run, slug};
use crate::Failure;
use remuda_results::{About, Outcome, png, qlog, svg, write};
use std::fs;
use std::path::{Path, PathBuf};

/// The files to write, and their folder.
#[derive(Clone, Debug)]
pub struct Files {
    pub folder: PathBuf,
    /// The format of the plots; `None` for no plots.
    pub plot: Option<PlotKind>,
    /// Whether each flow gets a qlog file.
    pub qlog: bool,
    pub commit: Option<String>,
}

fn put(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let doing = |error| format!("cannot write {}: {error}", path.display());
    Ok(fs::write(path, content).map_err(doing)?)
}

impl Files {
    /// Creates the folder and writes to it, before hours of work might fail on a full disk or a
    /// wrong name.
    pub fn prepare(&self) -> Result<(), Failure> {
        let folder = self.folder.display();
        let doing = |error| format!("cannot write to --out {folder}: {error}");
        fs::create_dir_all(&self.folder).map_err(doing)?;
        let trial = self.folder.join(".remuda");
        fs::write(&trial, "").map_err(doing)?;
        Ok(fs::remove_file(&trial).map_err(doing)?)
    }

    /// Writes all files of a run into the run's own folder.
    pub fn write(&self, run: &Run, outcome: &Outcome) -> Result<(), Failure> {
        let folder = self.folder.join(&run.folder);
        let scenario_toml = Some(run.scenario.to_toml()?);
        write(&folder, outcome, &About { commit: self.commit.clone(), scenario_toml })?;
        match self.plot {
            Some(PlotKind::Svg) => put(&folder.join("plot.svg"), svg(outcome)?)?,
            Some(PlotKind::Png) => put(&folder.join("plot.png"), png(outcome)?)?,
            None => {}
        }
        if self.qlog {
            let flows = run.scenario.flows_expanded();
            let mss = |flow: u32| flows.get(flow as usize).map_or(0, |flow| flow.mss_bytes);
            for (flow, text) in qlog(outcome, mss) {
                let name = format!("{}-{}.qlog", flow.flow, slug(&flow.name));
                put(&folder.join(name), text)?;
            }
        }
        Ok(())
    }
}
