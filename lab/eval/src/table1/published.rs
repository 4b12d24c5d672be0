//! NuCore's Table 1 as it is printed.

/// A line of Table 1 (a) or (b).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Published {
    /// As the paper calls it.
    pub(super) benchmark: &'static str,
    /// As the presets do.
    pub(super) mix: &'static str,
    /// In the order of [`super::METHODS`].
    pub(super) cores: [&'static [u32]; 4],
    pub(super) limit: &'static str,
}

const fn line(
    benchmark: &'static str,
    mix: &'static str,
    cores: [&'static [u32]; 4],
    limit: &'static str,
) -> Published {
    Published {
        benchmark,
        mix,
        cores,
        limit,
    }
}

const ONE_OF_8: &[u32] = &[1; 8];
const TWO_OF_8: &[u32] = &[2; 8];
const SIX_OF_8: &[u32] = &[6; 8];
const EIGHT_OF_4: &[u32] = &[8; 4];

/// (a), the AMD machine.
pub(super) const AMD: [Published; 11] = [
    line(
        "streamcluster",
        "streamcluster-roi",
        [
            &[6, 0, 0, 0, 0, 0, 0, 0],
            &[6, 0, 0, 0, 0, 0, 0, 0],
            &[2, 2, 1, 1, 1, 1, 1, 1],
            ONE_OF_8,
        ],
        "all shared",
    ),
    line(
        "canneal",
        "canneal-roi",
        [
            &[6, 6, 6, 3, 0, 0, 0, 0],
            &[6, 6, 6, 3, 0, 0, 0, 0],
            SIX_OF_8,
            &[5; 8],
        ],
        "all shared",
    ),
    line(
        "facesim",
        "facesim-roi",
        [
            &[6, 6, 4, 0, 0, 0, 0, 0],
            &[6, 6, 4, 0, 0, 0, 0, 0],
            TWO_OF_8,
            &[4; 8],
        ],
        "all shared",
    ),
    line(
        "mg.D-resid",
        "mg-resid",
        [SIX_OF_8, SIX_OF_8, &[3, 3, 3, 3, 3, 3, 3, 2], SIX_OF_8],
        "none",
    ),
    line(
        "mg.D-psinv",
        "mg-psinv",
        [&[5; 8], SIX_OF_8, SIX_OF_8, SIX_OF_8],
        "none",
    ),
    line(
        "mg.D-rprj3",
        "mg-rprj3",
        [
            &[6, 5, 6, 6, 6, 4, 6, 4],
            &[6, 5, 6, 6, 6, 4, 6, 5],
            SIX_OF_8,
            SIX_OF_8,
        ],
        "between nodes",
    ),
    line(
        "mg.D-interp",
        "mg-interp",
        [
            &[6, 5, 6, 6, 6, 4, 6, 4],
            &[6, 5, 6, 6, 6, 4, 6, 5],
            SIX_OF_8,
            SIX_OF_8,
        ],
        "between nodes",
    ),
    line(
        "sp.C-x/y/zsolve",
        "sp-solve",
        [ONE_OF_8, ONE_OF_8, &[2, 2, 2, 1, 1, 1, 1, 1], ONE_OF_8],
        "partly shared",
    ),
    line(
        "sp.C-rhs",
        "sp-rhs",
        [
            &[6, 5, 6, 4, 5, 4, 5, 4],
            &[6, 5, 6, 5, 5, 4, 4, 4],
            &[4, 4, 4, 3, 3, 3, 3, 3],
            TWO_OF_8,
        ],
        "local",
    ),
    line(
        "dgemm (MKL)",
        "dgemm-mkl",
        [
            &[2, 6, 6, 6, 6, 6, 6, 6],
            &[2, 6, 6, 6, 6, 6, 6, 6],
            SIX_OF_8,
            TWO_OF_8,
        ],
        "partly shared",
    ),
    line(
        "dgemm (ACML)",
        "dgemm-acml",
        [
            &[3, 6, 6, 6, 6, 6, 6, 6],
            &[3, 6, 6, 6, 6, 6, 6, 6],
            SIX_OF_8,
            SIX_OF_8,
        ],
        "partly shared",
    ),
];

const fn all_cores(benchmark: &'static str, mix: &'static str) -> Published {
    line(benchmark, mix, [EIGHT_OF_4; 4], "none")
}

/// (b), the Intel machine.
pub(super) const INTEL: [Published; 11] = [
    line(
        "streamcluster",
        "streamcluster-roi",
        [&[8, 8, 3, 0], &[8, 8, 2, 0], EIGHT_OF_4, &[7; 4]],
        "all shared",
    ),
    line(
        "canneal",
        "canneal-roi",
        [&[8, 8, 8, 4], &[8, 8, 8, 4], EIGHT_OF_4, &[7; 4]],
        "all shared",
    ),
    line(
        "facesim",
        "facesim-roi",
        [&[8, 8, 0, 0], &[8, 8, 0, 0], &[3; 4], &[4; 4]],
        "all shared",
    ),
    line(
        "mg.D-resid",
        "mg-resid",
        [&[7; 4], &[7; 4], EIGHT_OF_4, EIGHT_OF_4],
        "local",
    ),
    all_cores("mg.D-psinv", "mg-psinv"),
    all_cores("mg.D-rprj3", "mg-rprj3"),
    all_cores("mg.D-interp", "mg-interp"),
    line(
        "sp.C-x/y/zsolve",
        "sp-solve",
        [&[3; 4], &[3; 4], &[5, 5, 4, 4], &[2; 4]],
        "partly shared",
    ),
    line(
        "sp.C-rhs",
        "sp-rhs",
        [EIGHT_OF_4, EIGHT_OF_4, EIGHT_OF_4, &[4; 4]],
        "none",
    ),
    all_cores("dgemm (MKL)", "dgemm-mkl"),
    all_cores("dgemm (ACML)", "dgemm-acml"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_have_the_shares_of_the_cores_that_are_printed_beside_them() {
        // In percent, a line for each method.
        let amd = [
            [
                12.5, 43.8, 33.3, 100.0, 83.3, 89.6, 89.6, 16.7, 81.3, 91.7, 93.8,
            ],
            [
                12.5, 43.8, 33.3, 100.0, 100.0, 91.7, 91.7, 16.7, 81.3, 91.7, 93.8,
            ],
            [
                20.8, 100.0, 33.3, 47.9, 100.0, 100.0, 100.0, 22.9, 56.3, 100.0, 100.0,
            ],
            [
                16.7, 83.3, 66.7, 100.0, 100.0, 100.0, 100.0, 16.7, 33.3, 33.3, 100.0,
            ],
        ];
        let intel = [
            [
                59.4, 87.5, 50.0, 87.5, 100.0, 100.0, 100.0, 37.5, 100.0, 100.0, 100.0,
            ],
            [
                56.3, 87.5, 50.0, 87.5, 100.0, 100.0, 100.0, 37.5, 100.0, 100.0, 100.0,
            ],
            [
                100.0, 100.0, 37.5, 100.0, 100.0, 100.0, 100.0, 56.3, 100.0, 100.0, 100.0,
            ],
            [
                87.5, 87.5, 50.0, 100.0, 100.0, 100.0, 100.0, 25.0, 50.0, 100.0, 100.0,
            ],
        ];
        for (lines, cores, printed) in [(AMD, 48.0, amd), (INTEL, 32.0, intel)] {
            for (method, printed) in printed.iter().enumerate() {
                for (line, printed) in lines.iter().zip(printed) {
                    let sum: u32 = line.cores[method].iter().sum();
                    let share = 100.0 * f64::from(sum) / cores;
                    let (benchmark, what) = (line.benchmark, line.cores[method]);
                    assert!((share - printed).abs() < 0.051, "{benchmark}: {what:?}");
                }
            }
        }
    }

    #[test]
    fn every_line_has_a_preset_and_no_node_more_cores_than_it_has() {
        let presets = mapper_sim::presets::nucore_apps().unwrap();
        for (lines, nodes, cores) in [(AMD, 8, 6), (INTEL, 4, 8)] {
            for line in lines {
                assert!(presets.contains_key(line.mix), "{}", line.mix);
                for vector in line.cores {
                    assert_eq!(vector.len(), nodes, "{}", line.benchmark);
                    assert!(vector.iter().all(|c| *c <= cores), "{}", line.benchmark);
                }
            }
        }
    }
}
