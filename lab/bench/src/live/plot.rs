//! The SVG plots of the report. Colours come from the style sheet of the page, so that they follow its
//! light and dark forms; see [`Setting::colour`](super::settings::Setting::colour).

use std::fmt::Write as _;

use super::cost::Speed;
use super::evaluate::MixResult;
use mapper_report::html_report::axis::Axis;
use mapper_report::html_report::escaped;

const WIDTH: f64 = 1060.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 70.0;
const BAR: f64 = 9.0;
const GAP: f64 = 14.0;
const TOP: f64 = 8.0;

/// Beyond this many times the middle bar the axis ends, so that one mix does not flatten the others.
const SPAN: f64 = 4.0;

/// Mean speed over plain Linux: a bar for every setting of every mix, with its interval.
#[expect(clippy::cast_precision_loss, reason = "a handful of rows")]
pub(super) fn bars(mixes: &[MixResult]) -> Option<String> {
    let bars: Vec<Vec<(usize, String, Speed)>> = mixes
        .iter()
        .map(|mix| {
            let settings = mix.settings.iter();
            settings
                .filter_map(|of| Some((of.setting.colour(), of.setting.title(), of.over_plain?)))
                .collect()
        })
        .collect();
    let mut values: Vec<f64> = bars
        .iter()
        .flatten()
        .map(|(_, _, of)| of.estimate.value)
        .collect();
    values.sort_by(f64::total_cmp);
    let middle = *values.get(values.len() / 2)?;
    let row = |count: usize| count as f64 * BAR + GAP;
    let bottom = TOP + bars.iter().map(|bars| row(bars.len())).sum::<f64>();
    let axis = Axis {
        from: LEFT,
        length: WIDTH - LEFT - RIGHT,
        most: values.last()?.min(SPAN * middle).max(1.0) * 1.05,
    };
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" \
         aria-label=\"Speed over plain Linux\">",
        bottom + 22.0
    );
    axis.grid(&mut svg, 8, TOP, bottom);
    let mut top = TOP;
    for (mix, bars) in mixes.iter().zip(&bars) {
        let _ = write!(
            svg,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            top + bars.len() as f64 * BAR / 2.0 + 4.0,
            escaped(&mix.name)
        );
        for (place, (colour, title, of)) in bars.iter().enumerate() {
            let y = top + place as f64 * BAR;
            one_bar(&mut svg, axis, y, *colour, title, *of);
        }
        top += row(bars.len());
    }
    let x = axis.at(1.0);
    let _ = write!(
        svg,
        "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/></svg>"
    );
    Some(svg)
}

fn one_bar(svg: &mut String, axis: Axis, y: f64, colour: usize, title: &str, speed: Speed) {
    let Speed {
        estimate: of,
        bound,
    } = speed;
    let end = axis.at(of.value);
    let middle = y + (BAR - 1.0) / 2.0;
    let _ = write!(
        svg,
        "<g class=\"s{colour}\"><title>{}: {}{:.2} ({:.2} to {:.2})</title>\
         <rect class=\"bar\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\
         <line class=\"whisker\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>",
        escaped(title),
        bound.mark(),
        of.value,
        of.low,
        of.high,
        axis.from,
        end - axis.from,
        BAR - 1.0,
        axis.at(of.low),
        axis.at(of.high),
    );
    if of.value > axis.most {
        let _ = write!(
            svg,
            "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{:.1} →</text>",
            end + 5.0,
            middle + 4.0,
            of.value
        );
    }
    svg.push_str("</g>");
}
