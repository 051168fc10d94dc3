//! Annotations that control the simulation.

steersman_core::vocabulary! {
    /// Annotations on objects of the embedded cluster that control the simulation. Durations are in Go's
    /// format, such as `90s`.
    pub const ANNOTATIONS = {
        /// On pods: the failure to simulate: `image-pull`, `config-error`, `crash-loop` or `never-ready`.
        pub(crate) const FAIL = "cluster.steersman.dev/fail";
        /// On pods: name of the container that fails. Default: all containers.
        pub(crate) const CONTAINER = "cluster.steersman.dev/container";
        /// On pods: exit code of containers that exit. Default: 0, or 1 in a crash loop.
        pub(crate) const EXIT_CODE = "cluster.steersman.dev/exit-code";
        /// On pods: time after which containers exit, or `forever`. Default: as their commands specify,
        /// otherwise `forever`, or the cluster's pod run time in Jobs.
        pub(crate) const RUN_FOR = "cluster.steersman.dev/run-for";
        /// On pods: delay before containers start. Default: the cluster's pod start delay.
        pub(crate) const START_DELAY = "cluster.steersman.dev/start-delay";
        /// On pods: delay between the deletion and the exit of containers.
        pub(crate) const STOP_DELAY = "cluster.steersman.dev/stop-delay";
        /// On pods: output of `kubectl logs`.
        pub(crate) const LOGS = "cluster.steersman.dev/logs";
        /// On pods or their controllers: CPU usage, as `450m` per pod or `90%` of the requests. Default: half
        /// of the requests.
        pub(crate) const CPU_USAGE = "cluster.steersman.dev/cpu-usage";
        /// On pods or their controllers: memory usage, as `64Mi` per pod or `90%` of the requests. Default:
        /// half of the requests.
        pub(crate) const MEMORY_USAGE = "cluster.steersman.dev/memory-usage";
        /// On nodes: while `true`, the node is unreachable and its lease is not renewed.
        pub(crate) const LOST = "cluster.steersman.dev/lost";
        /// On Services: address of the server behind the Service, for webhooks and APIServices.
        pub(crate) const ADDRESS = "cluster.steersman.dev/address";
    };
}
