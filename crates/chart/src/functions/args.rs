//! How Rust functions take the arguments of a template call and give back its result.

use steersman_gotemplate::{Budget, Call, CallError, Funcs, List, ListType, Map, MapType, Str, Type, Value};

/// A parameter: the Go type it is declared with, and how its value is read.
pub(super) trait Param<'a>: Sized {
    /// The Go type that the executor checks arguments against.
    const TYPE: Type;

    /// The argument as this type; `None` if the executor let something else through.
    fn from_value(value: &'a Value) -> Option<Self>;
}

/// The last parameter of a variadic function.
pub(super) trait Variadic<'a>: Sized {
    /// The Go type of each further argument.
    const TYPE: Type;

    /// The further arguments.
    fn from_values(values: &'a [Value]) -> Option<Self>;
}

impl<'a> Param<'a> for &'a Value {
    const TYPE: Type = Type::Any;
    fn from_value(value: &'a Value) -> Option<Self> {
        Some(value)
    }
}

impl<'a> Param<'a> for &'a Str {
    const TYPE: Type = Type::String;
    fn from_value(value: &'a Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

impl Param<'_> for bool {
    const TYPE: Type = Type::Bool;
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
}

/// Go's `int`.
impl Param<'_> for i64 {
    const TYPE: Type = Type::Int;
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Int(n, _) => Some(*n),
            _ => None,
        }
    }
}

impl Param<'_> for u32 {
    const TYPE: Type = Type::Uint32;
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Uint(n, _) => Self::try_from(*n).ok(),
            _ => None,
        }
    }
}

impl Param<'_> for f64 {
    const TYPE: Type = Type::Float64;
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Float(n, _) => Some(*n),
            _ => None,
        }
    }
}

/// `map[string]interface {}`; nil gives the nil map.
impl Param<'_> for Map {
    const TYPE: Type = Type::MapAny;
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Map(map) => Some(map.clone()),
            Value::Nil => Some(Self::nil(MapType::ANY)),
            _ => None,
        }
    }
}

/// `[]interface {}`; nil gives the nil slice.
impl Param<'_> for List {
    const TYPE: Type = Type::ListAny;
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::List(list) => Some(list.clone()),
            Value::Nil => Some(Self::nil(ListType::ANY)),
            _ => None,
        }
    }
}

impl<'a> Variadic<'a> for &'a [Value] {
    const TYPE: Type = Type::Any;
    fn from_values(values: &'a [Value]) -> Option<Self> {
        Some(values)
    }
}

impl<'a, P: Param<'a>> Variadic<'a> for Vec<P> {
    const TYPE: Type = P::TYPE;
    fn from_values(values: &'a [Value]) -> Option<Self> {
        values.iter().map(P::from_value).collect()
    }
}

/// The arguments of a call, taken one by one.
pub(super) struct Args<'a>(pub(super) &'a [Value]);

impl<'a> Args<'a> {
    /// The next argument.
    pub(super) fn next<P: Param<'a>>(&mut self) -> Result<P, CallError> {
        let (value, rest) = self.0.split_first().ok_or_else(|| CallError::new("too few arguments"))?;
        self.0 = rest;
        P::from_value(value).ok_or_else(|| CallError::new(format!("unexpected {}", value.type_name())))
    }

    /// All arguments that are left.
    pub(super) fn rest<V: Variadic<'a>>(self) -> Result<V, CallError> {
        V::from_values(self.0).ok_or_else(|| CallError::new("unexpected type among the arguments"))
    }
}

/// What a function gives back, charged for where it was made and is not shared with an argument.
///
/// There is none for integers: sprig's functions give `int` here and `int64` there, so each says which.
pub(super) trait Output {
    /// As the result of the call.
    fn into_result(self, budget: &Budget) -> Result<Value, CallError>;
}

/// Charged for by the function: it may be shared.
impl Output for Value {
    fn into_result(self, _: &Budget) -> Result<Value, CallError> {
        Ok(self)
    }
}

impl Output for bool {
    fn into_result(self, _: &Budget) -> Result<Value, CallError> {
        Ok(Value::Bool(self))
    }
}

impl Output for f64 {
    fn into_result(self, _: &Budget) -> Result<Value, CallError> {
        Ok(Value::float(self))
    }
}

/// Charged for by the function: it may be shared.
impl Output for Map {
    fn into_result(self, _: &Budget) -> Result<Value, CallError> {
        Ok(Value::Map(self))
    }
}

/// Made by the function; what its elements hold is shared, or charged for by the function.
impl Output for List {
    fn into_result(self, budget: &Budget) -> Result<Value, CallError> {
        budget.charge_elements(self.len())?;
        Ok(Value::List(self))
    }
}

/// Shared.
impl Output for Str {
    fn into_result(self, _: &Budget) -> Result<Value, CallError> {
        Ok(Value::String(self))
    }
}

macro_rules! string_output {
    ($($ty:ty),*) => {
        $(impl Output for $ty {
            fn into_result(self, budget: &Budget) -> Result<Value, CallError> {
                budget.charge_memory(self.len())?;
                Ok(Value::string(self))
            }
        })*
    };
}
string_output!(String, Vec<u8>, &str, &[u8]);

impl<T: Output> Output for Result<T, CallError> {
    fn into_result(self, budget: &Budget) -> Result<Value, CallError> {
        self.and_then(|output| output.into_result(budget))
    }
}

/// Adds one function under all its names.
pub(super) fn insert<H>(
    funcs: &mut Funcs<H>,
    names: &[&'static str],
    params: &'static [Type],
    variadic: Option<Type>,
    call: fn(&mut Call<'_, H>) -> Result<Value, CallError>,
) {
    for name in names {
        funcs.insert(name, params, variadic, call);
    }
}

/// Adds functions, written as `"name" (arg: Type, ...; rest: Type) => expression;` with aliases as `"name" | "alias"`,
/// `"name" [env] (...)` for those that use the environment, `"name" [budget] (...)` for those that charge for more than their
/// result and `"name" [host] (...)` for those that change maps. The Go signature follows from the Rust types.
macro_rules! define {
    ($funcs:ident { $($($name:literal)|+ $([$($context:ident),+])? (
        $($arg:ident: $ty:ty),* $(; $rest:ident: $rest_ty:ty)?
    ) => $body:expr;)* }) => {
        $($crate::functions::args::insert(
            $funcs,
            &[$($name),+],
            const { &[$(<$ty as $crate::functions::args::Param<'_>>::TYPE),*] },
            None::<steersman_gotemplate::Type>
                $(.or(Some(<$rest_ty as $crate::functions::args::Variadic<'_>>::TYPE)))?,
            |call| {
                #[allow(unused_mut, unused_variables, reason = "a function may take nothing")]
                let mut args = $crate::functions::args::Args(call.args);
                $(let $arg: $ty = args.next()?;)*
                $(let $rest: $rest_ty = args.rest()?;)?
                $($(let $context = $crate::functions::args::context!($context, call);)+)?
                let result = $crate::functions::args::Output::into_result($body, call.budget)?;
                // Some functions make nothing of an error.
                call.budget.check()?;
                Ok(result)
            },
        );)*
    };
}
pub(super) use define;

/// What a function may ask for beside its arguments.
macro_rules! context {
    (env, $call:ident) => {
        $call.host.environment()
    };
    (budget, $call:ident) => {
        $call.budget
    };
    (host, $call:ident) => {
        &mut *$call.host
    };
}
pub(super) use context;
