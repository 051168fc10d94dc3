//! Large random primes, found fast: a sieve leaves few candidates, and those are tested in Montgomery form.
//!
//! The crates that find primes work in constant time, which costs more than twice as much. Keys that a chart generates
//! end up in a manifest, so there is no timing to hide.

use std::sync::LazyLock;

use num_bigint::BigUint;

use crate::environment::Environment;

/// How many random bases a prime must pass beside 2. With candidates drawn at random, fewer would do.
const BASES: usize = 4;

/// Where to look for a prime. All that is random is drawn here, so that several searches can run at once and a seed
/// still repeats.
pub(super) struct Search {
    /// Odd, of exactly the size wanted, with its two highest bits set.
    start: BigUint,
    bits: usize,
    bases: [u64; BASES],
}

impl Search {
    /// A search for a prime of so many bits, a multiple of 64 up to 2048.
    pub(super) fn new(env: &mut dyn Environment, bits: usize) -> Self {
        let mut bytes = vec![0; bits / 8];
        env.fill_random(&mut bytes);
        if let Some(first) = bytes.first_mut() {
            *first |= 0b1100_0000;
        }
        if let Some(last) = bytes.last_mut() {
            *last |= 1;
        }
        Self { start: BigUint::from_bytes_be(&bytes), bits, bases: bases(env) }
    }

    /// The first prime from the start on that `accept` takes.
    pub(super) fn run(&self, accept: impl Fn(&BigUint) -> bool) -> BigUint {
        const WINDOW: usize = 4096;
        let mut base = self.start.clone();
        loop {
            let mut composite = [false; WINDOW];
            for prime in SMALL_PRIMES.iter().copied() {
                // The first k with `base + 2k` divisible.
                let missing = prime - remainder(&base, prime);
                let first =
                    if missing.is_multiple_of(2) { missing / 2 } else { (missing + prime) / 2 } % prime;
                for slot in composite.iter_mut().skip(first as usize).step_by(prime as usize) {
                    *slot = true;
                }
            }
            for (k, _) in composite.iter().enumerate().filter(|(_, composite)| !**composite) {
                let candidate = &base + 2 * k;
                if accept(&candidate) && is_prime(&candidate, &self.bases) {
                    return candidate;
                }
            }
            base += 2 * WINDOW;
            if base.bits() > self.bits as u64 {
                base = (BigUint::from(3u32) << (self.bits - 2)) + 1u32;
            }
        }
    }
}

/// Random bases to test with.
pub(super) fn bases(env: &mut dyn Environment) -> [u64; BASES] {
    std::array::from_fn(|_| {
        let mut bytes = [0; 8];
        env.fill_random(&mut bytes);
        u64::from_le_bytes(bytes).max(3)
    })
}

/// The odd primes below 2^16.
static SMALL_PRIMES: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut composite = vec![false; 1 << 16];
    let mut primes = Vec::with_capacity(6541);
    for n in (3usize..1 << 16).step_by(2) {
        if composite.get(n) == Some(&false) {
            primes.push(n as u32);
            for slot in composite.iter_mut().skip(n * n).step_by(n) {
                *slot = true;
            }
        }
    }
    primes
});

fn remainder(n: &BigUint, prime: u32) -> u32 {
    let prime = u64::from(prime);
    n.iter_u32_digits().rev().fold(0u64, |rest, digit| (rest << 32 | u64::from(digit)) % prime) as u32
}

/// Whether any small prime divides `n`.
pub(super) fn has_small_factor(n: &BigUint) -> bool {
    SMALL_PRIMES.iter().any(|prime| remainder(n, *prime) == 0)
}

/// Whether an odd `n`, whose size is a multiple of 64 bits, passes the strong test with base 2 and these bases.
pub(super) fn is_prime(n: &BigUint, bases: &[u64]) -> bool {
    match n.bits() {
        256 => passes::<4>(n, bases),
        1024 => passes::<16>(n, bases),
        2048 => passes::<32>(n, bases),
        _ => false,
    }
}

fn passes<const N: usize>(n: &BigUint, bases: &[u64]) -> bool {
    let Some(modulus) = Montgomery::<N>::new(n) else { return false };
    let less_one = n - 1u32;
    let twos = less_one.trailing_zeros().unwrap_or(0);
    let odd = &less_one >> twos;
    if cfg!(debug_assertions) {
        // In debug builds num-bigint, which is optimised even there, is the faster one. The answer is the same.
        return std::iter::once(2).chain(bases.iter().copied()).all(|base| {
            let mut power = BigUint::from(base).modpow(&odd, n);
            let one = BigUint::from(1u32);
            power == one
                || (0..twos).any(|_| {
                    let found = power == less_one;
                    power = &power * &power % n;
                    found
                })
        });
    }
    std::iter::once(2)
        .chain(bases.iter().copied())
        .all(|base| modulus.is_strong_probable_prime(base, &odd, twos))
}

/// Arithmetic modulo an odd number of exactly N words, its highest bit set. Numbers are held multiplied by 2^64N.
struct Montgomery<const N: usize> {
    modulus: [u64; N],
    /// `-modulus^-1` modulo 2^64.
    inverse: u64,
    one: [u64; N],
}

/// Room for a product of the largest numbers.
type Product = [u64; 64];

/// Adds `a * factor` to `sum`, which is as long, and gives the carry.
#[inline(always)]
fn add_row(sum: &mut [u64], a: &[u64], factor: u64) -> u64 {
    let mut carry = 0;
    for (sum, a) in sum.iter_mut().zip(a) {
        let wide = u128::from(*sum) + u128::from(*a) * u128::from(factor) + u128::from(carry);
        *sum = wide as u64;
        carry = (wide >> 64) as u64;
    }
    carry
}

impl<const N: usize> Montgomery<N> {
    fn new(n: &BigUint) -> Option<Self> {
        let modulus: [u64; N] = n.to_u64_digits().try_into().ok()?;
        let first = modulus[0];
        // Newton's iteration doubles the bits that are right.
        let inverse = (0..6).fold(1u64, |x, _| x.wrapping_mul(2u64.wrapping_sub(first.wrapping_mul(x))));
        let mut one = [0; N];
        // 2^64N less the modulus, which is more than half of it.
        let mut borrow = false;
        for (one, digit) in one.iter_mut().zip(modulus) {
            let (rest, first) = 0u64.overflowing_sub(digit);
            let (rest, second) = rest.overflowing_sub(u64::from(borrow));
            (*one, borrow) = (rest, first | second);
        }
        Some(Self { modulus, inverse: inverse.wrapping_neg(), one })
    }

    /// The number less the modulus if it is not below it; `carry` is its word beyond the highest.
    #[inline(always)]
    fn reduced(&self, number: [u64; N], carry: u64) -> [u64; N] {
        let mut less = [0; N];
        let mut borrow = false;
        for ((less, digit), modulus) in less.iter_mut().zip(number).zip(self.modulus) {
            let (rest, first) = digit.overflowing_sub(modulus);
            let (rest, second) = rest.overflowing_sub(u64::from(borrow));
            (*less, borrow) = (rest, first | second);
        }
        if carry != 0 || !borrow { less } else { number }
    }

    fn double(&self, number: &[u64; N]) -> [u64; N] {
        let mut twice = [0; N];
        let mut carry = 0;
        for (twice, digit) in twice.iter_mut().zip(number) {
            *twice = digit << 1 | carry;
            carry = digit >> 63;
        }
        self.reduced(twice, carry)
    }

    /// A product of two numbers brought back below the modulus.
    #[inline(always)]
    fn reduce(&self, product: &mut Product) -> [u64; N] {
        let mut carry = 0;
        for i in 0..N {
            let factor = product[i].wrapping_mul(self.inverse);
            let row = add_row(&mut product[i..i + N], &self.modulus, factor);
            let (sum, first) = product[i + N].overflowing_add(row);
            let (sum, second) = sum.overflowing_add(carry);
            product[i + N] = sum;
            carry = u64::from(first) + u64::from(second);
        }
        let mut high = [0; N];
        high.copy_from_slice(&product[N..2 * N]);
        self.reduced(high, carry)
    }

    fn multiply(&self, a: &[u64; N], b: &[u64; N]) -> [u64; N] {
        let mut product = [0; 64];
        for (i, digit) in b.iter().enumerate() {
            product[i + N] = add_row(&mut product[i..i + N], a, *digit);
        }
        self.reduce(&mut product)
    }

    fn square(&self, a: &[u64; N]) -> [u64; N] {
        let mut product: Product = [0; 64];
        for i in 0..N - 1 {
            product[i + N] = add_row(&mut product[2 * i + 1..i + N], &a[i + 1..], a[i]);
        }
        let (mut carry, mut shifted) = (0u64, 0u64);
        for (i, digit) in a.iter().enumerate() {
            let square = u128::from(*digit) * u128::from(*digit);
            for (j, square) in [(2 * i, square as u64), (2 * i + 1, (square >> 64) as u64)] {
                let digit = product[j];
                let wide = u128::from(digit << 1 | shifted) + u128::from(square) + u128::from(carry);
                shifted = digit >> 63;
                product[j] = wide as u64;
                carry = (wide >> 64) as u64;
            }
        }
        self.reduce(&mut product)
    }

    /// Whether `base^odd` is 1, or one of its first `twos` squares is -1.
    fn is_strong_probable_prime(&self, base: u64, odd: &BigUint, twos: u64) -> bool {
        let base_form = (0..64).rev().fold([0; N], |form, bit| {
            let form = self.double(&form);
            if base >> bit & 1 == 1 { self.sum(&form, &self.one) } else { form }
        });
        let mut power = self.one;
        for bit in (0..odd.bits()).rev() {
            power = self.square(&power);
            if odd.bit(bit) {
                power = if base == 2 { self.double(&power) } else { self.multiply(&power, &base_form) };
            }
        }
        let is_minus_one = |power: &[u64; N]| self.sum(power, &self.one) == [0; N];
        if power == self.one || is_minus_one(&power) {
            return true;
        }
        for _ in 1..twos {
            power = self.square(&power);
            if is_minus_one(&power) {
                return true;
            }
        }
        false
    }

    fn sum(&self, a: &[u64; N], b: &[u64; N]) -> [u64; N] {
        let mut sum = [0; N];
        let mut carry = false;
        for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
            let (digit, first) = a.overflowing_add(*b);
            let (digit, second) = digit.overflowing_add(u64::from(carry));
            (*sum, carry) = (digit, first | second);
        }
        self.reduced(sum, u64::from(carry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::Seeded;

    #[test]
    fn montgomery_agrees_with_plain_arithmetic() {
        let mut env = Seeded::new(7);
        for _ in 0..20 {
            let n = Search::new(&mut env, 256).start;
            let modulus = Montgomery::<4>::new(&n).unwrap();
            let r: BigUint = BigUint::from(1u32) << 256;
            let inverse = r.modinv(&n).unwrap();
            let a = Search::new(&mut env, 256).start % &n;
            let digits = |n: &BigUint| -> [u64; 4] {
                let mut digits = n.to_u64_digits();
                digits.resize(4, 0);
                digits.try_into().unwrap()
            };
            assert_eq!(digits(&(&r % &n)), modulus.one);
            assert_eq!(digits(&(&a * &a * &inverse % &n)), modulus.square(&digits(&a)));
            assert_eq!(digits(&(&a * &a * &inverse % &n)), modulus.multiply(&digits(&a), &digits(&a)));
            assert_eq!(digits(&((&a + &a) % &n)), modulus.double(&digits(&a)));
        }
        let prime = (BigUint::from(1u32) << 256) - 189u32;
        let composite = (BigUint::from(1u32) << 256) - 187u32;
        for (n, is_prime) in [(prime, true), (composite, false)] {
            let less_one: BigUint = &n - 1u32;
            let twos = less_one.trailing_zeros().unwrap();
            let odd = less_one >> twos;
            let modulus = Montgomery::<4>::new(&n).unwrap();
            for base in [2, 3, 0xDEAD_BEEF_0000_0001] {
                assert_eq!(modulus.is_strong_probable_prime(base, &odd, twos), is_prime);
            }
        }
    }

    #[test]
    fn primes_are_told_from_composites() {
        let mersenne_like = (BigUint::from(1u32) << 256) - 189u32;
        assert!(is_prime(&mersenne_like, &[3, 5, 7]));
        assert!(!is_prime(&((BigUint::from(1u32) << 256) - 187u32), &[3, 5, 7]));
        let mut env = Seeded::new(1);
        let prime = Search::new(&mut env, 256).run(|_| true);
        assert_eq!(prime.bits(), 256);
        assert!(!has_small_factor(&prime));
        // By Fermat's little theorem, computed another way.
        assert_eq!(BigUint::from(3u32).modpow(&(&prime - 1u32), &prime), BigUint::from(1u32));
    }

    /// A number of Carmichael's: every base passes Fermat's test on it, and it is no prime.
    const CARMICHAEL: &[u8; 64] = b"80a1aeea4b19d801128fbeadcd80371bec6b3a5119beee87946cde415951aac1";

    #[test]
    fn a_number_that_passes_fermats_test_alone_is_no_prime() {
        let n = BigUint::parse_bytes(CARMICHAEL, 16).unwrap();
        let less_one: BigUint = &n - 1u32;
        assert_eq!(BigUint::from(3u32).modpow(&less_one, &n), BigUint::from(1u32));
        assert!(!is_prime(&n, &[]) && !is_prime(&n, &[3, 5, 7]));
        let twos = less_one.trailing_zeros().unwrap();
        let odd = less_one >> twos;
        let modulus = Montgomery::<4>::new(&n).unwrap();
        // Some bases pass the strong test too, their power being 1 or -1 at once.
        for (base, passes) in [(2, false), (5, false), (7, false), (3, true), (9, true)] {
            assert_eq!(modulus.is_strong_probable_prime(base, &odd, twos), passes, "{base}");
        }
        assert!(!is_prime(&BigUint::from(7u32), &[3]), "of another size");
    }

    #[test]
    fn small_primes_are_all_there() {
        assert_eq!(SMALL_PRIMES.len(), 6541);
        assert_eq!((SMALL_PRIMES.first(), SMALL_PRIMES.last()), (Some(&3), Some(&65_521)));
        assert!(SMALL_PRIMES.iter().all(|n| (3..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0)));
        let n = BigUint::parse_bytes(CARMICHAEL, 16).unwrap();
        for prime in [3u32, 17, 65_521] {
            assert_eq!(BigUint::from(remainder(&n, prime)), &n % prime);
        }
        let prime = (BigUint::from(1u32) << 256) - 189u32;
        assert!(!has_small_factor(&prime));
        assert!(has_small_factor(&(&prime * 3u32)) && has_small_factor(&(&prime * 65_521u32)));
    }

    #[test]
    fn a_search_begins_with_an_odd_number_of_its_size() {
        let mut env = Seeded::new(9);
        for bits in [256, 1024] {
            let search = Search::new(&mut env, bits);
            assert_eq!(search.start.bits(), bits as u64);
            assert!(search.start.bit(bits as u64 - 2) && search.start.bit(0));
            assert!(search.bases.iter().all(|base| *base >= 3));
        }
        // It takes the first prime from there on that suits.
        let start: BigUint = (BigUint::from(1u32) << 256) - 30_001u32;
        let search = Search { start: start.clone(), bits: 256, bases: [3, 5, 7, 11] };
        let first = search.run(|_| true);
        let mut candidate = start;
        while !is_prime(&candidate, &[3, 5, 7]) {
            candidate += 2u32;
        }
        assert_eq!(first, candidate);
        assert!(search.run(|prime| *prime != first) > first);
        // Beyond the largest it starts over.
        let last = Search { start: (BigUint::from(1u32) << 256) - 1u32, bits: 256, bases: [3, 5, 7, 11] };
        let wrapped = last.run(|_| true);
        assert!(wrapped.bits() == 256 && wrapped.bit(254) && is_prime(&wrapped, &[13]));
    }
}
