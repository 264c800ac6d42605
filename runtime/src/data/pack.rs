//! Packing texts into sequences.

/// Cuts a stream of tokens into pieces of `seq_len + 1`.
///
/// A piece gives `seq_len` inputs and, moved by one, as many labels; its tokens are all consumed, so the first token of a piece
/// is never a label. What is left of a text begins the next piece; texts are not kept apart. Source: torchtitan v0.2.1,
/// `hf_datasets/text_datasets.py`.
#[derive(Debug, Default)]
pub struct Packer {
    tokens: Vec<i32>,
    /// Tokens at the front that are already consumed.
    num_taken: usize,
}

impl Packer {
    /// Continues with tokens left over earlier.
    pub fn with_rest(tokens: Vec<i32>) -> Self {
        Self { tokens, num_taken: 0 }
    }

    /// The place where the tokens of the next text go: the end of this list.
    pub fn tail(&mut self) -> &mut Vec<i32> {
        self.tokens.drain(..self.num_taken);
        self.num_taken = 0;
        &mut self.tokens
    }

    /// Takes one piece, if there are enough tokens.
    ///
    /// Shapes: `inputs` and `labels` `[seq_len]`.
    pub fn take(&mut self, inputs: &mut [i32], labels: &mut [i32]) -> bool {
        let seq_len = inputs.len();
        let Some(piece) = self.rest().get(..seq_len + 1) else { return false };
        inputs.copy_from_slice(&piece[..seq_len]);
        labels.copy_from_slice(&piece[1..]);
        self.num_taken += seq_len + 1;
        true
    }

    /// The tokens not yet consumed.
    pub fn rest(&self) -> &[i32] {
        &self.tokens[self.num_taken..]
    }
}
