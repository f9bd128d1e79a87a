//! What an agent or a simulation runs with: its configuration, and what can change while flows run.

use crate::author::Authors;
use crate::catalogue::{self, Kind};
use crate::error::on;
use crate::programs::{self, Installed};
use crate::{Config, Error};
use remuda_algorithms::anole::config as anole;
use remuda_algorithms::network::error::{CARD_BYTES_MAX, NetworkError, WEIGHTS_BYTES_MAX};
use remuda_algorithms::remy::{self, tree, tree::Tree};
use remuda_algorithms::{Loaded, Network, ProgramId};
use remuda_algorithms::{learned, lingbo};
use remuda_selector::antelope::model::{self, Model};
use remuda_selector::antelope::policy::MODEL;
use remuda_selector::linucb;
use remuda_selector::linucb::prior::{self, Prior};
use remuda_selector::tcp_rl_policy::{self, Networks, TcpRlConfig};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A clone has its own configuration, and shares the tables, the models and the authors.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub config: Config,
    /// The file that the configuration was read from, for SIGHUP.
    pub file: Option<PathBuf>,
    /// Tables and models, by name.
    pub loaded: Loaded,
    /// Arms that run in other processes; they can appear and disappear at any time.
    pub authors: Authors,
}

impl From<Config> for Setup {
    /// Without tables, models and authors.
    fn from(config: Config) -> Self {
        Self { config, ..Self::default() }
    }
}

impl Setup {
    /// Checks the configuration again, after flags have changed it.
    pub fn validate(&self) -> Result<(), Error> {
        self.config.validate(&self.authors.names())
    }

    /// The kind of the built-in or authored driver `name`; an error if no driver has
    /// that name.
    pub fn kind_of(&self, name: &str) -> Result<Kind, Error> {
        catalogue::kind_of(name, &self.authors.names())
    }

    /// The program with this name, of a built-in arm or of an author.
    pub fn program(&self, id: ProgramId) -> Option<Arc<Installed>> {
        let of_author = || Some(Arc::new(self.authors.program(id)?.installed()));
        programs::find(id).or_else(of_author)
    }

    /// Reads the tables and models that the configuration names. Call this once, before building
    /// flows.
    pub fn load(&self) -> Result<(), Error> {
        let config = &self.config;
        let path = "the configuration".to_owned();
        config.prefer.check().map_err(|rule| Error::Config { path, rule })?;
        if let Some(path) = &config.arms.remy_table {
            let bytes = bounded(path, tree::BYTES_MAX)?;
            let refuse = |rule: String| refusal(path, "arms.remy_table", &rule);
            let tree = Tree::parse(&bytes).map_err(|error| refuse(error.to_string()))?;
            self.loaded.put(remy::TABLE, tree);
        }
        for (name, path) in &config.arms.weights {
            let key = format!("arms.weights.{name}");
            let network = network(path, &key)?;
            let refuse = |rule: String| refusal(&path.with_extension("json"), &key, &rule);
            if name == lingbo::WEIGHTS {
                lingbo::check(&network).map_err(|error| refuse(error.to_string()))?;
            } else {
                learned::Plan::of(&network).map_err(|error| refuse(error.to_string()))?;
            }
            self.loaded.put(name, network);
        }
        let single_rtt_min = config.arms.lingbo_single_rtt_min;
        self.loaded.put(lingbo::SETTINGS, Arc::new(lingbo::Settings { single_rtt_min }));
        self.loaded.put(anole::SETTINGS, Arc::new(config.arms.anole.clone()));
        if let Some(path) = &config.policy.antelope.model {
            self.loaded.put(MODEL, Arc::new(antelope_model(path)?));
        }
        self.load_tcp_rl()?;
        if let Some(path) = &config.policy.linucb.prior {
            let prior = Prior::parse(&bounded(path, prior::BYTES_MAX)?);
            let refuse = |rule: String| refusal(path, "policy.linucb.prior", &rule);
            let prior = prior.map_err(|error| refuse(error.to_string()))?;
            self.loaded.put(linucb::PRIOR, Arc::new(prior));
        }
        Ok(())
    }
}

impl Setup {
    /// Reads the networks of `tcp_rl` that the configuration names; the other one is the shipped.
    fn load_tcp_rl(&self) -> Result<(), Error> {
        let TcpRlConfig { weights, change_weights, .. } = &self.config.policy.tcp_rl;
        if weights.is_none() && change_weights.is_none() {
            return Ok(());
        }
        let shipped = Networks::shipped();
        let keys = ["policy.tcp_rl.weights", "policy.tcp_rl.change_weights"];
        let read = |file: &Option<PathBuf>, key, or: &Arc<Network>| {
            file.as_ref().map_or_else(|| Ok(Arc::clone(or)), |path| network(path, key))
        };
        let actor = read(weights, keys[0], &shipped.actor)?;
        let change = read(change_weights, keys[1], &shipped.change)?;
        let networks = Networks::of(actor, change).map_err(|error| {
            // The shipped networks fit each other, so that one of them is not shipped.
            let of_actor = weights.as_ref().map(|file| (file, keys[0]));
            let of_change = change_weights.as_ref().map(|file| (file, keys[1]));
            let blamed =
                if error.is_of_actor() { of_actor.or(of_change) } else { of_change.or(of_actor) };
            let (file, key) = blamed.expect("one of the two is configured");
            refusal(&file.with_extension("json"), key, &error.to_string())
        })?;
        self.loaded.put(tcp_rl_policy::NETWORKS, Arc::new(networks));
        Ok(())
    }
}

/// Reads at most `bytes_max + 1` bytes, so the caller can tell that a file is too large.
fn bounded(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(on(path.display()))?;
    let mut bytes = Vec::new();
    let mut limited = file.take(bytes_max as u64 + 1);
    limited.read_to_end(&mut bytes).map_err(on(path.display()))?;
    Ok(bytes)
}

fn refusal(path: &Path, key: &str, rule: &str) -> Error {
    Error::Config { path: path.display().to_string(), rule: format!("{key}: {rule}") }
}

/// Reads the file of an Antelope model.
pub fn antelope_text(path: &Path) -> Result<String, Error> {
    let refuse = |rule: &str| refusal(path, "policy.antelope.model", rule);
    let bytes = bounded(path, model::BYTES_MAX)?;
    if bytes.len() > model::BYTES_MAX {
        return Err(refuse("is larger than 64 MiB; a model has at most 64 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| refuse("is not UTF-8 text"))
}

fn antelope_model(path: &Path) -> Result<Model, Error> {
    let model = Model::parse(&antelope_text(path)?);
    model.map_err(|error| refusal(path, "policy.antelope.model", &error.to_string()))
}

/// Reads a network: the file of its weights, and its card, which has the same name with `.json`.
/// `key` is the setting that named the file.
pub fn network(path: &Path, key: &str) -> Result<Arc<Network>, Error> {
    let card = path.with_extension("json");
    if card == path {
        return Err(refusal(path, key, "is the card; name the file of weights, .safetensors"));
    }
    let weights = bounded(path, WEIGHTS_BYTES_MAX)?;
    let text = String::from_utf8(bounded(&card, CARD_BYTES_MAX)?)
        .map_err(|_| refusal(&card, key, "is not UTF-8 text"))?;
    let refuse = |error: NetworkError| {
        let file = if error.is_of_card() { &card } else { path };
        refusal(file, key, &error.to_string())
    };
    Network::parse(&weights, &text).map(Arc::new).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_is_none_is_refused_by_file_key_and_rule() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.json");
        for (text, want) in [("{", "not a model"), ("\u{1}", "not a model")] {
            std::fs::write(&path, text).expect("it is written");
            let mut setup = Setup::default();
            setup.config.policy.antelope.model = Some(path.clone());
            let error = setup.load().expect_err(want).to_string();
            assert!(error.contains("model.json") && error.contains(want), "{error}");
            assert!(error.contains("policy.antelope.model"), "{error}");
        }
        let mut setup = Setup::default();
        setup.config.policy.antelope.model = Some(folder.path().join("none.json"));
        setup.load().expect_err("there is no such file");
    }

    #[test]
    fn networks_of_another_kind_are_refused_by_file_key_and_rule() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../selector/models");
        let (actor, change) =
            (models.join("tcp_rl.safetensors"), models.join("tcp_rl_change.safetensors"));
        let load = |weights: Option<&PathBuf>, change_weights: Option<&PathBuf>| {
            let mut setup = Setup::default();
            setup.config.policy.tcp_rl.weights = weights.cloned();
            setup.config.policy.tcp_rl.change_weights = change_weights.cloned();
            setup.load().map(|()| setup)
        };
        let setup = load(Some(&actor), Some(&change)).expect("the shipped ones");
        assert!(setup.loaded.slot::<Networks>(tcp_rl_policy::NETWORKS).is_some());
        for (weights, change_weights, want) in [
            (Some(&change), None, "tcp_rl_change.json: policy.tcp_rl.weights: the actor's card"),
            (None, Some(&actor), "tcp_rl.json: policy.tcp_rl.change_weights: the card of the"),
        ] {
            let error = load(weights, change_weights).expect_err(want).to_string();
            assert!(error.contains(want), "{error}");
        }
        let none = models.join("none.safetensors");
        load(Some(&none), None).expect_err("there is no such file");
    }

    #[test]
    fn a_prior_is_read_whole_or_refused_by_file_key_and_rule() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("prior.json");
        let mut setup = Setup::default();
        setup.config.policy.linucb.prior = Some(path.clone());
        let error = setup.load().expect_err("there is no file").to_string();
        assert!(error.contains("prior.json"), "{error}");
        let schema = remuda_selector::features::SchemaHash::ours();
        let of = |version: u32| {
            format!("{{\"version\": {version}, \"schema\": \"{schema}\", \"arms\": {{}}}}")
        };
        std::fs::write(&path, of(2)).expect("it is written");
        let error = setup.load().expect_err("another version").to_string();
        let rule = "prior.json: policy.linucb.prior: version = 2: it must be 1";
        assert!(error.contains(rule), "{error}");
        assert!(setup.loaded.slot::<Prior>(linucb::PRIOR).is_none());
        std::fs::write(&path, of(1)).expect("it is written");
        setup.load().expect("it is a prior");
    }
}
