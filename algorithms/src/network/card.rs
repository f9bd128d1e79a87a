//! The card of a network: a JSON file beside the weights, written by the trainer, that states what
//! the network is, where its weights come from and for which inputs it was trained.

use super::error::{CARD_BYTES_MAX, LAYERS_MAX, NetworkError, TAPE_MAX};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the card's format.
pub const FORMAT: u32 = 1;

/// What the trainer states of a network.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// [`FORMAT`].
    pub format: u32,
    pub name: String,
    /// What the network is for. An arm takes networks of its own kind only.
    pub kind: String,
    /// SHA-256 of the file of weights.
    pub weights: String,
    pub inputs: Vec<Input>,
    /// In the order of evaluation. The last one's outputs are the network's.
    pub layers: Vec<Layer>,
    /// The names of the network's outputs.
    pub outputs: Vec<String>,
    /// What the network was trained on, in words.
    pub data: String,
    /// The families of environments that it was trained on.
    pub families: Vec<String>,
    /// The commit of the sources that trained it.
    pub commit: String,
    pub seed: u64,
    /// Every setting of the trainer.
    pub hyperparameters: Map<String, Value>,
    /// What it scored, by family.
    pub scores: Map<String, Value>,
    /// What it is not good for, in words.
    pub limits: Vec<String>,
}

/// One input, or a history of one input.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: String,
    /// How many values in a row: the length of a history, the oldest first.
    #[serde(default = "one")]
    pub count: usize,
    /// The range of the values in training.
    pub low: f32,
    pub high: f32,
    /// The first layer gets `(value - offset) * scale`.
    #[serde(default)]
    pub offset: f32,
    #[serde(default = "unit")]
    pub scale: f32,
}

fn one() -> usize {
    1
}

fn unit() -> f32 {
    1.0
}

/// One layer. It reads a part of the tape, which is the inputs followed by the outputs of all
/// earlier layers, and appends its outputs to the tape. So layers can run beside each other, and a
/// later one can read all of them.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Its tensors are called `name.weight` and `name.bias`; those of a GRU and of an LSTM
    /// `name.input_weight`, `name.input_bias`, `name.hidden_weight` and `name.hidden_bias`.
    pub name: String,
    pub shape: Shape,
    /// The part of the tape, as `[first, one after the last]`.
    pub reads: [usize; 2],
    #[serde(default)]
    pub activation: Activation,
}

/// What a layer computes. In all tensors, the last axis is that of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// `x · weight + bias`; the weight has the shape `[inputs, outputs]`.
    Dense { outputs: usize },
    /// A convolution over time. Reads `[steps, channels]`, the oldest step first, and writes
    /// `[steps, outputs]`; the weight has the shape `[kernel, channels, outputs]`.
    Conv1d { channels: usize, outputs: usize, kernel: usize, padding: Padding },
    /// A gated recurrent unit as in `PyTorch`; gates in the order reset, update, new. Weights have
    /// the shapes `[inputs, 3 * outputs]` and `[outputs, 3 * outputs]`.
    Gru { outputs: usize },
    /// Long short-term memory as in `PyTorch`; gates in the order input, forget, cell, output.
    /// Weights have the shapes `[inputs, 4 * outputs]` and `[outputs, 4 * outputs]`.
    Lstm { outputs: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    /// None: the output has `kernel - 1` steps fewer.
    Valid,
    /// Zeros before the first step: an output depends on its own and earlier steps only.
    Causal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    #[default]
    None,
    Tanh,
    Relu,
    Sigmoid,
    /// Over all outputs of the layer.
    Softmax,
}

impl Card {
    /// Reads a card and checks all that can be checked without the weights.
    pub fn parse(text: &str) -> Result<Self, NetworkError> {
        if text.len() > CARD_BYTES_MAX {
            return Err(NetworkError::CardTooLong(text.len()));
        }
        let card: Self =
            serde_json::from_str(text).map_err(|error| NetworkError::Card(error.to_string()))?;
        card.check()?;
        Ok(card)
    }

    /// The number of input values.
    pub fn inputs_len(&self) -> usize {
        self.inputs.iter().map(|input| input.count).sum()
    }

    fn check(&self) -> Result<(), NetworkError> {
        let refuse = NetworkError::field;
        if self.format != FORMAT {
            return Err(refuse("format".to_owned(), &self.format, &FORMAT.to_string()));
        }
        if self.inputs.is_empty() {
            return Err(refuse("inputs".to_owned(), &"empty", "at least one input"));
        }
        if self.layers.is_empty() || self.layers.len() > LAYERS_MAX {
            let rule = format!("1 to {LAYERS_MAX} layers");
            return Err(refuse("layers".to_owned(), &self.layers.len(), &rule));
        }
        for (index, input) in self.inputs.iter().enumerate() {
            input.check(index)?;
        }
        let mut tape = self.inputs_len();
        for (index, layer) in self.layers.iter().enumerate() {
            let twin = self.layers[..index].iter().any(|other| other.name == layer.name);
            if layer.name.is_empty() || twin {
                let place = format!("layers[{index}].name");
                return Err(refuse(place, &layer.name, "a name of its own"));
            }
            tape += layer.outputs_len(index, tape)?;
            if tape > TAPE_MAX {
                let rule = format!("at most {TAPE_MAX} with all inputs and earlier outputs");
                return Err(refuse(format!("layers[{index}]"), &tape, &rule));
            }
        }
        let last = self.layers.len() - 1;
        let first_output = tape - self.layers[last].outputs_len(last, tape)?;
        if tape - first_output != self.outputs.len() {
            let rule = format!("{} names, as the last layer has outputs", tape - first_output);
            return Err(refuse("outputs".to_owned(), &self.outputs.len(), &rule));
        }
        Ok(())
    }
}

impl Input {
    fn check(&self, index: usize) -> Result<(), NetworkError> {
        let place = |field: &str| format!("inputs[{index}].{field} ({})", self.name);
        if self.count == 0 || self.count > TAPE_MAX {
            let rule = format!("1 to {TAPE_MAX}");
            return Err(NetworkError::field(place("count"), &self.count, &rule));
        }
        let numbers = [("low", self.low), ("high", self.high), ("offset", self.offset)];
        for (field, value) in numbers {
            if !value.is_finite() {
                return Err(NetworkError::field(place(field), &value, "a finite number"));
            }
        }
        if self.low > self.high {
            return Err(NetworkError::field(place("low"), &self.low, "at most high"));
        }
        if !(self.scale.is_finite() && self.scale != 0.0) {
            return Err(NetworkError::field(place("scale"), &self.scale, "finite and not 0"));
        }
        Ok(())
    }
}

impl Layer {
    /// How many values it reads.
    pub(super) fn inputs_len(&self) -> usize {
        self.reads[1].saturating_sub(self.reads[0])
    }

    /// How many values it writes. `tape` is how many there are to read.
    pub(super) fn outputs_len(&self, index: usize, tape: usize) -> Result<usize, NetworkError> {
        let place = |field: &str| format!("layers[{index}].{field} ({})", self.name);
        let [begin, end] = self.reads;
        if begin >= end || end > tape {
            let rule = format!("[first, one after the last] within the {tape} values before it");
            return Err(NetworkError::field(place("reads"), &format!("[{begin}, {end}]"), &rule));
        }
        let within = |field: &str, value: usize| {
            let ok = (1..=TAPE_MAX).contains(&value);
            let rule = format!("1 to {TAPE_MAX}");
            if ok { Ok(()) } else { Err(NetworkError::field(place(field), &value, &rule)) }
        };
        match self.shape {
            Shape::Dense { outputs } | Shape::Gru { outputs } | Shape::Lstm { outputs } => {
                within("outputs", outputs)?;
                Ok(outputs)
            }
            Shape::Conv1d { channels, outputs, kernel, padding } => {
                within("channels", channels)?;
                within("outputs", outputs)?;
                within("kernel", kernel)?;
                let steps = self.inputs_len() / channels;
                if steps * channels != self.inputs_len() || steps < kernel {
                    let rule = format!("a multiple of {channels} channels, {kernel} steps or more");
                    return Err(NetworkError::field(place("reads"), &self.inputs_len(), &rule));
                }
                Ok(padding.steps(steps, kernel) * outputs)
            }
        }
    }

    /// Its tensors: the name and the shape of each, in the order in which layers keep them.
    pub(super) fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let named = |part: &str, shape: &[usize]| (format!("{}.{part}", self.name), shape.to_vec());
        let inputs = self.inputs_len();
        match self.shape {
            Shape::Dense { outputs } => {
                vec![named("weight", &[inputs, outputs]), named("bias", &[outputs])]
            }
            Shape::Conv1d { channels, outputs, kernel, .. } => {
                vec![named("weight", &[kernel, channels, outputs]), named("bias", &[outputs])]
            }
            Shape::Gru { outputs } => recurrent(named, inputs, outputs, 3 * outputs),
            Shape::Lstm { outputs } => recurrent(named, inputs, outputs, 4 * outputs),
        }
    }
}

/// The tensors of a recurrent layer whose gates have `gates` values together.
fn recurrent(
    named: impl Fn(&str, &[usize]) -> (String, Vec<usize>),
    inputs: usize,
    outputs: usize,
    gates: usize,
) -> Vec<(String, Vec<usize>)> {
    vec![
        named("input_weight", &[inputs, gates]),
        named("input_bias", &[gates]),
        named("hidden_weight", &[outputs, gates]),
        named("hidden_bias", &[gates]),
    ]
}

impl Padding {
    /// The steps that remain of so many; there are at least as many as the kernel has.
    fn steps(self, steps: usize, kernel: usize) -> usize {
        match self {
            Self::Valid => steps - kernel + 1,
            Self::Causal => steps,
        }
    }
}
