//! Printing.

use super::init::print_init;
use crate::attrs::Attr;
use crate::kernel::ReduceKind;
use crate::{
    Func, Layout, Mesh, Module, Node, Param, Phase, Placement, ResultKind, Role, Stage, TensorType, ValueId,
};
use std::fmt::{self, Write as _};

/// Words of stages.
pub(super) const STAGES: [(&str, Stage); 4] = [
    ("graph", Stage::Graph),
    ("sharded", Stage::Sharded),
    ("local", Stage::Local),
    ("kernels", Stage::Kernels),
];
/// Words of roles.
pub(super) const ROLES: [(&str, Role); 5] = [
    ("param", Role::Param),
    ("optimizer", Role::Optimizer),
    ("grad_accum", Role::GradAccum),
    ("buffer", Role::Buffer),
    ("input", Role::Input),
];
/// Words of phases.
pub(super) const PHASES: [(&str, Phase); 3] =
    [("forward", Phase::Forward), ("backward", Phase::Backward), ("update", Phase::Update)];
/// Words of reductions.
pub(super) const REDUCES: [(&str, ReduceKind); 2] = [("sum", ReduceKind::Sum), ("max", ReduceKind::Max)];

/// The word of a value of one of the lists above.
fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, v)| v == value).map_or("", |(word, _)| word)
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(&STAGES, self))
    }
}

/// The text of a module.
pub fn print(module: &Module) -> String {
    let axes: Vec<String> = module.mesh.axes.iter().map(|a| format!("{} = {}", a.name, a.size)).collect();
    let mut text = format!("stage = {}\nmesh = [{}]\n", module.stage, axes.join(", "));
    for func in &module.funcs {
        text.push('\n');
        Printer::new(&module.mesh, func).func(&mut text);
    }
    text
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self))
    }
}

/// A number that parses back to the same bits.
pub(super) fn real(x: f64) -> String {
    if x.is_nan() { format!("nan({:#x})", x.to_bits()) } else { format!("{x:?}") }
}

/// A string in quotes with escapes the lexer knows.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

struct Printer<'a> {
    mesh: &'a Mesh,
    func: &'a Func,
    /// Printed number of every value.
    numbers: Vec<Option<usize>>,
}

impl<'a> Printer<'a> {
    fn new(mesh: &'a Mesh, func: &'a Func) -> Self {
        let mut numbers = vec![None; func.num_values()];
        for (number, value) in func.definitions().enumerate() {
            if let Some(slot) = numbers.get_mut(value.index()) {
                slot.get_or_insert(number);
            }
        }
        Self { mesh, func, numbers }
    }

    fn func(&self, text: &mut String) {
        let _ = writeln!(text, "func @{}(", self.func.name);
        for param in &self.func.params {
            let _ = writeln!(text, "  {},", self.param(param));
        }
        let _ = writeln!(text, ") repeat {} {{", self.func.repeat);
        for node in &self.func.nodes {
            let _ = writeln!(text, "  {}", self.node(node));
        }
        for result in &self.func.results {
            let value = self.value(result.value);
            let _ = match &result.kind {
                ResultKind::Update(param) => {
                    let param = self
                        .func
                        .params
                        .get(*param)
                        .map_or(String::from("%undefined"), |p| self.value(p.value));
                    writeln!(text, "  update {param} = {value}")
                }
                ResultKind::Output(name) => writeln!(text, "  output {} = {value}", quoted(name)),
            };
        }
        text.push_str("}\n");
    }

    fn param(&self, param: &Param) -> String {
        let ty = self.func.types.get(param.value.index());
        let mut text = format!(
            "{}: {} {{role = {}, name = {}, init = {}",
            self.value(param.value),
            self.type_of(param.value),
            word(&ROLES, &param.role),
            quoted(&param.name),
            print_init(&param.init)
        );
        if ty.is_none_or(|ty| ty.dims != param.global_dims) {
            let _ = write!(text, ", global = {:?}", param.global_dims);
        }
        if ty.is_none_or(|ty| ty.layout != param.layout) {
            let _ = write!(text, ", layout = @{}", layout(self.mesh, &param.layout));
        }
        text + "}"
    }

    fn node(&self, node: &Node) -> String {
        let values =
            |values: &[ValueId]| values.iter().map(|&v| self.value(v)).collect::<Vec<_>>().join(", ");
        let rules = node.op.rules();
        let mut text = format!("{} = {}", values(&node.outs), rules.name());
        if !node.ins.is_empty() {
            let _ = write!(text, " {}", values(&node.ins));
        }
        let attrs = rules.attrs();
        if !attrs.is_empty() {
            let attrs: Vec<String> =
                attrs.iter().map(|(name, attr)| format!("{name} = {}", self.attr(attr))).collect();
            let _ = write!(text, " {{{}}}", attrs.join(", "));
        }
        let types: Vec<String> = node.outs.iter().map(|&v| self.type_of(v)).collect();
        let _ = write!(text, " : {}", types.join(", "));
        match self.func.locs.get(node.loc.index()).map(String::as_str) {
            None | Some("") => {}
            Some(path) => {
                let _ = write!(text, " loc({})", quoted(path));
            }
        }
        if node.phase != Phase::Forward {
            let _ = write!(text, " in {}", word(&PHASES, &node.phase));
        }
        text
    }

    fn attr(&self, attr: &Attr) -> String {
        match attr {
            Attr::Int(i) => i.to_string(),
            Attr::Float(x) => real(*x),
            Attr::Bool(b) => b.to_string(),
            Attr::Str(s) => quoted(s),
            Attr::Dims(dims) => format!("{dims:?}"),
            Attr::DType(dtype) => dtype.to_string(),
            Attr::Reduce(reduce) => word(&REDUCES, reduce).to_owned(),
            Attr::Axis(axis) => format!("@{}", axis_name(self.mesh, axis.index())),
            Attr::Layout(to) => format!("@{}", layout(self.mesh, to)),
            Attr::Kernel(kernel) => crate::kernel::text::print(kernel),
            Attr::Types(types) => {
                let types: Vec<String> = types.iter().map(|ty| type_text(self.mesh, ty)).collect();
                format!("({})", types.join(", "))
            }
        }
    }

    fn value(&self, value: ValueId) -> String {
        // A broken function must print, for the message that says so.
        match self.numbers.get(value.index()) {
            Some(Some(number)) => format!("%{number}"),
            _ => format!("%undefined{}", value.0),
        }
    }

    fn type_of(&self, value: ValueId) -> String {
        self.func.types.get(value.index()).map_or(String::from("undefined"), |ty| type_text(self.mesh, ty))
    }
}

fn axis_name(mesh: &Mesh, axis: usize) -> String {
    mesh.axes.get(axis).map_or_else(|| format!("axis{axis}"), |a| a.name.clone())
}

/// `[dp_shard:S0, tp:P(sum)]`.
pub(super) fn layout(mesh: &Mesh, layout: &Layout) -> String {
    let placements: Vec<String> = layout
        .iter()
        .map(|(axis, placement)| {
            let name = axis_name(mesh, axis.index());
            match placement {
                Placement::Shard(dim) => format!("{name}:S{dim}"),
                Placement::Partial(reduce) => format!("{name}:P({})", word(&REDUCES, &reduce)),
            }
        })
        .collect();
    format!("[{}]", placements.join(", "))
}

/// `f32[2, 3] @ [dp_shard:S0]`.
fn type_text(mesh: &Mesh, ty: &TensorType) -> String {
    let tensor = format!("{}{:?}", ty.dtype, ty.dims);
    if ty.layout.is_replicate() { tensor } else { format!("{tensor} @ {}", layout(mesh, &ty.layout)) }
}
