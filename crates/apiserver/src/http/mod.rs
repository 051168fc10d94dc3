//! The HTTP face: paths, query options, content negotiation and bodies. Nothing here knows what a request means.

mod body;
mod negotiate;
mod options;
mod path;

pub use body::Body;
pub(crate) use body::{collect, json_response, text_response};
pub(crate) use negotiate::{
    Discovery, Include, Meta, OPENAPI_PROTOBUF, Output, media_type, negotiate, no_such_form, wants_discovery,
    wants_openapi_protobuf, wants_yaml,
};
pub(crate) use options::{FieldValidation, Options, Propagation};
pub(crate) use path::{Route, Target};
