//! The published schema of `mapperctl status --json`: it is current, and what is printed is as it says.

#![allow(clippy::unwrap_used)] // a test that cannot go on shall panic

#[allow(dead_code)]
mod samples;

use mapper_control::PROTOCOL;
use mapper_control::schema::{AdoptTarget, Status, status_schema};
use serde_json::{Value, json};
use std::path::Path;

fn published() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/status.schema.json")
}

/// Whether a value is as a schema says, by the keywords that ours uses; another one is an error.
fn fits(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let fail = |why: String| Err(format!("{why}: {value}"));
    let Some(schema) = schema.as_object() else {
        return match schema {
            Value::Bool(true) => Ok(()),
            other => fail(format!("nothing fits {other}")),
        };
    };
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "$schema" | "$id" | "title" | "description" | "default" | "format" | "$defs" => {}
            "$ref" => {
                let place = rule.as_str().unwrap().strip_prefix('#').unwrap();
                fits(root, root.pointer(place).unwrap(), value)?;
            }
            "type" => {
                let is = |name: &str| match name {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "number" => value.is_number(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    other => panic!("type {other}"),
                };
                let one_of = |names: &Vec<Value>| names.iter().any(|n| is(n.as_str().unwrap()));
                if !rule
                    .as_str()
                    .map_or_else(|| one_of(rule.as_array().unwrap()), is)
                {
                    return fail(format!("not of type {rule}"));
                }
            }
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(member) = value.get(name) {
                        fits(root, schema, member).map_err(|why| format!("{name}: {why}"))?;
                    }
                }
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        return fail(format!("no member {name}"));
                    }
                }
            }
            "additionalProperties" => {
                assert_eq!(*rule, json!(false));
                let known = schema.get("properties").unwrap().as_object().unwrap();
                if let Some(name) = value
                    .as_object()
                    .and_then(|object| object.keys().find(|name| !known.contains_key(*name)))
                {
                    return fail(format!("member {name} is too much"));
                }
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    fits(root, rule, item)?;
                }
            }
            "enum" => {
                if !rule.as_array().unwrap().contains(value) {
                    return fail(format!("none of {rule}"));
                }
            }
            "const" => {
                if rule != value {
                    return fail(format!("not {rule}"));
                }
            }
            "minimum" => {
                if value
                    .as_f64()
                    .is_some_and(|number| number < rule.as_f64().unwrap())
                {
                    return fail(format!("below {rule}"));
                }
            }
            "maximum" => {
                if value
                    .as_f64()
                    .is_some_and(|number| number > rule.as_f64().unwrap())
                {
                    return fail(format!("above {rule}"));
                }
            }
            "anyOf" | "oneOf" => {
                let fitting = rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|schema| fits(root, schema, value).is_ok())
                    .count();
                if fitting == 0 || (keyword == "oneOf" && fitting > 1) {
                    return fail(format!("fits {fitting} of {keyword}"));
                }
            }
            other => panic!("keyword {other} is not looked at by this test"),
        }
    }
    Ok(())
}

fn printed(status: &Status) -> Value {
    serde_json::to_value(status).unwrap()
}

#[test]
fn the_published_schema_is_current() {
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(published(), status_schema()).unwrap();
    }
    assert!(
        std::fs::read_to_string(published()).unwrap_or_default() == status_schema(),
        "deploy/status.schema.json is not current: UPDATE_SCHEMA=1 cargo test -p mapperctl schema"
    );
}

#[test]
fn what_is_printed_is_as_the_schema_says() {
    let schema: Value = serde_json::from_str(&status_schema()).unwrap();
    assert_eq!(schema["$id"], format!("urn:mapper:status:{PROTOCOL}"));
    let mut adopted = samples::status();
    adopted.apps[0].adopted = Some(AdoptTarget::Unit("a.service".into()));
    adopted.apps[1].adopted = Some(AdoptTarget::Pid(7));
    for status in [samples::idle(), samples::status(), adopted] {
        fits(&schema, &schema, &printed(&status)).unwrap();
    }
}

#[test]
fn what_is_missing_or_of_another_type_does_not_fit() {
    let schema: Value = serde_json::from_str(&status_schema()).unwrap();
    let right = printed(&samples::status());
    for (place, wrong) in [
        ("/protocol", json!(PROTOCOL + 1)),
        ("/daemon/uptime_ns", json!("long")),
        ("/apps/0/cpus", json!([0, 1])),
        ("/apps/0/bottleneck", json!("disk")),
        ("/topology/layout/0/cores", json!("0-3")),
    ] {
        let mut status = right.clone();
        *status.pointer_mut(place).unwrap() = wrong;
        assert!(fits(&schema, &schema, &status).is_err(), "{place}");
    }
    let mut without = right;
    without["daemon"].as_object_mut().unwrap().remove("pid");
    assert!(fits(&schema, &schema, &without).is_err());
}
