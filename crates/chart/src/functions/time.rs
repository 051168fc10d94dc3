//! Go's `time.Time`, with the methods that templates can call.

use std::any::Any;
use std::rc::Rc;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use steersman_gotemplate::{CallError, IntType, Kind, Object, Signature, Type, Value};

use super::duration::{Duration, SECOND};
use super::layout;
use crate::gofmt;

const NAME: &str = "time.Time";
const DAY: i64 = 24 * 60 * 60;

/// A moment, and the zone to display it in.
#[derive(Clone, Debug)]
pub(super) struct Time {
    /// Unix seconds.
    seconds: i64,
    nanos: u32,
    zone: Zone,
}

/// A time zone. Local is always UTC, so that a render does not depend on the machine.
#[derive(Clone, Debug)]
pub(super) enum Zone {
    Utc,
    /// An offset in seconds with a name, which may be empty.
    Fixed(Rc<str>, i32),
    /// A zone of the IANA database.
    Named(TimeZone),
}

impl Zone {
    pub(super) fn fixed(name: &str, offset: i32) -> Self {
        Self::Fixed(name.into(), offset)
    }

    /// Loads a zone from the embedded database; UTC if it does not exist.
    pub(super) fn load(name: &str) -> Self {
        match name {
            "" | "UTC" | "Local" => Self::Utc,
            // Go looks the name up as a file, so it is case-sensitive.
            name => match TimeZone::get(name) {
                Ok(zone) if zone.iana_name() == Some(name) => Self::Named(zone),
                _ => Self::Utc,
            },
        }
    }

    /// Returns the abbreviation and the offset at a moment.
    fn at(&self, seconds: i64) -> (String, i32) {
        match self {
            Self::Utc => ("UTC".into(), 0),
            Self::Fixed(name, offset) => (name.to_string(), *offset),
            Self::Named(zone) => {
                let clamped = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
                let info = zone.to_offset_info(Timestamp::from_second(clamped).unwrap_or_default());
                (info.abbreviation().into(), info.offset().seconds())
            }
        }
    }

    fn is_dst_at(&self, seconds: i64) -> bool {
        match self {
            Self::Named(zone) => Timestamp::from_second(seconds)
                .is_ok_and(|timestamp| zone.to_offset_info(timestamp).dst().is_dst()),
            _ => false,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Utc => "UTC",
            Self::Fixed(name, _) => name,
            Self::Named(zone) => zone.iana_name().unwrap_or_default(),
        }
    }
}

/// A moment as calendar date and clock time.
pub(super) struct Civil {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    /// From 0 for Sunday.
    pub(super) weekday: i64,
    /// From 1.
    pub(super) year_day: i64,
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 to a date, counted in eras of 400 years that begin in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

impl Time {
    /// Go's zero time, the start of the year 1.
    pub(super) fn zero() -> Self {
        Self { seconds: -62_135_596_800, nanos: 0, zone: Zone::Utc }
    }

    pub(super) fn from_unix(seconds: i64) -> Self {
        Self { seconds, nanos: 0, zone: Zone::Utc }
    }

    pub(super) fn from_system(time: SystemTime) -> Self {
        let nanos = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => i128::try_from(since.as_nanos()).unwrap_or(i128::MAX),
            Err(before) => i128::try_from(before.duration().as_nanos()).map_or(i128::MIN, |nanos| -nanos),
        };
        Self {
            seconds: i64::try_from(nanos.div_euclid(i128::from(SECOND))).unwrap_or(0),
            nanos: u32::try_from(nanos.rem_euclid(i128::from(SECOND))).unwrap_or(0),
            zone: Zone::Utc,
        }
    }

    /// A time in UTC.
    pub(super) fn from_civil(year: i64, month: i64, day: i64, clock: (i64, i64, i64), nanos: u32) -> Self {
        let (hour, minute, second) = clock;
        let seconds = days_from_civil(year, month, day) * DAY + (hour * 60 + minute) * 60 + second;
        Self { seconds, nanos, zone: Zone::Utc }
    }

    pub(super) fn in_zone(&self, zone: Zone) -> Self {
        Self { zone, ..self.clone() }
    }

    pub(super) fn unix(&self) -> i64 {
        self.seconds
    }

    pub(super) fn nanos(&self) -> u32 {
        self.nanos
    }

    pub(super) fn add_seconds(&self, seconds: i64) -> Self {
        Self { seconds: self.seconds.saturating_add(seconds), ..self.clone() }
    }

    pub(super) fn add(&self, duration: Duration) -> Self {
        let nanos = i64::from(self.nanos) + duration.0.rem_euclid(SECOND);
        let seconds = duration.0.div_euclid(SECOND) + nanos / SECOND;
        Self { nanos: u32::try_from(nanos % SECOND).unwrap_or(0), ..self.add_seconds(seconds) }
    }

    /// Returns the time elapsed since `other`, limited to the range of a duration.
    pub(super) fn since(&self, other: &Self) -> Duration {
        let nanos = (i128::from(self.seconds) - i128::from(other.seconds)) * i128::from(SECOND)
            + i128::from(self.nanos)
            - i128::from(other.nanos);
        Duration(i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX }))
    }

    /// Returns date and clock time, the zone's abbreviation and its offset.
    pub(super) fn civil(&self) -> (Civil, String, i32) {
        let (name, offset) = self.zone.at(self.seconds);
        let local = self.seconds.saturating_add(i64::from(offset));
        let (days, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = civil_from_days(days);
        let civil = Civil {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            weekday: (days + 4).rem_euclid(7),
            year_day: days - days_from_civil(year, 1, 1) + 1,
        };
        (civil, name, offset)
    }

    fn add_date(&self, years: i64, months: i64, days: i64) -> Self {
        let (civil, _, offset) = self.civil();
        let month = civil.month - 1 + months.clamp(-1_000_000, 1_000_000);
        let year = civil.year + years.clamp(-1_000_000, 1_000_000) + month.div_euclid(12);
        let days = days_from_civil(year, month.rem_euclid(12) + 1, 1) + civil.day - 1
            + days.clamp(-1 << 40, 1 << 40);
        let clock = self.seconds.saturating_add(i64::from(offset)).rem_euclid(DAY);
        let local = days * DAY + clock;
        // The offset in effect there, found as in Go's `Date`: try the old offset, then the one it leads to.
        let guess = local - i64::from(self.zone.at(local - i64::from(offset)).1);
        let seconds = local - i64::from(self.zone.at(guess).1);
        Self { seconds, ..self.clone() }
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(Rc::new(self))
    }

    /// Returns the time that a value holds, if it is one.
    pub(super) fn of(value: &Value) -> Option<&Self> {
        match value {
            Value::Object(object) => object.as_any().downcast_ref(),
            _ => None,
        }
    }

    fn text(&self, layout: &str) -> String {
        String::from_utf8_lossy(&layout::format(self, layout.as_bytes())).into_owned()
    }

    /// Returns the name of the zone.
    pub(super) fn zone_name(&self) -> &str {
        self.zone.name()
    }

    /// Formats as RFC 3339, with fractional seconds if there are any.
    pub(super) fn rfc3339(&self) -> String {
        self.text(RFC3339_NANO)
    }

    /// Truncates or rounds to a multiple of a duration since the year 1.
    fn to_multiple(&self, unit: Duration, round: bool) -> Self {
        if unit.0 <= 0 {
            return self.clone();
        }
        let since_zero = (i128::from(self.seconds) - i128::from(Self::zero().seconds)) * i128::from(SECOND)
            + i128::from(self.nanos);
        let unit = i128::from(unit.0);
        let rest = since_zero.rem_euclid(unit);
        let change = if round && rest * 2 >= unit { unit - rest } else { -rest };
        self.add(Duration(i64::try_from(change).unwrap_or(0)))
    }
}

impl<'a> super::args::Param<'a> for &'a Time {
    const TYPE: Type = Type::Named(NAME);
    fn from_value(value: &'a Value) -> Option<Self> {
        Time::of(value)
    }
}

const RFC3339_NANO: &str = "2006-01-02T15:04:05.999999999Z07:00";

impl Object for Time {
    fn type_name(&self) -> &str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn method(&self, name: &str) -> Option<Signature> {
        let params: &[Type] = match name {
            "Day" | "Hour" | "IsDST" | "IsZero" | "Local" | "MarshalJSON" | "MarshalText" | "Minute"
            | "Month" | "Nanosecond" | "Second" | "String" | "UTC" | "Unix" | "UnixMicro" | "UnixMilli"
            | "UnixNano" | "Weekday" | "Year" | "YearDay" | "Location" => &[],
            "Format" => &[Type::String],
            "Add" | "Round" | "Truncate" => &[Type::Named("time.Duration")],
            "AddDate" => &[Type::Int, Type::Int, Type::Int],
            "After" | "Before" | "Compare" | "Equal" | "Sub" => &[Type::Named(NAME)],
            _ => return None,
        };
        Some(Signature { params, variadic: None })
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, CallError> {
        let civil = || self.civil().0;
        let nanos = || i128::from(self.seconds) * i128::from(SECOND) + i128::from(self.nanos);
        // As in Go, overflow wraps.
        let scaled = |unit: i128| Value::int64(nanos().div_euclid(unit) as i64);
        let other = || args.first().and_then(Self::of).ok_or_else(|| CallError::new("expected time.Time"));
        let order = || other().map(|other| (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos)));
        Ok(match name {
            "Year" => Value::int(civil().year),
            "Month" => Value::Object(Rc::new(Calendar::Month(civil().month))),
            "Day" => Value::int(civil().day),
            "YearDay" => Value::int(civil().year_day),
            "Weekday" => Value::Object(Rc::new(Calendar::Weekday(civil().weekday))),
            "Hour" => Value::int(civil().hour),
            "Minute" => Value::int(civil().minute),
            "Second" => Value::int(civil().second),
            "Nanosecond" => Value::int(i64::from(self.nanos)),
            "Unix" => Value::int64(self.seconds),
            "UnixMilli" => scaled(1_000_000),
            "UnixMicro" => scaled(1_000),
            "UnixNano" => scaled(1),
            "IsZero" => Value::Bool((self.seconds, self.nanos) == (Self::zero().seconds, 0)),
            "IsDST" => Value::Bool(self.zone.is_dst_at(self.seconds)),
            "UTC" | "Local" => self.in_zone(Zone::Utc).into_value(),
            "Location" => Value::string(self.zone_name()),
            "Format" => match args {
                [Value::String(layout)] => Value::string(layout::format(self, layout)),
                _ => return Err(CallError::new("expected string")),
            },
            "Add" => self.add(Duration::argument(args)?).into_value(),
            "Round" => self.to_multiple(Duration::argument(args)?, true).into_value(),
            "Truncate" => self.to_multiple(Duration::argument(args)?, false).into_value(),
            "AddDate" => match args {
                [Value::Int(years, _), Value::Int(months, _), Value::Int(days, _)] => {
                    self.add_date(*years, *months, *days).into_value()
                }
                _ => return Err(CallError::new("expected int")),
            },
            "After" => Value::Bool(order()?.is_gt()),
            "Before" => Value::Bool(order()?.is_lt()),
            "Equal" => Value::Bool(order()?.is_eq()),
            "Compare" => Value::int(order()? as i64),
            "Sub" => self.since(other()?).into_value(),
            "MarshalText" => Value::Bytes(self.rfc3339().into()),
            "MarshalJSON" => Value::Bytes(format!("\"{}\"", self.rfc3339()).into()),
            _ => Value::string(self.display()),
        })
    }

    fn display(&self) -> String {
        self.text("2006-01-02 15:04:05.999999999 -0700 MST")
    }

    fn is_stringer(&self) -> bool {
        true
    }

    fn go_string(&self) -> Option<String> {
        let at = self.civil().0;
        let zone = match self.zone {
            Zone::Utc => "time.UTC".to_owned(),
            _ => format!("time.Location({})", gofmt::quote(&self.zone_name().into())),
        };
        Some(format!(
            "time.Date({}, time.{}, {}, {}, {}, {}, {}, {zone})",
            at.year,
            layout::month_name(at.month),
            at.day,
            at.hour,
            at.minute,
            at.second,
            self.nanos
        ))
    }

    fn json(&self) -> Value {
        Value::string(self.rfc3339())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Go's `time.Month` or `time.Weekday`: a number that prints as a name.
enum Calendar {
    Month(i64),
    Weekday(i64),
}

impl Calendar {
    fn number(&self) -> i64 {
        match self {
            Self::Month(n) | Self::Weekday(n) => *n,
        }
    }
}

impl Object for Calendar {
    fn type_name(&self) -> &str {
        match self {
            Self::Month(_) => "time.Month",
            Self::Weekday(_) => "time.Weekday",
        }
    }

    fn kind(&self) -> Kind {
        Kind::Int(IntType::Int)
    }

    fn method(&self, name: &str) -> Option<Signature> {
        (name == "String").then_some(Signature { params: &[], variadic: None })
    }

    fn call(&self, _: &str, _: &[Value]) -> Result<Value, CallError> {
        Ok(Value::string(self.display()))
    }

    fn display(&self) -> String {
        match self {
            Self::Month(month) => layout::month_name(*month),
            Self::Weekday(weekday) => layout::weekday_name(*weekday),
        }
    }

    fn is_stringer(&self) -> bool {
        true
    }

    fn json(&self) -> Value {
        Value::int(self.number())
    }

    fn truth(&self) -> bool {
        self.number() != 0
    }

    fn underlying(&self) -> Option<Value> {
        Some(Value::int(self.number()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_as_in_go() {
        let time = Time::from_civil(2024, 2, 29, (13, 4, 5), 120_000_000);
        assert_eq!(time.display(), "2024-02-29 13:04:05.12 +0000 UTC");
        assert_eq!(time.text("Mon Jan _2 3:04PM 06 002 .000"), "Thu Feb 29 1:04PM 24 060 .120");
        let berlin = time.in_zone(Zone::load("Europe/Berlin"));
        assert_eq!(berlin.text(RFC3339_NANO), "2024-02-29T14:04:05.12+01:00");
        assert_eq!(berlin.text("MST -0700 Z07"), "CET +0100 +01");
        assert_eq!(Time::zero().display(), "0001-01-01 00:00:00 +0000 UTC");
        assert_eq!(time.add_date(1, 0, 0).text("2006-01-02"), "2025-03-01");
    }
}
