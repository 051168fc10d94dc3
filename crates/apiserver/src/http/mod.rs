//! The HTTP face: paths, query options, content negotiation and bodies. Nothing here knows what a request means.

mod body;
mod negotiate;
mod options;
mod path;

pub use body::Body;
pub(crate) use body::{collect, json_response, text_response};
pub(crate) use negotiate::{Discovery, Include, Output, media_type, negotiate, wants_discovery};
pub(crate) use options::{FieldValidation, Options, Propagation};
pub(crate) use path::{Route, Target};
