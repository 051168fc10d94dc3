//! KUDO packages, and what is admitted of instances.

mod admission;
mod admission_cases;
mod machine;
mod packages;
