//! String formats that the API validates: names, quantities, cron schedules, times, URLs and OpenAPI `format`s. Errors
//! use the wording of kube-apiserver.

pub mod cron;
pub mod names;
pub mod quantity;
mod text;
mod time;
mod url;

pub use text::{follows, is_known};
pub use time::{parse_date, parse_duration, parse_lenient_duration, parse_timestamp};
pub use url::Url;
