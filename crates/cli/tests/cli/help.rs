//! Help, completions and manual pages.

use std::fs;

use crate::support::Steer;

#[test]
fn the_commands_stand_in_their_groups() {
    let steer = Steer::new();
    let help = steer.run(&["--help"]).success();
    insta::assert_snapshot!(help);
    assert_eq!(steer.run(&[]).success(), help);
}

#[test]
fn every_command_explains_itself() {
    let steer = Steer::new();
    for (name, words) in [
        ("template", &["template"][..]),
        ("lint", &["lint"]),
        ("chart", &["chart"]),
        ("chart_pull", &["chart", "pull"]),
        ("chart_show", &["chart", "show"]),
        ("chart_dependency", &["chart", "dependency"]),
        ("chart_dependency_update", &["chart", "dependency", "update"]),
        ("init", &["init"]),
        ("create_api", &["create", "api"]),
        ("create_webhook", &["create", "webhook"]),
        ("edit", &["edit"]),
        ("update", &["update"]),
        ("rbac_learn", &["rbac", "learn"]),
        ("scorecard", &["scorecard"]),
        ("deploy", &["deploy"]),
        ("undeploy", &["undeploy"]),
        ("serve", &["serve"]),
        ("generate", &["generate"]),
        ("generate_bundle", &["generate", "bundle"]),
        ("generate_chart", &["generate", "chart"]),
        ("image_build", &["image", "build"]),
        ("image_push", &["image", "push"]),
        ("bundle_validate", &["bundle", "validate"]),
        ("doctor", &["doctor"]),
        ("cluster", &["cluster"]),
        ("cluster_create", &["cluster", "create"]),
        ("envtest_use", &["envtest", "use"]),
        ("completion", &["completion"]),
        ("man", &["man"]),
        ("version", &["version"]),
    ] {
        let mut arguments = words.to_vec();
        arguments.push("--help");
        insta::assert_snapshot!(name, steer.run(&arguments).success());
    }
}

#[test]
fn a_wrong_flag_fails_like_helm() {
    let steer = Steer::new();
    let failed = steer.run(&["template", "x", ".", "--incude-crds"]).failure();
    assert!(failed.contains("--include-crds"), "{failed}");
    assert_eq!(steer.run(&["tmplate"]).code, 1);
    assert_eq!(steer.run(&["template"]).code, 1);
}

#[test]
fn shells_get_completions() {
    let steer = Steer::new();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = steer.run(&["completion", shell]).success();
        assert!(script.contains("show-only"), "{shell}");
        assert!(script.contains("dependency"), "{shell}");
    }
}

#[test]
fn manual_pages_are_written() {
    let steer = Steer::new();
    steer.run(&["man", "man"]).success();
    for page in ["steer.1", "steer-template.1", "steer-chart-pull.1", "steer-chart-dependency-update.1"] {
        let text = fs::read_to_string(steer.path("man/man1").join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn the_version_is_told_in_the_form_asked_for() {
    let steer = Steer::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(steer.run(&["version"]).success(), format!("steer {version} (renders like Helm v3.22.0)\n"));
    assert_eq!(steer.run(&["version", "--short"]).success(), format!("{version}\n"));
    assert_eq!(
        steer.run(&["version", "-o", "json"]).success(),
        format!("{{\"version\":\"{version}\",\"helm\":\"v3.22.0\"}}\n")
    );
    assert_eq!(
        steer.run(&["version", "-o", "yaml"]).success(),
        format!("helm: v3.22.0\nversion: {version}\n")
    );
}
