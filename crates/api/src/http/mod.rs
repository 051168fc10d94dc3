//! HTTP: paths, query parameters, content negotiation and bodies, independent of what requests do.

mod body;
mod negotiate;
mod options;
mod path;

pub use body::{Body, collect, json_response, text_response};
pub use negotiate::{
    Discovery, Encoding, Include, Meta, OPENAPI_PROTOBUF, Output, PROTOBUF, media_type, negotiate,
    no_such_form, wants_discovery, wants_openapi_protobuf,
};
pub use options::{FieldValidation, Options, Propagation};
pub use path::{Route, Target};
