//! Samples: objects with a chart's default values as their spec.

use serde_json::{Value, json};
use steersman_chart::Chart;

use crate::project::Resource;
use crate::schema::chart_values;

/// Returns a sample with the chart's values as its spec, in values.yaml's order and with its comments.
pub(crate) fn of_chart(chart: &Chart, resource: &Resource, project: &str, namespaced: bool) -> String {
    let Resource { group, version, kind, .. } = resource;
    let name = format!("{}-sample", kind.to_ascii_lowercase());
    let mut head = format!(
        "apiVersion: {group}/{version}\nkind: {kind}\nmetadata:\n  labels:\n    app.kubernetes.io/name: {project}\n    \
         app.kubernetes.io/managed-by: kustomize\n  name: {name}\n"
    );
    if !namespaced {
        head.push_str("# The release goes to the namespace default.\n");
    }
    let values = chart_values(chart);
    if values.as_object().is_none_or(serde_json::Map::is_empty) {
        return format!("{head}spec: {{}}\n");
    }
    let from = format!("# Default values copied from helm-charts/{}/values.yaml\n", chart.name());
    let text = String::from_utf8_lossy(chart.file("values.yaml").unwrap_or_default());
    let written = format!("{head}spec:\n  {from}{}", indented(&text));
    let read = steersman_yaml::from_str(&written).ok();
    // Compared after reading numbers as Helm does.
    if read.and_then(|read| read.get("spec").map(as_helm_reads)) == Some(values.clone()) {
        return written;
    }
    // Not every file can be indented, for example one with several documents.
    let spec = steersman_yaml::to_string(&json!({ "spec": values })).unwrap_or_default();
    format!("{head}{from}{spec}")
}

fn as_helm_reads(spec: &Value) -> Value {
    Value::from(&steersman_chart::Data::from(spec.clone()))
}

fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 5 / 4);
    for line in text.trim_end().lines() {
        if !line.is_empty() {
            out.push_str("  ");
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use steersman_chart::File;

    use super::*;

    fn sample(values: &str) -> String {
        let files = [
            File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 0.1.0}"),
            File::new("values.yaml", values),
        ];
        let resource = Resource {
            group: "charts.example.com".into(),
            version: "v1alpha1".into(),
            kind: "Shop".into(),
            plural: "shops".into(),
            short_group: "charts".into(),
        };
        of_chart(&Chart::from_files(files).unwrap(), &resource, "shop-operator", true)
    }

    #[test]
    fn comments_and_order_stay() {
        let text = sample("# How many.\nreplicas: 2\n\nconfig: |\n  a\n\n  b\nannotations: {}\n");
        assert!(
            text.contains("  # How many.\n  replicas: 2\n\n  config: |\n    a\n\n    b\n  annotations: {}\n"),
            "{text}"
        );
    }

    #[test]
    fn files_that_cannot_be_moved_are_written_anew() {
        let text = sample("---\na: 1\nb: {c: x}\n");
        let read = steersman_yaml::from_str(&text).unwrap();
        assert_eq!(read["spec"], json!({"a": 1, "b": {"c": "x"}}));
        assert_eq!(steersman_yaml::from_str(&sample("")).unwrap()["spec"], json!({}));
    }
}
