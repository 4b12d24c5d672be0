//! The report as a page of HTML.

use super::evaluation::Evaluation;
use super::plot;
use super::policies;
use super::protocol::{Mean, Relative};
use super::show;
use super::standing;
use super::table1::Table1;
use super::tables::{Cell, MixRow, SuiteTable, TIMELINE_S};
use super::targets::{Line, Score, Unjudged, Verdict};
use mapper_report::html_report;
use mapper_report::plot::{cpus_over_time, legend, shares_over_time};
use mapper_report::table::Table;
use maud::{Markup, html};

const OWN_STYLE: &str = include_str!("report.css");
/// Suites of so few mixes show which CPUs each program held, others how many.
const SHOWS_CPUS: usize = 3;

pub(super) fn page(evaluation: &Evaluation<'_>) -> anyhow::Result<String> {
    let headline = match Score::of(evaluation.targets) {
        Some(Score { inside, judged, .. }) if judged > 0 => {
            format!("{inside} of {judged} published numbers came out inside their band")
        }
        _ => "Policies compared, without published numbers".to_owned(),
    };
    let hash = evaluation.protocol_sha256;
    let mut suites = Vec::new();
    for table in evaluation.suites {
        suites.push(suite(evaluation, table)?);
    }
    let content = html! {
        header {
            p class="eyebrow" { "mapper eval, in the model" }
            h1 { (headline) }
            p class="soft" {
                "A model of the papers' machines, not a measurement. Protocol version "
                (evaluation.protocol.version) ", sha256 " code { (hash.get(..16).unwrap_or(hash)) }
                @if let Some(budget) = evaluation.protocol.budget_shown() { "; " (budget) }
                "."
            }
        }
        @if evaluation.left_out > 0 {
            p class="caution" {
                "Stopped early: " (evaluation.left_out) " runs are missing, and with them whole mixes."
            }
        }
        @if !evaluation.settings.is_empty() {
            p class="caution" {
                "Not what the protocol says, but with " (evaluation.settings.join(", ")) "."
            }
        }
        (targets(evaluation.targets, evaluation.unjudged))
        @for (at, table) in show::standings(evaluation.standings).iter().enumerate() {
            @if at == 0 {
                h2 { "This project's own policy" }
                p class="prose" {
                    code { "mapper-next" } " beside MAPPER as printed and the best fixed sets: the mean of each \
                    suite, and of the promises given those that were broken."
                }
            }
            (table.html())
        }
        @if let Some(kept) = standing::kept_in_all(evaluation.standings) {
            p class="prose" { (kept) "." }
        }
        @if !evaluation.validity.is_empty() {
            h2 { "Is the order an accident?" }
            p class="prose" {
                "Parts of the model are taken out, cases are run in which nothing should happen, and parameters are \
                moved by a quarter."
            }
            div class="checks" { (show::validity(evaluation.validity).html()) }
        }
        @for suite in &suites { (suite) }
        (method())
    };
    let title = "mapper eval, in the model";
    Ok(html_report::page(title, OWN_STYLE, &content))
}

fn targets(lines: &[Line], unjudged: &[Unjudged]) -> Markup {
    let exact = Score::of(lines).and_then(Score::exact_shown);
    let shown = || lines.iter().filter(|line| line.verdict != Verdict::NotRun);
    let class = |line: &Line| match line.verdict {
        Verdict::Outside => "bad",
        Verdict::Inside => "good",
        Verdict::Taken | Verdict::NotRun => "soft",
    };
    html! {
        @if shown().next().is_some() {
            h2 { "Published numbers" }
            p class="prose" {
                "Those outside their band first. The bands were set before the model existed. Numbers that calibrate \
                may have set parameters, those that validate may not. Not counted above, as they are no evidence of \
                the model: inputs, and exact ones, which the papers' own formulas give, where a paper leaves out what \
                goes into them with values chosen for the published result"
                @if let Some(exact) = exact { ": " (exact) " are inside" }
                "."
            }
            div class="scroll" {
                table class="targets" {
                    thead {
                        tr {
                            @for name in ["source", "number", "paper", "model", "band", "use", ""] {
                                th { (name) }
                            }
                        }
                    }
                    tbody {
                        @for line in shown() {
                            tr {
                                td { (line.id) div { (line.source) } }
                                td {
                                    (line.what)
                                    @if let Some(of) = &line.cause {
                                        div class="soft cause" { (of.cause) }
                                        div class="soft cause" {
                                            em { "Shown by, version " (of.version) ":" } " " (of.shown)
                                        }
                                    }
                                }
                                td { (line.shown(line.paper)) }
                                td { (line.shown(line.model.unwrap_or(f64::NAN))) }
                                td { (line.band()) }
                                td { (line.uses.shown()) }
                                td class=(class(line)) { (line.verdict.shown()) }
                            }
                        }
                        @for Unjudged { ids, what, why } in unjudged {
                            tr {
                                td { (ids) }
                                td { (what) div class="soft cause" { (why) } }
                                td { "–" } td { "–" } td {} td {}
                                td class="soft" { "not judged" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn suite(evaluation: &Evaluation<'_>, table: &SuiteTable) -> anyhow::Result<Markup> {
    let suite = &table.suite;
    let relative = match suite.relative {
        Relative::Alone => "that alone on the whole machine under plain Linux",
        Relative::Fair => "that under the static fair share in the same mix",
        Relative::BestStatic => "that alone on the best fixed mapping",
        Relative::OneCore => "that alone on one core",
    };
    let mean = match suite.mean {
        Mean::Geometric => "geometric mean",
        Mean::Harmonic => "harmonic mean",
        Mean::Sum => "sum",
    };
    let value = |policy: &String| table.overall.get(policy).map(|value| format!("{value:.3}"));
    let mut plots = Vec::new();
    if !table.mixes.is_empty() {
        plots = plot::speeds(table)?;
    }
    let printed = evaluation.nucore_table1.iter();
    let printed = printed.filter(|of| of.suite == suite.name);
    Ok(html! {
        h2 { (suite.title) }
        p class="soft about" {
            "On " (suite.machine) " in the model. A speed of 1 is " (relative) ". Bars: " (mean) " of the programs' \
            speeds; lines: slowest and fastest program."
            @if !suite.assumed.is_empty() {
                " A star marks mixes that the text of the paper does not name."
            }
        }
        div class="scroll" {
            table class="overall" {
                thead { tr { th { "policy" } th { "mean of all mixes" } } }
                tbody {
                    @for (at, policy) in suite.policies.iter().enumerate() {
                        tr {
                            td style=(format!("--key: var(--s{})", at % 10)) {
                                span class="key" {} (policies::title(policy))
                            }
                            td { (value(policy).unwrap_or_else(|| "–".into())) }
                        }
                    }
                }
            }
        }
        @if let Some(left_out) = table.without_mean_shown() { p class="caution" { (left_out) "." } }
        // The first one stands below the table of policies, which has the colours.
        @for (at, plot) in plots.iter().enumerate() {
            figure { @if at > 0 { (colours(table)) } (plot) }
        }
        @for table1 in printed { (as_printed(table1)) }
        (further(table)?)
        @if !table.mixes.is_empty() {
            (folded("Every mix", &show::suite(table)))
            (folded("Every program", &show::programs(table)))
        }
        @if let Some(moved) = show::reallocation(table) { (folded(&moved.title, &moved)) }
        (timelines(table)?)
    })
}

fn folded(title: &str, table: &Table) -> Markup {
    html! { details { summary { (title) } (table.html()) } }
}

fn colours(table: &SuiteTable) -> Markup {
    let names = table.suite.policies.iter();
    legend(names.map(|name| policies::title(name)).enumerate())
}

fn as_printed(table1: &Table1) -> Markup {
    let table = table1.table();
    html! {
        h3 { (table.title) }
        div class="lines" { (table.html()) }
        p class="prose" { (table1.agreements().join(". ")) "." }
    }
}

/// Which CPUs each program held when, for the first mix and the one with the most programs.
fn timelines(table: &SuiteTable) -> anyhow::Result<Markup> {
    let by_cpu = table.mixes.len() <= SHOWS_CPUS;
    let (first, all) = (table.mixes.first(), table.mixes.iter());
    let largest = all.max_by_key(|row| row.mix.matches(',').count());
    let largest = largest.filter(|row| first.is_some_and(|first| first.mix != row.mix));
    // Sets that never change say nothing, unless they are what others are seen beside.
    let changes = |cell: &Cell| cell.timeline.len() > 1;
    let shown = first.into_iter().chain(largest);
    let mut figures = Vec::new();
    for row in shown.filter(|row| row.policies.values().any(changes)) {
        for policy in &table.suite.policies {
            let shows = |cell: &&Cell| changes(cell) || (by_cpu && !cell.timeline.is_empty());
            let Some(cell) = row.policies.get(policy).filter(shows) else {
                continue;
            };
            let until_s = cell.elapsed_s.min(TIMELINE_S);
            let series: Vec<usize> = (0..cell.apps.len()).collect();
            let held = &cell.timeline;
            let plot = match by_cpu {
                true => {
                    cpus_over_time(&plot::spans(held, table.cpus, until_s), table.cpus, until_s)
                }
                false => {
                    let samples = plot::samples(held, until_s);
                    shares_over_time(&samples, &series, table.cpus, until_s)
                }
            }?;
            let apps = cell.apps.iter().map(|app| app.name.as_str()).enumerate();
            figures.push(html! { figure { figcaption { (policy) } (legend(apps)) (plot) } });
        }
    }
    let what = match by_cpu {
        true => "Which CPUs each program held (grey: several together)",
        false => "How many CPUs each program held",
    };
    Ok(html! {
        @if !figures.is_empty() {
            details open[by_cpu] { summary { (what) } @for figure in &figures { (figure) } }
        }
    })
}

type Value = fn(&MixRow, &Cell) -> Option<f64>;

/// Figures that some papers draw besides speeds.
fn further(table: &SuiteTable) -> anyhow::Result<Markup> {
    let time: Value = |row, cell| Some(cell.elapsed_s / row.policies.get("linux")?.elapsed_s);
    let turnaround: Value =
        |row, cell| Some(cell.turnaround_s? / row.policies.get("scaf")?.turnaround_s?);
    let cores: Value = |_, cell| Some(cell.apps.first()?.mean_cpus);
    let between: Value = |_, cell| Some(1e3 * cell.apps.first()?.inter_socket_per_cycle);
    let within: Value = |_, cell| Some(1e3 * cell.apps.first()?.intra_socket_per_cycle);
    let figures: &[(&str, Option<f64>, Value)] = match table.suite.name.as_str() {
        "nupoco-amd" | "nupoco-intel" => &[(
            "Total time, of that under plain Linux [NuPoCo Fig. 11]",
            Some(1.0),
            time,
        )],
        "cooperative-fig4" => &[(
            "Mean time from start to end of a program, of that under SCAF [Cooperative Fig. 4]",
            Some(1.0),
            turnaround,
        )],
        name if name.starts_with("nucore-") => {
            &[("Cores in use on average [NuCore Table 1]", None, cores)]
        }
        "sam-fig2" => &[
            (
                "Lines from other sockets, per 1000 cycles of a thread [SAM-MPH Fig. 3 (A)]",
                None,
                between,
            ),
            (
                "Lines from other cores of the socket, per 1000 cycles of a thread [SAM-MPH Fig. 3 (B)]",
                None,
                within,
            ),
        ],
        _ => &[],
    };
    let mut drawn = Vec::new();
    for (heading, reference, value) in figures {
        drawn.push((heading, plot::of_cells(table, *reference, value)?));
    }
    Ok(html! {
        @for (heading, plots) in &drawn {
            h3 { (heading) }
            @for plot in plots { figure { (colours(table)) (plot) } }
        }
    })
}

fn method() -> Markup {
    html! {
        h2 { "What this is worth" }
        div class="prose" {
            p {
                "The model knows cores with two contexts, caches by demand, memory and links as queues, sharing by \
                placement, serial and parallel parts, barriers, and what moving costs. Policies see counters with \
                noise and nothing else. It does not know: Linux's load-balancing bugs, page migration, the real \
                phases of programs, clocks that change. Bandwidths and latencies are assumed where no paper prints \
                them."
            }
            p {
                "Linux is a mean field: every thread gets the same share of time. Orders of policies say more than \
                levels. Results of the real machine never stand beside these."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{self, evaluation, tables_of};
    use super::super::targets;
    use super::super::validity::Finding;
    use super::*;

    #[test]
    fn the_page_is_well_formed_and_says_what_is_missing() {
        let finding = Finding {
            check: "a < b".into(),
            expected: "less",
            found: "more".into(),
            held: false,
        };
        let rows = [
            "sam-fig2 | SGD | linux 1 | mapper 1",
            "sam-fig2 | ALS, SVD | linux 1 | mapper 1",
        ];
        let tables = tables_of(&rows);
        let html = page(&Evaluation {
            validity: &[finding],
            settings: &["a < 2".to_owned()],
            suites: &tables,
            left_out: 3,
            ..evaluation()
        });
        let html = html.unwrap();
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..Default::default()
        };
        roxmltree::Document::parse_with_options(&html, options).unwrap();
        for part in [
            "3 runs are missing",
            "a &lt; b",
            "but with a &lt; 2.",
            "DOES NOT HOLD",
            "more than 2 % of the interval",
        ] {
            assert!(html.contains(part), "{part}");
        }
    }

    #[test]
    fn every_plot_but_the_first_stands_below_the_colours_of_its_policies() {
        let html = super::suite(&evaluation(), &examples::many_mixes())
            .unwrap()
            .0;
        let count = |part: &str| html.matches(part).count();
        assert!(count("<svg") > 1);
        assert_eq!(count("class=\"legend\""), count("<svg") - 1);
        assert_eq!(count("class=\"key\""), 2, "the table has them first");
    }

    #[test]
    fn what_is_outside_its_band_stands_first_and_what_is_not_judged_last_in_one_table() {
        let tables = tables_of(&["sam-fig5 | SGD | linux 1"]);
        let mut model = examples::model();
        // A pair gains more by one socket than is published.
        model.constants.intra_socket = 0.0;
        let book = targets::Book {
            tables: &tables,
            model,
        };
        let lines = targets::judge(&book, Some(examples::protocol().version)).unwrap();
        let html = super::targets(&lines, &targets::unjudged().unwrap()).0;
        assert_eq!(html.matches("<table").count(), 1);
        let place = |part: &str| html.find(part).expect(part);
        assert!(place(">outside<") < place(">taken over<"));
        assert!(place(">taken over<") < place(">not judged<"));
    }
}
