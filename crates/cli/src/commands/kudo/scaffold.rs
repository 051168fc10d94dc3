//! `steer kudo package new | add`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::Value;
use steersman_kudo::package::{OPERATOR_FILE, PARAMS_FILE, PackageParameter, edit};
use steersman_kudo::{Maintainer, ParameterType, Phase, Plan, Step, Strategy, Task, TaskSpec};

use crate::ask::ask;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Create a package with a plan that applies nothing yet
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo package new my-operator\n  steer kudo package new -i")]
pub(super) struct New {
    /// Name of the operator
    #[arg(required_unless_present = "interactive")]
    name: Option<String>,

    /// Prompt for the name, directory and maintainer
    #[arg(short, long)]
    interactive: bool,

    /// Overwrite operator.yaml if the directory exists
    #[arg(short = 'w', long)]
    overwrite: bool,
}

impl New {
    pub(super) fn run(self, output: &mut Output) -> Result {
        let default = self.name.unwrap_or_else(|| "myoperator".into());
        let question = |text: &str, default: &str| -> Result<String> {
            Ok(if self.interactive { ask(text, Some(default))? } else { None }
                .unwrap_or_else(|| default.into()))
        };
        let name = question("Operator name", &default)?;
        let directory = PathBuf::from(question("Operator directory", "operator")?);
        let maintainer = Maintainer {
            name: question("Maintainer name", "My Name")?,
            email: question("Maintainer email", "MyEmail@invalid")?,
        };
        let shown = directory.display().to_string();
        if directory.exists() && !self.overwrite {
            return Err(Failure::new(format!("folder {shown:?} already exists"))
                .help("--overwrite replaces its operator.yaml"));
        }
        if Path::new(OPERATOR_FILE).exists() {
            return Err(Failure::new(
                "operator.yaml exists in the current directory.  creating an operator in an operator is not supported",
            ));
        }
        std::fs::create_dir_all(&directory).map_err(|error| Failure::new(format!("{shown}: {error}")))?;
        write(&directory.join(OPERATOR_FILE), &edit::new_operator(&name, &maintainer))?;
        let params = directory.join(PARAMS_FILE);
        if !params.exists() {
            write(&params, &edit::new_params())?;
        }
        output.line(
            "Operator created. Use \n - package add parameter\n - package add plan\n - package add task\nor other package add commands to extend it.",
        );
        Ok(())
    }
}

/// Add to the package in the current directory, or in its only subdirectory that has one
#[derive(Args, Debug)]
pub(super) struct Add {
    #[command(subcommand)]
    what: Addition,
}

#[derive(Debug, Subcommand)]
enum Addition {
    Maintainer(AddMaintainer),
    Parameter(AddParameter),
    Task(AddTask),
    Plan(AddPlan),
}

/// Add a maintainer
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo package add maintainer 'Jo Doe' jo@example.org")]
struct AddMaintainer {
    /// Name of the maintainer [default: prompt]
    name: Option<String>,

    /// Email address
    email: Option<String>,

    /// Prompt for missing values
    #[arg(short, long)]
    interactive: bool,
}

/// Add a parameter
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo package add parameter REPLICAS --default 3 --type integer --trigger update"
)]
struct AddParameter {
    /// Name of the parameter [default: prompt]
    name: Option<String>,

    /// Default value of the parameter, as YAML
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    default: Option<String>,

    /// Display name of the parameter
    #[arg(long, value_name = "TEXT", default_value = "")]
    display_name: String,

    /// Description of the parameter
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,

    /// Plan to trigger when the parameter changes
    #[arg(long, value_name = "PLAN", default_value = "")]
    trigger: String,

    /// Type of the parameter: string, integer, number, boolean, array or map
    #[arg(long = "type", value_name = "TYPE", default_value = "")]
    ty: String,

    /// Whether a value is required
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    required: Option<bool>,

    /// Whether the value cannot be changed after an instance is created
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    immutable: Option<bool>,

    /// Allowed value; may be repeated
    #[arg(long = "enum", value_name = "VALUE")]
    values: Vec<String>,

    /// Prompt for missing values
    #[arg(short, long)]
    interactive: bool,
}

/// Add a task
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo package add task app --kind Apply --resource deployment.yaml"
)]
struct AddTask {
    /// Name of the task [default: prompt]
    name: Option<String>,

    /// Kind of the task: Apply, Delete, Toggle, Pipe, KudoOperator or Dummy
    #[arg(long, value_name = "KIND", default_value = "Apply")]
    kind: String,

    /// Template to apply or delete, created if missing; may be repeated
    #[arg(long = "resource", value_name = "FILE")]
    resources: Vec<String>,

    /// Boolean parameter of a Toggle task
    #[arg(long, value_name = "NAME", default_value = "")]
    parameter: String,

    /// Pod template of a Pipe task
    #[arg(long, value_name = "FILE", default_value = "")]
    pod: String,

    /// Package of a KudoOperator task
    #[arg(long, value_name = "PACKAGE", default_value = "")]
    package: String,

    /// Prompt for missing values
    #[arg(short, long)]
    interactive: bool,
}

/// Add a plan
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  steer kudo package add plan backup --step main/snapshot=snapshot --step main/upload=upload"
)]
struct AddPlan {
    /// Name of the plan [default: prompt]
    name: Option<String>,

    /// Strategy of the plan and its phases: serial or parallel
    #[arg(long, value_name = "STRATEGY", default_value = "serial")]
    strategy: String,

    /// Step of a phase, with its tasks; may be repeated
    #[arg(long = "step", value_name = "PHASE/STEP=TASK[,TASK]")]
    steps: Vec<String>,

    /// Prompt for missing values
    #[arg(short, long)]
    interactive: bool,
}

impl Add {
    pub(super) fn run(self, output: &mut Output) -> Result {
        let directory = package_directory()?;
        let operator = directory.join(OPERATOR_FILE);
        let params = directory.join(PARAMS_FILE);
        match self.what {
            Addition::Maintainer(add) => {
                let name = given("Maintainer name", add.name)?;
                let email = given("Maintainer email", add.email)?;
                change(&operator, |text| edit::add_maintainer(text, &Maintainer { name, email }))?;
                output.line("maintainer added");
            }
            Addition::Parameter(add) => {
                let parameter = add.parameter()?;
                change(&params, |text| edit::add_parameter(text, &parameter))?;
                output.line(format!("parameter {} added", parameter.name));
            }
            Addition::Task(add) => {
                let task = add.task()?;
                change(&operator, |text| edit::add_task(text, &task))?;
                for file in task.spec.resources.iter().chain([&task.spec.pod]).filter(|file| !file.is_empty())
                {
                    let path = directory.join("templates").join(file);
                    if !path.exists() {
                        if let Some(parent) = path.parent() {
                            std::fs::create_dir_all(parent)
                                .map_err(|error| Failure::new(format!("{}: {error}", parent.display())))?;
                        }
                        write(&path, "")?;
                    }
                }
                output.line(format!("task {} added", task.name));
            }
            Addition::Plan(add) => {
                let (name, plan) = add.plan()?;
                change(&operator, |text| edit::add_plan(text, &name, &plan))?;
                output.line(format!("plan {name} added"));
            }
        }
        Ok(())
    }
}

impl AddParameter {
    fn parameter(self) -> Result<PackageParameter> {
        if !self.ty.is_empty() && ParameterType::parse(&self.ty).is_none() {
            return Err(Failure::new(format!(
                "invalid parameter type {}: must be string, integer, number, boolean, array or map",
                self.ty
            )));
        }
        // Strings are kept verbatim: only arrays, maps, numbers and booleans are parsed as YAML.
        let is_text = matches!(ParameterType::parse(&self.ty), None | Some(ParameterType::String));
        let default = match self.default {
            None => Value::Null,
            Some(text) if is_text => Value::String(text),
            Some(text) => steersman_yaml::from_str(&text)
                .map_err(|error| Failure::new(format!("--default {text}: {error}")))?,
        };
        Ok(PackageParameter {
            name: given("Parameter name", self.name)?,
            display_name: self.display_name,
            description: self.description,
            default,
            required: self.required,
            trigger: self.trigger,
            ty: self.ty,
            immutable: self.immutable,
            values: Some(self.values.into_iter().map(Value::String).collect::<Vec<_>>())
                .filter(|values| !values.is_empty()),
            ..PackageParameter::default()
        })
    }
}

impl AddTask {
    fn task(self) -> Result<Task> {
        let spec = TaskSpec {
            resources: self.resources,
            parameter: self.parameter,
            pod: self.pod,
            package: self.package,
            ..TaskSpec::default()
        };
        Ok(Task { name: given("Task name", self.name)?, kind: self.kind, spec })
    }
}

impl AddPlan {
    fn plan(self) -> Result<(String, Plan)> {
        let strategy = Strategy(self.strategy);
        let mut steps = self.steps;
        if steps.is_empty() {
            steps.push(given("First step, as PHASE/STEP=TASK", None)?);
        }
        let mut plan = Plan { strategy: strategy.clone(), ..Plan::default() };
        for word in &steps {
            let wrong = || Failure::new(format!("--step {word} is not of the form PHASE/STEP=TASK[,TASK]"));
            let (place, tasks) = word.split_once('=').ok_or_else(wrong)?;
            let (phase_name, step_name) = place.split_once('/').ok_or_else(wrong)?;
            let tasks = tasks.split(',').map(str::to_owned).collect();
            let step = Step { name: step_name.into(), tasks, ..Step::default() };
            match plan.phases.iter_mut().find(|phase| phase.name == phase_name) {
                Some(phase) => phase.steps.push(step),
                None => plan.phases.push(Phase {
                    name: phase_name.into(),
                    strategy: strategy.clone(),
                    steps: vec![step],
                }),
            }
        }
        Ok((given("Plan name", self.name)?, plan))
    }
}

/// Returns the given value, or prompts for it.
fn given(question: &str, value: Option<String>) -> Result<String> {
    let value = match value {
        Some(value) => Some(value),
        None => ask(question, None)?,
    };
    value.ok_or_else(|| Failure::new(format!("{} is missing", question.to_lowercase())))
}

/// Returns the directory of the package to add to.
fn package_directory() -> Result<PathBuf> {
    if Path::new(OPERATOR_FILE).exists() {
        return Ok(PathBuf::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(".").into_iter().flatten().flatten() {
        if entry.path().join(OPERATOR_FILE).exists() {
            found.push(PathBuf::from(entry.file_name()));
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some(directory), true) => Ok(directory),
        (Some(_), false) => Err(Failure::new("multiple operator folders discovered")),
        (None, _) => Err(Failure::new("no operator folder discovered")
            .help("run it where operator.yaml is; `steer kudo package new` makes a package")),
    }
}

fn change(
    path: &Path,
    edit: impl FnOnce(&str) -> std::result::Result<String, steersman_kudo::Error>,
) -> Result {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    write(path, &edit(&text)?)
}

fn write(path: &Path, text: &str) -> Result {
    std::fs::write(path, text).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}
