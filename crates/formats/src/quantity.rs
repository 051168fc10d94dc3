//! Quantities such as `100m`, `1.5Gi` or `2e3`, and their canonical form in the API.

/// Decimal suffixes with their powers of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// Binary suffixes with their powers of 1024.
const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
/// One, in nanos, the smallest unit.
const NANO: i128 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// Returns the canonical form of a quantity in JSON, or `None` if the string is not a quantity.
#[must_use]
pub fn canonical(text: &str) -> Option<String> {
    // Go's JSON decoding of quantities, unlike `ParseQuantity`, ignores surrounding whitespace.
    let Parsed { nanos, format, huge, .. } = parse(text.trim())?;
    Some(match huge {
        Some((number, exponent)) => print_scaled(number, exponent, format),
        None => print(nanos, format),
    })
}

/// Whether a string is certainly in canonical form: a fast check with false negatives, never false positives.
#[must_use]
pub fn is_canonical(text: &str) -> bool {
    // Few enough digits that none of the suffixes below overflows.
    let digits = text.bytes().take(10).take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let Some(number) = number.parse::<u32>().ok().filter(|n| *n > 0 && digits < 10) else { return false };
    let step = match suffix {
        "n" | "u" | "m" | "" | "k" | "M" | "G" => 1000,
        "Ki" | "Mi" | "Gi" => 1024,
        _ => return false,
    };
    number % step != 0 && !text.starts_with('0')
}

/// Returns the amount in nanos, or 0 if the string is not a quantity.
#[must_use]
pub fn nanos(text: &str) -> i128 {
    parse(text).map_or(0, |parsed| parsed.nanos)
}

/// Returns the amount in whole units, rounded away from zero like the API does.
#[must_use]
pub fn whole(text: &str) -> i128 {
    let nanos = nanos(text);
    nanos / NANO + (nanos % NANO).signum()
}

/// Returns the canonical form of an amount in nanos, with binary or decimal suffixes.
#[must_use]
pub fn show(nanos: i128, binary: bool) -> String {
    print(nanos, if binary { Format::Binary } else { Format::Decimal })
}

/// Whether the string is a negative quantity.
#[must_use]
pub fn is_negative(text: &str) -> bool {
    nanos(text) < 0
}

/// Whether the string is a quantity of whole units, at a precision of one thousandth.
#[must_use]
pub fn is_whole(text: &str) -> bool {
    let nanos = nanos(text);
    // Fractions below a thousandth are rounded up to it.
    let thousandths = nanos / 1_000_000 + (nanos % 1_000_000).signum();
    thousandths % 1000 == 0
}

/// A quantity that supports arithmetic and comparison. Displays in canonical form.
///
/// ```
/// use steersman_formats::quantity::Quantity;
///
/// let half = Quantity::parse("512Mi").ok_or("not a quantity")?;
/// assert_eq!(half.plus(half).to_string(), "1Gi");
/// assert!(half < Quantity::parse("1e9").ok_or("not a quantity")?);
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    /// Number and power of ten, if the API stores it as an `int64Amount` rather than as an `inf.Dec`.
    amount: Option<(i64, i32)>,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::Decimal, amount: Some((0, 0)) };

    /// Parses a quantity; `None` if the string is not one. Fractions below a nano are rounded away from zero.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse(text).map(|Parsed { nanos, format, amount, .. }| Self { nanos, format, amount })
    }

    /// Returns a quantity for a number of objects.
    #[must_use]
    pub fn count(number: usize) -> Self {
        let nanos = i128::try_from(number).unwrap_or(i128::MAX).saturating_mul(NANO);
        Self { nanos, format: Format::Decimal, amount: i64::try_from(number).ok().map(|number| (number, 0)) }
    }

    /// Returns the sum, in the format of `self` unless that is zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        let amount = self.amount.zip(other.amount).and_then(|(a, b)| added(a, b));
        Self { nanos: self.nanos.saturating_add(other.nanos), format, amount }
    }

    /// Returns the difference, in the format of `self` unless that is zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let negated = other.amount.and_then(|(number, power)| Some((number.checked_neg()?, power)));
        self.plus(Self { nanos: other.nanos.saturating_neg(), amount: negated, ..other })
    }
}

impl Quantity {
    /// Returns the amount in nanos.
    #[must_use]
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Returns the amount as an integer if the API stores it as one: `1000m` and `1.0` are not.
    #[must_use]
    pub fn as_integer(self) -> Option<i64> {
        let (number, power) = self.amount?;
        scaled_up(number, u32::try_from(power).ok()?)
    }

    /// Returns the amount as a float, at float precision.
    #[must_use]
    pub fn as_approximate_float(self) -> f64 {
        match self.amount {
            Some((number, power)) => number as f64 * 10_f64.powi(power),
            None => self.nanos as f64 / NANO as f64,
        }
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Self {
        Self { nanos: i128::from(number) * NANO, format: Format::Exponent, amount: Some((number, 0)) }
    }
}

fn scaled_up(number: i64, power: u32) -> Option<i64> {
    number.checked_mul(10_i64.checked_pow(power)?)
}

/// Adds two numbers with powers of ten, at the smaller power; `None` on overflow.
fn added(a: (i64, i32), b: (i64, i32)) -> Option<(i64, i32)> {
    if a.0 == 0 || b.0 == 0 {
        return Some(if b.0 == 0 { a } else { b });
    }
    let power = a.1.min(b.1);
    let number = |(number, own): (i64, i32)| scaled_up(number, (own - power).unsigned_abs());
    Some((number(a)?.checked_add(number(b)?)?, power))
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print(self.nanos, self.format))
    }
}

/// A parsed quantity.
struct Parsed {
    /// The amount in nanos, capped at `LARGEST` in either direction.
    nanos: i128,
    format: Format,
    /// Number and power of ten of an amount beyond `LARGEST`.
    huge: Option<(i128, i32)>,
    amount: Option<(i64, i32)>,
}

/// Returns number and power of ten of a quantity that is short enough for the API's `int64Amount`.
fn amount(negative: bool, whole: &str, fraction: &str, suffix: Suffix) -> Option<(i64, i32)> {
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let (factor, power, format) = suffix;
    let digits = whole.len() + fraction.len();
    let few = match format {
        // 10 binary digits are about 3 decimal ones.
        Format::Binary => fraction.is_empty() && digits + factor.ilog2() as usize * 3 / 10 < 15,
        Format::Decimal | Format::Exponent => digits <= 18,
    };
    let power = power.checked_sub(i32::try_from(fraction.len()).ok()?).filter(|power| few && *power >= -9)?;
    let number =
        format!("{whole}{fraction}").parse::<i64>().ok()?.checked_mul(i64::try_from(factor).ok()?)?;
    Some((if negative { -number } else { number }, power))
}

/// Largest amount in nanos: a whole number, small enough that a million of them add up without overflow.
const LARGEST: i128 = (i128::MAX >> 20) / NANO * NANO;

fn parse(text: &str) -> Option<Parsed> {
    let end = text
        .char_indices()
        .find(|(i, c)| !(c.is_ascii_digit() || *c == '.' || (*i == 0 && matches!(c, '+' | '-'))))
        .map_or(text.len(), |(i, _)| i);
    let (number, suffix) = text.split_at(end);
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if text.is_empty() || fraction.contains('.') {
        return None;
    }
    let suffix = scale(suffix)?;
    let amount = amount(negative, whole, fraction, suffix);
    // A suffix without digits is zero, but only where the API stores it as an `int64Amount`.
    if amount.is_none() && whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (factor, exponent, format) = suffix;
    // All digits as one integer; the exponent below accounts for the decimal point.
    let mut mantissa: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        mantissa = mantissa.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
    }
    mantissa = mantissa.saturating_mul(factor);
    let exponent = exponent.saturating_sub(i32::try_from(fraction.len()).ok()?);
    let limit = i128::from(i64::MAX) * NANO;
    let mut nanos = match u32::try_from(exponent.saturating_add(9)) {
        Ok(_) if mantissa == 0 => Some(0),
        Ok(power) => 10_i128.checked_pow(power).and_then(|factor| mantissa.checked_mul(factor)),
        Err(_) => {
            // Fractions below a nano are rounded away from zero.
            let divisor = 10_i128.checked_pow((exponent + 9).unsigned_abs()).unwrap_or(i128::MAX);
            Some(mantissa / divisor + i128::from(mantissa % divisor != 0))
        }
    };
    if format == Format::Binary {
        // Binary quantities are capped at the maximum of int64, as in Kubernetes.
        nanos = Some(nanos.unwrap_or(limit).min(limit));
    }
    let nanos = nanos.filter(|nanos| *nanos <= LARGEST);
    let sign = if negative { -1 } else { 1 };
    let huge = nanos.is_none().then_some((sign * mantissa, exponent));
    Some(Parsed { nanos: sign * nanos.unwrap_or(LARGEST), format, huge, amount })
}

/// Factor, power of ten and format.
type Suffix = (i128, i32, Format);

fn scale(suffix: &str) -> Option<Suffix> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some((1, *exponent, Format::Decimal));
    }
    if let Some((_, power)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        return Some((1024_i128.pow(*power), 0, Format::Binary));
    }
    let digits = suffix.strip_prefix(['e', 'E'])?;
    Some((1, digits.parse().ok().filter(|e: &i32| e.abs() < 100_000)?, Format::Exponent))
}

fn print(nanos: i128, format: Format) -> String {
    if nanos == 0 {
        return "0".into();
    }
    // Fractions are written with decimal suffixes, so that no precision is lost.
    if format == Format::Binary && nanos.abs() >= 1024 * NANO && nanos % NANO == 0 {
        let mut number = nanos / NANO;
        let mut suffix = "";
        for (name, _) in BINARY {
            if number % 1024 != 0 {
                break;
            }
            number /= 1024;
            suffix = name;
        }
        return format!("{number}{suffix}");
    }
    print_scaled(nanos, -9, format)
}

/// Returns the canonical form of a non-zero number times a power of ten.
fn print_scaled(mut number: i128, mut exponent: i32, format: Format) -> String {
    while exponent % 3 != 0 {
        number = number.saturating_mul(10);
        exponent -= 1;
    }
    while number % 1000 == 0 && (exponent < 18 || format == Format::Exponent) {
        number /= 1000;
        exponent += 3;
    }
    if format == Format::Exponent {
        return if exponent == 0 { number.to_string() } else { format!("{number}e{exponent}") };
    }
    let suffix = DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| s);
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::{Quantity, canonical, is_canonical};

    #[test]
    fn what_is_canonical_at_a_glance_stays() {
        for number in [
            "0",
            "00",
            "1",
            "01",
            "7",
            "100",
            "999",
            "1000",
            "1001",
            "1024",
            "2048",
            "123456789",
            "1234567890",
        ] {
            for suffix in ["n", "u", "m", "", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "x", ".5", "e3"] {
                let text = format!("{number}{suffix}");
                assert!(!is_canonical(&text) || canonical(&text).as_deref() == Some(&text), "{text}");
            }
        }
        assert!(["100m", "64Mi", "128Mi", "1", "1500m"].into_iter().all(is_canonical));
    }

    #[test]
    fn one_form() {
        for (given, wanted) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("100Mi", "100Mi"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("0", "0"),
            ("0Ki", "0"),
            ("512", "512"),
            ("0.1Ki", "102400m"),
            ("1k", "1k"),
            ("1000k", "1M"),
            ("-5", "-5"),
            ("1.0", "1"),
            ("12345678", "12345678"),
            ("1E", "1E"),
            ("1e30", "1e30"),
            ("1e400", "10e399"),
            ("-1e400", "-10e399"),
            ("100E", "100E"),
            ("0e400", "0"),
            ("9223372036854775807Ei", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775808"),
            ("1e-400", "1e-9"),
            ("Gi", "0"),
            (".", "0"),
            ("-", "0"),
            ("m", "0"),
            ("1.0005Ki", "1024512m"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(wanted), "{given}");
        }
        for bad in ["", "a", "1x", "1.2.3", "Ei", "Pi", "1 Gi"] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
        assert_eq!(canonical(" 1000m\n").as_deref(), Some("1"));
        assert_eq!(Quantity::parse(" 1"), None);
    }

    #[test]
    fn numbers_come_out_of_it() {
        let read = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(read("2k").as_integer(), Some(2000));
        assert_eq!(read("1500m").as_integer(), None);
        assert_eq!(read("1500m").as_approximate_float(), 1.5);
        // `as_integer` depends on the API's representation, not on the value.
        for (text, whole) in [
            ("1", Some(1)),
            ("-7k", Some(-7000)),
            ("1e3", Some(1000)),
            ("2Mi", Some(2 << 20)),
            ("123456789012345678", Some(123_456_789_012_345_678)),
            ("000000000000000000012", Some(12)),
            ("1000m", None),
            ("1.0", None),
            ("1.5Mi", None),
            ("1Pi", None),
            ("99999999999Mi", None),
            ("1234567890123456789", None),
            ("10E", None),
        ] {
            assert_eq!(read(text).as_integer(), whole, "{text}");
        }
        let whole = |sum: Quantity| sum.as_integer();
        assert_eq!(whole(read("1k").plus(read("1"))), Some(1001));
        assert_eq!(whole(read("1").minus(read("1k"))), Some(-999));
        assert_eq!(whole(read("0").plus(read("2k"))), Some(2000));
        assert_eq!(whole(read("2k").minus(read("0"))), Some(2000));
        assert_eq!(whole(read("1").plus(read("1000m"))), None);
        assert_eq!(whole(read("1").plus(read("1.5Mi"))), None);
        assert_eq!(whole(Quantity::from(5).plus(Quantity::count(2))), Some(7));
        assert_eq!(read("-0.1n").nanos(), -1);
        assert_eq!(read("3").plus(4.into()), 7.into());
    }
}
