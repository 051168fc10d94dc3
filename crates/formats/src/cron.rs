//! Schedules in the language of cron, as Kubernetes reads them: five fields, names, `@daily` and the like, `@every`.

use std::time::Duration;

use jiff::{SignedDuration, ToSpan as _, Unit, Zoned, ZonedRound, civil::Weekday};

/// When something is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// At moments that match every field.
    Fields(Fields),
    /// Again and again after this time.
    Every(Duration),
}

/// Bits of the allowed values of each field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether one of the two day fields restricts nothing, so that the other alone counts.
    either_day_free: bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// A schedule that is not met for so many years never is.
const YEARS: i16 = 5;

impl Schedule {
    /// Reads a schedule; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => match text.strip_prefix("@every ") {
                Some(every) => {
                    let every = u64::try_from(crate::parse_duration(every.trim())?).ok()?;
                    return Some(Self::Every(Duration::from_nanos(every).max(Duration::from_secs(1))));
                }
                None => text,
            },
        };
        let parts: Vec<&str> = fields.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts.as_slice() else { return None };
        let (minutes, _) = field(minutes, 0, 59, &[])?;
        let (hours, _) = field(hours, 0, 23, &[])?;
        let (days, any_day) = field(days, 1, 31, &[])?;
        let (months, _) = field(months, 1, 12, &MONTHS)?;
        let (weekdays, any_weekday) = field(weekdays, 0, 6, &WEEKDAYS)?;
        let either_day_free = any_day || any_weekday;
        Some(Self::Fields(Fields { minutes, hours, days, months, weekdays, either_day_free }))
    }

    /// The first moment after `after` at which it is due, in the time zone of `after`.
    pub fn next(&self, after: &Zoned) -> Option<Zoned> {
        match self {
            Self::Every(every) => {
                let every = SignedDuration::try_from(*every).ok()?;
                let at = after.checked_add(every).ok()?;
                at.round(ZonedRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Trunc)).ok()
            }
            Self::Fields(fields) => fields.next(after),
        }
    }
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits >> value & 1 == 1)
}

impl Fields {
    /// Walks forward, by the largest unit that does not fit yet.
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
                // Hours pass as they do, however the clock is set, so one that is skipped does not come.
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

/// The bits of one field, and whether it was a star.
fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Option<(u64, bool)> {
    let (mut bits, mut star) = (0, false);
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|s| *s > 0)?)),
            None => (part, None),
        };
        let number = |word: &str| -> Option<u32> {
            let lower = word.to_ascii_lowercase();
            if let Some(index) = names.iter().position(|n| *n == lower) {
                // Months count from one.
                return Some(u32::try_from(index).ok()? + low);
            }
            word.parse().ok()
        };
        let (first, last) = match range {
            "*" | "?" => {
                star |= step.is_none_or(|s| s == 1);
                (low, high)
            }
            range => match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => {
                    let first = number(range)?;
                    // A start with a step goes on to the end.
                    (first, if step.is_some() { high } else { first })
                }
            },
        };
        if first < low || last > high || first > last {
            return None;
        }
        for value in (first..=last).step_by(usize::try_from(step.unwrap_or(1)).ok()?) {
            bits |= 1 << value;
        }
    }
    Some((bits, star))
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
            ("30 2 * * *", "2026-03-28T12:00:00[Europe/Berlin]", "2026-03-30T02:30:00"),
        ] {
            assert_eq!(next(schedule, after), wanted, "{schedule} after {after}");
        }
    }

    #[test]
    fn what_is_no_schedule() {
        for text in
            ["", "* * * *", "60 * * * *", "* * 0 * *", "a * * * *", "5-1 * * * *", "*/0 * * * *", "@often"]
        {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }
}
