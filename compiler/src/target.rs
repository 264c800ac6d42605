//! Devices an artifact can be built for.

use crate::codegen::cpu::CpuLevel;
use titan_ir::artifact::TargetInfo;
use titan_ir::{Diag, DiagResult};

/// A device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its name in `titan.target` and in the artifact.
    pub name: &'static str,
    /// Instruction set of the kernels.
    pub level: CpuLevel,
    /// Processor features the kernels use, as `/proc/cpuinfo` names them.
    features: &'static [&'static [&'static str]],
    /// Memory of a rank when the configuration does not say. **Units**: GiB.
    pub default_memory_gib: u64,
}

const V2: &[&str] = &["ssse3", "sse4_1", "sse4_2", "popcnt"];
const V3: &[&str] = &["avx", "avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe"];
const V4: &[&str] = &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];

/// All targets, the widest first.
pub const TARGETS: &[Target] = &[
    Target { name: "cpu-avx512", level: CpuLevel::V4, features: &[V2, V3, V4], default_memory_gib: 64 },
    Target { name: "cpu-avx2", level: CpuLevel::V3, features: &[V2, V3], default_memory_gib: 64 },
    Target { name: "cpu-portable", level: CpuLevel::V2, features: &[V2], default_memory_gib: 64 },
];

impl Target {
    /// The target called `name`. `cpu` is the widest one this machine runs, so what is built for it depends on the machine: the
    /// artifact records the name of the target it became.
    ///
    /// # Errors
    /// T0501 when there is no such target, or this machine runs none.
    pub fn of_name(name: &str) -> DiagResult<&'static Self> {
        let host = CpuLevel::host();
        let found = TARGETS.iter().find(|t| match name {
            "cpu" => host.is_some_and(|level| level >= t.level),
            _ => t.name == name,
        });
        let names = || TARGETS.iter().map(|t| t.name).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| {
            Diag::new("T0501", format!("no target `{name}` can be built for on this machine"))
                .help(format!("set titan.target to one of {}", names()))
        })
    }

    /// What the artifact says of it.
    pub fn info(&self) -> TargetInfo {
        let features = self.features.iter().copied().flatten().map(|f| (*f).to_owned());
        TargetInfo { name: self.name.to_owned(), features: features.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_one_of_the_named_targets() {
        let cpu = Target::of_name("cpu").unwrap();
        assert_eq!(Target::of_name(cpu.name), Ok(cpu));
        assert!(CpuLevel::host().unwrap() >= cpu.level);
    }

    #[test]
    fn the_features_of_cpu_are_this_processors() {
        let Ok(cpuinfo) = std::fs::read_to_string("/proc/cpuinfo") else { return };
        let Some(flags) = cpuinfo.lines().find(|line| line.starts_with("flags")) else { return };
        for feature in Target::of_name("cpu").unwrap().info().features {
            assert!(flags.split_whitespace().any(|f| f == feature), "/proc/cpuinfo has no {feature}");
        }
    }

    #[test]
    fn an_unknown_target_lists_those_there_are() {
        let diag = Target::of_name("tpu").unwrap_err();
        assert_eq!(diag.code, "T0501");
        assert!(diag.help.unwrap().contains("cpu-avx2"));
    }
}
