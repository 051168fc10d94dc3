//! Fills in what {{ .Kind }} objects do not say.

use steersman::{Denied, Review};

use crate::{{ .ApiModule }}::{{ .Kind }};

/// Changes an object before it is stored.
///
/// # Errors
/// Refuses the object.
pub fn default(object: &mut {{ .Kind }}, _: &Review<{{ .Kind }}>) -> Result<(), Denied> {
    // What the schema's defaults cannot say belongs here.
    object.spec.image = object.spec.image.trim().to_owned();
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman::testing::{object, review};

    use super::*;

    #[test]
    fn blanks_around_the_image_go() {
        let sample: {{ .Kind }} = object(json!({"metadata": {"name": "sample"}, "spec": {"image": " a "}}));
        let defaulted = review(&crate::operator(), "mutate", None, Some(&sample)).unwrap();
        assert_eq!(defaulted.spec.image, "a");
    }
}
