//! The arithmetic of a layer. Weights lie as [`affine`] reads them: the outputs are the last axis,
//! so that its inner loop adds to independent sums and the compiler vectorises that loop without
//! changing the order of any sum.

use super::affine::affine;
use super::card::{Activation, Layer as Spec, Padding, Shape};
use std::ops::Range;

/// A layer with its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    shape: Shape,
    activation: Activation,
    reads: Range<usize>,
    outputs_len: usize,
    /// The tensors of [`Spec::tensors`], in that order.
    tensors: Vec<Vec<f32>>,
}

impl Layer {
    pub fn new(spec: &Spec, outputs_len: usize, tensors: Vec<Vec<f32>>) -> Self {
        let [begin, end] = spec.reads;
        let (shape, activation) = (spec.shape, spec.activation);
        Self { shape, activation, reads: begin..end, outputs_len, tensors }
    }

    pub fn outputs_len(&self) -> usize {
        self.outputs_len
    }

    /// How many values it keeps from one evaluation to the next.
    pub fn hidden_len(&self) -> usize {
        match self.shape {
            Shape::Gru { outputs } => outputs,
            // The output, then the cell.
            Shape::Lstm { outputs } => 2 * outputs,
            Shape::Dense { .. } | Shape::Conv1d { .. } => 0,
        }
    }

    /// How many values it needs room for while it works.
    pub fn scratch_len(&self) -> usize {
        match self.shape {
            Shape::Gru { outputs } => 6 * outputs,
            Shape::Lstm { outputs } => 8 * outputs,
            Shape::Dense { .. } | Shape::Conv1d { .. } => 0,
        }
    }

    /// Reads from what is on the tape so far and writes `outputs`, which have room for
    /// [`Self::outputs_len`] values.
    pub fn apply(
        &self,
        tape: &[f32],
        outputs: &mut [f32],
        hidden: &mut [f32],
        scratch: &mut [f32],
    ) {
        let inputs = &tape[self.reads.clone()];
        match self.shape {
            Shape::Dense { .. } => affine(inputs, &self.tensors[0], &self.tensors[1], outputs),
            Shape::Conv1d { channels, outputs: width, kernel, padding } => {
                let before = if padding == Padding::Causal { kernel - 1 } else { 0 };
                for (step, out) in outputs.chunks_exact_mut(width).enumerate() {
                    // The kernel's first taps lie before the first step in causal padding.
                    let missing = before.saturating_sub(step);
                    let begin = (step + missing - before) * channels;
                    let end = (step + kernel - before) * channels;
                    let weights = &self.tensors[0][missing * channels * width..];
                    affine(&inputs[begin..end], weights, &self.tensors[1], out);
                }
            }
            Shape::Gru { outputs: width } => {
                self.gru(inputs, hidden, scratch, width);
                outputs.copy_from_slice(hidden);
            }
            Shape::Lstm { outputs: width } => {
                self.lstm(inputs, hidden, scratch, width);
                outputs.copy_from_slice(&hidden[..width]);
            }
        }
        activate(self.activation, outputs);
    }

    fn gru(&self, inputs: &[f32], hidden: &mut [f32], scratch: &mut [f32], width: usize) {
        let (of_input, of_hidden) = scratch.split_at_mut(3 * width);
        let of_hidden = &mut of_hidden[..3 * width];
        affine(inputs, &self.tensors[0], &self.tensors[1], of_input);
        affine(hidden, &self.tensors[2], &self.tensors[3], of_hidden);
        for (at, hidden) in hidden.iter_mut().enumerate() {
            let reset = sigmoid(of_input[at] + of_hidden[at]);
            let update = sigmoid(of_input[width + at] + of_hidden[width + at]);
            let new = of_input[2 * width + at] + reset * of_hidden[2 * width + at];
            *hidden = (1.0 - update) * libm::tanhf(new) + update * *hidden;
        }
    }

    fn lstm(&self, inputs: &[f32], hidden: &mut [f32], scratch: &mut [f32], width: usize) {
        let (of_input, of_hidden) = scratch.split_at_mut(4 * width);
        let of_hidden = &mut of_hidden[..4 * width];
        let (outputs, cells) = hidden.split_at_mut(width);
        affine(inputs, &self.tensors[0], &self.tensors[1], of_input);
        affine(outputs, &self.tensors[2], &self.tensors[3], of_hidden);
        for (at, (output, cell)) in outputs.iter_mut().zip(cells).enumerate() {
            let gate = |nth: usize| of_input[nth * width + at] + of_hidden[nth * width + at];
            let (write, keep, show) = (sigmoid(gate(0)), sigmoid(gate(1)), sigmoid(gate(3)));
            *cell = keep * *cell + write * libm::tanhf(gate(2));
            *output = show * libm::tanhf(*cell);
        }
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

fn activate(activation: Activation, values: &mut [f32]) {
    let each = |values: &mut [f32], of: fn(f32) -> f32| {
        for value in values {
            *value = of(*value);
        }
    };
    match activation {
        Activation::None => {}
        Activation::Tanh => each(values, libm::tanhf),
        Activation::Relu => each(values, |value| value.max(0.0)),
        Activation::Sigmoid => each(values, sigmoid),
        Activation::Softmax => {
            let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0;
            for value in values.iter_mut() {
                *value = libm::expf(*value - most);
                sum += *value;
            }
            for value in values {
                *value /= sum;
            }
        }
    }
}
