//! Time layouts, times and durations.

use super::Gen;

const CHUNKS: &[&str] = &[
    "January",
    "Jan",
    "1",
    "01",
    "Monday",
    "Mon",
    "2",
    "_2",
    "02",
    "002",
    "__2",
    "15",
    "3",
    "03",
    "4",
    "04",
    "5",
    "05",
    "2006",
    "06",
    "PM",
    "pm",
    "MST",
    "Z0700",
    "Z070000",
    "Z07",
    "Z07:00",
    "Z07:00:00",
    "-0700",
    "-070000",
    "-07",
    "-07:00",
    "-07:00:00",
    ".000",
    ".999",
    ",000",
    ",999",
    ".0",
    ".9",
    ".000000",
    ".999999999",
    "_2006",
    "20060102",
    "Janu",
    "Januar",
    "JAN",
    "th",
    "Mo",
    "00",
    "0",
    "7",
    "16",
];

/// Time zones with all forms of offsets.
pub const ZONES: &[&str] = &[
    "UTC",
    "",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Africa/Monrovia",
    "Etc/GMT+5",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Local",
    "Nowhere/Land",
];

/// Generates a layout: a well-known one, or random chunks.
pub fn layout(g: &mut Gen) -> String {
    if g.chance(25) {
        return g
            .pick(&[
                "2006-01-02T15:04:05Z07:00",
                "2006-01-02T15:04:05.999999999Z07:00",
                "Mon, 02 Jan 2006 15:04:05 -0700",
                "Mon Jan _2 15:04:05 2006",
                "3:04PM",
                "02 Jan 06 15:04 MST",
                "2006-01-02",
                "20060102150405",
                "Monday, 02-Jan-06 15:04:05 MST",
                "2006-01-02 15:04:05.000",
                "",
            ])
            .to_owned();
    }
    g.join(1, 7, "", |g| {
        let separator = g.pick(&["", "", "-", " ", ":", "/", "T", ", ", ".", "at ", "é", "_"]).to_owned();
        separator + g.pick(CHUNKS)
    })
}

/// Generates seconds since 1970, including the distant past and future.
pub fn unix(g: &mut Gen) -> i64 {
    match g.below(8) {
        0 => *g.one(&[
            0,
            -1,
            951_782_400,
            1_709_164_800,
            1_711_846_800,
            1_729_994_400,
            253_402_300_799,
            -62_135_596_800,
        ]),
        1 => g.between(-3_000_000_000, 0),
        _ => g.between(0, 4_000_000_000),
    }
}

/// Generates a Go duration, or something similar.
pub fn duration(g: &mut Gen) -> String {
    if g.chance(15) {
        return g
            .pick(&["", "1", "h", "1x", "1h2", "--1h", ".h", "1.5.5h", "0", "+", "1 h", "99999999h"])
            .to_owned();
    }
    let sign = g.pick(&["", "", "-", "+"]).to_owned();
    sign + &g.join(1, 3, "", |g| {
        let n = g.pick(&["1", "24", "0.5", "1.25", "90", "3600", ".5", "100"]).to_owned();
        n + g.pick(&["h", "m", "s", "ms", "us", "µs", "ns"])
    })
}
