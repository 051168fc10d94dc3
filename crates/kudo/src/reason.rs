//! Reasons of instances' conditions and events; those that KUDO has too keep its names.

steersman_core::vocabulary! {
    /// Conditions of an instance.
    pub const CONDITIONS = {
        /// True while all objects of the last completed plan are ready; Unknown while a plan is running, or
        /// after one ended with a fatal error.
        pub const READY = "Ready";
    };

    /// Reasons of the condition `Ready`.
    pub const REASONS = {
        /// True: all objects are ready.
        pub const RESOURCES_READY = "ResourcesReady";
        /// False: the message names the objects that are not.
        pub const RESOURCE_NOT_READY = "ResourceNotReady";
        /// Unknown: a deploy, update or upgrade plan is running.
        pub const PLAN_IN_PROGRESS = "PlanInProgress";
        /// Unknown: the last plan ended with a fatal error.
        pub const PLAN_IN_FATAL_ERROR = "PlanInFatalError";
    };

    /// Reasons of events about an instance.
    pub const EVENTS = {
        /// Normal: a plan was started.
        pub const PLAN_STARTED = "PlanStarted";
        /// Normal: a plan was completed.
        pub const PLAN_FINISHED = "PlanFinished";
        /// Warning: a plan was aborted by `plan abort`.
        pub const PLAN_ABORTED = "PlanAborted";
        /// Warning: a plan or step exceeded its `timeout`.
        pub const PLAN_TIMEOUT = "PlanTimeout";
        /// Warning: a plan is invalid and cannot be run.
        pub const INVALID_PLAN = "InvalidPlan";
        /// Warning: the instance failed validation and was denied; the message has the reason.
        pub const INVALID_INSTANCE = "InvalidInstance";
        /// Warning: the instance's operator version does not exist in the cluster.
        pub const INVALID_OPERATOR_VERSION = "InvalidOperatorVersion";
        /// Warning: a parameter's value is not of its type.
        pub const INVALID_PARAMS = "InvalidParams";
        /// Normal: an object that was changed or deleted by another client was restored.
        pub const DRIFT_CORRECTED = "DriftCorrected";
        /// Normal: an object that the operator version no longer contains was deleted.
        pub const PRUNED = "Pruned";
        /// Warning: an object that the operator version no longer contains was not deleted; the message has
        /// the reason.
        pub const PRUNE_FAILED = "PruneFailed";
        /// Warning: an existing object was adopted by this instance.
        pub const ADOPTED = "Adopted";
        /// Warning: a template has an API version that Kubernetes has removed, and was applied with the
        /// current one.
        pub const REMOVED_API_VERSION = "RemovedAPIVersion";
        /// Warning: an object that a task waits for failed terminally, such as a Job.
        pub const FAILED_TERMINAL_STATE = "FailedTerminalStateError";
        /// Warning: a template could not be rendered, or is not an object; the message has its file and line.
        pub const TASK_RENDERING = "TaskRenderingError";
        /// Warning: labels, annotations and owner references could not be added to an object.
        pub const TASK_ENHANCEMENT = "TaskEnhancementError";
        /// Warning: a task has an unknown kind.
        pub const TASK_BUILD = "TaskBuildError";
        /// Warning: a step refers to a task that does not exist in the package.
        pub const UNKNOWN_TASK_NAME = "UnknownTaskName";
        /// Warning: a file of a Pipe task could not be read or stored.
        pub const PIPE_TASK = "PipeTaskError";
        /// Warning: the pod of a Pipe task does not meet the requirements for such pods.
        pub const RESOURCE_VALIDATION = "ResourceValidationError";
        /// Warning: the template of a Pipe task is not a pod.
        pub const RESOURCE_UNMARSHAL = "ResourceUnmarshalError";
        /// Warning: the parameter of a Toggle task is not a boolean.
        pub const TOGGLE_TASK = "ToggleTaskError";
        /// Warning: the release of a Helm task could not be installed or upgraded.
        pub const HELM_TASK = "HelmTaskError";
        /// Warning: a Dummy task failed, as configured.
        pub const DUMMY_TASK = "DummyTaskError";
    };
}
