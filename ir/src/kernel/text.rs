//! The text of kernels, in one line.
//!
//! ```text
//! row 64 (bf16 full, f32 col) { load 0, load 1, mul 0 1, row_sum 2 } -> (bf16 full 2, f32 row 3)
//! contract(dtype = bf16, out = f32, m = 4, n = 5, k = 6, trans_a = false, trans_b = true, epilogue = row 5 (f32 tile) { .. } -> (..))
//! ```
//! Expressions are numbered from 0 in the order written. `flat 4096` instead of `row 64` is a vector in chunks of 4096 elements.

use super::row::{Access, BinaryFn, Cols, Expr, ExprId, Input, Output, RowKernel, Store, UnaryFn};
use super::{Attention, Contract, KernelSpec, Native, ScatterAdd};
use crate::text::cursor::Cursor;
use crate::{Diag, DiagResult};

const UNARY: [(&str, UnaryFn); 7] = [
    ("neg", UnaryFn::Neg),
    ("exp", UnaryFn::Exp),
    ("log", UnaryFn::Log),
    ("sqrt", UnaryFn::Sqrt),
    ("rsqrt", UnaryFn::Rsqrt),
    ("sigmoid", UnaryFn::Sigmoid),
    ("round_bf16", UnaryFn::RoundBf16),
];
const BINARY: [(&str, BinaryFn); 6] = [
    ("add", BinaryFn::Add),
    ("sub", BinaryFn::Sub),
    ("mul", BinaryFn::Mul),
    ("div", BinaryFn::Div),
    ("max", BinaryFn::Max),
    ("min", BinaryFn::Min),
];

/// The text of a kernel.
pub fn print(spec: &KernelSpec) -> String {
    match spec {
        KernelSpec::Row(kernel) => row(kernel),
        KernelSpec::Native(Native::Contract(c)) => {
            let epilogue = c.epilogue.as_ref().map_or(String::new(), |k| format!(", epilogue = {}", row(k)));
            format!(
                "contract(dtype = {}, out = {}, m = {}, n = {}, k = {}, trans_a = {}, trans_b = {}{epilogue})",
                c.dtype, c.out, c.m, c.n, c.k, c.trans_a, c.trans_b
            )
        }
        KernelSpec::Native(Native::Attention(a)) => attention("attention", a),
        KernelSpec::Native(Native::AttentionGrad(a)) => attention("attention_grad", a),
        KernelSpec::Native(Native::ScatterAdd(s)) => format!(
            "scatter_add(dtype = {}, out = {}, num = {}, tokens = {}, cols = {})",
            s.dtype, s.out, s.num, s.tokens, s.cols
        ),
    }
}

fn attention(name: &str, a: &Attention) -> String {
    format!(
        "{name}(dtype = {}, batch = {}, q_tokens = {}, kv_tokens = {}, heads = {}, kv_heads = {}, head_dim = {}, causal = {}, scale = {})",
        a.dtype,
        a.batch,
        a.q_tokens,
        a.kv_tokens,
        a.heads,
        a.kv_heads,
        a.head_dim,
        a.causal,
        real32(a.scale_bits)
    )
}

/// An f32 that parses back to the same bits.
fn real32(bits: u32) -> String {
    let x = f32::from_bits(bits);
    if x.is_nan() { format!("nan({bits:#x})") } else { format!("{x:?}") }
}

fn row(kernel: &RowKernel) -> String {
    let cols = match kernel.cols {
        Cols::Static(cols) => format!("row {cols}"),
        Cols::Flat { chunk } => format!("flat {chunk}"),
    };
    let list = |items: Vec<String>| items.join(", ");
    let inputs = kernel.inputs.iter().map(|i| format!("{} {}", i.dtype, access(i.access))).collect();
    let outputs =
        kernel.outputs.iter().map(|o| format!("{} {} {}", o.dtype, store(o.store), o.value.0)).collect();
    let exprs = kernel.exprs.iter().map(expr).collect();
    format!("{cols} ({}) {{ {} }} -> ({})", list(inputs), list(exprs), list(outputs))
}

fn access(access: Access) -> String {
    match access {
        Access::Full => "full".to_owned(),
        Access::Row => "row".to_owned(),
        Access::Col => "col".to_owned(),
        Access::Scalar => "scalar".to_owned(),
        Access::Tile => "tile".to_owned(),
        Access::Table { row_div, row_mod, width } => format!("table({row_div}, {row_mod}, {width})"),
        Access::Gather { ids, num } => format!("gather({ids}, {num})"),
    }
}

fn store(store: Store) -> String {
    match store {
        Store::Full => "full".to_owned(),
        Store::Row => "row".to_owned(),
        Store::ColSum { block_rows } => format!("col_sum({block_rows})"),
    }
}

fn expr(expr: &Expr) -> String {
    let name = match *expr {
        Expr::Load(input) => return format!("load {input}"),
        Expr::Const(bits) => return format!("const {}", real32(bits)),
        Expr::ColIndex => "col_index",
        Expr::Unary(f, _) => UNARY.iter().find(|(_, g)| *g == f).map_or("", |(word, _)| word),
        Expr::Binary(f, ..) => BINARY.iter().find(|(_, g)| *g == f).map_or("", |(word, _)| word),
        Expr::Fma(..) => "fma",
        Expr::SelectEq(..) => "select_eq",
        Expr::SelectLt(..) => "select_lt",
        Expr::SwapPairs(_) => "swap_pairs",
        Expr::RowSum(_) => "row_sum",
        Expr::RowMax(_) => "row_max",
    };
    expr.operands().fold(name.to_owned(), |text, operand| format!("{text} {}", operand.0))
}

/// Reads a kernel.
///
/// # Errors
/// T0001, T0002; T0005 for an expression or input that does not exist.
pub(crate) fn parse(c: &mut Cursor<'_>) -> DiagResult<KernelSpec> {
    const KINDS: [&str; 6] = ["row", "flat", "contract", "attention", "attention_grad", "scatter_add"];
    let kind = c.choice("a kernel", &KINDS.map(|kind| (kind, kind)))?;
    if let "row" | "flat" = kind {
        return Ok(KernelSpec::Row(parse_row(c, kind == "flat")?));
    }
    c.sign('(')?;
    c.field("dtype")?;
    let dtype = c.dtype()?;
    let native = match kind {
        "contract" => {
            let out = next(c, "out", Cursor::dtype)?;
            let [m, n, k] = counts(c, ["m", "n", "k"])?;
            let trans_a = next(c, "trans_a", Cursor::boolean)?;
            let trans_b = next(c, "trans_b", Cursor::boolean)?;
            let epilogue = if c.eat_sign(',') {
                c.field("epilogue")?;
                c.keyword("row")?;
                Some(parse_row(c, false)?)
            } else {
                None
            };
            Native::Contract(Contract { dtype, out, m, n, k, trans_a, trans_b, epilogue })
        }
        "scatter_add" => {
            let out = next(c, "out", Cursor::dtype)?;
            let [num, tokens, cols] = counts(c, ["num", "tokens", "cols"])?;
            Native::ScatterAdd(ScatterAdd { dtype, out, num, tokens, cols })
        }
        _ => {
            let names = ["batch", "q_tokens", "kv_tokens", "heads", "kv_heads", "head_dim"];
            let [batch, q_tokens, kv_tokens, heads, kv_heads, head_dim] = counts(c, names)?;
            let causal = next(c, "causal", Cursor::boolean)?;
            let scale_bits = next(c, "scale", Cursor::real32)?.to_bits();
            let spec = Attention {
                dtype,
                batch,
                q_tokens,
                kv_tokens,
                heads,
                kv_heads,
                head_dim,
                causal,
                scale_bits,
            };
            if kind == "attention" { Native::Attention(spec) } else { Native::AttentionGrad(spec) }
        }
    };
    c.sign(')').map(|()| KernelSpec::Native(native))
}

/// Reads `, name = ..`.
fn next<'a, T>(c: &mut Cursor<'a>, name: &str, read: fn(&mut Cursor<'a>) -> DiagResult<T>) -> DiagResult<T> {
    c.sign(',')?;
    c.field(name)?;
    read(c)
}

/// Reads named numbers of at least 1, and small enough to be multiplied with each other.
fn counts<const N: usize>(c: &mut Cursor<'_>, names: [&str; N]) -> DiagResult<[u64; N]> {
    let mut counts = [0; N];
    for (count, name) in counts.iter_mut().zip(names) {
        c.sign(',')?;
        c.field(name)?;
        *count = parse_count(c)?;
    }
    Ok(counts)
}

fn parse_count(c: &mut Cursor<'_>) -> DiagResult<u64> {
    let at = c.position();
    let count = c.uint()?;
    if (1..=1 << 40).contains(&count) {
        return Ok(count);
    }
    Err(c.place_from(at, Diag::new("T0001", format!("{count} is not a size from 1 to 2^40"))))
}

fn parse_row(c: &mut Cursor<'_>, flat: bool) -> DiagResult<RowKernel> {
    let cols = parse_count(c)?;
    let cols = if flat { Cols::Flat { chunk: cols } } else { Cols::Static(cols) };
    c.sign('(')?;
    let inputs = c.list(')', |c| Ok(Input { dtype: c.dtype()?, access: parse_access(c)? }))?;
    for input in &inputs {
        if let Access::Gather { ids, .. } = input.access {
            check(c, "input", ids, inputs.len())?;
        }
    }
    c.sign('{')?;
    let mut exprs = Vec::new();
    c.list('}', |c| {
        let expr = parse_expr(c, inputs.len(), exprs.len())?;
        exprs.push(expr);
        Ok(())
    })?;
    if !c.eat_arrow() {
        return Err(c.expected("`->`"));
    }
    c.sign('(')?;
    let outputs = c.list(')', |c| {
        Ok(Output { dtype: c.dtype()?, store: parse_store(c)?, value: operand(c, exprs.len())? })
    })?;
    Ok(RowKernel { cols, inputs, exprs, outputs })
}

fn parse_access(c: &mut Cursor<'_>) -> DiagResult<Access> {
    const SIMPLE: [(&str, Access); 5] = [
        ("full", Access::Full),
        ("row", Access::Row),
        ("col", Access::Col),
        ("scalar", Access::Scalar),
        ("tile", Access::Tile),
    ];
    if c.eat_word("table") {
        c.sign('(')?;
        let row_div = parse_count(c)?;
        c.sign(',')?;
        let row_mod = parse_count(c)?;
        c.sign(',')?;
        let width = parse_count(c)?;
        return c.sign(')').map(|()| Access::Table { row_div, row_mod, width });
    }
    if c.eat_word("gather") {
        c.sign('(')?;
        let ids = c.uint32()?;
        c.sign(',')?;
        let num = parse_count(c)?;
        return c.sign(')').map(|()| Access::Gather { ids, num });
    }
    c.choice("an access", &SIMPLE)
}

fn parse_store(c: &mut Cursor<'_>) -> DiagResult<Store> {
    if c.eat_word("col_sum") {
        c.sign('(')?;
        let block_rows = parse_count(c)?;
        return c.sign(')').map(|()| Store::ColSum { block_rows });
    }
    c.choice("a store", &[("full", Store::Full), ("row", Store::Row)])
}

/// Checks that a number names one of `count` things.
fn check(c: &Cursor<'_>, what: &str, number: u32, count: usize) -> DiagResult<()> {
    if (number as usize) < count {
        return Ok(());
    }
    let message = format!("{what} {number} does not exist above: there are {count}");
    Err(c.place_from(c.position().saturating_sub(1), Diag::new("T0005", message)))
}

/// Reads the number of an expression.
fn operand(c: &mut Cursor<'_>, num_exprs: usize) -> DiagResult<ExprId> {
    let number = c.uint32()?;
    check(c, "expression", number, num_exprs).map(|()| ExprId(number))
}

fn parse_expr(c: &mut Cursor<'_>, num_inputs: usize, num_exprs: usize) -> DiagResult<Expr> {
    let at = c.position();
    let name = c.word("an expression")?;
    let mut arg = || operand(c, num_exprs);
    if let Some(&(_, f)) = UNARY.iter().find(|(word, _)| *word == name) {
        return Ok(Expr::Unary(f, arg()?));
    }
    if let Some(&(_, f)) = BINARY.iter().find(|(word, _)| *word == name) {
        return Ok(Expr::Binary(f, arg()?, arg()?));
    }
    Ok(match name {
        "load" => {
            let input = c.uint32()?;
            check(c, "input", input, num_inputs)?;
            Expr::Load(input)
        }
        "const" => Expr::Const(c.real32()?.to_bits()),
        "col_index" => Expr::ColIndex,
        "fma" => Expr::Fma(arg()?, arg()?, arg()?),
        "select_eq" => Expr::SelectEq(arg()?, arg()?, arg()?, arg()?),
        "select_lt" => Expr::SelectLt(arg()?, arg()?, arg()?, arg()?),
        "swap_pairs" => Expr::SwapPairs(arg()?),
        "row_sum" => Expr::RowSum(arg()?),
        "row_max" => Expr::RowMax(arg()?),
        _ => return Err(c.place_from(at, Diag::new("T0005", format!("unknown expression `{name}`")))),
    })
}
