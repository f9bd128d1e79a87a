//! `inputs · weights + bias`, in registers of 32 bytes where the processor has them.
//!
//! Each output has a sum of its own, and wider registers hold more sums side by side. Registers
//! change neither the order of a sum nor its rounding, as no product is fused with a sum. So every
//! processor gives the same bits.

/// Writes `outputs`. The weights of one input lie side by side, a weight for each output. Weights
/// of inputs beyond the last one are not read.
pub(super) fn affine(inputs: &[f32], weights: &[f32], bias: &[f32], outputs: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { with_avx2(inputs, weights, bias, outputs) };
    }
    sums(inputs, weights, bias, outputs);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(inputs: &[f32], weights: &[f32], bias: &[f32], outputs: &mut [f32]) {
    sums(inputs, weights, bias, outputs);
}

/// Inlined, so that it is compiled for the registers of its caller.
#[inline(always)]
fn sums(inputs: &[f32], weights: &[f32], bias: &[f32], outputs: &mut [f32]) {
    outputs.copy_from_slice(bias);
    let width = outputs.len();
    // Four rows at a time, so that a sum is read and written once for four products.
    let mut fours = inputs.chunks_exact(4);
    let mut rows = weights.chunks_exact(4 * width);
    for (four, block) in (&mut fours).zip(&mut rows) {
        let (a, rest) = block.split_at(width);
        let (b, rest) = rest.split_at(width);
        let (c, d) = rest.split_at(width);
        let terms = a.iter().zip(b).zip(c.iter().zip(d));
        for (out, ((a, b), (c, d))) in outputs.iter_mut().zip(terms) {
            *out += (four[0] * a + four[1] * b) + (four[2] * c + four[3] * d);
        }
    }
    let done = inputs.len() - fours.remainder().len();
    let rows = weights[done * width..].chunks_exact(width);
    for (input, row) in fours.remainder().iter().zip(rows) {
        for (out, weight) in outputs.iter_mut().zip(row) {
            *out += input * weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_registers_give_the_same_bits() {
        let number = |at: usize| ((at * 7_919 + 13) % 10_007) as f32 / 3_001.0 - 1.6;
        for (inputs_len, width) in [(1, 1), (3, 10), (18, 128), (128, 512), (131, 37)] {
            let inputs: Vec<f32> = (0..inputs_len).map(number).collect();
            let weights: Vec<f32> = (5..5 + inputs_len * width).map(number).collect();
            let bias: Vec<f32> = (9..9 + width).map(number).collect();
            let [mut wide, mut narrow] = [(); 2].map(|()| vec![0.0; width]);
            affine(&inputs, &weights, &bias, &mut wide);
            sums(&inputs, &weights, &bias, &mut narrow);
            let bits = |of: &[f32]| of.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&wide), bits(&narrow), "{inputs_len} inputs, {width} outputs");
        }
    }
}
