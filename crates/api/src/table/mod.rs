//! Tables: printer columns and cells.

mod path;

use serde_json::{Value, json};

pub use path::Path;

/// A cell: a string, a number or a boolean.
pub type Cell = Value;

/// A column of a Table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// OpenAPI type of the cells.
    pub kind: String,
    /// OpenAPI format of the cells, or empty.
    pub format: String,
    /// Description, or empty.
    pub description: String,
    /// 0 for columns that are always shown; others are shown with `-o wide`.
    pub priority: i64,
}

impl Column {
    /// A column without a description.
    #[must_use]
    pub fn new(name: &str, kind: &str, format: &str, priority: i64) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            format: format.into(),
            description: String::new(),
            priority,
        }
    }

    /// Returns the entry of `columnDefinitions`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// Formats an age like kubectl: in at most two units, more coarsely the longer it is.
pub fn age(now: jiff::Timestamp, then: &str) -> String {
    match then.parse::<jiff::Timestamp>() {
        Ok(then) => duration(now.as_second() - then.as_second()),
        Err(_) => "<unknown>".into(),
    }
}

/// Formats a number of seconds like kubectl.
pub fn duration(seconds: i64) -> String {
    let (minute, hour, day, year) = (60, 3600, 86_400, 365 * 86_400);
    match seconds {
        s if s < -1 => "<invalid>".into(),
        s if s < 0 => "0s".into(),
        s if s < 2 * minute => format!("{s}s"),
        s if s < 10 * minute => two(s / minute, "m", s % minute, "s"),
        s if s < 3 * hour => format!("{}m", s / minute),
        s if s < 8 * hour => two(s / hour, "h", s % hour / minute, "m"),
        s if s < 2 * day => format!("{}h", s / hour),
        s if s < 8 * day => two(s / day, "d", s % day / hour, "h"),
        s if s < 2 * year => format!("{}d", s / day),
        s if s < 8 * year => two(s / year, "y", s % year / day, "d"),
        s => format!("{}y", s / year),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_for_people() {
        let hour = 3600;
        for (seconds, text) in [
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (601, "10m"),
            (3 * hour, "3h"),
            (3 * hour + 61, "3h1m"),
            (9 * hour, "9h"),
            (50 * hour, "2d2h"),
            (9 * 24 * hour, "9d"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
