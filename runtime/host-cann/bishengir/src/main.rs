//! `host-bishengir input.mlir FLAGS -o OUT`: the command line of the vendor's `bishengir-compile`.

use std::process::ExitCode;
use titan_ir::ascend::Soc;

/// Flags that choose what this program always does.
const IGNORED: &[&str] = &[
    "enable-hfusion-compile",
    "enable-hivm-compile",
    "disable-auto-cv-work-space-manage",
    "enable-tuning-mode",
    "enable-auto-multi-buffer",
    "enable-static-bare-ptr",
    "enable-bin-relocation",
    "enable-ops-reorder",
    "hfusion-max-buffer-count-tuning",
];

/// What the command line asks for.
struct Request {
    input: String,
    output: String,
    soc: &'static Soc,
    num_blocks: u32,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| matches!(arg.trim_start_matches('-'), "version")) {
        println!("host-bishengir {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    match parse(&args).and_then(|request| run(&request)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(findings) => {
            findings.lines().for_each(|line| eprintln!("error: {line}"));
            eprintln!("[ERROR] Failed to run host-bishengir");
            ExitCode::from(1)
        }
    }
}

fn parse(args: &[String]) -> Result<Request, String> {
    let (mut input, mut output, mut target, mut num_blocks) = (None, None, None, 1);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(flag) = arg.strip_prefix('-') else {
            if input.replace(arg.clone()).is_some() {
                return Err("more than one input file".to_owned());
            }
            continue;
        };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        let (name, value) = flag.split_once('=').map_or((flag, None), |(n, v)| (n, Some(v.to_owned())));
        match name {
            "o" => output = Some(value.or_else(|| rest.next().cloned()).ok_or("-o needs a file")?),
            "target" => target = value.or_else(|| rest.next().cloned()),
            "block-dim" => {
                let text = value.unwrap_or_default();
                num_blocks = text.parse().map_err(|_| format!("-block-dim={text} is no number"))?;
            }
            name if IGNORED.contains(&name) => {}
            name => return Err(format!("Unknown command line argument '-{name}'")),
        }
    }
    let target = target.ok_or("--target is missing")?;
    Ok(Request {
        input: input.ok_or("no input file")?,
        output: output.ok_or("no output file: -o OUT")?,
        soc: Soc::of_name(&target).ok_or_else(|| format!("unknown target '{target}'"))?,
        num_blocks,
    })
}

fn run(request: &Request) -> Result<(), String> {
    let text = std::fs::read_to_string(&request.input)
        .map_err(|e| format!("could not open input file '{}': {e}", request.input))?;
    let object = host_bishengir::compile(&text, request.soc, request.num_blocks)?;
    std::fs::write(&request.output, object).map_err(|e| format!("cannot write {}: {e}", request.output))
}
