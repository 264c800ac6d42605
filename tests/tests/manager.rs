//! The pass manager: what it runs, leaves out, dumps and refuses.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::PathBuf;
use titan_ir::{DiagResult, Module, Stage, text};
use titan_passes::manager::{ManagerOptions, Report, Step, run};
use titan_passes::pass::{Changed, NumericsClass, Pass, PassCx};
use titan_passes::pipeline::{PipelineOptions, pipeline};
use titan_passes::registry;
use titan_tests::decoder::Decoder;

fn run_with(options: &ManagerOptions) -> (Module, Report) {
    let mut module = Decoder::default().module().unwrap();
    let steps = pipeline(PipelineOptions::default());
    let report = run(&mut module, &mut PassCx::default(), &steps, options).unwrap();
    (module, report)
}

fn names(report: &Report) -> Vec<&'static str> {
    report.steps.iter().map(|s| s.name).collect()
}

#[test]
fn stops_after_a_step() {
    let options = ManagerOptions { stop_after: Some("localize".to_owned()), ..ManagerOptions::default() };
    let (module, report) = run_with(&options);
    assert_eq!(module.stage, Stage::Local);
    assert_eq!(names(&report).last(), Some(&"localize"));
}

#[test]
fn leaves_passes_out() {
    let disabled = vec!["simplify".to_owned(), "remat".to_owned()];
    let (module, report) = run_with(&ManagerOptions { disabled, ..ManagerOptions::default() });
    assert_eq!(module.stage, Stage::Kernels);
    assert!(names(&report).contains(&"optimizer"));
    assert!(!names(&report).contains(&"simplify") && !names(&report).contains(&"remat"));
}

#[test]
fn refuses_names_of_no_step() {
    let mut module = Decoder::default().module().unwrap();
    let steps = registry::steps("autodiff,dce").unwrap();
    for options in [
        ManagerOptions { stop_after: Some("simplify".to_owned()), ..ManagerOptions::default() },
        ManagerOptions { disabled: vec!["autodif".to_owned()], ..ManagerOptions::default() },
    ] {
        let diags = run(&mut module, &mut PassCx::default(), &steps, &options).unwrap_err();
        assert_eq!(diags.0.iter().map(|d| d.code).collect::<Vec<_>>(), ["T0211"]);
        assert_eq!(diags.0[0].notes, ["its steps are autodiff, dce"]);
    }
    assert_eq!(registry::steps("autodiff,nothing").unwrap_err().code, "T0211");
    assert_eq!(registry::steps("remat:mode=half").unwrap_err().code, "T0213");
    assert_eq!(registry::steps("remat:speed=1").unwrap_err().code, "T0213");
}

#[test]
fn only_optional_passes_are_left_out() {
    let mut module = Decoder::default().module().unwrap();
    let steps = pipeline(PipelineOptions::default());
    for name in
        ["autodiff", "accumulate", "optimizer", "propagate", "localize", "fuse", "emit-plan", "buffers"]
    {
        let options = ManagerOptions { disabled: vec![name.to_owned()], ..ManagerOptions::default() };
        let diags = run(&mut module, &mut PassCx::default(), &steps, &options).unwrap_err();
        assert_eq!(diags.0.iter().map(|d| d.code).collect::<Vec<_>>(), ["T0215"], "{name}");
        assert_eq!(diags.0[0].notes, ["these can: simplify, remat, bucket-collectives, prefetch, schedule"]);
    }
}

/// Every pass on the program of every stage: it runs or names the stage it needs.
#[test]
fn passes_take_the_stages_they_name() {
    for last in ["optimizer", "insert-reshard", "localize", "fuse"] {
        let (program, _) =
            run_with(&ManagerOptions { stop_after: Some(last.to_owned()), ..ManagerOptions::default() });
        for name in registry::pass_names() {
            let steps = registry::steps(name).unwrap();
            let Step::Run(pass) = &steps[0] else { panic!("{name} is a pass") };
            let takes = pass.stages().contains(&program.stage);
            let mut module = program.clone();
            let ran = run(&mut module, &mut PassCx::default(), &steps, &ManagerOptions::default());
            let refused = ran.is_err_and(|diags| diags.0[0].code == "T0214");
            assert_eq!(refused, !takes, "{name} after {last}");
        }
    }
}

#[test]
fn dumps_the_program_after_every_pass() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dumps");
    let _ = fs::remove_dir_all(&dir);
    let options = ManagerOptions {
        dump_dir: Some(dir.clone()),
        stop_after: Some("simplify".to_owned()),
        ..ManagerOptions::default()
    };
    let (module, _) = run_with(&options);
    let mut files: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(
        files,
        ["01-autodiff.titan", "02-accumulate.titan", "03-optimizer.titan", "04-simplify.titan"]
    );
    assert_eq!(fs::read_to_string(dir.join("04-simplify.titan")).unwrap(), text::print(&module));
}

#[test]
fn reports_what_changed() {
    let (_, report) = run_with(&ManagerOptions::default());
    let step = |name: &str| report.steps.iter().find(|s| s.name == name).unwrap();
    assert_eq!(step("accumulate").changed, Changed::No);
    assert!(step("accumulate").ops.is_empty());
    assert_eq!(step("optimizer").ops["guard"], 1);
    let num_weights = step("optimizer").ops["adamw"];
    assert_eq!(step("fuse").ops["adamw"], -num_weights);
    let table = report.table();
    assert!(table.lines().count() == report.steps.len() + 2, "{table}");
}

/// Reads a value nothing defines.
#[derive(Debug)]
struct Breaks;

impl Pass for Breaks {
    fn name(&self) -> &'static str {
        "breaks"
    }
    fn summary(&self) -> &'static str {
        "break the program"
    }
    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }
    fn stages(&self) -> &'static [Stage] {
        &[Stage::Graph]
    }
    fn run(&self, module: &mut Module, _: &mut PassCx) -> DiagResult<Changed> {
        module.funcs[0].nodes.remove(0);
        Ok(Changed::Yes)
    }
}

#[test]
fn a_pass_that_breaks_the_program_is_named() {
    let mut module = Decoder::default().module().unwrap();
    let steps = [Step::run(Breaks)];
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run(&mut module, &mut PassCx::default(), &steps, &ManagerOptions::default())
    }));
    let message = broken.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("does not verify after breaks") && message.contains("T0130"), "{message}");
}

#[test]
fn a_broken_input_is_the_users() {
    let mut module = Decoder::default().module().unwrap();
    module.funcs[0].nodes.remove(0);
    let steps = registry::steps("autodiff").unwrap();
    let diags = run(&mut module, &mut PassCx::default(), &steps, &ManagerOptions::default()).unwrap_err();
    assert!(diags.0.iter().any(|d| d.code == "T0130"), "{diags}");
}
