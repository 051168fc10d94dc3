//! Random numbers, strings and identifiers, all drawn from the environment.

use steersman_gotemplate::{Budget, CallError, Funcs, Str};

use super::args::define;
use super::{Host, encoding, unicode};
use crate::environment::Environment;

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "randAlphaNum" [env, budget] (count: i64) => string(env, budget, count, ALPHANUMERIC);
        "randAlpha" [env, budget] (count: i64) => string(env, budget, count, ALPHABETIC);
        "randNumeric" [env, budget] (count: i64) => string(env, budget, count, NUMERIC);
        "randAscii" [env, budget] (count: i64) => string(env, budget, count, ASCII);
        "randBytes" [env, budget] (count: i64) => bytes(env, budget, count);
        "shuffle" [env, budget] (text: &Str) => {
            // A number is drawn for each character.
            budget.charge_cost(text.len().saturating_mul(8))?;
            budget.ensure_memory(text.len().saturating_mul(size_of::<char>()))?;
            shuffle(env, text)
        };
        "uuidv4" [env] () => uuid(env);
    });
}

const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ALPHABETIC: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const NUMERIC: &[u8] = b"0123456789";
/// The printable characters, space included.
const ASCII: &[u8] =
    b" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";

/// A number below `bound`, each as likely as the others; 0 if the bound is 0.
pub(super) fn below(env: &mut dyn Environment, bound: u64) -> u64 {
    if bound == 0 {
        return 0;
    }
    // Numbers above the last multiple of the bound would favour the small ones.
    let last = u64::MAX - (u64::MAX % bound + 1) % bound;
    loop {
        let mut bytes = [0; 8];
        env.fill_random(&mut bytes);
        let n = u64::from_le_bytes(bytes);
        if n <= last {
            return n % bound;
        }
    }
}

/// A number from `min` up to but not including `max`.
pub(super) fn int(env: &mut dyn Environment, min: i64, max: i64) -> Result<i64, CallError> {
    // The difference wraps in Go too.
    match u64::try_from(max.wrapping_sub(min)) {
        Ok(bound) if bound > 0 => Ok(min.wrapping_add(i64::try_from(below(env, bound)).unwrap_or(0))),
        _ => Err(CallError::new("invalid argument to Intn")),
    }
}

fn string(
    env: &mut dyn Environment,
    budget: &Budget,
    count: i64,
    alphabet: &[u8],
) -> Result<Vec<u8>, CallError> {
    let Ok(count) = usize::try_from(count) else { return Ok(Vec::new()) };
    charge(budget, count)?;
    let mut out = Vec::with_capacity(count);
    let mut pool = [0; 256];
    // Bytes above the last multiple of the alphabet's length would favour its first characters.
    let fair = 256 - 256 % alphabet.len().max(1);
    while out.len() < count {
        let wanted = pool.len().min(2 * (count - out.len()));
        let Some(pool) = pool.get_mut(..wanted) else { break };
        env.fill_random(pool);
        let picks = pool.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < fair);
        let missing = count - out.len();
        out.extend(picks.filter_map(|byte| alphabet.get(byte % alphabet.len())).take(missing));
    }
    Ok(out)
}

/// Charges for so many random bytes, and fails unless the text of them fits.
fn charge(budget: &Budget, count: usize) -> Result<(), CallError> {
    budget.ensure_memory(count.saturating_mul(2))?;
    Ok(budget.charge_cost(count / 8)?)
}

fn bytes(env: &mut dyn Environment, budget: &Budget, count: i64) -> Result<String, CallError> {
    let count =
        usize::try_from(count).map_err(|_| CallError::new("runtime error: makeslice: len out of range"))?;
    charge(budget, count)?;
    let mut bytes = vec![0; count];
    env.fill_random(&mut bytes);
    Ok(encoding::base64(&bytes))
}

fn shuffle(env: &mut dyn Environment, text: &[u8]) -> Vec<u8> {
    let mut chars: Vec<char> = unicode::chars(text).map(|(c, _)| c).collect();
    for i in (1..chars.len()).rev() {
        let j = below(env, i as u64 + 1);
        chars.swap(i, usize::try_from(j).unwrap_or(i));
    }
    chars.into_iter().collect::<String>().into_bytes()
}

fn uuid(env: &mut dyn Environment) -> String {
    let mut bytes = [0; 16];
    env.fill_random(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
