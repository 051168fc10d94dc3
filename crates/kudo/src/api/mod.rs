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
/// Group and version, as in `apiVersion`.
pub const API_VERSION: &str = "kudo.dev/v1beta1";
/// The finalizer that keeps an instance until its `cleanup` plan is complete.
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

/// Annotations of instances, and of objects that a plan applied.
pub mod annotation {
    steersman_core::vocabulary! {
        /// Annotations of instances, and of objects that a plan applied.
        pub const ANNOTATIONS = {
            /// On instances: the last admitted spec, used to detect changes where no webhook is called.
            pub const ADMITTED = "kudo.dev/admitted-spec";
            /// On instances: UID of the plan execution to abort.
            pub const ABORT = "kudo.dev/abort-plan";
            /// On instances: UID of the failed plan execution that the next one continues.
            pub const RETRY = "kudo.dev/retry-plan";
            /// Plan that last applied the object.
            pub const PLAN = "kudo.dev/plan";
            /// Phase of that plan.
            pub const PHASE = "kudo.dev/phase";
            /// Step of that phase.
            pub const STEP = "kudo.dev/step";
            /// UID of the plan execution that last applied the object.
            pub const PLAN_UID = "kudo.dev/last-plan-execution-uid";
            /// On pod templates: version of the operator.
            pub const OPERATOR_VERSION = "kudo.dev/operator-version";
            /// Last applied configuration: the original of three-way merges.
            pub const LAST_APPLIED = "kudo.dev/last-applied-configuration";
            /// On pod templates: hash of the ConfigMaps and Secrets that the pods mount.
            pub const DEPENDENCIES_HASH = "kudo.dev/dependencies-hash";
            /// Excludes an object from the dependencies hash.
            pub const SKIP_HASH = "kudo.dev/skip-hash-calculation";
            /// If `true`, the object is neither repaired nor pruned.
            pub const UNMANAGED = "kudo.dev/unmanaged";
            /// Marks the pod of a Pipe task.
            pub const PIPE_POD = "kudo.dev/pipepod";
        };
    }
}

/// Returns the name of an OperatorVersion: `name-app-operator`, without the empty parts.
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

/// Declares an object of the group: metadata, spec and further fields.
macro_rules! object {
    ($(#[$doc:meta])* $name:ident, $plural:literal, { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $name {
            api_version: String,
            kind: String,
            /// The object's metadata.
            pub metadata: ObjectMeta,
            $($(#[$field_doc])* #[serde(skip_serializing_if = "is_default")] pub $field: $type,)*
        }

        impl $name {
            /// Creates an object with a name, in a namespace.
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

            /// Returns its name; empty if it has none.
            #[must_use]
            pub fn name(&self) -> &str {
                self.metadata.name.as_deref().unwrap_or_default()
            }

            /// Returns its namespace; empty if it has none.
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
    /// An operator: only its description.
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
    /// An instance of an operator version: with parameter values, and a plan to execute.
    Instance, "instances", {
    /// The desired state.
    spec: InstanceSpec,
    /// The status of its plans.
    status: InstanceStatus,
});

/// The description of an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OperatorSpec {
    /// A description of its purpose.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The version of KUDO that it was written for. Not checked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kudo_version: String,
    /// The oldest version of Kubernetes that it runs on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kubernetes_version: String,
    /// Its maintainers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// The URL of its website.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The template of the namespace that `--create-namespace` creates.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace_manifest: String,
}

/// A maintainer of an operator.
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
    /// The version of the application that it operates.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// The templates by their path below `templates/`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, String>,
    /// The charts' files, by the chart's directory below `charts/` and their path within it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub charts: BTreeMap<String, BTreeMap<String, String>>,
    /// The tasks that steps refer to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// The parameters that instances can set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// The plans by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plans: BTreeMap<String, Plan>,
    /// The connection string of the application. Not used.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub connection_string: String,
}

impl OperatorVersionSpec {
    /// Returns the task with a name.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.name == name)
    }

    /// Returns the parameter with a name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
}

/// A unit of work of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    /// Its name, by which steps refer to it.
    pub name: String,
    /// Apply, Delete, Toggle, Pipe, KudoOperator, Helm or Dummy.
    pub kind: String,
    /// Its arguments, depending on its kind.
    pub spec: TaskSpec,
}

/// The arguments of a task. Which fields are used depends on its kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskSpec {
    /// Apply, Delete, Toggle: the templates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Apply, Toggle: health checks for objects that the built-in rules do not cover.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub health: Vec<HealthCheck>,
    /// Toggle: the boolean parameter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameter: String,
    /// Pipe: the template of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Pipe: the files to store.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pipe: Vec<PipeSpec>,
    /// Dummy: whether to fail.
    #[serde(skip_serializing_if = "is_default")]
    pub want_err: bool,
    /// Dummy: whether to fail permanently.
    #[serde(skip_serializing_if = "is_default")]
    pub fatal: bool,
    /// Dummy: whether to complete immediately.
    #[serde(skip_serializing_if = "is_default")]
    pub done: bool,
    /// KudoOperator: the operator's name, or in a package also the path of its package.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub package: String,
    /// KudoOperator: the child instance's name. Default: the parent's, a dash and the operator's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_name: String,
    /// KudoOperator: the version of the application.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// KudoOperator: the version of the operator.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator_version: String,
    /// KudoOperator: the template of the child's parameters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameter_file: String,
    /// Helm: the chart's directory below `charts/`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub chart: String,
    /// Helm: the name of the release. Default: the instance's, a dash and the chart's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release_name: String,
    /// Helm: the template of the release's values. Default: the chart's values.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub values_file: String,
}

/// A health check for the objects of a kind, in CEL over `object`. It replaces the built-in rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthCheck {
    /// The kind of the objects.
    pub kind: String,
    /// The name of the object. Default: all objects of the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// True once it is healthy. A missing field counts as false.
    pub ready: String,
    /// True if it failed permanently, which fails the plan. Default: never.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failed: String,
}

/// A file that a Pipe task stores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PipeSpec {
    /// The path of a file, stored as a single value under its base name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The path of a file with `KEY=VALUE` lines, each stored as a value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub env_file: String,
    /// The kind of the object: Secret or ConfigMap.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The key under which templates find it in `.Pipes`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
}

/// Whether phases or steps run in order or concurrently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Strategy(pub String);

impl Strategy {
    /// Whether it is `serial`: like in KUDO, any other value means parallel.
    #[must_use]
    pub fn is_serial(&self) -> bool {
        self.0 == "serial"
    }
}

/// A plan: its phases run in order or concurrently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// Whether each phase waits for the previous ones.
    #[serde(skip_serializing_if = "is_default")]
    pub strategy: Strategy,
    /// The timeout of a run, such as `1h30m`. Default: none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timeout: String,
    /// The phases.
    pub phases: Vec<Phase>,
}

/// A phase: its steps run in order or concurrently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Whether each step waits for the previous ones.
    #[serde(skip_serializing_if = "is_default")]
    pub strategy: Strategy,
    /// The steps.
    pub steps: Vec<Step>,
}

/// A step: its tasks run concurrently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// The timeout of the step, such as `10m`. Default: none.
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
    /// Returns its name in params.yaml.
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

    /// Parses a type's name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::String, Self::Integer, Self::Number, Self::Boolean, Self::Array, Self::Map]
            .into_iter()
            .find(|one| one.as_str() == name)
    }
}

/// A parameter that instances can set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Parameter {
    /// Its name, in `.Params`.
    pub name: String,
    /// Its display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its default value. A list or map is a YAML string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Whether a value is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// The plan that a change triggers. Default: `update`, else `deploy`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trigger: String,
    /// The type of its value. Default: string.
    #[serde(rename = "value-type", skip_serializing_if = "Option::is_none")]
    pub value_type: Option<ParameterType>,
    /// Whether its value cannot change after the instance was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub immutable: Option<bool>,
    /// The allowed values.
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

impl Parameter {
    /// Returns its type.
    #[must_use]
    pub fn ty(&self) -> ParameterType {
        self.value_type.unwrap_or_default()
    }

    /// Whether a value is required.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.required.unwrap_or_default()
    }

    /// Whether its value cannot change after the instance was created.
    #[must_use]
    pub fn is_immutable(&self) -> bool {
        self.immutable.unwrap_or_default()
    }
}
