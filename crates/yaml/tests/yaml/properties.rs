//! Properties of every value and every document.

use proptest::prelude::*;
use serde_json::Value;
use steersman_yaml::{
    from_slice, from_slice_f64, from_slice_strict, from_str, json, parse,
    testing::{Random, json_text, json_value, mutated, yaml_document},
    to_string, to_string_pretty,
};

/// Whether all strings of a value survive the way through JSON unchanged.
fn survives_json(value: &Value) -> bool {
    let text = serde_json::to_string(value).unwrap();
    !text.contains(|c| matches!(c, '\u{7F}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}'))
}

/// goyaml writes the key `<<` without quotes, but reads it as a merge key.
fn has_merge_key(value: &Value) -> bool {
    value.to_string().contains("\"<<\":")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_values_read_back(seed: u64) {
        let value = json_value(&mut Random::new(seed));
        if has_merge_key(&value) {
            return Ok(());
        }
        if survives_json(&value) {
            let written = to_string(&value).unwrap();
            let as_json = json::to_string(&value).unwrap();
            // Integral floats are read back as integers, either way.
            let read = from_str(&written).unwrap();
            prop_assert_eq!(&read, &from_str(&as_json).unwrap(), "{}", written);
            prop_assert_eq!(&to_string(&read).unwrap(), &written);
            prop_assert_eq!(json::to_string(&read).unwrap(), as_json);
        } else {
            let folds = value.to_string().contains('\u{85}');
            prop_assert!(folds || to_string(&value).is_err());
        }
        let pretty = to_string_pretty(&value).unwrap();
        // goyaml v3 writes tabs at the start of a literal's lines, which goyaml v2 rejects.
        prop_assert!(from_str(&pretty).is_ok() || pretty.contains('\t'), "{}", pretty);
    }

    #[test]
    fn json_reads_back(seed: u64) {
        let value = json::from_str(&json_value(&mut Random::new(seed)).to_string()).unwrap();
        for pretty in [false, true] {
            let options = json::Options { pretty, ..json::Options::default() };
            let written = json::to_string_with(&value, options).unwrap();
            prop_assert_eq!(json::from_str(&written).unwrap(), value.clone());
        }
        prop_assert_eq!(json::to_string(&value).unwrap(), json::to_string(&json::from_slice(&serde_json::to_vec(&value).unwrap()).unwrap()).unwrap());
    }

    #[test]
    fn nothing_panics(seed: u64) {
        let document = yaml_document(seed);
        for bytes in [document.as_bytes(), &mutated(seed, document.as_bytes()), &json_text(seed)] {
            let node = parse(bytes);
            let value = from_slice(bytes);
            prop_assert_eq!(node.is_ok(), value.is_ok());
            if from_slice_strict(bytes).is_ok() {
                prop_assert!(value.is_ok());
            }
            let _ = from_slice_f64(bytes);
            let _ = json::from_slice(bytes);
            if let Ok(value) = value {
                let _ = to_string(&value);
            }
        }
    }

    #[test]
    fn any_bytes_do(bytes: Vec<u8>) {
        let _ = parse(&bytes);
        let _ = json::from_slice(&bytes);
    }

    #[test]
    fn any_text_writes(text: String) {
        let _ = to_string(&text);
        let pretty = to_string_pretty(&text).unwrap();
        if !text.contains('\t') {
            prop_assert_eq!(from_str(&pretty).unwrap(), text);
        }
    }
}
