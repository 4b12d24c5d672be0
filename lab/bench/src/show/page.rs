//! The results as a page of HTML.

use mapper_report::html_report;
use mapper_report::plot::legend;
use maud::{Markup, html};

use super::plot;
use super::tables;
use crate::data::SpeedBy;
use crate::result::{MemberEntry, MixResult, Results};

/// What the page adds to the look of all reports.
const STYLE: &str = "\
figure { background: var(--panel); border-radius: 8px; padding: 10px; margin: 12px 0; }\n\
figure > svg text { font-size: 13px; }\n\
td { white-space: nowrap; font-size: 14px; }\n\
tr.met td:nth-child(4) { color: var(--good); font-weight: 600; }\n\
tr.missed td:nth-child(4) { color: var(--bad); font-weight: 600; }\n";

/// The page.
pub(crate) fn page(results: &Results) -> anyhow::Result<String> {
    let title = format!("{}, {}", results.title, results.machine.date);
    Ok(html_report::page(&title, STYLE, &content(results)?))
}

fn content(results: &Results) -> anyhow::Result<Markup> {
    let speeds = plot::speeds(results)?;
    let mixes = results.mixes.iter().map(|mix| mix_section(mix, results));
    let mixes = mixes.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(html! {
        (head(results))
        (wrong(results))
        @for group in &results.groups {
            @let table = tables::of_group(group, results);
            h2 { (table.title) }
            (table.html())
        }
        @for table in tables::expectations(results).iter().chain(&tables::figures(results)) {
            h2 { (table.title) }
            (table.html())
        }
        @if let Some(speeds) = speeds {
            h2 { "Speeds" }
            (legend(results.settings.iter().map(|of| (of.colour, of.title.as_str()))))
            figure {
                (speeds)
                figcaption { "Bars: geometric mean of the programs whose time counts; lines: " (interval(results)) "." }
            }
        }
        @if !mixes.is_empty() { h2 { "Each mix" } }
        @for mix in &mixes { (mix) }
        (method(results))
    })
}

/// What stands in brackets behind a speed.
fn interval(results: &Results) -> &'static str {
    match results.method.as_ref().map(|of| of.method.speed) {
        Some(SpeedBy::MedianOfRatios) => "the range of single comparisons",
        _ => "95 % intervals",
    }
}

fn head(results: &Results) -> Markup {
    let own = results.headline_summary();
    let mean = |key: &String| own?.over.get(key)?.mean;
    let first = results.baselines().first().and_then(|first| {
        Some(format!(
            "Programs side by side on {} CPUs ran at {} times the speed of {}",
            results.machine.cpus,
            tables::value(Some(mean(first)?)),
            results.title_of(first)
        ))
    });
    html! {
        header {
            p class="eyebrow" { (results.title) ", " (results.machine.date) }
            h1 { (first.unwrap_or_else(|| results.about.clone())) }
            p class="soft" {
                @if let Some(headline) = &results.headline {
                    (results.title_of(&headline.setting)) ", " (headline.group.as_deref().unwrap_or_default()) "; "
                }
                (results.machine.cpu)
                @if let Some(method) = &results.method {
                    "; " (method.repetitions_done) " interleaved repetitions"
                }
            }
        }
        @if let Some(caution) = results.caution() { p class="caution" { (caution) } }
        div class="cards" {
            @for baseline in results.baselines() {
                @if let Some(mean) = mean(baseline) {
                    (card(
                        &format!("{}×", tables::value(Some(mean))),
                        &format!("over {}", results.title_of(baseline)),
                        &format!("{:.2} to {:.2}", mean.estimate.low, mean.estimate.high),
                    ))
                }
            }
            @if let Some(promises) = own.and_then(|own| own.promises.as_ref()) {
                (card(
                    &format!("{} of {}", promises.made - promises.broken.len(), promises.made),
                    "programs had what was promised",
                    &promised(results),
                ))
            }
            @if results.method.is_some() {
                (card(&results.wrong_results.to_string(), "wrong results", "every result is checked, in every run"))
            }
            @if !results.expectations.is_empty() {
                (card(
                    &format!("{} of {}", results.expectations.len() - results.missed(), results.expectations.len()),
                    "expectations met",
                    "",
                ))
            }
        }
    }
}

fn promised(results: &Results) -> String {
    let promise = results.method.as_ref().and_then(|of| of.method.promise);
    let promise = promise.unwrap_or(1.0);
    let against = results.promised_against();
    let against = against.map_or("", |key| results.title_of(key));
    format!("at least {promise} of the speed under: {against}")
}

fn card(figure: &str, what: &str, more: &str) -> Markup {
    html! {
        div class="card" {
            div class="figure" { (figure) }
            div class="what" { (what) }
            div class="soft" { (more) }
        }
    }
}

fn wrong(results: &Results) -> Markup {
    html! {
        @if results.wrong_results > 0 {
            div class="alarm" {
                h3 class="bad" { "Wrong results" }
                ul {
                    @for mix in &results.mixes {
                        @for of in &mix.settings {
                            @for reason in &of.wrong {
                                li { (mix.name) ", " (results.title_of(&of.setting)) ": " (reason) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn mix_section(mix: &MixResult, results: &Results) -> anyhow::Result<Markup> {
    let table = tables::of_mix(mix, results);
    let times = plot::times(mix, results)?;
    let timelines = plot::timelines(mix, results)?;
    let name = |program: &MemberEntry| match program.starts_after_s {
        0.0 => program.name.clone(),
        after_s => format!("{}, started {after_s:.1} s later", program.name),
    };
    let names: Vec<String> = mix.programs.iter().map(name).collect();
    Ok(html! {
        section class="pair" {
            h3 { (table.title) }
            @if let Some(story) = &mix.story { p class="soft" { (story) } }
            (table.html())
            (legend(names.iter().map(String::as_str).enumerate()))
            figure {
                (times)
                figcaption {
                    "Bars are medians, circles single runs."
                    @if mix.settings.iter().any(|of| of.programs.iter().any(|of| of.over_limit > 0)) {
                        " Runs that were ended at the time limit count with the limit."
                    }
                }
            }
            @for (name, plot) in &timelines {
                figure {
                    (plot)
                    figcaption { "CPUs held by each program over time, stacked: " (name) ", first repetition." }
                }
            }
        }
    })
}

fn method(results: &Results) -> Markup {
    html! {
        h2 { "What was measured" }
        div class="prose" {
            p { (results.about) }
            @if let Some(of) = &results.method {
                p {
                    "The programs of a mix run side by side. "
                    @if results.programs.iter().all(|of| of.steps == 1) {
                        "The work of each is fixed. "
                    } @else {
                        "Their work was chosen so that each takes " (of.method.work_s)
                        " s alone on half of the machine. "
                    }
                    "Each repetition runs every mix under every \
                    setting, in an order that changes, so that a disturbance meets all settings alike. A speed over a \
                    setting is the time there divided by the time here; in brackets " (interval(results)) ". “>” marks a \
                    median that is only a lower limit because programs were ended, ≥ and ≤ mark speeds that are bounds \
                    for that reason, ~ those with such runs on both sides. Runs with a wrong result count nowhere."
                }
                p {
                    "What this does not show: other programs and other machines. With few repetitions, differences of a \
                    few per cent are noise. Plain Linux loses most where threads spin at barriers while the thread they \
                    wait for is not running; waiting passively avoids that part without mapper. Results of the model \
                    never stand beside these."
                }
            }
            p { code { (results.command) } }
        }
        @if !results.settings.is_empty() {
            h3 { "Settings" }
            dl { @for of in &results.settings { dt { (of.title) } dd { (of.meaning) } } }
            h3 { "Programs" }
            dl {
                @for of in &results.programs {
                    dt { (of.name) }
                    dd { (of.summary) "; " @if of.steps > 1 { (of.steps) " steps, " } (of.runtime) }
                }
            }
        }
        h3 { "Machine and findings" }
        ul { @for note in tables::notes(results) { li { (note) } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::results::tests::example;

    #[test]
    fn the_content_is_well_formed_and_shows_every_mix_and_plot() {
        let results = example();
        let html = format!("<main>{}</main>", content(&results).unwrap().0);
        let document = roxmltree::Document::parse(&html).unwrap();
        let all = || document.descendants();
        let nodes = |name| all().filter(move |node| node.has_tag_name(name));
        let headings: Vec<&str> = nodes("h3").filter_map(|node| node.text()).collect();
        for mix in &results.mixes {
            assert!(headings.contains(&&*mix.name), "{headings:?}");
        }
        // Speeds, times of both mixes, and one timeline.
        assert_eq!(nodes("svg").count(), 4);
        for text in ["md &lt;is&gt; wrong", ">MISSED<", "threads wait"] {
            assert!(html.contains(text), "{text}");
        }
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_coordinates_are_numbers() {
        let html = page(&example()).unwrap();
        assert!(html.ends_with("</html>\n"));
        let outside = "http: https: src= @import url( <link <script NaN inf\"";
        for outside in outside.split(' ') {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        let mut results = example();
        results.headline = None;
        for mix in &mut results.mixes {
            mix.settings.retain(|of| of.setting == "plain");
        }
        let html = page(&results).unwrap();
        assert!(!html.contains("CPUs held by each program"));
        assert!(html.contains(&results.about));
    }
}
