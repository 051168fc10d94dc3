//! YAML files as Helm reads them, into the types of this crate.

use serde::de::DeserializeOwned;

/// Reads a YAML document.
pub(crate) fn parse<T: DeserializeOwned>(data: &[u8]) -> Result<T, String> {
    steersman_yaml::from_slice_as(data).map_err(|error| error.to_string())
}

/// Reads JSON if it is that, which is much quicker for large indexes, or else YAML.
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
