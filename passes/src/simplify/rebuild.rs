//! Back from the e-graph to a function.

use super::term::{Context, Term, tensor};
use egg::{CostFunction, EGraph, Extractor, Id, Language};
use smallvec::smallvec;
use titan_ir::{DiagResult, Func, LocId, Node, Phase, TensorType, ValueId, Values, ice};

type Graph = EGraph<Term, Context>;

/// Cost of a term by the op table: its traffic and arithmetic, and one for being there. A division counts twice: it takes longer than a
/// product, which the number of operations does not show.
struct TableCost<'a>(&'a Graph);

impl CostFunction<Term> for TableCost<'_> {
    type Cost = f64;

    fn cost<C: FnMut(Id) -> f64>(&mut self, term: &Term, mut costs: C) -> f64 {
        let graph = self.0;
        if term.is_leaf() {
            return 0.0;
        }
        let (op, ins) = term.op(graph);
        let types: Vec<&TensorType> = ins.iter().map(|&id| tensor(graph, id)).collect();
        let outs = op.rules().infer(&types).unwrap_or_else(|e| ice!("{e}"));
        let out: Vec<&TensorType> = outs.iter().collect();
        let cost = op.rules().cost(&types, &out);
        let flops = if matches!(term, Term::Div(_)) { 2 * cost.flops } else { cost.flops };
        let own = 1.0 + (flops + cost.read_bytes + cost.write_bytes) as f64;
        term.fold(own, |sum, id| sum + costs(id))
    }
}

/// Writes the cheapest terms back into `func`; whether that changed it. `classes` has the class of every value.
pub(super) fn rebuild(func: &mut Func, graph: &Graph, classes: &[Option<Id>]) -> DiagResult<bool> {
    let extractor = Extractor::new(graph, TableCost(graph));
    let before = std::mem::take(&mut func.nodes);
    let class = |value: ValueId| graph.find(classes[value.index()].expect("every value has a class"));
    let is_leaf =
        |value: ValueId| graph.lookup(Term::leaf(value)).is_some_and(|id| graph.find(id) == class(value));
    let mut builder = Builder::new(func, graph, &extractor);
    for param in 0..builder.func.params.len() {
        let value = builder.func.params[param].value;
        builder.values[usize::from(class(value))] = Some(value);
    }
    builder.mark_needed(before.iter().filter(|n| is_leaf(n.outs[0])), &class);
    for node in &before {
        builder.loc = node.loc;
        builder.phase = node.phase;
        if is_leaf(node.outs[0]) {
            let ins =
                node.ins.iter().map(|&v| builder.value(class(v), None)).collect::<DiagResult<Values>>()?;
            builder.func.nodes.push(Node { ins, ..node.clone() });
            for &out in &node.outs {
                builder.values[usize::from(class(out))] = Some(out);
            }
        } else if builder.needed[usize::from(class(node.outs[0]))] {
            builder.value(class(node.outs[0]), Some(node.outs[0]))?;
        }
    }
    for result in 0..builder.func.results.len() {
        let value = builder.func.results[result].value;
        builder.func.results[result].value = builder.value(class(value), None)?;
    }
    Ok(func.nodes != before)
}

/// Emits terms in place.
struct Builder<'a> {
    func: &'a mut Func,
    graph: &'a Graph,
    extractor: &'a Extractor<'a, TableCost<'a>, Term, Context>,
    /// The value of a class, once emitted.
    values: Vec<Option<ValueId>>,
    /// Classes some emitted node reads.
    needed: Vec<bool>,
    loc: LocId,
    phase: Phase,
}

impl<'a> Builder<'a> {
    fn new(
        func: &'a mut Func,
        graph: &'a Graph,
        extractor: &'a Extractor<'a, TableCost<'a>, Term, Context>,
    ) -> Self {
        let num_ids = graph.classes().map(|c| usize::from(c.id) + 1).max().unwrap_or(0);
        Self {
            func,
            graph,
            extractor,
            values: vec![None; num_ids],
            needed: vec![false; num_ids],
            loc: LocId(0),
            phase: Phase::Forward,
        }
    }

    /// Marks what the nodes outside of the e-graph and the results read, through the cheapest terms.
    fn mark_needed<'n>(&mut self, opaque: impl Iterator<Item = &'n Node>, class: &impl Fn(ValueId) -> Id) {
        let mut stack: Vec<Id> = opaque.flat_map(|n| &n.ins).map(|&v| class(v)).collect();
        stack.extend(self.func.results.iter().map(|r| class(r.value)));
        while let Some(id) = stack.pop() {
            if !std::mem::replace(&mut self.needed[usize::from(id)], true) {
                let best = self.extractor.find_best_node(id);
                stack.extend(best.children().iter().map(|&child| self.graph.find(child)));
            }
        }
    }

    /// The value of a class, emitted here if it is not there yet, as `out` if that is given.
    fn value(&mut self, class: Id, out: Option<ValueId>) -> DiagResult<ValueId> {
        if let Some(value) = self.values[usize::from(class)] {
            return Ok(value);
        }
        let best = self.extractor.find_best_node(class);
        if best.is_leaf() {
            ice!("simplify reads {best} before it is defined");
        }
        let (op, operands) = best.op(self.graph);
        let ins = operands
            .iter()
            .map(|&id| self.value(self.graph.find(id), None))
            .collect::<DiagResult<Values>>()?;
        let out = match out {
            Some(out) => out,
            None => self.func.new_value(tensor(self.graph, class).clone()),
        };
        self.func.nodes.push(Node { op, ins, outs: smallvec![out], loc: self.loc, phase: self.phase });
        self.values[usize::from(class)] = Some(out);
        Ok(out)
    }
}
