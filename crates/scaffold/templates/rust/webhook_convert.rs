//! {{ .Kind }} in its versions: {{ .Version }} is stored, the others are converted from it and to it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde::{Serialize, de::DeserializeOwned};
use steersman::Conversion;

use crate::{{ .ApiModule }}::{{ .Kind }};
{{- range .Spokes }}
use crate::{{ .ApiModule }}::{{ $.Kind }} as {{ .Alias }};
{{- end }}

/// The definition with all versions.
pub fn crd() -> CustomResourceDefinition {
    // Versions that do not belong together are not merged: a test holds them together.
    merged().unwrap_or_else(|_| {{ .Kind }}::crd())
}

fn merged() -> Result<CustomResourceDefinition, kube::core::crd::MergeError> {
    kube::core::crd::merge_crds(
        vec![{{ .Kind }}::crd(){{ range .Spokes }}, {{ .Alias }}::crd(){{ end }}],
        "{{ .Version }}",
    )
}

/// How the versions become each other. What one of them cannot express belongs into an annotation.
pub fn conversion() -> Conversion {
    Conversion::hub::<{{ .Kind }}>()
{{- range .Spokes }}
        .spoke(carry_over::<{{ .Alias }}, {{ $.Kind }}>, carry_over::<{{ $.Kind }}, {{ .Alias }}>)
{{- end }}
}

/// Carries over the fields that have the same name and type in both versions. Write a function of your own where they differ.
fn carry_over<A: Serialize, B: DeserializeOwned>(object: A) -> Result<B, String> {
    let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
    serde_json::from_value(object).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman::testing::{convert, object};

    use super::*;

    #[test]
    fn versions_lose_nothing() {
        merged().unwrap();
        let sample: {{ .Kind }} = object(json!({"metadata": {"name": "sample"}, "spec": {"size": 3, "image": "a"}}));
{{- range .Spokes }}
        let other: {{ .Alias }} = convert(&crate::operator(), &sample).unwrap();
        let back: {{ $.Kind }} = convert(&crate::operator(), &other).unwrap();
        assert_eq!(back.spec, sample.spec);
{{- end }}
    }
}
