//! MAPPER's published numbers for services, sensitivity and all together [MAPPER §4.5.4 to 4.5.6].

use super::super::tables::{AppCell, geometric};
use super::book::{Book, MAPPER, yes};
use super::mapper::{FIG2, FIG3, FIG4, FIG5, PROMISE, mean_ratio, ratios, violations};
use super::{Target, calibrate, holds, number, validate};

const FIG6: &str = "mapper-fig6";
const ALL: &[&str] = &[FIG2, FIG3, FIG4, FIG5, FIG6];
const SERVICES: [&str; 3] = ["memcached", "InMemAnalytics", "Mediastreaming"];

fn violation_share(b: &Book<'_>, policy: &str) -> Option<f64> {
    Some(violations(b, ALL, policy)? / b.programs(ALL, policy)? as f64)
}

fn p99_ms(b: &Book<'_>, policy: &str) -> Option<f64> {
    b.cell(FIG6, "memcached, BSGD", policy)?
        .apps
        .first()?
        .p99_ms
}

/// By how much the latency of memcached is lower than under plain Linux, averaged over its mixes.
fn lower_latency(b: &Book<'_>) -> Option<f64> {
    let ratio = b.app_ratio(FIG6, "memcached", MAPPER, "linux")?;
    Some(1.0 - 1.0 / ratio)
}

/// Geometric mean of the services' speeds relative to fair.
fn services(b: &Book<'_>, policy: &str) -> Option<f64> {
    let cells = b.cells(&[FIG6], policy)?;
    geometric(cells.iter().flat_map(|(_, cell)| {
        let of = |a: &&AppCell| SERVICES.contains(&a.name.as_str());
        cell.apps
            .iter()
            .filter(of)
            .map(|a| a.speed)
            .collect::<Vec<_>>()
    }))
}

fn service_violations(b: &Book<'_>, policy: &str) -> Option<f64> {
    let cells = b.cells(&[FIG6], policy)?;
    let apps = cells.iter().flat_map(|(_, cell)| &cell.apps);
    let below = |a: &&AppCell| SERVICES.contains(&a.name.as_str()) && a.speed < PROMISE;
    Some(apps.filter(below).count() as f64)
}

/// Gain over plain Linux in a suite that varies Figure 5.
fn varied(b: &Book<'_>, suite: &str) -> Option<f64> {
    b.gain(suite, MAPPER, "linux")
}

fn fig7(b: &Book<'_>, mixes: &[&str]) -> Option<f64> {
    let ratios = mixes.iter().map(|mix| {
        let of = |policy| Some(b.cell("mapper-fig7", mix, policy)?.value);
        Some(of(MAPPER)? / of("nupoco")?)
    });
    geometric(ratios.collect::<Option<Vec<f64>>>()?)
}

pub(super) const TARGETS: &[Target] = &[
    validate(
        "MP-22",
        "MAPPER Fig. 6",
        &[
            number("MAPPER of fair", 1.0538, 0.98, 1.12, |b| {
                b.overall(FIG6, MAPPER)
            }),
            number("Linux of fair", 0.944, 0.86, 1.0, |b| {
                b.overall(FIG6, "linux")
            }),
        ],
    ),
    calibrate(
        "MP-23",
        "MAPPER Fig. 6",
        &[
            number("memcached alone, p99 in ms", 11.75, 11.6, 11.9, |b| {
                b.cell("mapper-alone", "memcached", "linux")?
                    .apps
                    .first()?
                    .p99_ms
            }),
            number(
                "memcached with BSGD on Linux, p99 in ms",
                20.69,
                18.6,
                22.8,
                |b| p99_ms(b, "linux"),
            ),
        ],
    ),
    validate(
        "MP-24",
        "MAPPER Fig. 6",
        &[
            number(
                "memcached with BSGD, MAPPER, p99 in ms",
                17.12,
                13.7,
                20.5,
                |b| p99_ms(b, MAPPER),
            ),
            number(
                "memcached's p99 below Linux's",
                0.246,
                0.197,
                0.295,
                lower_latency,
            ),
            number("memcached's mixes over Linux", 1.178, 0.942, 1.414, |b| {
                Some(1.0 + b.gain_with(FIG6, "memcached", MAPPER, "linux")?)
            }),
        ],
    ),
    validate(
        "MP-25",
        "MAPPER Fig. 6",
        &[
            number(
                "in-memory analytics over Linux",
                0.1444,
                0.072,
                0.217,
                |b| Some(b.app_ratio(FIG6, "InMemAnalytics", MAPPER, "linux")? - 1.0),
            ),
            number("media streaming over Linux", 0.11, 0.055, 0.165, |b| {
                Some(b.app_ratio(FIG6, "Mediastreaming", MAPPER, "linux")? - 1.0)
            }),
            number("services of fair, MAPPER", 1.036, 1.018, 1.054, |b| {
                services(b, MAPPER)
            }),
            number("services of fair, Linux", 0.873, 0.81, 0.937, |b| {
                services(b, "linux")
            }),
        ],
    ),
    validate(
        "MP-26",
        "MAPPER §4.5.4",
        &[
            number("services below their promise, MAPPER", 1.0, 0.0, 3.0, |b| {
                service_violations(b, MAPPER)
            }),
            number("services below their promise, Linux", 9.0, 5.0, 14.0, |b| {
                service_violations(b, "linux")
            }),
        ],
    ),
    validate(
        "MP-27",
        "MAPPER §4.5.6",
        &[
            number("gain with a promise of 0.75", 0.29, 0.21, 0.37, |b| {
                varied(b, "mapper-qos-75")
            }),
            number("gain with a promise of 0.8", 0.28, 0.2, 0.36, |b| {
                varied(b, "mapper-qos-80")
            }),
            number("gain with a promise of 0.85", 0.2, 0.12, 0.28, |b| {
                varied(b, FIG5)
            }),
            number("gain with a promise of 0.9", 0.2, 0.12, 0.28, |b| {
                varied(b, "mapper-qos-90")
            }),
            holds("no gain by a stricter promise", |b| {
                let gains =
                    ["mapper-qos-75", "mapper-qos-80", FIG5, "mapper-qos-90"].map(|s| varied(b, s));
                let gains: Option<Vec<f64>> = gains.into_iter().collect();
                yes(gains?.windows(2).all(|pair| pair[0] >= pair[1] - 0.005))
            }),
        ],
    ),
    validate(
        "MP-28",
        "MAPPER §4.5.6",
        &[
            number("promises of 0.9 broken", 6.0, 2.0, 12.0, |b| {
                Some(b.below_fair(&["mapper-qos-90"], MAPPER, 0.9)?.len() as f64)
            }),
            number("how far, on average", 0.87, 0.82, 0.9, |b| {
                geometric(b.below_fair(&["mapper-qos-90"], MAPPER, 0.9)?)
            }),
            number("promises of 0.75 and 0.8 broken", 0.0, 0.0, 0.0, |b| {
                let strict = b.below_fair(&["mapper-qos-80"], MAPPER, 0.8)?.len();
                let loose = b.below_fair(&["mapper-qos-75"], MAPPER, 0.75)?.len();
                Some((strict + loose) as f64)
            }),
        ],
    ),
    validate(
        "MP-29",
        "MAPPER §4.5.6",
        &[
            number("gain with 100 ms", 0.18, 0.08, 0.28, |b| {
                varied(b, "mapper-interval-100ms")
            }),
            number("gain with 500 ms", 0.2, 0.1, 0.3, |b| {
                varied(b, "mapper-interval-500ms")
            }),
            number("points lost from 1 s to 20 ms", 0.09, 0.05, 0.13, |b| {
                Some(varied(b, FIG5)? - varied(b, "mapper-interval-20ms")?)
            }),
            holds("shorter intervals never gain", |b| {
                let gains = [
                    "mapper-interval-20ms",
                    "mapper-interval-100ms",
                    "mapper-interval-500ms",
                    FIG5,
                ]
                .map(|s| varied(b, s));
                let gains: Option<Vec<f64>> = gains.into_iter().collect();
                yes(gains?.windows(2).all(|pair| pair[0] <= pair[1] + 0.005))
            }),
        ],
    ),
    validate(
        "MP-30",
        "MAPPER abstract",
        &[
            number("all mixes over Linux", 1.17, 1.08, 1.28, |b| {
                mean_ratio(b, ALL)
            }),
            number("best mix over Linux", 3.3, 2.2, 4.5, |b| {
                ratios(b, ALL)?.into_iter().reduce(f64::max)
            }),
            number("share of promises broken, MAPPER", 0.02, 0.0, 0.06, |b| {
                violation_share(b, MAPPER)
            }),
            number("share of promises broken, Linux", 0.23, 0.12, 0.35, |b| {
                violation_share(b, "linux")
            }),
        ],
    ),
    validate(
        "MP-32",
        "MAPPER Fig. 7",
        &[
            holds("more than NuPoCo on average", |b| {
                yes(b.overall("mapper-fig7", MAPPER)? > b.overall("mapper-fig7", "nupoco")?)
            }),
            holds("more than NuPoCo for 3 programs", |b| {
                yes(fig7(b, &["BT, FT, SP", "BT, FT, EP", "BT, SP, EP", "FT, SP, EP"])? > 1.0)
            }),
            holds("less than NuPoCo for BT and KM", |b| {
                yes(fig7(b, &["BT, KM"])? < 1.0)
            }),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::super::super::examples::{ran, suite, table};
    use super::super::super::tables::SuiteTable;
    use super::super::book::tests::{book, near};
    use super::*;

    /// Figure 6 with memcached at `service` under MAPPER and at 0.8 under Linux, BSGD everywhere at 0.5.
    fn figure_6(service: f64) -> SuiteTable {
        let suite = suite(FIG6, &["memcached, BSGD"], &[MAPPER, "linux"]);
        table(&suite, &|_, policy| {
            let speed = if policy == MAPPER { service } else { 0.8 };
            let mut run = ran(&[("memcached", speed), ("BSGD", 0.5)]);
            run.apps[0].p99_s = Some(0.01 / speed);
            run
        })
    }

    #[test]
    fn the_latency_told_is_that_of_the_service() {
        let tables = [figure_6(1.0)];
        near(p99_ms(&book(&tables), MAPPER), 10.0);
        near(p99_ms(&book(&tables), "linux"), 12.5);
    }

    #[test]
    fn a_latency_is_lower_by_as_much_as_the_service_is_faster() {
        let tables = [figure_6(1.0)];
        near(lower_latency(&book(&tables)), 0.2);
    }

    #[test]
    fn only_services_count_where_services_are_meant() {
        let tables = [figure_6(0.9)];
        let b = book(&tables);
        near(services(&b, MAPPER), 0.9);
        near(service_violations(&b, MAPPER), 0.0);
        near(service_violations(&b, "linux"), 1.0);
    }

    #[test]
    fn the_share_of_broken_promises_needs_all_five_figures() {
        let figure = |name: &str| SuiteTable {
            suite: suite(name, &["memcached, BSGD"], &[MAPPER, "linux"]),
            ..figure_6(0.9)
        };
        let tables: Vec<SuiteTable> = ALL.iter().map(|name| figure(name)).collect();
        // BSGD in each of the five.
        near(violation_share(&book(&tables), MAPPER), 0.5);
        near(violation_share(&book(&tables), "linux"), 1.0);
        assert_eq!(violation_share(&book(&tables[1..]), MAPPER), None);
    }

    #[test]
    fn figure_7_is_mapper_over_nupoco() {
        let suite = suite("mapper-fig7", &["BT, KM", "BT, FT"], &[MAPPER, "nupoco"]);
        let tables = [table(&suite, &|_, policy| {
            let speed = if policy == MAPPER { 0.6 } else { 0.8 };
            ran(&[("BT", speed), ("KM", speed)])
        })];
        near(fig7(&book(&tables), &["BT, KM", "BT, FT"]), 0.75);
        assert_eq!(fig7(&book(&tables), &["BT, KM", "EP, KM"]), None);
    }
}
