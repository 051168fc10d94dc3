//! Arithmetic, rounding and sequences.

use steersman_gostd::strconv;
use steersman_gotemplate::{Budget, CallError, Funcs, List, ListType, Str, Value};

use super::args::define;
use super::cast::{nearest_int, to_float64, to_int64};
use super::decimal::Decimal;
use super::{Host, random};

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "atoi" (text: &Str) => Value::int(nearest_int(text));
        "int" (value: &Value) => Value::int(to_int64(value));
        "int64" (value: &Value) => Value::int64(to_int64(value));
        "float64" (value: &Value) => to_float64(value);
        "toDecimal" [budget] (value: &Value) =>
            Value::int64(strconv::parse_int(&budget.print(value)?, 8, 64).unwrap_or(0));
        "add1" (value: &Value) => Value::int64(to_int64(value).wrapping_add(1));
        "add" (; values: &[Value]) => Value::int64(values.iter().fold(0, |sum, value| sum.wrapping_add(to_int64(value))));
        "sub" (a: &Value, b: &Value) => Value::int64(to_int64(a).wrapping_sub(to_int64(b)));
        "mul" (first: &Value; values: &[Value]) =>
            Value::int64(values.iter().fold(to_int64(first), |product, value| product.wrapping_mul(to_int64(value))));
        "div" (a: &Value, b: &Value) => divide(a, b, i64::wrapping_div);
        "mod" (a: &Value, b: &Value) => divide(a, b, i64::wrapping_rem);
        "max" | "biggest" (first: &Value; values: &[Value]) =>
            Value::int64(values.iter().map(to_int64).fold(to_int64(first), i64::max));
        "min" (first: &Value; values: &[Value]) =>
            Value::int64(values.iter().map(to_int64).fold(to_int64(first), i64::min));
        "add1f" [budget] (value: &Value) => decimals(budget, to_float64(value), &[Value::int(1)], |a, b| Ok(a.add(&b)));
        "addf" [budget] (; values: &[Value]) => decimals(budget, 0.0, values, |a, b| Ok(a.add(&b)));
        "subf" [budget] (first: &Value; values: &[Value]) => decimals(budget, to_float64(first), values, |a, b| Ok(a.sub(&b)));
        "mulf" [budget] (first: &Value; values: &[Value]) => decimals(budget, to_float64(first), values, |a, b| Ok(a.mul(&b)));
        "divf" [budget] (first: &Value; values: &[Value]) => decimals(budget, to_float64(first), values, |a, b| {
            a.div(&b).ok_or_else(|| CallError::new("decimal division by 0"))
        });
        "maxf" (first: &Value; values: &[Value]) => values.iter().map(to_float64).fold(to_float64(first), go_max);
        "minf" (first: &Value; values: &[Value]) => values.iter().map(to_float64).fold(to_float64(first), go_min);
        "ceil" (value: &Value) => to_float64(value).ceil();
        "floor" (value: &Value) => to_float64(value).floor();
        "round" (value: &Value, places: i64; on: Vec<f64>) => round(to_float64(value), places, on.first().copied());
        "until" [budget] (count: i64) => steps(0, count, if count < 0 { -1 } else { 1 }).list(budget);
        "untilStep" [budget] (start: i64, stop: i64, step: i64) => steps(start, stop, step).list(budget);
        "seq" [budget] (; params: Vec<i64>) => seq(budget, &params);
        "randInt" [env] (min: i64, max: i64) => random::int(env, min, max).map(Value::int);
    });
}

fn divide(a: &Value, b: &Value, f: fn(i64, i64) -> i64) -> Result<Value, CallError> {
    match to_int64(b) {
        0 => Err(CallError::new("runtime error: integer divide by zero")),
        b => Ok(Value::int64(f(to_int64(a), b))),
    }
}

fn decimals(
    budget: &Budget,
    first: f64,
    rest: &[Value],
    f: impl Fn(Decimal, Decimal) -> Result<Decimal, CallError>,
) -> Result<f64, CallError> {
    let decimal = |n: f64| {
        Decimal::from_float(n).ok_or_else(|| {
            CallError::new(format!(
                "Cannot create a Decimal from {}",
                strconv::format_float(n, b'g', None, false)
            ))
        })
    };
    let mut result = decimal(first)?;
    for value in rest {
        // Products keep all their digits, so the cost grows.
        budget.charge_cost(2 + result.digits())?;
        result = f(result, decimal(to_float64(value))?)?;
    }
    Ok(result.to_float())
}

fn go_max(a: f64, b: f64) -> f64 {
    if a == f64::INFINITY || b == f64::INFINITY {
        f64::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() { b } else { a }
    } else {
        a.max(b)
    }
}

fn go_min(a: f64, b: f64) -> f64 {
    if a == f64::NEG_INFINITY || b == f64::NEG_INFINITY {
        f64::NEG_INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() { a } else { b }
    } else {
        a.min(b)
    }
}

fn round(n: f64, places: i64, on: Option<f64>) -> f64 {
    let pow = power_of_ten(places);
    let shifted = pow * n;
    let rounded = if shifted.fract() >= on.unwrap_or(0.5) { shifted.ceil() } else { shifted.floor() };
    rounded / pow
}

/// `math.Pow(10, places)` with Go's algorithm, since its result is not always the nearest double.
fn power_of_ten(places: i64) -> f64 {
    let (mut power, mut exponent) = (1.0_f64, 0_i32);
    let (mut square, mut square_exponent) = (0.625_f64, 4_i32);
    let mut left = places.unsigned_abs();
    while left != 0 {
        if square_exponent > 1 << 12 {
            exponent += square_exponent;
            break;
        }
        if left & 1 == 1 {
            power *= square;
            exponent += square_exponent;
        }
        square *= square;
        square_exponent <<= 1;
        if square < 0.5 {
            square += square;
            square_exponent -= 1;
        }
        left >>= 1;
    }
    if places < 0 {
        power = 1.0 / power;
        exponent = -exponent;
    }
    // In two steps, because 2^-1080 is not a double but 2^-540 is.
    power * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}

/// The numbers from `start` in steps of `step`.
struct Steps {
    start: i64,
    step: i64,
    count: u64,
}

/// Returns the numbers from `start` to `stop`, exclusive; none if `step` leads away from it.
fn steps(start: i64, stop: i64, step: i64) -> Steps {
    let leads_there = if stop < start { step < 0 } else { step > 0 };
    let count = if leads_there { stop.abs_diff(start).div_ceil(step.unsigned_abs()) } else { 0 };
    Steps { start, step, count }
}

impl Steps {
    fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    fn numbers(&self) -> impl Iterator<Item = i64> {
        std::iter::successors(Some(self.start), |n| n.checked_add(self.step)).take(self.count())
    }

    fn list(&self, budget: &Budget) -> Result<List, CallError> {
        budget.ensure_memory(self.count().saturating_mul(size_of::<Value>()))?;
        Ok(List::new(ListType::INT, self.numbers().map(Value::int).collect()))
    }

    /// Joins the numbers with spaces.
    fn text(&self, budget: &Budget) -> Result<String, CallError> {
        // Each takes at least a digit and a space.
        budget.ensure_memory(self.count().saturating_mul(2))?;
        let mut text = String::new();
        for (i, number) in self.numbers().enumerate() {
            if i > 0 {
                text.push(' ');
            }
            text.push_str(&number.to_string());
            budget.ensure_memory(text.len())?;
        }
        Ok(text)
    }
}

fn seq(budget: &Budget, params: &[i64]) -> Result<String, CallError> {
    let numbers = match *params {
        [end] => {
            let step = if end < 1 { -1 } else { 1 };
            steps(1, end.wrapping_add(step), step)
        }
        [start, end] => {
            let step = if end < start { -1 } else { 1 };
            steps(start, end.wrapping_add(step), step)
        }
        [start, step, end] if end < start => {
            if step > 0 {
                return Ok(String::new());
            }
            steps(start, end.wrapping_sub(1), step)
        }
        [start, step, end] => steps(start, end.wrapping_add(1), step),
        _ => return Ok(String::new()),
    };
    numbers.text(budget)
}
