//! `steer template`, flag by flag.

use std::fs;

use crate::support::{Steer, outcome, shop};

/// Renders the shop with these flags after `template r CHART`.
#[track_caller]
fn render(flags: &[&str]) -> String {
    let chart = shop();
    let mut arguments = vec!["template", "r", &chart];
    arguments.extend(flags);
    Steer::new().run(&arguments).success()
}

/// The paths of the templates that were printed, in their order.
fn sources(printed: &str) -> Vec<&str> {
    printed.lines().filter_map(|line| line.strip_prefix("# Source: ")).collect()
}

#[test]
fn manifests_come_in_install_order_and_hooks_last() {
    assert_eq!(
        sources(&render(&[])),
        [
            "shop/templates/secret.yaml",
            "shop/charts/web/templates/service.yaml",
            "shop/templates/deployment.yaml",
            "shop/templates/tests/ping.yaml",
            "shop/templates/migrate.yaml",
        ]
    );
}

#[test]
fn hooks_tests_and_crds_come_as_asked() {
    let hooks = |printed: &str| sources(printed).iter().filter(|path| path.contains("migrate")).count();
    let tests = |printed: &str| sources(printed).iter().filter(|path| path.contains("ping")).count();
    let skipped = render(&["--skip-tests"]);
    assert_eq!((hooks(&skipped), tests(&skipped)), (1, 0));
    let none = render(&["--no-hooks"]);
    assert_eq!((hooks(&none), tests(&none)), (0, 0));
    let with_crds = render(&["--include-crds"]);
    assert_eq!(sources(&with_crds)[..2], ["shop/crds/sale.yaml", "shop/charts/web/crds/page.yaml"]);
    assert_eq!(sources(&render(&["--include-crds=true"])), sources(&with_crds));
    assert_eq!(sources(&render(&["--include-crds", "--skip-crds"])), sources(&with_crds));
    assert_eq!(sources(&render(&["--include-crds=false"])).len(), 5);
}

#[test]
fn show_only_chooses_in_the_order_given() {
    let printed = render(&["-s", "templates/d*.yaml", "--show-only", "charts/web/templates/service.yaml"]);
    assert_eq!(
        sources(&printed),
        ["shop/templates/deployment.yaml", "shop/charts/web/templates/service.yaml"]
    );
    let failed = Steer::new().run(&["template", "r", &shop(), "-s", "templates/nope.yaml"]).failure();
    assert!(failed.starts_with("error: could not find template templates/nope.yaml in chart\n"), "{failed}");
}

#[test]
fn values_come_from_flags_in_helms_order() {
    let steer = Steer::new();
    steer.write("a.yaml", "replicas: 3\nextra: a\n");
    steer.write("b.yaml", "replicas: 4\n");
    steer.write("note.txt", "from a file");
    let chart = shop();
    let line = |flags: &[&str], wanted: &str| {
        let mut arguments = vec!["template", "r", &chart];
        arguments.extend(flags);
        let printed = steer.run(&arguments).success();
        printed.lines().find(|line| line.contains(wanted)).unwrap_or_default().trim().to_owned()
    };
    assert_eq!(line(&["-f", "a.yaml", "-f", "b.yaml"], "replicas:"), "replicas: 4");
    assert_eq!(line(&["-f", "b.yaml,a.yaml"], "replicas:"), "replicas: 3");
    assert_eq!(line(&["-f", "b.yaml", "--set", "replicas=7"], "replicas:"), "replicas: 7");
    assert_eq!(line(&["--set", "extra=x,replicas=5"], "extra:"), "extra: \"x\"");
    assert_eq!(line(&["--set-string", "extra=007", "--set", "extra=7"], "extra:"), "extra: \"007\"");
    assert_eq!(line(&["--set-json", "extra=\"j\"", "--set", "extra=s"], "extra:"), "extra: \"s\"");
    assert_eq!(line(&["--set-file", "extra=note.txt"], "extra:"), "extra: \"from a file\"");
    assert_eq!(line(&["--set-literal", "extra=a,b={c}"], "extra:"), "extra: \"a,b={c}\"");
    assert_eq!(line(&["--set", "web.port=9090"], "port: 9"), "- port: 9090");

    let printed = steer.run_with_input(&["template", "r", &chart, "-f", "-"], "replicas: 9\n").success();
    assert!(printed.contains("replicas: 9\n"));
    let failed = steer.run(&["template", "r", &chart, "-f", "missing.yaml"]).failure();
    assert_eq!(failed, "error: open missing.yaml: no such file or directory\n");
}

#[test]
fn the_release_is_what_the_flags_say() {
    let printed =
        render(&["-n", "lab", "--is-upgrade", "--kube-version", "1.30.0", "-a", "x/v1,shop.example.com/v1"]);
    for expected in
        ["namespace: lab", "install: \"false\"", "upgrade: \"true\"", "kube: v1.30.0", "sales: \"yes\""]
    {
        assert!(printed.contains(expected), "{expected} is not in\n{printed}");
    }
    assert!(!render(&[]).contains("sales"));
}

#[test]
fn the_namespace_comes_from_the_kubeconfig_if_not_given() {
    let steer = Steer::new();
    let config = "current-context: a\ncontexts:\n- {name: a, context: {namespace: one}}\n- {name: b, context: {namespace: two}}\n";
    steer.write(".kube/config", config);
    let other =
        steer.write("other", "current-context: c\ncontexts:\n- {name: c, context: {namespace: three}}\n");
    let chart = shop();
    let namespace = |flags: &[&str], environment: &[(&str, &str)]| {
        let mut arguments = vec!["template", "r", &chart];
        arguments.extend(flags);
        let printed = outcome(steer.command(&arguments).envs(environment.iter().copied())).success();
        let line = printed.lines().find_map(|line| line.trim().strip_prefix("namespace: "));
        line.unwrap_or_default().to_owned()
    };
    let other = other.to_str().unwrap();
    assert_eq!(namespace(&[], &[]), "one");
    assert_eq!(namespace(&["--kube-context", "b"], &[]), "two");
    assert_eq!(namespace(&["--kubeconfig", other], &[]), "three");
    assert_eq!(namespace(&[], &[("KUBECONFIG", other)]), "three");
    assert_eq!(namespace(&[], &[("HELM_NAMESPACE", "four")]), "four");
    assert_eq!(namespace(&["-n", "five"], &[("HELM_NAMESPACE", "four")]), "five");
}

#[test]
fn names_are_given_templated_or_the_default() {
    let steer = Steer::new();
    let chart = shop();
    let name = |arguments: &[&str]| {
        let mut all = vec!["template"];
        all.extend(arguments);
        let printed = steer.run(&all).success();
        printed
            .lines()
            .find_map(|line| line.trim().strip_prefix("name: ")?.strip_suffix("-shop"))
            .unwrap()
            .to_owned()
    };
    assert_eq!(name(&[&chart]), "release-name");
    assert_eq!(name(&["mine", &chart]), "mine");
    assert_eq!(name(&["--generate-name", &chart]), "release-name");
    assert_eq!(name(&["--name-template", "{{ \"ABC\" | lower }}-1", &chart]), "abc-1");

    let fails = |arguments: &[&str]| {
        let mut all = vec!["template"];
        all.extend(arguments);
        steer.run(&all).failure()
    };
    assert_eq!(fails(&["a", &chart, "-g"]), "error: cannot set --generate-name and also specify a name\n");
    assert_eq!(
        fails(&["a", &chart, "--name-template", "x"]),
        "error: cannot set --name-template and also specify a name\n"
    );
    assert_eq!(
        fails(&["a", &chart, "c", "d"]),
        "error: expected at most two arguments, unexpected arguments: c, d\n"
    );
    assert!(
        fails(&["Not_Valid", &chart])
            .contains("release name \"Not_Valid\": invalid release name, must match regex")
    );
    assert!(fails(&[&"a".repeat(54), &chart]).contains("must not be longer than 53"));
    assert!(fails(&["--name-template", "{{ nope }}", &chart]).contains("function \"nope\" not defined"));
}

#[test]
fn a_seed_makes_renders_repeat() {
    let first = render(&["--seed", "7"]);
    assert_eq!(first, render(&["--seed", "7"]));
    assert_ne!(first, render(&["--seed", "8"]));
    assert_ne!(render(&[]), render(&[]));
}

#[test]
fn files_are_written_where_asked() {
    let steer = Steer::new();
    let chart = shop();
    let arguments = ["template", "r", &chart, "--set", "token=t", "--output-dir", "out", "--include-crds"];
    let printed = steer.run(&arguments).success();
    let expected: String = [
        "crds/sale.yaml",
        "charts/web/crds/page.yaml",
        "templates/secret.yaml",
        "charts/web/templates/service.yaml",
        "templates/deployment.yaml",
        "templates/tests/ping.yaml",
        "templates/migrate.yaml",
    ]
    .iter()
    .map(|path| format!("wrote out/shop/{path}\n"))
    .collect();
    assert_eq!(printed, expected + "\n");
    let service = fs::read_to_string(steer.path("out/shop/charts/web/templates/service.yaml")).unwrap();
    assert!(service.starts_with("---\n# Source: shop/charts/web/templates/service.yaml\napiVersion: v1\n"));

    // Written anew, not longer and longer.
    let before = fs::read_to_string(steer.path("out/shop/templates/migrate.yaml")).unwrap();
    steer.run(&arguments).success();
    assert_eq!(fs::read_to_string(steer.path("out/shop/templates/migrate.yaml")).unwrap(), before);

    steer
        .run(&["template", "r", &chart, "--output-dir", "named", "--release-name", "--include-crds"])
        .success();
    assert!(steer.path("named/r/shop/templates/secret.yaml").exists());
    assert!(steer.path("named/shop/crds/sale.yaml").exists());
}

#[test]
fn several_manifests_of_one_template_end_in_one_file() {
    let steer = Steer::new();
    let text = "kind: A\napiVersion: v1\n---\nkind: B\napiVersion: v1\n";
    let chart = steer.chart("two", &[("templates/both.yaml", text)]);
    steer.run(&["template", &chart, "--output-dir", "out"]).success();
    let written = fs::read_to_string(steer.path("out/two/templates/both.yaml")).unwrap();
    assert_eq!(written.matches("# Source: two/templates/both.yaml").count(), 2, "{written}");
}

#[cfg(unix)]
#[test]
fn a_post_renderer_gets_the_manifests_but_no_hooks() {
    let printed = render(&[
        "--post-renderer",
        "sed",
        "--post-renderer-args",
        "-e",
        "--post-renderer-args",
        "s/web/net/",
    ]);
    assert!(printed.contains("r-net") && !printed.contains("r-web"));
    assert!(printed.contains("r-migrate"));

    let steer = Steer::new();
    let fails = |program: &str| steer.run(&["template", "r", &shop(), "--post-renderer", program]).failure();
    assert_eq!(
        fails("no-such-program"),
        "error: invalid argument \"no-such-program\" for \"--post-renderer\" flag: unable to find binary at no-such-program: exec: \"no-such-program\": executable file not found in $PATH\n"
    );
    let failed = fails("false");
    assert!(
        failed.contains("error while running post render on files: error while running command"),
        "{failed}"
    );
    assert!(failed.contains("exit status 1"), "{failed}");
}

#[test]
fn what_needs_a_cluster_is_refused() {
    let steer = Steer::new();
    for flag in ["--validate", "--dry-run=server", "--verify"] {
        let failed = steer.run(&["template", "r", &shop(), flag]).failure();
        assert!(failed.starts_with(&format!("error: {flag} is not supported")), "{failed}");
    }
    let failed = steer.run(&["template", "r", &shop(), "--dry-run=maybe"]).failure();
    assert!(failed.contains("Invalid dry-run flag"), "{failed}");
}

#[test]
fn flags_of_helm_install_change_nothing() {
    let plain = render(&["--set", "token=t"]);
    let flags = [
        "--wait",
        "--atomic",
        "--timeout",
        "5m",
        "--create-namespace",
        "--dry-run",
        "--replace",
        "--force",
        "--description",
        "x",
        "--labels",
        "a=b",
        "--hide-notes",
        "--render-subchart-notes",
        "--take-ownership",
        "--disable-openapi-validation",
        "--wait-for-jobs",
    ];
    let mut all = vec!["--set", "token=t"];
    all.extend(flags);
    assert_eq!(render(&all), plain);
}

#[test]
fn a_flag_given_twice_counts_the_last_time() {
    assert!(render(&["-n", "one", "-n", "two"]).contains("namespace: two"));
}

#[test]
fn a_chart_must_be_somewhere() {
    let steer = Steer::new();
    let fails = |chart: &str| steer.run(&["template", chart]).failure();
    assert_eq!(fails("./nope"), "error: path \"./nope\" not found\n");
    assert!(fails("nope").starts_with(
        "error: non-absolute URLs should be in form of repo_name/path_to_chart, got: nope\nhelp: "
    ));
    assert!(fails("a/b").starts_with("error: repo a not found\nhelp: "));
}

#[test]
fn a_reader_that_goes_away_is_no_reason_to_complain() {
    use std::process::Stdio;
    let steer = Steer::new();
    let mut text = String::from("kind: A\napiVersion: v1\ndata:\n");
    for line in 0..40_000 {
        text.push_str(&format!("  key{line}: value\n"));
    }
    let chart = steer.chart("big", &[("templates/a.yaml", &text)]);
    let mut command = steer.command(&["template", &chart]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(141));
}

#[test]
fn broken_manifests_are_shown_under_debug() {
    let steer = Steer::new();
    let chart = steer.chart("broken", &[("templates/a.yaml", "a: b: c\n")]);
    let quiet = steer.run(&["template", &chart]);
    assert_eq!(quiet.stdout, "");
    assert!(quiet.failure().contains("help: --debug prints what was rendered"));
    let loud = steer.run(&["template", &chart, "--debug"]);
    assert_eq!(loud.code, 1);
    assert!(loud.stdout.contains("# Source: broken/templates/a.yaml\na: b: c\n"), "{}", loud.stdout);
}

#[test]
fn missing_dependencies_are_fetched_if_asked() {
    let steer = Steer::new();
    steer.chart("child", &[("templates/a.yaml", "kind: Child\napiVersion: v1\n")]);
    let chart = steer.chart("parent", &[("templates/a.yaml", "kind: Parent\napiVersion: v1\n")]);
    let text = "apiVersion: v2\nname: parent\nversion: 0.1.0\ndependencies:\n- {name: child, version: '>=0.1.0', repository: 'file://../child'}\n";
    steer.write("parent/Chart.yaml", text);
    let failed = steer.run(&["template", &chart]).failure();
    assert!(
        failed.contains("found in Chart.yaml, but missing in charts/ directory: child\nhelp: "),
        "{failed}"
    );

    let outcome = steer.run(&["template", &chart, "--dependency-update"]);
    assert_eq!(outcome.stderr, "Saving 1 charts\nDeleting outdated charts\n");
    assert_eq!(sources(&outcome.stdout), ["parent/charts/child/templates/a.yaml", "parent/templates/a.yaml"]);
    assert!(steer.path("parent/charts/child-0.1.0.tgz").exists());
    let lock = fs::read_to_string(steer.path("parent/Chart.lock")).unwrap();
    assert!(
        lock.starts_with("dependencies:\n- name: child\n  repository: file://../child\n  version: 0.1.0\n"),
        "{lock}"
    );
}
