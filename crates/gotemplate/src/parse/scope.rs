//! The variables that are visible while a template is parsed.

use crate::ast::Slots;

/// The variables of one template.
///
/// Go looks variables up by name at execution, and its parser only checks that a name was seen before. Here they are
/// resolved while parsing, so both are tracked: the names that Go's parser accepts, and the declarations that will have
/// run.
pub(super) struct Scope<'a> {
    names: Vec<&'a str>,
    declared: Vec<Declared<'a>>,
    /// Largest number of declarations visible at once.
    slots: usize,
    /// Number of enclosing arguments that `and` or `or` may skip.
    skippable: usize,
    /// Whether any declaration may have been skipped.
    conditional: bool,
}

struct Declared<'a> {
    name: &'a str,
    conditional: bool,
}

/// A point in the scope to return to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    names: usize,
    declared: usize,
}

impl<'a> Scope<'a> {
    pub(super) fn new() -> Self {
        let mut scope =
            Self { names: vec!["$"], declared: Vec::new(), slots: 0, skippable: 0, conditional: false };
        scope.declare("$");
        scope
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn conditional(&self) -> bool {
        self.conditional
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { names: self.names.len(), declared: self.declared.len() }
    }

    /// Drops everything since the mark.
    pub(super) fn leave(&mut self, mark: Mark) {
        self.names.truncate(mark.names);
        self.declared.truncate(mark.declared);
    }

    /// Drops the declarations since the mark, but keeps the names seen.
    pub(super) fn leave_body(&mut self, mark: Mark) {
        self.declared.truncate(mark.declared);
    }

    /// Records that a name was declared or assigned to.
    pub(super) fn see(&mut self, name: &'a str) {
        self.names.push(name);
    }

    pub(super) fn seen(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// Returns the number of names and declarations that a lookup searches.
    pub(super) fn len(&self) -> usize {
        self.names.len() + self.declared.len()
    }

    /// Declares a variable.
    pub(super) fn declare(&mut self, name: &'a str) -> Slots {
        let conditional = self.skippable > 0;
        self.conditional |= conditional;
        let slot = self.declared.len();
        self.declared.push(Declared { name, conditional });
        self.slots = self.slots.max(self.declared.len());
        Box::new([slot])
    }

    /// Returns the declarations that the name may refer to, innermost first.
    pub(super) fn find(&self, name: &str) -> Slots {
        let mut slots = Vec::new();
        for (slot, declared) in self.declared.iter().enumerate().rev() {
            if declared.name == name {
                slots.push(slot);
                if !declared.conditional {
                    break;
                }
            }
        }
        slots.into()
    }

    pub(super) fn enter_skippable(&mut self) {
        self.skippable += 1;
    }

    pub(super) fn leave_skippable(&mut self) {
        self.skippable -= 1;
    }
}
