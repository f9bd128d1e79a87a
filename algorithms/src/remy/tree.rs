//! Remy's rule tables: a tree over what a sender remembers, whose leaves say what to do.
//!
//! The file is the one that Remy writes (tcpexmachina/remy, protobufs/dna.proto): a tree whose
//! inner nodes divide a box of the memory, and whose leaves, the whiskers, hold an action. Only
//! what a sender needs is read; what the optimizer kept beside it is passed over.

use crate::loaded::{Loadable, digest_of};
use prost::Message;
use std::sync::Arc;

/// A file of more bytes is no table: the largest published has some hundred kilobytes.
pub const BYTES_MAX: usize = 16 << 20;
const NODES_MAX: usize = 1 << 20;
/// What a memory is at most (memory.cc, `MAX_MEMORY`), and where a box without bounds ends.
const MEMORY_MAX: f64 = 163_840.0;

/// What a sender remembers of its path: intervals in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Between the sendings of packets acknowledged, smoothed by an eighth.
    pub send_ewma_ms: f64,
    /// Between their ACKs, smoothed by an eighth.
    pub rec_ewma_ms: f64,
    /// The last round trip over the least.
    pub rtt_ratio: f64,
    /// Between ACKs, smoothed by 1/256.
    pub slow_rec_ewma_ms: f64,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Action {
    /// The window is multiplied by this,
    pub window_multiple: f64,
    /// and so many segments are added.
    pub window_increment: f64,
    /// Segments leave so many milliseconds apart.
    pub intersend_ms: f64,
}

/// Why a table was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TableError {
    /// It is too long.
    #[error("a rule table has at most {BYTES_MAX} bytes, this one {0}")]
    TooLong(usize),
    /// It is not in Remy's format.
    #[error("it is not in the format that Remy writes (dna.proto): {0}")]
    Format(String),
    /// It has too many nodes.
    #[error("a rule table has at most {NODES_MAX} nodes")]
    TooManyNodes,
    /// A node is neither a leaf nor divided.
    #[error("a node has neither a rule nor children")]
    Empty,
    /// A rule is out of bounds.
    #[error("a rule's {name} is {value}: it must be {rule}")]
    Rule {
        name: &'static str,
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    root: Node,
    digest: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    lower: [f64; 4],
    upper: [f64; 4],
    below: Below,
}

#[derive(Clone, Debug, PartialEq)]
enum Below {
    Rule(Action),
    Nodes(Vec<Node>),
}

#[derive(Clone, PartialEq, Message)]
struct WhiskerTree {
    #[prost(message, optional, tag = "1")]
    domain: Option<MemoryRange>,
    #[prost(message, repeated, tag = "2")]
    children: Vec<WhiskerTree>,
    #[prost(message, optional, tag = "3")]
    leaf: Option<Whisker>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct MemoryRange {
    #[prost(message, optional, tag = "11")]
    lower: Option<Stored>,
    #[prost(message, optional, tag = "12")]
    upper: Option<Stored>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Stored {
    #[prost(double, optional, tag = "21")]
    rec_send_ewma: Option<f64>,
    #[prost(double, optional, tag = "22")]
    rec_rec_ewma: Option<f64>,
    #[prost(double, optional, tag = "23")]
    rtt_ratio: Option<f64>,
    #[prost(double, optional, tag = "24")]
    slow_rec_rec_ewma: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Whisker {
    #[prost(sint32, optional, tag = "31")]
    window_increment: Option<i32>,
    #[prost(double, optional, tag = "32")]
    window_multiple: Option<f64>,
    #[prost(double, optional, tag = "33")]
    intersend: Option<f64>,
    #[prost(message, optional, tag = "34")]
    domain: Option<MemoryRange>,
}

impl Memory {
    fn axes(&self) -> [f64; 4] {
        let Self { send_ewma_ms, rec_ewma_ms, rtt_ratio, slow_rec_ewma_ms } = *self;
        [send_ewma_ms, rec_ewma_ms, rtt_ratio, slow_rec_ewma_ms]
            .map(|value| if value.is_nan() { 0.0 } else { value.clamp(0.0, MEMORY_MAX - 1.0) })
    }
}

impl Loadable for Tree {
    fn digest(&self) -> &str {
        &self.digest
    }
}

impl Tree {
    pub fn parse(bytes: &[u8]) -> Result<Arc<Self>, TableError> {
        if bytes.len() > BYTES_MAX {
            return Err(TableError::TooLong(bytes.len()));
        }
        let tree = WhiskerTree::decode(bytes).map_err(|e| TableError::Format(e.to_string()))?;
        let mut nodes = 0;
        let digest = digest_of(bytes);
        Ok(Arc::new(Self { root: Node::of(&tree, &mut nodes)?, digest }))
    }

    /// What to do. A memory that no box holds has the rule of the box that comes nearest.
    pub fn action(&self, memory: &Memory) -> Action {
        let axes = memory.axes();
        let mut node = &self.root;
        loop {
            match &node.below {
                Below::Rule(action) => return *action,
                Below::Nodes(nodes) => {
                    let off = |node: &&Node| node.distance(&axes);
                    let nearest = nodes.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
                    match nearest {
                        Some(nearest) => node = nearest,
                        None => return Action::NONE,
                    }
                }
            }
        }
    }
}

impl Action {
    /// The window stays; a segment each millisecond.
    const NONE: Self = Self { window_multiple: 1.0, window_increment: 0.0, intersend_ms: 1.0 };

    fn of(whisker: &Whisker) -> Result<Self, TableError> {
        let action = Self {
            window_multiple: whisker.window_multiple.unwrap_or(1.0),
            window_increment: whisker.window_increment.unwrap_or(0).into(),
            intersend_ms: whisker.intersend.unwrap_or(1.0),
        };
        let within = |name, value: f64, (least, most): (f64, f64), rule| {
            let fits = value >= least && value <= most;
            if fits { Ok(()) } else { Err(TableError::Rule { name, value, rule }) }
        };
        within("window_multiple", action.window_multiple, (0.0, 10.0), "between 0 and 10")?;
        let rule = "between -10000 and 10000";
        within("window_increment", action.window_increment, (-1e4, 1e4), rule)?;
        within("intersend", action.intersend_ms, (0.0, 1e5), "between 0 and 100000 ms")?;
        Ok(action)
    }
}

impl Node {
    fn of(tree: &WhiskerTree, nodes: &mut usize) -> Result<Self, TableError> {
        *nodes += 1;
        if *nodes > NODES_MAX {
            return Err(TableError::TooManyNodes);
        }
        let leaf_domain = tree.leaf.and_then(|leaf| leaf.domain);
        let domain = tree.domain.or(leaf_domain).unwrap_or_default();
        let below = match &tree.leaf {
            Some(leaf) => Below::Rule(Action::of(leaf)?),
            None if tree.children.is_empty() => return Err(TableError::Empty),
            None => Below::Nodes(
                tree.children
                    .iter()
                    .map(|child| Self::of(child, nodes))
                    .collect::<Result<_, _>>()?,
            ),
        };
        let bounds = |stored: Option<Stored>, open: f64| {
            let s = stored.unwrap_or_default();
            [s.rec_send_ewma, s.rec_rec_ewma, s.rtt_ratio, s.slow_rec_rec_ewma]
                .map(|bound| bound.filter(|bound| bound.is_finite()).unwrap_or(open))
        };
        Ok(Self {
            lower: bounds(domain.lower, 0.0),
            upper: bounds(domain.upper, MEMORY_MAX),
            below,
        })
    }

    /// How far outside of the box it lies; its upper bounds are outside.
    fn distance(&self, axes: &[f64; 4]) -> f64 {
        let bounds = self.lower.iter().zip(&self.upper);
        let off = axes.iter().zip(bounds).map(|(value, (lower, upper))| {
            if value < lower {
                lower - value
            } else if value >= upper {
                value - upper + f64::MIN_POSITIVE
            } else {
                0.0
            }
        });
        off.fold(0.0, f64::max)
    }
}

/// For tests: a table of two rules, divided at a ratio of round trips.
#[cfg(test)]
pub fn divided_at(ratio: f64, below: (i32, f64, f64), above: (i32, f64, f64)) -> Vec<u8> {
    let leaf = |lower: f64, upper: f64, (increment, multiple, intersend): (i32, f64, f64)| {
        let at = |rtt_ratio| Some(Stored { rtt_ratio: Some(rtt_ratio), ..Stored::default() });
        WhiskerTree {
            domain: Some(MemoryRange { lower: at(lower), upper: at(upper) }),
            children: Vec::new(),
            leaf: Some(Whisker {
                window_increment: Some(increment),
                window_multiple: Some(multiple),
                intersend: Some(intersend),
                domain: None,
            }),
        }
    };
    let children = vec![leaf(0.0, ratio, below), leaf(ratio, MEMORY_MAX, above)];
    WhiskerTree { domain: None, children, leaf: None }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(rtt_ratio: f64) -> Memory {
        Memory { rtt_ratio, ..Memory::default() }
    }

    #[test]
    fn a_memory_has_the_rule_of_its_box() {
        let table = divided_at(1.5, (1, 1.0, 0.1), (-1, 0.9, 2.0));
        let tree = Tree::parse(&table).expect("a table");
        assert_eq!(tree.action(&at(1.49)).window_increment, 1.0);
        assert_eq!(tree.action(&at(1.5)).window_increment, -1.0);
        assert_eq!(tree.action(&at(1e9)).window_multiple, 0.9);
        assert_eq!(tree.action(&at(f64::NAN)).window_increment, 1.0);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        assert_eq!(Tree::parse(&[]), Err(TableError::Empty));
        assert!(matches!(Tree::parse(b"not a table"), Err(TableError::Format(_))));
        let wild = divided_at(1.5, (1, f64::INFINITY, 0.1), (-1, 0.9, 2.0));
        assert!(matches!(Tree::parse(&wild), Err(TableError::Rule { .. })));
        assert!(matches!(Tree::parse(&vec![0; BYTES_MAX + 1]), Err(TableError::TooLong(_))));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0usize..60) {
            let _ = Tree::parse(&bytes);
            let mut table = divided_at(1.5, (1, 1.0, 0.1), (-1, 0.9, 2.0));
            let at = at % table.len();
            table[at] ^= bytes.first().copied().unwrap_or(1);
            if let Ok(tree) = Tree::parse(&table) {
                let _ = tree.action(&Memory::default());
            }
        }
    }
}
