//! Timestamps and durations.

use std::cmp::Ordering;
use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use steersman_formats::parse_duration;
use steersman_gostd::strconv;

use super::{Call, Library, unfit};
use crate::ast::op;
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value, fail};

const NANOS: i64 = 1_000_000_000;

/// A timestamp from year 1 to 9999, with its original UTC offset. The offset does not affect equality.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    utc: DateTime,
    /// In seconds.
    offset: i64,
}

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.utc == other.utc
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.utc.cmp(&other.utc)
    }
}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self { utc: TimeZone::UTC.to_datetime(time), offset: 0 }
    }
}

impl fmt::Display for Time {
    /// Formats RFC 3339 with as many fractional digits as needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", shifted(self.utc, self.offset))?;
        let minutes = self.offset.abs() / 60;
        match self.offset {
            0 => f.write_str("Z"),
            offset => {
                let sign = if offset < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

/// Adds seconds to a civil time; unchanged on overflow.
fn shifted(time: DateTime, seconds: i64) -> DateTime {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(time)
}

impl Time {
    const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

    fn new(utc: DateTime, offset: i64) -> Option<Self> {
        (utc.year() >= 1).then_some(Self { utc, offset })
    }

    fn from_second(seconds: i64) -> Option<Self> {
        Self::new(Self::EPOCH.checked_add(SignedDuration::from_secs(seconds)).ok()?, 0)
    }

    /// Returns whole seconds since 1970.
    pub(super) fn second(self) -> i64 {
        self.since(Self { utc: Self::EPOCH, offset: 0 }).div_euclid(i128::from(NANOS)) as i64
    }

    fn since(self, other: Self) -> i128 {
        self.utc.duration_since(other.utc).as_nanos()
    }

    fn moved(self, nanos: i64) -> Option<Self> {
        Self::new(self.utc.checked_add(SignedDuration::from_nanos(nanos)).ok()?, self.offset)
    }
}

/// Parses RFC 3339 like Go.
/// One-digit hours, a comma before the fraction, and offsets up to a day are accepted.
fn parse_civil(text: &str) -> Option<(DateTime, i64)> {
    fn number(text: &mut &str, digits: usize) -> Option<i8> {
        let (number, rest) = text.split_at_checked(digits)?;
        *text = rest;
        number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())?
    }
    fn symbol(text: &mut &str, symbol: char) -> Option<()> {
        *text = text.strip_prefix(symbol)?;
        Some(())
    }
    let mut rest = text;
    let century = number(&mut rest, 2)?;
    let year = i16::from(century) * 100 + i16::from(number(&mut rest, 2)?);
    symbol(&mut rest, '-')?;
    let month = number(&mut rest, 2)?;
    symbol(&mut rest, '-')?;
    let day = number(&mut rest, 2)?;
    symbol(&mut rest, 'T')?;
    let hour_digits = if rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) { 2 } else { 1 };
    let hour = number(&mut rest, hour_digits)?;
    symbol(&mut rest, ':')?;
    let minute = number(&mut rest, 2)?;
    symbol(&mut rest, ':')?;
    let second = number(&mut rest, 2)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        let (digits, zone) = fraction.split_at(end);
        if digits.is_empty() {
            return None;
        }
        // Digits below a nanosecond are truncated.
        let digits: String = digits.chars().chain("00000000".chars()).take(9).collect();
        nanos = digits.parse().ok()?;
        rest = zone;
    }
    let offset = match rest.strip_prefix(['+', '-']) {
        None => {
            symbol(&mut rest, 'Z')?;
            0
        }
        Some(mut zone) => {
            let sign = if rest.starts_with('-') { -1 } else { 1 };
            let hours = number(&mut zone, 2).filter(|hours| *hours <= 24)?;
            symbol(&mut zone, ':')?;
            let minutes = number(&mut zone, 2).filter(|minutes| *minutes <= 60)?;
            rest = zone;
            sign * (i64::from(hours) * 60 + i64::from(minutes)) * 60
        }
    };
    let civil = DateTime::new(year, month, day, hour, minute, second, nanos).ok()?;
    rest.is_empty().then_some((civil, offset))
}

fn timestamp(text: &str) -> Result<Time, EvalError> {
    let Some((civil, offset)) = parse_civil(text) else {
        return fail("type conversion error from 'string' to 'google.protobuf.Timestamp'");
    };
    let utc = civil.checked_sub(SignedDuration::from_secs(offset)).ok();
    utc.and_then(|utc| Time::new(utc, offset)).ok_or_else(|| "timestamp overflow".into())
}

pub(super) fn add(library: &mut Library) {
    conversions(library);
    arithmetic(library);
    parts(library);
}

fn conversions(library: &mut Library) {
    use Type::{Int, String};
    let same: fn(&[Value]) -> Evaluated = |args| args.first().cloned().map_or_else(unfit, Ok);
    library.global("timestamp", [Type::Timestamp], Type::Timestamp, same);
    library.global("duration", [Type::Duration], Type::Duration, same);
    library.global("timestamp", [String], Type::Timestamp, |args| match args {
        [Value::String(text)] => Ok(Value::Timestamp(timestamp(text)?)),
        _ => unfit(),
    });
    library.global("timestamp", [Int], Type::Timestamp, |args| match args {
        [Value::Int(seconds)] => point(Time::from_second(*seconds)),
        _ => unfit(),
    });
    library.global("duration", [String], Type::Duration, |args| match args {
        [Value::String(text)] => match parse_duration(text) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => fail("type conversion error from 'string' to 'google.protobuf.Duration'"),
        },
        _ => unfit(),
    });
    // Declared in cel-go, but the conversion always fails.
    library.global("duration", [Int], Type::Duration, |_| {
        fail("type conversion error from 'int' to 'google.protobuf.Duration'")
    });
}

/// Formats seconds as string conversion does: with the precision of a double.
pub(crate) fn print_duration_seconds(nanos: i64) -> String {
    let seconds = (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / NANOS as f64;
    format!("{}s", strconv::format_float(seconds, b'f', None, false))
}

fn length(result: Option<i64>) -> Evaluated {
    result.map_or_else(|| fail("integer overflow"), |nanos| Ok(Value::Duration(nanos)))
}

fn point(result: Option<Time>) -> Evaluated {
    result.map_or_else(|| fail("timestamp overflow"), |time| Ok(Value::Timestamp(time)))
}

fn arithmetic(library: &mut Library) {
    use Type::{Duration, Timestamp};
    library.global(op::ADD, [Duration, Duration], Duration, |args| match args {
        [Value::Duration(a), Value::Duration(b)] => length(a.checked_add(*b)),
        _ => unfit(),
    });
    library.global(op::ADD, [Duration, Timestamp], Timestamp, |args| match args {
        [Value::Duration(nanos), Value::Timestamp(time)] => point(time.moved(*nanos)),
        _ => unfit(),
    });
    library.global(op::ADD, [Timestamp, Duration], Timestamp, |args| match args {
        [Value::Timestamp(time), Value::Duration(nanos)] => point(time.moved(*nanos)),
        _ => unfit(),
    });
    library.global(op::SUBTRACT, [Duration, Duration], Duration, |args| match args {
        [Value::Duration(a), Value::Duration(b)] => length(a.checked_sub(*b)),
        _ => unfit(),
    });
    library.global(op::SUBTRACT, [Timestamp, Duration], Timestamp, |args| match args {
        [Value::Timestamp(time), Value::Duration(nanos)] => point(time.moved(nanos.saturating_neg())),
        _ => unfit(),
    });
    library.global(op::SUBTRACT, [Timestamp, Timestamp], Duration, |args| match args {
        [Value::Timestamp(a), Value::Timestamp(b)] => match i64::try_from(a.since(*b)) {
            Ok(nanos) => Ok(Value::Duration(nanos)),
            Err(_) => fail("integer overflow"),
        },
        _ => unfit(),
    });
}

/// Returns the time in a zone: UTC, an offset such as `+02:00`, or a name such as `Europe/Oslo`.
fn zoned(time: Time, zone: &str) -> Result<DateTime, EvalError> {
    if matches!(zone, "" | "UTC") {
        return Ok(time.utc);
    }
    if let Some((hours, minutes)) = zone.split_once(':') {
        let number = |text: &str| strconv::atoi(text.as_bytes()).map_err(EvalError::from);
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let minutes = if zone.starts_with('-') { minutes.saturating_neg() } else { minutes };
        let seconds = hours.saturating_mul(60).saturating_add(minutes).saturating_mul(60);
        return Ok(shifted(time.utc, seconds));
    }
    let known = TimeZone::get(zone).map_err(|_| EvalError::from(format!("unknown time zone {zone}")))?;
    // At the end of the range, use the offset shortly before.
    let instant = Timestamp::from_second(time.second()).unwrap_or(Timestamp::MAX);
    Ok(shifted(time.utc, known.to_offset(instant).seconds().into()))
}

fn part(args: &[Value], read: fn(DateTime) -> i64) -> Evaluated {
    match args {
        [Value::Timestamp(time)] => Ok(Value::Int(read(time.utc))),
        [Value::Timestamp(time), Value::String(zone)] => Ok(Value::Int(read(zoned(*time, zone)?))),
        _ => unfit(),
    }
}

fn parts(library: &mut Library) {
    use Type::{Duration, Int, String, Timestamp};
    let calls: [(&'static str, Call); 10] = [
        ("getFullYear", |args| part(args, |t| t.year().into())),
        ("getMonth", |args| part(args, |t| i64::from(t.month()) - 1)),
        ("getDayOfYear", |args| part(args, |t| i64::from(t.day_of_year()) - 1)),
        ("getDayOfMonth", |args| part(args, |t| i64::from(t.day()) - 1)),
        ("getDate", |args| part(args, |t| t.day().into())),
        ("getDayOfWeek", |args| part(args, |t| t.weekday().to_sunday_zero_offset().into())),
        ("getHours", |args| part(args, |t| t.hour().into())),
        ("getMinutes", |args| part(args, |t| t.minute().into())),
        ("getSeconds", |args| part(args, |t| t.second().into())),
        ("getMilliseconds", |args| part(args, |t| t.millisecond().into())),
    ];
    for (name, call) in calls {
        library.member(name, [Timestamp], Int, call);
        library.member(name, [Timestamp, String], Int, call);
    }
    let lengths: [(&'static str, Call); 4] = [
        ("getHours", |args| whole(args, 3600 * NANOS)),
        ("getMinutes", |args| whole(args, 60 * NANOS)),
        ("getSeconds", |args| whole(args, NANOS)),
        ("getMilliseconds", |args| whole(args, NANOS / 1000)),
    ];
    for (name, call) in lengths {
        library.member(name, [Duration], Int, call);
    }
}

fn whole(args: &[Value], unit: i64) -> Evaluated {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / unit)),
        _ => unfit(),
    }
}
