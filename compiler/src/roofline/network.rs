//! What a collective takes: a start-up per step of its algorithm, and bytes over links.

use super::Assumption;
use titan_ir::ascend::Family;
use titan_ir::kernel::CollectiveKind;
use titan_ir::{AxisId, Mesh};

/// Start-up of a step of a collective. **Units**: seconds.
const STEP_S: f64 = 2e-6;

/// Addition of received bytes to one's own. **Units**: bytes per second.
const REDUCE_BYTES_PER_S: f64 = 483e9;

/// 200 Gbit/s of RoCE per device. **Units**: bytes per second.
const ROCE_BYTES_PER_S: f64 = 25e9;

/// How devices are linked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Network {
    /// Devices that reach each other without RoCE.
    near_ranks: u64,
    /// Bandwidth to each near device, or to all of them together. **Units**: bytes per second.
    near_bytes_per_s: f64,
    /// Whether every near device has a link of its own.
    has_link_each: bool,
}

impl Network {
    pub(super) fn of(family: Family) -> Self {
        match family {
            Family::A2 | Family::A5 => Self { near_ranks: 8, near_bytes_per_s: 56e9, has_link_each: true },
            Family::A3 => Self { near_ranks: 384, near_bytes_per_s: 196e9, has_link_each: false },
        }
    }

    pub(super) fn assumptions(&self) -> Vec<Assumption> {
        let (value, source) = if self.has_link_each {
            (
                format!(
                    "{} devices of a node, {:.0} GB/s between any two (HCCS)",
                    self.near_ranks,
                    self.near_bytes_per_s / 1e9
                ),
                "commonly quoted, and a constant of HCCL's cost model; not verified",
            )
        } else {
            (
                format!(
                    "{} dies of a super-pod, {:.0} GB/s out of each",
                    self.near_ranks,
                    self.near_bytes_per_s / 1e9
                ),
                "press and papers, which disagree; not verified",
            )
        };
        vec![
            Assumption { name: "near links", value, source },
            Assumption {
                name: "far links",
                value: format!("RoCE, {:.0} GB/s per device", ROCE_BYTES_PER_S / 1e9),
                source: "press figure; reached in full, no contention in switches",
            },
            Assumption {
                name: "start of a transfer",
                value: format!("{:.0} us per step of a collective", STEP_S * 1e6),
                source: "HCCL's cost model; one step among near ranks, halving and doubling among far ones",
            },
            Assumption {
                name: "reduction",
                value: format!("{:.0} GB/s", REDUCE_BYTES_PER_S / 1e9),
                source: "HCCL's cost model",
            },
            Assumption {
                name: "placement",
                value: "ranks fill one node after the other".to_owned(),
                source: "as launchers number them",
            },
        ]
    }

    /// Seconds of a collective to which a rank gives `src_bytes`.
    pub(super) fn seconds(&self, mesh: &Mesh, kind: CollectiveKind, axis: AxisId, src_bytes: u64) -> f64 {
        let Some(found) = mesh.axes.get(axis.index()) else { return 0.0 };
        let num_ranks = found.size;
        // Neighbours along the axis are as many ranks apart as the inner axes hold.
        let apart: u64 = mesh.axes[axis.index() + 1..].iter().map(|inner| inner.size).product();
        let near = (self.near_ranks / apart).clamp(1, num_ranks);
        let far = num_ranks.div_ceil(near);
        let given = src_bytes as f64;
        let shared = given / num_ranks as f64;
        match kind {
            CollectiveKind::AllGather => self.spread(near, far, given),
            CollectiveKind::ReduceScatter(_) => self.reduce(near, far, shared),
            CollectiveKind::AllReduce(_) => self.reduce(near, far, shared) + self.spread(near, far, shared),
            CollectiveKind::AllToAll => {
                let far_bytes = (num_ranks - near) as f64 * shared;
                steps(near, far) + self.near(near, shared) + far_bytes / ROCE_BYTES_PER_S
            }
        }
    }

    /// Every rank gets a block of every other: far ones first, then all of those of near ranks.
    fn spread(&self, near: u64, far: u64, block_bytes: f64) -> f64 {
        let far_bytes = (far - 1) as f64 * block_bytes;
        steps(near, far) + far_bytes / ROCE_BYTES_PER_S + self.near(near, far as f64 * block_bytes)
    }

    /// The same the other way round, with additions.
    fn reduce(&self, near: u64, far: u64, block_bytes: f64) -> f64 {
        let added = ((near - 1) * far + far - 1) as f64 * block_bytes;
        self.spread(near, far, block_bytes) + added / REDUCE_BYTES_PER_S
    }

    /// Bytes to each of the other near ranks at once.
    fn near(&self, near: u64, bytes_each: f64) -> f64 {
        let links = if self.has_link_each { (near - 1).min(1) } else { near - 1 };
        links as f64 * bytes_each / self.near_bytes_per_s
    }
}

fn steps(near: u64, far: u64) -> f64 {
    let far_steps = far.next_power_of_two().trailing_zeros();
    f64::from(far_steps + u32::from(near > 1)) * STEP_S
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_ir::kernel::ReduceKind;

    fn us(family: Family, ranks: u64, kind: CollectiveKind, src_bytes: u64) -> f64 {
        let mesh = Mesh::new(&[("dp_replicate", 1), ("dp_shard", ranks)]);
        Network::of(family).seconds(&mesh, kind, AxisId::new(1), src_bytes) * 1e6
    }

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b
    }

    #[test]
    fn bytes_go_over_the_links_there_are() {
        // 56 MB to each of seven devices, all links at once: 1 ms, and one step.
        assert!(is_near(us(Family::A2, 8, CollectiveKind::AllGather, 56_000_000), 1002.0));
        // Seven times 28 MB out of one port of 196 GB/s.
        assert!(is_near(us(Family::A3, 8, CollectiveKind::AllGather, 28_000_000), 1002.0));
        // Two nodes: 25 MB over RoCE, then two blocks to each neighbour, in two steps.
        let far = us(Family::A2, 16, CollectiveKind::AllGather, 25_000_000);
        assert!(is_near(far, 1000.0 + 2.0 * 25_000.0 / 56.0 + 4.0), "{far}");
        let sum = CollectiveKind::ReduceScatter(ReduceKind::Sum);
        let reduced = us(Family::A2, 8, sum, 8 * 56_000_000);
        assert!(is_near(reduced, 1002.0 + 7.0 * 56_000.0 / 483.0), "{reduced}");
        assert_eq!(us(Family::A2, 1, CollectiveKind::AllGather, 1 << 20), 0.0);
    }

    #[test]
    fn an_outer_axis_leaves_the_node_sooner() {
        let mesh = Mesh::new(&[("dp_replicate", 2), ("dp_shard", 8)]);
        let network = Network::of(Family::A2);
        let sum = CollectiveKind::AllReduce(ReduceKind::Sum);
        let [outer, inner] = [0, 1].map(|axis| network.seconds(&mesh, sum, AxisId::new(axis), 1 << 24));
        assert!(outer > inner, "{outer} {inner}");
    }
}
