//! The API approval required of definitions in protected groups (`k8s.io`, `kubernetes.io`).

use serde_json::Value;

use super::model::Definition;
use crate::fields::FieldError;

/// The state of the `api-approved.kubernetes.io` annotation, required in protected groups.
#[derive(PartialEq, Eq)]
enum Approval {
    Invalid,
    Approved,
    Bypassed,
    Missing,
}

const APPROVAL: &str = "api-approved.kubernetes.io";

fn approval(definition: &Definition) -> (Approval, String) {
    let annotation = definition.approval.as_deref().unwrap_or_default();
    if annotation.is_empty() {
        let why = format!(
            "protected groups must have approval annotation \"{APPROVAL}\", see https://github.com/kubernetes/enhancements/pull/1111"
        );
        return (Approval::Missing, why);
    }
    if annotation.starts_with("unapproved") {
        return (Approval::Bypassed, format!("not approved: \"{annotation}\""));
    }
    let is_url = steersman_formats::Url::parse(annotation)
        .is_some_and(|url| !url.host().is_empty() && !url.scheme().is_empty());
    if is_url {
        return (Approval::Approved, format!("approved in {annotation}"));
    }
    let why = format!(
        "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
    );
    (Approval::Invalid, why)
}

/// Returns status, reason and message of the `KubernetesAPIApprovalPolicyConformant` condition.
/// `None` for groups that are not protected.
#[must_use]
pub fn approval_condition(definition: &Value) -> Option<(&'static str, &'static str, String)> {
    // Check the group before parsing: schemas are irrelevant here and can be long.
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    if !is_protected(group) {
        return None;
    }
    let definition = Definition::parse(definition);
    let (state, why) = approval(&definition);
    Some(match state {
        Approval::Invalid => ("False", "InvalidAnnotation", why),
        Approval::Missing => ("False", "MissingAnnotation", why),
        Approval::Approved => ("True", "ApprovedAnnotation", why),
        Approval::Bypassed => ("False", "UnapprovedAnnotation", why),
    })
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')))
}

pub(super) fn check_approval(
    definition: &Definition,
    old: Option<&Definition>,
    errors: &mut Vec<FieldError>,
) {
    if !is_protected(&definition.group) {
        return;
    }
    let (state, why) = approval(definition);
    if old.is_some_and(|old| approval(old).0 == state) {
        return;
    }
    let path = format!("metadata.annotations[{APPROVAL}]");
    match state {
        Approval::Missing => errors.push(FieldError::required(path, why)),
        Approval::Invalid => {
            let annotation = definition.approval.as_deref().unwrap_or_default();
            errors.push(FieldError::invalid(path, annotation, why));
        }
        Approval::Approved | Approval::Bypassed => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_of_the_community_need_an_approval() {
        let condition = |group: &str, annotation: &str| {
            let annotations = match annotation {
                "" => json!({}),
                text => json!({APPROVAL: text}),
            };
            let definition = json!({"metadata": {"annotations": annotations}, "spec": {"group": group}});
            approval_condition(&definition).map(|(status, reason, _)| (status, reason))
        };
        assert_eq!(condition("example.com", ""), None);
        assert_eq!(condition("x.k8s.io", ""), Some(("False", "MissingAnnotation")));
        assert_eq!(condition("x.k8s.io", "never"), Some(("False", "InvalidAnnotation")));
        assert_eq!(condition("x.k8s.io", "unapproved, a test"), Some(("False", "UnapprovedAnnotation")));
        assert_eq!(condition("x.k8s.io", "https://example.com/1"), Some(("True", "ApprovedAnnotation")));
    }
}
