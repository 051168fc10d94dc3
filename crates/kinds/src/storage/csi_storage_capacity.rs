//! CSIStorageCapacity.

use crate::kind::Kind;

pub(super) const KIND: Kind =
    Kind { allows_unconditional_update: false, ..Kind::new("storage.k8s.io", "csistoragecapacities") };
