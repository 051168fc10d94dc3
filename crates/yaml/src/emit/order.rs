//! Order of keys: letters after everything else, and runs of digits by numeric value.

use super::Dialect;

fn is_letter(character: char) -> bool {
    character.is_ascii_alphabetic() || !character.is_ascii() && character.is_alphabetic()
}

fn is_digit(character: char) -> bool {
    // Go accepts any decimal digit of Unicode; those beyond ASCII are not worth a table.
    character.is_ascii_digit()
}

/// Whether key `a` sorts before key `b`.
///
/// The rule is not transitive: `a9` sorts before `a10`, `a10` before `a1b`, and `a1b` before `a9`.
pub(super) fn less(a: &str, b: &str, dialect: Dialect) -> bool {
    let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let common = (0..=common).rev().find(|&at| a.is_char_boundary(at) && b.is_char_boundary(at)).unwrap_or(0);
    let (prefix, rest_a) = a.split_at(common);
    let rest_b = b.get(common..).unwrap_or_default();
    let (Some(first_a), Some(first_b)) = (rest_a.chars().next(), rest_b.chars().next()) else {
        return rest_a.is_empty() && !rest_b.is_empty();
    };
    let (letter_a, letter_b) = (is_letter(first_a), is_letter(first_b));
    if letter_a && letter_b {
        return first_a < first_b;
    }
    if letter_a || letter_b {
        let behind_digit = dialect == Dialect::Pretty && prefix.chars().next_back().is_some_and(is_digit);
        return if behind_digit { letter_a } else { letter_b };
    }
    // A zero that follows other digits is part of their number, not the start of one.
    let within_number = (first_a == '0' || first_b == '0')
        && prefix.chars().rev().take_while(|&character| is_digit(character)).any(|digit| digit != '0');
    let (number_a, length_a) = number(rest_a, within_number);
    let (number_b, length_b) = number(rest_b, within_number);
    (number_a, length_a, first_a) < (number_b, length_b, first_b)
}

/// Parses the number at the start of a string, and returns it with its number of digits.
fn number(text: &str, within_number: bool) -> (i64, usize) {
    let mut value = i64::from(within_number);
    let mut length = 0;
    for digit in text.bytes().take_while(u8::is_ascii_digit) {
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
        length += 1;
    }
    (value, length)
}

/// Stable merge sort. The standard library's sorts may panic if the order is not total, as here.
pub(super) fn sort<T: Copy>(items: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let mut source = items.to_vec();
    let mut width = 1;
    while width < items.len() {
        for (from, to) in source.chunks(width * 2).zip(items.chunks_mut(width * 2)) {
            let (mut left, mut right) = from.split_at(width.min(from.len()));
            for slot in to {
                let take_right = match (left.first(), right.first()) {
                    (Some(left), Some(right)) => less(right, left),
                    (left, _) => left.is_none(),
                };
                let side = if take_right { &mut right } else { &mut left };
                if let Some((first, rest)) = side.split_first() {
                    *slot = *first;
                    *side = rest;
                }
            }
        }
        source.copy_from_slice(items);
        width *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(keys: &[&'static str], dialect: Dialect) -> Vec<&'static str> {
        let mut keys = keys.to_vec();
        sort(&mut keys, |a, b| less(a, b, dialect));
        keys
    }

    #[test]
    fn numbers_sort_by_value_and_letters_last() {
        assert_eq!(
            sorted(&["b", "10", "a", "9", "_", "A", "-", "é", "01", "1", ""], Dialect::Sigs),
            ["", "-", "_", "1", "01", "9", "10", "A", "a", "b", "é"]
        );
        assert_eq!(sorted(&["a1b", "a10", "a1_", "a"], Dialect::Sigs), ["a", "a1_", "a10", "a1b"]);
        assert_eq!(sorted(&["a10", "a1b"], Dialect::Pretty), ["a1b", "a10"]);
    }

    #[test]
    fn keys_without_an_order_do_no_harm() {
        let mut keys: Vec<String> =
            (0..200).flat_map(|n| [format!("a{n}"), format!("a{n}b"), format!("a{n}_")]).collect();
        let mut places: Vec<usize> = (0..keys.len()).collect();
        sort(&mut places, |&a, &b| less(&keys[a], &keys[b], Dialect::Sigs));
        places.sort_unstable();
        assert_eq!(places, (0..keys.len()).collect::<Vec<_>>());
        keys.clear();
    }
}
