//! Preferences of flows: set by operators and applications at run time, and by the configuration.

use super::Host;
use crate::Error;
use crate::prefer::{By, Order, Row, Rules, SocketId, Wish};

impl Host {
    /// Adds an operator's preference. Returns its number, and how many running flows follow it now.
    pub fn prefer(&mut self, order: Order) -> Result<(u32, usize), Error> {
        if let Order::Flow { flow, .. } = order
            && !self.keys.contains_key(&flow)
        {
            return Err(Error::no_flow(flow));
        }
        let number = self.preferences.give(order)?;
        self.prefer_anew();
        let counts = self.flows.iter().filter(|flow| flow.preferred_by() == By::Order(number));
        Ok((number, counts.count()))
    }

    /// Removes one of the operator's preferences, or all. Returns how many were removed, and how
    /// many flows have another preference now.
    pub fn prefer_no_more(&mut self, order: Option<u32>) -> Result<(usize, usize), Error> {
        let gone = self.preferences.take_back(order)?;
        Ok((gone, self.prefer_anew()))
    }

    /// Replaces the preferences of the configuration. Returns how many flows have another one now.
    pub fn obey_preferences(&mut self, rules: &Rules) -> usize {
        self.preferences.obey_rules(rules);
        self.prefer_anew()
    }

    /// All preferences; the first one that matches a flow counts.
    pub fn preferences(&self) -> Vec<Row> {
        self.preferences.rows()
    }

    /// Sets an application's preference for its socket. Returns the flow's number. If the socket is
    /// no flow yet, returns `None` and stores the preference for a while, until a flow starts on
    /// the socket.
    pub fn application_wants(&mut self, socket: SocketId, wish: Wish) -> Option<u32> {
        let id = socket.key.as_ref().and_then(|key| self.ids.get(key));
        let id = id.or_else(|| self.cookies.get(&socket.cookie)).copied();
        let Some(flow) = id.and_then(|id| self.flows.get_mut(id)) else {
            let now_ns = self.clock.now_us() * 1_000;
            self.preferences.wishes.keep(socket, wish, now_ns);
            return None;
        };
        flow.set_wish(Some(wish));
        let (wants, by) = self.preferences.of(flow.id(), flow.info(), flow.wish());
        flow.prefer(wants, by, &mut *self.recorder);
        Some(flow.id())
    }

    /// Recomputes the preference of each flow. Returns how many flows have another one now.
    fn prefer_anew(&mut self) -> usize {
        let mut changed = 0;
        for flow in self.flows.iter_mut() {
            let (wants, by) = self.preferences.of(flow.id(), flow.info(), flow.wish());
            changed += usize::from(wants != flow.wants());
            flow.prefer(wants, by, &mut *self.recorder);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Event;
    use crate::host::rig::{Notes, flow, key, rig};
    use crate::prefer::Rule;
    use crate::select::Parts;

    /// The changes of preferences since the last call.
    fn taken(notes: &Notes) -> Vec<String> {
        let text = |(flow, event): (Option<u32>, Event)| match (flow, event) {
            (Some(flow), Event::Preferred { from, to, by }) => {
                Some(format!("{flow}: {from} -> {to} by {by}"))
            }
            _ => None,
        };
        notes.take().into_iter().filter_map(text).collect()
    }

    fn wants(host: &Host) -> Vec<String> {
        host.rows().iter().map(|row| row.wants.to_string()).collect()
    }

    fn wish(what: &str) -> Wish {
        Wish { wants: what.parse().expect("a name"), uid: 7 }
    }

    fn on_port(port: &str, what: &str) -> Order {
        let parts = Parts { local_port: Some(port.to_owned()), ..Parts::default() };
        Order::Rule(Rule::parse(&parts, what.parse().expect("a name")).expect("it parses"))
    }

    #[test]
    fn a_flow_gets_what_the_configuration_says_from_its_start() {
        let (mut host, notes) = rig("[[prefer]]\nlocal_port = 443\nwants = 'delay'\n");
        flow(&mut host, 1, 443, 0);
        flow(&mut host, 2, 80, 0);
        assert_eq!(wants(&host), ["delay", "default"]);
        assert_eq!(taken(&notes), ["1: default -> delay by the configuration, rule 1"]);
    }

    #[test]
    fn an_order_reaches_running_flows_and_those_to_come_until_it_is_taken_back() {
        let (mut host, notes) = rig("[[prefer]]\nlocal_port = 443\nwants = 'delay'\n");
        flow(&mut host, 1, 443, 0);
        flow(&mut host, 2, 80, 0);
        assert_eq!(host.prefer(on_port("400-500", "throughput")).expect("it is taken"), (1, 1));
        flow(&mut host, 3, 444, 0);
        assert_eq!(wants(&host), ["throughput", "default", "throughput"]);
        let one = Order::Flow { flow: 2, wants: "delay".parse().expect("a name") };
        assert_eq!(host.prefer(one).expect("it is taken"), (2, 1));
        assert_eq!(wants(&host), ["throughput", "delay", "throughput"]);
        assert_eq!(host.prefer_no_more(None).expect("all"), (2, 3));
        assert_eq!(wants(&host), ["delay", "default", "default"]);
        let notes = taken(&notes);
        assert_eq!(notes[1], "1: delay -> throughput by an operator, order 1");
        assert!(notes.contains(&"2: delay -> default by nobody".to_owned()), "{notes:?}");
        assert_eq!(notes.len(), 7);
        let gone = Order::Flow { flow: 9, wants: Default::default() };
        let error = host.prefer(gone).expect_err("there is none").to_string();
        assert!(error.contains("no flow 9") && error.contains("fix:"), "{error}");
    }

    #[test]
    fn what_an_application_says_waits_for_its_socket() {
        let (mut host, notes) = rig("");
        let id = |cookie, sid: Option<u32>| SocketId { cookie, key: sid.map(key) };
        assert_eq!(host.application_wants(id(5, None), wish("delay")), None);
        assert_eq!(host.application_wants(id(6, Some(3)), wish("throughput")), None);
        flow(&mut host, 1, 80, 4);
        flow(&mut host, 2, 80, 5);
        flow(&mut host, 3, 80, 0);
        assert_eq!(wants(&host), ["default", "delay", "throughput"]);
        assert_eq!(
            taken(&notes),
            [
                "2: default -> delay by its application, user 7",
                "3: default -> throughput by its application, user 7"
            ]
        );
    }

    #[test]
    fn what_an_application_says_of_a_flow_that_runs_is_of_that_one() {
        let (mut host, notes) = rig("");
        let first = flow(&mut host, 1, 80, 4);
        let second = flow(&mut host, 2, 80, 0);
        let by_cookie = SocketId { cookie: 4, key: None };
        assert_eq!(host.application_wants(by_cookie.clone(), wish("delay")), Some(first));
        assert_eq!(host.application_wants(by_cookie, wish("delay")), Some(first));
        let by_key = SocketId { cookie: 99, key: Some(key(2)) };
        assert_eq!(host.application_wants(by_key.clone(), wish("throughput")), Some(second));
        assert_eq!(wants(&host), ["delay", "throughput"]);
        assert_eq!(taken(&notes).len(), 2, "said again, it is no event");
        host.close(&key(2));
        flow(&mut host, 3, 80, 0);
        assert_eq!(wants(&host), ["delay", "default"], "a flow's end is the wish's");
        assert_eq!(host.application_wants(by_key, wish("delay")), None);
        assert!(host.cookies.len() == 1 && host.cookies.contains_key(&4));
        host.close(&key(1));
        assert!(host.cookies.is_empty());
    }
}
