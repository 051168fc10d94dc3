//! Annotations by which a test directs the simulation.

steersman_core::vocabulary! {
    /// Annotations on objects of the embedded cluster that direct the simulation. Durations are such as `90s`.
    pub const ANNOTATIONS = {
        /// On pods: what goes wrong, one of `image-pull`, `config-error`, `crash-loop` and `never-ready`.
        pub(crate) const FAIL = "cluster.steersman.dev/fail";
        /// On pods: the one container that fails. All by default.
        pub(crate) const CONTAINER = "cluster.steersman.dev/container";
        /// On pods: exit code of containers that end. 0 by default, 1 in a crash loop.
        pub(crate) const EXIT_CODE = "cluster.steersman.dev/exit-code";
        /// On pods: how long containers run, or `forever`. By default what their commands say, else for ever, and in Jobs the
        /// cluster's default.
        pub(crate) const RUN_FOR = "cluster.steersman.dev/run-for";
        /// On pods: delay before containers start.
        pub(crate) const START_DELAY = "cluster.steersman.dev/start-delay";
        /// On pods: delay between the deletion and the end of containers.
        pub(crate) const STOP_DELAY = "cluster.steersman.dev/stop-delay";
        /// On pods: what `kubectl logs` answers.
        pub(crate) const LOGS = "cluster.steersman.dev/logs";
        /// On pods, or on what controls them: the processors that they use, such as `450m` per pod, or `90%` of their requests.
        /// Half of their requests by default.
        pub(crate) const CPU_USAGE = "cluster.steersman.dev/cpu-usage";
        /// On pods, or on what controls them: the memory that they use, such as `64Mi` per pod, or `90%` of their requests.
        /// Half of their requests by default.
        pub(crate) const MEMORY_USAGE = "cluster.steersman.dev/memory-usage";
        /// On nodes: the node is lost while this is `true`, and its lease is no longer renewed.
        pub(crate) const LOST = "cluster.steersman.dev/lost";
        /// On Services: the address of the server behind it, for webhooks and APIServices.
        pub(crate) const ADDRESS = "cluster.steersman.dev/address";
    };
}
