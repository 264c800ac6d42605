//! Reading weights by name, whole and by rows, and writing them.

use super::*;
use half::{bf16, f16};
use titan_run::weights::{Dtype, NamedTensor, Weights, write_safetensors};

const VALUES: [f32; 6] = [0.0, -1.5, 3.0, 0.25, -65536.0, 1e-3];

fn bytes_of(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    match dtype {
        Dtype::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Dtype::BF16 => values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect(),
        Dtype::F16 => values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
        _ => panic!("not a type of weights"),
    }
}

fn bytes_as_f32(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

fn save(path: &Path, tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) {
    let tensors: Vec<NamedTensor<'_>> = tensors
        .iter()
        .map(|(name, dtype, shape, data)| NamedTensor { name, dtype: *dtype, shape, data })
        .collect();
    write_safetensors(path, &tensors).unwrap();
}

#[test]
fn the_golden_weights_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/assets/golden/tiny.weights.safetensors");
    let weights = Weights::open(&path).unwrap();
    assert_eq!(weights.names().count(), 3 + 2 * 9);
    assert_eq!(weights.info("tok_embeddings.weight").unwrap().shape, [256, 64]);
    // The format's own library reads the same numbers.
    let bytes = std::fs::read(&path).unwrap();
    let expected = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let expected = bytes_as_f32(expected.tensor("norm.weight").unwrap().data());
    let mut norm = vec![0.0; 64];
    weights.read_f32("norm.weight", &mut norm).unwrap();
    assert_eq!(norm, expected);
    let mut whole = vec![0.0; 256 * 64];
    weights.read_f32("output.weight", &mut whole).unwrap();
    let mut rows = vec![0.0; 100 * 64];
    weights.read_rows_f32("output.weight", 37..137, &mut rows).unwrap();
    assert_eq!(rows, whole[37 * 64..137 * 64]);
}

#[test]
fn every_type_is_widened() {
    let dir = folder();
    let path = dir.path().join("w.safetensors");
    for dtype in [Dtype::F32, Dtype::BF16, Dtype::F16] {
        // The first tensor's odd size leaves the second one unaligned.
        save(
            &path,
            &[("a", dtype, &[1], bytes_of(dtype, &[2.0])), ("b", dtype, &[3, 2], bytes_of(dtype, &VALUES))],
        );
        let weights = Weights::open(&path).unwrap();
        let expected: Vec<f32> = match dtype {
            Dtype::BF16 => VALUES.iter().map(|&v| bf16::from_f32(v).to_f32()).collect(),
            Dtype::F16 => VALUES.iter().map(|&v| f16::from_f32(v).to_f32()).collect(),
            _ => VALUES.to_vec(),
        };
        let mut out = [0.0; 6];
        weights.read_f32("b", &mut out).unwrap();
        assert_eq!(out[..], expected, "{dtype:?}");
        let mut rows = [0.0; 4];
        weights.read_rows_f32("b", 1..3, &mut rows).unwrap();
        assert_eq!(rows[..], expected[2..], "{dtype:?}");
        weights.read_rows_f32("b", 2..2, &mut []).unwrap();

        assert_eq!(weights.read_rows_f32("b", 2..4, &mut rows).unwrap_err().code, "T0841");
        assert_eq!(weights.read_f32("b", &mut rows).unwrap_err().code, "T0841");
        assert_eq!(weights.read_f32("c", &mut rows).unwrap_err().code, "T0841");
    }
    save(&path, &[("a", Dtype::I32, &[1], vec![0; 4])]);
    assert_eq!(Weights::open(&path).unwrap().read_f32("a", &mut [0.0]).unwrap_err().code, "T0842");
}

#[test]
fn one_finding_lists_all_differences() {
    let dir = folder();
    let path = dir.path().join("w.safetensors");
    let one = |name| (name, Dtype::F32, &[2usize][..], bytes_of(Dtype::F32, &[1.0, 2.0]));
    save(&path, &[one("same"), one("extra"), one("bent")]);
    let weights = Weights::open(&path).unwrap();
    weights.check([("same", &[2usize][..]), ("extra", &[2]), ("bent", &[2])]).unwrap();
    let diag = weights.check([("same", &[2usize][..]), ("bent", &[2, 1]), ("lost", &[2])]).unwrap_err();
    assert_eq!(diag.code, "T0841");
    assert_eq!(
        diag.notes,
        [
            "1 missing: lost",
            "1 of another shape: bent is [2], the model needs [2, 1]",
            "1 not in the model: extra"
        ]
    );
}

#[test]
fn shards_are_found_by_their_index() {
    let dir = folder();
    let one = |name, value| (name, Dtype::F32, &[1usize][..], bytes_of(Dtype::F32, &[value]));
    save(&dir.path().join("model-1.safetensors"), &[one("a", 1.0), one("b", 2.0)]);
    save(&dir.path().join("model-2.safetensors"), &[one("c", 3.0)]);
    let index = dir.path().join("model.safetensors.index.json");
    let sum = |path: &Path| {
        let weights = Weights::open(path).unwrap();
        let mut out = [0.0];
        weights
            .names()
            .map(|name| {
                weights.read_f32(name, &mut out).unwrap();
                out[0]
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(sum(dir.path()), [1.0, 2.0, 3.0], "a folder without an index");
    let map = |c: &str| {
        format!(r#"{{"weight_map": {{"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "{c}"}}}}"#)
    };
    write(&index, map("model-2.safetensors").as_bytes());
    assert_eq!(sum(dir.path()), [1.0, 2.0, 3.0], "a folder with an index");
    assert_eq!(sum(&index), [1.0, 2.0, 3.0], "the index itself");
    for (wrong, part) in [
        ("model-1.safetensors", "which it is not"),
        ("model-3.safetensors", "model-3.safetensors"),
        ("../model-2.safetensors", "not the name of a file beside the index"),
    ] {
        write(&index, map(wrong).as_bytes());
        let diag = Weights::open(dir.path()).err().expect("refused");
        assert!(diag.code == "T0840" && diag.message.contains(part), "{diag}");
    }
    write(&index, b"{");
    assert_eq!(Weights::open(dir.path()).err().unwrap().code, "T0840");
    std::fs::remove_file(&index).unwrap();
    save(&dir.path().join("copy.safetensors"), &[one("a", 1.0)]);
    assert!(Weights::open(dir.path()).err().unwrap().message.contains("in two files"));
}

#[test]
fn damaged_files_are_refused() {
    let dir = folder();
    let path = dir.path().join("w.safetensors");
    save(&path, &[("b", Dtype::F32, &[3, 2], bytes_of(Dtype::F32, &VALUES))]);
    let whole = std::fs::read(&path).unwrap();
    let mut longer = whole.clone();
    longer.push(0);
    let mut huge_header = whole.clone();
    huge_header[7] = 0xff;
    let mut cuts: Vec<Vec<u8>> =
        [0, 7, 8, 40, whole.len() - 1].iter().map(|&n| whole[..n].to_vec()).collect();
    cuts.extend([longer, huge_header, b"no safetensors file at all".to_vec()]);
    for bytes in cuts {
        write(&path, &bytes);
        let diag = Weights::open(&path).err().expect("refused");
        assert!(diag.code == "T0840" && diag.message.contains("w.safetensors"), "{diag}");
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(Weights::open(dir.path()).err().unwrap().code, "T0840");
}

#[test]
fn written_files_are_whole_and_reproducible() {
    let dir = folder();
    let path = dir.path().join("w.safetensors");
    let tensors = [
        ("z", Dtype::BF16, &[3][..], bytes_of(Dtype::BF16, &VALUES[..3])),
        ("quote\"d", Dtype::F32, &[][..], bytes_of(Dtype::F32, &[7.0])),
        ("none", Dtype::F32, &[0, 4][..], Vec::new()),
    ];
    save(&path, &tensors);
    let first = std::fs::read(&path).unwrap();
    // The format's own library reads the same back.
    let parsed = safetensors::SafeTensors::deserialize(&first).unwrap();
    for (name, dtype, shape, data) in &tensors {
        let tensor = parsed.tensor(name).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape(), tensor.data()), (*dtype, *shape, &data[..]));
    }
    save(&path, &tensors);
    assert_eq!(std::fs::read(&path).unwrap(), first);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");

    let diag = write_safetensors(&dir.path().join("no/such/folder.safetensors"), &[]).unwrap_err();
    assert_eq!(diag.code, "T0843");
}
