//! `simplify` on random graphs of cheap ops: the same bits before and after, on values that tell rules apart.

use titan_ir::eval::{EvalMode, Tensor};
use titan_ir::ops::{Add, Broadcast, Cast, Div, Full, Max, Min, Mul, Neg, Reshape, Sub};
use titan_ir::{
    DType, Func, Init, Mesh, Module, Op, ResultKind, Role, Stage, TensorType, ValueId, text, verify,
};
use titan_passes::pass::{Changed, NumericsClass, Pass, PassCx};
use titan_passes::simplify::Simplify;
use titan_tests::run::{State, run};
use titan_tests::state::Draw;

/// Values with their own algebra.
const SPECIAL: [f64; 12] =
    [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 0.1, 3.0, -7.25, f64::INFINITY, f64::NEG_INFINITY, 1e-40];

fn special(draw: &mut Draw) -> f64 {
    SPECIAL[draw.index(SPECIAL.len() as u64) as usize]
}

/// An op on one or two of `values`.
fn random_node(draw: &mut Draw, values: &[ValueId], func: &Func) -> (Op, Vec<ValueId>) {
    let pick = |draw: &mut Draw| values[draw.index(values.len() as u64) as usize];
    let (x, y) = (pick(draw), pick(draw));
    let dims: &[u64] = [&[][..], &[4], &[2, 2], &[3, 4]][draw.index(4) as usize];
    let dtype = [DType::F32, DType::Bf16][draw.index(2) as usize];
    match draw.index(14) {
        0 | 1 => (Full::new(special(draw), dtype, dims).into(), vec![]),
        2 => (Cast { to: dtype }.into(), vec![x]),
        3 => {
            (Reshape::new(if func.ty(x).num_elements() == 4 { &[2, 2] } else { &[4, 1, 3] }).into(), vec![x])
        }
        4 => (Broadcast::new(dims).into(), vec![x]),
        5 | 6 => (Neg.into(), vec![x]),
        7 => (Min.into(), vec![x, x]),
        8 => (Max.into(), vec![x, y]),
        9 => (Add.into(), vec![x, y]),
        10 => (Sub.into(), vec![x, y]),
        11 => (Div.into(), vec![x, y]),
        _ => (Mul.into(), vec![x, y]),
    }
}

/// A function that shows its last values.
fn random_func(draw: &mut Draw) -> (Func, State) {
    let mut func = Func::new("step");
    let mut state = State::new();
    let mut values = Vec::new();
    for (i, dims) in [&[][..], &[4], &[3, 4]].into_iter().enumerate() {
        let ty = TensorType::new(DType::F32, dims);
        let data = (0..ty.num_elements()).map(|_| DType::F32.round(special(draw))).collect();
        state.insert(format!("x{i}"), Tensor { dims: dims.into(), data });
        values.push(func.add_param(&format!("x{i}"), ty, Role::Buffer, Init::Zeros));
    }
    while func.nodes.len() < 40 {
        let (op, ins) = random_node(draw, &values, &func);
        // Ops that do not fit are not built.
        values.extend(func.emit1(op, &ins));
    }
    for (i, &value) in values.iter().rev().take(6).enumerate() {
        func.add_result(value, ResultKind::Output(format!("y{i}")));
    }
    (func, state)
}

/// Bits, with one NaN.
fn bits(outputs: &State) -> Vec<(&String, Vec<u64>)> {
    let bits = |x: &f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
    outputs.iter().map(|(name, t)| (name, t.data.iter().map(bits).collect())).collect()
}

#[test]
fn random_graphs_keep_their_bits() {
    let mut draw = Draw::new("simplify");
    let (mut num_changed, mut num_removed) = (0, 0);
    for case in 0..500 {
        let (func, mut state) = random_func(&mut draw);
        let before = func.nodes.len();
        let mut module = Module { stage: Stage::Graph, mesh: Mesh::default(), funcs: vec![func.clone()] };
        let pass = Simplify::default();
        assert_eq!(pass.numerics(), NumericsClass::Exact);
        if pass.run(&mut module, &mut PassCx::default()).unwrap() == Changed::Yes {
            num_changed += 1;
        }
        verify::verify(&module).unwrap();
        num_removed += before - module.funcs[0].nodes.len();
        let expected = run(&func, &mut state, EvalMode::Rounded);
        let actual = run(&module.funcs[0], &mut state, EvalMode::Rounded);
        if bits(&actual) != bits(&expected) {
            let before = Module { funcs: vec![func], ..module.clone() };
            let (before, after) = (text::print(&before), text::print(&module));
            panic!(
                "case {case}\n{before}\n{after}\nstate {state:?}\nexpected {expected:?}\nactual {actual:?}"
            );
        }
    }
    assert!(
        num_changed > 450 && num_removed > 5_000,
        "{num_changed} graphs changed, {num_removed} nodes removed"
    );
}
