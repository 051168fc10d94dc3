//! Conversion of template arguments to Rust types, and of results back.

use steersman_gotemplate::{Budget, Call, CallError, Funcs, List, ListType, Map, MapType, Str, Type, Value};

/// A parameter type: its declared Go type, and how its value is read.
pub(super) trait Param<'a>: Sized {
    /// Go type that the executor checks arguments against.
    const TYPE: Type;

    /// Converts the argument; `None` if the executor passed another type.
    fn from_value(value: &'a Value) -> Option<Self>;
}

/// Last parameter of a variadic function.
pub(super) trait Variadic<'a>: Sized {
    /// Go type of each further argument.
    const TYPE: Type;

    /// Converts the further arguments.
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

/// `map[string]interface {}`; nil becomes the nil map.
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

/// `[]interface {}`; nil becomes the nil slice.
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

/// The arguments of a call, consumed one by one.
pub(super) struct Args<'a>(pub(super) &'a [Value]);

impl<'a> Args<'a> {
    /// Returns the next argument.
    pub(super) fn next<P: Param<'a>>(&mut self) -> Result<P, CallError> {
        let (value, rest) = self.0.split_first().ok_or_else(|| CallError::new("too few arguments"))?;
        self.0 = rest;
        P::from_value(value).ok_or_else(|| CallError::new(format!("unexpected {}", value.type_name())))
    }

    /// Returns all remaining arguments.
    pub(super) fn rest<V: Variadic<'a>>(self) -> Result<V, CallError> {
        V::from_values(self.0).ok_or_else(|| CallError::new("unexpected type among the arguments"))
    }
}

/// Result of a function. Conversion charges for the memory it newly allocated.
///
/// Not implemented for integers: sprig returns `int` in some functions and `int64` in others, so each specifies it.
pub(super) trait Output {
    /// Converts to the result of the call.
    fn into_result(self, budget: &Budget) -> Result<Value, CallError>;
}

/// The function charges for it, since it may be shared.
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

/// The function charges for it, since it may be shared.
impl Output for Map {
    fn into_result(self, _: &Budget) -> Result<Value, CallError> {
        Ok(Value::Map(self))
    }
}

/// Newly allocated. The contents of its elements are shared, or charged for by the function.
impl Output for List {
    fn into_result(self, budget: &Budget) -> Result<Value, CallError> {
        budget.charge_elements(self.len())?;
        Ok(Value::List(self))
    }
}

/// Shared, hence free.
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

/// Registers one function under all its names.
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

/// Registers functions, written as `"name" (arg: Type, ...; rest: Type) => expression;`.
///
/// Aliases are written as `"name" | "alias"`. `"name" [env] (...)` is for those that use the environment, `"name"
/// [budget] (...)` for those that charge for more than their result, and `"name" [host] (...)` for those that modify
/// maps. The Go signature follows from the Rust types.
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
                // Some functions ignore errors.
                call.budget.check()?;
                Ok(result)
            },
        );)*
    };
}
pub(super) use define;

/// What a function may request besides its arguments.
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
