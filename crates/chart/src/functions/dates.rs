//! Dates and durations.

use steersman_gotemplate::{CallError, Funcs, IntType, Str, Value};

use super::args::define;
use super::duration::{Duration, SECOND};
use super::time::{Time, Zone};
use super::{Host, cast, layout};
use crate::environment::Environment;

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "now" [env] () => now(env).into_value();
        "date" [env] (layout: &Str, date: &Value) => date_in_zone(env, layout, date, b"Local");
        "dateInZone" | "date_in_zone" [env] (layout: &Str, date: &Value, zone: &Str) =>
            date_in_zone(env, layout, date, zone);
        "htmlDate" [env] (date: &Value) => date_in_zone(env, b"2006-01-02", date, b"Local");
        "htmlDateInZone" [env] (date: &Value, zone: &Str) => date_in_zone(env, b"2006-01-02", date, zone);
        "dateModify" | "date_modify" (by: &Str, date: &Time) =>
            Duration::parse(by).map_or_else(|_| date.clone(), |by| date.add(by)).into_value();
        "mustDateModify" | "must_date_modify" (by: &Str, date: &Time) =>
            date.add(Duration::parse(by).map_err(CallError::new)?).into_value();
        "toDate" (layout: &Str, text: &Str) => layout::parse(layout, text).unwrap_or_else(|_| Time::zero()).into_value();
        "mustToDate" (layout: &Str, text: &Str) =>
            layout::parse(layout, text).map(Time::into_value).map_err(CallError::new);
        "unixEpoch" (date: &Time) => date.unix().to_string();
        "ago" [env] (date: &Value) => ago(env, date);
        "duration" (seconds: &Value) => duration(seconds);
        "durationRound" [env] (duration: &Value) => duration_round(env, duration);
    });
}

fn now(env: &mut dyn Environment) -> Time {
    Time::from_system(env.now())
}

/// Converts a time, or an integer as Unix seconds, to a time.
fn moment(value: &Value) -> Option<Time> {
    match value {
        Value::Int(seconds, IntType::Int | IntType::Int64 | IntType::Int32) => {
            Some(Time::from_unix(*seconds))
        }
        value => Time::of(value).cloned(),
    }
}

fn date_in_zone(env: &mut dyn Environment, layout: &[u8], date: &Value, zone: &[u8]) -> Vec<u8> {
    let time = moment(date).unwrap_or_else(|| now(env));
    let zone = Zone::load(&String::from_utf8_lossy(zone));
    layout::format(&time.in_zone(zone), layout)
}

fn ago(env: &mut dyn Environment, date: &Value) -> String {
    let now = now(env);
    let then = match date {
        // Unlike the other functions, this one does not accept an int32.
        Value::Int(_, IntType::Int32) => None,
        date => moment(date),
    };
    let since = then.map_or(Duration(0), |then| now.since(&then));
    since.round(Duration(SECOND)).to_string()
}

fn duration(seconds: &Value) -> String {
    let seconds = match seconds {
        Value::String(text) => cast::nearest_int(text),
        Value::Int(seconds, IntType::Int64) => *seconds,
        _ => 0,
    };
    Duration(seconds.wrapping_mul(SECOND)).to_string()
}

/// Formats only the largest unit, such as `2mo`.
fn duration_round(env: &mut dyn Environment, duration: &Value) -> String {
    let duration = match duration {
        Value::String(text) => Duration::parse(text).unwrap_or(Duration(0)),
        Value::Int(nanos, IntType::Int64) => Duration(*nanos),
        value => match Time::of(value) {
            Some(time) => now(env).since(time),
            None => Duration(0),
        },
    };
    const DAY: u64 = 24 * 3600;
    let units = [("y", 365 * DAY), ("mo", 30 * DAY), ("d", DAY), ("h", 3600), ("m", 60), ("s", 1)];
    let nanos = duration.0.unsigned_abs();
    units
        .into_iter()
        .map(|(name, seconds)| (name, seconds * SECOND.unsigned_abs()))
        .find(|(_, unit)| nanos > *unit)
        .map_or_else(|| "0s".into(), |(name, unit)| format!("{}{name}", nanos / unit))
}
