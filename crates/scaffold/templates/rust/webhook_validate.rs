//! Validation of {{ .Kind }}.

use steersman::{Denied, Review};

use crate::{{ .ApiModule }}::{{ .Kind }};

/// Validates an object before it is stored; `review.old` is the previous one of an update.
///
/// # Errors
/// If the object is denied, with the invalid fields.
pub fn validate(object: &{{ .Kind }}, _: &Review<{{ .Kind }}>) -> Result<(), Denied> {
    let mut denied = Denied::default();
    if object.spec.image.contains(char::is_whitespace) {
        denied = denied.and("spec.image", "must not contain whitespace");
    }
    denied.into_result()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman::testing::{object, review};

    use super::*;

    #[test]
    fn an_image_with_whitespace_is_denied() {
        let sample: {{ .Kind }} = object(json!({"metadata": {"name": "sample"}, "spec": {"image": "a b"}}));
        let message = review(&crate::operator(), "validate", None, Some(&sample)).unwrap_err();
        assert_eq!(message, "spec.image: must not contain whitespace");
    }
}
