//! The SVG plots of the report. They take their colours from the style sheet of the page, so that
//! they follow its light and dark forms.

use std::fmt::Write as _;

use super::console::ratio;
use super::pairs::Setting;
use super::results::PairResult;
use super::timeline::Timeline;
use mapper_report::html_report::axis::{Axis, number};
use mapper_report::html_report::escaped;

const BARS_WIDTH: f64 = 640.0;
/// Right edge of the column of speedups.
const SPEEDUPS: f64 = 552.0;
const ROW: f64 = 46.0;
const BAR: f64 = 14.0;
const TOP: f64 = 26.0;

/// The times of both programs under every setting, side by side.
pub(crate) fn times(pair: &PairResult) -> String {
    let rows = pair.settings.len();
    #[expect(clippy::cast_precision_loss, reason = "a handful of rows")]
    let bottom = TOP + ROW * rows as f64;
    let axis = Axis {
        from: 184.0,
        length: 290.0,
        most: longest_shown(pair),
    };
    let mut svg = format!(
        "<svg class=\"times\" viewBox=\"0 0 {BARS_WIDTH} {:.0}\" role=\"img\" \
         aria-label=\"Running times of {}\">",
        bottom + 38.0,
        escaped(pair.name)
    );
    axis.grid(&mut svg, 5, TOP, bottom);
    let _ = write!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">seconds, lower is \
         better</text>\
         <text class=\"tick\" x=\"{SPEEDUPS}\" y=\"14\" text-anchor=\"end\">over plain</text>\
         <text class=\"tick\" x=\"{BARS_WIDTH}\" y=\"14\" text-anchor=\"end\">of fair share</text>",
        axis.from + axis.length / 2.0,
        bottom + 33.0
    );
    let mut y = TOP;
    for (setting, result) in &pair.settings {
        let managed = if setting.is_managed() { " own" } else { "" };
        let _ = write!(
            svg,
            "<text class=\"label{managed}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            axis.from - 12.0,
            y + ROW / 2.0 + 4.0,
            setting.title()
        );
        for which in [0, 1] {
            #[expect(clippy::cast_precision_loss, reason = "nought or one")]
            let at = y + ROW / 2.0 - BAR - 1.0 + (BAR + 2.0) * which as f64;
            let times: Vec<f64> = result.times.iter().map(|times| times[which]).collect();
            let entry = Bar {
                program: pair.programs[which].name,
                class: ["first", "second"][which],
                median: result.medians[which],
                is_limit: result.median_is_limit(which),
                times: &times,
            };
            bar(&mut svg, axis, at, &entry);
            if let Some(speeds) = result.vs_static {
                let class = match (setting.is_managed(), result.qos_kept) {
                    (true, Some(kept)) if kept[which] => "good",
                    (true, Some(_)) => "bad",
                    _ => "soft",
                };
                let _ = write!(
                    svg,
                    "<text class=\"share {class}\" x=\"{BARS_WIDTH}\" y=\"{:.1}\" \
                     text-anchor=\"end\">{:.2}</text>",
                    at + BAR / 2.0 + 4.0,
                    speeds[which]
                );
            }
        }
        let versus = match setting {
            Setting::Plain => "1".to_owned(),
            _ => ratio(result.geomean_vs_plain),
        };
        let _ = write!(
            svg,
            "<text class=\"ratio{managed}\" x=\"{SPEEDUPS}\" y=\"{:.1}\" \
             text-anchor=\"end\">{versus}</text>",
            y + ROW / 2.0 + 4.0,
        );
        y += ROW;
    }
    let _ = write!(
        svg,
        "<line class=\"axis\" x1=\"{0}\" x2=\"{0}\" y1=\"{TOP}\" y2=\"{bottom}\"/></svg>",
        axis.from
    );
    svg
}

/// The end of the time axis: the longest time, but not so long that a catastrophe in one setting
/// makes all others unreadable.
fn longest_shown(pair: &PairResult) -> f64 {
    let mut medians: Vec<f64> = pair
        .settings
        .values()
        .flat_map(|result| result.medians)
        .collect();
    medians.sort_by(f64::total_cmp);
    let middle = medians.get(medians.len() / 2).copied().unwrap_or(1.0);
    let longest = pair
        .settings
        .values()
        .flat_map(|result| result.times.iter().flatten().copied())
        .fold(0.0, f64::max);
    longest.min(4.0 * middle).max(1e-3) * 1.02
}

struct Bar<'a> {
    program: &'a str,
    class: &'a str,
    median: f64,
    is_limit: bool,
    times: &'a [f64],
}

fn bar(svg: &mut String, axis: Axis, y: f64, bar: &Bar<'_>) {
    let Bar { class, median, .. } = *bar;
    let end = axis.at(median);
    let is_cut = median > axis.most;
    let over = if bar.is_limit { "over " } else { "" };
    let all: Vec<String> = bar.times.iter().map(|time| format!("{time:.2}")).collect();
    let _ = write!(
        svg,
        "<g class=\"{class}\"><title>{}: median {over}{median:.2} s of {} s</title>\
         <rect class=\"bar\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" \
         rx=\"2\"/>",
        escaped(bar.program),
        all.join(", "),
        axis.from,
        end - axis.from,
    );
    if is_cut {
        // Two slanted strokes: the bar goes on beyond the plot.
        for offset in [14.0, 20.0] {
            let _ = write!(
                svg,
                "<line class=\"cut\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
                end - offset - 3.0,
                y + BAR + 1.0,
                end - offset + 3.0,
                y - 1.0
            );
        }
    }
    for time in bar.times.iter().filter(|time| **time <= axis.most) {
        let _ = write!(
            svg,
            "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.4\"/>",
            axis.at(*time),
            y + BAR / 2.0
        );
    }
    // The label stands clear of the last repetition's dot.
    let last = bar
        .times
        .iter()
        .copied()
        .filter(|time| *time <= axis.most)
        .fold(median, f64::max);
    let _ = write!(
        svg,
        "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}{median:.2}</text></g>",
        axis.at(last) + 7.0,
        y + BAR / 2.0 + 4.0,
        if bar.is_limit { "&gt; " } else { "" },
    );
}

const TIMELINE_WIDTH: f64 = 400.0;
const TIMELINE_HEIGHT: f64 = 92.0;

/// The CPUs of both programs over time, stacked.
pub(crate) fn timeline(
    title: &str,
    programs: [&str; 2],
    timeline: &Timeline,
    cpus: usize,
    until_s: f64,
) -> String {
    let width = TIMELINE_WIDTH;
    let bottom = 22.0 + TIMELINE_HEIGHT;
    #[expect(clippy::cast_precision_loss, reason = "a number of CPUs")]
    let most = cpus.max(1) as f64;
    let time = Axis {
        from: 26.0,
        length: width - 34.0,
        most: until_s.max(0.1),
    };
    let height = Axis {
        from: 0.0,
        length: TIMELINE_HEIGHT,
        most,
    };
    let mut svg = format!(
        "<svg class=\"timeline\" viewBox=\"0 0 {width} {:.0}\" role=\"img\" aria-label=\"CPUs of \
         {} over time, {}\"><text class=\"label own\" x=\"{}\" y=\"12\">{}</text>",
        bottom + 20.0,
        escaped(&programs.join(" and ")),
        escaped(title),
        time.from,
        escaped(title)
    );
    for (which, class) in ["first", "second"].into_iter().enumerate() {
        let _ = write!(
            svg,
            "<path class=\"area {class}\" d=\"{}\"><title>{}</title></path>",
            stacked(timeline, which, time, height, bottom),
            escaped(programs[which])
        );
    }
    for tick in height
        .ticks(4)
        .into_iter()
        .filter(|tick| *tick > 0.0 && tick.fract() == 0.0)
    {
        let y = bottom - height.at(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            time.from,
            time.from + time.length,
            time.from - 6.0,
            y + 4.0,
            number(tick)
        );
    }
    for tick in time.ticks(6) {
        let x = time.at(tick);
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
            bottom + 15.0,
            number(tick)
        );
    }
    let _ = write!(
        svg,
        "<text class=\"tick\" x=\"{width}\" y=\"12\" text-anchor=\"end\">CPUs</text>"
    );
    svg.push_str("</svg>");
    svg
}

/// The outline of one program's share, standing on that of the programs before it. A sample holds
/// until the next one.
fn stacked(timeline: &Timeline, which: usize, time: Axis, height: Axis, bottom: f64) -> String {
    let samples = &timeline.samples;
    let held = |cpus: [Option<u32>; 2], upto: usize| -> f64 {
        cpus[..upto]
            .iter()
            .map(|count| f64::from(count.unwrap_or(0)))
            .sum()
    };
    let mut upper = Vec::new();
    let mut lower = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        let next_s = samples.get(index + 1).map_or(sample.at_s, |next| next.at_s);
        for at_s in [sample.at_s, next_s] {
            let x = time.at(at_s);
            upper.push((x, bottom - height.at(held(sample.cpus, which + 1))));
            lower.push((x, bottom - height.at(held(sample.cpus, which))));
        }
    }
    let mut path = String::new();
    for (index, (x, y)) in upper.into_iter().chain(lower.into_iter().rev()).enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
    }
    if path.is_empty() {
        path.push_str("M0 0");
    }
    path.push('Z');
    path
}

#[cfg(test)]
mod tests {
    use super::super::evaluate::tests::example;
    use super::*;

    #[test]
    fn a_catastrophe_in_one_setting_does_not_flatten_the_others() {
        let mut pair = example().pairs.remove(0);
        let plain = pair.settings.get_mut(&Setting::Plain).unwrap();
        plain.medians = [100.0, 4.0];
        plain.times = vec![[100.0, 4.0]];
        assert!(longest_shown(&pair) < 20.0);
        assert!(times(&pair).contains("class=\"cut\""));
    }

    #[test]
    fn every_repetition_has_its_dot() {
        let pair = example().pairs.remove(0);
        let shown = times(&pair).matches("<circle").count();
        // Two programs in each setting, three repetitions; one of them far beyond the plot.
        assert_eq!(shown, Setting::ALL.len() * 2 * 3 - 1);
    }

    #[test]
    fn the_second_program_stands_on_the_first() {
        let pair = example().pairs.remove(0);
        let line = pair.settings[&Setting::Fixed].timeline.clone().unwrap();
        let time = Axis {
            from: 0.0,
            length: 100.0,
            most: 2.0,
        };
        let height = Axis {
            from: 0.0,
            length: 100.0,
            most: 2.0,
        };
        let path = stacked(&line, 1, time, height, 100.0);
        // Nothing on top of two CPUs of the first program, then one on top of one.
        assert!(path.starts_with("M0.0 0.0L"), "{path}");
        assert!(path.contains("L97.5 0.0L97.5 50.0"), "{path}");
    }
}
