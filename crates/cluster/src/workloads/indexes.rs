//! The indexes of an indexed job: which are done, which have failed too often, and whether those done are enough.

use std::collections::BTreeSet;

use k8s_openapi::api::{batch::v1::SuccessPolicy, core::v1::Pod};
use kube::ResourceExt as _;

/// Tells a pod's index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Tells how many pods of the same index failed before.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// The index of a pod.
pub(super) fn of(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX)?.parse().ok()
}

/// How many pods of its index failed before a pod.
pub(super) fn failures_before(pod: &Pod) -> i32 {
    pod.annotations().get(FAILURES).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The first rule of a policy by which the indexes that are done are enough.
pub(super) fn rule_met(policy: &SuccessPolicy, done: &BTreeSet<i32>) -> Option<usize> {
    policy.rules.iter().position(|rule| {
        let listed = rule.succeeded_indexes.as_deref().map(parse);
        let counted = listed.as_ref().map_or(done.len(), |listed| listed.intersection(done).count());
        match (rule.succeeded_count, &listed) {
            (Some(least), _) => i32::try_from(counted).is_ok_and(|n| n >= least),
            (None, Some(listed)) => listed.is_subset(done),
            (None, None) => false,
        }
    })
}

/// `1,3-5` as numbers.
pub(super) fn parse(text: &str) -> BTreeSet<i32> {
    let mut numbers = BTreeSet::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            numbers.extend(first..=last.min(first.saturating_add(100_000)));
        }
    }
    numbers
}

/// Numbers as `1,3-5`.
pub(super) fn write(numbers: &BTreeSet<i32>) -> String {
    let mut parts: Vec<(i32, i32)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let text = |(first, last): &(i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_ranges() {
        let numbers = BTreeSet::from([0, 1, 3, 5, 6, 7]);
        assert_eq!(write(&numbers), "0,1,3,5-7");
        assert_eq!(parse("0,1,3,5-7"), numbers);
    }

    #[test]
    fn a_rule_asks_for_indexes_or_for_a_number_of_them() {
        let met = |rules: serde_json::Value, done: &[i32]| {
            let policy: SuccessPolicy = serde_json::from_value(serde_json::json!({"rules": rules})).unwrap();
            rule_met(&policy, &done.iter().copied().collect())
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
