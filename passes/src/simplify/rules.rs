//! The rules of `simplify`.
//!
//! Each is directed from more to less work and named. `exact` rules give the same bits for every input but the payload of a
//! NaN; `reassociating` rules do not, and are opt-in. There is no commutativity: where an operand may stand on either side, both
//! sides have a rule. `(full value type dims)` is a constant; `@0` are the dimensions of a scalar.

use super::term::{Context, Fact, Number, Term, tensor};
use egg::{Applier, ConditionalApplier, EGraph, Id, Pattern, PatternAst, Rewrite, Subst, Symbol, Var};
use titan_ir::{DType, ice};

type Graph = EGraph<Term, Context>;

/// When a rule may be used.
#[derive(Debug, Clone, Copy)]
enum When {
    /// Always.
    Always,
    /// The variable has the type of the whole term: the other operand was the repeated scalar.
    Same(&'static str),
    /// `?x` has the type of the whole term, and the dimensions `?d` are not those of a scalar.
    Repeats,
    /// `?x` has the type of the whole term, and `?y` is a scalar.
    RepeatsScalar,
    /// The elements of the variable are of this type.
    Elements(&'static str, DType),
}

use When::{Always, Elements, Repeats, RepeatsScalar, Same};

/// Name, from, to, condition.
const EXACT: &[(&str, &str, &str, When)] = &[
    // Neutral elements. The neutral element of addition is -0: -0 + 0 is 0. Of subtraction it is 0.
    ("mul-one", "(mul ?x (full 1 ?t ?d))", "?x", Same("?x")),
    ("one-mul", "(mul (full 1 ?t ?d) ?x)", "?x", Same("?x")),
    ("div-one", "(div ?x (full 1 ?t ?d))", "?x", Same("?x")),
    ("add-minus-zero", "(add ?x (full -0.0 ?t ?d))", "?x", Same("?x")),
    ("minus-zero-add", "(add (full -0.0 ?t ?d) ?x)", "?x", Same("?x")),
    ("sub-zero", "(sub ?x (full 0 ?t ?d))", "?x", Same("?x")),
    ("min-self", "(min ?x ?x)", "?x", Always),
    ("max-self", "(max ?x ?x)", "?x", Always),
    // Signs. -(x - y) is not y - x: where x = y the zeros differ in sign.
    ("neg-neg", "(neg (neg ?x))", "?x", Always),
    ("mul-minus-one", "(mul ?x (full -1 ?t ?d))", "(neg ?x)", Same("?x")),
    ("minus-one-mul", "(mul (full -1 ?t ?d) ?x)", "(neg ?x)", Same("?x")),
    ("add-neg", "(add ?x (neg ?y))", "(sub ?x ?y)", Always),
    ("neg-add", "(add (neg ?x) ?y)", "(sub ?y ?x)", Always),
    ("sub-neg", "(sub ?x (neg ?y))", "(add ?x ?y)", Always),
    ("mul-neg-neg", "(mul (neg ?x) (neg ?y))", "(mul ?x ?y)", Always),
    ("div-neg-neg", "(div (neg ?x) (neg ?y))", "(div ?x ?y)", Always),
    // Casts. f32 holds every bf16, so going there and on is going directly.
    ("cast-same", "(cast ?t ?x)", "?x", Same("?x")),
    ("cast-widen-cast", "(cast ?t (cast f32 ?x))", "(cast ?t ?x)", Elements("?x", DType::Bf16)),
    // Shapes.
    ("reshape-same", "(reshape ?a ?x)", "?x", Same("?x")),
    ("reshape-reshape", "(reshape ?a (reshape ?b ?x))", "(reshape ?a ?x)", Always),
    ("reshape-full", "(reshape ?a (full ?c ?t ?b))", "(full ?c ?t ?a)", Always),
    ("broadcast-same", "(broadcast ?a ?x)", "?x", Same("?x")),
    ("broadcast-broadcast", "(broadcast ?a (broadcast ?b ?x))", "(broadcast ?a ?x)", Always),
    ("broadcast-full", "(broadcast ?a (full ?c ?t ?b))", "(full ?c ?t ?a)", Always),
    // A change of layout that was just made.
    ("reshard-reshard", "(reshard ?l (reshard ?l ?x))", "(reshard ?l ?x)", Always),
];

/// Ops that repeat a scalar operand.
const BINARY: [&str; 6] = ["add", "sub", "mul", "div", "min", "max"];

/// Rules that give the same bits.
pub(super) fn exact() -> Vec<Rewrite<Term, Context>> {
    let mut rules: Vec<_> = EXACT.iter().map(|(name, from, to, when)| rule(name, from, to, *when)).collect();
    for op in BINARY {
        // The op repeats a scalar itself.
        let mut either_side = |what: &str, repeated: &str, scalar: &str, when: When| {
            let (right, left) = (|y: &str| format!("({op} ?x {y})"), |y: &str| format!("({op} {y} ?x)"));
            rules.push(rule(&format!("{op}-{what}"), &right(repeated), &right(scalar), when));
            rules.push(rule(&format!("{what}-{op}"), &left(repeated), &left(scalar), when));
        };
        either_side("full", "(full ?c ?t ?d)", "(full ?c ?t @0)", Repeats);
        either_side("broadcast", "(broadcast ?d ?y)", "?y", RepeatsScalar);
    }
    // What the cast rounds has been rounded to the constant's type.
    rules
        .push(computed("cast-full", "(cast ?s (full ?c ?t ?d))", "(full ?r ?s ?d)", |c, t| Some(t.round(c))));
    // The reciprocal of a power of two is exact, and multiplying by it rounds as dividing does.
    rules.push(computed(
        "div-power-of-two",
        "(div ?x (full ?c ?t ?d))",
        "(mul ?x (full ?r ?t ?d))",
        |c, _| {
            let mantissa = c.to_bits() & ((1 << 52) - 1);
            (mantissa == 0 && (1e-30..1e30).contains(&c.abs())).then(|| 1.0 / c)
        },
    ));
    rules
}

/// Rules that change rounding.
pub(super) fn reassociating() -> Vec<Rewrite<Term, Context>> {
    vec![
        // Plus zero is neutral but for the sign of zero.
        rule("add-zero", "(add ?x (full 0 ?t ?d))", "?x", Same("?x")),
        rule("zero-add", "(add (full 0 ?t ?d) ?x)", "?x", Same("?x")),
        // Multiplication is faster than division; the reciprocal is rounded.
        computed("div-constant", "(div ?x (full ?c ?t ?d))", "(mul ?x (full ?r ?t ?d))", |c, t| {
            let reciprocal = t.round(1.0 / c);
            reciprocal.is_normal().then_some(reciprocal)
        }),
    ]
}

/// A rule of the table.
fn rule(name: &str, from: &str, to: &str, when: When) -> Rewrite<Term, Context> {
    let condition = move |graph: &mut Graph, whole: Id, subst: &Subst| {
        let ty = |var: &str| tensor(graph, subst[variable(var)]);
        let same = |var: &str| ty(var).same_tensor(tensor(graph, whole));
        match when {
            Always => true,
            Same(x) => same(x),
            Repeats => same("?x") && !is_scalar(graph, subst[variable("?d")]),
            RepeatsScalar => same("?x") && ty("?y").rank() == 0 && ty("?x").rank() != 0,
            Elements(x, dtype) => ty(x).dtype == dtype,
        }
    };
    made(Rewrite::new(name, pattern(from), ConditionalApplier { condition, applier: pattern(to) }))
}

/// Whether a class of dimensions is that of a scalar.
fn is_scalar(graph: &Graph, dims: Id) -> bool {
    matches!(&graph[dims].data, Fact::Attr(attr) if attr.0 == 0)
}

/// A rule that computes the constant `?r` from the constant `?c` of type `?t`.
fn computed(
    name: &str,
    from: &str,
    to: &str,
    compute: fn(f64, DType) -> Option<f64>,
) -> Rewrite<Term, Context> {
    made(Rewrite::new(name, pattern(from), Computed { compute, to: pattern(to) }))
}

/// Applies a pattern with `?r` computed.
struct Computed {
    compute: fn(f64, DType) -> Option<f64>,
    to: Pattern<Term>,
}

impl Applier<Term, Context> for Computed {
    fn apply_one(
        &self,
        graph: &mut Graph,
        class: Id,
        subst: &Subst,
        ast: Option<&PatternAst<Term>>,
        rule: Symbol,
    ) -> Vec<Id> {
        let fact = |var: &str| graph[subst[variable(var)]].data.clone();
        let (Fact::Number(c), Fact::DType(t)) = (fact("?c"), fact("?t")) else {
            ice!("{rule}: not a constant")
        };
        let Some(result) = (self.compute)(c, t) else { return Vec::new() };
        let mut subst = subst.clone();
        subst.insert(variable("?r"), graph.add(Term::Number(Number::new(result))));
        self.to.apply_one(graph, class, &subst, ast, rule)
    }
}

fn variable(name: &str) -> Var {
    name.parse().unwrap_or_else(|e| ice!("variable {name}: {e}"))
}

fn pattern(text: &str) -> Pattern<Term> {
    text.parse().unwrap_or_else(|e| ice!("pattern {text}: {e}"))
}

fn made(rule: Result<Rewrite<Term, Context>, String>) -> Rewrite<Term, Context> {
    rule.unwrap_or_else(|e| ice!("{e}"))
}
