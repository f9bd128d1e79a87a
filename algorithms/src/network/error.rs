//! Why the files of a network are refused.

use std::fmt::Display;
use thiserror::Error;

/// The most bytes that a file of weights may have.
pub const WEIGHTS_BYTES_MAX: usize = 16 << 20;
/// The most bytes that a card may have.
pub const CARD_BYTES_MAX: usize = 1 << 20;
/// The largest magnitude of a weight. Trained weights are far below; a larger one is a fault.
pub const WEIGHT_MAX: f32 = 1e6;
/// The most layers that a network may have.
pub const LAYERS_MAX: usize = 64;
/// The most numbers that a network may hold at once: its inputs and the outputs of all layers.
pub const TAPE_MAX: usize = 1 << 16;

/// Why a network was refused. Each error names the place in the file and the rule.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NetworkError {
    #[error("the weights have {0} bytes; at most {WEIGHTS_BYTES_MAX} are allowed")]
    WeightsTooLong(usize),
    #[error("the card has {0} bytes; at most {CARD_BYTES_MAX} are allowed")]
    CardTooLong(usize),
    #[error("the weights are not a whole safetensors file: {0}")]
    Format(String),
    #[error("the card is not one of this format: {0}")]
    Card(String),
    #[error("the card's {place} is {value}: it must be {rule}")]
    Field { place: String, value: String, rule: String },
    #[error(
        "the card's weights = {card}, but the SHA-256 of the weights is {file}: the two files must \
         be of one export"
    )]
    Digest { card: String, file: String },
    #[error("tensor {0:?} is missing: the card's layers need it")]
    Missing(String),
    #[error("tensor {0:?} belongs to no layer of the card")]
    Foreign(String),
    #[error("tensor {name:?} has the shape {got:?}: the card's layers need {want:?}")]
    Shape { name: String, got: Vec<usize>, want: Vec<usize> },
    #[error("tensor {name:?} is of type {got}: weights must be F32")]
    Type { name: String, got: String },
    #[error(
        "tensor {name:?}, number {index}, is {value}: a weight must be finite and within \
         ±{WEIGHT_MAX}"
    )]
    Weight { name: String, index: usize, value: f32 },
}

impl NetworkError {
    /// Whether the card is at fault; otherwise the weights are.
    pub fn is_of_card(&self) -> bool {
        matches!(
            self,
            Self::CardTooLong(_) | Self::Card(_) | Self::Field { .. } | Self::Digest { .. }
        )
    }

    pub(super) fn field(place: String, value: &dyn Display, rule: &str) -> Self {
        Self::Field { place, value: value.to_string(), rule: rule.to_owned() }
    }
}
