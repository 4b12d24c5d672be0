//! Numbers and times as people read them.

/// Three significant digits, with a unit prefix from a thousand on: `0.85`, `36.2`, `1.23M`.
pub(crate) fn short(value: f64) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let mut scaled = value;
    for prefix in PREFIXES {
        // What would round to 1000 belongs to the next prefix.
        match scaled.abs() {
            0.0 => return "0".to_owned(),
            size if size < 0.001 => return format!("{value:.1e}"),
            size if size < 0.9995 => return format!("{scaled:.3}{prefix}"),
            size if size < 9.995 => return format!("{scaled:.2}{prefix}"),
            size if size < 99.95 => return format!("{scaled:.1}{prefix}"),
            size if size < 999.5 => return format!("{scaled:.0}{prefix}"),
            _ => scaled /= 1000.0,
        }
    }
    format!("{value:.1e}")
}

pub(crate) fn short_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), short)
}

/// A time in at most two units: `2.5 s`, `1 min 1 s`.
#[must_use]
pub fn span(ns: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let seconds = ns / SECOND;
    let tenths_ms = ns / 100_000 % 10;
    match seconds {
        0 if ns < 10_000_000 && tenths_ms > 0 => format!("{}.{tenths_ms} ms", ns / 1_000_000),
        0 => format!("{} ms", ns / 1_000_000),
        1..=9 => {
            let tenths = ns / (SECOND / 10) % 10;
            if tenths == 0 {
                format!("{seconds} s")
            } else {
                format!("{seconds}.{tenths} s")
            }
        }
        10..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A share: `97 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A count with its noun: `1 CPU`, `2 CPUs`.
pub fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.85, "0.850"),
            (0.9996, "1.00"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (36.24, "36.2"),
            (999.6, "1.00k"),
            (1_234_567.0, "1.23M"),
            (-0.5, "-0.500"),
            (0.000_12, "1.2e-4"),
            (1e30, "1.0e30"),
        ] {
            assert_eq!(short(value), expected);
        }
        assert_eq!(short(f64::INFINITY), "inf");
    }

    #[test]
    fn times_are_reported_in_two_units() {
        for (ns, expected) in [
            (450_000, "0.4 ms"),
            (7_000_000, "7 ms"),
            (7_250_000, "7.2 ms"),
            (20_000_000, "20 ms"),
            (1_000_000_000, "1 s"),
            (2_500_000_000, "2.5 s"),
            (61_000_000_000, "1 min 1 s"),
            (3 * 3_600_000_000_000, "3 h 0 min"),
            (50 * 3_600_000_000_000, "2 d 2 h"),
        ] {
            assert_eq!(span(ns), expected);
        }
    }
}
