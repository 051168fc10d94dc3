//! Scans templates for kinds that no render reached, such as those created only if a list is set.

use steersman_chart::Chart;

use super::kinds::group_of;

/// Returns API version and kind of the objects named in templates of a chart and its subcharts.
pub(super) fn kinds(chart: &Chart) -> Vec<(String, String)> {
    let mut found = Vec::new();
    scan(chart, &mut found);
    found
}

fn scan(chart: &Chart, found: &mut Vec<(String, String)>) {
    for file in chart.templates() {
        // Tests are not part of a release.
        if !file.name.contains("/tests/") && !file.name.ends_with(".txt") {
            scan_text(&file.data.to_str_lossy(), found);
        }
    }
    chart.subcharts().iter().for_each(|subchart| scan(subchart, found));
}

fn scan_text(text: &str, found: &mut Vec<(String, String)>) {
    for document in text.split("\n---") {
        let is_test = |line: &str| line.contains("helm.sh/hook") && line.contains("test");
        if document.lines().any(is_test) {
            continue;
        }
        let mut api_version = None;
        for line in document.lines() {
            if let Some(value) = line.strip_prefix("apiVersion:") {
                api_version = Some(value.trim().trim_matches(['"', '\'']));
            }
            let Some(kind) = line.strip_prefix("kind:").map(|kind| kind.trim().trim_matches(['"', '\'']))
            else {
                continue;
            };
            let is_word = kind.starts_with(|c: char| c.is_ascii_uppercase())
                && kind.chars().all(|c| c.is_ascii_alphanumeric());
            if !is_word || kind == "List" {
                continue;
            }
            let written = api_version.filter(|version| !version.is_empty() && !version.contains(['{', ' ']));
            match (written, group_of(kind)) {
                (Some(version), _) => found.push((version.to_owned(), kind.to_owned())),
                // The version is templated, but the kind is built in and determines the group.
                (None, Some("")) => found.push(("v1".to_owned(), kind.to_owned())),
                (None, Some(group)) => found.push((format!("{group}/v1"), kind.to_owned())),
                (None, None) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_off_templates() {
        let text = "\
{{- if .Values.extra }}
apiVersion: example.com/v1
kind: Thing
spec:
  kind: Inner
{{- end }}
---
apiVersion: {{ include \"version\" . }}
kind: Ingress
---
apiVersion: {{ .Values.version }}
kind: Unknown
---
apiVersion: v1
kind: Pod
metadata:
  annotations:
    helm.sh/hook: test
";
        let mut found = Vec::new();
        scan_text(text, &mut found);
        let pair = |version: &str, kind: &str| (version.to_owned(), kind.to_owned());
        assert_eq!(found, [pair("example.com/v1", "Thing"), pair("networking.k8s.io/v1", "Ingress")]);
    }
}
