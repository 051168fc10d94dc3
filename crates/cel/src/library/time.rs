//! Points and lengths of time.

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};
use steersman_formats::{parse_duration, parse_timestamp};

use super::{Call, Library, unfit};
use crate::ast::op;
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value, fail};

const NANOS: i64 = 1_000_000_000;

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
        [Value::String(text)] => match parse_timestamp(text) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => fail("type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        },
        _ => unfit(),
    });
    library.global("timestamp", [Int], Type::Timestamp, |args| match args {
        [Value::Int(seconds)] => match Timestamp::from_second(*seconds) {
            Ok(time) => Ok(Value::Timestamp(time)),
            Err(_) => fail("timestamp overflow"),
        },
        _ => unfit(),
    });
    library.global("duration", [String], Type::Duration, |args| match args {
        [Value::String(text)] => match parse_duration(text) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => fail("type conversion error from 'string' to 'google.protobuf.Duration'"),
        },
        _ => unfit(),
    });
    library.global("duration", [Int], Type::Duration, |args| match args {
        [Value::Int(nanos)] => Ok(Value::Duration(*nanos)),
        _ => unfit(),
    });
}

/// RFC 3339 with as many digits of the second as are needed.
pub(crate) fn print_timestamp(time: Timestamp) -> String {
    time.to_string()
}

/// Seconds with a fraction, as conversion to a string gives it.
pub(crate) fn print_duration_seconds(nanos: i64) -> String {
    let (sign, absolute) = if nanos < 0 { ("-", nanos.unsigned_abs()) } else { ("", nanos.unsigned_abs()) };
    let (seconds, fraction) = (absolute / NANOS.unsigned_abs(), absolute % NANOS.unsigned_abs());
    let fraction = format!("{fraction:09}");
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{seconds}s"),
        fraction => format!("{sign}{seconds}.{fraction}s"),
    }
}

fn length(result: Option<i64>) -> Evaluated {
    result.map_or_else(|| fail("duration overflow"), |nanos| Ok(Value::Duration(nanos)))
}

fn moved(time: Timestamp, nanos: i64) -> Evaluated {
    match time.checked_add(SignedDuration::from_nanos(nanos)) {
        Ok(time) => Ok(Value::Timestamp(time)),
        Err(_) => fail("timestamp overflow"),
    }
}

fn arithmetic(library: &mut Library) {
    use Type::{Duration, Timestamp};
    library.global(op::ADD, [Duration, Duration], Duration, |args| match args {
        [Value::Duration(a), Value::Duration(b)] => length(a.checked_add(*b)),
        _ => unfit(),
    });
    library.global(op::ADD, [Duration, Timestamp], Timestamp, |args| match args {
        [Value::Duration(nanos), Value::Timestamp(time)] => moved(*time, *nanos),
        _ => unfit(),
    });
    library.global(op::ADD, [Timestamp, Duration], Timestamp, |args| match args {
        [Value::Timestamp(time), Value::Duration(nanos)] => moved(*time, *nanos),
        _ => unfit(),
    });
    library.global(op::SUBTRACT, [Duration, Duration], Duration, |args| match args {
        [Value::Duration(a), Value::Duration(b)] => length(a.checked_sub(*b)),
        _ => unfit(),
    });
    library.global(op::SUBTRACT, [Timestamp, Duration], Timestamp, |args| match args {
        [Value::Timestamp(time), Value::Duration(nanos)] => moved(*time, nanos.saturating_neg()),
        _ => unfit(),
    });
    library.global(op::SUBTRACT, [Timestamp, Timestamp], Duration, |args| match args {
        [Value::Timestamp(a), Value::Timestamp(b)] => {
            length(i64::try_from(a.duration_since(*b).as_nanos()).ok())
        }
        _ => unfit(),
    });
}

/// The time in a zone: UTC, an offset such as `+02:00`, or a name such as `Europe/Oslo`.
fn zoned(time: Timestamp, zone: Option<&str>) -> Result<Zoned, EvalError> {
    let zone = match zone {
        None | Some("" | "UTC") => TimeZone::UTC,
        Some(name) if name.contains(':') => {
            let unknown = || EvalError::from(format!("unknown time zone {name}"));
            let (sign, rest) = match name.strip_prefix('-') {
                Some(rest) => (-1, rest),
                None => (1, name.strip_prefix('+').unwrap_or(name)),
            };
            let (hours, minutes) = rest.split_once(':').ok_or_else(unknown)?;
            let (hours, minutes): (i32, i32) =
                (hours.parse().map_err(|_| unknown())?, minutes.parse().map_err(|_| unknown())?);
            let seconds = hours.checked_mul(3600).and_then(|h| h.checked_add(minutes.checked_mul(60)?));
            let offset = seconds.and_then(|s| Offset::from_seconds(sign * s).ok()).ok_or_else(unknown)?;
            TimeZone::fixed(offset)
        }
        Some(name) => {
            TimeZone::get(name).map_err(|_| EvalError::from(format!("unknown time zone {name}")))?
        }
    };
    Ok(time.to_zoned(zone))
}

fn part(args: &[Value], read: fn(&Zoned) -> i64) -> Evaluated {
    match args {
        [Value::Timestamp(time)] => Ok(Value::Int(read(&zoned(*time, None)?))),
        [Value::Timestamp(time), Value::String(zone)] => Ok(Value::Int(read(&zoned(*time, Some(zone))?))),
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
        ("getMilliseconds", |args| match args {
            [Value::Duration(nanos)] => Ok(Value::Int(nanos % NANOS / 1_000_000)),
            _ => unfit(),
        }),
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
