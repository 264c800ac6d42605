//! Which ranks this process runs, on which devices, and how it finds the others.

use crate::cli::{DeviceKind, Options};
use std::ops::Range;
use std::time::Duration;
use titan_ir::{Diag, DiagResult};

/// Where processes meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendezvous {
    /// Host and port at which the process of rank 0 listens.
    pub(crate) address: String,
    /// How long one waits for the others.
    pub(crate) timeout: Duration,
}

/// This process' part of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Ranks of the run.
    pub(crate) world_size: u64,
    /// Ranks of this process.
    pub(crate) ranks: Range<u64>,
    /// Device of the first of them.
    pub(crate) first_device: u64,
    /// Where to meet, if there are other processes.
    pub(crate) rendezvous: Option<Rendezvous>,
}

impl Launch {
    /// What the options say, and where they say nothing, the variables of launchers.
    ///
    /// # Errors
    /// T0765 when that does not make a run.
    pub(crate) fn new(options: &Options, variable: impl Fn(&str) -> Option<String>) -> DiagResult<Self> {
        let local = options.nodes.saturating_mul(options.nproc_per_node);
        let timeout = Duration::from_secs(options.rendezvous_timeout);
        let alone =
            Self { world_size: local, ranks: 0..local, first_device: options.first_device, rendezvous: None };
        if options.device == DeviceKind::Cpu {
            let asked =
                options.world_size.is_some() || options.rendezvous.is_some() || options.rank_table.is_some();
            return if asked {
                Err(wrong("several processes run with --device ascend only"))
            } else {
                Ok(alone)
            };
        }
        if options.nodes > 1 && options.world_size.is_some() {
            return Err(wrong(
                "--nodes simulates machines in one process, so it does not go with --world-size",
            )
            .help("start a process on every machine, with --nproc-per-node and --first-rank"));
        }
        let (world_size, first_rank, ranks, first_device, address) = match options.world_size {
            Some(world_size) => {
                let first_rank = options.first_rank.unwrap_or(0);
                (world_size, first_rank, local, options.first_device, options.rendezvous.clone())
            }
            None if options.nodes > 1 || options.nproc_per_node > 1 => return Ok(alone),
            None => match from_launcher(&variable)? {
                None => return Ok(alone),
                Some((world_size, rank, device, address)) => {
                    (world_size, rank, 1, device, options.rendezvous.clone().or(Some(address)))
                }
            },
        };
        let end = first_rank.saturating_add(ranks);
        if end > world_size {
            return Err(wrong(&format!(
                "this process has ranks {first_rank} to {}, a run of {world_size} ranks has none past {}",
                end - 1,
                world_size - 1
            )));
        }
        let several = ranks < world_size;
        if several && address.is_none() {
            return Err(wrong("a run of several processes needs --rendezvous HOST:PORT, the same for all"));
        }
        let rendezvous = address.filter(|_| several).map(|address| Rendezvous { address, timeout });
        Ok(Self { world_size, ranks: first_rank..end, first_device, rendezvous })
    }

    /// Options about other processes and ranks that were given though there are none.
    pub(crate) fn without_effect(&self, options: &Options) -> Vec<&'static str> {
        let idle = [
            ("--rendezvous", options.rendezvous.is_some() && self.rendezvous.is_none()),
            ("--rank-table", options.rank_table.is_some() && self.world_size == 1),
        ];
        idle.into_iter().filter_map(|(name, is_idle)| is_idle.then_some(name)).collect()
    }

    /// Ranks of this process.
    pub(crate) fn num_local(&self) -> u64 {
        self.ranks.end - self.ranks.start
    }
}

fn wrong(what: &str) -> Diag {
    Diag::new("T0765", what)
}

/// World size, rank, local rank and address that torchrun and the like set.
fn from_launcher(variable: &impl Fn(&str) -> Option<String>) -> DiagResult<Option<(u64, u64, u64, String)>> {
    let number = |name: &str| {
        let value = variable(name)?;
        Some(value.parse::<u64>().map_err(|_| wrong(&format!("{name} is `{value}`, not a number"))))
    };
    let (Some(world_size), Some(rank)) = (number("WORLD_SIZE"), number("RANK")) else { return Ok(None) };
    let (world_size, rank) = (world_size?, rank?);
    if world_size <= 1 {
        return Ok(None);
    }
    let (Some(host), Some(port)) = (variable("MASTER_ADDR"), variable("MASTER_PORT")) else {
        return Err(wrong("RANK and WORLD_SIZE are set, but not MASTER_ADDR and MASTER_PORT"));
    };
    // Where torchrun's own store has that port, the next one is ours.
    let is_taken = variable("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value == "True");
    let port = port.parse::<u16>().map_err(|_| wrong(&format!("MASTER_PORT is `{port}`, not a port")))?;
    let port = port.saturating_add(u16::from(is_taken));
    let device = number("LOCAL_RANK").transpose()?.unwrap_or(0);
    Ok(Some((world_size, rank, device, format!("{host}:{port}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn launch(args: &[&str], variables: &[(&str, &str)]) -> DiagResult<Launch> {
        let options = Options::parse_from([&["titan-run", "a.titan"], args].concat());
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Launch::new(&options, variable)
    }

    #[test]
    fn one_process_runs_all_its_ranks() {
        let two = launch(&["--device", "ascend", "--nproc-per-node", "2"], &[]).unwrap();
        assert_eq!((two.world_size, two.ranks, two.rendezvous), (2, 0..2, None));
        let whole = launch(&["--device=ascend", "--world-size=2", "--nproc-per-node=2"], &[]).unwrap();
        assert_eq!((whole.num_local(), whole.rendezvous), (2, None));
    }

    #[test]
    fn options_say_which_ranks_are_here() {
        let args = ["--device=ascend", "--world-size=8", "--nproc-per-node=4", "--first-rank=4"];
        let wrong = launch(&args, &[]).unwrap_err();
        assert!(wrong.message.contains("--rendezvous HOST:PORT"), "{wrong}");
        let args = [&args[..], &["--rendezvous=a:1", "--rendezvous-timeout=7"]].concat();
        let run = launch(&args, &[("WORLD_SIZE", "99"), ("RANK", "3")]).unwrap();
        let rendezvous = Rendezvous { address: "a:1".to_owned(), timeout: Duration::from_secs(7) };
        assert_eq!((run.world_size, run.ranks, run.rendezvous), (8, 4..8, Some(rendezvous)));
        let args = ["--device=ascend", "--world-size=4", "--first-rank=3", "--nproc-per-node=2"];
        assert!(launch(&args, &[]).unwrap_err().message.contains("has none past 3"));
    }

    #[test]
    fn options_that_say_nothing_are_named() {
        let without_effect = |args: &[&str]| {
            let args = [&["titan-run", "a.titan", "--device=ascend"], args].concat();
            let options = Options::parse_from(args);
            Launch::new(&options, |_| None).unwrap().without_effect(&options)
        };
        let both = ["--rendezvous=a:1", "--rank-table=t.json"];
        assert_eq!(without_effect(&both), ["--rendezvous", "--rank-table"]);
        // HCCL may take the ranks of one process from a table, too.
        assert_eq!(without_effect(&[&both[..], &["--nproc-per-node=2"]].concat()), ["--rendezvous"]);
        assert!(without_effect(&[&both[..], &["--world-size=2"]].concat()).is_empty());
        let diag = launch(&["--device=ascend", "--nodes=2", "--world-size=2"], &[]).unwrap_err();
        assert!(diag.code == "T0765" && diag.message.starts_with("--nodes simulates"), "{diag}");
    }

    #[test]
    fn launchers_are_understood() {
        let variables = [
            ("WORLD_SIZE", "4"),
            ("RANK", "3"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "h"),
            ("MASTER_PORT", "29"),
        ];
        let run = launch(&["--device=ascend"], &variables).unwrap();
        assert_eq!((run.world_size, run.ranks, run.first_device), (4, 3..4, 1));
        assert_eq!(run.rendezvous.unwrap().address, "h:29");
        let torchrun = [&variables[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
        assert_eq!(launch(&["--device=ascend"], &torchrun).unwrap().rendezvous.unwrap().address, "h:30");
        assert!(launch(&["--device=ascend"], &variables[..3]).unwrap_err().message.contains("MASTER_ADDR"));
        assert!(launch(&["--device=ascend"], &[("WORLD_SIZE", "x"), ("RANK", "0")]).is_err());
        // The CPU simulates all ranks in one process, whoever started it.
        assert_eq!(launch(&[], &variables).unwrap().world_size, 1);
        assert_eq!(launch(&["--rendezvous=a:1"], &[]).unwrap_err().code, "T0765");
    }
}
