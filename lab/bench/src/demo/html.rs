//! The report as a page of HTML.

use std::fmt::Write as _;

use super::background;
use super::console::{ratio, repetitions};
use super::pairs::Setting;
use super::plot;
use super::results::{PairResult, Results, Summary};
use mapper_report::html_report::{self, escaped};

/// The page.
pub(crate) fn page(results: &Results) -> String {
    let title = format!("mapper demo, {}", results.machine.date);
    let mut html = html_report::begin(&title, "");
    head(&mut html, results);
    wrong(&mut html, results);
    summary_tables(&mut html, results);
    html.push_str("<h2>Each pair</h2>\n");
    for pair in &results.pairs {
        pair_section(&mut html, results, pair);
    }
    background::targets(&mut html, results);
    background::method(&mut html, results);
    background::machine(&mut html, results);
    html.push_str(html_report::END);
    html
}

fn head(html: &mut String, results: &Results) {
    let cpus = results.machine.cpus;
    let finding = results.geomean_vs_plain.map_or_else(
        || format!("Pairs of OpenMP programs side by side on {cpus} CPUs"),
        |speedup| {
            let pace = if speedup >= 1.0 {
                format!("{speedup:.2} times as fast")
            } else {
                format!("at {speedup:.2} of the speed")
            };
            let than = if speedup >= 1.0 { "as under" } else { "of" };
            format!("Two OpenMP programs at a time on {cpus} CPUs ran {pace} {than} plain Linux")
        },
    );
    let done = results.method.repetitions_done;
    let _ = writeln!(
        html,
        "<header><p class=\"eyebrow\">mapper demo, {}</p><h1>{}</h1>\
         <p class=\"soft\">{}, {}; medians of {done} interleaved {}, geometric means over \
         programs and pairs.</p></header>",
        escaped(&results.machine.date),
        escaped(&finding),
        escaped(results.headline_setting.title()),
        escaped(&results.machine.cpu),
        repetitions(done),
    );
    if let Some(caution) = results.caution() {
        let _ = writeln!(html, "<p class=\"caution\">{}</p>", escaped(&caution));
    }
    html.push_str("<div class=\"cards\">");
    let fixed = results.by_setting.get(&Setting::Fixed);
    let also = |value: Option<f64>| {
        value.map_or_else(String::new, |value| format!("{value:.2}× with fixed teams"))
    };
    card(
        html,
        &ratio(results.geomean_vs_plain),
        "over plain Linux",
        &also(fixed.and_then(|summary| summary.geomean_vs_plain)),
    );
    card(
        html,
        &ratio(results.geomean_vs_passive),
        "over passive waiting",
        &also(fixed.and_then(|summary| summary.geomean_vs_passive)),
    );
    let promised = 2 * results
        .pairs
        .iter()
        .filter(|pair| pair.runtime == "libgomp")
        .count();
    card(
        html,
        &results.qos_violations.map_or_else(
            || "–".to_owned(),
            |broken| format!("{} of {promised}", promised.saturating_sub(broken)),
        ),
        "programs kept their promise",
        &format!(
            "at least {} of the speed on a static fair share",
            results.method.qos
        ),
    );
    card(
        html,
        &results.wrong_results.to_string(),
        "wrong results",
        "every program checks its own, in every run",
    );
    html.push_str("</div>\n");
}

fn card(html: &mut String, figure: &str, what: &str, more: &str) {
    let _ = write!(
        html,
        "<div class=\"card\"><div class=\"figure\">{}</div><div class=\"what\">{}</div>\
         <div class=\"soft\">{}</div></div>",
        escaped(figure),
        escaped(what),
        escaped(more)
    );
}

fn wrong(html: &mut String, results: &Results) {
    let reasons: Vec<String> = results
        .pairs
        .iter()
        .flat_map(|pair| {
            pair.settings.iter().flat_map(move |(setting, result)| {
                result
                    .wrong
                    .iter()
                    .map(move |reason| format!("{}, {}: {reason}", pair.name, setting.title()))
            })
        })
        .collect();
    if reasons.is_empty() {
        return;
    }
    html.push_str("<div class=\"alarm\"><h3 class=\"bad\">Wrong results</h3><ul>");
    for reason in reasons {
        let _ = write!(html, "<li>{}</li>", escaped(&reason));
    }
    html.push_str("</ul></div>\n");
}

fn summary_tables(html: &mut String, results: &Results) {
    for (runtime, settings) in &results.by_runtime {
        let pairs: Vec<&str> = results
            .pairs
            .iter()
            .filter(|pair| pair.runtime == *runtime)
            .map(|pair| pair.name)
            .collect();
        let compiler = if *runtime == "libgomp" {
            "gcc"
        } else {
            "clang"
        };
        let _ = write!(
            html,
            "<h2>Programs compiled by {compiler} ({runtime})</h2>\n<p class=\"soft\">{}</p>\
             <div class=\"scroll\"><table><thead><tr><th>setting</th><th>over plain</th>\
             <th>over passive</th><th>slowest pair, over passive</th>\
             <th>slowest program, against fair share</th><th>promises broken</th></tr></thead>\
             <tbody>",
            escaped(&pairs.join(", "))
        );
        for (setting, summary) in settings {
            summary_row(html, *setting, summary);
        }
        html.push_str("</tbody></table></div>\n");
    }
}

fn summary_row(html: &mut String, setting: Setting, summary: &Summary) {
    let broken = match (setting.is_managed(), summary.qos_violations) {
        (true, Some(0)) => "<span class=\"good\">none</span>".to_owned(),
        (true, Some(count)) => format!(
            "<span class=\"bad\" title=\"{}\">{count}</span>",
            escaped(&summary.violations.join("; "))
        ),
        _ => "–".to_owned(),
    };
    let _ = write!(
        html,
        "<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{broken}</td></tr>",
        if setting.is_managed() {
            " class=\"own\""
        } else {
            ""
        },
        setting.title(),
        dash(summary.geomean_vs_plain),
        dash(summary.geomean_vs_passive),
        dash(summary.worst_pair_vs_passive),
        dash(summary.worst_program_vs_static),
    );
}

fn dash(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}×"))
}

fn pair_section(html: &mut String, results: &Results, pair: &PairResult) {
    let [first, second] = &pair.programs;
    let _ = write!(
        html,
        "<section class=\"pair\"><h3>{}</h3><p class=\"soft\">{}</p>\
         <p class=\"legend\"><span class=\"first\">{}</span><span class=\"second\">{}</span></p>\
         <div class=\"plots\"><figure>{}<figcaption>Bars are medians, circles single \
         repetitions; on the right the speed over plain Linux, and of each program the speed \
         relative to its static fair share.{}</figcaption></figure>",
        escaped(pair.name),
        escaped(pair.story),
        escaped(&arrival(first.name, first.arrives_after_s)),
        escaped(&arrival(second.name, second.arrives_after_s)),
        plot::times(pair),
        cut_note(pair),
    );
    let timelines: Vec<_> = pair
        .settings
        .iter()
        .filter_map(|(setting, result)| Some((setting, result.timeline.as_ref()?)))
        .collect();
    let until_s = timelines
        .iter()
        .filter_map(|(_, timeline)| timeline.samples.last())
        .map(|sample| sample.at_s)
        .fold(0.0, f64::max);
    if !timelines.is_empty() {
        html.push_str("<div>");
        for (setting, timeline) in timelines {
            let _ = write!(
                html,
                "<figure>{}</figure>",
                plot::timeline(
                    setting.title(),
                    [first.name, second.name],
                    timeline,
                    results.machine.cpus,
                    until_s
                )
            );
        }
        html.push_str(
            "<figcaption>CPUs held by each program, stacked, in the first repetition.</figcaption>\
             </div>",
        );
    }
    html.push_str("</div>");
    html.push_str("</section>\n");
}

fn arrival(name: &str, after_s: f64) -> String {
    if after_s > 0.0 {
        format!("{name}, started {after_s:.1} s later")
    } else {
        name.to_owned()
    }
}

fn cut_note(pair: &PairResult) -> &'static str {
    let ended = pair
        .settings
        .values()
        .any(|result| result.timed_out.iter().flatten().any(|&t| t));
    if ended {
        " Runs that were ended at the time limit count with the limit; “>” marks a median that is \
         only a lower limit."
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluate::tests::example;
    use super::*;

    fn parsed(html: &str) -> roxmltree::Document<'_> {
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..Default::default()
        };
        roxmltree::Document::parse_with_options(html, options).unwrap()
    }

    #[test]
    fn the_page_is_well_formed_and_shows_every_pair() {
        let results = example();
        let html = page(&results);
        let document = parsed(&html);
        let headings: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name("h3"))
            .filter_map(|node| node.text())
            .collect();
        for pair in &results.pairs {
            assert!(headings.contains(&pair.name), "{headings:?}");
        }
        let plots = |class: &str| {
            document
                .descendants()
                .filter(|node| node.attribute("class") == Some(class))
                .count()
        };
        assert_eq!(plots("times"), results.pairs.len());
        assert_eq!(plots("timeline"), 2 * results.pairs.len());
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let html = page(&example());
        for outside in [
            "http:", "https:", "src=", "@import", "url(", "<link", "<script",
        ] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn coordinates_are_numbers() {
        let html = page(&example());
        assert!(
            !html.contains("NaN") && !html.contains("inf"),
            "a coordinate is no number"
        );
    }

    #[test]
    fn a_disturbed_measurement_says_so_and_a_quiet_one_does_not() {
        let mut results = example();
        assert!(!page(&results).contains("with care"));
        results.disturbance.other_processes_cpus = 0.4;
        assert!(page(&results).contains("other work used 0.40 CPUs"));
        results.method.repetitions_done = 1;
        assert!(page(&results).contains("fewer than three repetitions"));
    }

    #[test]
    fn wrong_results_and_misses_are_on_the_page() {
        let html = page(&example());
        assert!(html.contains("md &lt;is&gt; wrong"));
        assert!(html.contains(">missed<"));
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        let mut results = example();
        for pair in &mut results.pairs {
            pair.settings.retain(|setting, _| !setting.is_managed());
        }
        results
            .by_setting
            .retain(|setting, _| !setting.is_managed());
        results.geomean_vs_plain = None;
        results.geomean_vs_passive = None;
        results.qos_violations = None;
        let html = page(&results);
        parsed(&html);
        assert!(!html.contains("class=\"timeline\""));
    }
}
