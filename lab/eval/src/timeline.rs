//! Plots of who held CPUs when: how many, stacked, or which ones, as NuPoCo's Figure 13 has it.

use super::run_spec::Held;
use mapper_model::{CpuId, CpuSet};
use mapper_report::html_report::axis::{Axis, number};
use mapper_report::html_report::escaped;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 84.0;
/// A plot of single CPUs is higher.
const HEIGHT_BY_CPU: f64 = 160.0;
const TOP: f64 = 18.0;

/// What a timeline shows.
pub(super) struct Timeline<'a> {
    /// The policy.
    pub(super) title: &'a str,
    pub(super) apps: &'a [String],
    pub(super) held: &'a [Held],
    /// CPUs of the machine.
    pub(super) cpus: u32,
    pub(super) until_s: f64,
}

impl Timeline<'_> {
    fn time(&self) -> Axis {
        Axis {
            from: 30.0,
            length: WIDTH - 54.0,
            most: self.until_s.max(0.1),
        }
    }

    /// Every change with the moment up to which it held.
    fn spans(&self) -> impl Iterator<Item = (f64, f64, &Held)> {
        let next_s = |at: usize| self.held.get(at + 1).map_or(self.until_s, |next| next.at_s);
        self.held
            .iter()
            .enumerate()
            .map(move |(at, held)| (held.at_s, next_s(at).min(self.until_s), held))
            .take_while(|(from_s, _, _)| *from_s <= self.until_s)
    }

    fn frame(&self, height: f64, inside: &str) -> String {
        let (time, bottom) = (self.time(), TOP + height);
        let up = Axis {
            from: 0.0,
            length: height,
            most: f64::from(self.cpus),
        };
        let mut svg = format!(
            "<svg class=\"timeline\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"CPUs over time: {}\">\
             <text class=\"label own\" x=\"{}\" y=\"11\">{}:",
            bottom + 18.0,
            escaped(self.title),
            time.from,
            escaped(self.title)
        );
        for (which, app) in self.apps.iter().enumerate() {
            let _ = write!(
                svg,
                "<tspan class=\"of s{which}\" dx=\"9\">■</tspan><tspan dx=\"3\">{}</tspan>",
                escaped(app)
            );
        }
        svg.push_str("</text>");
        svg.push_str(inside);
        for tick in up.ticks(4).into_iter().filter(|tick| *tick > 0.0) {
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                time.from - 5.0,
                bottom - up.at(tick) + 4.0,
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
}

/// How many CPUs every program held, stacked.
pub(super) fn stacked(timeline: &Timeline<'_>) -> String {
    let (time, bottom) = (timeline.time(), TOP + HEIGHT);
    let up = Axis {
        from: 0.0,
        length: HEIGHT,
        most: f64::from(timeline.cpus),
    };
    let mut areas = String::new();
    for (which, app) in timeline.apps.iter().enumerate() {
        let mut upper = Vec::new();
        let mut lower = Vec::new();
        for (from_s, to_s, held) in timeline.spans() {
            let under: u32 = held.cpus.iter().take(which).map(CpuSet::len).sum();
            let over = under + held.cpus.get(which).map_or(0, CpuSet::len);
            for at_s in [from_s, to_s] {
                let x = time.at(at_s);
                upper.push((x, bottom - up.at(f64::from(over))));
                lower.push((x, bottom - up.at(f64::from(under))));
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
            areas,
            "<path class=\"area s{which}\" d=\"{path}Z\"><title>{}</title></path>",
            escaped(app)
        );
    }
    timeline.frame(HEIGHT, &areas)
}

/// Whose a CPU is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Program(usize),
    Several,
}

/// Which CPUs every program held: a row for each CPU, number 0 at the bottom.
pub(super) fn by_cpu(timeline: &Timeline<'_>) -> String {
    let (time, bottom) = (timeline.time(), TOP + HEIGHT_BY_CPU);
    let row = HEIGHT_BY_CPU / f64::from(timeline.cpus.max(1));
    // A path for each owner, made of one rectangle for each time that he held a CPU.
    let mut paths: BTreeMap<Owner, String> = BTreeMap::new();
    for cpu in 0..timeline.cpus {
        let mut enter = |owner: Option<Owner>, from_s: f64, to_s: f64| {
            let Some(owner) = owner.filter(|_| to_s > from_s) else {
                return;
            };
            let (x, end) = (time.at(from_s), time.at(to_s));
            let y = bottom - row * f64::from(cpu + 1);
            let _ = write!(
                paths.entry(owner).or_default(),
                "M{x:.1} {y:.2}H{end:.1}v{row:.2}H{x:.1}z"
            );
        };
        let (mut owner, mut since_s, mut until_s) = (None, 0.0, 0.0);
        for (from_s, to_s, held) in timeline.spans() {
            let mut holders = (0..held.cpus.len()).filter(|&at| held.cpus[at].contains(CpuId(cpu)));
            let now = match (holders.next(), holders.next()) {
                (None, _) => None,
                (Some(at), None) => Some(Owner::Program(at)),
                (Some(_), Some(_)) => Some(Owner::Several),
            };
            if now != owner {
                enter(owner, since_s, until_s);
                (owner, since_s) = (now, from_s);
            }
            until_s = to_s;
        }
        enter(owner, since_s, until_s);
    }
    let mut areas = String::new();
    for (owner, path) in &paths {
        let (class, told) = match owner {
            Owner::Program(at) => (
                format!("area s{at}"),
                timeline.apps.get(*at).map_or("", String::as_str),
            ),
            Owner::Several => ("several".to_owned(), "shared"),
        };
        let _ = write!(
            areas,
            "<path class=\"{class}\" d=\"{path}\"><title>{}</title></path>",
            escaped(told)
        );
    }
    timeline.frame(HEIGHT_BY_CPU, &areas)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(at_s: f64, cpus: [&str; 2]) -> Held {
        Held {
            at_s,
            cpus: cpus.iter().map(|list| list.parse().unwrap()).collect(),
        }
    }

    fn shown(draw: fn(&Timeline<'_>) -> String) -> String {
        let svg = draw(&Timeline {
            title: "t",
            apps: &["a".to_owned(), "b<".to_owned()],
            held: &[held(0.0, ["0-3", "4-7"]), held(5.0, ["0-5", "5-7"])],
            cpus: 8,
            until_s: 10.0,
        });
        assert!(svg.contains("b&lt;") && roxmltree::Document::parse(&svg).is_ok());
        svg
    }

    #[test]
    fn stacked_there_is_an_area_for_every_program() {
        assert_eq!(shown(stacked).matches("<path").count(), 2);
    }

    #[test]
    fn by_cpu_each_keeps_one_rectangle_until_its_owner_changes_and_several_owners_show() {
        let svg = shown(by_cpu);
        let rectangles = |class: &str| {
            let path = svg
                .split("<path")
                .find(|part| part.contains(class))
                .unwrap();
            path.matches('M').count()
        };
        assert_eq!(rectangles("area s0"), 5, "CPUs 0 to 3, and 4 from 5 s");
        assert_eq!(
            rectangles("area s1"),
            4,
            "CPUs 6 and 7, and 4 and 5 up to 5 s"
        );
        assert_eq!(rectangles("several"), 1, "CPU 5 from 5 s");
    }
}
