//! Indexes of an Indexed Job: the completed and the failed ones, and whether the completed ones suffice.

use std::collections::BTreeMap;

use k8s_openapi::api::{batch::v1::SuccessPolicy, core::v1::Pod};
use kube::ResourceExt as _;

/// Annotation with a pod's index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotation with the number of earlier pods of the same index that failed.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// Returns the index of a pod.
pub(super) fn of(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX)?.parse().ok()
}

/// Returns the number of earlier pods of the same index that failed.
pub(super) fn failures_before(pod: &Pod) -> i32 {
    pod.annotations().get(FAILURES).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns the first rule of a success policy that the completed indexes satisfy.
pub(super) fn rule_met(policy: &SuccessPolicy, done: &Indexes) -> Option<usize> {
    policy.rules.iter().position(|rule| {
        let listed = rule.succeeded_indexes.as_deref().map(Indexes::parse);
        let counted = listed.as_ref().map_or(done.len(), |listed| listed.common(done));
        match (rule.succeeded_count, &listed) {
            (Some(least), _) => counted >= i64::from(least),
            (None, Some(listed)) => counted == listed.len(),
            (None, None) => false,
        }
    })
}

/// A set of indexes, stored as ranges: a short string can name billions of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Indexes {
    /// First and last index of each range. Ranges neither overlap nor touch.
    ranges: BTreeMap<i32, i32>,
}

impl Indexes {
    /// Parses `1,3-5`. Parts that are not numbers are skipped.
    pub(super) fn parse(text: &str) -> Self {
        let mut indexes = Self::default();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
                indexes.insert_range(first, last);
            }
        }
        indexes
    }

    fn insert_range(&mut self, mut first: i32, mut last: i32) {
        if first > last {
            return;
        }
        // Overlapping and adjacent ranges are merged.
        while let Some((start, end)) = self.ranges.range(..=last.saturating_add(1)).next_back() {
            let (start, end) = (*start, *end);
            if end < first.saturating_sub(1) {
                break;
            }
            self.ranges.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.ranges.insert(first, last);
    }

    /// Adds the indexes of another set.
    pub(super) fn merge(&mut self, other: &Self) {
        for (first, last) in &other.ranges {
            self.insert_range(*first, *last);
        }
    }

    pub(super) fn contains(&self, index: i32) -> bool {
        self.ranges.range(..=index).next_back().is_some_and(|(_, last)| *last >= index)
    }

    pub(super) fn len(&self) -> i64 {
        self.ranges.iter().map(|(first, last)| i64::from(*last) - i64::from(*first) + 1).sum()
    }

    /// Returns the number of indexes in both sets.
    fn common(&self, other: &Self) -> i64 {
        let (mut own, mut others) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut count = 0;
        while let (Some((a, b)), Some((c, d))) = (own.peek(), others.peek()) {
            let (first, last) = (i64::from(**a.max(c)), i64::from(**b.min(d)));
            count += (last - first + 1).max(0);
            if b <= d {
                own.next();
            } else {
                others.next();
            }
        }
        count
    }

    /// Returns the indexes below `total` that are not in the set, in order.
    pub(super) fn missing(&self, total: i32) -> impl Iterator<Item = i32> {
        let mut next = 0_i32;
        std::iter::from_fn(move || {
            if let Some((_, last)) = self.ranges.range(..=next).next_back().filter(|(_, last)| **last >= next)
            {
                next = last.checked_add(1)?;
            }
            let index = Some(next).filter(|index| *index < total)?;
            next = index.saturating_add(1);
            Some(index)
        })
    }
}

impl Extend<i32> for Indexes {
    fn extend<T: IntoIterator<Item = i32>>(&mut self, indexes: T) {
        for index in indexes {
            self.insert_range(index, index);
        }
    }
}

/// Formats as `1,3-5`.
impl std::fmt::Display for Indexes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut comma = "";
        for (first, last) in &self.ranges {
            match i64::from(*last) - i64::from(*first) {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[i32]) -> Indexes {
        let mut indexes = Indexes::default();
        indexes.extend(numbers.iter().copied());
        indexes
    }

    #[test]
    fn indexes_are_written_as_ranges() {
        let indexes = set(&[7, 0, 5, 1, 3, 6]);
        assert_eq!(indexes.to_string(), "0,1,3,5-7");
        assert_eq!(Indexes::parse("0,1,3,5-7"), indexes);
        assert_eq!(Indexes::parse("5-7,0,3,1,6,x,-3"), indexes);
        assert_eq!(indexes.len(), 6);
        assert_eq!(indexes.missing(10).collect::<Vec<_>>(), [2, 4, 8, 9]);
    }

    #[test]
    fn billions_of_indexes_take_no_room() {
        let all = Indexes::parse("0-2147483647,0-2147483647,5-2147483646");
        assert_eq!((all.len(), all.to_string().as_str()), (1 << 31, "0-2147483647"));
        assert!(all.contains(i32::MAX) && !all.contains(-1));
        assert_eq!(all.missing(i32::MAX).next(), None);
        assert_eq!(set(&[0, 2]).missing(i32::MAX).take(2).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(all.common(&set(&[1, 3, 4])), 3);
    }

    #[test]
    fn a_rule_asks_for_indexes_or_for_a_number_of_them() {
        let met = |rules: serde_json::Value, done: &[i32]| {
            let policy: SuccessPolicy = serde_json::from_value(serde_json::json!({"rules": rules})).unwrap();
            rule_met(&policy, &set(done))
        };
        let all = serde_json::json!({"succeededIndexes": "0,2-3"});
        let some = serde_json::json!({"succeededIndexes": "0,2-3", "succeededCount": 1});
        let many = serde_json::json!({"succeededCount": 2});
        assert_eq!(met(serde_json::json!([all]), &[0, 2]), None);
        assert_eq!(met(serde_json::json!([all, some]), &[1, 2]), Some(1));
        assert_eq!(met(serde_json::json!([many]), &[1]), None);
        assert_eq!(met(serde_json::json!([many]), &[1, 5]), Some(0));
    }
}
