//! A compact map of strings.

use std::fmt;

/// A map of strings, such as labels, in two allocations: objects have few labels, but there are many objects.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pairs {
    text: Box<str>,
    /// End offsets of each name and each value.
    ends: Box<[u32]>,
}

impl Pairs {
    /// Returns the value for `name`.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Iterates over all pairs.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        let mut next = move |end: u32| {
            let end = end as usize;
            self.text.get(std::mem::replace(&mut start, end)..end).unwrap_or_default()
        };
        self.ends.chunks_exact(2).map(move |pair| (next(pair[0]), next(pair[1])))
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (key, value) in pairs {
            for part in [key.as_ref(), value.as_ref()] {
                text.push_str(part);
                // Objects are a few megabytes at most.
                ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            }
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Pairs;

    #[test]
    fn texts_are_found_by_name() {
        let pairs: Pairs = [("a", "1"), ("", ""), ("bc", "")].into_iter().collect();
        assert_eq!((pairs.get("a"), pairs.get(""), pairs.get("bc")), (Some("1"), Some(""), Some("")));
        assert_eq!((pairs.get("b"), Pairs::default().get("")), (None, None));
        assert_eq!(pairs.iter().count(), 3);
    }
}
