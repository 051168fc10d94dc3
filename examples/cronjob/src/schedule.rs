//! Cron schedules with five fields. The crates for this bring a second time library along, and this is all that is needed.

use jiff::{Timestamp, ToSpan as _, civil::DateTime, tz::TimeZone};

/// How far ahead a moment is looked for: 29 February comes at least every eight years.
const HORIZON: i64 = 366 * 9;

/// When to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether days of the month and of the week are both restricted: then either will do.
    either: bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Reads `minute hour day month weekday`, or one of `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(format!("expected exactly 5 fields, found {}: {text}", fields.len()));
        };
        let mut week = field(weekdays, 0, 7, &WEEKDAYS)?;
        // Sunday has two numbers.
        if week & 1 << 7 != 0 {
            week |= 1;
        }
        Ok(Self {
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?,
            weekdays: week,
            either: !days.starts_with('*') && !weekdays.starts_with('*'),
        })
    }

    fn on(&self, day: DateTime) -> bool {
        let has = |set: u64, number: i8| set & (1 << number) != 0;
        let date = has(self.days, day.day());
        let weekday = has(self.weekdays, day.weekday().to_sunday_zero_offset());
        has(self.months, day.month()) && if self.either { date || weekday } else { date && weekday }
    }

    /// The first moment after another one, in UTC. `None`: there is none within years.
    #[must_use]
    pub fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        let start = moment.to_zoned(TimeZone::UTC).datetime().checked_add(1.minute()).ok()?;
        let start = start.with().second(0).subsec_nanosecond(0).build().ok()?;
        let mut day = start;
        for _ in 0..HORIZON {
            if self.on(day) {
                let from = (day.hour(), day.minute());
                let hour = (from.0..24).filter(|hour| self.hours & (1 << hour) != 0);
                let found = hour
                    .flat_map(|hour| (0..60).map(move |minute| (hour, minute)))
                    .find(|(hour, minute)| (*hour, *minute) >= from && self.minutes & (1 << minute) != 0);
                if let Some((hour, minute)) = found {
                    let found = day.with().hour(hour).minute(minute).build().ok()?;
                    return Some(found.to_zoned(TimeZone::UTC).ok()?.timestamp());
                }
            }
            day = day.date().tomorrow().ok()?.to_datetime(jiff::civil::Time::midnight());
        }
        None
    }
}

fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Result<u64, String> {
    let number = |text: &str| -> Result<u32, String> {
        let name = names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let first = if names.len() == 12 { 1 } else { 0 };
        let number = match name {
            Some(index) => u32::try_from(index).unwrap_or_default() + first,
            None => text.parse().map_err(|_| format!("{text:?} is not a number"))?,
        };
        if (low..=high).contains(&number) {
            Ok(number)
        } else {
            Err(format!("{number} is not in {low} to {high}"))
        }
    };
    let mut set = 0_u64;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                (range, step.parse::<u32>().map_err(|_| format!("{step:?} is not a step"))?)
            }
            None => (part, 1),
        };
        if step == 0 {
            return Err("a step of 0 leads nowhere".into());
        }
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (low, high),
            Some((from, to)) => (number(from)?, number(to)?),
            None if part.contains('/') => (number(range)?, high),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return Err(format!("{from} comes after {to}"));
        }
        for number in (from..=to).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            set |= 1 << number;
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(schedule: &str, moment: &str) -> String {
        Schedule::parse(schedule)
            .unwrap()
            .after(moment.parse().unwrap())
            .map_or("never".into(), |found| found.to_string())
    }

    #[test]
    fn the_next_moment_is_found() {
        assert_eq!(after("*/15 * * * *", "2026-01-01T00:00:00Z"), "2026-01-01T00:15:00Z");
        assert_eq!(after("*/15 * * * *", "2026-01-01T00:14:59.5Z"), "2026-01-01T00:15:00Z");
        assert_eq!(after("30 2 * * *", "2026-01-31T02:30:00Z"), "2026-02-01T02:30:00Z");
        assert_eq!(after("0 0 29 2 *", "2026-01-01T00:00:00Z"), "2028-02-29T00:00:00Z");
        assert_eq!(after("0 9 * * mon-fri", "2026-01-02T10:00:00Z"), "2026-01-05T09:00:00Z");
        assert_eq!(after("0 0 13 * 5", "2026-01-03T00:00:00Z"), "2026-01-09T00:00:00Z");
        assert_eq!(after("5,10 1-3/2 1 jan,feb *", "2026-01-01T01:05:00Z"), "2026-01-01T01:10:00Z");
        assert_eq!(after("0 0 * * 7", "2026-01-01T00:00:00Z"), "2026-01-04T00:00:00Z");
        assert_eq!(after("0 0 31 2 *", "2026-01-01T00:00:00Z"), "never");
        assert_eq!(after("@monthly", "2026-12-02T00:00:00Z"), "2027-01-01T00:00:00Z");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "*/0 * * * *",
            "5-1 * * * *",
            "a * * * *",
            "* * * 13 *",
        ] {
            assert!(Schedule::parse(text).is_err(), "{text}");
        }
    }
}
