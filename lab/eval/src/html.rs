//! The report as a page of HTML.

use super::plot;
use super::policies;
use super::protocol::Relative;
use super::standing::{self, Standing};
use super::table1::Table1;
use super::tables::{Cell, MixRow, SuiteTable, TIMELINE_S};
use super::targets::{Line, Score, Unjudged, Verdict};
use super::timeline::{self, Timeline};
use super::validity::Finding;
use mapper_report::html_report::{self, escaped};
use std::fmt::Write as _;

const OWN_STYLE: &str = include_str!("report.css");
/// Suites of so few mixes show which CPUs everybody held, others how many.
const SHOWS_CPUS: usize = 3;

/// What the page tells.
pub(super) struct Report<'a> {
    pub(super) tables: &'a [SuiteTable],
    pub(super) targets: &'a [Line],
    pub(super) unjudged: &'a [Unjudged],
    pub(super) standings: &'a [Standing],
    /// What was changed on the command line.
    pub(super) settings: &'a [String],
    pub(super) validity: &'a [Finding],
    pub(super) protocol_version: u32,
    pub(super) protocol_sha256: &'a str,
    /// What deciding may cost this project's policies, in words.
    pub(super) budget: Option<&'a str>,
    pub(super) left_out: usize,
}

/// The page.
pub(super) fn page(report: &Report<'_>) -> String {
    let mut html = html_report::begin("mapper eval, in the model", OWN_STYLE);
    let score = Score::of(report.targets);
    let headline = match score {
        Some(Score { inside, judged, .. }) if judged > 0 => {
            format!("{inside} of {judged} published numbers came out inside their band")
        }
        _ => "Policies compared, without published numbers".to_owned(),
    };
    let _ = write!(
        html,
        "<header><p class=\"eyebrow\">mapper eval, in the model</p><h1>{headline}</h1><p class=\"soft\">A model of the papers' machines, \
         not a measurement. Protocol version {}, sha256 <code>{}</code>{}.</p></header>",
        report.protocol_version,
        report
            .protocol_sha256
            .get(..16)
            .unwrap_or(report.protocol_sha256),
        report
            .budget
            .map_or_else(String::new, |budget| format!("; {}", escaped(budget)))
    );
    if report.left_out > 0 {
        let _ = write!(
            html,
            "<p class=\"caution\">Stopped early: {} runs are missing, and with them whole mixes.</p>",
            report.left_out
        );
    }
    if !report.settings.is_empty() {
        let _ = write!(
            html,
            "<p class=\"caution\">Not what the protocol says, but with {}.</p>",
            escaped(&report.settings.join(", "))
        );
    }
    targets(&mut html, report.targets, report.unjudged);
    standings(&mut html, report.standings);
    validity(&mut html, report.validity);
    for table in report.tables {
        suite(&mut html, table);
    }
    method(&mut html);
    html.push_str(html_report::END);
    html
}

fn targets(html: &mut String, lines: &[Line], unjudged: &[Unjudged]) {
    if lines.iter().all(|line| line.verdict == Verdict::NotRun) {
        return;
    }
    let exact = Score::of(lines).and_then(Score::exact_told);
    let exact = exact.map_or_else(String::new, |score| format!(": {score} are inside"));
    let _ = write!(
        html,
        "<h2>Published numbers</h2><p class=\"prose\">Those outside their band first. The bands \
         were set before the model existed. Numbers that calibrate may have set parameters, \
         those that validate may not. Not counted above, as they are no evidence of the model: inputs, and exact \
         ones, which the papers' own formulas give, where a paper leaves out what goes into them with values \
         chosen for the published result{exact}.</p><div class=\"scroll\"><table class=\"targets\"><thead><tr>\
         <th>source</th><th>number</th><th>paper</th><th>model</th><th>band</th><th>use</th>\
         <th></th></tr></thead><tbody>",
    );
    for line in lines.iter().filter(|l| l.verdict != Verdict::NotRun) {
        let class = match line.verdict {
            Verdict::Outside => "bad",
            Verdict::Inside => "good",
            Verdict::Taken | Verdict::NotRun => "soft",
        };
        let cause = line.cause.as_ref().map_or_else(String::new, |cause| {
            format!(
                "<div class=\"soft cause\">{}<br/><em>Shown by, version {}:</em> {}</div>",
                escaped(&cause.cause),
                cause.version,
                escaped(&cause.shown)
            )
        });
        let _ = write!(
            html,
            "<tr><td>{}<br/>{}</td><td>{}{cause}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td class=\"{class}\">{}</td></tr>",
            line.id,
            escaped(&line.source),
            escaped(&line.what),
            line.told(line.paper),
            line.told(line.model.unwrap_or(f64::NAN)),
            line.band(),
            line.uses.told(),
            line.verdict.told()
        );
    }
    for Unjudged { ids, what, why } in unjudged {
        let _ = write!(
            html,
            "<tr><td>{ids}</td><td>{}<div class=\"soft cause\">{}</div></td><td>–</td><td>–</td><td></td>\
             <td></td><td class=\"soft\">not judged</td></tr>",
            escaped(what),
            escaped(why)
        );
    }
    html.push_str("</tbody></table></div>");
}

fn standings(html: &mut String, standings: &[Standing]) {
    if standings.is_empty() {
        return;
    }
    html.push_str(
        "<h2>This project's own policy</h2><p class=\"prose\"><code>mapper-next</code> beside MAPPER \
         as printed and the best fixed sets: the mean of each suite, and of the promises given those \
         that were broken.</p>",
    );
    let mut names: Vec<&str> = Vec::new();
    for standing in standings {
        let compared: Vec<&str> = standing
            .policies
            .iter()
            .map(|s| s.policy.as_str())
            .collect();
        if compared != names {
            if !names.is_empty() {
                html.push_str("</tbody></table></div>");
            }
            html.push_str("<div class=\"scroll\"><table><thead><tr><th>suite</th>");
            for policy in &compared {
                let title = policies::find(policy).map_or(*policy, |p| p.title);
                let _ = write!(html, "<th>{}</th>", escaped(title));
            }
            html.push_str("<th>over MAPPER</th><th>of best fixed sets</th><th>of best known</th></tr></thead><tbody>");
            names = compared;
        }
        let _ = write!(html, "<tr><td>{}</td>", escaped(&standing.suite));
        for stand in &standing.policies {
            let _ = write!(html, "<td>{}</td>", stand.told());
        }
        let percent = |value: Option<f64>, signed: bool| match value {
            Some(value) if signed => format!("{:+.1} %", 100.0 * value),
            Some(value) => format!("{:.1} %", 100.0 * value),
            None => "–".to_owned(),
        };
        let _ = write!(
            html,
            "<td>{}</td><td>{}</td><td>{}</td></tr>",
            percent(standing.gain(), true),
            percent(standing.of_ceiling(), false),
            percent(standing.of_best_known(), false)
        );
    }
    html.push_str("</tbody></table></div>");
    if let Some(kept) = standing::kept_in_all(standings) {
        let _ = write!(html, "<p class=\"prose\">{}.</p>", escaped(&kept));
    }
}

fn validity(html: &mut String, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    html.push_str(
        "<h2>Is the order an accident?</h2><p class=\"prose\">Parts of the model are taken out, \
         cases are run in which nothing should happen, and parameters are moved by a quarter.</p>\
         <div class=\"scroll\"><table><thead><tr><th>check</th><th>expected</th><th>found</th><th></th>\
         </tr></thead><tbody>",
    );
    for finding in findings {
        let (class, verdict) = if finding.held {
            ("good", "holds")
        } else {
            ("bad", "does not hold")
        };
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{verdict}</td></tr>",
            escaped(&finding.check),
            escaped(finding.expected),
            escaped(&finding.found)
        );
    }
    html.push_str("</tbody></table></div>");
}

fn suite(html: &mut String, table: &SuiteTable) {
    let suite = &table.suite;
    let _ = write!(
        html,
        "<h2>{}</h2><p class=\"soft about\">On {} in the model. A speed of 1 is {}. Bars: {} of the programs' \
         speeds; whiskers: slowest and fastest program.{}</p>",
        escaped(&suite.title),
        escaped(&suite.machine),
        match suite.relative {
            Relative::Alone => "that alone on the whole machine under plain Linux",
            Relative::Fair => "that under the static fair share in the same mix",
            Relative::BestStatic => "that alone on the best fixed mapping",
            Relative::OneCore => "that alone on one core",
        },
        match suite.mean {
            super::protocol::Mean::Geometric => "geometric mean",
            super::protocol::Mean::Harmonic => "harmonic mean",
            super::protocol::Mean::Sum => "sum",
        },
        if suite.assumed.is_empty() {
            ""
        } else {
            " A star marks mixes that the text of the paper does not name."
        }
    );
    html.push_str(
        "<div class=\"scroll\"><table class=\"overall\"><thead><tr>\
         <th>policy</th><th>mean of all mixes</th></tr></thead><tbody>",
    );
    for (series, policy) in suite.policies.iter().enumerate() {
        let title = policies::find(policy).map_or(policy.as_str(), |p| p.title);
        let value = table
            .overall
            .get(policy)
            .map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"));
        let _ = write!(
            html,
            "<tr><td class=\"s{series}\"><span class=\"key\"></span>{}</td><td>{value}</td></tr>",
            escaped(title)
        );
    }
    html.push_str("</tbody></table></div>");
    if let Some(told) = table.without_mean_told() {
        let _ = write!(html, "<p class=\"caution\">{}.</p>", escaped(&told));
    }
    if !table.mixes.is_empty() {
        // The first one stands below the table of policies, which has the colours.
        for (at, svg) in plot::speeds(table).iter().enumerate() {
            let legend = if at == 0 {
                String::new()
            } else {
                legend(table)
            };
            let _ = write!(html, "<figure>{legend}{svg}</figure>");
        }
    }
    if let Some(table1) = Table1::of(table) {
        html.push_str(&table1.html());
    }
    further(html, table);
    reallocation(html, table);
    timelines(html, table);
}

/// Which policy has which colour.
fn legend(table: &SuiteTable) -> String {
    let mut html = String::from("<div class=\"legend\">");
    for (series, policy) in table.suite.policies.iter().enumerate() {
        let title = policies::find(policy).map_or(policy.as_str(), |p| p.title);
        let _ = write!(html, "<span class=\"s{series}\">{}</span>", escaped(title));
    }
    html + "</div>"
}

/// Who held CPUs when, for the first mix and the one with the most programs.
fn timelines(html: &mut String, table: &SuiteTable) {
    let mut shown: Vec<&MixRow> = table.mixes.first().into_iter().collect();
    let largest = table
        .mixes
        .iter()
        .max_by_key(|row| row.mix.matches(',').count());
    if let Some(largest) = largest
        && !shown.iter().any(|row| row.mix == largest.mix)
    {
        shown.push(largest);
    }
    let (draw, what): (fn(&Timeline<'_>) -> String, _) = if table.mixes.len() <= SHOWS_CPUS {
        (
            timeline::by_cpu,
            "Who held which CPUs (grey: several together)",
        )
    } else {
        (timeline::stacked, "Who held how many CPUs")
    };
    let mut figures = String::new();
    for row in shown {
        // Sets that never change say nothing, unless they are what others are seen beside.
        let changes = |cell: &&Cell| cell.timeline.len() > 1;
        if !row.policies.values().any(|cell| changes(&cell)) {
            continue;
        }
        for policy in &table.suite.policies {
            let by_cpu = table.mixes.len() <= SHOWS_CPUS;
            let Some(cell) = row
                .policies
                .get(policy)
                .filter(|cell| changes(cell) || (by_cpu && !cell.timeline.is_empty()))
            else {
                continue;
            };
            let apps: Vec<String> = cell.apps.iter().map(|a| a.name.clone()).collect();
            let svg = draw(&Timeline {
                title: policy,
                apps: &apps,
                held: &cell.timeline,
                cpus: table.cpus,
                until_s: cell.elapsed_s.min(TIMELINE_S),
            });
            let _ = write!(figures, "<figure>{svg}</figure>");
        }
    }
    if !figures.is_empty() {
        let open = if table.mixes.len() <= SHOWS_CPUS {
            " open=\"open\""
        } else {
            ""
        };
        let _ = write!(
            html,
            "<details{open}><summary>{what}</summary><div class=\"timelines\">{figures}</div></details>"
        );
    }
}

/// How often CPU sets were written and how many CPUs moved by it [MAPPER Table 4].
fn reallocation(html: &mut String, table: &SuiteTable) {
    let suite = &table.suite;
    let writes = |policy: &&String| {
        let cells = table
            .mixes
            .iter()
            .filter_map(|row| row.policies.get(*policy));
        cells.map(|cell| cell.rewrites_per_s).sum::<f64>() > 0.0
    };
    let policies: Vec<&String> = suite.policies.iter().filter(writes).collect();
    if policies.is_empty() {
        return;
    }
    html.push_str(
        "<details><summary>CPU sets written per second, and CPUs that changed hands</summary>\
         <div class=\"scroll\"><table class=\"pairs\"><thead><tr><th></th>",
    );
    for policy in &policies {
        let _ = write!(html, "<th colspan=\"2\">{}</th>", escaped(policy));
    }
    html.push_str("</tr><tr><th>mix</th>");
    html.push_str(&"<th>sets</th><th>CPUs</th>".repeat(policies.len()));
    html.push_str("</tr></thead><tbody>");
    for row in &table.mixes {
        let _ = write!(html, "<tr><td>{}</td>", escaped(&row.mix));
        for policy in &policies {
            match row.policies.get(*policy) {
                Some(cell) => drop(write!(
                    html,
                    "<td>{:.2}</td><td>{:.2}</td>",
                    cell.rewrites_per_s, cell.moves_per_s
                )),
                None => html.push_str("<td>–</td><td>–</td>"),
            }
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div></details>");
}

/// Figures that some papers draw besides speeds.
fn further(html: &mut String, table: &SuiteTable) {
    let suite = &table.suite;
    let mut figure = |heading: &str, line_at, value: &dyn Fn(&MixRow, &Cell) -> Option<f64>| {
        let _ = write!(html, "<h3>{}</h3>", escaped(heading));
        for svg in plot::of_cells(table, heading, line_at, value) {
            let _ = write!(html, "<figure>{}{svg}</figure>", legend(table));
        }
    };
    if ["nupoco-amd", "nupoco-intel"].contains(&suite.name.as_str()) {
        figure(
            "Total time, of that under plain Linux [NuPoCo Fig. 11]",
            Some(1.0),
            &|row, cell| Some(cell.elapsed_s / row.policies.get("linux")?.elapsed_s),
        );
    }
    if suite.name == "cooperative-fig4" {
        figure(
            "Mean time from start to end of a program, of that under SCAF [Cooperative Fig. 4]",
            Some(1.0),
            &|row, cell| Some(cell.turnaround_s? / row.policies.get("scaf")?.turnaround_s?),
        );
    }
    if suite.name.starts_with("nucore-") {
        figure(
            "Cores in use on average [NuCore Table 1]",
            None,
            &|_, cell| Some(cell.apps.first()?.mean_cpus),
        );
    }
    if suite.name == "sam-fig2" {
        figure(
            "Lines from other sockets, per 1000 cycles of a thread [SAM-MPH Fig. 3 (A)]",
            None,
            &|_, cell| Some(1e3 * cell.apps.first()?.inter_socket_per_cycle),
        );
        figure(
            "Lines from other cores of the socket, per 1000 cycles of a thread [SAM-MPH Fig. 3 (B)]",
            None,
            &|_, cell| Some(1e3 * cell.apps.first()?.intra_socket_per_cycle),
        );
    }
}

fn method(html: &mut String) {
    html.push_str(
        "<h2>What this is worth</h2><div class=\"prose\"><p>The model knows cores with two contexts, \
         caches by demand, memory and links as queues, sharing by placement, serial and parallel \
         parts, barriers, and what moving costs. Policies see counters with noise and nothing else. \
         It does not know: Linux's load-balancing bugs, page migration, the real phases of programs, \
         clocks that change. Bandwidths and latencies are assumed where no paper prints them.</p>\
         <p>Linux is a mean field: every thread gets the same share of time. Orders of policies say \
         more than levels. Results of the real machine never stand beside these.</p></div>",
    );
}

#[cfg(test)]
mod tests {
    use super::super::{examples, targets};
    use super::*;

    #[test]
    fn the_page_is_well_formed_and_says_what_is_missing() {
        let finding = Finding {
            check: "a < b".into(),
            expected: "less",
            found: "more".into(),
            held: false,
        };
        let html = page(&Report {
            tables: &[],
            targets: &[],
            unjudged: &[],
            standings: &[],
            settings: &[],
            validity: &[finding],
            protocol_version: 1,
            protocol_sha256: "0123456789abcdef0123",
            budget: Some("deciding costs < 2 %"),
            left_out: 3,
        });
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..Default::default()
        };
        assert!(roxmltree::Document::parse_with_options(&html, options).is_ok());
        assert!(html.contains("3 runs are missing") && html.contains("a &lt; b"));
        assert!(html.contains("does not hold"));
        assert!(html.contains("deciding costs &lt; 2 %"));
    }

    #[test]
    fn every_plot_but_the_first_stands_below_the_colours_of_its_policies() {
        let names: Vec<String> = (1..=40).map(|at| format!("{at} SGD, 1 ALS")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let suite = examples::suite("s", &names, &["linux", "mapper"]);
        let table = examples::table_of(&suite, &|_, _| 1.0);
        let mut html = String::new();
        super::suite(&mut html, &table);
        let plots = html.matches("class=\"bars\"").count();
        assert!(plots > 1);
        assert_eq!(html.matches("class=\"legend\"").count(), plots - 1);
        assert_eq!(
            html.matches("class=\"key\"").count(),
            2,
            "the table has them first"
        );
    }

    #[test]
    fn what_is_outside_its_band_stands_first_and_what_is_not_judged_last_in_one_table() {
        let suite = examples::suite("sam-fig5", &["SGD"], &["linux"]);
        let tables = [examples::table_of(&suite, &|_, _| 1.0)];
        let book = targets::Book {
            tables: &tables,
            model: targets::Model {
                constants: mapper_sim::Constants {
                    // A pair gains more by one socket than is published.
                    intra_socket: 0.0,
                    ..mapper_sim::Constants::default()
                },
                ..examples::model()
            },
        };
        let lines = targets::judge(&book, targets::Explained::of_newest()).unwrap();
        let mut html = String::new();
        super::targets(&mut html, &lines, &targets::unjudged().unwrap());
        assert_eq!(html.matches("<table").count(), 1);
        let place = |part: &str| {
            html.find(part)
                .unwrap_or_else(|| panic!("no {part}: {html}"))
        };
        assert!(place(">outside<") < place(">taken over<"));
        assert!(place(">taken over<") < place(">not judged<"));
    }
}
