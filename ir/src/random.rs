//! Random numbers by position: element `i` of a tensor is a function of the seed, the tensor's name and `i` alone, so that every mesh draws
//! the same weights.

/// A stream of numbers: one per tensor and seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    key: [u32; 2],
}

impl Stream {
    /// The stream of a tensor.
    pub fn new(seed: u64, tensor: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(tensor.as_bytes());
        let hash = hasher.finalize();
        let word = |i: usize| hash.as_bytes()[i..i + 4].iter().rev().fold(0, |n, &b| n << 8 | u32::from(b));
        Self { key: [word(0), word(4)] }
    }

    /// Two uniform numbers in the open interval (0, 1), with 53 bits each: those of elements `2 pair` and `2 pair + 1`.
    pub fn uniform_pair(&self, pair: u64) -> [f64; 2] {
        let [a, b, c, d] = philox([pair as u32, (pair >> 32) as u32, 0, 0], self.key);
        let unit = |high: u32, low: u32| {
            let bits = u64::from(high) << 32 | u64::from(low);
            ((bits >> 11) as f64 + 0.5) * f64::from(2.0_f32.powi(-53))
        };
        [unit(a, b), unit(c, d)]
    }
}

/// Philox4x32-10. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let (p0, p1) = (0xD251_1F53 * u64::from(counter[0]), 0xCD9E_8D57 * u64::from(counter[2]));
        counter = [
            (p1 >> 32) as u32 ^ counter[1] ^ key[0],
            p1 as u32,
            (p0 >> 32) as u32 ^ counter[3] ^ key[1],
            p0 as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// The standard normal quantile, relative error below 1e-15. Source: Wichura 1988, algorithm AS 241 (PPND16).
pub fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * horner(&CENTRAL_NUM, r) / horner(&CENTRAL_DEN, r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = (-tail.ln()).sqrt();
    let x = if r <= 5.0 {
        horner(&MIDDLE_NUM, r - 1.6) / horner(&MIDDLE_DEN, r - 1.6)
    } else {
        horner(&FAR_NUM, r - 5.0) / horner(&FAR_DEN, r - 5.0)
    };
    if q < 0.0 { -x } else { x }
}

/// The standard normal distribution function.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

fn horner(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

const CENTRAL_NUM: [f64; 8] = [
    3.387_132_872_796_366_5,
    133.141_667_891_784_38,
    1_971.590_950_306_551_3,
    13_731.693_765_509_46,
    45_921.953_931_549_87,
    67_265.770_927_008_7,
    33_430.575_583_588_13,
    2_509.080_928_730_122_7,
];
const CENTRAL_DEN: [f64; 8] = [
    1.0,
    42.313_330_701_600_91,
    687.187_007_492_057_9,
    5_394.196_021_424_751,
    21_213.794_301_586_597,
    39_307.895_800_092_71,
    28_729.085_735_721_943,
    5_226.495_278_852_545,
];
const MIDDLE_NUM: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    0.241_780_725_177_450_6,
    0.022_723_844_989_269_184,
    7.745_450_142_783_414e-4,
];
const MIDDLE_DEN: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    0.689_767_334_985_1,
    0.148_103_976_427_480_08,
    0.015_198_666_563_616_457,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const FAR_NUM: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    0.296_560_571_828_504_87,
    0.026_532_189_526_576_124,
    0.001_242_660_947_388_078_4,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_DEN: [f64; 8] = [
    1.0,
    0.599_832_206_555_888,
    0.136_929_880_922_735_8,
    0.014_875_361_290_850_615,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_vectors() {
        // Known answers of the Random123 distribution.
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }

    #[test]
    fn quantile_and_distribution_are_inverse() {
        for i in 1..2000 {
            let p = f64::from(i) / 2000.0;
            assert!((normal_cdf(normal_quantile(p)) - p).abs() < 1e-14, "{p}");
        }
        for p in [1e-300, 1e-40, 1e-12, 1e-5] {
            assert!((normal_cdf(normal_quantile(p)) / p - 1.0).abs() < 1e-11, "{p}");
        }
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-14);
    }
}
