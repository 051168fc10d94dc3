//! The objects of `kudo.dev/v1beta1`.

mod instance;
mod resource;

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

pub use instance::{
    ExecutionStatus, InstanceSpec, InstanceStatus, PhaseStatus, PlanExecution, PlanRun, PlanStatus,
    StepStatus,
};
pub use resource::AppliedResource;

/// The API group.
pub const GROUP: &str = "kudo.dev";
/// The API version within the group.
pub const VERSION: &str = "v1beta1";
/// Group and version, as objects carry them.
pub const API_VERSION: &str = "kudo.dev/v1beta1";
/// Keeps an instance until its `cleanup` plan is complete.
pub const FINALIZER: &str = "kudo.dev.instance.cleanup";

/// Labels of objects that a plan applied.
pub mod label {
    /// Always `kudo`.
    pub const HERITAGE: &str = "heritage";
    /// The operator's name.
    pub const OPERATOR: &str = "kudo.dev/operator";
    /// The instance's name.
    pub const INSTANCE: &str = "kudo.dev/instance";
}

/// Annotations of objects that a plan applied, and of instances.
pub mod annotation {
    steersman_core::vocabulary! {
        /// Annotations of objects that a plan applied, and of instances.
        pub const ANNOTATIONS = {
            /// On instances: the spec that admission decided about last, by which a change is seen where no webhook is asked.
            pub const ADMITTED = "kudo.dev/admitted-spec";
            /// On instances: the run that is to be given up.
            pub const ABORT = "kudo.dev/abort-plan";
            /// On instances: the failed run that the next one of its plan goes on with.
            pub const RETRY = "kudo.dev/retry-plan";
            /// The plan that applied the object last.
            pub const PLAN = "kudo.dev/plan";
            /// The phase of that plan.
            pub const PHASE = "kudo.dev/phase";
            /// The step of that phase.
            pub const STEP = "kudo.dev/step";
            /// The execution of that plan.
            pub const PLAN_UID = "kudo.dev/last-plan-execution-uid";
            /// The operator's version, on pod templates.
            pub const OPERATOR_VERSION = "kudo.dev/operator-version";
            /// What was applied last: the original of three-way merges.
            pub const LAST_APPLIED = "kudo.dev/last-applied-configuration";
            /// On pod templates: changes when a ConfigMap or Secret that the pods mount does.
            pub const DEPENDENCIES_HASH = "kudo.dev/dependencies-hash";
            /// Leaves an object out of that hash.
            pub const SKIP_HASH = "kudo.dev/skip-hash-calculation";
            /// `true` on an object: it is neither repaired nor pruned.
            pub const UNMANAGED = "kudo.dev/unmanaged";
            /// Marks the pod of a Pipe task.
            pub const PIPE_POD = "kudo.dev/pipepod";
        };
    }
}

/// The name of an operator version's object: `name-app-operator`, without what is empty.
#[must_use]
pub fn operator_version_name(operator: &str, app_version: &str, version: &str) -> String {
    if app_version.is_empty() {
        format!("{operator}-{version}")
    } else {
        format!("{operator}-{app_version}-{version}")
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares an object of the group: metadata, spec and what else it has.
macro_rules! object {
    ($(#[$doc:meta])* $name:ident, $plural:literal, { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $name {
            api_version: String,
            kind: String,
            /// Name, namespace, labels and so on.
            pub metadata: ObjectMeta,
            $($(#[$field_doc])* #[serde(skip_serializing_if = "is_default")] pub $field: $type,)*
        }

        impl $name {
            /// An object of a name in a namespace.
            #[must_use]
            pub fn new(namespace: &str, name: &str) -> Self {
                let metadata = ObjectMeta {
                    name: Some(name.to_owned()),
                    namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
                    ..ObjectMeta::default()
                };
                Self {
                    api_version: API_VERSION.to_owned(),
                    kind: stringify!($name).to_owned(),
                    metadata,
                    ..Self::default()
                }
            }

            /// Its name, empty if it has none.
            #[must_use]
            pub fn name(&self) -> &str {
                self.metadata.name.as_deref().unwrap_or_default()
            }

            /// Its namespace, empty if it has none.
            #[must_use]
            pub fn namespace(&self) -> &str {
                self.metadata.namespace.as_deref().unwrap_or_default()
            }
        }

        impl Resource for $name {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                stringify!($name).into()
            }

            fn group((): &()) -> Cow<'_, str> {
                GROUP.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                VERSION.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

object!(
    /// What an operator is: nothing but its description.
    Operator, "operators", {
    /// Its description.
    spec: OperatorSpec,
});

object!(
    /// One version of an operator: its templates, tasks, parameters and plans.
    OperatorVersion, "operatorversions", {
    /// Its content.
    spec: OperatorVersionSpec,
});

object!(
    /// An operator version at work: with values for its parameters, and a plan that is carried out.
    Instance, "instances", {
    /// What is wanted.
    spec: InstanceSpec,
    /// How far its plans are.
    status: InstanceStatus,
});

/// The description of an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OperatorSpec {
    /// What it is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The version of KUDO that it was written for. Not checked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kudo_version: String,
    /// The oldest version of Kubernetes that it runs on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kubernetes_version: String,
    /// Who looks after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// Where to read more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Template of the namespace that `--create-namespace` makes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace_manifest: String,
}

/// A person who looks after an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Maintainer {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
}

/// A reference to another object of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    /// Its API version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Its kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its namespace. Default: that of the object that refers to it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// The content of an operator version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OperatorVersionSpec {
    /// The operator.
    pub operator: ObjectReference,
    /// The operator's version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The version of what it operates.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// The templates by their path below `templates/`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, String>,
    /// The files of charts by the chart's directory below `charts/`, and their path within it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub charts: BTreeMap<String, BTreeMap<String, String>>,
    /// What steps can do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// What instances can set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// The plans by their name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plans: BTreeMap<String, Plan>,
    /// Where the operated program is reached. Not used.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub connection_string: String,
}

impl OperatorVersionSpec {
    /// The task of a name.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.name == name)
    }

    /// The parameter of a name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
}

/// What a step can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    /// Its name, by which steps refer to it.
    pub name: String,
    /// Apply, Delete, Toggle, Pipe, KudoOperator, Helm or Dummy.
    pub kind: String,
    /// What it is about, by its kind.
    pub spec: TaskSpec,
}

/// What a task is about. Which fields matter depends on its kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskSpec {
    /// Apply, Delete, Toggle: the templates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Apply, Toggle: when objects are healthy, for those that the built-in rules do not know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub health: Vec<HealthCheck>,
    /// Toggle: the boolean parameter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameter: String,
    /// Pipe: the template of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Pipe: the files to keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pipe: Vec<PipeSpec>,
    /// Dummy: fail.
    #[serde(skip_serializing_if = "is_default")]
    pub want_err: bool,
    /// Dummy: fail for good.
    #[serde(skip_serializing_if = "is_default")]
    pub fatal: bool,
    /// Dummy: be done at once.
    #[serde(skip_serializing_if = "is_default")]
    pub done: bool,
    /// KudoOperator: the operator's name, or in a package where its package is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub package: String,
    /// KudoOperator: the name of the child. Default: the parent's, a dash and the operator's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_name: String,
    /// KudoOperator: the version of the program.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// KudoOperator: the version of the operator.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator_version: String,
    /// KudoOperator: the template with the child's parameters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameter_file: String,
    /// Helm: the chart's directory below `charts/`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub chart: String,
    /// Helm: the name of the release. Default: the instance's, a dash and the chart's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release_name: String,
    /// Helm: the template with the release's values. Default: those of the chart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub values_file: String,
}

/// When the objects of a kind are healthy, in CEL over `object`. It replaces the built-in rule for them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthCheck {
    /// The kind of the objects.
    pub kind: String,
    /// The name of the object. Default: all of the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// True once it is healthy. A field that is not there yet counts as false.
    pub ready: String,
    /// True if it will never be: the plan fails. Default: never.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failed: String,
}

/// A file that a Pipe task keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PipeSpec {
    /// The file, kept as one value under its base name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The file of `KEY=VALUE` lines, kept as a value each.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub env_file: String,
    /// Secret or ConfigMap.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// By which templates find it, in `.Pipes`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
}

/// Whether one thing waits for the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Strategy(pub String);

impl Strategy {
    /// Only `serial` is: every other word lets all begin at once, as in KUDO.
    #[must_use]
    pub fn is_serial(&self) -> bool {
        self.0 == "serial"
    }
}

/// Phases, in order or all at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// Whether phases wait for those before them.
    #[serde(skip_serializing_if = "is_default")]
    pub strategy: Strategy,
    /// How long a run may take, as `1h30m`. Default: for ever.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timeout: String,
    /// The phases.
    pub phases: Vec<Phase>,
}

/// Steps, in order or all at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Whether steps wait for those before them.
    #[serde(skip_serializing_if = "is_default")]
    pub strategy: Strategy,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Tasks that are done together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// How long it may take, as `10m`. Default: for ever.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timeout: String,
    /// The names of its tasks.
    pub tasks: Vec<String>,
}

/// The type of a parameter's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ParameterType {
    #[default]
    String,
    Integer,
    Number,
    Boolean,
    Array,
    Map,
}

impl ParameterType {
    /// Its name in params.yaml.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Map => "map",
        }
    }

    /// The type of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::String, Self::Integer, Self::Number, Self::Boolean, Self::Array, Self::Map]
            .into_iter()
            .find(|one| one.as_str() == name)
    }
}

/// What an instance can set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Parameter {
    /// Its name, in `.Params`.
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its value if an instance gives none. A list or table is YAML text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Whether it must have a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// The plan that a change starts. Default: `update`, else `deploy`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trigger: String,
    /// The type of its value. Default: string.
    #[serde(rename = "value-type", skip_serializing_if = "Option::is_none")]
    pub value_type: Option<ParameterType>,
    /// Whether it keeps the value that an instance began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub immutable: Option<bool>,
    /// The values that it may have.
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

impl Parameter {
    /// Its type.
    #[must_use]
    pub fn ty(&self) -> ParameterType {
        self.value_type.unwrap_or_default()
    }

    /// Whether it must have a value.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.required.unwrap_or_default()
    }

    /// Whether it keeps the value that an instance began with.
    #[must_use]
    pub fn is_immutable(&self) -> bool {
        self.immutable.unwrap_or_default()
    }
}
