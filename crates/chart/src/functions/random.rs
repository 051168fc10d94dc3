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

/// Returns a uniformly distributed number below `bound`; 0 if the bound is 0.
pub(super) fn below(env: &mut dyn Environment, bound: u64) -> u64 {
    if bound == 0 {
        return 0;
    }
    // Numbers above the last multiple of the bound would favour small results.
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

/// Returns a number from `min` to `max`, exclusive.
pub(super) fn int(env: &mut dyn Environment, min: i64, max: i64) -> Result<i64, CallError> {
    // As in Go, the difference wraps.
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

/// Charges for `count` random bytes, and fails unless their encoded text fits.
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use steersman_gotemplate::Limits;

    use super::*;

    /// Supplies these bytes repeatedly.
    struct RepeatedBytes(Vec<u8>, usize);

    impl Environment for RepeatedBytes {
        fn now(&mut self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }
        fn fill_random(&mut self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0[self.1 % self.0.len()];
                self.1 += 1;
            }
        }
        fn resolve_host(&mut self, _: &str) -> Vec<String> {
            Vec::new()
        }
        fn lookup(
            &mut self,
            _: &str,
            _: &str,
            _: &str,
            _: &str,
        ) -> Result<Option<serde_json::Value>, String> {
            Ok(None)
        }
    }

    fn given(numbers: &[u64]) -> RepeatedBytes {
        RepeatedBytes(numbers.iter().flat_map(|n| n.to_le_bytes()).collect(), 0)
    }

    #[test]
    fn numbers_that_would_favour_some_are_drawn_again() {
        assert_eq!(below(&mut given(&[5]), 0), 0);
        assert_eq!(below(&mut given(&[123]), 10), 3);
        assert_eq!(below(&mut given(&[u64::MAX, 4]), 10), 4);
        // The last multiple of ten that fits is followed by six numbers.
        assert_eq!(below(&mut given(&[u64::MAX - 6, 4]), 10), 9);
        assert_eq!(below(&mut given(&[u64::MAX - 5, 4]), 10), 4);
        assert_eq!(below(&mut given(&[u64::MAX, 4]), 16), 15);
        assert_eq!(below(&mut given(&[u64::MAX, 4]), 1), 0);
    }

    #[test]
    fn numbers_lie_between_their_bounds() {
        let drawn = |n: u64, min, max| int(&mut given(&[n]), min, max).map_err(|error| error.to_string());
        assert_eq!(drawn(0, 3, 9), Ok(3));
        assert_eq!(drawn(5, 3, 9), Ok(8));
        assert_eq!(drawn(6, 3, 9), Ok(3));
        assert_eq!(drawn(1, -5, 5), Ok(-4));
        for (min, max) in [(3, 3), (9, 3), (i64::MIN, i64::MAX)] {
            assert_eq!(drawn(0, min, max), Err("invalid argument to Intn".into()), "{min} {max}");
        }
    }

    #[test]
    fn letters_are_picked_by_bytes_that_favour_none() {
        let budget = Budget::new(Limits::default());
        let picked = |bytes: &[u8], count: i64, alphabet: &[u8]| {
            let text = string(&mut RepeatedBytes(bytes.to_vec(), 0), &budget, count, alphabet).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(picked(&[0, 9, 10, 249], 4, NUMERIC), "0909");
        assert_eq!(picked(&[250, 255, 7], 3, NUMERIC), "777");
        assert_eq!(picked(&[1], 0, NUMERIC), "");
        assert_eq!(picked(&[1], -1, NUMERIC), "");
        assert_eq!(picked(&[1], 1000, NUMERIC), "1".repeat(1000));
        assert_eq!(picked(&[0, 25, 26, 51], 4, ALPHABETIC), "AZaz");
        assert_eq!(picked(&[0, 10, 36, 61], 4, ALPHANUMERIC), "0Aaz");
        assert_eq!(picked(&[0, 94], 2, ASCII), " ~");
    }

    #[test]
    fn bytes_texts_and_identifiers() {
        let budget = Budget::new(Limits::default());
        assert_eq!(bytes(&mut RepeatedBytes(vec![b'f', b'o', b'o'], 0), &budget, 3).unwrap(), "Zm9v");
        assert_eq!(bytes(&mut given(&[1]), &budget, 0).unwrap(), "");
        assert!(bytes(&mut given(&[1]), &budget, -1).is_err());
        // Each character is swapped with one before it, or with itself.
        assert_eq!(shuffle(&mut given(&[0]), "ab\u{e9}d".as_bytes()), "b\u{e9}da".as_bytes());
        assert_eq!(shuffle(&mut given(&[3, 2, 1]), b"abcd"), b"abcd");
        assert_eq!(shuffle(&mut given(&[0]), b""), b"");
        let uuid = uuid(&mut RepeatedBytes(vec![0xFF], 0));
        assert_eq!(uuid, "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn random_texts_are_charged() {
        let budget = Budget::new(Limits { memory: 100, ..Limits::default() });
        let drawn = |count| string(&mut given(&[1]), &budget, count, NUMERIC);
        assert_eq!(drawn(50).unwrap().len(), 50);
        assert_eq!(budget.cost(), 50 / 8);
        assert!(drawn(51).is_err());
    }
}
