//! Validation of a package: errors and warnings.

use std::collections::{BTreeMap, BTreeSet};

use super::{CHARTS, OPERATOR_FILE, OperatorFile, PARAMS_FILE, Package, TEMPLATES, keys, line_of};
use crate::api::{API_VERSION, ParameterType, Task};
use crate::error::Problem;
use crate::parameters;
use crate::plan;
use crate::task::chart;
use crate::template::Renderer;

/// Not an error for a package that existing instances are upgraded to.
const NO_DEPLOY: &str = "there is no deploy plan: an operator is required to have a 'deploy' plan";

/// Whether the error is the lack of a `deploy` plan, or of one that a parameter triggers.
pub(super) fn lacks_deploy(problem: &Problem) -> bool {
    problem.message == NO_DEPLOY || problem.message.starts_with("plan \"deploy\" used in parameter ")
}

const KINDS: &[&str] = &["Apply", "Delete", "Toggle", "Pipe", "KudoOperator", "Helm", "Dummy"];

struct Faults<'a> {
    files: &'a BTreeMap<String, String>,
    found: Vec<Problem>,
}

impl Faults<'_> {
    /// Adds an error at the first line of a file with a word.
    fn at(&mut self, file: &str, word: &str, message: impl Into<String>) {
        let line = self.files.get(file).and_then(|text| line_of(text, word)).filter(|_| !word.is_empty());
        self.found.push(Problem { file: file.to_owned(), line, message: message.into() });
    }
}

/// Finds everything that KUDO would fail on sooner or later.
pub(super) fn faults(package: &Package, files: &BTreeMap<String, String>) -> Vec<Problem> {
    let mut faults = Faults { files, found: Vec::new() };
    let operator = &package.operator;
    for (file, version) in
        [(OPERATOR_FILE, &operator.api_version), (PARAMS_FILE, &package.params.api_version)]
    {
        if !version.is_empty() && version != API_VERSION {
            faults.at(file, version, format!("apiVersion {version} is not supported: use {API_VERSION}"));
        }
    }
    if operator.name.is_empty() {
        faults.at(OPERATOR_FILE, "", "the operator has no name");
    }
    check_names(package, &mut faults);
    if operator.operator_version.is_empty() {
        faults.at(OPERATOR_FILE, "", "\"operatorVersion\" is required and must be semver");
    }
    for task in &operator.tasks {
        check_task(task, package, &mut faults);
    }
    check_plans(operator, &mut faults);
    check_parameters(package, &mut faults);
    for (name, text) in &package.templates {
        let file = format!("{TEMPLATES}{name}");
        if let Err((line, message)) = Renderer::check(name, text) {
            faults.found.push(Problem { file, line: Some(line), message });
        }
    }
    for (name, files) in &package.charts {
        if let Err(error) = chart(files) {
            faults.at(&format!("{CHARTS}{name}"), "", error.to_string());
        }
    }
    faults.found
}

fn check_task(task: &Task, package: &Package, faults: &mut Faults<'_>) {
    let Task { name, kind, spec } = task;
    let mut wrong = |message: String| faults.at(OPERATOR_FILE, name, format!("task {name}: {message}"));
    let mut files: Vec<&String> = Vec::new();
    match kind.as_str() {
        "Apply" | "Delete" | "Toggle" => {
            if spec.resources.is_empty() {
                wrong(format!("{kind} has an empty resource list: use a Dummy task if that is intended"));
            }
            if kind == "Toggle" && spec.parameter.is_empty() {
                wrong("Toggle has no parameter".into());
            } else if kind == "Toggle"
                && !package.params.parameters.iter().any(|one| one.name == spec.parameter)
            {
                wrong(format!(
                    "Toggle refers to parameter {}, which is not in {PARAMS_FILE}",
                    spec.parameter
                ));
            }
            for check in &spec.health {
                if let Err(why) = check.verify() {
                    wrong(why);
                }
            }
            if kind == "Delete" && !spec.health.is_empty() {
                wrong("Delete has no health".into());
            }
            files.extend(&spec.resources);
        }
        "Pipe" => {
            if spec.pod.is_empty() {
                wrong("Pipe has no pod".into());
            } else {
                files.push(&spec.pod);
            }
            if spec.pipe.is_empty() {
                wrong("Pipe has an empty pipe files list".into());
            }
            for pipe in &spec.pipe {
                if pipe.file.is_empty() == pipe.env_file.is_empty() {
                    wrong(format!("pipe {} must have either 'file' or 'envFile' set but not both", pipe.key));
                }
                if !matches!(pipe.kind.as_str(), "Secret" | "ConfigMap") {
                    wrong(format!("invalid pipe kind {:?}: must be Secret or ConfigMap", pipe.kind));
                }
                let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                if pipe.key.is_empty() || !pipe.key.chars().all(is_fine) {
                    wrong(format!(
                        "invalid pipe key {:?}: only letters, numbers and _ and - are allowed",
                        pipe.key
                    ));
                }
            }
        }
        "KudoOperator" => {
            if spec.package.is_empty() {
                wrong("KudoOperator has an empty package name".into());
            }
            if !spec.parameter_file.is_empty() {
                files.push(&spec.parameter_file);
            }
        }
        "Helm" => {
            if spec.chart.is_empty() {
                wrong("Helm has no chart".into());
            } else if !package.charts.contains_key(&spec.chart) {
                wrong(format!("{CHARTS}{} not found", spec.chart));
            }
            if !spec.values_file.is_empty() {
                files.push(&spec.values_file);
            }
        }
        "Dummy" => {}
        other => {
            let hint =
                keys::nearest(other, KINDS).map_or(String::new(), |kind| format!(", did you mean {kind}?"));
            wrong(format!("unknown task kind {other}{hint}"));
        }
    }
    for file in files {
        if !package.templates.contains_key(file) {
            faults.at(OPERATOR_FILE, file, format!("task {name}: {TEMPLATES}{file} not found"));
        }
    }
}

fn check_plans(operator: &OperatorFile, faults: &mut Faults<'_>) {
    if !operator.plans.contains_key("deploy") {
        faults.at(OPERATOR_FILE, "plans", NO_DEPLOY);
    }
    let names: BTreeSet<&str> = operator.tasks.iter().map(|task| task.name.as_str()).collect();
    if names.len() < operator.tasks.len() {
        let mut seen = BTreeSet::new();
        for task in operator.tasks.iter().filter(|task| !seen.insert(task.name.clone())) {
            faults.at(OPERATOR_FILE, &task.name, format!("duplicate task {}", task.name));
        }
    }
    for (plan_name, plan) in &operator.plans {
        if let Err(why) = plan::timeout(&plan.timeout) {
            faults.at(OPERATOR_FILE, &plan.timeout, format!("plan {plan_name}: {why}"));
        }
        if plan.phases.is_empty() {
            faults.at(OPERATOR_FILE, plan_name, format!("plan {plan_name} has no phases"));
        }
        let mut phases = BTreeSet::new();
        for phase in &plan.phases {
            if !phases.insert(&phase.name) {
                faults.at(
                    OPERATOR_FILE,
                    &phase.name,
                    format!("plan {plan_name}: duplicate phase {}", phase.name),
                );
            }
            let mut steps = BTreeSet::new();
            for step in &phase.steps {
                let place = format!("{plan_name}.{}.{}", phase.name, step.name);
                if !steps.insert(&step.name) {
                    faults.at(OPERATOR_FILE, &step.name, format!("duplicate step {place}"));
                }
                if let Err(why) = plan::timeout(&step.timeout) {
                    faults.at(OPERATOR_FILE, &step.timeout, format!("step {place}: {why}"));
                }
                for task in step.tasks.iter().filter(|task| !names.contains(task.as_str())) {
                    faults.at(OPERATOR_FILE, task, format!("step {place}: task {task} is not defined"));
                }
            }
        }
    }
}

/// Checks parameter names: no two may differ only in case, and each has to be usable in a flag.
fn check_names(package: &Package, faults: &mut Faults<'_>) {
    let names = || package.params.parameters.iter().map(|parameter| parameter.name.as_str());
    let mut seen = BTreeSet::new();
    for name in names().filter(|name| !seen.insert(name.to_lowercase())) {
        faults.at(PARAMS_FILE, name, format!("parameter {name:?} has a duplicate"));
    }
    for name in names() {
        for char in name.chars().filter(|char| ";,".contains(*char)) {
            faults.at(PARAMS_FILE, name, format!("parameter {name:?} contains invalid character {char:?}"));
        }
    }
}

fn check_parameters(package: &Package, faults: &mut Faults<'_>) {
    for parameter in &package.params.parameters {
        let name = &parameter.name;
        if !parameter.trigger.is_empty() && !package.operator.plans.contains_key(&parameter.trigger) {
            let message = format!("plan {:?} used in parameter {name:?} is not defined", parameter.trigger);
            faults.at(PARAMS_FILE, &parameter.trigger, message);
        }
        if !parameter.ty.is_empty() && ParameterType::parse(&parameter.ty).is_none() {
            faults.at(PARAMS_FILE, name, format!("parameter {name}: unknown type {}", parameter.ty));
            continue;
        }
        let definition = parameter.definition();
        if let Some(default) = definition.default.as_deref().filter(|default| !default.is_empty())
            && let Err(error) = parameters::validate(&definition, default)
        {
            faults.at(
                PARAMS_FILE,
                name,
                error.to_string().replacen("an invalid value", "an invalid default value", 1),
            );
        }
        if definition.values.as_ref().is_some_and(Vec::is_empty) {
            faults.at(PARAMS_FILE, name, format!("parameter {name}: the enum has no values"));
        }
    }
}

/// Finds what works as in KUDO, but is probably a mistake.
pub(super) fn warnings(package: &Package, files: &BTreeMap<String, String>) -> Vec<Problem> {
    let mut faults = Faults { files, found: Vec::new() };
    let mut check = |place: String, strategy: &str| {
        if !matches!(strategy, "serial" | "parallel" | "") {
            let hint = keys::nearest(strategy, &["serial", "parallel"])
                .map_or(String::new(), |word| format!(", did you mean {word}?"));
            faults.at(
                OPERATOR_FILE,
                strategy,
                format!("{place}: unknown strategy {strategy} runs in parallel{hint}"),
            );
        }
    };
    for (name, plan) in &package.operator.plans {
        check(format!("plan {name}"), &plan.strategy.0);
        for phase in &plan.phases {
            check(format!("phase {name}.{}", phase.name), &phase.strategy.0);
        }
    }
    let used: BTreeSet<&str> = package
        .operator
        .plans
        .values()
        .flat_map(|plan| &plan.phases)
        .flat_map(|phase| &phase.steps)
        .flat_map(|step| &step.tasks)
        .map(String::as_str)
        .collect();
    for task in package.operator.tasks.iter().filter(|task| !used.contains(task.name.as_str())) {
        faults.at(OPERATOR_FILE, &task.name, format!("task {:?} defined but not used", task.name));
    }
    faults.found
}
