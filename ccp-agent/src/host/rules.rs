//! Rules of flows: added and removed by operators at run time, and given by the configuration.

use super::Host;
use crate::Error;
use crate::datapath::Peer;
use crate::rules::{Row, Rule, Ruled, Rules, Tested};
use remuda_wire::to_agent::FlowInfo;

impl Host {
    /// All rules; the first one that matches a flow counts.
    pub fn rules(&self) -> Vec<Row> {
        self.rules.rows()
    }

    /// Those that operators have added, with their numbers.
    pub fn added_rules(&self) -> Vec<(u32, Rule)> {
        self.rules.added()
    }

    /// Adds a rule before all others. Returns its number, and how many running flows get another
    /// driver.
    pub fn add_rule(&mut self, rule: Rule) -> Result<(u32, usize), Error> {
        self.check_rule(&rule)?;
        let number = self.rules.add(rule)?;
        Ok((number, self.rule_anew()))
    }

    /// Removes one of the added rules, or all. Returns how many, and how many running flows get
    /// another driver.
    pub fn remove_rule(&mut self, number: Option<u32>) -> Result<(usize, usize), Error> {
        let removed = self.rules.remove(number)?;
        Ok((removed, self.rule_anew()))
    }

    /// Restores the rules that operators added before a restart. A rule whose driver this agent
    /// does not know yet, such as an author's arm, stays, and counts for no flow until then.
    pub fn restore_rules(&mut self, added: Vec<(u32, Rule)>) {
        self.rules.restore(added);
    }

    fn check_rule(&self, rule: &Rule) -> Result<(), Error> {
        if rule.attach {
            let fix = "fix: write it as [[rule]], and restart the agent";
            let rule = "attach = true is for rules of the configuration";
            return Err(Error::Refused(format!("{rule}\n{fix}")));
        }
        self.setup.kind_of(&rule.driver)?;
        if self.setup.config.guard.denies(&rule.driver) {
            let fix = "fix: remove it from guard.deny, and reload the configuration";
            return Err(Error::Refused(format!("guard.deny has {:?}\n{fix}", rule.driver)));
        }
        Ok(())
    }

    /// Replaces the rules of the configuration. Returns how many running flows get another driver.
    pub fn obey_rules(&mut self, rules: &Rules) -> usize {
        self.rules.configure(rules);
        self.rule_anew()
    }

    /// Which rule wins for such a flow, and what drives a flow that no rule matches.
    pub fn test_rules(&mut self, flow: &FlowInfo) -> (Tested, String) {
        (self.rules.test(flow), self.setup.config.agent.default.clone())
    }

    /// Finds the rule of each running flow again, but not of those that an operator has pinned.
    /// Returns how many get another driver.
    fn rule_anew(&mut self) -> usize {
        let all: Vec<(u32, Peer)> =
            self.keys.iter().map(|(id, key)| (*id, key.0.clone())).collect();
        let mut driven = 0;
        for (id, peer) in all {
            let Some(flow) = self.flows.get(id).filter(|flow| !flow.is_pinned()) else { continue };
            let info = flow.info().clone();
            let (ruled, driver, why) = self.driven_by(&info, self.peers.abilities(&peer));
            let Some(flow) = self.flows.get(id) else { continue };
            let is_denied = self.setup.config.guard.denies(flow.next_driver());
            if ruled.as_ref() == flow.ruled() && !is_denied {
                continue;
            }
            let is_another = flow.next_driver() != driver;
            let group = |ruled: &Ruled| (ruled.source, ruled.group);
            if let Some(new) = &ruled
                && flow.ruled().map(group) != Some(group(new))
            {
                self.rules.count(new);
            }
            if let Some(flow) = self.flows.get_mut(id) {
                flow.set_ruled(ruled);
                if is_another {
                    flow.want(driver, why);
                    self.pokes.push(id);
                    driven += 1;
                }
            }
        }
        driven
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::events::Event;
    use crate::host::Target;
    use crate::host::rig::{flow, flow_of, poke, rig};
    use crate::select::Parts;

    fn on_port(port: &str, driver: &str) -> Rule {
        let parts = Parts { local_port: Some(port.to_owned()), ..Parts::default() };
        Rule::parse(&parts, driver.to_owned()).expect("it parses")
    }

    fn driven(host: &Host) -> Vec<String> {
        let text = |row: &crate::flow::Row| {
            format!("{} {}", row.driver, row.rule.as_deref().unwrap_or("-"))
        };
        host.rows().iter().map(text).collect()
    }

    const RULES: &str = "[agent]\ndefault = 'reno'\n[[rule]]\nlocal_port = 443\nuse = 'bbr'\n";

    #[test]
    fn a_flow_has_its_rules_driver_from_its_start() {
        let (mut host, notes) = rig(RULES);
        flow(&mut host, 1, 443, 0);
        flow(&mut host, 2, 80, 0);
        assert_eq!(driven(&host), ["bbr rule 1", "reno -"]);
        let rows = host.rows();
        assert_eq!((&*rows[0].why, &*rows[1].why), ("rule 1", "the agent's default"));
        let notes = notes.take().into_iter();
        let rules = notes.filter_map(|(_, event)| match event {
            Event::Created { rule, .. } => Some(rule),
            _ => None,
        });
        let rules: Vec<_> = rules.collect();
        assert_eq!(rules, [Some("rule 1".to_owned()), None]);
    }

    #[test]
    fn running_flows_follow_but_those_that_an_operator_has_pinned() {
        let (mut host, _) = rig(RULES);
        let pinned = flow(&mut host, 1, 443, 0);
        flow(&mut host, 2, 443, 0);
        flow(&mut host, 3, 80, 0);
        host.set(Target::Flow(pinned), "copa").expect("it is pinned");
        let (number, changed) = host.add_rule(on_port("1-1000", "vegas")).expect("it is added");
        assert_eq!(changed, 2);
        poke(&mut host);
        assert_eq!(driven(&host), ["copa -", "vegas added rule 1", "vegas added rule 1"]);
        assert_eq!(host.remove_rule(Some(number)).expect("it was there"), (1, 2));
        poke(&mut host);
        assert_eq!(driven(&host), ["copa -", "bbr rule 1", "reno -"]);
        let rules = Config::parse("[[rule]]\nmark = 0\nuse = 'cubic'\n", "-").expect("it parses");
        assert_eq!(host.obey_rules(&rules.rules), 2);
        poke(&mut host);
        assert_eq!(driven(&host), ["copa -", "cubic rule 1", "cubic rule 1"]);
    }

    #[test]
    fn a_rule_comes_before_what_the_socket_asks_for_and_that_before_the_default() {
        let (mut host, _) = rig(RULES);
        let asks = |port: u16| FlowInfo {
            requested: "vegas".to_owned(),
            ..FlowInfo::between(([127, 0, 0, 1].into(), port), ([10, 0, 0, 1].into(), 80))
        };
        flow_of(&mut host, 1, asks(443));
        flow_of(&mut host, 2, asks(80));
        assert_eq!(driven(&host), ["bbr rule 1", "vegas -"]);
        host.add_rule(on_port("80", "copa")).expect("it is added");
        poke(&mut host);
        host.remove_rule(None).expect("all");
        poke(&mut host);
        assert_eq!(driven(&host), ["bbr rule 1", "vegas -"], "as the socket asks again");
    }

    #[test]
    fn a_rule_that_goes_before_it_took_effect_leaves_nothing_behind() {
        let (mut host, _) = rig(RULES);
        flow(&mut host, 1, 80, 0);
        let (number, changed) = host.add_rule(on_port("80", "vegas")).expect("it is added");
        assert_eq!(changed, 1);
        host.remove_rule(Some(number)).expect("it was there");
        poke(&mut host);
        assert_eq!(driven(&host), ["reno -"]);
    }

    #[test]
    fn a_rule_whose_arm_is_not_there_yet_stays() {
        let (mut host, _) = rig(RULES);
        host.restore_rules(vec![(4, on_port("80", "an-authors-arm"))]);
        flow(&mut host, 1, 80, 0);
        assert_eq!(driven(&host), ["reno -"]);
        assert!(host.rows()[0].why.contains("cannot drive this flow"), "{:?}", host.rows());
        assert_eq!(host.added_rules().len(), 1);
    }

    #[test]
    fn a_control_group_is_driven_as_without_the_rule() {
        let (mut host, _) = rig("[agent]\ndefault = 'reno'\n[[rule]]\nmark = 0\nuse = 'bbr'\n\
                                 share = 0.5\n");
        for port in 1..101 {
            flow(&mut host, u32::from(port), port, 0);
        }
        let rows = host.rows();
        for row in &rows {
            let want = if row.group == Some(crate::rules::Group::Rule) { "bbr" } else { "reno" };
            assert_eq!((&*row.driver, row.rule.as_deref()), (want, Some("rule 1")));
        }
        let row = &host.rules()[0];
        assert_eq!(row.flows + row.control_flows, 100);
        assert!((25..75).contains(&row.flows), "{row:?}");
        assert!(rows.iter().any(|it| it.why == "control group of rule 1"), "{:?}", rows[0]);
    }

    #[test]
    fn a_running_flow_leaves_an_arm_that_a_reload_denies() {
        let (mut host, _) = rig(RULES);
        flow(&mut host, 1, 443, 0);
        assert_eq!(driven(&host), ["bbr rule 1"]);
        host.setup.config.guard.deny = vec!["bbr".to_owned()];
        let rules = Config::parse(RULES, "-").expect("it parses").rules;
        assert_eq!(host.obey_rules(&rules), 1);
        poke(&mut host);
        assert_eq!(driven(&host), ["reno -"]);
        assert_eq!(host.rules()[0].flows, 1, "a flow counts once");
    }

    #[test]
    fn what_is_denied_is_refused_in_a_rule_and_by_an_order() {
        let (mut host, _) = rig("[guard]\ndeny = ['bbr']\n");
        let id = flow(&mut host, 1, 443, 0);
        for error in [
            host.add_rule(on_port("443", "bbr")).expect_err("denied").to_string(),
            host.set(Target::Flow(id), "bbr").expect_err("denied").to_string(),
            Config::parse(&format!("{RULES}[guard]\ndeny = ['bbr']\n"), "-")
                .expect_err("denied")
                .to_string(),
        ] {
            assert!(error.contains("guard.deny has \"bbr\"") && error.contains("fix:"), "{error}");
        }
        let error = host.add_rule(on_port("443", "brr")).expect_err("unknown").to_string();
        assert!(error.contains("brr"), "{error}");
        assert!(host.rules().is_empty());
    }
}
