//! Chart dependencies: enabled subcharts, their aliases, and values that parents import from them.
//!
//! Helm processes charts as a graph of pointers. Copies of a chart (one per alias) share parts of it, so that a
//! dependency renamed or processed in one copy is so in the others too. This tree shares the same parts through
//! indices.

use std::sync::Arc;

use steersman_gotemplate::{Map, Str, Value};

use crate::chart::Content;
use crate::error::Error;
use crate::gofmt;
use crate::metadata::{Dependency, ImportValue, Metadata};
use crate::values::coalesce::{ChartValues, Nulls, coalesce, coalesce_tables};
use crate::values::{Data, MAX_DEPTH, Table, from_map};
use crate::version;

/// A chart with its enabled subcharts, processed as by Helm before a render.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    dependencies: Vec<Dependency>,
}

/// Index of a chart in a [`Tree`].
pub(crate) type NodeId = usize;

/// Index of the root chart.
pub(crate) const ROOT: NodeId = 0;

/// One chart of a [`Tree`].
#[derive(Debug)]
pub(crate) struct Node {
    /// The chart as loaded.
    pub(crate) content: Arc<Content>,
    /// Name, or alias if it has one.
    pub(crate) name: String,
    /// Values including those imported from subcharts; `None` if they are those loaded.
    values: Option<Table>,
    parent: Option<NodeId>,
    /// Enabled subcharts.
    pub(crate) children: Vec<NodeId>,
    requirements: Option<Vec<usize>>,
}

impl Tree {
    /// Creates the tree of a chart as loaded.
    fn new(content: &Arc<Content>) -> Self {
        let mut tree = Self { nodes: Vec::new(), dependencies: Vec::new() };
        tree.add(content, None);
        tree
    }

    fn add(&mut self, content: &Arc<Content>, parent: Option<NodeId>) -> NodeId {
        let id = self.nodes.len();
        let requirements = content.metadata.dependencies.as_ref().map(|dependencies| {
            let first = self.dependencies.len();
            self.dependencies.extend(dependencies.iter().cloned());
            (first..self.dependencies.len()).collect()
        });
        self.nodes.push(Node {
            content: Arc::clone(content),
            name: content.metadata.name.clone(),
            values: None,
            parent,
            children: Vec::new(),
            requirements,
        });
        let children: Vec<NodeId> =
            content.dependencies.iter().map(|chart| self.add(chart.content(), Some(id))).collect();
        if let Some(node) = self.nodes.get_mut(id) {
            node.children = children;
        }
        id
    }

    /// Returns the chart at an index of this tree.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }

    /// Returns the number of charts, disabled ones included.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether both trees enable the same charts under the same names. They must come from the same chart.
    pub(crate) fn same_charts(&self, other: &Self) -> bool {
        fn same(a: &Tree, b: &Tree, at: NodeId, bt: NodeId) -> bool {
            let (left, right) = (a.node(at), b.node(bt));
            left.name == right.name
                && Arc::ptr_eq(&left.content, &right.content)
                && left.children.len() == right.children.len()
                && left.children.iter().zip(&right.children).all(|(at, bt)| same(a, b, *at, *bt))
        }
        same(self, other, ROOT, ROOT)
    }

    /// Returns a view of a chart for coalescing.
    pub(crate) fn at(&self, id: NodeId) -> At<'_> {
        At { tree: self, id }
    }

    /// Returns the path of a chart in templates and manifests: `parent/charts/child`.
    pub(crate) fn full_path(&self, id: NodeId) -> String {
        let node = self.node(id);
        match node.parent {
            None => node.name.clone(),
            Some(parent) => format!("{}/charts/{}", self.full_path(parent), node.name),
        }
    }

    /// Whether the chart has no parent.
    pub(crate) fn is_root(&self, id: NodeId) -> bool {
        self.node(id).parent.is_none()
    }

    /// Returns the contents of `.Chart`, with the alias as the name and only enabled dependencies.
    pub(crate) fn metadata(&self, id: NodeId) -> Metadata {
        let node = self.node(id);
        let dependencies = node.requirements.as_ref().map(|requirements| {
            requirements.iter().filter_map(|index| self.dependencies.get(*index)).cloned().collect()
        });
        Metadata { name: node.name.clone(), dependencies, ..node.content.metadata.clone() }
    }

    fn set_children(&mut self, id: NodeId, children: Vec<NodeId>) {
        for child in &children {
            self.node_mut(*child).parent = Some(id);
        }
        self.node_mut(id).children = children;
    }
}

/// View of a chart in a tree, for coalescing.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    tree: &'a Tree,
    id: NodeId,
}

impl ChartValues for At<'_> {
    fn name(&self) -> &str {
        &self.tree.node(self.id).name
    }

    fn values(&self) -> &Table {
        let node = self.tree.node(self.id);
        node.values.as_ref().unwrap_or(&node.content.values)
    }

    fn subcharts(&self) -> impl Iterator<Item = Self> {
        let Self { tree, id } = *self;
        tree.node(id).children.iter().map(move |child| Self { tree, id: *child })
    }
}

/// Whether values decide which subcharts are enabled, so that other values may need another tree.
pub(crate) fn depends_on_values(content: &Content) -> bool {
    let own = content.metadata.dependencies.iter().flatten();
    own.into_iter().any(|dependency| !dependency.condition.trim().is_empty() || !dependency.tags.is_empty())
        || content.dependencies.iter().any(|chart| depends_on_values(chart.content()))
}

/// Whether a value other than a table is set where a subchart's values may belong.
///
/// Processing usually fails then. The check is conservative: a nested chart may have the same name as an unrelated key.
pub(crate) fn contradicts_subcharts(content: &Content, values: &Table) -> bool {
    let mut names = Vec::new();
    subchart_names(content, &mut names);
    contradicts(&names, values)
}

fn contradicts(names: &[&str], values: &Table) -> bool {
    names.iter().any(|name| match values.get(name.as_bytes()) {
        None => false,
        Some(Data::Table(inner)) => contradicts(names, inner),
        Some(_) => true,
    })
}

fn subchart_names<'a>(content: &'a Content, names: &mut Vec<&'a str>) {
    names.extend(content.metadata.dependencies.iter().flatten().map(|dependency| dependency.alias.as_str()));
    for chart in &content.dependencies {
        names.push(chart.name());
        subchart_names(chart.content(), names);
    }
}

/// Processes the dependencies of a chart for these values, as Helm does before an install.
pub(crate) fn process(
    content: &Arc<Content>,
    values: &Table,
    warnings: &mut Vec<String>,
) -> Result<Tree, Error> {
    let mut tree = Tree::new(content);
    let mut process = Process { tree: &mut tree, warnings };
    process.enable(ROOT, &crate::values::to_map(values), "")?;
    process.import(ROOT)?;
    Ok(tree)
}

struct Process<'a> {
    tree: &'a mut Tree,
    warnings: &'a mut Vec<String>,
}

impl Process<'_> {
    /// Renames subcharts to their aliases and drops those that the values disable.
    fn enable(&mut self, id: NodeId, values: &Map, path: &str) -> Result<(), Error> {
        let Some(requirements) = self.tree.node(id).requirements.clone() else { return Ok(()) };
        let children = self.resolve(id, &requirements);
        self.tree.set_children(id, children);
        for index in &requirements {
            self.dependency(*index).enabled = true;
        }
        let values = deep_copy(values);
        coalesce(self.tree.at(id), &values, Nulls::Delete, self.warnings)?;
        self.apply_tags(&requirements, &values);
        self.apply_conditions(&requirements, &values, path);

        let tree = &mut *self.tree;
        let disabled: Vec<String> = requirements
            .iter()
            .filter_map(|index| tree.dependencies.get(*index))
            .filter(|dependency| !dependency.enabled)
            .map(|dependency| dependency.name.clone())
            .collect();
        let mut enabled_children = tree.node(id).children.clone();
        enabled_children.retain(|child| !disabled.contains(&tree.node(*child).name));
        let mut enabled_requirements = requirements;
        enabled_requirements
            .retain(|index| tree.dependencies.get(*index).is_some_and(|d| !disabled.contains(&d.name)));
        for child in &enabled_children {
            let path = format!("{path}{}.", self.tree.node(*child).name);
            self.enable(*child, &values, &path)?;
        }
        // As in Helm, an empty list becomes none, on which later steps depend.
        self.tree.node_mut(id).requirements =
            (!enabled_requirements.is_empty()).then_some(enabled_requirements);
        self.tree.set_children(id, enabled_children);
        Ok(())
    }

    /// Returns the subcharts not listed in Chart.yaml, then a copy for each listed one that is present.
    fn resolve(&mut self, id: NodeId, requirements: &[usize]) -> Vec<NodeId> {
        let existing = self.tree.node(id).children.clone();
        let matches = |tree: &Tree, child: NodeId, dependency: &Dependency| {
            let node = tree.node(child);
            node.name == dependency.name
                && version::is_compatible(&dependency.version, &node.content.metadata.version)
        };
        let mut children = Vec::new();
        for child in &existing {
            let named = requirements
                .iter()
                .filter_map(|index| self.tree.dependencies.get(*index))
                .any(|dependency| matches(self.tree, *child, dependency));
            if !named {
                children.push(*child);
            }
        }
        for index in requirements {
            let Some(dependency) = self.tree.dependencies.get(*index) else { continue };
            let found = existing.iter().find(|child| matches(self.tree, **child, dependency));
            let alias = (!dependency.alias.is_empty()).then(|| dependency.alias.clone());
            if let Some(child) = found {
                let node = self.tree.node(*child);
                let copy = Node {
                    content: Arc::clone(&node.content),
                    name: alias.clone().unwrap_or_else(|| node.name.clone()),
                    values: node.values.clone(),
                    parent: node.parent,
                    children: node.children.clone(),
                    requirements: node.requirements.clone(),
                };
                children.push(self.tree.nodes.len());
                self.tree.nodes.push(copy);
            }
            if let Some(alias) = alias {
                self.dependency(*index).name = alias;
            }
        }
        children
    }

    fn apply_tags(&mut self, requirements: &[usize], values: &Map) {
        let Some(Value::Map(tags)) = values.get(b"tags") else { return };
        for index in requirements {
            let Some(dependency) = self.tree.dependencies.get_mut(*index) else { continue };
            let mut any_true = false;
            let mut any_false = false;
            for tag in &dependency.tags {
                match tags.get(tag.as_bytes()) {
                    Some(Value::Bool(true)) => any_true = true,
                    Some(Value::Bool(false)) => any_false = true,
                    Some(_) => self.warnings.push(format!(
                        "Warning: Tag '{tag}' for chart {} returned non-bool value",
                        dependency.name
                    )),
                    None => {}
                }
            }
            dependency.enabled = any_true || !any_false;
        }
    }

    fn apply_conditions(&mut self, requirements: &[usize], values: &Map, path: &str) {
        for index in requirements {
            let Some(dependency) = self.tree.dependencies.get_mut(*index) else { continue };
            let conditions = dependency.condition.trim().to_owned();
            for condition in conditions.split(',').filter(|condition| !condition.is_empty()) {
                match value_at(values, &format!("{path}{condition}")) {
                    Some(Value::Bool(enabled)) => {
                        dependency.enabled = enabled;
                        break;
                    }
                    Some(_) => self.warnings.push(format!(
                        "Warning: Condition path '{condition}' for chart {} returned non-bool value",
                        dependency.name
                    )),
                    None => {}
                }
            }
        }
    }

    /// Imports values from subcharts, the deepest first.
    fn import(&mut self, id: NodeId) -> Result<(), Error> {
        for child in self.tree.node(id).children.clone() {
            self.import(child)?;
        }
        let Some(requirements) = self.tree.node(id).requirements.clone() else { return Ok(()) };
        let values = Map::new();
        coalesce(self.tree.at(id), &values, Nulls::Keep, self.warnings)?;
        let imported = Map::new();
        for index in requirements {
            self.import_from(index, &values, &imported)?;
        }
        // Copied because `imported` shares parts with `values`, which must not be modified along with it.
        let values = deep_copy(&values);
        coalesce_tables(&values, &imported, Nulls::Keep, self.warnings);
        self.tree.node_mut(id).values = Some(from_map(&values, MAX_DEPTH));
        Ok(())
    }

    fn import_from(&mut self, index: usize, values: &Map, imported: &Map) -> Result<(), Error> {
        let Some(dependency) = self.tree.dependencies.get_mut(index) else { return Ok(()) };
        let name = dependency.name.clone();
        let mut done = Vec::new();
        for import in std::mem::take(&mut dependency.import_values) {
            let (child, parent, from_chart) = match import {
                ImportValue::Written(Data::Table(table)) => {
                    let path = |key: &str| match table.get(key.as_bytes()) {
                        None => "<nil>".to_owned(),
                        Some(data) => data.to_string(),
                    };
                    (path("child"), path("parent"), format!(" from chart {name}"))
                }
                ImportValue::Written(Data::String(export)) => {
                    (format!("exports.{export}"), ".".to_owned(), String::new())
                }
                _ => continue,
            };
            match table_at(values, &format!("{name}.{child}")) {
                Ok(table) => {
                    // For Helm only an empty table is a copy; all others are shared.
                    let table = nest(&parent, if table.is_empty() { Map::new() } else { table });
                    coalesce_tables(imported, &table, Nulls::Keep, self.warnings);
                    let mut budget = MAX_IMPORTED;
                    check_size(imported, MAX_DEPTH, &mut budget).ok_or_else(|| {
                        Error::Values(format!("import-values of {name} are cyclic or too large"))
                    })?;
                }
                Err(key) => self.warnings.push(format!(
                    "Warning: ImportValues missing table{from_chart}: {} is not a table",
                    gofmt::quote(&Str::from(key.as_str()))
                )),
            }
            done.push(ImportValue::Done { child, parent });
        }
        self.dependency(index).import_values = done;
        Ok(())
    }

    fn dependency(&mut self, index: usize) -> &mut Dependency {
        &mut self.tree.dependencies[index]
    }
}

/// Returns the table at a dotted path; the error is the key that is not a table.
pub(crate) fn table_at(values: &Map, path: &str) -> Result<Map, String> {
    let mut table = values.clone();
    for key in path.split('.') {
        match table.get(key.as_bytes()) {
            Some(Value::Map(inner)) => table = inner,
            _ => return Err(key.to_owned()),
        }
    }
    Ok(table)
}

/// Returns the value at a dotted path; `None` if it is a table.
pub(crate) fn value_at(values: &Map, path: &str) -> Option<Value> {
    let value = match path.rsplit_once('.') {
        None => values.get(path.as_bytes())?,
        Some((table, key)) => table_at(values, table).ok()?.get(key.as_bytes())?,
    };
    (!matches!(value, Value::Map(_))).then_some(value)
}

/// Nests a table below each part of a dotted path; `.` returns the table itself.
fn nest(path: &str, table: Map) -> Map {
    if path == "." {
        return table;
    }
    path.rsplit('.').fold(table, |table, key| {
        let outer = Map::new();
        outer.insert(key, Value::Map(table));
        outer
    })
}

/// Maximum number of imported values. Imports that build on each other can double them repeatedly.
const MAX_IMPORTED: usize = 1_000_000;

/// Fails on values that are endless: imports can nest a table in itself, on which Helm never returns.
fn check_size(map: &Map, depth: usize, budget: &mut usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    for value in map.borrow().values() {
        *budget = budget.checked_sub(1)?;
        if let Value::Map(inner) = value {
            check_size(inner, depth, budget)?;
        }
    }
    Some(())
}

fn deep_copy(map: &Map) -> Map {
    let entries = map.borrow().iter().map(|(key, value)| (key.clone(), deep_copy_value(value))).collect();
    Map::with_type(map.ty(), entries)
}

fn deep_copy_value(value: &Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(deep_copy(map)),
        Value::List(items) if items.iter().any(|item| matches!(item, Value::Map(_) | Value::List(_))) => {
            Value::list(items.iter().map(deep_copy_value).collect())
        }
        other => other.clone(),
    }
}
