//! The variables that are visible while a template is parsed.

use crate::ast::Slots;

/// The variables of one template.
///
/// Go finds variables by name when the template runs, and its parser only checks that a name was seen before. We find
/// them here, so both are kept: the names that Go's parser would accept, and the declarations that will have run.
pub(super) struct Scope<'a> {
    names: Vec<&'a str>,
    declared: Vec<Declared<'a>>,
    /// The most declarations visible at once.
    slots: usize,
    /// How many arguments around this point may be skipped by `and` or `or`.
    skippable: usize,
    /// Whether any declaration may have been skipped.
    conditional: bool,
}

struct Declared<'a> {
    name: &'a str,
    conditional: bool,
}

/// A point to go back to.
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

    /// Forgets all since the mark.
    pub(super) fn leave(&mut self, mark: Mark) {
        self.names.truncate(mark.names);
        self.declared.truncate(mark.declared);
    }

    /// Forgets the declarations since the mark, but not that the names were seen.
    pub(super) fn leave_body(&mut self, mark: Mark) {
        self.declared.truncate(mark.declared);
    }

    /// Notes that the parser has seen a name declared or assigned to.
    pub(super) fn see(&mut self, name: &'a str) {
        self.names.push(name);
    }

    pub(super) fn seen(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// How many names and declarations there are to look through.
    pub(super) fn len(&self) -> usize {
        self.names.len() + self.declared.len()
    }

    /// Adds a variable.
    pub(super) fn declare(&mut self, name: &'a str) -> Slots {
        let conditional = self.skippable > 0;
        self.conditional |= conditional;
        let slot = self.declared.len();
        self.declared.push(Declared { name, conditional });
        self.slots = self.slots.max(self.declared.len());
        Box::new([slot])
    }

    /// The declarations that the name may mean, innermost first.
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
