//! Runs jobs that another process has sent.

use crate::author::start_author;
use crate::author_files::AuthorFiles;
use crate::metrics;
use crate::run::simulate;
use crate::work::Work;
use ccp_agent::Setup;
use ccp_agent::author::Process;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

/// Runs one job after the other. Authors' processes are kept from job to job, because starting one
/// can take longer than a run. They end when this value is dropped, or when the thread that ran
/// their first job ends.
#[derive(Debug)]
pub struct Worker {
    python: PathBuf,
    authors: Authors,
}

/// The authors of the last job.
#[derive(Debug, Default)]
struct Authors {
    names: Vec<String>,
    setup: Arc<Setup>,
    processes: Vec<Process>,
    folders: Vec<TempDir>,
    moved: Moved,
}

/// Pairs of paths: a file's path here, and its path on the machine that sent the job.
#[derive(Clone, Debug, Default)]
struct Moved(Vec<(String, String)>);

impl Moved {
    fn add(&mut self, here: &Path, there: &Path) {
        self.0.push((here.display().to_string(), there.display().to_string()));
    }

    /// Replaces the paths here in an error by those of the sending machine.
    fn named(&self, error: &impl ToString) -> String {
        self.0.iter().fold(error.to_string(), |text, (here, there)| text.replace(here, there))
    }
}

impl Authors {
    fn start(
        names: &[String],
        texts: &BTreeMap<String, String>,
        python: &Path,
    ) -> Result<Self, String> {
        let mut authors = Self { names: names.to_vec(), ..Self::default() };
        for name in names {
            let text = texts.get(name);
            let text = text.ok_or_else(|| format!("the author's files {name} were not sent"))?;
            let files = AuthorFiles::parse(text).map_err(|error| error.to_string())?;
            let no_folder =
                |error| format!("cannot make a folder for {}: {error}", files.path().display());
            let folder = tempfile::tempdir().map_err(no_folder)?;
            let file = files.write(folder.path()).map_err(no_folder)?;
            authors.moved.add(&file, files.path());
            authors.folders.push(folder);
            let process = start_author(&file, python, &authors.setup.authors);
            authors.processes.push(process.map_err(|error| authors.moved.named(&error))?);
        }
        Ok(authors)
    }
}

impl Worker {
    /// `python` runs the authors' files.
    pub fn new(python: &Path) -> Self {
        Self { python: python.to_owned(), authors: Authors::default() }
    }

    /// Runs a job in the simulator and returns its row as JSON, or the error. `texts` has
    /// the texts that the work names, by name.
    pub fn run(&mut self, work: Work, texts: &BTreeMap<String, String>) -> Result<String, String> {
        if self.authors.names != work.authors {
            // End the authors of the last job first. If the start of the new ones fails, no old
            // author stays for a later job.
            self.authors = Authors::default();
            self.authors = Authors::start(&work.authors, texts, &self.python)?;
        }
        let traces = work.traces.clone();
        let mut job = work.job().map_err(|error| error.to_string())?;
        let folder = tempfile::tempdir();
        let folder =
            folder.map_err(|error| format!("cannot make a folder for its traces: {error}"))?;
        let mut moved = self.authors.moved.clone();
        for (place, (link, name)) in traces.iter().enumerate() {
            let spec = job.scenario.links.get_mut(link);
            let Some((spec, text)) = spec.zip(texts.get(name)) else {
                return Err(format!("the trace {name} of link `{link}` was not sent"));
            };
            let from = spec.trace.take().unwrap_or_default();
            // The extension of a trace's name determines its format.
            let end = from.extension().unwrap_or_default();
            let to = folder.path().join(place.to_string()).with_extension(end);
            fs::write(&to, text).map_err(|error| format!("{}: {error}", to.display()))?;
            moved.add(&to, &from);
            spec.trace = Some(to);
        }
        let row = simulate(&job, &self.authors.setup, &AtomicBool::new(false), metrics::row);
        let row = row.map_err(|error| moved.named(&error))?.ok_or("was stopped")?;
        serde_json::to_string(&row).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Only, Plan};
    use crate::row::Row;
    use remuda_scenarios::Suite;

    const SUITE: &str = r#"
        title = "t"
        source = "s"
        [scenario]
        duration_s = 2
        links.down = { delay_ms = 10, queue = { kind = "droptail", limit_packets = 50 } }
        links.up = { delay_ms = 10 }
        flows = [{ driver = "tested" }]
        [[families]]
        name = "traced"
        group = "E"
        path = "cellular"
        scenario.links.down.trace = "TRACE"
    "#;

    #[test]
    fn a_trace_comes_along_and_errors_call_it_as_its_owner_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let text = "t_s,rate_mbit_per_sec\n0,8\n1,4\n2,8\n";
        fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        let suite = Suite::parse(&SUITE.replace("TRACE", &path), "mine").unwrap();
        let plan = Plan::of(&[suite], &Only::default(), &["cubic".to_owned()], 3..=3).unwrap();
        let [job] = &plan.jobs[..] else { panic!("one environment") };
        let here =
            simulate(job, &Arc::new(Setup::default()), &AtomicBool::new(false), metrics::row);
        let here = here.unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        let work = || Work::of(job, &[], |path| Ok(path.display().to_string())).unwrap();
        let mut worker = Worker::new(Path::new("python3"));
        let mut run =
            |text: &str| worker.run(work(), &BTreeMap::from([(path.clone(), text.into())]));
        let there: Row = serde_json::from_str(&run(text).unwrap()).unwrap();
        assert_eq!(there, here);
        let why = run("no trace").unwrap_err();
        assert!(why.contains(&path), "{why}");
        let why = worker.run(work(), &BTreeMap::new()).unwrap_err();
        assert_eq!(why, format!("the trace {path} of link `down` was not sent"));
        let authored = Work::of(job, &["a".to_owned()], |path| Ok(path.display().to_string()));
        let why = worker.run(authored.unwrap(), &BTreeMap::new()).unwrap_err();
        assert_eq!(why, "the author's files a were not sent");
    }
}
