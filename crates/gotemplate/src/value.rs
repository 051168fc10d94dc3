//! Values as Go's `reflect` sees them through an `interface{}`.

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::budget::Budget;
use crate::func::{CallError, Signature, Type};
use crate::str::Str;

/// Go's signed integer types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in Go")]
pub enum IntType {
    Int,
    Int8,
    Int16,
    Int32,
    Int64,
}

/// Go's unsigned integer types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in Go")]
pub enum UintType {
    Uint,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
}

/// Go's floating point types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in Go")]
pub enum FloatType {
    Float32,
    Float64,
}

/// A value's `reflect.Kind`. [`fmt::Display`] prints Go's name ("map", "slice", "float64", "ptr", ...).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in Go")]
pub enum Kind {
    Invalid,
    Bool,
    Int(IntType),
    Uint(UintType),
    Float(FloatType),
    Complex128,
    String,
    Slice,
    Map,
    Struct,
    Ptr,
    Func,
    Interface,
}

/// A Go value. Cheap to clone; maps are shared between clones, as in Go.
#[derive(Clone)]
pub enum Value {
    /// Untyped nil.
    Nil,
    /// `bool`.
    Bool(bool),
    /// A signed integer of the given type.
    Int(i64, IntType),
    /// An unsigned integer of the given type.
    Uint(u64, UintType),
    /// A float of the given type (a `float32` is held widened).
    Float(f64, FloatType),
    /// `complex128`, real and imaginary part: only constants such as `1i` make one.
    Complex(f64, f64),
    /// `string`.
    String(Str),
    /// `[]byte`.
    Bytes(Str),
    /// Any other slice. Slices are never modified in place.
    List(List),
    /// A map with string keys, shared between clones and modified in place.
    Map(Map),
    /// A struct, a pointer, or a named type that has behaviour of its own.
    Object(Rc<dyn Object>),
}

/// A method of a map or slice type, as in Go's `func (m Values) AsMap() map[string]interface{}`.
pub struct Method<T> {
    /// Method name in Go.
    pub name: &'static str,
    /// Its parameters.
    pub signature: Signature,
    /// Implementation, called with checked arguments. It charges the budget for the memory of what it creates.
    pub call: fn(&T, &[Value], &Budget) -> Result<Value, CallError>,
}

/// A Go slice type.
pub struct ListType {
    /// Go's name as `%T` prints it, such as `[]interface {}`.
    pub name: &'static str,
    /// The type of the elements.
    pub elem: Type,
    /// Methods of the type, if it is a named one.
    pub methods: &'static [Method<List>],
}

impl ListType {
    /// `[]interface {}`.
    pub const ANY: &'static Self = &Self { name: "[]interface {}", elem: Type::Any, methods: &[] };
    /// `[]string`.
    pub const STRING: &'static Self = &Self { name: "[]string", elem: Type::String, methods: &[] };
    /// `[]int`.
    pub const INT: &'static Self = &Self { name: "[]int", elem: Type::Int, methods: &[] };
}

/// A Go slice: immutable and shared.
#[derive(Clone)]
pub struct List {
    ty: &'static ListType,
    /// `None` for the nil slice.
    items: Option<Rc<Items>>,
}

struct Items(Vec<Value>);

impl Drop for Items {
    fn drop(&mut self) {
        if self.0.iter().any(is_container) {
            dismantle(std::mem::take(&mut self.0));
        }
    }
}

impl List {
    /// A slice of this type.
    pub fn new(ty: &'static ListType, items: Vec<Value>) -> Self {
        Self { ty, items: Some(Rc::new(Items(items))) }
    }

    /// The nil slice of this type: empty, but `null` in JSON.
    pub fn nil(ty: &'static ListType) -> Self {
        Self { ty, items: None }
    }

    /// Whether it is the nil slice.
    pub fn is_nil(&self) -> bool {
        self.items.is_none()
    }

    /// Converts the slice to another type, as a Go conversion does; the elements are shared.
    pub fn converted(&self, ty: &'static ListType) -> Self {
        Self { ty, items: self.items.clone() }
    }

    /// Its type.
    pub fn ty(&self) -> &'static ListType {
        self.ty
    }

    /// Whether both share the same elements in memory.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        match (&self.items, &other.items) {
            (Some(a), Some(b)) => Rc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    pub(crate) fn address(&self) -> usize {
        self.items.as_ref().map_or(0, |items| Rc::as_ptr(items).addr())
    }
}

impl std::ops::Deref for List {
    type Target = [Value];
    fn deref(&self) -> &[Value] {
        self.items.as_ref().map_or(&[], |items| &items.0)
    }
}

/// A Go map type with string keys.
pub struct MapType {
    /// Go's name as `%T` prints it, such as `map[string]interface {}`.
    pub name: &'static str,
    /// The type of the elements.
    pub elem: Type,
    /// Methods of the type, if it is a named one.
    pub methods: &'static [Method<Map>],
}

impl MapType {
    /// `map[string]interface {}`.
    pub const ANY: &'static Self = &Self { name: "map[string]interface {}", elem: Type::Any, methods: &[] };
    /// `map[string]string`.
    pub const STRING: &'static Self = &Self { name: "map[string]string", elem: Type::String, methods: &[] };
}

/// A Go map with string keys, shared between clones and changed in place.
#[derive(Clone)]
pub struct Map {
    ty: &'static MapType,
    inner: Rc<Entries>,
}

struct Entries {
    nil: bool,
    entries: RefCell<BTreeMap<Str, Value>>,
}

impl Drop for Entries {
    fn drop(&mut self) {
        let entries = self.entries.get_mut();
        if entries.values().any(is_container) {
            dismantle(std::mem::take(entries).into_values());
        }
    }
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::List(_) | Value::Map(_))
}

/// Drops values one level at a time: templates can nest them too deep for recursion on the stack.
fn dismantle(values: impl IntoIterator<Item = Value>) {
    let mut pending: Vec<Value> = values.into_iter().filter(is_container).collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::List(List { items: Some(items), .. }) => {
                if let Ok(mut items) = Rc::try_unwrap(items) {
                    pending.extend(std::mem::take(&mut items.0).into_iter().filter(is_container));
                }
            }
            Value::Map(map) => {
                if let Ok(mut inner) = Rc::try_unwrap(map.inner) {
                    let entries = std::mem::take(inner.entries.get_mut());
                    pending.extend(entries.into_values().filter(is_container));
                }
            }
            _ => {}
        }
    }
}

impl Map {
    /// An empty `map[string]interface {}`.
    pub fn new() -> Self {
        Self::with_type(MapType::ANY, BTreeMap::new())
    }

    /// A map of this type with these entries.
    pub fn with_type(ty: &'static MapType, entries: BTreeMap<Str, Value>) -> Self {
        Self { ty, inner: Rc::new(Entries { nil: false, entries: RefCell::new(entries) }) }
    }

    /// Creates the nil map of this type: empty, but `null` in JSON. Assigning to it panics in Go.
    pub fn nil(ty: &'static MapType) -> Self {
        Self { ty, inner: Rc::new(Entries { nil: true, entries: RefCell::default() }) }
    }

    /// Whether it is the nil map. A function that would assign to it must fail with Go's message, `assignment to entry
    /// in nil map`.
    pub fn is_nil(&self) -> bool {
        self.inner.nil && self.is_empty()
    }

    /// Converts the map to another type, as a Go conversion does. Both share their entries.
    pub fn converted(&self, ty: &'static MapType) -> Self {
        Self { ty, inner: Rc::clone(&self.inner) }
    }

    /// Its type.
    pub fn ty(&self) -> &'static MapType {
        self.ty
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.inner.entries.borrow().get(key).cloned()
    }

    /// Sets a key.
    pub fn insert(&self, key: impl Into<Str>, value: Value) {
        self.inner.entries.borrow_mut().insert(key.into(), value);
    }

    /// Removes a key.
    pub fn remove(&self, key: &[u8]) -> Option<Value> {
        self.inner.entries.borrow_mut().remove(key)
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.inner.entries.borrow().len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.inner.entries.borrow().is_empty()
    }

    /// Borrows the entries, sorted by key. Do not hold this while templates run: they may modify the map.
    pub fn borrow(&self) -> Ref<'_, BTreeMap<Str, Value>> {
        self.inner.entries.borrow()
    }

    /// Borrows the entries mutably. Do not hold this while templates run.
    pub fn borrow_mut(&self) -> RefMut<'_, BTreeMap<Str, Value>> {
        self.inner.entries.borrow_mut()
    }

    /// Whether both are the same map in memory.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn address(&self) -> usize {
        Rc::as_ptr(&self.inner).addr()
    }
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

/// A struct, pointer or named type with fields and methods: `.Chart`, `now`, `semver "1.2.3"`.
pub trait Object: Any {
    /// Go's name as `%T` prints it, such as `*semver.Version`.
    fn type_name(&self) -> &str;

    /// Returns its kind; [`Kind::Ptr`] for a pointer to a struct.
    fn kind(&self) -> Kind;

    /// Returns an exported struct field by name, through pointers and embedded structs.
    fn field(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// Returns the signature of a method by name.
    fn method(&self, name: &str) -> Option<Signature> {
        let _ = name;
        None
    }

    /// Calls a method that [`Object::method`] returned a signature for, with arguments checked against it.
    fn call(&self, name: &str, args: &[Value]) -> Result<Value, CallError> {
        let _ = args;
        Err(CallError::new(format!("no method {name}")))
    }

    /// Returns all fields in order, unexported ones included, for `fmt` to print the struct as Go does.
    ///
    /// A pointer to a struct returns the struct's fields. `None` by default: every verb then prints
    /// [`Object::display`].
    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        None
    }

    /// Returns what `%v` prints: the result of `String()` or `Error()`, or Go's form of the struct.
    ///
    /// The struct's form is `{a 1}`, without the `&` that `printf` puts before a pointer.
    fn display(&self) -> String;

    /// Whether `%v`, `%s` and `%q` print the result of a `String()` or `Error()` method.
    fn is_stringer(&self) -> bool {
        false
    }

    /// Returns the result of a `String()` method with a pointer receiver.
    ///
    /// Templates call it where Go can take the value's address. Functions get a copy, which lacks the method. `None` by
    /// default.
    fn addressed(&self) -> Option<String> {
        None
    }

    /// Returns what `%#v` prints, if the type has a `GoString` method. `None` by default.
    fn go_string(&self) -> Option<String> {
        None
    }

    /// Returns the fields that `encoding/json` writes for a struct, in order. `None` by default: [`Object::json`] is
    /// used instead.
    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        None
    }

    /// Returns what `encoding/json` writes: nil, booleans, numbers, strings, slices and maps.
    ///
    /// A map of [`Object::json_fields`] by default, empty if there are none.
    fn json(&self) -> Value {
        Value::map(self.json_fields().unwrap_or_default())
    }

    /// Go's truth value: a struct is true, a pointer is true unless nil. True by default.
    fn truth(&self) -> bool {
        true
    }

    /// Returns the underlying value of a named basic type, such as a duration's `int64`.
    fn underlying(&self) -> Option<Value> {
        None
    }

    /// Returns `self` for downcasting.
    fn as_any(&self) -> &dyn Any;
}

impl Value {
    /// An `int`.
    pub fn int(n: i64) -> Self {
        Self::Int(n, IntType::Int)
    }

    /// An `int64`.
    pub fn int64(n: i64) -> Self {
        Self::Int(n, IntType::Int64)
    }

    /// A `float64`.
    pub fn float(n: f64) -> Self {
        Self::Float(n, FloatType::Float64)
    }

    /// A `string`.
    pub fn string(text: impl Into<Str>) -> Self {
        Self::String(text.into())
    }

    /// A `[]interface {}`.
    pub fn list(items: Vec<Value>) -> Self {
        Self::List(List::new(ListType::ANY, items))
    }

    /// A `[]string`.
    pub fn strings<S: Into<Str>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::List(List::new(ListType::STRING, items.into_iter().map(Value::string).collect()))
    }

    /// A `map[string]interface {}` with these entries.
    pub fn map<K: Into<Str>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        let entries = entries.into_iter().map(|(k, v)| (k.into(), v)).collect();
        Self::Map(Map::with_type(MapType::ANY, entries))
    }

    /// Go's truth value: true unless nil, false, zero or empty.
    pub fn truth(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(b) => *b,
            Self::Int(n, _) => *n != 0,
            Self::Uint(n, _) => *n != 0,
            Self::Float(n, _) => *n != 0.0,
            Self::Complex(re, im) => *re != 0.0 || *im != 0.0,
            Self::String(s) | Self::Bytes(s) => !s.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Object(object) => object.truth(),
        }
    }

    /// Returns the `reflect.Kind`; [`Kind::Invalid`] for nil.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Nil => Kind::Invalid,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_, ty) => Kind::Int(*ty),
            Self::Uint(_, ty) => Kind::Uint(*ty),
            Self::Float(_, ty) => Kind::Float(*ty),
            Self::Complex(..) => Kind::Complex128,
            Self::String(_) => Kind::String,
            Self::Bytes(_) | Self::List(_) => Kind::Slice,
            Self::Map(_) => Kind::Map,
            Self::Object(object) => object.kind(),
        }
    }

    /// Returns the Go type's name as `%T` prints it; `<nil>` for nil.
    pub fn type_name(&self) -> String {
        self.type_str().into()
    }

    pub(crate) fn type_str(&self) -> &str {
        match self {
            Self::Nil => "<nil>",
            Self::Bytes(_) => "[]uint8",
            Self::List(list) => list.ty().name,
            Self::Map(map) => map.ty().name,
            Self::Object(object) => object.type_name(),
            other => other.kind().name(),
        }
    }

    /// Returns the underlying value of a named basic type, or the value itself.
    pub(crate) fn underlying(&self) -> Cow<'_, Self> {
        match self {
            Self::Object(object) => object.underlying().map_or(Cow::Borrowed(self), Cow::Owned),
            other => Cow::Borrowed(other),
        }
    }
}

impl Kind {
    /// Returns the kind's name in Go.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Bool => "bool",
            Self::Int(IntType::Int) => "int",
            Self::Int(IntType::Int8) => "int8",
            Self::Int(IntType::Int16) => "int16",
            Self::Int(IntType::Int32) => "int32",
            Self::Int(IntType::Int64) => "int64",
            Self::Uint(UintType::Uint) => "uint",
            Self::Uint(UintType::Uint8) => "uint8",
            Self::Uint(UintType::Uint16) => "uint16",
            Self::Uint(UintType::Uint32) => "uint32",
            Self::Uint(UintType::Uint64) => "uint64",
            Self::Float(FloatType::Float32) => "float32",
            Self::Float(FloatType::Float64) => "float64",
            Self::Complex128 => "complex128",
            Self::String => "string",
            Self::Slice => "slice",
            Self::Map => "map",
            Self::Struct => "struct",
            Self::Ptr => "ptr",
            Self::Func => "func",
            Self::Interface => "interface",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = crate::fmt::sprintf(b"%#v", std::slice::from_ref(self));
        f.write_str(&text.map_or_else(|error| error.to_string(), |text| text.to_str_lossy().into_owned()))
    }
}
