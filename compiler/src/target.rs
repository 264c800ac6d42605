//! Devices an artifact can be built for.

use crate::codegen::cpu::CpuLevel;
use crate::config::nearest;
use titan_ir::artifact::TargetInfo;
use titan_ir::ascend::{SOCS, Soc};
use titan_ir::{Diag, DiagResult};

/// Device memory of an Ascend device that the driver and the runtime keep for themselves. **Units**: GiB.
///
/// **Source**: public error reports name 60.96 of 64 GiB as the whole capacity on Ascend910B, 61.27 on Ascend910_93; not measured here.
pub const ASCEND_RESERVED_GIB: f64 = 3.1;

/// Memory of a rank on a CPU when the configuration does not say. **Units**: GiB.
const CPU_MEMORY_GIB: f64 = 64.0;

/// A processor that runs generated code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTarget {
    /// Its name in `titan.target` and in the artifact.
    pub name: &'static str,
    /// Instruction set of the kernels.
    pub level: CpuLevel,
    /// Processor features the kernels use, as `/proc/cpuinfo` names them.
    features: &'static [&'static [&'static str]],
}

/// A device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// A processor.
    Cpu(&'static CpuTarget),
    /// An Ascend device.
    Ascend(&'static Soc),
}

const V2: &[&str] = &["ssse3", "sse4_1", "sse4_2", "popcnt"];
const V3: &[&str] = &["avx", "avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe"];
const V4: &[&str] = &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];

/// All processors, the widest first.
pub const CPU_TARGETS: &[CpuTarget] = &[
    CpuTarget { name: "cpu-avx512", level: CpuLevel::V4, features: &[V2, V3, V4] },
    CpuTarget { name: "cpu-avx2", level: CpuLevel::V3, features: &[V2, V3] },
    CpuTarget { name: "cpu-portable", level: CpuLevel::V2, features: &[V2] },
];

/// Names of all targets.
pub fn names() -> impl Iterator<Item = &'static str> {
    CPU_TARGETS.iter().map(|t| t.name).chain(SOCS.iter().map(|soc| soc.name))
}

impl Target {
    /// The target called `name`, in any case. `cpu` is the widest one this machine runs, so what is built for it depends on the machine:
    /// the artifact records the name of the target it became.
    ///
    /// # Errors
    /// T0501 when there is no such target, or this machine runs none.
    pub fn of_name(name: &str) -> DiagResult<Self> {
        if name.eq_ignore_ascii_case("cpu") {
            let host = CpuLevel::host();
            let widest = CPU_TARGETS.iter().find(|t| host.is_some_and(|level| level >= t.level));
            return widest.map(Self::Cpu).ok_or_else(|| unknown(name));
        }
        let cpu = CPU_TARGETS.iter().find(|t| t.name.eq_ignore_ascii_case(name)).map(Self::Cpu);
        let soc = || SOCS.iter().find(|soc| soc.name.eq_ignore_ascii_case(name)).map(Self::Ascend);
        cpu.or_else(soc).ok_or_else(|| unknown(name))
    }

    /// Its name in `titan.target` and in the artifact.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu(cpu) => cpu.name,
            Self::Ascend(soc) => soc.name,
        }
    }

    /// The Ascend device, if it is one.
    pub fn soc(self) -> Option<&'static Soc> {
        match self {
            Self::Cpu(_) => None,
            Self::Ascend(soc) => Some(soc),
        }
    }

    /// Memory of a rank when the configuration does not say. **Units**: GiB.
    pub fn default_memory_gib(self) -> f64 {
        match self {
            Self::Cpu(_) => CPU_MEMORY_GIB,
            // In tenths, as people write it.
            Self::Ascend(soc) => ((soc.hbm_gib as f64 - ASCEND_RESERVED_GIB) * 10.0).round() / 10.0,
        }
    }

    /// What the artifact says of it.
    pub fn info(self) -> TargetInfo {
        let features = match self {
            Self::Cpu(cpu) => cpu.features.iter().copied().flatten().map(|f| (*f).to_owned()).collect(),
            Self::Ascend(_) => Vec::new(),
        };
        TargetInfo { name: self.name().to_owned(), features }
    }
}

fn unknown(name: &str) -> Diag {
    let diag = Diag::new("T0501", format!("no target `{name}` can be built for on this machine"));
    let diag = match nearest(name, names()) {
        Some(near) => diag.note(format!("did you mean `{near}`?")),
        None => diag,
    };
    diag.help(format!("set titan.target to one of {}", names().collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_one_of_the_named_targets() {
        let cpu = Target::of_name("cpu").unwrap();
        assert_eq!(Target::of_name(cpu.name()), Ok(cpu));
        let Target::Cpu(cpu) = cpu else { panic!("cpu is {cpu:?}") };
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
    fn names_are_found_in_any_case() {
        for name in names() {
            let target = Target::of_name(&name.to_uppercase()).unwrap();
            assert_eq!((target.name(), target.info().name.as_str()), (name, name));
        }
    }

    #[test]
    fn an_unknown_target_lists_those_there_are() {
        let diag = Target::of_name("tpu").unwrap_err();
        assert_eq!((diag.code, diag.notes.len()), ("T0501", 0));
        assert!(diag.help.unwrap().contains("cpu-avx2"));
        let near = Target::of_name("ascend910c3").unwrap_err();
        assert_eq!(near.notes, ["did you mean `Ascend910B3`?"]);
    }

    #[test]
    fn a_part_of_device_memory_is_kept_back() {
        assert_eq!(Target::of_name("Ascend910B3").unwrap().default_memory_gib(), 60.9);
        assert_eq!(Target::of_name("Ascend910B4").unwrap().default_memory_gib(), 28.9);
        assert_eq!(Target::of_name("cpu-portable").unwrap().default_memory_gib(), 64.0);
    }
}
