//! Conversion of {{ .Kind }}: {{ .Version }} is the storage version, and the hub that the others are converted through.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde::{Serialize, de::DeserializeOwned};
use steersman::Conversion;

use crate::{{ .ApiModule }}::{{ .Kind }};
{{- range .Spokes }}
use crate::{{ .ApiModule }}::{{ $.Kind }} as {{ .Alias }};
{{- end }}

/// Returns the CRD with all versions.
pub fn crd() -> CustomResourceDefinition {
    // Merging fails only for versions of different kinds, which the test below would find.
    merged().unwrap_or_else(|_| {{ .Kind }}::crd())
}

fn merged() -> Result<CustomResourceDefinition, kube::core::crd::MergeError> {
    kube::core::crd::merge_crds(
        vec![{{ .Kind }}::crd(){{ range .Spokes }}, {{ .Alias }}::crd(){{ end }}],
        "{{ .Version }}",
    )
}

/// Returns the conversions between the versions. Keep what a version cannot express in an annotation.
pub fn conversion() -> Conversion {
    Conversion::hub::<{{ .Kind }}>()
{{- range .Spokes }}
        .spoke(copy_fields::<{{ .Alias }}, {{ $.Kind }}>, copy_fields::<{{ $.Kind }}, {{ .Alias }}>)
{{- end }}
}

/// Copies the fields that have the same name and type in both versions. Replace it where they differ.
fn copy_fields<A: Serialize, B: DeserializeOwned>(object: A) -> Result<B, String> {
    let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
    serde_json::from_value(object).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman::testing::{convert, object};

    use super::*;

    #[test]
    fn conversion_loses_nothing() {
        merged().unwrap();
        let sample: {{ .Kind }} = object(json!({"metadata": {"name": "sample"}, "spec": {"size": 3, "image": "a"}}));
{{- range .Spokes }}
        let other: {{ .Alias }} = convert(&crate::operator(), &sample).unwrap();
        let back: {{ $.Kind }} = convert(&crate::operator(), &other).unwrap();
        assert_eq!(back.spec, sample.spec);
{{- end }}
    }
}
