//! `steer sim` on a project with plays. Needs Python and Ansible: `make test-ansible` has them.
#![cfg(unix)]

use crate::sim_command::{example, sim};

#[test]
#[ignore = "needs Python and Ansible: make test-ansible"]
fn an_ansible_project_is_simulated_without_configuration() {
    let (passed, text) = sim(&example("memcached-ansible"), &["--replay", "1/crash-after@1"]);
    assert!(passed, "{text}");
    assert!(text.contains("1 runs in") && text.contains("1 planned,     1 injected"), "{text}");
}
