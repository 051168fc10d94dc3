//! `semver` and `semverCompare`, and the version objects that templates use.

use std::any::Any;
use std::rc::Rc;

use steersman_gotemplate::{CallError, Funcs, Kind, Object, Signature, Str, Type, UintType, Value};

use super::Host;
use super::args::define;
use super::constraint::Constraint;
use super::semver::{SemverError, Version};

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "semver" (version: &Str) => {
            let version = Version::parse(&version.to_str_lossy()).map_err(failed)?;
            Value::Object(Rc::new(VersionObject { version, pointer: true }))
        };
        "semverCompare" (constraint: &Str, version: &Str) => {
            let constraint = Constraint::parse(&constraint.to_str_lossy()).map_err(failed)?;
            constraint.check(&Version::parse(&version.to_str_lossy()).map_err(failed)?)
        };
    });
}

fn failed(error: SemverError) -> CallError {
    CallError::new(error.to_string())
}

const NAME: &str = "semver.Version";
const POINTER_NAME: &str = "*semver.Version";

/// Go's `*semver.Version`, or the `semver.Version` that some of its methods return.
struct VersionObject {
    version: Version,
    pointer: bool,
}

impl VersionObject {
    fn value(version: Option<Version>, segment: &str) -> Result<Value, CallError> {
        let version = version
            .ok_or_else(|| CallError::new(format!("{segment} version increment would overflow uint64")))?;
        Ok(Value::Object(Rc::new(Self { version, pointer: false })))
    }
}

const NOTHING: Signature = Signature { params: &[], variadic: None };
const STRING: Signature = Signature { params: &[Type::String], variadic: None };
const VERSION: Signature = Signature { params: &[Type::Named(POINTER_NAME)], variadic: None };

impl Object for VersionObject {
    fn type_name(&self) -> &str {
        if self.pointer { POINTER_NAME } else { NAME }
    }

    fn kind(&self) -> Kind {
        if self.pointer { Kind::Ptr } else { Kind::Struct }
    }

    fn method(&self, name: &str) -> Option<Signature> {
        match name {
            "String" | "Major" | "Minor" | "Patch" | "Prerelease" | "Metadata" | "IncPatch" | "IncMinor"
            | "IncMajor" | "MarshalJSON" | "MarshalText" | "Value" => Some(NOTHING),
            "SetPrerelease" | "SetMetadata" => Some(STRING),
            "Original" if self.pointer => Some(NOTHING),
            "LessThan" | "LessThanEqual" | "GreaterThan" | "GreaterThanEqual" | "Equal" | "Compare"
                if self.pointer =>
            {
                Some(VERSION)
            }
            _ => None,
        }
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, CallError> {
        let version = &self.version;
        let number = |n: u64| Ok(Value::Uint(n, UintType::Uint64));
        match (name, args) {
            ("String" | "Value", _) => Ok(Value::string(version.to_string())),
            ("MarshalText", _) => Ok(Value::Bytes(version.to_string().into())),
            ("MarshalJSON", _) => Ok(Value::Bytes(format!("\"{version}\"").into())),
            ("Original", _) => Ok(Value::string(version.original.as_str())),
            ("Major", _) => number(version.major),
            ("Minor", _) => number(version.minor),
            ("Patch", _) => number(version.patch),
            ("Prerelease", _) => Ok(Value::string(version.pre.as_str())),
            ("Metadata", _) => Ok(Value::string(version.metadata.as_str())),
            ("IncPatch", _) => Self::value(version.inc_patch(), "patch"),
            ("IncMinor", _) => Self::value(version.inc_minor(), "minor"),
            ("IncMajor", _) => Self::value(version.inc_major(), "major"),
            ("SetPrerelease", [Value::String(pre)]) => {
                Self::value(Some(version.with_prerelease(&pre.to_str_lossy()).map_err(failed)?), "")
            }
            ("SetMetadata", [Value::String(metadata)]) => {
                Self::value(Some(version.with_metadata(&metadata.to_str_lossy()).map_err(failed)?), "")
            }
            ("Equal", [Value::Nil]) => Ok(Value::Bool(false)),
            (_, [Value::Object(other)]) => {
                let other = other.as_any().downcast_ref::<Self>();
                let order =
                    version.cmp(&other.ok_or_else(|| CallError::new(super::NIL_DEREFERENCE))?.version);
                Ok(match name {
                    "LessThan" => Value::Bool(order.is_lt()),
                    "LessThanEqual" => Value::Bool(order.is_le()),
                    "GreaterThan" => Value::Bool(order.is_gt()),
                    "GreaterThanEqual" => Value::Bool(order.is_ge()),
                    "Equal" => Value::Bool(order.is_eq()),
                    _ => Value::int(order as i64),
                })
            }
            _ => Err(CallError::new(super::NIL_DEREFERENCE)),
        }
    }

    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        let Version { major, minor, patch, pre, metadata, original } = &self.version;
        let number = |n: &u64| Value::Uint(*n, UintType::Uint64);
        let text = |text: &String| Value::string(text.as_str());
        Some(vec![
            ("major", number(major)),
            ("minor", number(minor)),
            ("patch", number(patch)),
            ("pre", text(pre)),
            ("metadata", text(metadata)),
            ("original", text(original)),
        ])
    }

    fn display(&self) -> String {
        self.version.to_string()
    }

    fn is_stringer(&self) -> bool {
        true
    }

    fn json(&self) -> Value {
        Value::string(self.version.to_string())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
