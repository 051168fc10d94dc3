//! The webhooks of the project.

// +kubebuilder:scaffold:imports
