//! All that a render takes from outside the chart and its values.

use std::time::SystemTime;

use serde_json::Value as Json;

/// All that a render takes from outside the chart and its values: time, randomness, names and the cluster.
///
/// Two renders of one chart with the same values and environments that answer alike give the same bytes.
pub trait Environment {
    /// The time that `now` gives and certificates begin at.
    fn now(&mut self) -> SystemTime;

    /// Fills `bytes` from the random source behind `randAlphaNum`, `uuidv4`, keys and certificates.
    fn fill_random(&mut self, bytes: &mut [u8]);

    /// The addresses of a host, for `getHostByName`; empty if it has none.
    fn resolve_host(&mut self, name: &str) -> Vec<String>;

    /// The object, or with an empty name the list, that `lookup` finds in the cluster; `None` if it is not there.
    /// An error ends the render with its text.
    fn lookup(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Json>, String>;
}
