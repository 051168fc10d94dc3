//! The schemas that schemas have to meet themselves.

use std::collections::HashMap;
use std::sync::Arc;

use referencing::meta;
use serde_json::Value as Json;

use super::documents::Documents;
use super::explain::explain;

/// Why a schema is none, in the words of the validator that Helm uses; `None` if it is one.
pub(super) fn problem(schema: &Json) -> Option<String> {
    let draft = Documents::new(schema.clone(), HashMap::new()).draft();
    let none: &[(&str, &Arc<Json>)] = &[];
    let (address, root, parts) = match draft {
        4 => ("http://json-schema.org/draft-04/schema#", &*meta::DRAFT4, none),
        6 => ("http://json-schema.org/draft-06/schema#", &*meta::DRAFT6, none),
        7 => ("http://json-schema.org/draft-07/schema#", &*meta::DRAFT7, none),
        2019 => (
            "https://json-schema.org/draft/2019-09/schema#",
            &*meta::DRAFT201909,
            &[
                ("meta/core", &*meta::DRAFT201909_CORE),
                ("meta/applicator", &*meta::DRAFT201909_APPLICATOR),
                ("meta/validation", &*meta::DRAFT201909_VALIDATION),
                ("meta/meta-data", &*meta::DRAFT201909_META_DATA),
                ("meta/format", &*meta::DRAFT201909_FORMAT),
                ("meta/content", &*meta::DRAFT201909_CONTENT),
            ][..],
        ),
        _ => (
            "https://json-schema.org/draft/2020-12/schema#",
            &*meta::DRAFT202012,
            &[
                ("meta/core", &*meta::DRAFT202012_CORE),
                ("meta/applicator", &*meta::DRAFT202012_APPLICATOR),
                ("meta/unevaluated", &*meta::DRAFT202012_UNEVALUATED),
                ("meta/validation", &*meta::DRAFT202012_VALIDATION),
                ("meta/meta-data", &*meta::DRAFT202012_META_DATA),
                ("meta/format-annotation", &*meta::DRAFT202012_FORMAT_ANNOTATION),
                ("meta/content", &*meta::DRAFT202012_CONTENT),
            ][..],
        ),
    };
    let parts = parts.iter().map(|(name, part)| ((*name).to_owned(), (***part).clone())).collect();
    let reasons = explain(&Documents::new((**root).clone(), parts), schema)?;
    Some(format!("jsonschema validation failed with '{address}'\n{reasons}"))
}
