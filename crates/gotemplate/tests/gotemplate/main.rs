//! Templates behave as Go's.

mod arguments;
mod budgets;
mod constants;
mod executing;
mod formats;
mod hostile;
mod lexing;
mod natives;
mod objects;
mod parsing;
mod printing;
mod properties;
mod templates;
mod values;
