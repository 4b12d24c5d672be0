//! The SVG plots of the report. Colours come from the style sheet of the page, so that they follow
//! its light and dark forms; a series has the class `s0`, `s1`, and so on.

use super::tables::{Cell, MixRow, SuiteTable};
use mapper_report::html_report::axis::Axis;
use mapper_report::html_report::escaped;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const WIDTH: f64 = 1060.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 70.0;
const BAR: f64 = 7.0;
const GAP: f64 = 11.0;
const TOP: f64 = 8.0;
/// A plot of more rows than fit below each other in this height becomes several, so that none is cut by the
/// edge of a page and the numbers of the axis are never far.
const MOST_HEIGHT: f64 = 640.0;

/// Rows of bars, one for each series, that share an axis.
pub(super) struct Bars<'a> {
    pub(super) title: &'a str,
    pub(super) rows: Vec<Row>,
    /// Where an upright line stands, at the value that means "as before".
    pub(super) line_at: Option<f64>,
}

/// A row of bars.
pub(super) struct Row {
    pub(super) label: String,
    /// By series; nothing leaves its place free.
    pub(super) bars: Vec<Option<Bar>>,
}

/// A bar.
pub(super) struct Bar {
    pub(super) value: f64,
    /// Its whisker's ends, least and most.
    pub(super) whisker: Option<[f64; 2]>,
    /// What is told of it where the pointer rests.
    pub(super) told: String,
}

/// A bar for every policy of every mix, with whiskers from its slowest program to its fastest, and the
/// means over all mixes below. Plots to be shown below each other.
pub(super) fn speeds(table: &SuiteTable) -> Vec<String> {
    let policies = &table.suite.policies;
    let mixes = table.mixes.iter().zip(labels(&table.mixes));
    let mut rows: Vec<Row> = mixes
        .map(|(mix, label)| of_mix(mix, label, policies, &|cell| Some(cell.value), true))
        .collect();
    if table.mixes.len() > 1 {
        rows.push(Row {
            label: "geometric mean".into(),
            bars: policies
                .iter()
                .map(|policy| {
                    let value = *table.overall.get(policy)?;
                    Some(Bar {
                        value,
                        whisker: None,
                        told: format!("{policy}: {value:.3}"),
                    })
                })
                .collect(),
        });
    }
    bars(&Bars {
        title: &table.suite.title,
        rows,
        line_at: Some(1.0),
    })
}

/// A bar for every policy of every mix, of something else than its speed. Plots to be shown below each other.
pub(super) fn of_cells(
    table: &SuiteTable,
    title: &str,
    line_at: Option<f64>,
    value: &dyn Fn(&MixRow, &Cell) -> Option<f64>,
) -> Vec<String> {
    let mixes = table.mixes.iter().zip(labels(&table.mixes));
    let rows = mixes.map(|(mix, label)| {
        let value = |cell: &Cell| value(mix, cell);
        of_mix(mix, label, &table.suite.policies, &value, false)
    });
    bars(&Bars {
        title,
        rows: rows.collect(),
        line_at,
    })
}

fn of_mix(
    mix: &MixRow,
    label: String,
    policies: &[String],
    value: &dyn Fn(&Cell) -> Option<f64>,
    whiskers: bool,
) -> Row {
    Row {
        label,
        bars: policies
            .iter()
            .map(|policy| {
                let cell = mix.policies.get(policy)?;
                let value = value(cell)?;
                let programs = cell
                    .apps
                    .iter()
                    .map(|a| format!("{} {:.2}", a.name, a.speed));
                let programs: Vec<String> = programs.collect();
                Some(Bar {
                    value,
                    whisker: (whiskers && cell.apps.len() > 1).then(|| [cell.least(), cell.most()]),
                    told: if whiskers {
                        format!("{policy}: {value:.3} ({})", programs.join(", "))
                    } else {
                        format!("{policy}: {value:.3}")
                    },
                })
            })
            .collect(),
    }
}

fn bars(plot: &Bars<'_>) -> Vec<String> {
    let series = plot
        .rows
        .iter()
        .map(|row| row.bars.len())
        .max()
        .unwrap_or(0);
    let height = series as f64 * BAR + GAP;
    let all = plot.rows.iter().flat_map(|row| row.bars.iter().flatten());
    let most = all.map(|bar| {
        let whisker = bar.whisker.map_or(0.0, |[_, most]| most);
        bar.value.max(whisker.min(1.6 * bar.value))
    });
    let axis = Axis {
        from: LEFT,
        length: WIDTH - LEFT - RIGHT,
        most: most.fold(plot.line_at.unwrap_or(1e-9), f64::max) * 1.02,
    };
    let fit = ((MOST_HEIGHT / height) as usize).max(1);
    // As many in each, so that none is left alone at the end.
    let plots = plot.rows.len().div_ceil(fit).max(1);
    let rows = plot.rows.len().div_ceil(plots).max(1);
    plot.rows
        .chunks(rows)
        .map(|rows| some_rows(plot, rows, height, axis))
        .collect()
}

/// Rows of a plot that stand together.
fn some_rows(plot: &Bars<'_>, rows: &[Row], height: f64, axis: Axis) -> String {
    let bottom = TOP + height * rows.len() as f64;
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">",
        bottom + 22.0,
        escaped(plot.title)
    );
    axis.grid(&mut svg, 8, TOP, bottom);
    for (at, row) in rows.iter().enumerate() {
        one_row(&mut svg, row, TOP + height * at as f64, axis);
    }
    if let Some(line_at) = plot.line_at {
        let x = axis.at(line_at);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>"
        );
    }
    svg.push_str("</svg>");
    svg
}

fn one_row(svg: &mut String, row: &Row, top: f64, axis: Axis) {
    let middle = top + (row.bars.len() as f64 * BAR) / 2.0 + 4.0;
    let _ = write!(
        svg,
        "<text class=\"label\" x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 10.0,
        escaped(&row.label)
    );
    for (series, bar) in row.bars.iter().enumerate() {
        let Some(bar) = bar else { continue };
        let y = top + series as f64 * BAR;
        let _ = write!(
            svg,
            "<g class=\"s{series}\"><title>{}</title>\
             <rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            escaped(&bar.told),
            axis.from,
            y,
            axis.at(bar.value) - axis.from,
            BAR - 1.0
        );
        if let Some([least, most]) = bar.whisker {
            let (from, to) = (axis.at(least), axis.at(most));
            let y = y + (BAR - 1.0) / 2.0;
            // Below it a stroke in the colour of the page, so that it is seen on bars, too.
            let path = format!(
                "M{from:.1} {y:.1}H{to:.1}M{from:.1} {:.1}v4M{to:.1} {:.1}v4",
                y - 2.0,
                y - 2.0
            );
            let _ = write!(
                svg,
                "<path class=\"halo\" d=\"M{from:.1} {y:.1}H{to:.1}\"/><path class=\"whisker\" d=\"{path}\"/>"
            );
        }
        svg.push_str("</g>");
    }
}

/// What the rows of mixes are called: all without the thread counts that the programs of a mix have in common,
/// or, where two would then be called the same, all with them.
fn labels(mixes: &[MixRow]) -> Vec<String> {
    let short: BTreeSet<String> = mixes.iter().map(|row| short(&row.mix)).collect();
    let label = |row: &MixRow| {
        let star = if row.assumed { " *" } else { "" };
        match short.len() == mixes.len() {
            true => format!("{}{star}", self::short(&row.mix)),
            false => format!("{}{star}", row.mix),
        }
    };
    mixes.iter().map(label).collect()
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
        Some(first)
            if programs > 1 && counts.len() == programs && counts.iter().all(|n| n == first) =>
        {
            mix.replace(&format!("{first} "), "")
        }
        _ => mix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples;
    use super::*;

    #[test]
    fn thread_counts_are_left_out_where_they_are_all_the_same() {
        assert_eq!(short("80 canneal, 80 SGD"), "canneal, SGD");
        assert_eq!(short("12 ALS, 14 SGD"), "12 ALS, 14 SGD");
        assert_eq!(short("BT, FT"), "BT, FT");
        assert_eq!(short("20 ALS"), "20 ALS", "beside 10 ALS");
    }

    #[test]
    fn thread_counts_stay_where_mixes_differ_by_nothing_else() {
        let suite = examples::suite(
            "s",
            &["20 SVD, 20 SGD", "5 SVD, 5 SGD", "20 ALS, 20 SGD"],
            &["p"],
        );
        let table = examples::table_of(&suite, &|_, _| 1.0);
        assert_eq!(
            labels(&table.mixes),
            ["20 SVD, 20 SGD", "5 SVD, 5 SGD", "20 ALS, 20 SGD"]
        );
        assert_eq!(labels(&table.mixes[1..]), ["SVD, SGD", "ALS, SGD"]);
    }

    #[test]
    fn many_rows_become_several_plots_of_one_scale_and_none_is_lost() {
        let names: Vec<String> = (1..=40).map(|at| format!("{at} SGD, 1 ALS")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let suite = examples::suite("s", &names, &["linux", "mapper"]);
        let table = examples::table_of(&suite, &|mix, _| mix.len() as f64 / 10.0);
        let plots = speeds(&table);
        assert!(plots.len() > 1);
        let bars: usize = plots
            .iter()
            .map(|svg| svg.matches("class=\"bar\"").count())
            .sum();
        assert_eq!(bars, 41 * 2, "with the means");
        let last_tick = |svg: &String| svg.rsplit("class=\"tick\"").next().unwrap().to_owned();
        for svg in &plots {
            assert!(roxmltree::Document::parse(svg).is_ok());
            let height = svg.split("viewBox=\"0 0 1060 ").nth(1).unwrap();
            let height: f64 = height.split('"').next().unwrap().parse().unwrap();
            assert!(height <= MOST_HEIGHT + TOP + 22.0, "{height}");
            let x = |text: String| text.split("x=\"").nth(1).unwrap()[..4].to_owned();
            assert_eq!(x(last_tick(svg)), x(last_tick(&plots[0])));
        }
    }

    #[test]
    fn a_row_has_a_bar_for_each_series_and_whiskers_where_there_are_ends() {
        let bar = |value, whisker| Bar {
            value,
            whisker,
            told: "a < b".into(),
        };
        let svg = bars(&Bars {
            title: "t",
            rows: vec![Row {
                label: "x, y".into(),
                bars: vec![Some(bar(0.5, Some([0.4, 0.7]))), None, Some(bar(0.9, None))],
            }],
            line_at: Some(1.0),
        })
        .remove(0);
        assert_eq!(svg.matches("class=\"bar\"").count(), 2);
        assert_eq!(svg.matches("class=\"whisker\"").count(), 1);
        assert!(svg.contains("class=\"s2\"") && !svg.contains("class=\"s1\""));
        assert!(roxmltree::Document::parse(&svg).is_ok());
    }
}
