//! `steer lint` and `steer chart`, without a network.

use crate::support::{Steer, shop};

#[test]
fn lint_speaks_helms_language() {
    let steer = Steer::new();
    let chart = shop();
    assert_eq!(
        steer.run(&["lint", &chart]).success(),
        format!("==> Linting {chart}\n\n1 chart(s) linted, 0 chart(s) failed\n")
    );
    assert_eq!(steer.run(&["lint", "--quiet", &chart]).success(), "");

    let plain = steer.chart(
        "plain",
        &[
            ("values.yaml", ""),
            ("templates/a.yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"),
        ],
    );
    let outcome = steer.run(&["lint", &plain]);
    assert_eq!(
        outcome.success(),
        "==> Linting plain\n[INFO] Chart.yaml: icon is recommended\n\n1 chart(s) linted, 0 chart(s) failed\n"
    );
    let broken = steer.chart("broken", &[("templates/a.yaml", "{{ nope }}")]);
    let outcome = steer.run(&["lint", &plain, &broken, "nowhere"]);
    assert!(
        outcome.stdout.contains("[ERROR] templates/: parse error at (broken/templates/a.yaml:1)"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains("==> Linting nowhere\nError unable to check Chart.yaml file in chart: "),
        "{}",
        outcome.stdout
    );
    assert_eq!(outcome.failure(), "error: 3 chart(s) linted, 2 chart(s) failed\n");
}

#[test]
fn lint_looks_at_subcharts_if_asked() {
    let steer = Steer::new();
    let chart = shop();
    let printed = steer.run(&["lint", "--with-subcharts", &chart]).success();
    assert!(printed.contains(&format!("==> Linting {chart}/charts/web\n")), "{printed}");
    assert!(printed.ends_with("2 chart(s) linted, 0 chart(s) failed\n"), "{printed}");
}

#[test]
fn show_shows_the_parts() {
    let steer = Steer::new();
    let chart = shop();
    let show = |part: &str| steer.run(&["chart", "show", part, &chart]).success();
    assert!(
        show("chart")
            .starts_with("apiVersion: v2\nappVersion: \"4.5\"\ndependencies:\n- condition: web.enabled\n")
    );
    assert!(show("values").starts_with("# How many there are of everything.\nreplicas: 2\n"));
    assert_eq!(show("readme"), "# Shop\n\nSells things.\n\n");
    assert_eq!(show("crds").matches("CustomResourceDefinition").count(), 2);
    let all = show("all");
    assert!(
        all.contains("\n---\n# How many")
            && all.contains("\n---\n# Shop")
            && all.contains("\n---\napiVersion: apiext")
    );
}

#[test]
fn dependencies_are_listed_with_how_they_stand() {
    let steer = Steer::new();
    assert_eq!(
        steer.run(&["chart", "dependency", "list", &shop()]).success(),
        "NAME\tVERSION\tREPOSITORY\tSTATUS  \nweb \t0.1.0  \t          \tunpacked\n\n"
    );
    let chart = steer.chart("lone", &[]);
    assert_eq!(
        steer.run(&["chart", "dep", "ls", &chart]).success(),
        "WARNING: no dependencies at lone/charts\n"
    );
    let text = "apiVersion: v2\nname: p\nversion: 0.1.0\ndependencies:\n- {name: gone, version: ^1, repository: 'https://x'}\n";
    steer.write("p/Chart.yaml", text);
    steer.write("p/charts/odd/Chart.yaml", "apiVersion: v2\nname: odd\nversion: 1.0.0\n");
    assert_eq!(
        steer.run(&["chart", "dependency", "list", "p"]).success(),
        "NAME\tVERSION\tREPOSITORY\tSTATUS \ngone\t^1     \thttps://x \tmissing\n\nWARNING: \"p/charts/odd\" is not in Chart.yaml.\n"
    );
}

#[test]
fn a_lock_that_is_out_of_step_stops_a_build() {
    let steer = Steer::new();
    steer.chart("child", &[]);
    let chart = |range: &str| {
        let text = format!(
            "apiVersion: v2\nname: parent\nversion: 0.1.0\ndependencies:\n- {{name: child, version: '{range}', repository: 'file://../child'}}\n"
        );
        steer.write("parent/Chart.yaml", text);
    };
    chart(">=0.1.0");
    steer.run(&["chart", "dependency", "update", "parent"]).success();
    steer.run(&["chart", "dependency", "build", "parent"]).success();
    chart("^0.1.0");
    let failed = steer.run(&["chart", "dependency", "build", "parent"]).failure();
    assert_eq!(
        failed,
        "error: the lock file (Chart.lock) is out of sync with the dependencies file (Chart.yaml). Please update the dependencies\nhelp: steer chart dependency update\n"
    );
    chart("^2");
    let failed = steer.run(&["chart", "dependency", "update", "parent"]).failure();
    assert!(failed.contains("can't get a valid version for 1 subchart(s): \"child\" (repository \"file://../child\", version \"^2\")."), "{failed}");
}

#[test]
fn a_dependency_in_place_needs_no_repository() {
    let steer = Steer::new();
    let text = "apiVersion: v2\nname: p\nversion: 0.1.0\ndependencies:\n- {name: near, version: ^1, repository: ''}\n";
    steer.write("p/Chart.yaml", text);
    let failed = steer.run(&["chart", "dependency", "update", "p"]).failure();
    assert_eq!(failed, "error: directory p/charts/near not found\n");
    steer.write("p/charts/near/Chart.yaml", "apiVersion: v2\nname: near\nversion: 1.2.0\n");
    steer.run(&["chart", "dependency", "update", "p"]).success();
    assert!(steer.path("p/charts/near/Chart.yaml").exists());
    steer.write("p/charts/near/Chart.yaml", "apiVersion: v2\nname: near\nversion: 2.0.0\n");
    let failed = steer.run(&["chart", "dependency", "update", "p"]).failure();
    assert_eq!(failed, "error: dependency near at version 2.0.0 does not satisfy the constraint ^1\n");
}
