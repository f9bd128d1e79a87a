//! Trained networks: reads their files, checks them, and evaluates them without a framework and
//! without allocating memory.
//!
//! A network is two files: the weights, in the safetensors format, and a card beside them
//! (card.rs), in JSON, that describes the layers and states for which inputs the network was
//! trained. Python's `remuda.training.export` writes both. `remuda weights FILE` checks them, and
//! evaluates them on lines of numbers.
//!
//! ```text
//! NAME.safetensors ─┐
//!                   ├─▶ Network::parse ─▶ Loaded ─▶ an arm ─▶ evaluate(input, state, output)
//! NAME.json ────────┘
//! ```
//!
//! An arm keeps one [`State`] for each flow. It must look at the [`Validity`] of each evaluation:
//! outside the range of the training, the outputs mean nothing, and the arm does what it states as
//! its fallback.

mod affine;
pub mod card;
pub mod error;
mod layer;
mod tensors;

use crate::loaded::{Loadable, digest_of};
use card::Card;
use error::{NetworkError, WEIGHT_MAX, WEIGHTS_BYTES_MAX};
use layer::Layer;
use std::collections::BTreeMap;
use tensors::Tensor;

/// A network with its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    card: Card,
    layers: Vec<Layer>,
    inputs: Vec<Scaled>,
    tape_len: usize,
    /// The SHA-256 of the weights and the card together.
    digest: String,
    /// The same, short: a state knows by it whether it belongs to this network.
    id: u64,
}

/// The range of one input value, and how the network scales it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scaled {
    low: f32,
    high: f32,
    offset: f32,
    scale: f32,
}

/// What a network keeps for one flow: the hidden state of recurrent layers, and room to work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    of: u64,
    tape: Vec<f32>,
    hidden: Vec<f32>,
    scratch: Vec<f32>,
}

/// Whether an evaluation means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// All inputs were within the range of the training.
    Inside,
    /// The input at this index was not, or was no number. [`Network::input_name`] names it.
    Outside(usize),
    /// An output is infinite or no number.
    NotFinite,
}

impl Network {
    /// Differs between networks of other weights or another card.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Loadable for Network {
    fn digest(&self) -> &str {
        &self.digest
    }
}

impl State {
    /// The state of a flow that starts.
    pub fn new(network: &Network) -> Self {
        let mut state = Self::default();
        state.fit(network);
        state
    }

    /// As if the flow started now: recurrent layers forget.
    pub fn reset(&mut self) {
        self.hidden.fill(0.0);
    }

    /// Another network has been loaded while the flow runs: the state of the former one goes.
    fn fit(&mut self, network: &Network) {
        let sum = |of: fn(&Layer) -> usize| network.layers.iter().map(of).sum::<usize>();
        let scratch = network.layers.iter().map(Layer::scratch_len).max().unwrap_or_default();
        self.of = network.id;
        for (values, len) in [
            (&mut self.tape, network.tape_len),
            (&mut self.hidden, sum(Layer::hidden_len)),
            (&mut self.scratch, scratch),
        ] {
            values.clear();
            values.resize(len, 0.0);
        }
    }
}

impl Network {
    /// Reads the content of the two files. An error names the place and the rule.
    pub fn parse(weights: &[u8], card: &str) -> Result<Self, NetworkError> {
        if weights.len() > WEIGHTS_BYTES_MAX {
            return Err(NetworkError::WeightsTooLong(weights.len()));
        }
        let digest = digest_of([weights, card.as_bytes()].concat());
        let card = Card::parse(card)?;
        let tensors = tensors::read(weights)?;
        let file = digest_of(weights);
        if card.weights != file {
            return Err(NetworkError::Digest { card: card.weights, file });
        }
        let mut tape_len = card.inputs_len();
        let mut layers = Vec::with_capacity(card.layers.len());
        let mut used = Vec::new();
        for (index, spec) in card.layers.iter().enumerate() {
            let outputs_len = spec.outputs_len(index, tape_len)?;
            let named = spec.tensors();
            let read = named.iter().map(|(name, shape)| numbers(&tensors, name, shape));
            layers.push(Layer::new(spec, outputs_len, read.collect::<Result<_, _>>()?));
            used.extend(named.into_iter().map(|(name, _)| name));
            tape_len += outputs_len;
        }
        if let Some(name) = tensors.keys().find(|name| !used.contains(name)) {
            return Err(NetworkError::Foreign(name.clone()));
        }
        let of = |input: &card::Input| {
            let card::Input { low, high, offset, scale, count, .. } = *input;
            std::iter::repeat_n(Scaled { low, high, offset, scale }, count)
        };
        let inputs = card.inputs.iter().flat_map(of).collect();
        let id = u64::from_str_radix(&digest[..16], 16).expect("a digest is hexadecimal");
        Ok(Self { card, layers, inputs, tape_len, digest, id })
    }

    pub fn card(&self) -> &Card {
        &self.card
    }

    pub fn inputs_len(&self) -> usize {
        self.inputs.len()
    }

    pub fn outputs_len(&self) -> usize {
        self.card.outputs.len()
    }

    /// The number of its weights.
    pub fn parameters(&self) -> usize {
        let sizes = self.card.layers.iter().flat_map(card::Layer::tensors);
        sizes.map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// The name of the input at an index of the input values.
    pub fn input_name(&self, index: usize) -> &str {
        let mut end = 0;
        let holds = |input: &&card::Input| {
            end += input.count;
            index < end
        };
        self.card.inputs.iter().find(holds).map_or("", |input| &input.name)
    }

    /// The range in training of the input at an index of the input values.
    pub fn input_range(&self, index: usize) -> (f32, f32) {
        self.inputs.get(index).map_or((0.0, 0.0), |input| (input.low, input.high))
    }

    /// Whether it is a network of that kind, with these inputs and outputs. An arm asks before it
    /// uses a network. The error names the first difference.
    pub fn expect(
        &self,
        kind: &str,
        inputs: &[(&str, usize)],
        outputs: &[&str],
    ) -> Result<(), NetworkError> {
        if self.card.kind != kind {
            return Err(NetworkError::field("kind".to_owned(), &self.card.kind, kind));
        }
        let have = self.card.inputs.iter().map(|input| (input.name.as_str(), input.count));
        let have: Vec<_> = have.collect();
        if have != inputs {
            let (have, want) = (format!("{have:?}"), format!("{inputs:?}"));
            return Err(NetworkError::field("inputs".to_owned(), &have, &want));
        }
        if self.card.outputs != outputs {
            let (have, want) = (format!("{:?}", self.card.outputs), format!("{outputs:?}"));
            return Err(NetworkError::field("outputs".to_owned(), &have, &want));
        }
        Ok(())
    }

    /// Evaluates the network. `input` has [`Self::inputs_len`] values as they were measured: the
    /// network scales them. `output` has room for [`Self::outputs_len`] values. Nothing is
    /// allocated, except at the first evaluation of a state after another network was loaded.
    ///
    /// The outputs are written and the hidden state advances whatever the validity is.
    pub fn evaluate(&self, input: &[f32], state: &mut State, output: &mut [f32]) -> Validity {
        assert_eq!(input.len(), self.inputs.len(), "the arm asks for the network's inputs");
        if state.of != self.id {
            state.fit(self);
        }
        let mut outside = None;
        for (index, (value, of)) in input.iter().zip(&self.inputs).enumerate() {
            let within = (of.low..=of.high).contains(value);
            if !within && outside.is_none() {
                outside = Some(index);
            }
            // A value that is no number would stay in the hidden state for good.
            let value = if value.is_finite() { *value } else { of.low };
            state.tape[index] = (value - of.offset) * of.scale;
        }
        let mut end = self.inputs.len();
        let mut hidden = state.hidden.as_mut_slice();
        for layer in &self.layers {
            let (tape, room) = state.tape.split_at_mut(end);
            let (of_layer, rest) = hidden.split_at_mut(layer.hidden_len());
            let len = layer.outputs_len();
            layer.apply(tape, &mut room[..len], of_layer, &mut state.scratch);
            (hidden, end) = (rest, end + len);
        }
        output.copy_from_slice(&state.tape[end - self.outputs_len()..]);
        match outside {
            Some(index) => Validity::Outside(index),
            None if output.iter().all(|value| value.is_finite()) => Validity::Inside,
            None => Validity::NotFinite,
        }
    }
}

/// The numbers of one tensor.
fn numbers(
    tensors: &BTreeMap<String, Tensor<'_>>,
    name: &str,
    want: &[usize],
) -> Result<Vec<f32>, NetworkError> {
    let tensor = tensors.get(name).ok_or_else(|| NetworkError::Missing(name.to_owned()))?;
    let name = || name.to_owned();
    if tensor.dtype != "F32" {
        return Err(NetworkError::Type { name: name(), got: tensor.dtype.clone() });
    }
    if tensor.shape != want {
        let (got, want) = (tensor.shape.clone(), want.to_vec());
        return Err(NetworkError::Shape { name: name(), got, want });
    }
    let (fours, _) = tensor.data.as_chunks::<4>();
    let values: Vec<f32> = fours.iter().map(|four| f32::from_le_bytes(*four)).collect();
    let fine = |value: &f32| value.abs() <= WEIGHT_MAX;
    match values.iter().position(|value| !fine(value)) {
        Some(index) => Err(NetworkError::Weight { name: name(), index, value: values[index] }),
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests;
