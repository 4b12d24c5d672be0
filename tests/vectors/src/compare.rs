//! Compares what came out with what is expected.
//!
//! Objects are compared in the keys that are expected, arrays in length and order. A number that
//! is expected whole must be met exactly if a whole one came out; any other number within the
//! tolerance.

use serde_json::Value;

/// How far a number may be off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Tolerance {
    /// Share of the expected number.
    pub(super) relative: f64,
    /// In any case.
    pub(super) absolute: f64,
}

impl Tolerance {
    /// NuPoCo and Cooperative: 1e-6 of the number, and next to nothing around zero.
    pub(super) const MODEL: Self = Self {
        relative: 1e-6,
        absolute: 1e-12,
    };

    fn allows(self, expected: f64, got: f64) -> bool {
        (got - expected).abs() <= (self.relative * expected.abs()).max(self.absolute)
    }
}

/// Every place that differs, as `place: expected X, got Y`.
pub(super) fn differences(expected: &Value, got: &Value, tolerance: Tolerance) -> Vec<String> {
    let mut found = Vec::new();
    compare(expected, got, tolerance, "", &mut found);
    found
}

fn compare(expected: &Value, got: &Value, tolerance: Tolerance, at: &str, found: &mut Vec<String>) {
    let mut differ = |expected: &dyn std::fmt::Display, got: &dyn std::fmt::Display| {
        let place = if at.is_empty() { "result" } else { at };
        found.push(format!("{place}: expected {expected}, got {got}"));
    };
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            for (key, value) in expected {
                let inner = if at.is_empty() {
                    key.clone()
                } else {
                    format!("{at}.{key}")
                };
                let got = got.get(key).unwrap_or(&Value::Null);
                compare(value, got, tolerance, &inner, found);
            }
        }
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
                compare(expected, got, tolerance, &format!("{at}[{index}]"), found);
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let same = match (a.as_i64(), b.as_i64(), a.as_f64(), b.as_f64()) {
                (Some(a), Some(b), ..) => a == b,
                (_, _, Some(a), Some(b)) => tolerance.allows(a, b),
                _ => false,
            };
            if !same {
                differ(a, b);
            }
        }
        _ if expected == got => {}
        _ => differ(expected, got),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn same(expected: &Value, got: &Value) -> bool {
        differences(expected, got, Tolerance::MODEL).is_empty()
    }

    #[test]
    fn numbers_may_be_off_by_the_tolerance_and_counts_by_nothing() {
        assert!(same(&json!(3.0), &json!(3.000_002)));
        assert!(!same(&json!(3.0), &json!(3.000_004)));
        assert!(same(&json!(0.0), &json!(1e-13)));
        assert!(!same(&json!(0.0), &json!(1e-11)));
        assert!(!same(&json!(1_000_000_000), &json!(1_000_000_001)));
        assert!(same(&json!(4), &json!(4.0)));
    }

    #[test]
    fn only_what_is_expected_is_compared_and_all_of_it() {
        assert!(same(&json!({"a": 1}), &json!({"a": 1, "b": 2})));
        assert!(!same(&json!({"a": 1, "b": 2}), &json!({"a": 1})));
        assert!(same(&json!(null), &json!(null)));
        assert!(!same(&json!([1, 2]), &json!([1, 2, 3])));
    }

    #[test]
    fn every_place_is_named() {
        let found = differences(
            &json!({"a": [1, {"b": "x"}], "c": true}),
            &json!({"a": [2, {"b": "y"}], "c": true}),
            Tolerance::MODEL,
        );
        assert_eq!(
            found,
            [
                "a[0]: expected 1, got 2",
                "a[1].b: expected \"x\", got \"y\""
            ]
        );
    }

    #[test]
    fn not_a_number_equals_nothing() {
        // JSON has no NaN; it arrives as null.
        assert!(!same(&json!(1.0), &json!(f64::NAN)));
    }
}
