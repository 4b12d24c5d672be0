//! The results that `lab/eval/data` keeps of the current version of the protocol: means of the suites, how the own
//! policy stands, published numbers and checks, without single mixes and programs. Numbers are
//! rounded to four decimals, so that two versions can be compared line by line.

use super::evaluation::Evaluation;
use anyhow::Context as _;
use serde_json::{Map, Value, json};

pub(super) fn summary(evaluation: &Evaluation<'_>) -> anyhow::Result<String> {
    let overall = evaluation.suites.iter();
    let overall = overall.map(|table| (table.suite.name.clone(), json!(table.overall)));
    let targets = evaluation.targets.iter().map(|line| {
        let mut line = json!(line);
        for key in ["source", "cause"] {
            let _ = line.as_object_mut().and_then(|line| line.remove(key));
        }
        line
    });
    let mut kept = json!({
        "protocol_version": evaluation.protocol.version,
        "protocol_sha256": evaluation.protocol_sha256,
        "note": "In the model. Written by cargo xtask eval --summary FILE with the suites of overall and the changes of settings.",
        "settings": evaluation.settings,
        "left_out": evaluation.left_out,
        "overall": overall.collect::<Map<String, Value>>(),
        "nucore_table1": evaluation.nucore_table1,
        "standings": evaluation.standings,
        "targets": targets.collect::<Vec<_>>(),
        "validity": evaluation.validity,
    });
    round(&mut kept);
    Ok(serde_json::to_string_pretty(&kept).context("write the summary as JSON")? + "\n")
}

fn round(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(round),
        Value::Object(object) => object.values_mut().for_each(round),
        Value::Number(number) if number.is_f64() => {
            let rounded = number.as_f64().map(|x| (x * 1e4).round() / 1e4);
            if let Some(rounded) = rounded.and_then(serde_json::Number::from_f64) {
                *number = rounded;
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_have_four_decimals_and_counts_stay_counts() {
        let mut value = json!({ "a": [1.234_56, 7], "b": { "c": 0.999_96 } });
        round(&mut value);
        assert_eq!(value, json!({ "a": [1.2346, 7], "b": { "c": 1.0 } }));
    }
}
