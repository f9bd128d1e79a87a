//! Decides whose flows may teach. What such flows find out is remembered of their destinations, and
//! is stored as samples, from which models are trained.
//!
//! A user who makes a network namespace decides which host each address leads to, so the flows of
//! that namespace can show anything about any address. By default, only flows of namespaces that
//! the initial user namespace owns may teach: the host's own and those that root has made, such as
//! containers. A user's own namespaces lie inside user namespaces that the user has made.

use crate::datapath::Peer;
use crate::users;
use remuda_wire::to_agent::Origin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Whose flows are believed beside those of the host's own namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearningConfig {
    /// Users whose own network namespaces are believed, by name or uid. What flows find out there
    /// is remembered for that namespace alone.
    pub trusted_users: Vec<String>,
    /// Believe the flows of the kernel modules tcp_remuda and ccp-kernel. The modules do not say in
    /// which namespace a flow is.
    pub trust_modules: bool,
    /// How many samples a minute are stored of the flows of one user; root's are not counted.
    pub user_samples_per_min_max: u32,
}

impl Default for LearningConfig {
    fn default() -> Self {
        Self { trusted_users: Vec::new(), trust_modules: false, user_samples_per_min_max: 6_000 }
    }
}

impl LearningConfig {
    /// Checks each value, and looks the users up.
    pub fn resolve(&self) -> Result<Trust, String> {
        let per_min = self.user_samples_per_min_max;
        if !(1..=10_000_000).contains(&per_min) {
            let key = "learning.user_samples_per_min_max";
            return Err(format!("{key} = {per_min}: it must lie in 1..=10000000"));
        }
        let users = users::uids_of("learning.trusted_users", &self.trusted_users)?;
        Ok(Trust { users, modules: self.trust_modules })
    }
}

/// Whose flows are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    users: BTreeSet<u32>,
    modules: bool,
}

impl Trust {
    /// Whether a flow of that datapath and origin is believed. Datapaths on the unix socket are the
    /// agent's own user's, because nobody else may enter the run directory.
    pub fn believes(&self, peer: &Peer, origin: &Origin) -> bool {
        match peer {
            Peer::Bpf => origin.is_of_host || self.users.contains(&origin.uid),
            Peer::Module | Peer::Netlink => self.modules,
            Peer::Unix(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_that_users_have_made_are_believed_by_configuration() {
        let config = LearningConfig {
            trusted_users: vec!["1000".to_owned()],
            trust_modules: true,
            ..LearningConfig::default()
        };
        let named = config.resolve().expect("a uid");
        let of = |uid, is_of_host| Origin { uid, is_of_host, netns: 7 };
        let cases = [
            (Peer::Bpf, of(1_000, true), [true, true]),
            (Peer::Bpf, of(1_000, false), [false, true]),
            (Peer::Bpf, of(1_001, false), [false, false]),
            (Peer::Module, Origin::default(), [false, true]),
            (Peer::Netlink, Origin::default(), [false, true]),
            (Peer::Unix(Default::default()), Origin::default(), [true, true]),
        ];
        for (peer, origin, want) in cases {
            let got = [&Trust::default(), &named].map(|trust| trust.believes(&peer, &origin));
            assert_eq!(got, want, "{peer} {origin:?}");
        }
    }

    #[test]
    fn a_bad_value_is_refused_by_key() {
        let refused = |config: LearningConfig| config.resolve().expect_err("it is refused");
        let none = LearningConfig { user_samples_per_min_max: 0, ..Default::default() };
        assert!(refused(none).starts_with("learning.user_samples_per_min_max = 0: it must lie"));
        let nobody = LearningConfig { trusted_users: vec!["no one".into()], ..Default::default() };
        assert!(refused(nobody).starts_with("learning.trusted_users: this host has no user"));
    }
}
