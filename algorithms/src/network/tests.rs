use super::*;
use proptest::prelude::*;
use serde_json::json;

/// A file of weights.
fn weights_of(tensors: &[(&str, Vec<usize>, Vec<f32>)]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let begin = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    framed(&serde_json::Value::from(header).to_string(), &data)
}

fn framed(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// The two files of a network: its tensors, and a card with these inputs and layers.
fn files(
    tensors: &[(&str, Vec<usize>, Vec<f32>)],
    inputs: &serde_json::Value,
    layers: &serde_json::Value,
    outputs: usize,
) -> (Vec<u8>, String) {
    let weights = weights_of(tensors);
    let names: Vec<String> = (0..outputs).map(|at| format!("out{at}")).collect();
    let card = json!({
        "format": 1, "name": "test", "kind": "test", "weights": digest_of(&weights),
        "inputs": inputs, "layers": layers, "outputs": names, "data": "none", "families": [],
        "commit": "none", "seed": 1, "hyperparameters": {}, "scores": {}, "limits": [],
    });
    (weights, card.to_string())
}

/// y = tanh(x0 + 2 x1 + 0.5), with x1 scaled.
fn dense() -> (Vec<u8>, String) {
    files(
        &[("a.weight", vec![2, 1], vec![1.0, 2.0]), ("a.bias", vec![1], vec![0.5])],
        &json!([
            {"name": "x", "low": -1.0, "high": 1.0},
            {"name": "y", "low": 0.0, "high": 10.0, "offset": 5.0, "scale": 0.1},
        ]),
        &json!([{"name": "a", "reads": [0, 2], "activation": "tanh",
                 "shape": {"type": "dense", "outputs": 1}}]),
        1,
    )
}

fn parse((weights, card): &(Vec<u8>, String)) -> Network {
    Network::parse(weights, card).expect("a network")
}

fn run(network: &Network, state: &mut State, input: &[f32]) -> (Vec<f32>, Validity) {
    let mut output = vec![0.0; network.outputs_len()];
    let validity = network.evaluate(input, state, &mut output);
    (output, validity)
}

fn close(got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    let far = got.iter().zip(want).find(|(got, want)| (*got - *want).abs() > 1e-6);
    assert!(far.is_none(), "{got:?} {want:?}");
}

#[test]
fn a_dense_layer_scales_its_inputs_and_adds() {
    let network = parse(&dense());
    let mut state = State::new(&network);
    let (got, validity) = run(&network, &mut state, &[0.25, 7.0]);
    close(&got, &[(0.25f32 + 2.0 * 0.2 + 0.5).tanh()]);
    assert_eq!((validity, network.parameters()), (Validity::Inside, 3));
    network.expect("test", &[("x", 1), ("y", 1)], &["out0"]).expect("it is");
    network.expect("other", &[("x", 1), ("y", 1)], &["out0"]).expect_err("another kind");
    network.expect("test", &[("y", 1), ("x", 1)], &["out0"]).expect_err("another order");
    network.expect("test", &[("x", 1), ("y", 1)], &["a"]).expect_err("another output");
}

#[test]
fn an_input_outside_the_training_is_named() {
    let network = parse(&dense());
    let mut state = State::new(&network);
    for (input, name) in [([1.1, 5.0], "x"), ([0.0, -0.1], "y"), ([0.0, f32::NAN], "y")] {
        let (_, validity) = run(&network, &mut state, &input);
        let Validity::Outside(index) = validity else { panic!("{input:?}: {validity:?}") };
        assert_eq!(network.input_name(index), name);
    }
}

/// Counts up, so that no two weights are the same.
fn ramp(len: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 7 + 3) % 11) as f32 / 11.0 - 0.4).collect()
}

#[test]
fn a_convolution_sees_its_kernel_valid_or_causal() {
    let (channels, kernel, width) = (2, 3, 2);
    let (weight, bias) = (ramp(kernel * channels * width), vec![0.1, -0.2]);
    let input = ramp(5 * channels);
    let naive = |first: usize, before: usize, steps: usize| -> Vec<f32> {
        let mut out = Vec::new();
        for step in first..first + steps {
            for (o, bias) in bias.iter().enumerate() {
                let mut sum = *bias;
                for k in 0..kernel {
                    let Some(at) = (step + k).checked_sub(before) else { continue };
                    for c in 0..channels {
                        let weight = weight[(k * channels + c) * width + o];
                        sum += input[at * channels + c] * weight;
                    }
                }
                out.push(sum);
            }
        }
        out
    };
    for (padding, steps, before) in [("valid", 3, 0), ("causal", 5, 2)] {
        let network = parse(&files(
            &[
                ("c.weight", vec![kernel, channels, width], weight.clone()),
                ("c.bias", vec![width], bias.clone()),
            ],
            &json!([{"name": "x", "count": 10, "low": -1.0, "high": 1.0}]),
            &json!([{"name": "c", "reads": [0, 10], "shape": {"type": "conv1d",
                "channels": 2, "outputs": 2, "kernel": 3, "padding": padding}}]),
            steps * width,
        ));
        let (got, _) = run(&network, &mut State::new(&network), &input);
        close(&got, &naive(0, before, steps));
    }
}

/// A recurrent layer of two outputs over five inputs.
fn recurrent(kind: &str, gates: usize) -> Network {
    let (inputs, width) = (5, 2);
    parse(&files(
        &[
            ("g.input_weight", vec![inputs, gates * width], ramp(inputs * gates * width)),
            ("g.input_bias", vec![gates * width], ramp(gates * width)),
            ("g.hidden_weight", vec![width, gates * width], ramp(width * gates * width)),
            ("g.hidden_bias", vec![gates * width], vec![0.3; gates * width]),
        ],
        &json!([{"name": "x", "count": 5, "low": -1.0, "high": 1.0}]),
        &json!([{"name": "g", "reads": [0, 5], "shape": {"type": kind, "outputs": 2}}]),
        2,
    ))
}

fn gru() -> Network {
    recurrent("gru", 3)
}

#[test]
fn a_gru_remembers_until_it_is_reset() {
    let network = gru();
    let (inputs, width) = (5, 2);
    let (weight, bias) = (ramp(inputs * 3 * width), ramp(3 * width));
    let recurrent = ramp(width * 3 * width);
    let input = ramp(inputs);
    let step = |hidden: &[f32]| -> Vec<f32> {
        let sum = |values: &[f32], weight: &[f32], bias: &[f32], at: usize| -> f32 {
            let products = values.iter().enumerate();
            bias[at] + products.map(|(i, v)| v * weight[i * 3 * width + at]).sum::<f32>()
        };
        let logistic = |x: f32| 1.0 / (1.0 + (-x).exp());
        let x = |at| sum(&input, &weight, &bias, at);
        let h = |at| sum(hidden, &recurrent, &[0.3; 6], at);
        (0..width)
            .map(|at| {
                let reset = logistic(x(at) + h(at));
                let update = logistic(x(width + at) + h(width + at));
                let new = (x(2 * width + at) + reset * h(2 * width + at)).tanh();
                (1.0 - update) * new + update * hidden[at]
            })
            .collect()
    };
    let mut state = State::new(&network);
    let first = run(&network, &mut state, &input).0;
    close(&first, &step(&[0.0; 2]));
    close(&run(&network, &mut state, &input).0, &step(&first));
    state.reset();
    assert_eq!(run(&network, &mut state, &input).0, first);
}

#[test]
fn an_lstm_keeps_a_cell_beside_its_output() {
    let network = recurrent("lstm", 4);
    let (inputs, width) = (5, 2);
    let (weight, bias) = (ramp(inputs * 4 * width), ramp(4 * width));
    let of_hidden = ramp(width * 4 * width);
    let input = ramp(inputs);
    let step = |hidden: &[f32], cells: &[f32]| -> (Vec<f32>, Vec<f32>) {
        let sum = |values: &[f32], weight: &[f32], at: usize| -> f32 {
            let products = values.iter().enumerate();
            products.map(|(i, v)| v * weight[i * 4 * width + at]).sum::<f32>()
        };
        let logistic = |x: f32| 1.0 / (1.0 + (-x).exp());
        let gate = |nth: usize, at: usize| {
            let at = nth * width + at;
            bias[at] + 0.3 + sum(&input, &weight, at) + sum(hidden, &of_hidden, at)
        };
        let cell = |at: usize| {
            logistic(gate(1, at)) * cells[at] + logistic(gate(0, at)) * gate(2, at).tanh()
        };
        let cells: Vec<f32> = (0..width).map(cell).collect();
        let shown = cells.iter().enumerate();
        (shown.map(|(at, cell)| logistic(gate(3, at)) * cell.tanh()).collect(), cells)
    };
    let mut state = State::new(&network);
    let (first, cells) = step(&[0.0; 2], &[0.0; 2]);
    close(&run(&network, &mut state, &input).0, &first);
    let (second, _) = step(&first, &cells);
    close(&run(&network, &mut state, &input).0, &second);
    state.reset();
    close(&run(&network, &mut state, &input).0, &first);
}

#[test]
fn a_state_of_another_network_starts_again() {
    let network = gru();
    let mut state = State::new(&parse(&dense()));
    let input = ramp(5);
    let fresh = run(&network, &mut State::new(&network), &input);
    assert_eq!(run(&network, &mut state, &input), fresh);
    assert_eq!(run(&network, &mut State::default(), &input), fresh);
}

#[test]
fn layers_read_any_part_of_what_is_there() {
    let network = parse(&files(
        &[
            ("a.weight", vec![1, 2], vec![1.0, -1.0]),
            ("a.bias", vec![2], vec![0.0, 0.0]),
            ("b.weight", vec![1, 1], vec![3.0]),
            ("b.bias", vec![1], vec![0.0]),
            ("c.weight", vec![3, 2], vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0]),
            ("c.bias", vec![2], vec![0.0, 0.0]),
        ],
        &json!([{"name": "x", "count": 2, "low": -9.0, "high": 9.0}]),
        &json!([
            {"name": "a", "reads": [0, 1], "activation": "relu",
             "shape": {"type": "dense", "outputs": 2}},
            {"name": "b", "reads": [1, 2], "shape": {"type": "dense", "outputs": 1}},
            {"name": "c", "reads": [2, 5], "activation": "softmax",
             "shape": {"type": "dense", "outputs": 2}},
        ]),
        2,
    ));
    // a = [2, 0], b = 1.5, c = softmax([3.5, 0])
    let (got, _) = run(&network, &mut State::new(&network), &[2.0, 0.5]);
    let large = 3.5f32.exp() / (1.0 + 3.5f32.exp());
    close(&got, &[large, 1.0 - large]);
}

fn refused(weights: &[u8], card: &str, want: &str) {
    let error = Network::parse(weights, card).expect_err(want).to_string();
    assert!(error.contains(want), "{error}");
}

#[test]
fn other_files_are_refused_by_place_and_rule() {
    let (weights, card) = dense();
    refused(&weights[..weights.len() - 1], &card, "not a whole safetensors file");
    refused(&[0; 40], &card, "not a whole safetensors file");
    refused(b"{}", &card, "not a whole safetensors file");
    refused(&vec![0; WEIGHTS_BYTES_MAX + 1], &card, "at most 16777216");
    refused(&weights, &" ".repeat(error::CARD_BYTES_MAX + 1), "at most 1048576");
    refused(&weights, "[1]", "the card is not one of this format");
    let mut other = weights.clone();
    *other.last_mut().expect("it has bytes") ^= 1;
    refused(&other, &card, "must be of one export");
    let replaced = |from: &str, to: &str| {
        assert!(card.contains(from), "{card}");
        card.replace(from, to)
    };
    for (from, to, want) in [
        ("\"format\":1", "\"format\":2", "format is 2: it must be 1"),
        ("\"seed\":1", "\"sead\":1", "unknown field `sead`"),
        ("\"a\"", "\"b\"", "tensor \"b.weight\" is missing"),
        ("\"reads\":[0,2]", "\"reads\":[0,1]", "the shape [2, 1]: the card's layers need [1, 1]"),
        ("\"reads\":[0,2]", "\"reads\":[0,3]", "layers[0].reads (a) is [0, 3]"),
        ("\"reads\":[0,2]", "\"reads\":[2,1]", "layers[0].reads (a) is [2, 1]"),
        ("\"outputs\":1", "\"outputs\":0", "layers[0].outputs (a) is 0"),
        ("[\"out0\"]", "[]", "outputs is 0: it must be 1 names"),
        ("\"scale\":0.1", "\"scale\":0.0", "inputs[1].scale (y) is 0"),
        ("\"high\":10.0", "\"high\":-1.0", "inputs[1].low (y) is 0: it must be at most high"),
        ("\"tanh\"", "\"tan\"", "unknown variant `tan`"),
    ] {
        refused(&weights, &replaced(from, to), want);
    }
}

#[test]
fn weights_with_gaps_or_of_another_type_are_refused() {
    let (_, card) = dense();
    let two = |a: &str, b: &str, data: usize| {
        let entry = |place: &str, shape: &str, dtype: &str| {
            format!("{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{place}}}")
        };
        let (dtype, b) = b.split_once(' ').unwrap_or(("F32", b));
        let (a, b) = (entry(a, "[2,1]", "F32"), entry(b, "[1]", dtype));
        framed(&format!("{{\"a.weight\":{a},\"a.bias\":{b}}}"), &vec![0; data])
    };
    for (weights, want) in [
        (two("[0,8]", "[8,12]", 13), "it has 1 bytes after its last tensor"),
        (two("[0,8]", "[9,13]", 13), "bytes 8 to 9 belong to no or two tensors"),
        (two("[0,8]", "[4,8]", 12), "bytes 8 to 4 belong to no or two tensors"),
        (two("[0,8]", "[8,16]", 12), "lies at bytes 8 to 16 of 12"),
        (two("[0,8]", "[8,10]", 10), "has 2 bytes, and another shape"),
        (framed("{\"a\":1}", &[]), "its header, tensor \"a\""),
        (framed("[", &[]), "its header: "),
        (u64::MAX.to_le_bytes().to_vec(), "beyond its end"),
    ] {
        refused(&weights, &card, want);
    }
    let half = two("[0,8]", "F16 [8,10]", 10);
    let old = serde_json::from_str::<Card>(&card).expect("a card").weights;
    let card = card.replace(&old, &digest_of(&half));
    refused(&half, &card, "is of type F16: weights must be F32");
}

#[test]
fn tensors_that_do_not_fit_the_card_are_refused() {
    let inputs = json!([{"name": "x", "low": 0.0, "high": 1.0}]);
    let layers = json!([{"name": "a", "reads": [0, 1], "shape": {"type": "dense", "outputs": 2}}]);
    let with = |value: f32, extra: bool| {
        let mut tensors =
            vec![("a.weight", vec![1, 2], vec![1.0, value]), ("a.bias", vec![2], vec![0.0, 0.0])];
        if extra {
            tensors.push(("b.bias", vec![1], vec![0.0]));
        }
        files(&tensors, &inputs, &layers, 2)
    };
    parse(&with(1.0, false));
    for value in [f32::NAN, f32::INFINITY, -2e6] {
        let (weights, card) = with(value, false);
        refused(&weights, &card, "tensor \"a.weight\", number 1, is");
    }
    let (weights, card) = with(1.0, true);
    refused(&weights, &card, "tensor \"b.bias\" belongs to no layer");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in any::<usize>()) {
        let (mut weights, mut card) = dense();
        let _ = Network::parse(&bytes, &String::from_utf8_lossy(&bytes));
        let _ = Network::parse(&bytes, &card);
        let place = at % weights.len();
        weights[place] ^= bytes.first().copied().unwrap_or(1);
        let old = serde_json::from_str::<Card>(&card).expect("a card").weights;
        card = card.replace(&old, &digest_of(&weights));
        if let Ok(network) = Network::parse(&weights, &card) {
            let _ = run(&network, &mut State::new(&network), &[0.0, 0.0]);
        }
    }
}
