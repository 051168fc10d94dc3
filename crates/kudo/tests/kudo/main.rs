//! KUDO packages, and the admission of instances.

mod admission;
mod admission_cases;
mod machine;
mod packages;
