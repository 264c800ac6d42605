//! Ascend devices a program can be built for.

/// Generations that differ in what they can capture, and in how kernels are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Ascend910B: Atlas A2.
    A2,
    /// Ascend910_93: Atlas A3, two dies a package, each a device.
    A3,
    /// Ascend950.
    A5,
}

/// A device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Soc {
    /// The name `aclrtGetSocName` gives.
    pub name: &'static str,
    /// Generation.
    pub family: Family,
    /// Cube cores: matrix products.
    pub cube_cores: u32,
    /// Vector cores: everything else.
    pub vector_cores: u32,
    /// Clock. **Units**: MHz.
    pub mhz: u32,
    /// Device memory. **Units**: GiB.
    pub hbm_gib: u64,
    /// Unified buffer of a vector core. **Units**: bytes.
    pub ub_bytes: u64,
    /// Device memory bandwidth the estimate assumes. **Units**: GB/s.
    pub hbm_gb_per_s: u32,
}

const fn a2(name: &'static str, cube_cores: u32, mhz: u32, hbm_gib: u64) -> Soc {
    Soc {
        name,
        family: Family::A2,
        cube_cores,
        vector_cores: cube_cores * 2,
        mhz,
        hbm_gib,
        ub_bytes: 192 * 1024,
        hbm_gb_per_s: 1600,
    }
}

const fn a3(name: &'static str, cube_cores: u32, mhz: u32, hbm_gib: u64) -> Soc {
    Soc { family: Family::A3, ..a2(name, cube_cores, mhz, hbm_gib) }
}

const fn a5(name: &'static str, cube_cores: u32, mhz: u32, hbm_gib: u64, hbm_gb_per_s: u32) -> Soc {
    Soc { family: Family::A5, ub_bytes: 248 * 1024, hbm_gb_per_s, ..a2(name, cube_cores, mhz, hbm_gib) }
}

/// All devices.
///
/// **Source**: cores, clock and memory are those of the vendor's platform files; bandwidths are press figures and not verified.
pub const SOCS: &[Soc] = &[
    a2("Ascend910B1", 24, 1850, 64),
    a2("Ascend910B2", 24, 1800, 64),
    a2("Ascend910B2C", 24, 1800, 64),
    a2("Ascend910B3", 20, 1800, 64),
    a2("Ascend910B4", 20, 1500, 32),
    a3("Ascend910_9391", 24, 1850, 64),
    a3("Ascend910_9392", 24, 1850, 64),
    a3("Ascend910_9381", 24, 1800, 64),
    a3("Ascend910_9382", 24, 1800, 64),
    a3("Ascend910_9372", 20, 1800, 64),
    a3("Ascend910_9362", 20, 1500, 64),
    a5("Ascend950PR_9599", 36, 1800, 128, 1600),
    a5("Ascend950PR_9579", 28, 1650, 128, 1400),
    a5("Ascend950DT_9591", 36, 1800, 144, 4000),
    a5("Ascend950DT_95A1", 36, 1800, 144, 4000),
];

impl Soc {
    /// The device called `name`.
    pub fn of_name(name: &str) -> Option<&'static Self> {
        SOCS.iter().find(|soc| soc.name == name)
    }
}
