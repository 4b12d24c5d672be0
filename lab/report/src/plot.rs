//! Plots as SVG, to stand in a page: bars with intervals or samples, and stacked shares over time.

use anyhow::anyhow;
use maud::{Markup, PreEscaped, html};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// How many colours there are.
const SERIES: usize = 10;

/// What stands for the colour of a series in a drawing, until `svg` writes that of the page.
const fn series(at: usize) -> RGBColor {
    RGBColor(1, 1, 0xf0 + (at % SERIES) as u8)
}

const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
const SOFT: RGBColor = RGBColor(0x5b, 0x63, 0x6d);
const RULE: RGBColor = RGBColor(0xe2, 0xe5, 0xe9);

const WIDTH: u32 = 900;
const GAP: i32 = 12;
/// Bars in parts are about as high as fits on a screen or a page.
const PART_HEIGHT: i32 = 680;
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
pub fn bars(groups: &[BarGroup], unit: &str, reference: Option<f64>) -> anyhow::Result<Markup> {
    Scale::of(groups, reference).draw(groups, unit)
}

/// The same in several plots of one scale, so that none is higher than a screen or a page.
pub fn bars_in_parts(
    groups: &[BarGroup],
    unit: &str,
    reference: Option<f64>,
) -> anyhow::Result<Vec<Markup>> {
    let scale = Scale::of(groups, reference);
    let highest = groups.iter().map(|group| scale.height(group)).max();
    let fit = usize::try_from(PART_HEIGHT / highest.unwrap_or(PART_HEIGHT).max(1))?.max(1);
    // As many in each, so that none is left alone at the end.
    let parts = groups.len().div_ceil(fit).max(1);
    let each = groups.len().div_ceil(parts).max(1);
    let parts = groups.chunks(each);
    parts.map(|part| scale.draw(part, unit)).collect()
}

/// What plots of the same groups have in common.
struct Scale {
    left: u32,
    most: f64,
    bar: i32,
    reference: Option<f64>,
}

impl Scale {
    fn of(groups: &[BarGroup], reference: Option<f64>) -> Self {
        let widest = groups.iter().map(|group| text_width(&group.name)).max();
        let bars = groups.iter().map(|group| group.bars.len()).max();
        Self {
            left: widest.unwrap_or(0) + 14,
            most: longest_shown(groups).max(reference.unwrap_or(0.0)) * 1.03,
            bar: if bars > Some(5) { 11 } else { 13 },
            reference,
        }
    }

    fn height(&self, group: &BarGroup) -> i32 {
        i32::try_from(group.bars.len()).unwrap_or(0) * self.bar + GAP
    }

    fn draw(&self, groups: &[BarGroup], unit: &str) -> anyhow::Result<Markup> {
        let (most, thick) = (self.most, self.bar);
        let plot_height: i32 = groups.iter().map(|group| self.height(group)).sum();
        svg(u32::try_from(plot_height + 48)?, |area| {
            let mut chart = ChartBuilder::on(area)
                .margin_top(4)
                .margin_right(90)
                .x_label_area_size(40)
                .y_label_area_size(self.left)
                .build_cartesian_2d(0.0..most, 0..plot_height)?;
            let mut mesh = chart.configure_mesh();
            mesh.disable_y_mesh().disable_y_axis();
            mesh.x_labels(8).x_desc(unit);
            mesh.axis_style(RULE).bold_line_style(RULE);
            mesh.light_line_style(TRANSPARENT);
            mesh.label_style(("sans-serif", 13).into_font().color(&SOFT));
            mesh.draw()?;
            // Measured from above, which is where the axis of the plot ends.
            let mut y = plot_height - GAP / 2;
            let text = |size: i32, colour: RGBColor, at: HPos| {
                let style = ("sans-serif", size).into_font().color(&colour);
                style.pos(Pos::new(at, VPos::Center))
            };
            for group in groups {
                let middle = y - (self.height(group) - GAP) / 2;
                let name = Text::new(group.name.clone(), (-10, 0), text(14, INK, HPos::Right));
                chart.draw_series([EmptyElement::at((0.0, middle)) + name])?;
                for bar in &group.bars {
                    let colour = series(bar.colour);
                    let (end, centre) = (bar.value.min(most), y - thick / 2);
                    let corners = [(0.0, y - thick + 1), (end, y - 1)];
                    chart.draw_series([Rectangle::new(corners, colour.filled())])?;
                    if let Some([low, high]) = bar.interval {
                        let line = vec![(low.min(most), centre), (high.min(most), centre)];
                        // Below it a stroke in the colour of the page, so that it is seen on bars, too.
                        for stroke in [WHITE.mix(0.8).stroke_width(3), INK.stroke_width(1)] {
                            chart.draw_series([PathElement::new(line.clone(), stroke)])?;
                        }
                    }
                    let shown = bar.samples.iter().filter(|&&sample| sample <= most);
                    chart.draw_series(shown.map(|&sample| {
                        EmptyElement::at((sample, centre))
                            + Circle::new((0, 0), 3, WHITE.filled())
                            + Circle::new((0, 0), 3, colour.stroke_width(1))
                    }))?;
                    // Clear of the interval, of the last sample and of the line at the reference.
                    let high = bar.interval.map(|[_, high]| high);
                    let ends = high.iter().chain(&bar.samples).copied();
                    let last = ends.map(|end| end.min(most)).fold(end, f64::max);
                    let near = |line: &f64| (last..last + 0.08 * most).contains(line);
                    let last = self.reference.filter(near).unwrap_or(last);
                    let arrow = if bar.value > most { " →" } else { "" };
                    let label = format!("{}{arrow}", bar.label);
                    let label = Text::new(label, (7, 0), text(12, SOFT, HPos::Left));
                    chart.draw_series([EmptyElement::at((last, centre)) + label])?;
                    y -= thick;
                }
                y -= GAP;
            }
            if let Some(at) = self.reference {
                let line = vec![(at, 0), (at, plot_height)];
                chart.draw_series([PathElement::new(line, SOFT.stroke_width(1))])?;
            }
            Ok(())
        })
    }
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
fn text_width(text: &str) -> u32 {
    u32::try_from(text.chars().count() * 15 / 2).unwrap_or(u32::MAX)
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
pub fn shares_over_time(
    samples: &[Sample],
    colours: &[usize],
    most: u32,
    until_s: f64,
) -> anyhow::Result<Markup> {
    over_time(150, most, until_s, |chart| {
        for (at, colour) in colours.iter().enumerate() {
            let outline = outline(samples, at);
            if outline.len() > 2 {
                let colour = series(*colour).mix(0.8);
                chart.draw_series([Polygon::new(outline, colour.filled())])?;
            }
        }
        Ok(())
    })
}

/// CPUs with consecutive numbers that one holds for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Seconds from the beginning.
    pub from_s: f64,
    /// The same.
    pub to_s: f64,
    /// The first of them.
    pub first: u32,
    /// The last of them.
    pub last: u32,
    /// That of the holder; none: several hold them together.
    pub colour: Option<usize>,
}

/// Which of `most` CPUs are held by which program: number 0 at the bottom; the plot ends at `until_s`.
pub fn cpus_over_time(spans: &[Span], most: u32, until_s: f64) -> anyhow::Result<Markup> {
    over_time(240, most, until_s, |chart| {
        chart.draw_series(spans.iter().map(|span| {
            let from = (span.from_s, f64::from(span.first));
            let to = (span.to_s, f64::from(span.last + 1));
            let colour = span.colour.map_or(INK.mix(0.22), |of| series(of).mix(1.0));
            Rectangle::new([from, to], colour.filled())
        }))?;
        Ok(())
    })
}

type Seconds = plotters::coord::types::RangedCoordf64;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Seconds, Seconds>>;

/// A plot of up to `most` CPUs over time.
fn over_time(
    height: u32,
    most: u32,
    until_s: f64,
    draw: impl FnOnce(&mut Chart<'_, '_>) -> Drawn,
) -> anyhow::Result<Markup> {
    svg(height, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .x_label_area_size(24)
            .y_label_area_size(34)
            .build_cartesian_2d(0.0..until_s.max(0.1), 0.0..f64::from(most.max(1)))?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh();
        mesh.y_labels(usize::try_from(most.clamp(2, 5))?);
        mesh.y_label_formatter(&|cpus| format!("{cpus:.0}"));
        mesh.x_label_formatter(&|seconds| format!("{seconds:.1} s"));
        mesh.axis_style(RULE).bold_line_style(RULE);
        mesh.light_line_style(TRANSPARENT);
        mesh.label_style(("sans-serif", 12).into_font().color(&SOFT));
        mesh.draw()?;
        draw(&mut chart)
    })
}

/// The outline of one series, which stands on those before it.
fn outline(samples: &[Sample], series: usize) -> Vec<(f64, f64)> {
    let level = |of: &Sample, upto| f64::from(of.held.iter().take(upto).sum::<u32>());
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
                span style=(format!("--key: var(--s{})", colour % SERIES)) { (name) }
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
    let size = format!("width=\"{WIDTH}\" height=\"{height}\" ");
    text = text.replacen(&size, "", 1);
    let name_space = " xmlns=\"http://www.w3.org/2000/svg\"";
    for needless in [name_space, " font-family=\"sans-serif\"", " opacity=\"1\""] {
        text = text.replace(needless, "");
    }
    // Colours follow the light and dark forms of the page.
    let series = (0..SERIES).map(|at| (format!("s{at}"), series(at)));
    let others = [
        ("ink", INK),
        ("soft", SOFT),
        ("rule", RULE),
        ("page", WHITE),
    ];
    let others = others.map(|(name, colour)| (name.to_owned(), colour));
    for (name, RGBColor(r, g, b)) in series.chain(others) {
        let drawn = format!("\"#{r:02X}{g:02X}{b:02X}\"");
        text = text.replace(&drawn, &format!("\"var(--{name})\""));
    }
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
        let is_text = svg.contains("a &lt;name&gt;") && !svg.contains("http");
        assert!(is_text, "{svg}");
    }

    #[test]
    fn many_groups_become_several_plots_of_one_scale_and_no_bar_is_lost() {
        let groups: Vec<BarGroup> = (1..=40).map(|at| group(&[f64::from(at), 1.0])).collect();
        let parts = bars_in_parts(&groups, "speed", Some(1.0)).unwrap();
        assert!(parts.len() > 1);
        let filled = |of: &Markup| of.0.matches("fill=\"var(--s0)\"").count();
        // A bar and its two circles, of which one is filled with the page.
        let all: usize = parts.iter().map(filled).sum();
        assert_eq!(all, filled(&bars(&groups, "speed", Some(1.0)).unwrap()));
        assert_eq!(all, 80);
        let ticks = |of: &Markup| of.0.matches("text-anchor=\"middle\"").count();
        for part in &parts {
            let height = part.0.split("0 0 900 ").nth(1).unwrap();
            let height: i32 = height.split('"').next().unwrap().parse().unwrap();
            assert!(height <= PART_HEIGHT + 48, "{height}");
            assert_eq!(ticks(part), ticks(&parts[0]));
        }
    }

    #[test]
    fn colours_are_those_of_the_page_and_an_interval_is_seen_on_its_bar() {
        let mut group = group(&[1.0]);
        group.bars[0].interval = Some([0.5, 1.5]);
        let svg = bars(&[group], "seconds", None).unwrap().0;
        assert!(!svg.contains('#'), "{svg}");
        let line = |colour| svg.matches(&format!("stroke=\"var(--{colour})\"")).count();
        assert_eq!((line("ink"), line("page")), (1, 1), "{svg}");
    }

    #[test]
    fn each_span_of_cpus_is_a_rectangle_and_shared_ones_have_no_series() {
        let span = |first, last, colour| Span {
            from_s: 0.0,
            to_s: 2.0,
            first,
            last,
            colour,
        };
        let spans = [span(0, 3, Some(1)), span(4, 7, None)];
        let svg = cpus_over_time(&spans, 8, 2.0).unwrap().0;
        let filled = |colour| format!("fill=\"var(--{colour})\" stroke=\"none\"");
        let rectangles = |colour| svg.matches(&filled(colour)).count();
        assert_eq!((rectangles("s1"), rectangles("s0")), (1, 0), "{svg}");
        assert!(rectangles("ink") >= 1, "{svg}");
    }

    #[test]
    fn the_second_series_stands_on_the_first() {
        let samples = [(0.0, 2, 0), (1.0, 1, 1), (2.0, 1, 1)].map(|(at_s, one, other)| Sample {
            at_s,
            held: vec![one, other],
        });
        let found = outline(&samples, 1);
        assert_eq!(found[..3], [(0.0, 2.0), (1.0, 2.0), (1.0, 2.0)]);
        assert!(found.ends_with(&[(1.0, 1.0), (1.0, 2.0), (0.0, 2.0)]));
        shares_over_time(&samples, &[0, 1], 2, 2.0).unwrap();
    }
}
