//! The kinds of the project.

// +kubebuilder:scaffold:imports
