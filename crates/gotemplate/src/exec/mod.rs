//! Execution of templates.

mod args;
mod call;
mod eval;

use crate::ast::{Branch, Cmd, ExprKind, ListId, Node, Pipe, Stmt, Template, TemplateCall, Unit};
use crate::budget::{Budget, Exceeded};
use crate::fmt;
use crate::func::Type;
use crate::set::{ExecError, Frame, MissingKey, Set};
use crate::str::Str;
use crate::value::{Kind, Value};
use steersman_gostd::strconv;

/// A value as Go's `reflect.Value` represents it: it may be invalid, or seen through an `interface {}`.
///
/// The distinction shows in error messages, and separates a missing value from a nil one.
#[derive(Clone)]
pub(crate) struct Rv {
    pub(crate) value: Value,
    seen: Seen,
}

/// How a value is seen. Word-sized, because a smaller field would leave padding that is slow to copy.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Seen {
    /// The value itself; nil then is Go's invalid value.
    Plainly,
    /// As an element of type `interface {}`.
    ThroughInterface,
    /// As a field behind a pointer, so that Go can take its address.
    InPlace,
}

impl Rv {
    pub(crate) const INVALID: Self = Self { value: Value::Nil, seen: Seen::Plainly };

    pub(crate) fn concrete(value: Value) -> Self {
        Self { value, seen: Seen::Plainly }
    }

    /// Returns an element of a container with this element type.
    pub(crate) fn element(value: Value, ty: Type) -> Self {
        let seen = if ty == Type::Any { Seen::ThroughInterface } else { Seen::Plainly };
        Self { value, seen }
    }

    /// Returns the result of a function or field; nil can only be a nil interface.
    pub(crate) fn result(value: Value) -> Self {
        let seen = if matches!(value, Value::Nil) { Seen::ThroughInterface } else { Seen::Plainly };
        Self { value, seen }
    }

    /// Returns the field of a struct behind a pointer.
    pub(crate) fn in_place(value: Value) -> Self {
        let seen = if matches!(value, Value::Nil) { Seen::ThroughInterface } else { Seen::InPlace };
        Self { value, seen }
    }

    pub(crate) fn is_interface(&self) -> bool {
        self.seen == Seen::ThroughInterface
    }

    /// Unwraps an interface; a nil interface becomes the invalid value.
    fn unwrapped(mut self) -> Self {
        if self.is_interface() {
            self.seen = Seen::Plainly;
        }
        self
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.is_interface() || !matches!(self.value, Value::Nil)
    }

    /// Returns the name of the Go type.
    pub(crate) fn type_name(&self) -> &str {
        if self.is_interface() { "interface {}" } else { self.value.type_str() }
    }
}

/// How the execution of a list of statements ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

type Result<T> = std::result::Result<T, Box<ExecError>>;

/// Approximate stack use of a template that calls another.
const STACK_PER_CALL: usize = 1 << 10;

/// Executes a template of a set within `budget`.
pub(crate) fn execute<H>(
    set: &Set<H>,
    budget: &Budget,
    host: &mut H,
    template: &Template<H>,
    data: Value,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut state = State {
        set,
        budget,
        host,
        out,
        template,
        unit: &template.unit,
        node: None,
        vars: vec![None; template.slots],
        base: 0,
        args: Vec::new(),
        reflected: Vec::new(),
    };
    budget.start().map_err(|limit| state.exceed(limit))?;
    let dot = Rv::concrete(data);
    state.set_slot(0, dot.clone());
    let done = crate::stack::grow(|| state.list(&dot, template.root));
    budget.finish();
    done.map(|_| ())
}

/// One execution.
struct State<'a, H> {
    set: &'a Set<H>,
    budget: &'a Budget,
    host: &'a mut H,
    out: &'a mut Vec<u8>,
    template: &'a Template<H>,
    unit: &'a Unit<H>,
    /// Current node, for error messages. Follows Go, which does not always move it to the obvious place.
    node: Option<Node<'a, H>>,
    /// The variables of all templates being executed; `None` where a declaration was skipped.
    vars: Vec<Option<Rv>>,
    /// Index in `vars` where those of this template begin.
    base: usize,
    /// Arguments of the calls being prepared, the innermost last.
    args: Vec<Value>,
    /// Arguments of built-in functions, which distinguish nil from the invalid value.
    reflected: Vec<Rv>,
}

impl<'a, H> State<'a, H> {
    // Errors.

    fn frame(&self) -> Frame {
        let (mut line, mut column, mut context) = (1, 0, String::new());
        if let Some(node) = self.node {
            (line, column) = self.unit.line_column(node.pos());
            context = self.unit.show(node);
        }
        Frame {
            file: self.unit.name.clone(),
            template: self.template.name.to_string(),
            line,
            column,
            context,
        }
    }

    /// Appends the current node to the error's frames.
    fn add_frame(&self, error: &mut ExecError) {
        if error.frames.len() < ExecError::MAX_FRAMES {
            error.frames.push(self.frame());
        }
    }

    /// Builds an error at the current node.
    #[cold]
    #[inline(never)]
    fn fail(&self, what: impl std::fmt::Display) -> Box<ExecError> {
        let frame = self.frame();
        let Frame { file, line, column, context, .. } = &frame;
        let message = match self.node {
            None => format!("template: {}: {what}", frame.template),
            Some(_) => {
                let name = strconv::quote(&self.template.name);
                format!("template: {file}:{line}:{column}: executing {name} at <{context}>: {what}")
            }
        };
        Box::new(ExecError { message, frames: vec![frame], exceeded: None })
    }

    /// Builds the error of a limit that was exceeded at the current node.
    #[cold]
    #[inline(never)]
    fn exceed(&self, limit: Exceeded) -> Box<ExecError> {
        let mut error = self.fail(&limit);
        error.exceeded = Some(limit);
        error
    }

    fn at(&mut self, node: Node<'a, H>) {
        self.node = Some(node);
    }

    fn step(&self) -> Result<()> {
        self.charge_cost(1)
    }

    #[inline]
    fn charge_cost(&self, cost: usize) -> Result<()> {
        self.budget.charge_cost(cost).map_err(|limit| self.exceed(limit))
    }

    #[inline]
    fn charge_memory(&self, bytes: usize) -> Result<()> {
        self.budget.charge_memory(bytes).map_err(|limit| self.exceed(limit))
    }

    // Variables.

    fn set_slot(&mut self, slot: usize, value: Rv) {
        if let Some(place) = self.vars.get_mut(self.base + slot) {
            *place = Some(value);
        }
    }

    fn unset_slot(&mut self, slot: usize) {
        if let Some(place) = self.vars.get_mut(self.base + slot) {
            *place = None;
        }
    }

    /// Returns the first of these slots that is set.
    fn live_slot(&self, slots: &[usize]) -> Option<usize> {
        slots.iter().copied().find(|slot| matches!(self.vars.get(self.base + slot), Some(Some(_))))
    }

    fn assign(&mut self, name: &str, slots: &[usize], value: Rv) -> Result<()> {
        let slot =
            self.live_slot(slots).ok_or_else(|| self.fail(format_args!("undefined variable: {name}")))?;
        self.set_slot(slot, value);
        Ok(())
    }

    // Statements.

    fn list(&mut self, dot: &Rv, list: ListId) -> Result<Flow> {
        for stmt in self.unit.list(list) {
            self.step()?;
            let flow = match stmt {
                Stmt::Text(range) => {
                    self.write(self.unit.text.get(range.clone()).unwrap_or_default())?;
                    Flow::Next
                }
                Stmt::Action(pipe) => {
                    let pipe = self.unit.pipe(*pipe);
                    if !self.print_field(dot, pipe)? {
                        let value = self.pipeline(dot, pipe)?;
                        if pipe.decls.is_empty() {
                            self.node = Some(Node::Pipe(pipe));
                            self.print(&value)?;
                        }
                    }
                    Flow::Next
                }
                Stmt::If(branch) => self.if_or_with(dot, branch, false)?,
                Stmt::With(branch) => self.if_or_with(dot, branch, true)?,
                Stmt::Range(branch) => self.range(dot, branch)?,
                Stmt::Template(call) => {
                    self.template(dot, call)?;
                    Flow::Next
                }
                Stmt::Break => Flow::Break,
                Stmt::Continue => Flow::Continue,
            };
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    /// Executes a nested list; nesting can be deep.
    fn body(&mut self, dot: &Rv, list: ListId) -> Result<Flow> {
        crate::stack::grow(|| self.list(dot, list))
    }

    fn write(&mut self, text: &[u8]) -> Result<()> {
        self.charge_memory(text.len())?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    /// Prints `{{ .x }}` without copying it if `.x` is a string in a map, by far the most common action.
    ///
    /// Returns false, having done nothing, in every other case.
    fn print_field(&mut self, dot: &Rv, pipe: &'a Pipe) -> Result<bool> {
        let ([], [Cmd { args, .. }]) = (&*pipe.decls, &*pipe.cmds) else { return Ok(false) };
        let [arg] = &**args else { return Ok(false) };
        let (receiver, name) = match &self.unit.expr(*arg).kind {
            ExprKind::Field(names) => match &**names {
                [name] => (Some(dot), name),
                _ => return Ok(false),
            },
            ExprKind::Variable { slots, fields, .. } => match (&**slots, &**fields) {
                ([slot], [name]) => (self.vars.get(self.base + slot).and_then(Option::as_ref), name),
                _ => return Ok(false),
            },
            _ => return Ok(false),
        };
        let Some(Value::Map(map)) = receiver.map(|receiver| &receiver.value) else { return Ok(false) };
        if !map.ty().methods.is_empty() {
            return Ok(false);
        }
        let entries = map.borrow();
        let Some(Value::String(text)) = entries.get(name.as_bytes()) else { return Ok(false) };
        self.node = Some(Node::Pipe(pipe));
        self.charge_memory(text.len())?;
        self.out.extend_from_slice(text);
        Ok(true)
    }

    fn print(&mut self, value: &Rv) -> Result<()> {
        match &value.value {
            Value::String(text) => self.write(text),
            Value::Nil => self.write(b"<no value>"),
            Value::Object(object) if object.kind() == Kind::Func => {
                let node = self.node.map(|node| self.unit.show(node)).unwrap_or_default();
                Err(self.fail(format_args!("can't print {{{{{node}}}}} of type {}", object.type_name())))
            }
            Value::Object(object) if value.seen == Seen::InPlace && object.addressed().is_some() => {
                self.write(object.addressed().unwrap_or_default().as_bytes())
            }
            other => {
                let start = self.out.len();
                let printed = fmt::append_indirect(self.budget.remaining_memory(), self.out, other);
                self.budget.printed(printed).map_err(|error| self.call_error(error))?;
                self.charge_memory(self.out.len() - start)
            }
        }
    }

    fn if_or_with(&mut self, dot: &Rv, branch: &'a Branch, is_with: bool) -> Result<Flow> {
        let value = self.pipeline(dot, self.unit.pipe(branch.pipe))?;
        if value.value.truth() {
            self.body(if is_with { &value } else { dot }, branch.list)
        } else if let Some(list) = branch.else_list {
            self.body(dot, list)
        } else {
            Ok(Flow::Next)
        }
    }

    fn range(&mut self, dot: &Rv, branch: &'a Branch) -> Result<Flow> {
        let value = self.pipeline(dot, self.unit.pipe(branch.pipe))?;
        let value = value.value.underlying();
        let ran = match value.as_ref() {
            Value::Nil => None,
            Value::Int(n, ty) => {
                self.check_range_over_number(branch, &value)?;
                self.iterate(branch, (0..*n).map(|i| (Rv::INVALID, Rv::concrete(Value::Int(i, *ty)))))?
            }
            Value::Uint(n, ty) => {
                self.check_range_over_number(branch, &value)?;
                self.iterate(branch, (0..*n).map(|i| (Rv::INVALID, Rv::concrete(Value::Uint(i, *ty)))))?
            }
            Value::List(list) => {
                let elem = list.ty().elem;
                let items = list.iter().map(|item| Rv::element(item.clone(), elem));
                self.iterate(branch, (0..).map(|i| Rv::concrete(Value::int(i))).zip(items))?
            }
            Value::Bytes(bytes) => {
                let bytes = bytes.clone();
                let items = bytes
                    .iter()
                    .map(|b| Rv::concrete(Value::Uint(u64::from(*b), crate::value::UintType::Uint8)));
                self.iterate(branch, (0..).map(|i| Rv::concrete(Value::int(i))).zip(items))?
            }
            Value::Map(map) => {
                let elem = map.ty().elem;
                // The body may change the map. Go also iterates over the entries present at the start.
                let size = map.len() * size_of::<(Str, Value)>();
                self.charge_memory(size)?;
                let entries: Vec<(Str, Value)> =
                    map.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                let items = entries
                    .into_iter()
                    .map(|(key, value)| (Rv::concrete(Value::String(key)), Rv::element(value, elem)));
                let ran = self.iterate(branch, items)?;
                self.budget.release_memory(size);
                ran
            }
            other => {
                let shown = fmt::indirect_text(other);
                return Err(self.fail(format_args!("range can't iterate over {shown}")));
            }
        };
        match (ran, branch.else_list) {
            (Some(()), _) | (None, None) => Ok(Flow::Next),
            (None, Some(list)) => match self.body(dot, list)? {
                // A break in the else branch ends this range in Go; a continue belongs to the outer range.
                Flow::Break => Ok(Flow::Next),
                flow => Ok(flow),
            },
        }
    }

    fn check_range_over_number(&self, branch: &Branch, value: &Value) -> Result<()> {
        if self.unit.pipe(branch.pipe).decls.len() > 1 {
            let shown = fmt::indirect_text(value);
            return Err(self.fail(format_args!("can't use {shown} to iterate over more than one variable")));
        }
        Ok(())
    }

    /// Runs the body for each item. Returns `None` if there are no items.
    fn iterate(&mut self, branch: &'a Branch, items: impl Iterator<Item = (Rv, Rv)>) -> Result<Option<()>> {
        let pipe = self.unit.pipe(branch.pipe);
        let mut ran = None;
        for (index, item) in items {
            ran = Some(());
            self.step()?;
            match &*pipe.decls {
                [] => {}
                [only] => self.bind(pipe.is_assign, only, item.clone())?,
                [first, second, ..] => {
                    self.bind(pipe.is_assign, first, index)?;
                    self.bind(pipe.is_assign, second, item.clone())?;
                }
            }
            if self.body(&item, branch.list)? == Flow::Break {
                break;
            }
        }
        Ok(ran)
    }

    fn bind(&mut self, is_assign: bool, decl: &crate::ast::Decl, value: Rv) -> Result<()> {
        if is_assign {
            return self.assign(&decl.name, &decl.slots, value);
        }
        if let Some(slot) = decl.slots.first() {
            self.set_slot(*slot, value);
        }
        Ok(())
    }

    fn template(&mut self, dot: &Rv, call: &'a TemplateCall) -> Result<()> {
        self.node = Some(Node::Template(call));
        let Some(template) = self.set.find(&call.name) else {
            let name = strconv::quote(&call.name);
            return Err(self.fail(format_args!("template {name} not defined")));
        };
        self.budget.check_depth().map_err(|limit| self.exceed(limit))?;
        let dot = match call.pipe {
            Some(pipe) => self.pipeline(dot, self.unit.pipe(pipe))?,
            None => Rv::INVALID,
        };
        // Charged because recursion keeps the variables and the stack of every level.
        let size = STACK_PER_CALL + template.slots * size_of::<Option<Rv>>();
        self.charge_memory(size)?;
        self.budget.enter();
        let outer = (self.template, self.unit, self.base);
        self.base = self.vars.len();
        self.vars.resize(self.base + template.slots, None);
        (self.template, self.unit) = (template, &template.unit);
        self.set_slot(0, dot.clone());
        let done = self.body(&dot, template.root);
        self.vars.truncate(self.base);
        (self.template, self.unit, self.base) = outer;
        self.budget.leave();
        self.budget.release_memory(size);
        done.map(|_| ()).map_err(|mut error| {
            self.node = Some(Node::Template(call));
            self.add_frame(&mut error);
            error
        })
    }

    fn missing_key(&self) -> MissingKey {
        self.set.missing_key_mode()
    }
}
