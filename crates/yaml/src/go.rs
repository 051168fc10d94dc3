//! Go's `strconv` and `encoding/json`, in the forms that YAML needs.

use steersman_gostd::{json, strconv};

/// `strconv.FormatFloat(value, 'g', -1, 64)`.
pub(crate) fn float_general(value: f64) -> String {
    strconv::format_float(value, b'g', None, false)
}

/// `strconv.FormatFloat(value, 'g', -1, 32)`, by which sigs.k8s.io/yaml converts numbers to strings.
pub(crate) fn float_general_32(value: f64) -> String {
    strconv::format_float(f64::from(value as f32), b'g', None, true)
}

/// Formats a number as encoding/json does; the error is its name if it has no JSON form.
pub(crate) fn float_json(value: f64) -> Result<String, String> {
    json::format_float(value, false).ok_or_else(|| float_general(value))
}

/// As [`float_json`], with the fewest digits that identify an `f32`.
pub(crate) fn float_json_32(value: f32) -> Result<String, String> {
    json::format_float(value.into(), true).ok_or_else(|| float_general(value.into()))
}

/// `strconv.Quote`.
pub(crate) fn quote(text: &str) -> String {
    strconv::quote(text)
}

/// `strconv.ParseInt(text, 0, 64)`.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    strconv::parse_int(text.as_bytes(), 0, 64).ok()
}

/// `strconv.ParseUint(text, 0, 64)`.
pub(crate) fn parse_uint(text: &str) -> Option<u64> {
    strconv::parse_uint(text.as_bytes(), 0, 64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_go_prints_them() {
        for (value, general, json) in [
            (100_000.0, "100000", "100000"),
            (1_000_000.0, "1e+06", "1000000"),
            (0.00001, "1e-05", "0.00001"),
            (1e-7, "1e-07", "1e-7"),
        ] {
            assert_eq!(float_general(value), general);
            assert_eq!(float_json(value).as_deref(), Ok(json));
        }
        assert_eq!(float_json(f64::INFINITY), Err("+Inf".to_owned()));
        assert_eq!(float_json_32(f32::NAN), Err("NaN".to_owned()));
        assert_eq!(float_general_32(1.1), "1.1");
        assert_eq!(float_general_32(1e300), "+Inf");
        assert_eq!(float_general_32(16_777_217.0), "1.6777216e+07");
    }
}
