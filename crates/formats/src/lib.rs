//! Formats of text: which there are, and whether text follows them, in the words in which the API complains.

pub mod cron;
pub mod names;
pub mod quantity;
mod text;
mod time;
mod url;

pub use text::{follows, is_known};
pub use time::{parse_date, parse_duration, parse_lenient_duration, parse_timestamp};
pub use url::Url;
