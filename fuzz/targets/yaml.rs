//! YAML: reading never panics, and what is written reads back as what it was.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = steersman_yaml::parse_strict(data).map_err(|error| error.to_string());
    let _ = steersman_yaml::from_slice_f64(data);
    let _ = steersman_yaml::json::from_slice(data).map_err(|error| error.to_string());
    let Ok(value) = steersman_yaml::from_slice(data) else { return };
    let _ = steersman_yaml::to_string_pretty(&value);
    let Ok(text) = steersman_yaml::to_string(&value) else { return };
    if has_merge_key(&value) {
        return;
    }
    let again = steersman_yaml::from_slice(text.as_bytes());
    let again = again.unwrap_or_else(|error| panic!("{error}: {text:?} was written and cannot be read"));
    // Written once more it is the same text: numbers may change their type on the way (1e20 is written as a float and
    // read as a whole number), nothing else does.
    let twice = steersman_yaml::to_string(&again).unwrap_or_default();
    assert_eq!(text, twice, "written, read and written again");
});

/// Whether a key is `<<`: Go writes it without quotes, and reads it back as a merge.
fn has_merge_key(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Object(entries) => {
            entries.iter().any(|(key, value)| key == "<<" || has_merge_key(value))
        }
        serde_json::Value::Array(items) => items.iter().any(has_merge_key),
        _ => false,
    }
}
