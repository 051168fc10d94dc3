//! The controllers of the project, one for each kind.

// +kubebuilder:scaffold:imports
