//! The records that belong to one rank, epoch after epoch.

use super::codes;
use super::files::{DataFile, Format};
use super::records::Records;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use titan_ir::{Diag, DiagResult};

/// How the records of a dataset are split over the data-parallel ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// A contiguous block of records per rank; the first `records % ranks` ranks have one more.
    /// Source: Hugging Face `datasets`, `Dataset.shard(contiguous=True)`, as torchtitan's `c4_test`.
    Contiguous,
    /// Every `ranks`-th file if the ranks divide the number of files, else every `ranks`-th record.
    /// Source: Hugging Face `datasets`, `split_dataset_by_node` of a streaming dataset, as torchtitan's `c4`.
    Streaming,
}

/// A place between two records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Index of the file among the rank's files.
    pub file: u64,
    /// Records of that file before this place.
    pub record: u64,
    /// Records of all the rank's files before this place.
    pub index: u64,
}

/// The records of one rank.
pub struct Samples {
    files: Vec<DataFile>,
    keep: Keep,
    start: Position,
    position: Position,
    reader: Option<Records>,
}

enum Keep {
    Block(Range<u64>),
    Every { rank: u64, num_ranks: u64 },
}

impl Samples {
    /// The share of rank `rank` of `num_ranks` in `files`.
    ///
    /// # Errors
    /// There are fewer records than ranks, or counting the records of a [`Split::Contiguous`] dataset meets an unreadable file.
    pub fn open(files: Vec<DataFile>, split: Split, rank: usize, num_ranks: usize) -> DiagResult<Self> {
        let (rank, num_ranks) = (rank as u64, num_ranks as u64);
        let (files, keep, start) = match split {
            Split::Contiguous => {
                let counts = files.iter().map(count_records).collect::<DiagResult<Vec<u64>>>()?;
                let block = contiguous_block(counts.iter().sum(), rank, num_ranks);
                if block.is_empty() {
                    return Err(too_few(&files, counts.iter().sum(), num_ranks));
                }
                let start = locate(&counts, block.start);
                (files, Keep::Block(block), start)
            }
            Split::Streaming if (files.len() as u64).is_multiple_of(num_ranks) => {
                let files = files.into_iter().skip(rank as usize).step_by(num_ranks as usize).collect();
                (files, Keep::Every { rank: 0, num_ranks: 1 }, Position::default())
            }
            Split::Streaming => (files, Keep::Every { rank, num_ranks }, Position::default()),
        };
        Ok(Self { files, keep, start, position: start, reader: None })
    }

    /// The next record's text; none at the end of the epoch.
    ///
    /// # Errors
    /// Those of [`Records`].
    pub fn next_text(&mut self) -> DiagResult<Option<String>> {
        loop {
            if matches!(&self.keep, Keep::Block(block) if self.position.index >= block.end) {
                return Ok(None);
            }
            if self.reader.is_none() && !self.open_file()? {
                return Ok(None);
            }
            let Some(reader) = &mut self.reader else { continue };
            if !reader.advance()? {
                self.reader = None;
                self.position.file += 1;
                self.position.record = 0;
                continue;
            }
            let index = self.position.index;
            self.position.index += 1;
            self.position.record += 1;
            let ours = match self.keep {
                Keep::Block(_) => true,
                Keep::Every { rank, num_ranks } => index % num_ranks == rank,
            };
            if ours {
                return reader.text().map(Some);
            }
        }
    }

    /// Goes back to the rank's first record.
    pub fn rewind(&mut self) {
        self.position = self.start;
        self.reader = None;
    }

    /// Where the next record is looked for.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Goes to a place that [`Samples::position`] returned.
    ///
    /// # Errors
    /// The dataset has no such place: it is not the one the place was taken from.
    pub fn seek(&mut self, position: Position) -> DiagResult<()> {
        self.position = position;
        self.reader = None;
        if position.file > self.files.len() as u64 {
            return Err(self.not_the_same());
        }
        Ok(())
    }

    /// The place of the record last returned, for messages.
    pub fn place(&self) -> String {
        self.reader.as_ref().map(Records::place).unwrap_or_default()
    }

    /// Opens the file of the present position and passes over the records before it; false behind the last file.
    fn open_file(&mut self) -> DiagResult<bool> {
        let Some(file) = self.files.get(self.position.file as usize) else { return Ok(false) };
        let mut reader = Records::open(file)?;
        for _ in 0..self.position.record {
            if !reader.advance()? {
                return Err(self.not_the_same());
            }
        }
        self.reader = Some(reader);
        Ok(true)
    }

    fn not_the_same(&self) -> Diag {
        Diag::new(codes::STATE, "the saved data position lies outside the dataset")
            .note(format!("file {}, record {}", self.position.file + 1, self.position.record + 1))
            .help("resume with the dataset the state was saved with")
    }
}

fn count_records(file: &DataFile) -> DiagResult<u64> {
    if file.format == Format::Text {
        return Ok(1);
    }
    let mut reader = Records::open(file)?;
    let mut num_records = 0;
    while reader.advance()? {
        num_records += 1;
    }
    Ok(num_records)
}

fn contiguous_block(num_records: u64, rank: u64, num_ranks: u64) -> Range<u64> {
    let (share, extra) = (num_records / num_ranks, num_records % num_ranks);
    let start = rank * share + rank.min(extra);
    start..start + share + u64::from(rank < extra)
}

/// The place of record `index` in files of `counts` records.
fn locate(counts: &[u64], index: u64) -> Position {
    let mut before = 0;
    for (file, &count) in counts.iter().enumerate() {
        if index < before + count {
            return Position { file: file as u64, record: index - before, index };
        }
        before += count;
    }
    Position { file: counts.len() as u64, record: 0, index }
}

fn too_few(files: &[DataFile], num_records: u64, num_ranks: u64) -> Diag {
    let first = files.first().map_or("", |f| f.name.as_str());
    let message = if num_records == 0 {
        format!("the dataset is empty: no record in {} file(s), the first is `{first}`", files.len())
    } else {
        format!("the dataset has {num_records} record(s) for {num_ranks} data-parallel ranks")
    };
    Diag::new(codes::EMPTY, message).help(
        "every data-parallel rank needs at least one record of its own; a text file is one record, a JSON line is one: \
         split the text, or use fewer ranks",
    )
}
