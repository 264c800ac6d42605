//! The command line: what the arguments mean, which command runs, and how the process ends.
//!
//! Results go to standard output; progress, warnings and errors to standard error.

use crate::cmd;
use crate::config::split_overrides;
use crate::fingerprint::{TITAN_VERSION, llvm_version};
use crate::model::Registry;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use titan_ir::artifact::FORMAT_VERSION;
use titan_ir::{Diag, Diags, Severity};

/// What a command finds wrong.
pub type CommandResult = Result<(), Diags>;

/// The code of plans that do not fit the memory the configuration gives them.
const DOES_NOT_FIT: &str = "T0510";

const OVERRIDES: &str = "Every key of the TOML file can be set as --section.key VALUE, booleans as --section.key and \
                         --section.no_key; see `titanc keys`. Later settings win over earlier ones, all over the file.";

/// Compiles a training step of a language model ahead of time.
#[derive(Debug, Parser)]
#[command(name = "titanc", max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compiles a configuration to an artifact that titan-run executes
    #[command(after_help = OVERRIDES)]
    Build(BuildArgs),
    /// Resolves and plans a configuration, and writes nothing
    #[command(after_help = OVERRIDES)]
    Check(CheckArgs),
    /// Shows what an artifact holds
    Inspect(InspectArgs),
    /// Runs passes on a program in text form
    Opt(OptArgs),
    /// Explains a diagnostic code such as T0402
    Explain {
        /// The code
        code: String,
    },
    /// Lists the keys of a configuration with defaults and meanings
    Keys {
        /// Only keys that contain this text
        filter: Option<String>,
    },
}

/// Arguments of `titanc build`.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// The configuration
    pub(crate) file: Option<PathBuf>,
    /// The artifact; the name of the configuration with .titan in the current folder when not given
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// Keeps the text of the program in the artifact, as titan.keep_ir does
    #[arg(long)]
    pub(crate) emit_ir: bool,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) passes: PassArgs,
}

/// Arguments of `titanc check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The configuration
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) passes: PassArgs,
}

/// What the step is compiled for: short forms of keys, which win over them.
#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    /// Device to compile for, as titan.target: cpu, Ascend910B3, ...
    #[arg(long, value_name = "NAME")]
    pub(crate) target: Option<String>,
    /// What computes on an Ascend device, as titan.ascend_kernels: aclnn or fused
    #[arg(long, value_name = "STYLE")]
    pub(crate) ascend_kernels: Option<String>,
}

impl DeviceArgs {
    /// The same as overrides.
    pub(crate) fn overrides(&self) -> Vec<String> {
        let keys = [("titan.target", &self.target), ("titan.ascend_kernels", &self.ascend_kernels)];
        keys.iter().filter_map(|(key, value)| Some(format!("--{key}={}", value.as_ref()?))).collect()
    }
}

/// How passes are run and watched.
#[derive(Debug, Args)]
pub(crate) struct PassArgs {
    /// Writes the program after every pass into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dump_ir: Option<PathBuf>,
    /// Prints the time of every pass
    #[arg(long)]
    pub(crate) timing: bool,
    /// Leaves out a pass that only saves time or memory; may be given several times
    #[arg(long, value_name = "PASS")]
    pub(crate) disable_pass: Vec<String>,
    /// Stops after this pass and prints the program
    #[arg(long, value_name = "PASS")]
    pub(crate) stop_after: Option<String>,
}

/// Arguments of `titanc inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The artifact
    pub(crate) artifact: PathBuf,
    /// Prints JSON for scripts
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows every instruction of the plan for this number of ranks
    #[arg(long, value_name = "RANKS")]
    pub(crate) plan: Option<u64>,
    /// Prints the text of the program, if the artifact holds it
    #[arg(long, conflicts_with_all = ["json", "plan"])]
    pub(crate) ir: bool,
}

/// Arguments of `titanc opt`.
#[derive(Debug, Args)]
pub(crate) struct OptArgs {
    /// The program in text form
    #[arg(required_unless_present = "list")]
    pub(crate) file: Option<PathBuf>,
    /// Passes to run, with commas between: NAME[:key=value...]
    #[arg(short, long, value_name = "PASSES", default_value = "")]
    pub(crate) passes: String,
    /// Where the result goes; standard output when not given
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// Prints the time of every pass
    #[arg(long)]
    pub(crate) timing: bool,
    /// Lists all passes
    #[arg(long)]
    pub(crate) list: bool,
}

/// Runs the command line of this process with the models of `registry`. A crate with models of its own calls it from `main`.
pub fn main_with(registry: Registry) -> ExitCode {
    let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    ExitCode::from(run(&registry, &args))
}

/// Runs a command line, the name of the program first, and gives the exit code: 0 done, 1 a mistake of the user, 2 a mistake on the command
/// line, 3 the plan does not fit the memory the configuration gives it. A fault of ours panics.
pub fn run(registry: &Registry, args: &[String]) -> u8 {
    let (program, args) = args.split_first().map_or(("titanc", args), |(first, rest)| (first.as_str(), rest));
    let (mut others, overrides) = split_overrides(args);
    others.insert(0, program.to_owned());
    let version = format!("{TITAN_VERSION} (artifact format {FORMAT_VERSION}, LLVM {})", llvm_version());
    let parsed = Cli::command()
        .version(version)
        .try_get_matches_from(&others)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let command = match parsed {
        Ok(cli) => cli.command,
        Err(error) => {
            // Help and version are errors to clap, with exit code 0. A closed pipe is no reason to fail.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    match dispatch(registry, command, overrides) {
        Ok(()) => 0,
        Err(diags) => {
            warn(&diags);
            exit_code(&diags)
        }
    }
}

fn dispatch(registry: &Registry, command: Command, overrides: Vec<String>) -> CommandResult {
    if let (Some(first), false) =
        (overrides.first(), matches!(command, Command::Build(_) | Command::Check(_)))
    {
        let message = format!("unexpected argument `{first}`: only build and check take a configuration");
        return Err(Diag::new("T0913", message).into());
    }
    match command {
        Command::Build(args) => cmd::build::run(registry, args, overrides),
        Command::Check(args) => cmd::check::run(registry, args, overrides),
        Command::Inspect(args) => cmd::inspect::run(&args),
        Command::Opt(args) => cmd::opt::run(&args),
        Command::Explain { code } => cmd::explain::run(&code),
        Command::Keys { filter } => cmd::keys::run(registry, filter.as_deref().unwrap_or("")),
    }
}

/// 2 when every error is one of the command line, 3 when plans are too large.
fn exit_code(diags: &Diags) -> u8 {
    let codes: Vec<&str> = diags.0.iter().filter(|d| d.severity == Severity::Error).map(|d| d.code).collect();
    match codes[..] {
        [DOES_NOT_FIT] => 3,
        _ if codes.iter().all(|code| code.starts_with("T09")) => 2,
        _ => 1,
    }
}

/// Writes findings to standard error.
pub(crate) fn warn(diags: &Diags) {
    if !diags.0.is_empty() {
        note(&format!("{diags}\n"));
    }
}

/// Writes a line of progress to standard error.
pub(crate) fn note(line: &str) {
    // A reader that went away is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes a result to standard output.
///
/// # Errors
/// T0902 when it cannot be written, except when its reader went away.
pub(crate) fn print(text: &str) -> Result<(), Diag> {
    let written = std::io::stdout().write_all(text.as_bytes());
    match written.and_then(|()| std::io::stdout().flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Diag::new("T0902", format!("cannot write the result: {e}")))
        }
        _ => Ok(()),
    }
}
