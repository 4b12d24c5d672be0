//! The report as a page of HTML.

use std::fmt::Write as _;

use super::cost::Speed;
use super::plot;
use super::results::Results;
use super::settings::{Levers, Setting};
use super::tables::{self, Table};
use mapper_report::html_report::{self, escaped};

const EVAL_STYLE: &str = include_str!("../../../eval/src/report.css");

/// The page.
pub(super) fn page(results: &Results) -> String {
    let title = format!("mapper eval, measured, {}", results.machine.date);
    let mut html = html_report::begin(&title, EVAL_STYLE);
    head(&mut html, results);
    for group in &results.groups {
        let table = tables::of_group(group, results.method.qos);
        heading(&mut html, "h2", &table.title);
        write_table(&mut html, &table, &results.settings);
    }
    if let Some(bars) = plot::bars(&results.mixes) {
        heading(&mut html, "h2", "Speed over plain Linux");
        let _ = write!(
            html,
            "<p class=\"legend\">{}</p><figure>{bars}<figcaption>Bars: geometric mean of the \
             programs that compute, from medians; lines: 95 % intervals. An arrow marks a bar that \
             goes on beyond the plot.</figcaption></figure>",
            legend(&results.settings)
        );
    }
    heading(&mut html, "h2", "Each mix");
    html.push_str(
        "<p class=\"prose soft\">Medians with 95 % intervals; “&gt;” marks a median that is only a \
         lower limit because the programs were ended; ≥ and ≤ mark speeds that are bounds for that \
         reason, ~ those with such runs on both sides. Runs with a wrong result count nowhere.</p>",
    );
    for mix in &results.mixes {
        let table = tables::of_mix(mix);
        html.push_str("<section class=\"pair\">");
        heading(&mut html, "h3", &table.title);
        write_table(&mut html, &table, &results.settings);
        html.push_str("</section>");
    }
    method(&mut html, results);
    html.push_str(html_report::END);
    html
}

fn heading(html: &mut String, level: &str, text: &str) {
    let _ = write!(html, "<{level}>{}</{level}>", escaped(text));
}

fn head(html: &mut String, results: &Results) {
    let cpus = results.machine.cpus;
    let of = |wanted: &Setting| {
        let group = results.groups.first()?;
        group.settings.iter().find(|of| of.setting == *wanted)
    };
    let default = Setting::Managed {
        policy: None,
        levers: Levers::Default,
    };
    let own = of(&default);
    let finding = own.and_then(|own| own.over_plain).map_or_else(
        || format!("Mixes of real programs on {cpus} CPUs"),
        |speed| {
            format!(
                "Mixes of real programs on {cpus} CPUs ran at {}{:.2} times the speed of plain Linux",
                speed.bound.mark(),
                speed.estimate.value
            )
        },
    );
    let _ = write!(
        html,
        "<header><p class=\"eyebrow\">mapper eval, measured, {}</p><h1>{}</h1><p class=\"soft\">\
         {}; {} interleaved repetitions.</p></header>",
        escaped(&results.machine.date),
        escaped(&finding),
        escaped(&results.machine.cpu),
        results.method.repetitions
    );
    if let Some(caution) = results.caution() {
        let _ = write!(html, "<p class=\"caution\">{}</p>", escaped(&caution));
    }
    html.push_str("<div class=\"cards\">");
    if let Some(own) = own {
        card(html, own.over_plain, "over plain Linux");
        card(html, own.of_static, "of the static fair share");
        card(
            html,
            own.latency_over_plain,
            "over plain Linux, by p99 latency",
        );
        if let Some(promises) = &own.promises {
            let kept = promises.made - promises.broken.len();
            let figure = format!("{kept} of {}", promises.made);
            let more = format!(
                "at least {} of the speed on a static fair share",
                results.method.qos
            );
            figure_card(html, &figure, "programs kept their promise", &more);
        }
    }
    figure_card(
        html,
        &results.wrong_results.to_string(),
        "wrong results",
        "every program checks its own, in every run",
    );
    html.push_str("</div>\n");
}

fn card(html: &mut String, of: Option<Speed>, what: &str) {
    if let Some(Speed {
        estimate: of,
        bound,
    }) = of
    {
        let more = format!(
            "mapper as it is by default; {:.2} to {:.2}",
            of.low, of.high
        );
        figure_card(
            html,
            &format!("{}{:.2}×", bound.mark(), of.value),
            what,
            &more,
        );
    }
}

fn figure_card(html: &mut String, figure: &str, what: &str, more: &str) {
    let _ = write!(
        html,
        "<div class=\"card\"><div class=\"figure\">{}</div><div class=\"what\">{}</div>\
         <div class=\"soft\">{}</div></div>",
        escaped(figure),
        escaped(what),
        escaped(more)
    );
}

fn legend(settings: &[Setting]) -> String {
    let entries = settings.iter().map(|setting| {
        format!(
            "<span class=\"s{}\">{}</span>",
            setting.colour(),
            escaped(&setting.title())
        )
    });
    entries.collect()
}

/// A table whose rows are settings.
fn write_table(html: &mut String, table: &Table, settings: &[Setting]) {
    html.push_str("<div class=\"scroll\"><table><thead><tr>");
    for cell in &table.header {
        let _ = write!(html, "<th>{}</th>", escaped(cell));
    }
    html.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        let setting = row
            .first()
            .and_then(|title| settings.iter().find(|setting| setting.title() == *title));
        let own = setting.is_some_and(Setting::is_managed);
        html.push_str(if own { "<tr class=\"own\">" } else { "<tr>" });
        for (column, cell) in row.iter().enumerate() {
            match setting.filter(|_| column == 0) {
                Some(setting) => {
                    let _ = write!(
                        html,
                        "<td class=\"s{}\"><span class=\"key\"></span>{}</td>",
                        setting.colour(),
                        escaped(cell)
                    );
                }
                None => {
                    let _ = write!(html, "<td>{}</td>", escaped(cell));
                }
            }
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>\n");
}

fn method(html: &mut String, results: &Results) {
    let method = &results.method;
    let _ = write!(
        html,
        "<h2>What was measured</h2><div class=\"prose\"><p>The programs of a mix are started \
         together, and each one’s time runs from its start (under mapper that of \
         <code>mapper-launch</code>) to its end. Their work was chosen so that each takes {:.1} s \
         alone on half of the machine. Each repetition runs every mix under every setting, in an \
         order that changes. Who is done leaves the machine to the others. The promise is {} of the \
         speed on the static fair share; decisions are taken every {} s. Results of the model never \
         stand beside these.</p><p><code>{}</code></p></div><dl>",
        method.calibrated_s,
        method.qos,
        method.interval_s,
        escaped(&method.command)
    );
    for setting in &results.settings {
        let _ = write!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            escaped(&setting.title()),
            escaped(&setting.meaning())
        );
    }
    html.push_str("</dl><h3>Programs</h3><dl>");
    for program in results.programs() {
        let _ = write!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            program.name,
            escaped(program.summary)
        );
    }
    html.push_str("</dl><h3>Machine and findings</h3><ul>");
    for note in tables::notes(results) {
        let _ = write!(html, "<li>{}</li>", escaped(&note));
    }
    if let Some(daemon) = &method.daemon {
        let _ = write!(
            html,
            "<li>mapperd {}: allocation {}, mapping {}, CPUs by {}, performance by {}.</li>",
            escaped(&daemon.version),
            escaped(&daemon.allocation),
            escaped(&daemon.mapping),
            escaped(&daemon.enforcer),
            escaped(&daemon.counters)
        );
    }
    html.push_str("</ul>");
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::example;
    use super::*;

    #[test]
    fn the_page_is_well_formed_needs_nothing_from_elsewhere_and_shows_every_mix() {
        let results = example();
        let html = page(&results);
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..Default::default()
        };
        let document = roxmltree::Document::parse_with_options(&html, options).unwrap();
        let headings: Vec<&str> = document
            .descendants()
            .filter(|node| node.has_tag_name("h3"))
            .filter_map(|node| node.text())
            .collect();
        for mix in &results.mixes {
            assert!(headings.contains(&&*mix.name), "{headings:?}");
        }
        let bars = document
            .descendants()
            .filter(|node| node.attribute("class") == Some("bar"));
        assert_eq!(bars.count(), results.mixes.len() * results.settings.len());
        for outside in [
            "http:", "https:", "src=", "@import", "url(", "<link", "<script",
        ] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(!html.contains("NaN") && !html.contains("inf\""));
        assert!(html.contains("md &lt;is&gt; wrong"));
    }

    #[test]
    fn a_bar_beyond_the_plot_says_how_far() {
        let mut results = example();
        for mix in &mut results.mixes {
            for of in mix.settings.iter_mut().skip(1) {
                if let Some(speed) = &mut of.over_plain {
                    speed.estimate.value = 1.0;
                }
            }
        }
        if let Some(of) = &mut results.mixes[0].settings[1].over_plain {
            of.estimate.value = 60.0;
        }
        let svg = plot::bars(&results.mixes).unwrap();
        assert!(svg.contains("60.0 →"), "{svg}");
    }
}
