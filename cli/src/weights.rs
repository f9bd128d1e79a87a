//! `--weights`: trained networks of users' own as arms, without Rust.

use crate::Failure;
use ccp_agent::{Config, Setup};
use clap::Args;
use remuda_selector::antelope::policy as antelope;
use std::path::{Path, PathBuf};

/// Networks that are arms of this run.
#[derive(Clone, Debug, Default, Args)]
pub struct WeightsArgs {
    /// Trained weights (.safetensors, with their card beside them) as the arm NAME [default: the
    /// file's name]; `learned` replaces the shipped weights, and `antelope` the shipped model
    /// (.json) of that policy. May be given several times
    #[arg(long, value_name = "[NAME=]FILE", value_parser = named)]
    weights: Vec<(String, PathBuf)>,
}

/// The name and the file of `NAME=FILE` or `FILE`.
fn named(text: &str) -> Result<(String, PathBuf), String> {
    let form = "must be NAME=FILE or FILE, such as mine=out/mine.safetensors";
    let (name, file) = match text.split_once('=') {
        Some((name, file)) => (name.to_owned(), PathBuf::from(file)),
        None => {
            let stem = Path::new(text).file_stem().and_then(|stem| stem.to_str());
            (stem.ok_or(form)?.to_owned(), PathBuf::from(text))
        }
    };
    if name.is_empty() || file.as_os_str().is_empty() {
        Err(form.to_owned())
    } else {
        Ok((name, file))
    }
}

impl WeightsArgs {
    /// One file, as the arm of that name.
    pub fn of(name: &str, file: &Path) -> Self {
        Self { weights: vec![(name.to_owned(), file.to_owned())] }
    }

    /// Whether none are given.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Adds them to a configuration; they replace what it has by the same names.
    pub fn configure(&self, config: &mut Config) -> Result<(), Failure> {
        for (name, file) in &self.weights {
            if name == antelope::POLICY.name {
                config.policy.antelope.model = Some(file.clone());
            } else {
                config.arms.weights.insert(name.clone(), file.clone());
            }
        }
        Ok(config.arms.name_weights()?)
    }

    /// A setup that has them. To be called before anything lists the arms.
    pub fn setup(&self) -> Result<Setup, Failure> {
        let mut setup = Setup::default();
        self.configure(&mut setup.config)?;
        setup.load()?;
        Ok(setup)
    }

    /// Each with the hash of its content: what decides what the arm does.
    pub fn digests(&self, setup: &Setup) -> Vec<String> {
        let given = |name: &str| self.weights.iter().any(|(given, _)| given == name);
        let loaded = setup.loaded.list().into_iter().filter(|(name, _)| given(name));
        loaded.map(|(name, digest)| format!("{name}={digest}")).collect()
    }

    /// The arguments for another `remuda` that shall have them.
    pub fn arguments(&self) -> Vec<String> {
        let each = |(name, file): &(String, PathBuf)| {
            ["--weights".to_owned(), format!("{name}={}", file.display())]
        };
        self.weights.iter().flat_map(each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_an_arm_by_its_name() {
        let file = |text: &str| named(text).expect(text);
        assert_eq!(file("mine=out/a.safetensors").0, "mine");
        assert_eq!(
            file("out/mine.safetensors"),
            ("mine".to_owned(), "out/mine.safetensors".into())
        );
        for bad in ["", "=a.safetensors", "mine="] {
            assert!(named(bad).unwrap_err().contains("must be NAME=FILE"), "{bad}");
        }
    }
}
