//! Validates the fields of `x-kubernetes-validations` rules, and sums their estimated cost.

use crate::field_path;
use crate::fields::FieldError;
use crate::path::child;
use crate::schema::{Rule, Schema};
use crate::structural;

/// Maximum estimated cost of one rule.
pub(super) const RULE_LIMIT: u64 = 10_000_000;
/// Maximum estimated cost of all rules of a schema.
pub(super) const SCHEMA_LIMIT: u64 = 100_000_000;

/// The estimated cost of all rules of a schema.
#[derive(Default)]
pub(super) struct Costs {
    pub(super) total: u64,
    /// The (up to four) most expensive rules that cost at least 1 % of the schema limit.
    pub(super) most_expensive: Vec<(String, u64)>,
}

impl Costs {
    pub(super) fn add(&mut self, path: String, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < SCHEMA_LIMIT / 100 {
            return;
        }
        self.most_expensive.push((path, cost));
        self.most_expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        self.most_expensive.truncate(4);
    }
}

/// Formats by how much a cost exceeds a limit.
pub(super) fn over_budget(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Validates the string fields of a rule; its expressions are compiled elsewhere.
pub(super) fn check_rule(rule: &Rule, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let (text, message) = (rule.rule.trim(), rule.message.trim());
    let message_path = child(path, "message");
    if text.is_empty() {
        errors.push(FieldError::required(child(path, "rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && message.is_empty() {
        let detail = "must be non-empty if specified";
        errors.push(FieldError::invalid(message_path, rule.message.as_str(), detail));
    } else if has_line_breaks(message) {
        errors.push(FieldError::invalid(message_path, rule.message.as_str(), "must not contain line breaks"));
    } else if has_line_breaks(text) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(message_path, detail));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(child(path, "messageExpression"), detail));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        errors.push(FieldError::not_supported(child(path, "reason"), reason, &REASONS));
    }
    let field_path = rule.field_path.as_str();
    if field_path.is_empty() {
        return;
    }
    let mut complain =
        |detail: &str| errors.push(FieldError::invalid(child(path, "fieldPath"), field_path, detail));
    if field_path.trim().is_empty() {
        complain("must be non-empty if specified");
    }
    if has_line_breaks(field_path) {
        complain("must not contain line breaks");
    }
    if structural::unsupported(schema).is_none() && field_path::valid(field_path, schema, true).is_err() {
        complain("must be a valid path");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_beyond_the_limit_are_shown_as_factors() {
        let factor = |cost: u64| {
            let text = over_budget("cost", cost, 1_000);
            text.split("factor of ").nth(1).and_then(|rest| rest.split(" (").next()).map(str::to_owned)
        };
        assert_eq!(factor(1_001).as_deref(), Some("1.001000x"));
        assert_eq!(factor(1_499).as_deref(), Some("1.499000x"));
        assert_eq!(factor(1_500).as_deref(), Some("1.5x"));
        assert_eq!(factor(100_000).as_deref(), Some("100.0x"));
        assert_eq!(factor(100_001).as_deref(), Some("more than 100x"));
    }
}
