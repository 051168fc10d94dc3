//! Templates as Go's.

mod hostile;
mod objects;
mod printing;
mod properties;
mod templates;
