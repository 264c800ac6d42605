//! The verifier accepts what is right and names everything that is wrong.

use crate::common::{mesh, module_of, samples};
use titan_ir::kernel::ReduceKind;
use titan_ir::ops::{AllReduce, Cast, Einsum, Neg, ReduceSum, Reshard};
use titan_ir::verify::verify;
use titan_ir::{
    AxisId, DType, Func, Init, Layout, LocId, Module, Placement, ResultKind, Role, Stage, TensorType, ValueId,
};

#[test]
fn samples_are_right() {
    for (op, ins) in samples() {
        let module = module_of(&op, &ins);
        verify(&module).unwrap_or_else(|diags| panic!("{op:?}\n{diags}"));
    }
}

/// `loss = sum(x w^T)` with x cut in the batch, and w updated by itself.
fn sharded() -> Module {
    let mut func = Func::new("step");
    let rows = Layout::replicate().with(AxisId(0), Placement::Shard(0));
    let x = TensorType::new(DType::F32, &[4, 6]).with_layout(rows.clone());
    let x = func.add_param("x", x, Role::Input, Init::Host);
    let w = func.add_param("w", TensorType::new(DType::F32, &[3, 6]), Role::Param, Init::Zeros);
    let y = func.emit1(Einsum::new("bk,nk->bn", DType::F32), &[x, w]).unwrap();
    func.types[y.index()].layout = rows;
    let partial = func.emit1(ReduceSum::all(), &[y]).unwrap();
    func.types[partial.index()].layout =
        Layout::replicate().with(AxisId(0), Placement::Partial(ReduceKind::Sum));
    let loss = func.emit1(Reshard::new(Layout::replicate()), &[partial]).unwrap();
    func.add_result(loss, ResultKind::Output("loss".to_owned()));
    func.add_result(w, ResultKind::Update(1));
    Module { stage: Stage::Sharded, mesh: mesh(), funcs: vec![func] }
}

fn codes(module: &Module) -> Vec<&'static str> {
    verify(module).err().map_or(Vec::new(), |diags| diags.0.iter().map(|d| d.code).collect())
}

#[test]
fn every_fault_is_found() {
    assert_eq!(codes(&sharded()), Vec::<&str>::new());
    type Fault = (&'static [&'static str], fn(&mut Module));
    let faults: Vec<Fault> = vec![
        (&["T0130"], |m| m.funcs[0].nodes.swap(0, 1)),
        (&["T0130"], |m| m.funcs[0].nodes[0].ins[0] = ValueId(99)),
        (&["T0130"], |m| m.funcs[0].nodes[1].outs[0] = ValueId(2)),
        (&["T0130"], |m| m.funcs[0].results[0].value = ValueId(77)),
        (&["T0131"], |m| m.funcs[0].types[3].dtype = DType::Bf16),
        (&["T0131", "T0103"], |m| m.funcs[0].types[2].dims[1] = 0),
        (&["T0132"], |m| m.funcs[0].types[2].layout = Layout::replicate()),
        (&["T0132"], |m| m.funcs[0].types[4].layout = m.funcs[0].types[3].layout.clone()),
        (&["T0132"], |m| m.funcs[0].params[0].layout = Layout::replicate()),
        (&["T0133"], |m| m.stage = Stage::Local),
        (&["T0133"], |m| {
            let all_reduce = AllReduce { axis: AxisId(0), ranks: 2, reduce: ReduceKind::Sum };
            let loss = m.funcs[0].results[0].value;
            m.funcs[0].emit1(all_reduce, &[loss]).unwrap();
        }),
        (&["T0134"], |m| m.funcs[0].results[1].value = ValueId(0)),
        (&["T0134"], |m| m.funcs[0].results.extend_from_within(1..=1)),
        (&["T0134"], |m| m.funcs[0].results[1].kind = ResultKind::Update(9)),
        (&["T0135"], |m| m.mesh.axes[1].name = "dp".to_owned()),
        (&["T0135"], |m| m.mesh.axes[1].size = 0),
        (&["T0135"], |m| m.mesh.axes[1].name = "a b".to_owned()),
        (&["T0135"], |m| m.mesh.axes.clear()),
        (&["T0136"], |m| m.funcs[0].params[1].name = "x".to_owned()),
        (&["T0136"], |m| m.funcs.push(m.funcs[0].clone())),
        (&["T0136"], |m| m.funcs[0].results.extend_from_within(0..=0)),
        (&["T0102"], |m| {
            m.funcs[0].types[1].dtype = DType::Bf16;
        }),
    ];
    for (i, (expected, fault)) in faults.into_iter().enumerate() {
        let mut module = sharded();
        fault(&mut module);
        let found = codes(&module);
        for code in expected {
            assert!(found.contains(code), "fault {i}: expected {code}, found {found:?}");
        }
    }
}

#[test]
fn several_faults_are_all_found() {
    let mut module = sharded();
    module.mesh.axes[1].size = 0;
    module.funcs[0].types[3].dtype = DType::Bf16;
    module.funcs[0].params[1].name = "x".to_owned();
    let found = codes(&module);
    assert!(["T0131", "T0135", "T0136"].iter().all(|code| found.contains(code)), "{found:?}");
}

#[test]
fn kernels_stage_has_kernels_only() {
    let mut func = Func::new("step");
    let x = func.add_param("x", TensorType::new(DType::F32, &[2]), Role::Input, Init::Host);
    func.emit1(Neg, &[x]).unwrap();
    let module = Module { stage: Stage::Kernels, mesh: mesh(), funcs: vec![func] };
    assert_eq!(codes(&module), ["T0133"]);
}

#[test]
fn findings_name_the_module_path() {
    let mut module = sharded();
    let loc = module.funcs[0].intern("layers.3.wq");
    module.funcs[0].nodes[0].loc = loc;
    module.funcs[0].types[2].dims[1] = 5;
    let diags = verify(&module).unwrap_err();
    assert_eq!(diags.0[0].path.as_deref(), Some("layers.3.wq (einsum)"));
    assert!(diags.0[0].message.contains("f32[4, 5]") && diags.0[0].message.contains("f32[4, 3]"), "{diags}");
}

#[test]
fn broken_module_paths_do_not_stop_the_verifier() {
    let mut module = sharded();
    module.funcs[0].nodes[0].loc = LocId(50);
    module.funcs[0].types[2].dims[1] = 5;
    assert!(codes(&module).contains(&"T0131"));
}

#[test]
fn per_rank_parameters_have_their_part() {
    let mut func = Func::new("step");
    let rows = Layout::replicate().with(AxisId(0), Placement::Shard(0));
    let x = func.add_param("x", TensorType::new(DType::F32, &[3, 2]), Role::Param, Init::Zeros);
    func.params[0].global_dims = [5, 2].as_slice().into();
    func.params[0].layout = rows;
    func.emit1(Cast { to: DType::Bf16 }, &[x]).unwrap();
    let mut module = Module { stage: Stage::Local, mesh: mesh(), funcs: vec![func] };
    assert_eq!(codes(&module), Vec::<&str>::new());
    module.funcs[0].params[0].global_dims[0] = 7;
    assert_eq!(codes(&module), ["T0131"]);
}
