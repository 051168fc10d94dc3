//! Reasons of conditions and events of instances; those that KUDO has have its names.

steersman_core::vocabulary! {
    /// Conditions of an instance.
    pub const CONDITIONS = {
        /// True while all objects of the plan that was completed last are ready, Unknown after a plan failed for good.
        pub const READY = "Ready";
    };

    /// Reasons of the condition `Ready`.
    pub const REASONS = {
        /// True: all objects are ready.
        pub const RESOURCES_READY = "ResourcesReady";
        /// False: the message names the objects that are not.
        pub const RESOURCE_NOT_READY = "ResourceNotReady";
        /// Unknown: a plan that deploys, updates or upgrades is running.
        pub const PLAN_IN_PROGRESS = "PlanInProgress";
        /// Unknown: the last plan failed for good.
        pub const PLAN_IN_FATAL_ERROR = "PlanInFatalError";
    };

    /// Reasons of events about an instance.
    pub const EVENTS = {
        /// Normal: a plan was started.
        pub const PLAN_STARTED = "PlanStarted";
        /// Normal: a plan was completed.
        pub const PLAN_FINISHED = "PlanFinished";
        /// Warning: a plan was given up by `plan abort`.
        pub const PLAN_ABORTED = "PlanAborted";
        /// Warning: a plan or a step took longer than its `timeout`.
        pub const PLAN_TIMEOUT = "PlanTimeout";
        /// Warning: a plan cannot be run as it is written.
        pub const INVALID_PLAN = "InvalidPlan";
        /// Warning: the instance was denied; the message says what is wrong with it.
        pub const INVALID_INSTANCE = "InvalidInstance";
        /// Warning: the instance's operator version is not in the cluster.
        pub const INVALID_OPERATOR_VERSION = "InvalidOperatorVersion";
        /// Warning: a parameter's value is not of its type.
        pub const INVALID_PARAMS = "InvalidParams";
        /// Normal: an object that was changed or deleted by others was brought back.
        pub const DRIFT_CORRECTED = "DriftCorrected";
        /// Normal: an object that the operator version no longer has was deleted.
        pub const PRUNED = "Pruned";
        /// Warning: such an object could not be deleted, or was left alone; the message says why.
        pub const PRUNE_FAILED = "PruneFailed";
        /// Warning: an object was there before, and is now kept by this instance.
        pub const ADOPTED = "Adopted";
        /// Warning: a template has an API version that Kubernetes has removed, and was applied in today's.
        pub const REMOVED_API_VERSION = "RemovedAPIVersion";
        /// Warning: an object that a task waits for failed for good, such as a Job.
        pub const FAILED_TERMINAL_STATE = "FailedTerminalStateError";
        /// Warning: a template could not be rendered, or is no object; the message has its file and line.
        pub const TASK_RENDERING = "TaskRenderingError";
        /// Warning: labels, annotations and owner could not be added to an object.
        pub const TASK_ENHANCEMENT = "TaskEnhancementError";
        /// Warning: a task is of no known kind.
        pub const TASK_BUILD = "TaskBuildError";
        /// Warning: a step names a task that the package does not have.
        pub const UNKNOWN_TASK_NAME = "UnknownTaskName";
        /// Warning: a file of a Pipe task could not be read or kept.
        pub const PIPE_TASK = "PipeTaskError";
        /// Warning: the pod of a Pipe task is not as such pods must be.
        pub const RESOURCE_VALIDATION = "ResourceValidationError";
        /// Warning: a template of a Pipe task is no pod.
        pub const RESOURCE_UNMARSHAL = "ResourceUnmarshalError";
        /// Warning: the parameter of a Toggle task is no boolean.
        pub const TOGGLE_TASK = "ToggleTaskError";
        /// Warning: the release of a Helm task could not be installed or upgraded.
        pub const HELM_TASK = "HelmTaskError";
        /// Warning: a Dummy task that is to fail did.
        pub const DUMMY_TASK = "DummyTaskError";
    };
}
