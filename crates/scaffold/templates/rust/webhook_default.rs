//! Defaulting of {{ .Kind }}.

use steersman::{Denied, Review};

use crate::{{ .ApiModule }}::{{ .Kind }};

/// Sets defaults on an object before it is validated and stored.
///
/// # Errors
/// If the object is denied.
pub fn default(object: &mut {{ .Kind }}, _: &Review<{{ .Kind }}>) -> Result<(), Denied> {
    // For defaults that the schema cannot express.
    object.spec.image = object.spec.image.trim().to_owned();
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman::testing::{object, review};

    use super::*;

    #[test]
    fn the_image_is_trimmed() {
        let sample: {{ .Kind }} = object(json!({"metadata": {"name": "sample"}, "spec": {"image": " a "}}));
        let defaulted = review(&crate::operator(), "mutate", None, Some(&sample)).unwrap();
        assert_eq!(defaulted.spec.image, "a");
    }
}
