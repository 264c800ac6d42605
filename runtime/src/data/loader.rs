//! Batches made ahead of the training loop by a thread of their own.

use super::stream::{Batch, BatchStream};
use super::tokenizer::Tokenizer;
use super::{DataConfig, DataState};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use titan_ir::{Diag, DiagResult, ice};

/// Reads, tokenizes and packs one rank's text, a few batches ahead.
///
/// The thread starts with the first batch and ends when the loader is dropped.
pub struct Loader {
    worker: Worker,
    /// What to resume from after the batch last handed out.
    state: DataState,
    warnings: Vec<Diag>,
    summary: String,
}

enum Worker {
    Waiting(Box<BatchStream>),
    Running(Prefetch),
    /// The data ended, with an error or without.
    Ended(Option<Diag>),
}

struct Prefetch {
    batches: Option<Receiver<Message>>,
    thread: Option<JoinHandle<()>>,
}

type Message = DiagResult<Option<Batch>>;

/// Batches that wait ready.
const QUEUE_DEPTH: usize = 2;

impl Loader {
    /// Opens tokenizer and dataset of one rank.
    ///
    /// # Errors
    /// Either is missing, damaged or empty, or there are fewer records than ranks.
    pub fn open(config: DataConfig) -> DiagResult<Self> {
        let tokenizer = Tokenizer::open(&config.tokenizer_dir)?;
        Self::with_tokenizer(config, Arc::new(tokenizer))
    }

    /// As [`Loader::open`], with a tokenizer that ranks of one process share.
    ///
    /// # Errors
    /// The dataset is missing, damaged or empty, or there are fewer records than ranks.
    pub fn with_tokenizer(config: DataConfig, tokenizer: Arc<Tokenizer>) -> DiagResult<Self> {
        let stream = BatchStream::open(config, tokenizer)?;
        let (state, summary) = (stream.state(), stream.summary());
        Ok(Self { worker: Worker::Waiting(Box::new(stream)), state, warnings: Vec::new(), summary })
    }

    /// Continues where `state` was taken.
    ///
    /// # Errors
    /// The state belongs to another rank, number of ranks or dataset.
    pub fn restore(&mut self, state: &DataState) -> DiagResult<()> {
        let Worker::Waiting(stream) = &mut self.worker else {
            ice!("a loader is restored before its first batch");
        };
        stream.restore(state)?;
        self.state = state.clone();
        Ok(())
    }

    /// Writes the next micro-batch; false at the end of a dataset that is read once.
    ///
    /// Shapes: `inputs` and `labels` `[local_batch, seq_len]`.
    ///
    /// # Errors
    /// The data cannot be read or holds tokens outside the vocabulary. Every later call returns the same error.
    pub fn next_batch(&mut self, inputs: &mut [i32], labels: &mut [i32]) -> DiagResult<bool> {
        let message = match &mut self.worker {
            Worker::Running(prefetch) => prefetch.receive(),
            Worker::Ended(None) => return Ok(false),
            Worker::Ended(Some(diag)) => return Err(diag.clone()),
            Worker::Waiting(_) => self.start().receive(),
        };
        match message {
            Ok(Some(batch)) => {
                inputs.copy_from_slice(&batch.inputs);
                labels.copy_from_slice(&batch.labels);
                self.state = batch.state;
                self.warnings.extend(batch.warnings);
                Ok(true)
            }
            Ok(None) => {
                self.worker = Worker::Ended(None);
                Ok(false)
            }
            Err(diag) => {
                self.worker = Worker::Ended(Some(diag.clone()));
                Err(diag)
            }
        }
    }

    /// What to resume from after the batch last returned.
    pub fn state(&self) -> &DataState {
        &self.state
    }

    /// The warnings since the last call, such as a dataset that starts again.
    pub fn take_warnings(&mut self) -> Vec<Diag> {
        std::mem::take(&mut self.warnings)
    }

    /// One line on what is read, for the log.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    fn start(&mut self) -> &mut Prefetch {
        if let Worker::Waiting(stream) = std::mem::replace(&mut self.worker, Worker::Ended(None)) {
            self.worker = Worker::Running(Prefetch::start(*stream));
        }
        match &mut self.worker {
            Worker::Running(prefetch) => prefetch,
            _ => ice!("a loader starts once"),
        }
    }
}

impl Prefetch {
    fn start(stream: BatchStream) -> Self {
        let (sender, batches) = sync_channel(QUEUE_DEPTH);
        let thread =
            std::thread::Builder::new().name("titan-data".to_string()).spawn(|| produce(stream, sender));
        let Ok(thread) = thread else { ice!("the system gives no thread for data loading") };
        Self { batches: Some(batches), thread: Some(thread) }
    }

    fn receive(&mut self) -> Message {
        let batches = self.batches.as_ref().expect("the queue lives until the loader is dropped");
        batches.recv().unwrap_or_else(|_| match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => Ok(None),
        })
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        // Without a receiver the thread's next send fails and it returns.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by its own hook; a drop must not raise it again.
            let _ = thread.join();
        }
    }
}

/// Sends batches until the data ends, an error is met, or nobody listens.
fn produce(mut stream: BatchStream, sender: SyncSender<Message>) {
    loop {
        let message = stream.next_batch();
        let last = !matches!(message, Ok(Some(_)));
        if sender.send(message).is_err() || last {
            return;
        }
    }
}
