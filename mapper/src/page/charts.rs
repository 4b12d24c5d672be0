//! Charts over time. Positions along it are shares of the width, so that text keeps its size on any screen.

use super::marks::{Mark, Marks};
use super::timeline::{Holder, Point, Stretch, Timeline};
use mapper_control::schema::TopologyStatus;
use maud::{Markup, html};
use std::fmt::Write;

/// The unit of paths, which are stretched to the width and height of the chart.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;
/// Charts of speeds show at least up to here and at most up to there, over what is promised.
const LEAST_TOP: f64 = 1.5;
const MOST_TOP: f64 = 3.0;
/// A stretch as short as this has no room for its letter.
const ROOM_FOR_LETTER: f64 = 0.04;
const ROW_FOR_LETTER: u32 = 14;

/// How many CPUs a program had, with its fair share as a dashed line.
pub(super) fn cpus(points: &[Point], fair: u32, mark: Mark) -> Markup {
    let most = points.iter().filter_map(|point| point.cpus).max();
    let top = f64::from(most.unwrap_or(1).max(fair).max(1)) * 1.08;
    let height = |cpus: u32| y(f64::from(cpus) / top);
    let steps = path(points, |point| point.cpus.map(height), Shape::Steps);
    chart("CPUs over time", &steps, height(fair), mark)
}

/// How fast a program was, with its promise as a dashed line.
pub(super) fn speed(points: &[Point], mark: Mark) -> Markup {
    let most = points.iter().filter_map(|point| point.speed);
    let top = most.fold(LEAST_TOP, f64::max).min(MOST_TOP);
    let height = |speed: f64| y(speed.min(top) / top);
    let line = path(points, |point| point.speed.map(height), Shape::Line);
    chart(
        "speed over time, against the promise",
        &line,
        height(1.0),
        mark,
    )
}

fn y(share: f64) -> f64 {
    HEIGHT * (1.0 - share)
}

fn chart(label: &str, paths: &Paths, dashed: f64, mark: Mark) -> Markup {
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(label) {
            path.area.(mark.class) d=(paths.area) {}
            path.line d=(paths.line) {}
            line.dashed x1="0" x2=(WIDTH) y1=(format!("{dashed:.1}")) y2=(format!("{dashed:.1}")) {}
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Steps,
    Line,
}

struct Paths {
    line: String,
    /// Down to the axis.
    area: String,
}

/// The path through all points that have a height, interrupted where they have none.
fn path(points: &[Point], height: impl Fn(&Point) -> Option<f64>, shape: Shape) -> Paths {
    let (mut line, mut area) = (String::new(), String::new());
    let mut open: Option<f64> = None;
    let mut end = 0.0;
    for (place, point) in points.iter().enumerate() {
        let x = point.at * WIDTH;
        let height = height(point);
        // Writing to a String cannot fail.
        let _ = match (open, height) {
            (None, Some(y)) => {
                let _ = write!(area, "M{x:.0},{HEIGHT}V{y:.1}");
                write!(line, "M{x:.0},{y:.1}")
            }
            (Some(before), Some(y)) if shape == Shape::Steps => {
                let is_last = place + 1 == points.len();
                if before == y && !is_last {
                    Ok(())
                } else {
                    let _ = write!(area, "H{x:.0}V{y:.1}");
                    write!(line, "H{x:.0}V{y:.1}")
                }
            }
            (Some(_), Some(y)) => {
                let _ = write!(area, "L{x:.0},{y:.1}");
                write!(line, "L{x:.0},{y:.1}")
            }
            (Some(_), None) if shape == Shape::Steps => {
                let _ = write!(line, "H{x:.0}");
                write!(area, "H{x:.0}V{HEIGHT}Z")
            }
            (Some(_), None) => write!(area, "V{HEIGHT}Z"),
            (None, None) => Ok(()),
        };
        open = height;
        end = x;
    }
    if open.is_some() {
        let _ = write!(area, "H{end:.0}V{HEIGHT}Z");
    }
    Paths { line, area }
}

/// A row for each hardware thread: which program held it when.
pub(super) fn holders(machine: &TopologyStatus, timeline: &Timeline, marks: &Marks) -> Markup {
    let cpus: Vec<_> = machine
        .layout
        .iter()
        .flat_map(|part| &part.cores)
        .flat_map(|core| core.iter())
        .collect();
    let row = match cpus.len() {
        ..=8 => 22,
        9..=24 => 14,
        25..=64 => 8,
        65..=160 => 4,
        _ => 2,
    };
    let height = row * u32::try_from(cpus.len()).unwrap_or(u32::MAX);
    html! {
        svg.holders width="100%" height=(height) role="img" aria-label="which program held each CPU, over time" {
            @for (place, cpu) in (0..).zip(&cpus) {
                @let y: u32 = place * row;
                @for part in timeline.stretches(*cpu) {
                    @if part.holder != Holder::None {
                        (stretch(part, y, row, marks.of_holder(part.holder)))
                    }
                }
            }
        }
    }
}

fn stretch(part: Stretch, y: u32, row: u32, mark: Mark) -> Markup {
    let percent = |share: f64| format!("{:.2}%", share * 100.0);
    let gap = u32::from(row > 2);
    let has_letter = part.to - part.from >= ROOM_FOR_LETTER && row >= ROW_FOR_LETTER;
    html! {
        rect.(mark.class) x=(percent(part.from)) y=(y) width=(percent(part.to - part.from)) height=(row - gap) {}
        @if has_letter {
            text.letter.(mark.class) x=(percent(f64::midpoint(part.from, part.to))) y=(y + row / 2 + 4) { (mark.letter) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(cpus: &[Option<u32>]) -> Vec<Point> {
        let last = (cpus.len() - 1) as f64;
        let points = cpus.iter().enumerate();
        let point = |(place, cpus): (usize, &Option<u32>)| Point {
            at: place as f64 / last,
            cpus: *cpus,
            speed: cpus.map(f64::from),
        };
        points.map(point).collect()
    }

    #[test]
    fn counts_are_steps_and_repeated_ones_take_no_room() {
        let mut points = points(&[Some(1), Some(1), Some(1), Some(2), Some(2)]);
        let height = |point: &Point| point.cpus.map(f64::from);
        assert_eq!(
            path(&points, height, Shape::Steps).line,
            "M0,1.0H750V2.0H1000V2.0"
        );
        points[4].cpus = None;
        let paths = path(&points, height, Shape::Steps);
        assert_eq!(paths.line, "M0,1.0H750V2.0H1000");
        assert_eq!(paths.area, "M0,100V1.0H750V2.0H1000V100Z");
    }

    #[test]
    fn a_speed_that_is_not_known_interrupts_its_line() {
        let points = points(&[Some(1), Some(2), None, Some(3), Some(1)]);
        let line = path(&points, |point| point.speed, Shape::Line).line;
        assert_eq!(line, "M0,1.0L250,2.0M750,3.0L1000,1.0");
    }
}
