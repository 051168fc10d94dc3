//! YAML files, parsed and written as Helm does.

use serde::de::DeserializeOwned;

/// Parses a YAML document.
pub(crate) fn parse<T: DeserializeOwned>(data: &[u8]) -> Result<T, String> {
    steersman_yaml::from_slice_as(data).map_err(|error| error.to_string())
}

/// Parses JSON, which is much faster for large indexes, or else YAML.
pub(crate) fn parse_or_json<T: DeserializeOwned>(data: &[u8]) -> Result<T, String> {
    if data.trim_ascii_start().starts_with(b"{")
        && let Ok(parsed) = serde_json::from_slice(data)
    {
        return Ok(parsed);
    }
    parse(data)
}

/// Writes a YAML document as Helm does.
pub(crate) fn to_string(value: &serde_json::Value) -> String {
    steersman_yaml::to_string(value).unwrap_or_default()
}
