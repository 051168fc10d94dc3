//! Go's `fmt`: `Sprint`, `Sprintln` and `Sprintf` over [`Value`]s, malformed formats and wrong verbs included.

mod format;
mod value;

use crate::func::CallError;
use crate::str::Str;
use crate::value::{Kind, Value};
use steersman_gostd::fmt::Layout;

/// Default limit on printed output: a small template can request more memory than exists.
const MAX_BYTES: usize = 256 << 20;

/// Longest rendering of a value in an error message.
const MAX_SHOWN: usize = 1 << 20;

/// Values nested deeper than this are assumed to contain themselves. Go overflows its stack on those.
const MAX_DEPTH: usize = 10_000;

/// Go's `fmt.Sprintf`.
///
/// # Errors
/// If a value contains itself or the output exceeds 256 MiB.
pub fn sprintf(format: &[u8], args: &[Value]) -> Result<Str, CallError> {
    sprintf_within(MAX_BYTES, format, args)
}

/// As [`sprintf`], failing if the output exceeds `limit` bytes.
pub(crate) fn sprintf_within(limit: usize, format: &[u8], args: &[Value]) -> Result<Str, CallError> {
    let mut out = Vec::with_capacity(format.len() + 16 * args.len());
    Printer::new(&mut out, limit).printf(format, args)?;
    Ok(out.into())
}

/// Go's `fmt.Sprint`: adds a space between operands when neither is a string.
///
/// # Errors
/// As [`sprintf`].
pub fn sprint(args: &[Value]) -> Result<Str, CallError> {
    sprint_within(MAX_BYTES, args)
}

/// As [`sprint`], failing if the output exceeds `limit` bytes.
pub(crate) fn sprint_within(limit: usize, args: &[Value]) -> Result<Str, CallError> {
    if let [Value::String(text)] = args {
        return Ok(text.clone());
    }
    let mut out = Vec::new();
    Printer::new(&mut out, limit).print(args)?;
    Ok(out.into())
}

/// As [`sprint`], but as templates print: nil as `<no value>`, and a pointer as its pointee.
pub(crate) fn sprint_indirect(limit: usize, args: &[Value]) -> Result<Str, CallError> {
    if let [Value::String(text)] = args {
        return Ok(text.clone());
    }
    let shown = |arg: &Value| match arg {
        Value::Nil => Value::string("<no value>"),
        other => other.clone(),
    };
    let args: Vec<Value> = args.iter().map(shown).collect();
    let mut out = Vec::new();
    let mut printer = Printer::new(&mut out, limit);
    printer.indirect = true;
    printer.print(&args)?;
    Ok(out.into())
}

/// Go's `fmt.Sprintln`: spaces between all operands, a newline at the end.
///
/// # Errors
/// As [`sprintf`].
pub fn sprintln(args: &[Value]) -> Result<Str, CallError> {
    sprintln_within(MAX_BYTES, args)
}

/// As [`sprintln`], failing if the output exceeds `limit` bytes.
pub(crate) fn sprintln_within(limit: usize, args: &[Value]) -> Result<Str, CallError> {
    let mut out = Vec::new();
    let mut printer = Printer::new(&mut out, limit);
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            printer.out.push(b' ');
        }
        printer.arg(arg, 'v')?;
    }
    out.push(b'\n');
    Ok(out.into())
}

/// Formats a value as `%v` does.
///
/// # Errors
/// As [`sprintf`].
pub fn format_value(value: &Value) -> Result<Str, CallError> {
    sprint(std::slice::from_ref(value))
}

/// Appends a value formatted as `%v` does.
///
/// # Errors
/// As [`sprintf`].
pub fn append_value(out: &mut Vec<u8>, value: &Value) -> Result<(), CallError> {
    match value {
        Value::String(text) => out.extend_from_slice(text),
        other => Printer::new(out, MAX_BYTES).arg(other, 'v')?,
    }
    Ok(())
}

/// As [`append_value`], failing if the output exceeds `limit` bytes.
pub(crate) fn append_within(limit: usize, out: &mut Vec<u8>, value: &Value) -> Result<(), CallError> {
    Ok(Printer::new(out, limit).arg(value, 'v')?)
}

/// Appends a non-nil value as templates print it: as [`append_value`], but a pointer as its pointee.
pub(crate) fn append_indirect(limit: usize, out: &mut Vec<u8>, value: &Value) -> Result<(), CallError> {
    let mut printer = Printer::new(out, limit);
    printer.indirect = true;
    Ok(printer.arg(value, 'v')?)
}

/// Formats a value, a pointer as its pointee, with `%v` for error messages.
pub(crate) fn indirect_text(value: &Value) -> String {
    let mut out = Vec::new();
    match append_indirect(MAX_SHOWN, &mut out, value) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(error) => error.to_string(),
    }
}

/// Formats a value passed as a `reflect.Value`, as text/template's own errors do, with the given verb.
pub(crate) fn reflected(value: &Value, verb: char) -> String {
    let mut out = Vec::new();
    match Printer::new(&mut out, MAX_SHOWN).reflected(value, verb) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(fault) => fault.to_string(),
    }
}

/// Why printing ended early.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum Fault {
    #[error("value is nested too deeply to print, or contains itself")]
    Depth,
    #[error("printed text exceeds {0} bytes")]
    Size(usize),
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Size(_) => Self::oversized(fault.to_string()),
            Fault::Depth => Self::new(fault.to_string()),
        }
    }
}

/// State of one print; the flags of one verb apply to everything inside a value.
struct Printer<'a> {
    out: &'a mut Vec<u8>,
    /// Start of the output, for the limit on its size.
    start: usize,
    limit: usize,
    layout: Layout,
    /// `%#v`.
    sharp_v: bool,
    /// `%+v`.
    plus_v: bool,
    /// Whether this is inside `%!d(...)`, where `String` methods are not called.
    erroring: bool,
    /// Whether a top-level pointer is printed as its pointee.
    indirect: bool,
}

impl<'a> Printer<'a> {
    fn new(out: &'a mut Vec<u8>, limit: usize) -> Self {
        let start = out.len();
        Self {
            out,
            start,
            limit,
            layout: Layout::default(),
            sharp_v: false,
            plus_v: false,
            erroring: false,
            indirect: false,
        }
    }

    fn print(&mut self, args: &[Value]) -> Result<(), Fault> {
        let mut after_string = true;
        for arg in args {
            let is_string = arg.kind() == Kind::String;
            if !is_string && !after_string {
                self.out.push(b' ');
            }
            self.arg(arg, 'v')?;
            after_string = is_string;
        }
        Ok(())
    }

    fn check_size(&self) -> Result<(), Fault> {
        if self.out.len() - self.start > self.limit { Err(Fault::Size(self.limit)) } else { Ok(()) }
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}
