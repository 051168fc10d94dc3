//! Parts of Go's standard library, with Go's results and error messages.
//!
//! For programs that must print what a Go program prints, and reject input with the same messages: Kubernetes' API,
//! Helm's templates and the YAML of both are full of `%q`, `strconv` and `time.Duration`.
//!
//! ```
//! use steersman_gostd::{json, strconv, time};
//!
//! assert_eq!(strconv::quote("naïve\u{200b}\n"), r#""naïve\u200b\n""#);
//! assert_eq!(strconv::format_float(1e21, b'g', None, false), "1e+21");
//! let refused = strconv::atoi(b"1e3").map_err(|error| error.to_string());
//! assert_eq!(refused, Err(r#"strconv.Atoi: parsing "1e3": invalid syntax"#.to_owned()));
//!
//! assert_eq!(json::format_float(1e-7, false).as_deref(), Some("1e-7"));
//! assert_eq!(time::format_duration(90 * time::SECOND), "1m30s");
//! ```
//!
//! Go's strings are bytes that need not be UTF-8, so most functions take `&[u8]`. All are pure.

pub mod fmt;
pub mod json;
pub mod netip;
mod raw_message;
pub mod strconv;
pub mod time;
pub mod unicode;
