//! Plots as SVG, to stand in a page: bars with intervals or samples, and stacked shares over time.

use anyhow::anyhow;
use maud::{Markup, PreEscaped, html};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The colours of the series.
const PALETTE: [RGBColor; 9] = [
    RGBColor(0x2c, 0x67, 0xb8),
    RGBColor(0xd0, 0x7a, 0x15),
    RGBColor(0x2f, 0x8f, 0x6b),
    RGBColor(0x8a, 0x8f, 0x98),
    RGBColor(0xb9, 0x56, 0x3f),
    RGBColor(0x7a, 0x5b, 0xb0),
    RGBColor(0xb8, 0xa0, 0x2c),
    RGBColor(0xc2, 0x40, 0x8f),
    RGBColor(0x3a, 0xa0, 0xb5),
];

const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
const SOFT: RGBColor = RGBColor(0x5b, 0x63, 0x6d);
const RULE: RGBColor = RGBColor(0xe2, 0xe5, 0xe9);

const WIDTH: u32 = 900;
const BAR: i32 = 13;
const GAP: i32 = 12;
/// Beyond this many times the middle bar the axis ends, so that one bar does not flatten the others.
const SPAN: f64 = 4.0;

/// A bar from nought to a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its place in the palette.
    pub colour: usize,
    /// Where it ends.
    pub value: f64,
    /// What stands beside its end.
    pub label: String,
    /// The ends of an interval that is drawn as a line.
    pub interval: Option<[f64; 2]>,
    /// Values that are drawn as circles.
    pub samples: Vec<f64>,
}

/// Bars with one name.
#[derive(Clone, Debug, PartialEq)]
pub struct BarGroup {
    /// What stands to the left of them.
    pub name: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// Level bars in groups, with `unit` below the axis and a line at `reference`.
///
/// # Errors
/// The plot cannot be drawn.
pub fn bars(groups: &[BarGroup], unit: &str, reference: Option<f64>) -> anyhow::Result<Markup> {
    let group_height = |group: &BarGroup| i32::try_from(group.bars.len()).unwrap_or(0) * BAR + GAP;
    let plot_height: i32 = groups.iter().map(group_height).sum();
    let left = groups
        .iter()
        .map(|group| text_width(&group.name))
        .max()
        .unwrap_or(0)
        + 14;
    let most = longest_shown(groups).max(reference.unwrap_or(0.0)) * 1.03;
    svg(u32::try_from(plot_height + 48)?, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(4)
            .margin_right(90)
            .x_label_area_size(40)
            .y_label_area_size(left)
            .build_cartesian_2d(0.0..most, 0..plot_height)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_labels(8)
            .x_desc(unit)
            .axis_style(RULE)
            .bold_line_style(RULE)
            .light_line_style(TRANSPARENT)
            .label_style(("sans-serif", 13).into_font().color(&SOFT))
            .draw()?;
        // Measured from above, which is where the axis of the plot ends.
        let mut y = plot_height - GAP / 2;
        let text = |size: i32, colour: RGBColor, at: HPos| {
            let style = ("sans-serif", size).into_font().color(&colour);
            style.pos(Pos::new(at, VPos::Center))
        };
        for group in groups {
            let middle = y - (group_height(group) - GAP) / 2;
            let name = Text::new(group.name.clone(), (-10, 0), text(14, INK, HPos::Right));
            chart.draw_series([EmptyElement::at((0.0, middle)) + name])?;
            for bar in &group.bars {
                let colour = PALETTE[bar.colour % PALETTE.len()];
                let (end, centre) = (bar.value.min(most), y - BAR / 2);
                let corners = [(0.0, y - BAR + 1), (end, y - 1)];
                chart.draw_series([Rectangle::new(corners, colour.filled())])?;
                if let Some([low, high]) = bar.interval {
                    let line = [(low.min(most), centre), (high.min(most), centre)];
                    chart.draw_series([PathElement::new(line.to_vec(), INK.stroke_width(1))])?;
                }
                let shown = bar.samples.iter().filter(|&&sample| sample <= most);
                chart.draw_series(shown.map(|&sample| {
                    EmptyElement::at((sample, centre))
                        + Circle::new((0, 0), 3, WHITE.filled())
                        + Circle::new((0, 0), 3, colour.stroke_width(1))
                }))?;
                // Clear of the interval and of the last sample.
                let ends = bar
                    .interval
                    .iter()
                    .map(|[_, high]| *high)
                    .chain(bar.samples.iter().copied());
                let last = ends.filter(|end| *end <= most).fold(end, f64::max);
                let arrow = if bar.value > most { " →" } else { "" };
                let label = Text::new(
                    format!("{}{arrow}", bar.label),
                    (7, 0),
                    text(12, SOFT, HPos::Left),
                );
                chart.draw_series([EmptyElement::at((last, centre)) + label])?;
                y -= BAR;
            }
            y -= GAP;
        }
        if let Some(at) = reference {
            let line = vec![(at, 0), (at, plot_height)];
            chart.draw_series([PathElement::new(line, SOFT.stroke_width(1))])?;
        }
        Ok(())
    })
}

/// The end of the axis: the longest bar or sample, but not so long that one makes all others unreadable.
fn longest_shown(groups: &[BarGroup]) -> f64 {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let mut values: Vec<f64> = bars().map(|bar| bar.value).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2).copied().unwrap_or(1.0);
    let ends = bars().flat_map(|bar| {
        let high = bar.interval.map_or(0.0, |[_, high]| high);
        bar.samples.iter().copied().chain([bar.value, high])
    });
    ends.fold(0.0, f64::max).min(SPAN * middle).max(1e-3)
}

/// About as wide as a name is in the plot.
fn text_width(text: &str) -> i32 {
    i32::try_from(text.chars().count() * 15 / 2).unwrap_or(i32::MAX)
}

/// What several hold of something at a time, until the next sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Seconds from the beginning.
    pub at_s: f64,
    /// Of each series.
    pub held: Vec<u32>,
}

/// Shares of `most` things over time, stacked; the plot ends at `until_s`.
///
/// # Errors
/// The plot cannot be drawn.
pub fn shares_over_time(
    samples: &[Sample],
    colours: &[usize],
    most: u32,
    until_s: f64,
) -> anyhow::Result<Markup> {
    svg(150, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .x_label_area_size(24)
            .y_label_area_size(34)
            .build_cartesian_2d(0.0..until_s.max(0.1), 0.0..f64::from(most.max(1)))?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_labels(usize::try_from(most.clamp(2, 5))?)
            .y_label_formatter(&|cpus| format!("{cpus:.0}"))
            .x_label_formatter(&|seconds| format!("{seconds:.1} s"))
            .axis_style(RULE)
            .bold_line_style(RULE)
            .light_line_style(TRANSPARENT)
            .label_style(("sans-serif", 12).into_font().color(&SOFT))
            .draw()?;
        for (series, colour) in colours.iter().enumerate() {
            let outline = outline(samples, series);
            if outline.len() > 2 {
                let colour = PALETTE[colour % PALETTE.len()].mix(0.8);
                chart.draw_series([Polygon::new(outline, colour.filled())])?;
            }
        }
        Ok(())
    })
}

/// The outline of one series, which stands on those before it.
fn outline(samples: &[Sample], series: usize) -> Vec<(f64, f64)> {
    let level = |sample: &Sample, upto: usize| -> f64 {
        sample
            .held
            .iter()
            .take(upto)
            .map(|&held| f64::from(held))
            .sum()
    };
    let (mut upper, mut lower) = (Vec::new(), Vec::new());
    for (place, sample) in samples.iter().enumerate() {
        let next_s = samples.get(place + 1).map_or(sample.at_s, |next| next.at_s);
        for at_s in [sample.at_s, next_s] {
            upper.push((at_s, level(sample, series + 1)));
            lower.push((at_s, level(sample, series)));
        }
    }
    upper.into_iter().chain(lower.into_iter().rev()).collect()
}

/// Names with the colours of their series.
#[must_use]
pub fn legend<'a>(entries: impl IntoIterator<Item = (usize, &'a str)>) -> Markup {
    html! {
        p class="legend" {
            @for (colour, name) in entries {
                @let RGBColor(r, g, b) = PALETTE[colour % PALETTE.len()];
                span style=(format!("--key: rgb({r},{g},{b})")) { (name) }
            }
        }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// A drawing of this height, as it may stand in a page.
fn svg(height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> anyhow::Result<Markup> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        let drawn = draw(&area).and_then(|()| Ok(area.present()?));
        drawn.map_err(|error| anyhow!("draw a plot: {error}"))?;
    }
    // Within a page it needs no name space, and its size is that of the page's column.
    let text = text
        .replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
        .replacen(&format!("width=\"{WIDTH}\" height=\"{height}\" "), "", 1);
    Ok(PreEscaped(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(value: f64) -> Bar {
        Bar {
            colour: 0,
            value,
            label: format!("{value:.2}"),
            interval: None,
            samples: vec![value, value],
        }
    }

    fn group(values: &[f64]) -> BarGroup {
        BarGroup {
            name: "a <name>".to_owned(),
            bars: values.iter().map(|&value| bar(value)).collect(),
        }
    }

    #[test]
    fn one_long_bar_does_not_flatten_the_others_and_says_how_long_it_is() {
        let groups = [group(&[1.0, 2.0, 100.0])];
        assert!(longest_shown(&groups) < 10.0);
        let svg = bars(&groups, "seconds", None).unwrap().0;
        assert!(svg.contains("100.00 →") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn every_sample_within_the_plot_has_a_circle_and_names_stay_text() {
        let svg = bars(&[group(&[1.0, 2.0])], "seconds", Some(1.0)).unwrap().0;
        // A filled one and its rim.
        assert_eq!(svg.matches("<circle").count(), 2 * 2 * 2);
        assert!(
            svg.contains("a &lt;name&gt;") && !svg.contains("http"),
            "{svg}"
        );
    }

    #[test]
    fn the_second_series_stands_on_the_first() {
        let samples = [(0.0, 2, 0), (1.0, 1, 1), (2.0, 1, 1)].map(|(at_s, one, other)| Sample {
            at_s,
            held: vec![one, other],
        });
        let found = outline(&samples, 1);
        assert_eq!(found[..3], [(0.0, 2.0), (1.0, 2.0), (1.0, 2.0)]);
        assert_eq!(
            found[found.len() - 3..],
            [(1.0, 1.0), (1.0, 2.0), (0.0, 2.0)]
        );
        shares_over_time(&samples, &[0, 1], 2, 2.0).unwrap();
    }
}
