//! Go's time layouts: written the way the reference time `Mon Jan 2 15:04:05 MST 2006` would be.

use steersman_gostd::time::{leading_int, quote};

use super::time::{Civil, Time, Zone, days_in_month, is_leap};

/// An element of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Element {
    Month,
    LongMonth,
    NumMonth,
    ZeroMonth,
    WeekDay,
    LongWeekDay,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    Offset(Offset),
    /// This many digits of a second, all of them.
    Fraction0(usize, u8),
    /// Up to this many digits of a second, without trailing zeros.
    Fraction9(usize, u8),
}

/// How an offset from UTC is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Offset {
    /// Whether UTC is written as `Z`.
    z: bool,
    colons: bool,
    minutes: bool,
    seconds: bool,
}

const LONG_MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const LONG_DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Returns the name of a month, from 1; Go's placeholder if out of range.
pub(super) fn month_name(month: i64) -> String {
    let name = usize::try_from(month - 1).ok().and_then(|i| LONG_MONTHS.get(i));
    name.map_or_else(|| format!("%!Month({month})"), |name| (*name).into())
}

/// Returns the name of a weekday, from 0 for Sunday; Go's placeholder if out of range.
pub(super) fn weekday_name(weekday: i64) -> String {
    let name = usize::try_from(weekday).ok().and_then(|i| LONG_DAYS.get(i));
    name.map_or_else(|| format!("%!Weekday({weekday})"), |name| (*name).into())
}

/// An element and its spelling in the layout.
type Found<'a> = (Element, &'a [u8]);

/// Splits a layout into the text before its first element, that element, and the rest.
fn next_element(layout: &[u8]) -> (&[u8], Option<Found<'_>>, &[u8]) {
    for at in 0..layout.len() {
        let rest = layout.get(at..).unwrap_or_default();
        if let Some((skip, element, len)) = element_at(rest) {
            let start = at + skip;
            let text = layout.get(start..start + len).unwrap_or_default();
            return (
                layout.get(..start).unwrap_or_default(),
                Some((element, text)),
                layout.get(start + len..).unwrap_or_default(),
            );
        }
    }
    (layout, None, &[])
}

/// Returns the element that begins here: its offset, kind and length.
fn element_at(rest: &[u8]) -> Option<(usize, Element, usize)> {
    use Element::*;
    let lower_follows = |at: usize| rest.get(at).is_some_and(u8::is_ascii_lowercase);
    let plain = |element, len| Some((0, element, len));
    match rest.first()? {
        b'J' if rest.starts_with(b"January") => plain(LongMonth, 7),
        b'J' if rest.starts_with(b"Jan") && !lower_follows(3) => plain(Month, 3),
        b'M' if rest.starts_with(b"Monday") => plain(LongWeekDay, 6),
        b'M' if rest.starts_with(b"Mon") && !lower_follows(3) => plain(WeekDay, 3),
        b'M' if rest.starts_with(b"MST") => plain(ZoneName, 3),
        b'0' => match (rest.get(1)?, rest.get(2)) {
            (b'1', _) => plain(ZeroMonth, 2),
            (b'2', _) => plain(ZeroDay, 2),
            (b'3', _) => plain(ZeroHour12, 2),
            (b'4', _) => plain(ZeroMinute, 2),
            (b'5', _) => plain(ZeroSecond, 2),
            (b'6', _) => plain(Year, 2),
            (b'0', Some(b'2')) => plain(ZeroYearDay, 3),
            _ => None,
        },
        b'1' if rest.get(1) == Some(&b'5') => plain(Hour, 2),
        b'1' => plain(NumMonth, 1),
        b'2' if rest.starts_with(b"2006") => plain(LongYear, 4),
        b'2' => plain(Day, 1),
        b'_' if rest.starts_with(b"_2006") => Some((1, LongYear, 4)),
        b'_' if rest.starts_with(b"_2") => plain(UnderDay, 2),
        b'_' if rest.starts_with(b"__2") => plain(UnderYearDay, 3),
        b'3' => plain(Hour12, 1),
        b'4' => plain(Minute, 1),
        b'5' => plain(Second, 1),
        b'P' if rest.get(1) == Some(&b'M') => plain(UpperPm, 2),
        b'p' if rest.get(1) == Some(&b'm') => plain(LowerPm, 2),
        sign @ (b'-' | b'Z') => {
            let z = *sign == b'Z';
            let forms: [(&[u8], bool, bool, bool); 5] = [
                (b"070000", false, true, true),
                (b"07:00:00", true, true, true),
                (b"0700", false, true, false),
                (b"07:00", true, true, false),
                (b"07", false, false, false),
            ];
            forms.into_iter().find(|(form, ..)| rest.get(1..).is_some_and(|rest| rest.starts_with(form))).map(
                |(form, colons, minutes, seconds)| {
                    (0, Offset(self::Offset { z, colons, minutes, seconds }), form.len() + 1)
                },
            )
        }
        point @ (b'.' | b',') => {
            let digit = rest.get(1).filter(|b| matches!(b, b'0' | b'9'))?;
            let digits = rest.iter().skip(1).take_while(|b| *b == digit).count();
            if rest.get(1 + digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            let element = if *digit == b'0' { Fraction0(digits, *point) } else { Fraction9(digits, *point) };
            plain(element, 1 + digits)
        }
        _ => None,
    }
}

/// `Time.Format`.
pub(super) fn format(time: &Time, layout: &[u8]) -> Vec<u8> {
    let (civil, zone_name, offset) = time.civil();
    let mut out = Vec::with_capacity(layout.len() + 10);
    let mut layout = layout;
    loop {
        let (prefix, element, rest) = next_element(layout);
        out.extend_from_slice(prefix);
        let Some((element, _)) = element else { return out };
        layout = rest;
        write_element(&mut out, element, &civil, &zone_name, offset, time.nanos());
    }
}

fn write_element(out: &mut Vec<u8>, element: Element, civil: &Civil, zone: &str, offset: i32, nanos: u32) {
    use Element::*;
    let hour12 = if civil.hour % 12 == 0 { 12 } else { civil.hour % 12 };
    let short = |name: String| name.get(..3).unwrap_or_default().to_owned();
    let text = match element {
        Year => format!("{:02}", civil.year.max(0) % 100),
        LongYear if civil.year < 0 => format!("-{:04}", civil.year.unsigned_abs()),
        LongYear => format!("{:04}", civil.year),
        Month => short(month_name(civil.month)),
        LongMonth => month_name(civil.month),
        NumMonth => civil.month.to_string(),
        ZeroMonth => format!("{:02}", civil.month),
        WeekDay => short(weekday_name(civil.weekday)),
        LongWeekDay => weekday_name(civil.weekday),
        Day => civil.day.to_string(),
        UnderDay => format!("{:2}", civil.day),
        ZeroDay => format!("{:02}", civil.day),
        UnderYearDay => format!("{:3}", civil.year_day),
        ZeroYearDay => format!("{:03}", civil.year_day),
        Hour => format!("{:02}", civil.hour),
        Hour12 => hour12.to_string(),
        ZeroHour12 => format!("{hour12:02}"),
        Minute => civil.minute.to_string(),
        ZeroMinute => format!("{:02}", civil.minute),
        Second => civil.second.to_string(),
        ZeroSecond => format!("{:02}", civil.second),
        UpperPm => if civil.hour >= 12 { "PM" } else { "AM" }.into(),
        LowerPm => if civil.hour >= 12 { "pm" } else { "am" }.into(),
        ZoneName if !zone.is_empty() => zone.into(),
        ZoneName => {
            offset_text(offset, self::Offset { z: false, colons: false, minutes: true, seconds: false })
        }
        Offset(form) => offset_text(offset, form),
        Fraction0(digits, point) => fraction(nanos, digits, point),
        Fraction9(digits, point) => {
            let text = fraction(nanos, digits, point);
            let text = text.trim_end_matches('0');
            if text.len() == 1 { String::new() } else { text.into() }
        }
    };
    out.extend_from_slice(text.as_bytes());
}

fn fraction(nanos: u32, digits: usize, point: u8) -> String {
    let all = format!("{nanos:09}");
    format!("{}{}", char::from(point), all.get(..digits).unwrap_or(&all))
}

fn offset_text(offset: i32, form: Offset) -> String {
    if form.z && offset == 0 {
        return "Z".into();
    }
    // The sign is that of the minutes: the seconds of an offset below a minute have their own.
    let (sign, offset) = if offset / 60 < 0 { ('-', -offset) } else { ('+', offset) };
    let (minutes, seconds) = (offset / 60, offset % 60);
    let colon = if form.colons { ":" } else { "" };
    let mut text = format!("{sign}{:02}", minutes / 60);
    if form.minutes {
        text.push_str(&format!("{colon}{:02}", minutes % 60));
    }
    if form.seconds {
        let minus = if seconds < 0 { "-" } else { "" };
        text.push_str(&format!("{colon}{minus}{:02}", seconds.abs()));
    }
    text
}

/// The parts of a time parsed so far.
#[derive(Default)]
struct Parsed {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: u32,
    pm: Option<bool>,
    utc: bool,
    offset: Option<i32>,
    zone_name: String,
}

/// Why an element does not match: invalid text, or a number out of range.
enum ElementError {
    Bad,
    Range(&'static str),
}

/// Validates a string against a layout; the error is Go's message.
pub(crate) fn check(layout: &[u8], value: &[u8]) -> Result<(), String> {
    parse(layout, value).map(drop)
}

/// `time.ParseInLocation` in the local zone, which is UTC; the error is Go's message.
pub(super) fn parse(layout: &[u8], value: &[u8]) -> Result<Time, String> {
    let all = value;
    let message = |message: &str| format!("parsing time {}: {message}", quote(all));
    let cannot = |value: &[u8], element: &[u8]| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(all),
            quote(layout),
            quote(value),
            quote(element)
        )
    };
    let mut parsed = Parsed::default();
    let (mut value, mut rest) = (value, layout);
    loop {
        let (prefix, element, after) = next_element(rest);
        value = skip(value, prefix).map_err(|value| cannot(value, prefix))?;
        let Some((element, text)) = element else {
            if !value.is_empty() {
                return Err(message(&format!("extra text: {}", quote(value))));
            }
            break;
        };
        rest = after;
        let hold = value;
        match parsed.read(element, &mut value, rest) {
            Ok(()) => {}
            Err(ElementError::Range(what)) => return Err(message(&format!("{what} out of range"))),
            Err(ElementError::Bad) => return Err(cannot(hold, text)),
        }
    }
    parsed.finish().map_err(message)
}

/// Strips `prefix` from `value`; spaces match any number of spaces. The error is the rest that differs.
fn skip<'a>(mut value: &'a [u8], mut prefix: &[u8]) -> Result<&'a [u8], &'a [u8]> {
    let cut = |text: &'_ [u8]| text.iter().take_while(|b| **b == b' ').count();
    while let Some(first) = prefix.first() {
        if *first == b' ' {
            if value.first().is_some_and(|b| *b != b' ') {
                return Err(value);
            }
            prefix = prefix.get(cut(prefix)..).unwrap_or_default();
            value = value.get(cut(value)..).unwrap_or_default();
            continue;
        }
        match value.split_first() {
            Some((byte, rest)) if byte == first => value = rest,
            _ => return Err(value),
        }
        prefix = prefix.get(1..).unwrap_or_default();
    }
    Ok(value)
}

fn is_digit(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(u8::is_ascii_digit)
}

/// Takes `count` bytes.
fn take<'a>(value: &mut &'a [u8], count: usize) -> Result<&'a [u8], ElementError> {
    let (head, tail) = value.split_at_checked(count).ok_or(ElementError::Bad)?;
    *value = tail;
    Ok(head)
}

/// Takes up to `most` digits, exactly as many if `fixed`.
fn number(value: &mut &[u8], most: usize, fixed: bool) -> Result<i64, ElementError> {
    let len = value.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
    if len == 0 || (fixed && len != most) {
        return Err(ElementError::Bad);
    }
    Ok(take(value, len)?.iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0')))
}

/// Returns the index of the name that `value` begins with, ignoring case.
///
/// Only the first `len` letters are compared.
fn lookup(names: &[&str], len: Option<usize>, value: &mut &[u8]) -> Result<i64, ElementError> {
    for (i, name) in names.iter().enumerate() {
        let name = name.get(..len.unwrap_or(name.len())).unwrap_or(name).as_bytes();
        if value.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name)) {
            take(value, name.len())?;
            return i64::try_from(i).map_err(|_| ElementError::Bad);
        }
    }
    Err(ElementError::Bad)
}

/// Parses `.123` or `,123` of `len` bytes as nanoseconds; only nine digits count.
fn nanoseconds(value: &mut &[u8], len: usize) -> Result<u32, ElementError> {
    let text = take(value, len)?;
    let digits = match text.split_first() {
        Some((b'.' | b',', digits)) => digits.get(..9).unwrap_or(digits),
        _ => return Err(ElementError::Bad),
    };
    let unsigned = digits.strip_prefix(b"+").or_else(|| digits.strip_prefix(b"-")).unwrap_or(digits);
    if !unsigned.iter().all(u8::is_ascii_digit) {
        return Err(ElementError::Bad);
    }
    let n = unsigned.iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0'));
    if digits.starts_with(b"-") && n > 0 {
        return Err(ElementError::Range("fractional second"));
    }
    Ok(n * 10u32.pow(u32::try_from(9 - digits.len()).unwrap_or(0)))
}

fn in_range(n: i64, range: std::ops::RangeInclusive<i64>, what: &'static str) -> Result<i64, ElementError> {
    if range.contains(&n) { Ok(n) } else { Err(ElementError::Range(what)) }
}

impl Parsed {
    fn read(&mut self, element: Element, value: &mut &[u8], layout: &[u8]) -> Result<(), ElementError> {
        use Element::*;
        match element {
            Year => {
                let text = take(value, 2)?;
                let unsigned = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
                let year = number(&mut &*unsigned, unsigned.len(), true)?;
                let year = if text.starts_with(b"-") { -year } else { year };
                self.year = if year >= 69 { year + 1900 } else { year + 2000 };
            }
            LongYear => self.year = number(value, 4, true)?,
            Month => self.month = Some(lookup(&LONG_MONTHS, Some(3), value)? + 1),
            LongMonth => self.month = Some(lookup(&LONG_MONTHS, None, value)? + 1),
            NumMonth | ZeroMonth => {
                self.month = Some(in_range(number(value, 2, element == ZeroMonth)?, 1..=12, "month")?);
            }
            WeekDay => drop(lookup(&LONG_DAYS, Some(3), value)?),
            LongWeekDay => drop(lookup(&LONG_DAYS, None, value)?),
            Day | UnderDay | ZeroDay => {
                if element == UnderDay {
                    *value = value.strip_prefix(b" ").unwrap_or(value);
                }
                self.day = Some(number(value, 2, element == ZeroDay)?);
            }
            UnderYearDay | ZeroYearDay => {
                if element == UnderYearDay {
                    *value = value.strip_prefix(b" ").unwrap_or(value);
                    *value = value.strip_prefix(b" ").unwrap_or(value);
                }
                self.year_day = Some(number(value, 3, element == ZeroYearDay)?);
            }
            Hour => self.hour = in_range(number(value, 2, false)?, 0..=23, "hour")?,
            Hour12 | ZeroHour12 => {
                self.hour = in_range(number(value, 2, element == ZeroHour12)?, 0..=12, "hour")?;
            }
            Minute | ZeroMinute => {
                self.minute = in_range(number(value, 2, element == ZeroMinute)?, 0..=59, "minute")?;
            }
            Second | ZeroSecond => {
                self.second = in_range(number(value, 2, element == ZeroSecond)?, 0..=59, "second")?;
                self.read_fraction_without_layout(value, layout)?;
            }
            UpperPm | LowerPm => {
                self.pm = Some(match (element, take(value, 2)?) {
                    (UpperPm, b"PM") | (LowerPm, b"pm") => true,
                    (UpperPm, b"AM") | (LowerPm, b"am") => false,
                    _ => return Err(ElementError::Bad),
                });
            }
            Offset(form) if form.z && value.starts_with(b"Z") => {
                take(value, 1)?;
                self.utc = true;
            }
            Offset(form) => self.offset = Some(read_offset(form, value)?),
            ZoneName if value.starts_with(b"UTC") => {
                take(value, 3)?;
                self.utc = true;
            }
            ZoneName => {
                let len = zone_name_len(value).ok_or(ElementError::Bad)?;
                self.zone_name = String::from_utf8_lossy(take(value, len)?).into_owned();
            }
            Fraction0(digits, _) => self.nanos = nanoseconds(value, 1 + digits)?,
            Fraction9(..) => {
                if matches!(value.first(), Some(b'.' | b',')) && is_digit(value, 1) {
                    let digits = value.iter().skip(1).take_while(|b| b.is_ascii_digit()).count();
                    self.nanos = nanoseconds(value, 1 + digits)?;
                }
            }
        }
        Ok(())
    }

    /// Reads a fraction after the seconds, which is allowed even if the layout has none.
    fn read_fraction_without_layout(&mut self, value: &mut &[u8], layout: &[u8]) -> Result<(), ElementError> {
        if !matches!(value.first(), Some(b'.' | b',')) || !is_digit(value, 1) {
            return Ok(());
        }
        if let (_, Some((Element::Fraction0(..) | Element::Fraction9(..), _)), _) = next_element(layout) {
            return Ok(());
        }
        let digits = value.iter().skip(1).take_while(|b| b.is_ascii_digit()).count();
        self.nanos = nanoseconds(value, 1 + digits)?;
        Ok(())
    }

    fn finish(mut self) -> Result<Time, &'static str> {
        match self.pm {
            Some(true) if self.hour < 12 => self.hour += 12,
            Some(false) if self.hour == 12 => self.hour = 0,
            _ => {}
        }
        if let Some(year_day) = self.year_day {
            let (month, day) = month_and_day(self.year, year_day).ok_or("day-of-year out of range")?;
            if self.month.is_some_and(|own| own != month) {
                return Err("day-of-year does not match month");
            }
            if self.day.is_some_and(|own| own != day) {
                return Err("day-of-year does not match day");
            }
            (self.month, self.day) = (Some(month), Some(day));
        }
        let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
        if !(1..=days_in_month(self.year, month)).contains(&day) {
            return Err("day out of range");
        }
        let utc = Time::from_civil(self.year, month, day, (self.hour, self.minute, self.second), self.nanos);
        if self.utc {
            return Ok(utc);
        }
        let zone_name = self.zone_name;
        if let Some(offset) = self.offset {
            let time = utc.add_seconds(-i64::from(offset));
            let is_local = offset == 0 && matches!(zone_name.as_str(), "" | "UTC");
            return Ok(if is_local { time } else { time.in_zone(Zone::fixed(&zone_name, offset)) });
        }
        if !zone_name.is_empty() {
            // An unknown zone keeps its name and counts as UTC, except for GMT with hours.
            let hours =
                zone_name.strip_prefix("GMT").and_then(|hours| hours.parse::<i32>().ok()).unwrap_or(0);
            return Ok(utc.in_zone(Zone::fixed(&zone_name, hours * 3600)));
        }
        Ok(utc)
    }
}

/// Converts a day of the year to month and day.
fn month_and_day(year: i64, year_day: i64) -> Option<(i64, i64)> {
    if year_day < 1 || year_day > 365 + i64::from(is_leap(year)) {
        return None;
    }
    let mut day = year_day;
    (1..=12).find_map(|month| {
        let days = days_in_month(year, month);
        if day <= days {
            return Some((month, day));
        }
        day -= days;
        None
    })
}

fn read_offset(form: Offset, value: &mut &[u8]) -> Result<i32, ElementError> {
    let len = 3 + if form.minutes { 2 } else { 0 } + if form.seconds { 2 } else { 0 };
    let colons = if form.colons { if form.seconds { 2 } else { 1 } } else { 0 };
    if value.len() < len + colons {
        return Err(ElementError::Bad);
    }
    if form.colons && (value.get(3) != Some(&b':') || (form.seconds && value.get(6) != Some(&b':'))) {
        return Err(ElementError::Bad);
    }
    let text = take(value, len + colons)?;
    let mut digits = text.get(1..).unwrap_or_default();
    let mut next = |wanted: bool, first: bool| {
        if !wanted {
            return Ok(0);
        }
        if form.colons && !first {
            take(&mut digits, 1)?;
        }
        let pair = take(&mut digits, 2)?;
        number(&mut &*pair, 2, true)
    };
    let parts = (|| Ok((next(true, true)?, next(form.minutes, false)?, next(form.seconds, false)?)))();
    let (hours, minutes, seconds) = parts?;
    // 24 and 60 are accepted, since some people write offsets of 24 hours.
    in_range(hours, 0..=24, "time zone offset hour")?;
    in_range(minutes, 0..=60, "time zone offset minute")?;
    in_range(seconds, 0..=60, "time zone offset second")?;
    let offset = i32::try_from((hours * 60 + minutes) * 60 + seconds).map_err(|_| ElementError::Bad)?;
    match text.first() {
        Some(b'+') => Ok(offset),
        Some(b'-') => Ok(-offset),
        _ => Err(ElementError::Bad),
    }
}

/// Returns the length of the zone abbreviation at the start.
fn zone_name_len(value: &[u8]) -> Option<usize> {
    if value.len() < 3 {
        return None;
    }
    if value.starts_with(b"ChST") || value.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = value.strip_prefix(b"GMT") {
        return Some(3 + signed_offset_len(rest).unwrap_or(0));
    }
    if value.starts_with(b"+") || value.starts_with(b"-") {
        return signed_offset_len(value);
    }
    let letters = value.iter().take(6).take_while(|b| b.is_ascii_uppercase()).count();
    match letters {
        3 => Some(3),
        4 if value.get(3) == Some(&b'T') || value.starts_with(b"WITA") => Some(4),
        5 if value.get(4) == Some(&b'T') => Some(5),
        _ => None,
    }
}

/// Returns the length of an offset such as `+3` or `-11`, up to 23 hours.
fn signed_offset_len(value: &[u8]) -> Option<usize> {
    let digits = value.strip_prefix(b"+").or_else(|| value.strip_prefix(b"-"))?;
    let (hours, rest) = leading_int(digits)?;
    (rest.len() < digits.len() && hours <= 23).then_some(value.len() - rest.len())
}
