//! Packing, looping, resuming, and the shipped text.

use super::*;
use titan_run::data::{DataState, Tokenizer};

fn texts(num: usize) -> Vec<String> {
    (0..num).map(|i| format!("Text {i} says {} and ends.", "word ".repeat(i * 7 % 11))).collect()
}

/// The same batches, computed from the whole token stream at once.
fn naive(texts: &[String], config: &DataConfig, num_batches: usize) -> Vec<Batch> {
    let tokenizer = Tokenizer::shipped().unwrap();
    let mut epoch = Vec::new();
    for text in texts {
        tokenizer.encode(text, &mut epoch).unwrap();
    }
    let piece = config.seq_len + 1;
    let needed = num_batches * config.local_batch * piece;
    let stream: Vec<i32> = epoch.iter().copied().cycle().take(needed).collect();
    let rows: Vec<&[i32]> = stream.chunks(piece).collect();
    rows.chunks(config.local_batch)
        .map(|rows| {
            let inputs = rows.iter().flat_map(|row| row[..piece - 1].to_vec()).collect();
            let labels = rows.iter().flat_map(|row| row[1..].to_vec()).collect();
            (inputs, labels)
        })
        .collect()
}

#[test]
fn batches_are_the_token_stream_cut_into_pieces() {
    let dir = folder();
    let texts = texts(9);
    let path = write(&dir.path().join("data.json"), &json_lines(&texts));
    for (seq_len, local_batch) in [(8, 2), (1, 1), (7, 3), (500, 2)] {
        let config = DataConfig { seq_len, local_batch, ..config(&path) };
        let mut loader = Loader::open(config.clone()).unwrap();
        // More batches than an epoch has: the rest of an epoch begins the next one.
        let batches = take(&mut loader, &config, 70);
        assert_eq!(batches, naive(&texts, &config, 70), "seq_len {seq_len}, batch {local_batch}");
    }
}

#[test]
fn a_dataset_read_once_ends_and_stays_ended() {
    let dir = folder();
    let texts = texts(5);
    let path = write(&dir.path().join("data.json"), &json_lines(&texts));
    let config = DataConfig { infinite: false, ..config(&path) };
    let mut loader = Loader::open(config.clone()).unwrap();
    let batches = take(&mut loader, &config, usize::MAX);
    let mut num_tokens = Vec::new();
    for text in &texts {
        Tokenizer::shipped().unwrap().encode(text, &mut num_tokens).unwrap();
    }
    assert_eq!(batches.len(), num_tokens.len() / 18, "two rows of nine tokens a batch");
    assert!(take(&mut loader, &config, 1).is_empty());
    assert!(loader.take_warnings().is_empty());
}

#[test]
fn looping_is_announced_once_an_epoch() {
    let dir = folder();
    let path = write(&dir.path().join("data.json"), &json_lines(&texts(3)));
    let config = config(&path);
    let mut loader = Loader::open(config.clone()).unwrap();
    let mut num_warnings = 0;
    while loader.state().epoch < 3 {
        take(&mut loader, &config, 1);
        let warnings = loader.take_warnings();
        assert!(
            warnings.iter().all(|w| w.code == "T0809" && w.message == "dataset c4_test is being re-looped")
        );
        num_warnings += warnings.len() as u64;
        assert_eq!(num_warnings, loader.state().epoch);
    }
}

#[test]
fn resuming_gives_the_same_stream() {
    let dir = folder();
    let all = texts(13);
    write(&dir.path().join("a.json"), &json_lines(&all[..4]));
    write(&dir.path().join("b.jsonl.gz"), &gzip(&json_lines(&all[4..9])));
    write(&dir.path().join("c.json.zst"), &zstandard(&json_lines(&all[9..])));
    for dataset in ["c4_test", "c4"] {
        for (dp_rank, dp_world) in [(0, 1), (1, 2), (2, 3)] {
            let config = DataConfig { dataset: dataset.to_string(), dp_rank, dp_world, ..config(dir.path()) };
            let whole = take(&mut Loader::open(config.clone()).unwrap(), &config, 40);
            for cut in [0, 1, 5, 17, 39] {
                let mut first = Loader::open(config.clone()).unwrap();
                take(&mut first, &config, cut);
                let saved = serde_json::to_string(first.state()).unwrap();
                let state: DataState = serde_json::from_str(&saved).unwrap();
                let mut second = Loader::open(config.clone()).unwrap();
                second.restore(&state).unwrap();
                assert_eq!(second.state(), &state);
                let rest = take(&mut second, &config, 40 - cut);
                assert!(rest == whole[cut..], "{dataset}, rank {dp_rank} of {dp_world}, cut at {cut}");
            }
        }
    }
}

#[test]
fn a_state_of_other_data_is_refused() {
    let dir = folder();
    let path = write(&dir.path().join("data.json"), &json_lines(&texts(13)));
    let small = write(&dir.path().join("small.json"), &json_lines(&texts(2)));
    let config = config(&path);
    let mut loader = Loader::open(config.clone()).unwrap();
    take(&mut loader, &config, 8);
    let state = loader.state().clone();
    assert!(state.position.record > 2, "the state lies behind the end of the small file");

    let mut other_rank = Loader::open(DataConfig { dp_world: 2, ..config.clone() }).unwrap();
    let diag = other_rank.restore(&state).unwrap_err();
    assert_eq!(diag.code, "T0810");
    assert!(diag.message.contains("rank 0 of 1, not 0 of 2"), "{diag}");

    let config = DataConfig { dataset: "c4".to_string(), dataset_path: Some(small), ..config };
    let mut other_data = Loader::open(config.clone()).unwrap();
    other_data.restore(&DataState { token_buffer: Vec::new(), ..state }).unwrap();
    let (mut inputs, mut labels) = ([0; 16], [0; 16]);
    assert_eq!(other_data.next_batch(&mut inputs, &mut labels).unwrap_err().code, "T0810");
}

#[test]
fn the_shipped_text_feeds_two_ranks_with_different_text() {
    let tokenizer = std::sync::Arc::new(Tokenizer::shipped().unwrap());
    let of_rank = |dp_rank| {
        let config = DataConfig {
            dataset_path: None,
            seq_len: 128,
            local_batch: 8,
            dp_rank,
            dp_world: 2,
            ..config(Path::new(""))
        };
        let mut loader = Loader::with_tokenizer(config.clone(), tokenizer.clone()).unwrap();
        assert!(loader.summary().contains("shipped with Titan"), "{}", loader.summary());
        take(&mut loader, &config, 4)
    };
    let (first, second) = (of_rank(0), of_rank(1));
    assert_ne!(first, second);
    let vocab = i32::try_from(tokenizer.num_tokens()).unwrap();
    assert!(first.iter().chain(&second).all(|(i, l)| i.iter().chain(l).all(|t| (0..vocab).contains(t))));
    let text: String = first[0].0[..64].iter().filter_map(|&t| tokenizer.token(t)).collect();
    assert!(text.starts_with("<|begin_of_text|>The"), "{text}");
}

#[test]
fn a_loader_dropped_early_stops_its_thread() {
    let dir = folder();
    let path = write(&dir.path().join("data.json"), &json_lines(&texts(9)));
    let config = config(&path);
    for num_batches in [0, 1, 3] {
        let mut loader = Loader::open(config.clone()).unwrap();
        assert_eq!(take(&mut loader, &config, num_batches).len(), num_batches);
        // Joins the thread: a thread that waits for room in the queue would hang here.
        drop(loader);
    }
}
