//! Cron schedules as Kubernetes parses them: five fields, names, descriptors such as `@daily`, and `@every`.

use std::time::Duration;

use jiff::{SignedDuration, ToSpan as _, Unit, Zoned, ZonedRound, civil::Weekday, tz::TimeZone};
use steersman_gostd::{strconv, time};

/// A cron schedule.
///
/// ```
/// use steersman_formats::cron::Schedule;
///
/// let schedule = Schedule::parse("*/15 9-17 * * mon-fri")?;
/// let friday: jiff::Zoned = "2026-01-02T17:50:00[UTC]".parse()?;
/// let next = schedule.next(&friday).map(|at| at.datetime().to_string());
/// assert_eq!(next.as_deref(), Some("2026-01-05T09:00:00"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    due: Due,
    /// Time zone given by `TZ=`. Default: that of the time passed to [`Schedule::next`].
    zone: Option<TimeZone>,
}

/// Returned for a string that is not a valid schedule; displays kube-apiserver's error message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScheduleError(String);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Due {
    /// At times that match every field.
    Fields(Fields),
    /// At a fixed interval after the previous run.
    Every(Duration),
}

/// Bit sets of the allowed values of each field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether day of month or day of week is `*`, so that both must match; otherwise one match suffices.
    either_day_free: bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Years to search ahead before a schedule is taken to never match.
const YEARS: i16 = 5;

impl Schedule {
    /// Parses `minute hour day month weekday`, or a descriptor such as `@daily` or `@every 1h30m`.
    ///
    /// # Errors
    /// If the string is not a valid schedule, with kube-apiserver's error message.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        read(text).map_err(ScheduleError)
    }

    /// Returns the next time the schedule is due after `after`, in the time zone of `after`. `None` if there is none
    /// within five years.
    #[must_use]
    pub fn next(&self, after: &Zoned) -> Option<Zoned> {
        match &self.due {
            Due::Every(every) => {
                let every = SignedDuration::try_from(*every).ok()?;
                let at = after.checked_add(every).ok()?;
                at.round(ZonedRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Trunc)).ok()
            }
            Due::Fields(fields) => match &self.zone {
                Some(zone) => {
                    let at = fields.next(&after.with_time_zone(zone.clone()))?;
                    Some(at.with_time_zone(after.time_zone().clone()))
                }
                None => fields.next(after),
            },
        }
    }
}

/// Whether `name` is a known time zone. If the machine has no time zone database, names in known areas are accepted.
#[must_use]
pub fn is_time_zone(name: &str) -> bool {
    const AREAS: [&str; 11] = [
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Europe",
        "Indian",
        "Pacific",
        "Etc",
    ];
    if TimeZone::get(name).is_ok() {
        return true;
    }
    let blind = TimeZone::get("Europe/London").is_err();
    blind
        && match name.split_once('/') {
            Some((area, place)) => {
                AREAS.contains(&area) && place.as_bytes().first().is_some_and(u8::is_ascii_uppercase)
            }
            None => matches!(name, "GMT" | "EST" | "MST" | "HST" | "CET" | "EET" | "MET" | "WET"),
        }
}

fn read(text: &str) -> Result<Schedule, String> {
    if text.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let (mut text, mut zone) = (text, None);
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        let (setting, rest) = text.split_once(' ').unwrap_or((text, ""));
        let name = setting.split_once('=').map_or("", |(_, name)| name);
        zone = match name {
            "UTC" | "" => Some(TimeZone::UTC),
            "Local" => None,
            _ if is_time_zone(name) => TimeZone::get(name).ok(),
            _ => return Err(format!("provided bad location {name}: unknown time zone {name}")),
        };
        text = rest.trim();
    }
    let due = if text.starts_with('@') { descriptor(text)? } else { Due::Fields(Fields::read(text)?) };
    Ok(Schedule { due, zone })
}

fn descriptor(text: &str) -> Result<Due, String> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(every) = text.strip_prefix("@every ") else {
                return Err(format!("unrecognized descriptor: {text}"));
            };
            let nanos = time::parse_duration(every.as_bytes())
                .map_err(|why| format!("failed to parse duration {text}: {why}"))?;
            let every = Duration::from_nanos(nanos.max(time::SECOND).unsigned_abs());
            return Ok(Due::Every(Duration::from_secs(every.as_secs())));
        }
    };
    Fields::read(fields).map(Due::Fields)
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits >> value & 1 == 1)
}

impl Fields {
    fn read(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        let (minutes, _) = field(minutes, 0, 59, &[])?;
        let (hours, _) = field(hours, 0, 23, &[])?;
        let (days, any_day) = field(days, 1, 31, &[])?;
        let (months, _) = field(months, 1, 12, &MONTHS)?;
        let (weekdays, any_weekday) = field(weekdays, 0, 6, &WEEKDAYS)?;
        Ok(Self { minutes, hours, days, months, weekdays, either_day_free: any_day || any_weekday })
    }

    /// Advances to the next match, by the largest unit that does not match yet.
    fn next(&self, after: &Zoned) -> Option<Zoned> {
        let cut = |at: Zoned, unit: Unit| {
            at.round(ZonedRound::new().smallest(unit).mode(jiff::RoundMode::Trunc)).ok()
        };
        let mut at = cut(after.checked_add(1.minute()).ok()?, Unit::Minute)?;
        let last = after.year().checked_add(YEARS)?;
        while at.year() <= last {
            if !has(self.months, at.month()) {
                at = at.first_of_month().ok()?.checked_add(1.month()).ok()?.start_of_day().ok()?;
            } else if !self.has_day(&at) {
                at = at.tomorrow().ok()?.start_of_day().ok()?;
            } else if !has(self.hours, at.hour()) {
                // Adds elapsed time rather than clock time, so an hour skipped by daylight saving time never matches.
                at = cut(at.checked_add(1.hour()).ok()?, Unit::Hour)?;
            } else if has(self.minutes, at.minute()) {
                return Some(at);
            } else {
                at = at.checked_add(1.minute()).ok()?;
            }
        }
        None
    }

    fn has_day(&self, at: &Zoned) -> bool {
        let day = has(self.days, at.day());
        let weekday = has(self.weekdays, Weekday::to_sunday_zero_offset(at.weekday()));
        if self.either_day_free { day && weekday } else { day || weekday }
    }
}

/// Parses one field into a bit set, and returns whether it contained `*` or `?`.
fn field(text: &str, low: u64, high: u64, names: &[&str]) -> Result<(u64, bool), String> {
    let (mut bits, mut star) = (0, false);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let Range { first, last, step, is_star } = range(part, low, high, names)?;
        star |= is_star;
        for value in (first..=last).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            bits |= 1 << value;
        }
    }
    Ok((bits, star))
}

/// Every `step`th number from `first` to `last`.
struct Range {
    first: u64,
    last: u64,
    step: u64,
    is_star: bool,
}

/// Parses one of `*`, `5` and `1-5`, each with an optional step such as `/2`.
fn range(text: &str, low: u64, high: u64, names: &[&str]) -> Result<Range, String> {
    let number = |word: &str| number(word, low, names);
    let steps: Vec<&str> = text.split('/').collect();
    let bounds: Vec<&str> = steps.first().copied().unwrap_or_default().split('-').collect();
    let is_star = matches!(bounds.as_slice(), ["*" | "?", ..]);
    let (first, mut last) = match bounds.as_slice() {
        ["*" | "?", ..] => (low, high),
        [only] => {
            let only = number(only)?;
            (only, only)
        }
        [first, last] => (number(first)?, number(last)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            // `5/2` ranges from 5 up to the maximum.
            if bounds.len() == 1 {
                last = high;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if first < low {
        return Err(format!("beginning of range ({first}) below minimum ({low}): {text}"));
    }
    if last > high {
        return Err(format!("end of range ({last}) above maximum ({high}): {text}"));
    }
    if first > last {
        return Err(format!("beginning of range ({first}) beyond end of range ({last}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(Range { first, last, step, is_star: is_star && step == 1 })
}

/// Parses a number, or the name of a month or weekday; the first of `names` has the value `low`.
fn number(word: &str, low: u64, names: &[&str]) -> Result<u64, String> {
    if let Some((value, _)) = (low..).zip(names).find(|(_, name)| word.eq_ignore_ascii_case(name)) {
        return Ok(value);
    }
    let value =
        strconv::atoi(word.as_bytes()).map_err(|why| format!("failed to parse int from {word}: {why}"))?;
    u64::try_from(value).map_err(|_| format!("negative number ({value}) not allowed: {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let after: Zoned = after.parse().unwrap();
        let next = Schedule::parse(schedule).unwrap().next(&after);
        next.map(|at| at.strftime("%Y-%m-%dT%H:%M:%S").to_string()).unwrap_or_default()
    }

    #[test]
    fn the_next_time() {
        for (schedule, after, wanted) in [
            ("* * * * *", "2026-03-01T10:00:30[UTC]", "2026-03-01T10:01:00"),
            ("*/15 * * * *", "2026-03-01T10:45:00[UTC]", "2026-03-01T11:00:00"),
            ("5/20 3 * * *", "2026-03-01T03:05:00[UTC]", "2026-03-01T03:25:00"),
            ("0 0 31 * *", "2026-04-01T00:00:00[UTC]", "2026-05-31T00:00:00"),
            ("0 12 * * mon-fri", "2026-03-06T12:00:00[UTC]", "2026-03-09T12:00:00"),
            ("0 0 13 * FRI", "2026-03-01T00:00:00[UTC]", "2026-03-06T00:00:00"),
            ("0 0 29 2 *", "2026-03-01T00:00:00[UTC]", "2028-02-29T00:00:00"),
            ("0 0 30 2 *", "2026-03-01T00:00:00[UTC]", ""),
            ("@weekly", "2026-03-02T00:00:00[UTC]", "2026-03-08T00:00:00"),
            ("@every 90s", "2026-03-02T00:00:00[UTC]", "2026-03-02T00:01:30"),
            ("@every 1500ms", "2026-03-02T00:00:00.7[UTC]", "2026-03-02T00:00:01"),
            ("@every 1ns", "2026-03-02T00:00:00[UTC]", "2026-03-02T00:00:01"),
            ("30 2 * * *", "2026-03-28T12:00:00[Europe/Berlin]", "2026-03-30T02:30:00"),
            ("TZ=America/New_York 0 9 * * *", "2026-03-02T12:00:00[UTC]", "2026-03-02T14:00:00"),
            ("CRON_TZ=UTC 0 9 * * *", "2026-03-02T12:00:00[Europe/Berlin]", "2026-03-03T10:00:00"),
            ("TZ=Local 0 9 * * *", "2026-03-02T12:00:00[Europe/Berlin]", "2026-03-03T09:00:00"),
            ("0,,30 * * * *", "2026-03-02T12:00:00[UTC]", "2026-03-02T12:30:00"),
            (", * * * *", "2026-03-02T12:00:00[UTC]", ""),
        ] {
            assert_eq!(next(schedule, after), wanted, "{schedule} after {after}");
        }
    }

    #[test]
    fn faults_are_named() {
        for (text, why) in [
            ("", "empty spec string"),
            ("nonsense", "expected exactly 5 fields, found 1: [nonsense]"),
            ("* * *  *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("4294967296 * * * *", "end of range (4294967296) above maximum (59): 4294967296"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("-1 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("@often", "unrecognized descriptor: @often"),
            ("@daily ", "unrecognized descriptor: @daily "),
            ("@every 1", "failed to parse duration @every 1: time: missing unit in duration \"1\""),
            ("TZ=Nowhere * * * * *", "provided bad location Nowhere: unknown time zone Nowhere"),
        ] {
            let refused = Schedule::parse(text).map_err(|error| error.to_string());
            assert_eq!(refused, Err(why.to_owned()), "{text}");
        }
    }
}
