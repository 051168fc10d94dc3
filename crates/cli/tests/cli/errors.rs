//! Error output for failing charts.

use crate::support::{Steer, outcome};

/// Renders a chart with one template and values, and returns standard error.
fn picture(template: &str, values: &str, helpers: &str) -> String {
    let steer = Steer::new();
    let files = [("templates/a.yaml", template), ("values.yaml", values), ("templates/_h.tpl", helpers)];
    let chart = steer.chart("shop", &files);
    steer.run(&["template", &chart]).failure()
}

#[test]
fn a_key_that_is_not_there() {
    let template =
        "kind: Deployment\nspec:\n  image: {{ .Values.image.repository }}:{{ .Chart.AppVersion }}\n";
    insta::assert_snapshot!(picture(template, "images:\n  repository: x\n", ""));
}

#[test]
fn a_function_that_does_not_exist() {
    insta::assert_snapshot!(picture("kind: {{ .Values.kind | uper }}\n", "kind: a\n", ""));
}

#[test]
fn a_failure_deep_in_includes() {
    let helpers = "{{- define \"outer\" }}{{ include \"inner\" . }}{{ end }}\n{{- define \"inner\" }}\n  {{ required \"a name is needed\" .Values.name }}\n{{- end }}";
    insta::assert_snapshot!(picture("kind: A\nname: {{ include \"outer\" . }}\n", "", helpers));
}

#[test]
fn a_line_with_tabs_and_wide_characters() {
    insta::assert_snapshot!(picture("a:\n\tb: 日本 {{ .Values.x.y }}\n", "", ""));
}

#[test]
fn values_that_break_the_schema() {
    let steer = Steer::new();
    insta::assert_snapshot!(
        steer.run(&["template", &crate::support::shop(), "--set", "replicas=many"]).failure()
    );
}

#[test]
fn colours_only_where_they_are_wanted() {
    let steer = Steer::new();
    let chart = steer.chart("shop", &[("templates/a.yaml", "{{ fail \"no\" }}")]);
    let shown = |environment: &[(&str, &str)]| {
        outcome(steer.command(&["template", &chart]).envs(environment.iter().copied())).failure()
    };
    assert!(!shown(&[]).contains('\u{1b}'));
    assert!(shown(&[("CLICOLOR_FORCE", "1")]).contains("\u{1b}["));
    assert!(!shown(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains('\u{1b}'));
}
