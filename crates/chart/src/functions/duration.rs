//! Go's `time.Duration`: nanoseconds, read and written as `1h30m`.

use std::any::Any;

use steersman_gostd::time;
pub(super) use steersman_gostd::time::SECOND;
use steersman_gotemplate::{CallError, IntType, Kind, Object, Signature, Type, Value};

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Duration(pub(super) i64);

impl Duration {
    /// `time.ParseDuration`; the error is Go's message.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        time::parse_duration(text).map(Self).map_err(|error| error.to_string())
    }

    /// Rounds to a multiple of `unit`, halves away from zero.
    pub(super) fn round(self, unit: Self) -> Self {
        if unit.0 <= 0 {
            return self;
        }
        let rest = (self.0 % unit.0).abs();
        let away = i128::from(rest) * 2 >= i128::from(unit.0);
        let toward_zero = self.0 - self.0 % unit.0;
        Self(match (away, self.0 < 0) {
            (false, _) => toward_zero,
            (true, true) => toward_zero.checked_sub(unit.0).unwrap_or(i64::MIN),
            (true, false) => toward_zero.checked_add(unit.0).unwrap_or(i64::MAX),
        })
    }

    fn truncate(self, unit: Self) -> Self {
        if unit.0 <= 0 { self } else { Self(self.0 - self.0 % unit.0) }
    }

    /// Converts to a value whose hours and minutes templates can read.
    pub(super) fn into_value(self) -> Value {
        Value::Object(std::rc::Rc::new(self))
    }
}

impl std::fmt::Display for Duration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&time::format_duration(self.0))
    }
}

const NAME: &str = "time.Duration";

impl Object for Duration {
    fn type_name(&self) -> &str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Int(IntType::Int64)
    }

    fn method(&self, name: &str) -> Option<Signature> {
        match name {
            "Hours" | "Minutes" | "Seconds" | "Milliseconds" | "Microseconds" | "Nanoseconds" | "String"
            | "Abs" => Some(Signature { params: &[], variadic: None }),
            "Round" | "Truncate" => Some(Signature { params: &[Type::Named(NAME)], variadic: None }),
            _ => None,
        }
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, CallError> {
        // Whole units and the remainder are converted separately, so that large durations keep their nanoseconds.
        let float = |unit: i64| Value::float((self.0 / unit) as f64 + (self.0 % unit) as f64 / unit as f64);
        Ok(match name {
            "Hours" => float(time::HOUR),
            "Minutes" => float(time::MINUTE),
            "Seconds" => float(SECOND),
            "Milliseconds" => Value::int64(self.0 / 1_000_000),
            "Microseconds" => Value::int64(self.0 / 1_000),
            "Nanoseconds" => Value::int64(self.0),
            "Abs" => Self(self.0.checked_abs().unwrap_or(i64::MAX)).into_value(),
            "Round" => self.round(Self::argument(args)?).into_value(),
            "Truncate" => self.truncate(Self::argument(args)?).into_value(),
            _ => Value::string(self.to_string()),
        })
    }

    fn display(&self) -> String {
        self.to_string()
    }

    fn is_stringer(&self) -> bool {
        true
    }

    fn json(&self) -> Value {
        Value::int64(self.0)
    }

    fn truth(&self) -> bool {
        self.0 != 0
    }

    fn underlying(&self) -> Option<Value> {
        Some(Value::int64(self.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Duration {
    /// Returns the duration passed to a method, which may be an integer constant.
    pub(super) fn argument(args: &[Value]) -> Result<Self, CallError> {
        match args.first() {
            Some(Value::Int(n, _)) => Some(Self(*n)),
            Some(Value::Object(object)) => object.as_any().downcast_ref::<Self>().copied(),
            _ => None,
        }
        .ok_or_else(|| CallError::new("expected time.Duration"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_write_as_in_go() {
        for (text, nanos, canonical) in [
            ("1h15m30.918s", 4_530_918_000_000, "1h15m30.918s"),
            ("-1.5h", -5_400_000_000_000, "-1h30m0s"),
            ("100ms", 100_000_000, "100ms"),
            ("1500us", 1_500_000, "1.5ms"),
            ("3µs", 3_000, "3µs"),
            ("0", 0, "0s"),
            ("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            let duration = Duration::parse(text.as_bytes()).unwrap();
            assert_eq!((duration.0, duration.to_string().as_str()), (nanos, canonical), "{text}");
        }
        let error = |text: &str| Duration::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error("1"), r#"time: missing unit in duration "1""#);
        assert_eq!(error("1d"), r#"time: unknown unit "d" in duration "1d""#);
        assert_eq!(error("é"), r#"time: invalid duration "\xc3\xa9""#);
    }
}
