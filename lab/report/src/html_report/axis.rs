//! The axes of the plots in reports, drawn as SVG with the classes of the page's style sheet.

use std::fmt::Write as _;

/// Where a value lies along an axis of the plot.
#[derive(Clone, Copy)]
pub struct Axis {
    /// Where it begins.
    pub from: f64,
    /// How long it is.
    pub length: f64,
    /// The value at its end.
    pub most: f64,
}

impl Axis {
    /// Where a value lies.
    pub fn at(self, value: f64) -> f64 {
        self.from + self.length * (value / self.most).clamp(0.0, 1.0)
    }

    /// Round values that divide the axis into about `parts` parts.
    pub fn ticks(self, parts: u32) -> Vec<f64> {
        let rough = self.most / f64::from(parts.max(1));
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|digit| digit * power)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        (0_u32..)
            .map(|n| f64::from(n) * step)
            .take_while(|tick| *tick <= self.most * 1.0001)
            .take(50)
            .collect()
    }

    /// Draws an upright line for each tick of a level axis, from `top` to `bottom`, with its number below.
    pub fn grid(self, svg: &mut String, parts: u32, top: f64, bottom: f64) {
        for tick in self.ticks(parts) {
            let x = self.at(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom:.1}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 15.0,
                number(tick)
            );
        }
    }
}

/// A tick value without needless digits.
pub fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let ticks = |most: f64| {
            Axis {
                from: 0.0,
                length: 100.0,
                most,
            }
            .ticks(5)
        };
        assert_eq!(ticks(4.16), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ticks(20.0), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(ticks(2.0).len(), 5);
    }

    #[test]
    fn a_grid_has_a_line_and_a_number_for_each_tick() {
        let axis = Axis {
            from: 10.0,
            length: 100.0,
            most: 2.0,
        };
        let mut svg = String::new();
        axis.grid(&mut svg, 4, 5.0, 60.0);
        assert_eq!(svg.matches("<line class=\"grid\"").count(), 5);
        assert!(
            svg.contains("x1=\"60.0\"") && svg.contains(">1.5</text>"),
            "{svg}"
        );
    }
}
