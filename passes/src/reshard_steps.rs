//! How a change of layout is done: an ordered list of collectives and slices, each along one mesh axis.
//!
//! Slices come first, since every rank has what it keeps; then reduce-scatters, before all-reduces, which then carry less (HSDP:
//! scatter within the shard group, reduce the shards across replicas); gathers come last. A dimension that several axes cut is cut
//! outermost axis first and gathered innermost first, so chunks stay in rank order.

use titan_ir::kernel::ReduceKind;
use titan_ir::{AxisId, Diag, DiagResult, Layout, Mesh, Placement};

/// One step along one axis. `dim` is the dimension cut or gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Keep this rank's part.
    Slice(AxisId),
    /// Reduce and keep this rank's part.
    ReduceScatter(AxisId, ReduceKind),
    /// Reduce.
    AllReduce(AxisId, ReduceKind),
    /// Concatenate the parts of all ranks.
    Gather(AxisId),
}

/// The steps from one layout to another. Placements on axes of one rank are gone.
///
/// # Errors
/// T0303 for a dimension other than 0, T0304 for an order of axes that would permute rows.
pub(crate) fn steps(mesh: &Mesh, from: &Layout, to: &Layout) -> DiagResult<Vec<Step>> {
    let mut walk = Walk { mesh, now: from.clone(), to, steps: Vec::new() };
    let axes = || (0..mesh.axes.len()).map(AxisId::new);
    axes().try_for_each(|axis| walk.slice(axis))?;
    axes().try_for_each(|axis| walk.reduce_scatter(axis))?;
    axes().for_each(|axis| walk.all_reduce(axis));
    axes().rev().try_for_each(|axis| walk.gather(axis))?;
    // A dimension given up for another one.
    axes().try_for_each(|axis| walk.slice(axis))?;
    Ok(walk.steps)
}

struct Walk<'a> {
    mesh: &'a Mesh,
    now: Layout,
    to: &'a Layout,
    steps: Vec<Step>,
}

impl Walk<'_> {
    fn slice(&mut self, axis: AxisId) -> DiagResult<()> {
        if let (None, Some(Placement::Shard(dim))) = (self.now.get(axis), self.to.get(axis)) {
            self.cut(axis, dim)?;
            self.steps.push(Step::Slice(axis));
        }
        Ok(())
    }

    fn reduce_scatter(&mut self, axis: AxisId) -> DiagResult<()> {
        if let (Some(Placement::Partial(reduce)), Some(Placement::Shard(dim))) =
            (self.now.get(axis), self.to.get(axis))
        {
            self.cut(axis, dim)?;
            self.steps.push(Step::ReduceScatter(axis, reduce));
        }
        Ok(())
    }

    fn all_reduce(&mut self, axis: AxisId) {
        if let (Some(Placement::Partial(reduce)), None) = (self.now.get(axis), self.to.get(axis)) {
            self.now.set(axis, None);
            self.steps.push(Step::AllReduce(axis, reduce));
        }
    }

    fn gather(&mut self, axis: AxisId) -> DiagResult<()> {
        if let Some(Placement::Shard(dim)) = self.now.get(axis)
            && self.to.get(axis) != self.now.get(axis)
        {
            self.in_order(axis, dim)?;
            self.now.set(axis, None);
            self.steps.push(Step::Gather(axis));
        }
        Ok(())
    }

    /// Notes that `axis` now cuts `dim`.
    fn cut(&mut self, axis: AxisId, dim: u8) -> DiagResult<()> {
        self.in_order(axis, dim)?;
        self.now.set(axis, Some(Placement::Shard(dim)));
        Ok(())
    }

    /// Whether `axis` may be the innermost cut of `dim`, the one that can be made or undone.
    fn in_order(&self, axis: AxisId, dim: u8) -> DiagResult<()> {
        let name = |axis: AxisId| &self.mesh.axes[axis.index()].name;
        if dim != 0 {
            let message = format!("dimension {dim} would have to be cut or gathered along `{}`", name(axis));
            return Err(Diag::new("T0303", message)
                .note("collectives work on dimension 0")
                .help("shard dimension 0, or keep the layout on both sides of this module the same"));
        }
        match self.now.axes_of_dim(0).find(|&inner| inner > axis) {
            None => Ok(()),
            Some(inner) => {
                let message = format!(
                    "dimension 0 is cut along `{}` inside its cut along `{}`",
                    name(inner),
                    name(axis)
                );
                Err(Diag::new("T0304", message)
                    .note("the outer cut cannot be made or undone alone: rows would be permuted")
                    .help(format!("reshard along `{}` first", name(inner))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Placement::{Partial, Shard};

    const REPLICATE: AxisId = AxisId(0);
    const SHARD: AxisId = AxisId(1);
    const SUM: Placement = Partial(ReduceKind::Sum);

    fn layout(replicate: Option<Placement>, shard: Option<Placement>) -> Layout {
        let mut layout = Layout::replicate();
        layout.set(REPLICATE, replicate);
        layout.set(SHARD, shard);
        layout
    }

    fn check(from: Layout, to: Layout, expected: &[Step]) {
        let mesh = Mesh::new(&[("dp_replicate", 2), ("dp_shard", 4)]);
        assert_eq!(steps(&mesh, &from, &to).expect("these layouts can be reached"), expected);
    }

    fn check_error(from: Layout, to: Layout, code: &str) {
        let mesh = Mesh::new(&[("dp_replicate", 2), ("dp_shard", 4)]);
        assert_eq!(steps(&mesh, &from, &to).expect_err("these layouts cannot be reached").code, code);
    }

    #[test]
    fn a_gradient_is_scattered_before_it_is_reduced_across_replicas() {
        let scatter = Step::ReduceScatter(SHARD, ReduceKind::Sum);
        let reduce = Step::AllReduce(REPLICATE, ReduceKind::Sum);
        check(layout(Some(SUM), Some(SUM)), layout(None, Some(Shard(0))), &[scatter, reduce]);
    }

    #[test]
    fn cuts_of_one_dimension_are_nested() {
        let cut = layout(Some(Shard(0)), Some(Shard(0)));
        check(cut.clone(), layout(None, None), &[Step::Gather(SHARD), Step::Gather(REPLICATE)]);
        check(layout(None, None), cut.clone(), &[Step::Slice(REPLICATE), Step::Slice(SHARD)]);
        check_error(cut, layout(None, Some(Shard(0))), "T0304");
        check_error(layout(None, Some(Shard(0))), layout(Some(Shard(0)), Some(Shard(0))), "T0304");
    }

    #[test]
    fn only_dimension_0_is_cut_or_gathered() {
        check_error(layout(None, Some(Shard(1))), layout(None, None), "T0303");
        check_error(layout(None, Some(SUM)), layout(None, Some(Shard(1))), "T0303");
        check(layout(None, Some(Shard(1))), layout(None, Some(Shard(1))), &[]);
    }
}
