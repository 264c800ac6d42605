//! Proof that the zero rows behind the end of unevenly cut tensors never reach a number.
//!
//! Stored shards are padded with zeros. Elementwise ops that map zeros to zeros keep them so, and a sum over a cut dimension is right
//! exactly when what it adds for them is zero. Every other op spoils the padding, which does no harm until something is summed over
//! it or stored.

use titan_ir::shard::ShardRule;
use titan_ir::{
    Diag, DiagResult, Func, Layout, Mesh, Node, Op, Placement, ResultKind, Role, TensorType, ValueId,
};

/// What is known of the padding of each value.
#[derive(Debug)]
pub(crate) struct Padding<'a> {
    mesh: &'a Mesh,
    func: &'a Func,
    /// Values with short chunks whose padding may not be zero.
    spoiled: Vec<bool>,
}

impl Padding<'_> {
    /// Judges a function with layouts.
    ///
    /// # Errors
    /// T0306 where padding would be summed up or stored.
    pub(crate) fn prove(mesh: &Mesh, func: &Func) -> DiagResult<()> {
        let mut padding = Padding { mesh, func, spoiled: vec![false; func.num_values()] };
        if !func.types.iter().any(|ty| padding.is_short(ty)) {
            return Ok(());
        }
        for node in &func.nodes {
            padding.visit(node)?;
        }
        for result in &func.results {
            if let ResultKind::Update(param) = result.kind
                && func.params[param].role != Role::Input
                && padding.spoiled[result.value.index()]
            {
                return Err(leak("would be stored").at(&func.params[param].name));
            }
        }
        Ok(())
    }

    /// Whether the last ranks have fewer rows of some dimension.
    fn is_short(&self, ty: &TensorType) -> bool {
        let cut = |(dim, &n): (usize, &u64)| n % parts(self.mesh, &ty.layout, dim) != 0;
        !ty.layout.is_replicate() && ty.dims.iter().enumerate().any(cut)
    }

    fn short(&self, value: ValueId) -> bool {
        self.is_short(self.func.ty(value))
    }

    fn visit(&mut self, node: &Node) -> DiagResult<()> {
        let is_spoiled = node.ins.iter().any(|v| self.spoiled[v.index()]);
        if let Op::Reshard(reshard) = &node.op {
            // A gather drops padding and a scatter or slice makes zeros; what stays cut stays as it is.
            let kept = self.func.ty(node.ins[0]).layout.iter().any(|(axis, placement)| {
                matches!(placement, Placement::Shard(_)) && reshard.to.get(axis) == Some(placement)
            });
            self.spoiled[node.outs[0].index()] = is_spoiled && kept;
            return Ok(());
        }
        if !node.ins.iter().chain(&node.outs).any(|&v| self.short(v)) {
            return Ok(());
        }
        let ins: Vec<&TensorType> = node.ins.iter().map(|&v| self.func.ty(v)).collect();
        if is_spoiled && self.sums_padding(&node.op.rules().shard(&ins), &ins) {
            return Err(leak("would be summed up").at(self.func.path(node.loc)));
        }
        let keeps = !is_spoiled && self.keeps_zeros(node);
        for &out in &node.outs {
            self.spoiled[out.index()] = self.short(out) && !keeps;
        }
        Ok(())
    }

    /// Whether a cut dimension with padding is summed.
    fn sums_padding(&self, rule: &ShardRule, ins: &[&TensorType]) -> bool {
        rule.ins.iter().zip(ins).any(|(factors, ty)| {
            factors.iter().enumerate().any(|(dim, factor)| {
                ty.dims[dim] % parts(self.mesh, &ty.layout, dim) != 0 && factor.iter().any(|&f| lost(rule, f))
            })
        })
    }

    /// Whether zero rows of the operands give zero rows of the results: known by op, since no rule states it.
    fn keeps_zeros(&self, node: &Node) -> bool {
        let short = |i: usize| self.short(node.ins[i]);
        match &node.op {
            Op::Cast(_)
            | Op::Neg(_)
            | Op::Sqrt(_)
            | Op::Silu(_)
            | Op::SiluGrad(_)
            | Op::Guard(_)
            | Op::Reshape(_) => true,
            Op::Mul(_) => short(0) || short(1),
            Op::Add(_) | Op::Sub(_) | Op::Min(_) | Op::Max(_) => short(0) && short(1),
            // 0 / 0 is not 0.
            Op::Div(_) => short(0) && !short(1),
            // The step of a zero gradient is 0 / (0 + eps).
            Op::AdamW(adamw) => adamw.eps > 0.0,
            _ => false,
        }
    }
}

/// Whether some result lacks the factor.
fn lost(rule: &ShardRule, factor: char) -> bool {
    rule.outs.iter().any(|factors| !factors.iter().flatten().any(|&f| f == factor))
}

fn parts(mesh: &Mesh, layout: &Layout, dim: usize) -> u64 {
    layout.axes_of_dim(dim).map(|a| mesh.size(a)).product()
}

fn leak(what: &str) -> Diag {
    Diag::new("T0306", format!("the padding of an unevenly cut tensor {what}"))
        .note("its first dimension is not a multiple of the ranks, and the rows past its end are no longer zero here")
        .help("make the first dimension a multiple of the shard degree, or replicate the tensor before this op")
}
