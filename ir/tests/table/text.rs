//! The text form gives modules back, and never panics.

use crate::common::{Rng, mesh, module_of, samples};
use std::sync::Arc;
use titan_ir::kernel::{
    Access, Attention, BinaryFn, Cols, Contract, Expr, ExprId, Input, KernelSpec, Native, Output, ReduceKind,
    RowKernel, ScatterAdd, Store, UnaryFn,
};
use titan_ir::ops::{AdamW, Add, Full, Launch, Neg, Reshard};
use titan_ir::text::{parse, print};
use titan_ir::{
    AxisId, DType, Decay, Func, Init, Layout, LrSchedule, Module, Op, Phase, Placement, ResultKind, Role,
    RopeScaling, Stage, TensorType,
};

fn check_round_trip(module: &Module) {
    let text = print(module);
    let parsed = parse("m.titan", &text).unwrap_or_else(|diag| panic!("{diag}\n{text}"));
    assert_eq!(parsed, module.canonical(), "{text}");
    assert_eq!(print(&parsed), text);
}

#[test]
fn every_op_round_trips() {
    for (op, ins) in samples() {
        check_round_trip(&module_of(&op, &ins));
    }
}

#[test]
fn types_left_out_are_inferred() {
    for (op, ins) in samples() {
        let module = module_of(&op, &ins);
        let full = print(&module);
        let short: String = full
            .lines()
            .map(|line| match line.split_once(" : ") {
                Some((node, suffix)) => format!("{node} {}\n", &suffix[suffix.find("loc").unwrap()..]),
                None => format!("{line}\n"),
            })
            .collect();
        let parsed = parse("m.titan", &short).unwrap_or_else(|diag| panic!("{diag}\n{short}"));
        assert_eq!(print(&parsed), full);
    }
}

/// A module with every kind of init, role, layout and phase, and values out of order.
fn rich_module() -> Module {
    let mut func = Func::new("micro");
    func.repeat = 4;
    let inits = [
        Init::Zeros,
        Init::Ones,
        Init::Host,
        Init::Normal { std: 0.1 },
        Init::TruncNormal { std: f64::MIN_POSITIVE / 3.0, low: -2.0, high: f64::INFINITY },
        Init::Rope { theta: 5e5, scaling: None, sin: true },
        Init::Rope {
            theta: 1e4,
            scaling: Some(RopeScaling { factor: 8.0, low_freq: 1.0, high_freq: 4.0, original: 8192.0 }),
            sin: false,
        },
        Init::LrSchedule(LrSchedule {
            lr: 8e-4,
            warmup: 2,
            stable: 1,
            decay: 8,
            kind: Decay::Cosine,
            min_factor: -0.0,
        }),
        Init::BiasCorrection { beta: 0.95 },
    ];
    let roles = [Role::Param, Role::Optimizer, Role::GradAccum, Role::Buffer, Role::Input];
    let ty = TensorType::new(DType::F32, &[6, 4]);
    for (i, init) in inits.into_iter().enumerate() {
        let placement = if i % 2 == 0 { Placement::Shard(1) } else { Placement::Partial(ReduceKind::Max) };
        let layout = Layout::replicate().with(AxisId(i as u32 % 2), placement);
        let name = format!("a \"{i}\"\n\\ \u{e9}\u{1}");
        func.add_param(&name, ty.with_layout(layout), roles[i % roles.len()], init);
    }
    func.params[1].global_dims = [12, 4].as_slice().into();
    func.params[2].layout = Layout::replicate();
    let unused = func.new_value(ty.clone());
    func.loc = func.intern("layers.0.attention");
    let a = func.emit1(Add, &[func.params[0].value, func.params[1].value]).unwrap();
    func.phase = Phase::Backward;
    func.loc = func.intern("");
    let b = func.emit1(Neg, &[a]).unwrap();
    func.phase = Phase::Update;
    let to = Layout::replicate().with(AxisId(1), Placement::Shard(0)).with(AxisId(0), Placement::Shard(0));
    let c = func.emit1(Reshard { to: to.clone(), reduce: None }, &[b]).unwrap();
    func.types[c.index()].layout = to;
    for value in
        [f64::NAN, f64::from_bits(0xfff8_0000_0000_0123), f64::NEG_INFINITY, -0.0, 1e300, 5e-324, 3.0]
    {
        func.emit1(Full { value, dtype: DType::F32, dims: [].as_slice().into() }, &[]).unwrap();
    }
    func.add_result(c, ResultKind::Update(1));
    func.add_result(b, ResultKind::Output("grad \"norm\"".to_owned()));
    assert!(unused.index() < func.num_values());
    Module { stage: Stage::Sharded, mesh: mesh(), funcs: vec![func, Func::new("update")] }
}

#[test]
fn rich_module_round_trips() {
    let module = rich_module();
    let text = print(&module);
    let parsed = parse("m.titan", &text).unwrap_or_else(|diag| panic!("{diag}\n{text}"));
    // NaN is not equal to itself: the texts, which hold its bits, are compared.
    assert_eq!(print(&parsed), text);
    assert_eq!(print(&module.canonical()), text);
    assert_eq!(parsed.funcs[0].params, module.canonical().funcs[0].params);
    assert_eq!(parsed.funcs[0].types, module.canonical().funcs[0].types);
    let bits: Vec<u64> = parsed.funcs[0]
        .nodes
        .iter()
        .filter_map(|n| if let Op::Full(full) = &n.op { Some(full.value.to_bits()) } else { None })
        .collect();
    assert_eq!(bits[..2], [f64::NAN.to_bits(), 0xfff8_0000_0000_0123]);
}

fn launch_module(spec: KernelSpec) -> Module {
    let launch = Launch {
        spec: Arc::new(spec),
        rows: 3,
        len: None,
        results: vec![TensorType::new(DType::F32, &[1, 2])],
    };
    let mut func = Func::new("step");
    let out = func.new_value(TensorType::new(DType::F32, &[1, 2]));
    let (loc, phase) = (func.loc, func.phase);
    let outs = [out].as_slice().into();
    func.nodes.push(titan_ir::Node { op: launch.into(), ins: [].as_slice().into(), outs, loc, phase });
    Module { stage: Stage::Kernels, mesh: mesh(), funcs: vec![func] }
}

/// Every access, store and expression.
fn rich_kernel() -> RowKernel {
    let e = ExprId;
    let accesses = [
        Access::Full,
        Access::Row,
        Access::Col,
        Access::Scalar,
        Access::Tile,
        Access::Table { row_div: 1, row_mod: 2, width: 3 },
        Access::Gather { ids: 1, num: 9 },
    ];
    let mut exprs: Vec<Expr> = (0..accesses.len() as u32).map(Expr::Load).collect();
    exprs.extend([0.1_f32, -0.0, f32::NAN, f32::INFINITY, 1e-45].map(|x| Expr::Const(x.to_bits())));
    exprs.extend([Expr::Const(0xffc0_0001), Expr::ColIndex]);
    use UnaryFn::*;
    exprs.extend([Neg, Exp, Log, Sqrt, Rsqrt, Sigmoid, RoundBf16].map(|f| Expr::Unary(f, e(0))));
    exprs.extend(
        [BinaryFn::Add, BinaryFn::Sub, BinaryFn::Mul, BinaryFn::Div, BinaryFn::Max, BinaryFn::Min]
            .map(|f| Expr::Binary(f, e(3), e(4))),
    );
    exprs.extend([
        Expr::Fma(e(1), e(2), e(3)),
        Expr::SelectEq(e(1), e(2), e(3), e(4)),
        Expr::SelectLt(e(5), e(6), e(7), e(8)),
        Expr::SwapPairs(e(0)),
        Expr::RowSum(e(0)),
        Expr::RowMax(e(0)),
    ]);
    let stores = [Store::Full, Store::Row, Store::ColSum { block_rows: 8 }];
    RowKernel {
        cols: Cols::Static(64),
        inputs: accesses.map(|access| Input { dtype: DType::Bf16, access }).to_vec(),
        outputs: stores
            .map(|store| Output { dtype: DType::F32, store, value: e(exprs.len() as u32 - 1) })
            .to_vec(),
        exprs,
    }
}

#[test]
fn every_kernel_round_trips() {
    let attention = Attention {
        dtype: DType::Bf16,
        batch: 1,
        q_tokens: 2,
        kv_tokens: 3,
        heads: 4,
        kv_heads: 2,
        head_dim: 6,
        causal: true,
        scale_bits: 0.3_f32.to_bits(),
    };
    let mut product = Contract {
        dtype: DType::Bf16,
        out: DType::F32,
        m: 1,
        n: 2,
        k: 3,
        trans_a: true,
        trans_b: false,
        epilogue: None,
    };
    let plain = KernelSpec::Native(Native::Contract(product.clone()));
    product.epilogue = Some(rich_kernel());
    let scatter = ScatterAdd { dtype: DType::Bf16, out: DType::F32, num: 5, tokens: 6, cols: 7 };
    let specs = [
        KernelSpec::Row(rich_kernel()),
        KernelSpec::Row(RowKernel { cols: Cols::Flat { chunk: 4096 }, ..rich_kernel() }),
        plain,
        KernelSpec::Native(Native::Contract(product)),
        KernelSpec::Native(Native::Attention(attention.clone())),
        KernelSpec::Native(Native::AttentionGrad(attention)),
        KernelSpec::Native(Native::ScatterAdd(scatter)),
    ];
    for spec in specs {
        check_round_trip(&launch_module(spec));
    }
}

#[test]
fn faults_are_placed() {
    let head = "stage = graph\nmesh = [dp = 2]\n";
    let body = |line: &str| format!("{head}func @f(%0: f32[2, 3] {{}}) repeat 1 {{\n  {line}\n}}\n");
    let cases: Vec<(String, &str, u32, u32, &str)> = vec![
        (
            "stage = grap".into(),
            "T0002",
            1,
            9,
            "expected a stage (graph, sharded, local, kernels), found `grap`",
        ),
        (format!("{head}$"), "T0001", 3, 1, "unexpected character '$'"),
        (body("%1 = add %0, %7"), "T0005", 4, 16, "value `%7` is not defined above"),
        (body("%1 = flip %0"), "T0003", 4, 8, "unknown op `flip`"),
        (
            body("%1 = cast %0 {from = f32}"),
            "T0004",
            4,
            8,
            "`cast` needs the attribute `to` (an element type)",
        ),
        (body("%1 = cast %0 {to = f32, to = f32}"), "T0004", 4, 8, "attribute `to` is given twice"),
        (body("%1 = cast %0 {to = f64}"), "T0002", 4, 22, "expected a kernel"),
        (body("%0 = neg %0"), "T0006", 4, 3, "value `%0` is defined twice"),
        (body("%1 = neg %0 : f32[2, 3], f32[2]"), "T0002", 4, 3, "1 results with 2 types"),
        (body("%1 = neg %0 : f32[2, 3] @ [tp:S0]"), "T0005", 4, 30, "the mesh has no axis `tp`"),
        (body("%1 = neg %0 : f32[2, 3] @ [dp:S0, dp:S1]"), "T0006", 4, 37, "two placements"),
        (body("%1 = add %0"), "T0101", 4, 3, "`add` takes 2 operands, got 1"),
        (body("%1 = neg %0 : f32[99999999999999999999]"), "T0001", 4, 21, "is not a whole number in range"),
        (body("%1 = neg %0 : f32[4294967296, 4294967296]"), "T0001", 4, 20, "too many or too large"),
        (body("output \"x"), "T0001", 4, 10, "string without end"),
    ];
    for (text, code, line, column, message) in cases {
        let diag = parse("m.titan", &text).unwrap_err();
        let span = diag.span.as_ref().unwrap_or_else(|| panic!("no place: {diag}"));
        assert_eq!((diag.code, span.line, span.column), (code, line, column), "{diag}");
        assert!(diag.message.contains(message), "{diag}");
    }
}

#[test]
fn mutated_texts_do_not_panic() {
    let adamw = AdamW { beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1, decoupled: true };
    let mut texts = vec![print(&rich_module()), print(&launch_module(KernelSpec::Row(rich_kernel())))];
    texts.extend(samples().iter().map(|(op, ins)| print(&module_of(op, ins))));
    assert!(texts.iter().any(|t| t.contains("adamw")), "{adamw:?}");
    let mut rng = Rng(7);
    let mut num_parsed = 0;
    for _ in 0..20_000 {
        let mut text: Vec<char> = texts[rng.below(texts.len())].chars().collect();
        for _ in 0..=rng.below(3) {
            mutate(&mut text, &mut rng);
        }
        let text: String = text.into_iter().collect();
        let Ok(module) = parse("m.titan", &text) else { continue };
        num_parsed += 1;
        let printed = print(&module);
        let again = parse("m.titan", &printed).unwrap_or_else(|diag| panic!("{diag}\n{printed}"));
        assert_eq!(print(&again), printed);
        // Whether it is right is not the question, only that it is answered.
        let _ = titan_ir::verify::verify(&module);
    }
    assert!(num_parsed > 1000, "only {num_parsed} mutated texts parsed: the mutations test too little");
}

fn mutate(text: &mut Vec<char>, rng: &mut Rng) {
    let at = rng.below(text.len());
    match rng.below(6) {
        0 => {
            text.remove(at);
        }
        1 => text.insert(at, char::from(32 + rng.below(95) as u8)),
        2 => text[at] = char::from(b'0' + rng.below(10) as u8),
        3 => text[at] = ['\u{e9}', '\n', '"', '%', '\\', '-', '@'][rng.below(7)],
        4 => {
            let end = (at + rng.below(30)).min(text.len());
            let copy: Vec<char> = text[at..end].to_vec();
            let to = rng.below(text.len());
            text.splice(to..to, copy);
        }
        _ => {
            let end = (at + rng.below(20)).min(text.len());
            text.drain(at..end);
            if text.is_empty() {
                text.push('x');
            }
        }
    }
}
