//! The SVG plots of the report. Colours come from the style sheet of the page, so that they follow
//! its light and dark forms; a series has the class `s0`, `s1`, and so on.

use super::tables::{MixRow, SuiteTable};
use crate::html_report::axis::{Axis, number};
use crate::html_report::escaped;
use std::fmt::Write as _;

const WIDTH: f64 = 1060.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 70.0;
const BAR: f64 = 7.0;
const GAP: f64 = 11.0;
const TOP: f64 = 8.0;

/// A bar for every policy of every mix, with whiskers from its slowest program to its fastest.
pub(super) fn bars(table: &SuiteTable) -> String {
    let policies = &table.suite.policies;
    let row = policies.len() as f64 * BAR + GAP;
    let bottom = TOP + row * table.mixes.len() as f64;
    let values = table.mixes.iter().flat_map(|mix| mix.policies.values());
    let most = values.map(|cell| cell.value.max(cell.most().min(1.6 * cell.value)));
    let axis = Axis {
        from: LEFT,
        length: WIDTH - LEFT - RIGHT,
        most: most.fold(1.0, f64::max) * 1.02,
    };
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">",
        bottom + 22.0,
        escaped(&table.suite.title)
    );
    axis.grid(&mut svg, 8, TOP, bottom);
    for (at, mix) in table.mixes.iter().enumerate() {
        one_mix(&mut svg, policies, mix, TOP + row * at as f64, axis);
    }
    let x = axis.at(1.0);
    let _ = write!(
        svg,
        "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/></svg>"
    );
    svg
}

fn one_mix(svg: &mut String, policies: &[String], mix: &MixRow, top: f64, axis: Axis) {
    let middle = top + (policies.len() as f64 * BAR) / 2.0 + 4.0;
    let star = if mix.assumed { " *" } else { "" };
    let _ = write!(
        svg,
        "<text class=\"label\" x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{}{star}</text>",
        LEFT - 10.0,
        escaped(&short(&mix.mix))
    );
    for (series, policy) in policies.iter().enumerate() {
        let Some(cell) = mix.policies.get(policy) else {
            continue;
        };
        let y = top + series as f64 * BAR;
        let programs = cell
            .apps
            .iter()
            .map(|a| format!("{} {:.2}", a.name, a.speed));
        let programs: Vec<String> = programs.collect();
        let _ = write!(
            svg,
            "<g class=\"s{series}\"><title>{}: {:.3} ({})</title>\
             <rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            escaped(policy),
            cell.value,
            escaped(&programs.join(", ")),
            axis.from,
            y,
            axis.at(cell.value) - axis.from,
            BAR - 1.0
        );
        if cell.apps.len() > 1 {
            let (from, to) = (axis.at(cell.least()), axis.at(cell.most()));
            let y = y + (BAR - 1.0) / 2.0;
            let _ = write!(
                svg,
                "<line class=\"whisker\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
        }
        svg.push_str("</g>");
    }
}

/// A mix without the thread counts that all its programs have in common.
fn short(mix: &str) -> String {
    let counts: Vec<&str> = mix
        .split(", ")
        .filter_map(|p| p.split_once(' '))
        .map(|(n, _)| n)
        .collect();
    let programs = mix.split(", ").count();
    match counts.first() {
        Some(first) if counts.len() == programs && counts.iter().all(|n| n == first) => {
            mix.replace(&format!("{first} "), "")
        }
        _ => mix.to_owned(),
    }
}

const TIMELINE_HEIGHT: f64 = 84.0;

/// The CPUs of every program over time, stacked.
pub(super) fn timeline(
    title: &str,
    apps: &[String],
    samples: &[(f64, Vec<u32>)],
    cpus: u32,
    until_s: f64,
) -> String {
    let width = 520.0;
    let bottom = 18.0 + TIMELINE_HEIGHT;
    let time = Axis {
        from: 30.0,
        length: width - 54.0,
        most: until_s.max(0.1),
    };
    let height = Axis {
        from: 0.0,
        length: TIMELINE_HEIGHT,
        most: f64::from(cpus),
    };
    let mut svg = format!(
        "<svg class=\"timeline\" viewBox=\"0 0 {width} {:.0}\" role=\"img\" aria-label=\"CPUs over time: {}\">\
         <text class=\"label own\" x=\"{}\" y=\"11\">{}:",
        bottom + 18.0,
        escaped(title),
        time.from,
        escaped(title)
    );
    for (which, app) in apps.iter().enumerate() {
        let _ = write!(
            svg,
            "<tspan class=\"of s{which}\" dx=\"9\">■</tspan><tspan dx=\"3\">{}</tspan>",
            escaped(app)
        );
    }
    svg.push_str("</text>");
    for (which, app) in apps.iter().enumerate() {
        let mut upper = Vec::new();
        let mut lower = Vec::new();
        for (at, (from_s, held)) in samples.iter().enumerate() {
            let to_s = samples
                .get(at + 1)
                .map_or(until_s, |next| next.0)
                .min(until_s);
            if *from_s > until_s {
                break;
            }
            let under: u32 = held.iter().take(which).sum();
            let over = under + held.get(which).copied().unwrap_or(0);
            for at_s in [*from_s, to_s] {
                let x = time.at(at_s);
                upper.push((x, bottom - height.at(f64::from(over))));
                lower.push((x, bottom - height.at(f64::from(under))));
            }
        }
        let mut path = String::new();
        for (index, (x, y)) in upper.into_iter().chain(lower.into_iter().rev()).enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        if path.is_empty() {
            path.push_str("M0 0");
        }
        let _ = write!(
            svg,
            "<path class=\"area s{which}\" d=\"{path}Z\"><title>{}</title></path>",
            escaped(app)
        );
    }
    for tick in height.ticks(4).into_iter().filter(|tick| *tick > 0.0) {
        let y = bottom - height.at(tick);
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            time.from - 5.0,
            y + 4.0,
            number(tick)
        );
    }
    for tick in time.ticks(6) {
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
            time.at(tick),
            bottom + 14.0,
            number(tick)
        );
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_are_left_out_where_they_are_all_the_same() {
        assert_eq!(short("80 canneal, 80 SGD"), "canneal, SGD");
        assert_eq!(short("12 ALS, 14 SGD"), "12 ALS, 14 SGD");
        assert_eq!(short("BT, FT"), "BT, FT");
    }

    #[test]
    fn a_timeline_has_an_area_for_every_program() {
        let apps = ["a".to_owned(), "b<".to_owned()];
        let svg = timeline("t", &apps, &[(0.0, vec![4, 4]), (5.0, vec![6, 2])], 8, 10.0);
        assert_eq!(svg.matches("<path").count(), 2);
        assert!(svg.contains("b&lt;") && roxmltree::Document::parse(&svg).is_ok());
    }
}
