//! Reading of cron's schedules, as far as it takes to say what is wrong with them.

use steersman_api::status::quote;

/// Words that stand for numbers.
type Words = &'static [(&'static str, u32)];

/// Fields of a schedule: smallest and largest number, and words.
const FIELDS: [(u32, u32, Words); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (
        1,
        12,
        &[
            ("jan", 1),
            ("feb", 2),
            ("mar", 3),
            ("apr", 4),
            ("may", 5),
            ("jun", 6),
            ("jul", 7),
            ("aug", 8),
            ("sep", 9),
            ("oct", 10),
            ("nov", 11),
            ("dec", 12),
        ],
    ),
    (0, 6, &[("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)]),
];

/// Says what is wrong with a schedule.
pub(super) fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut text = text;
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        let (zone, rest) = text.split_once(' ').unwrap_or((text, ""));
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if !matches!(zone, "UTC" | "Local" | "") && !is_zone(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        text = rest.trim();
    }
    if text.starts_with('@') {
        return descriptor(text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, (low, high, words)) in fields.into_iter().zip(FIELDS) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            range(part, low, high, words)?;
        }
    }
    Ok(())
}

/// Whether a name is that of a time zone. Where the machine knows no zones, those in known parts of the world are believed.
pub(super) fn is_zone(name: &str) -> bool {
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
    if jiff::tz::TimeZone::get(name).is_ok() {
        return true;
    }
    let blind = jiff::tz::TimeZone::get("Europe/London").is_err();
    blind
        && match name.split_once('/') {
            Some((area, place)) => {
                AREAS.contains(&area) && place.as_bytes().first().is_some_and(u8::is_ascii_uppercase)
            }
            None => matches!(name, "GMT" | "EST" | "MST" | "HST" | "CET" | "EET" | "MET" | "WET"),
        }
}

fn descriptor(text: &str) -> Result<(), String> {
    match text {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        _ => match text.strip_prefix("@every ") {
            Some(period) if is_duration(period) => Ok(()),
            Some(period) => {
                Err(format!("failed to parse duration {text}: time: invalid duration {}", quote(period)))
            }
            None => Err(format!("unrecognized descriptor: {text}")),
        },
    }
}

/// Whether Go reads the text as a duration.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut found = false;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        if digits.is_empty() || digits == "." || digits.matches('.').count() > 1 {
            return false;
        }
        let Some(unit) = ["ns", "us", "µs", "ms", "s", "m", "h"]
            .into_iter()
            .filter(|unit| after.starts_with(unit))
            .max_by_key(|unit| unit.len())
        else {
            return false;
        };
        rest = after.strip_prefix(unit).unwrap_or_default();
        found = true;
    }
    found
}

fn range(text: &str, low: u32, high: u32, words: &[(&str, u32)]) -> Result<(), String> {
    let number = |part: &str| -> Result<u32, String> {
        if let Some((_, value)) = words.iter().find(|(word, _)| part.eq_ignore_ascii_case(word)) {
            return Ok(*value);
        }
        let value: i64 = part.parse().map_err(|_| {
            format!("failed to parse int from {part}: strconv.Atoi: parsing {}: invalid syntax", quote(part))
        })?;
        u32::try_from(value).map_err(|_| format!("negative number ({value}) not allowed: {part}"))
    };
    let steps: Vec<&str> = text.split('/').collect();
    let bounds: Vec<&str> = steps.first().copied().unwrap_or_default().split('-').collect();
    let single = bounds.len() == 1;
    let (start, mut end) = match bounds.as_slice() {
        ["*" | "?", ..] => (low, high),
        [start] => {
            let start = number(start)?;
            (start, start)
        }
        [start, end] => (number(start)?, number(end)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if single {
                end = high;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {text}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn faults_are_named() {
        for good in ["* * * * *", "*/5 0 1-3 jan,feb 1-5", "@daily", "@every 1h30m", "TZ=UTC 0 0 * * *"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("nonsense", "expected exactly 5 fields, found 1: [nonsense]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("@often", "unrecognized descriptor: @often"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ] {
            assert_eq!(check(bad).unwrap_err(), why, "{bad}");
        }
    }
}
