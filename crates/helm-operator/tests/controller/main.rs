//! A controller that maintains a release for each object, by its settings, in virtual time.

mod annotations;
mod extensions;
mod releases;
mod shop;
mod upkeep;
mod watches;
