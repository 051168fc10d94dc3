//! Fills in what {{ .Kind }} objects do not say.

use steersman::{Denied, Review};

use crate::{{ .ApiModule }}::{{ .Kind }};

/// Changes an object before it is stored.
///
/// # Errors
/// Refuses the object.
pub fn default(object: &mut {{ .Kind }}, _: &Review<{{ .Kind }}>) -> Result<(), Denied> {
    // What a schema's default cannot say belongs here.
    if object.spec.image.trim().is_empty() {
        object.spec.image = {{ .Image }}.to_owned();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman::testing::{object, review};

    use super::*;

    #[test]
    fn an_empty_image_is_filled_in() {
        let sample: {{ .Kind }} = object(json!({"metadata": {"name": "sample"}, "spec": {"image": ""}}));
        let defaulted = review(&crate::operator(), "mutate", None, Some(&sample)).unwrap();
        assert_eq!(defaulted.spec.image, {{ .Image }});
    }
}
