//! The table is sound: defaults are values of their keys, and the rest of every feature.

use super::{accepted, codes};
use crate::config::{Check, Config, KEYS, Kind, Support, Value, list_keys, parse};
use serde_json::json;
use std::collections::BTreeSet;

/// `key = default` in its section.
fn setting(section: &str, name: &str, value: &Value) -> String {
    format!("[{section}]\n{name} = {value}\n")
}

#[test]
fn paths_are_unique() {
    let paths: BTreeSet<_> = KEYS.iter().map(|key| key.path).collect();
    assert_eq!(paths.len(), KEYS.len());
}

#[test]
fn every_default_may_be_written() {
    for key in KEYS {
        let default = (key.default)();
        if default != Value::None {
            let config = accepted(&setting(key.section, key.name, &default));
            assert_eq!(*config.value(key.path), default, "{}", key.path);
            assert_eq!(config.span(key.path).unwrap().line, 2, "{}", key.path);
        } else {
            assert!(key.optional, "{} has no default", key.path);
        }
    }
}

#[test]
fn an_empty_file_is_the_defaults() {
    assert_eq!(accepted(""), Config::default());
    assert_eq!(Config::default().training.steps, 10_000);
    assert_eq!(
        Config::default().activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns,
        ["moe.router.gate"]
    );
}

/// A value of the key that is not its default.
fn other_value(kind: Kind, check: Check, default: &Value) -> Value {
    match (kind, check) {
        (Kind::Bool, _) => Value::from(*default != Value::from(true)),
        (Kind::Int | Kind::Count, _) => Value::from(7),
        (Kind::Float, _) => Value::from(0.25),
        (Kind::Choice(words), _) | (Kind::Str, Check::OneOf(words) | Check::NameOf(words)) => {
            Value::from(*words.iter().find(|w| Value::from(**w) != *default).unwrap_or(&words[0]))
        }
        (Kind::Str, _) => Value::from("5"),
        (Kind::List(Kind::Str), Check::OneOf(words)) => Value::from([words[0]]),
        (Kind::List(Kind::Str), _) => Value::from(["a"]),
        (Kind::List(Kind::List(_)), _) => Value::from([["a"], ["b"]]),
        (Kind::List(_), _) => Value::from([3]),
    }
}

#[test]
fn support_decides_what_another_value_gives() {
    for key in KEYS.iter().filter(|key| key.path != "job.config_file") {
        let value = other_value(key.kind, key.check, &(key.default)());
        let (found, refused) = match parse("t.toml", &setting(key.section, key.name, &value), &[]) {
            Ok((config, warnings)) => {
                assert_eq!(*config.value(key.path), value);
                (codes(&warnings), false)
            }
            Err(diags) => (codes(&diags), true),
        };
        match key.support {
            Support::Refused(..) => assert!(refused && found == ["T0409"], "{}: {found:?}", key.path),
            Support::Observes(..) => assert!(!refused && found == ["T0410"], "{}: {found:?}", key.path),
            _ if key.path == "training.steps" || key.path == "lr_scheduler.total_steps" => {
                assert!(found.iter().all(|code| *code == "T0411"));
            }
            _ if key.path.starts_with("titan.ascend_") => assert_eq!(found, ["T0414"], "{}", key.path),
            _ if key.path == "training.dataset" => assert_eq!(found, ["T0413"]),
            _ => assert!(!refused && found.is_empty(), "{}: {found:?}", key.path),
        }
    }
}

#[test]
fn refused_words_are_refused() {
    for key in KEYS {
        if let Support::RefusedValue(word, feature, _) = key.support {
            let text = setting(key.section, key.name, &Value::from(word));
            let diags = super::refused(&text);
            assert_eq!(codes(&diags), ["T0409"]);
            assert!(diags.0[0].message.contains(feature));
        }
    }
}

#[test]
fn the_dump_holds_every_key_in_the_order_of_the_table() {
    let config = accepted(
        "[training]\nseq_len = 128\nmax_norm = inf\n[titan.model_args]\nvocab_size = 99\ndim = 64\n[quantize]\nlinear.mx.recipe_name = 'r'",
    );
    let text = serde_json::to_string(&config).unwrap();
    let dump: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in KEYS {
        let pointer = format!("/{}", key.path.replace('.', "/"));
        assert!(dump.pointer(&pointer).is_some(), "{} is missing", key.path);
    }
    assert_eq!(dump["training"]["seq_len"], json!(128));
    assert_eq!(dump["training"]["max_norm"], json!("inf"));
    assert_eq!(dump["training"]["dataloader"]["pin_memory"], json!(false));
    assert_eq!(dump["titan"]["model_args"], json!({"dim": 64, "vocab_size": 99}));
    assert_eq!(dump["quantize"]["linear"]["mx"]["recipe_name"], json!("r"));
    let places: Vec<_> =
        ["\"job\":", "\"profiling\":", "\"lr_scheduler\":", "\"quantize\":", "\"titan\":", "\"model_args\":"]
            .map(|name| text.find(name).unwrap())
            .to_vec();
    assert!(places.is_sorted());
}

#[test]
fn the_listing_shows_a_section() {
    insta::assert_snapshot!(list_keys("lr_scheduler."));
    insta::assert_snapshot!(list_keys("context_parallel"));
    assert_eq!(list_keys("").lines().filter(|line| line.starts_with("  ")).count(), KEYS.len());
}

#[test]
fn the_targets_are_those_of_the_device_table() {
    let key = KEYS.iter().find(|key| key.path == "titan.target").unwrap();
    let Check::NameOf(names) = key.check else { panic!("{:?}", key.check) };
    let known: Vec<&str> = ["cpu"].into_iter().chain(crate::target::names()).collect();
    assert_eq!(names, known);
}
