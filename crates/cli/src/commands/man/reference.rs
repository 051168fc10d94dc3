//! Generates the reference in Markdown: each page from its source of truth in the code.

use super::flags;
use super::tables::{fields, metrics, terms};
use crate::commands::GROUPS;

/// Returns the pages by file name.
pub(super) fn pages() -> Vec<(String, String)> {
    let mut program = crate::commands::command();
    program.build();
    let mut pages: Vec<(String, String)> = GROUPS
        .iter()
        .map(|(group, commands)| {
            let commands = commands.iter().filter_map(|(name, _)| program.find_subcommand(name));
            let text = commands.map(|command| flags::sections(command, "steer")).collect::<String>();
            (format!("commands-{}.md", group.to_lowercase()), page(&format!("Commands: {group}"), &text))
        })
        .collect();
    pages.push(("commands.md".to_owned(), overview(&program)));
    let mut operator = steersman::command_line();
    operator.build();
    let about =
        "An operator in Rust is a program with this command line. Without a command, the operator runs.\n\n";
    let text = format!("{about}{}", flags::sections(&operator, ""));
    pages.push(("operator-flags.md".to_owned(), page("Flags of operators in Rust", &text)));
    for (name, title, text) in
        [("watches.md", "watches.yaml", watches()), ("annotations.md", "Annotations", annotations())]
    {
        pages.push((name.to_owned(), page(title, &text)));
    }
    pages.push(("conditions.md".to_owned(), page("Conditions", &conditions())));
    pages.push(("events.md".to_owned(), page("Events", &events())));
    pages.push(("metrics.md".to_owned(), page("Metrics", &metrics_page())));
    pages
}

fn page(title: &str, text: &str) -> String {
    format!("# {title}\n\nMade by `steer man --markdown` from the code.\n\n{}\n", text.trim_end())
}

fn overview(program: &clap::Command) -> String {
    let mut text = String::from("Flags of every command:\n\n");
    text += &flags::table(program.get_arguments());
    for (group, commands) in GROUPS {
        text += &format!("\n## {group}\n\n| command | |\n| --- | --- |\n");
        for (name, _) in *commands {
            let about = program.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let page = format!("commands-{}.md", group.to_lowercase());
            text += &format!("| [`steer {name}`]({page}#steer-{name}) | {} |\n", flags::cell(&about));
        }
    }
    page("Commands", &text)
}

fn watches() -> String {
    let mut text = String::from(
        "The file is a list with an entry for each kind. Durations are in Go's format, such as `1h30m`.\n\n\
         ## Chart operators\n\n",
    );
    text += &fields(&steersman_helm_operator::WatchConfig::schema());
    #[cfg(unix)]
    {
        text += "\n## Ansible operators\n\n`${VARIABLES}` of the environment are expanded. An unknown field is an error.\n\n";
        text += &fields(&steersman_ansible_operator::WatchConfig::schema());
    }
    text
}

fn annotations() -> String {
    let mut text = String::from(
        "## Chart operators\n\nSet on the watched object. All but the first are operator-sdk's. \
        Switches are on if they are `true`, `t` or `1`.\n\n",
    );
    text += &terms("annotation", steersman_helm_operator::ANNOTATIONS);
    text += "\nIn charts, Helm's annotations have the same meaning as in Helm: `helm.sh/hook`, `helm.sh/hook-weight`, \
             `helm.sh/hook-delete-policy` and `helm.sh/resource-policy`.\n";
    #[cfg(unix)]
    {
        text += "\n## Ansible operators\n\nSet on the watched object, as in operator-sdk.\n\n";
        text += &terms("annotation", steersman_ansible_operator::ANNOTATIONS);
    }
    text += "\n## KUDO packages\n\nSet on instances and on the objects of their plans. All but the first three are KUDO's.\n\n";
    text += &terms("annotation", steersman_kudo::annotation::ANNOTATIONS);
    text += "\n## Operators in Rust\n\n";
    text += &terms("annotation", steersman::ANNOTATIONS);
    text += "\n## REST and portal\n\n";
    text += &terms("annotation", steersman_gateway::ANNOTATIONS);
    text += "\n## The embedded cluster\n\nThey control the simulation, in tests for example. Durations are in Go's format, such as `90s`.\n\n";
    text += &terms("annotation", steersman_cluster::ANNOTATIONS);
    text
}

fn conditions() -> String {
    let mut text = String::from("Operators in Rust have the conditions that their reconcilers write.\n");
    let mut add = |title: &str, conditions, reasons| {
        text += &format!("\n## {title}\n\n{}\n", terms("condition", conditions));
        text += &terms("reason", reasons);
    };
    add("Chart operators", steersman_helm_operator::CONDITIONS, steersman_helm_operator::REASONS);
    #[cfg(unix)]
    add("Ansible operators", steersman_ansible_operator::CONDITIONS, steersman_ansible_operator::REASONS);
    add("KUDO packages", steersman_kudo::reason::CONDITIONS, steersman_kudo::reason::REASONS);
    text += "\nA chart operator with custom code may reject an object; the reason of `Irreconcilable` is then the one \
             that the code sets.\n";
    text
}

fn events() -> String {
    let mut text = String::from(
        "Events are about the watched object. Repeated events are counted in one series, and the events of an object \
         are rate limited.\n\n## Every operator\n\n",
    );
    text += &terms("reason", steersman::EVENTS);
    text += "\n## Chart operators\n\n`InstallSuccessful` and `UpgradeSuccessful` ([conditions](conditions.md)), and:\n\n";
    text += &terms("reason", steersman_helm_operator::EVENTS);
    #[cfg(unix)]
    {
        text += "\n## Ansible operators\n\nEvents that plays record by `k8s_event`, and:\n\n";
        text += &terms("reason", steersman_ansible_operator::EVENTS);
    }
    text += "\n## KUDO packages\n\n";
    text += &terms("reason", steersman_kudo::reason::EVENTS);
    text
}

fn metrics_page() -> String {
    let mut text = String::from(
        "Served in the OpenMetrics text format on `--metrics-bind-address`. Names are those of controller-runtime and \
         client-go where they have an equivalent, so their dashboards and alerts work.\n\n## Every operator\n\n",
    );
    text += &metrics(&steersman::metrics_reference());
    #[cfg(unix)]
    {
        text += "\n## Ansible operators\n\nIn addition, the metrics that plays create by `osdk_metric`.\n\n";
        text += &metrics(&steersman_ansible_operator::metrics_reference());
    }
    text
}
