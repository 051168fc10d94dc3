//! The terminal interface of `steer dev`: a tree of objects with filter, problems, and a detail view.
//!
//! This module contains the state and handles keys; [`draw`] renders it, and [`terminal`] manages the terminal.

mod draw;
pub(super) mod terminal;

use std::collections::VecDeque;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Format;
use super::events::EventLine;
use super::screen::{Mark, refused, without_colours};
use super::view::{Reference, Scene, Seen};

/// Maximum number of messages and log lines kept.
const KEPT: usize = 1000;
/// Number of lines of a page.
const PAGE: usize = 10;

#[derive(Clone, Debug)]
struct Message {
    mark: Mark,
    text: String,
}

/// The content of the pane below the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pane {
    Problems,
    Events,
    Log,
    Messages,
}

impl Pane {
    const ALL: [Self; 4] = [Self::Problems, Self::Events, Self::Log, Self::Messages];

    fn title(self) -> &'static str {
        match self {
            Self::Problems => "Problems",
            Self::Events => "Events",
            Self::Log => "Log",
            Self::Messages => "Messages",
        }
    }
}

/// The part that has the keyboard focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Focus {
    Objects,
    Pane,
}

/// The detail view of an object.
#[derive(Debug)]
struct Opened {
    title: String,
    reference: Reference,
    lines: Vec<String>,
    /// The first visible line.
    offset: usize,
}

/// The action that a key triggers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Quit,
    /// Read the opened object from the API server.
    Read(Reference),
}

/// The state of the interface.
#[derive(Debug)]
pub(super) struct Interface {
    /// What is running, and where.
    title: String,
    scene: Scene,
    messages: VecDeque<Message>,
    log: VecDeque<String>,
    /// The path of titles to the selected object.
    selected: Option<String>,
    filter: String,
    /// Whether keys are typed into the filter.
    is_typing: bool,
    /// Whether ready objects are hidden.
    only_failing: bool,
    pane: Pane,
    focus: Focus,
    /// Number of lines that the pane is scrolled back from its end.
    back: usize,
    opened: Option<Opened>,
    /// Whether the opened object must be read again.
    is_outdated: bool,
    shows_help: bool,
}

/// An object in the tree.
#[derive(Debug)]
struct Row<'a> {
    path: String,
    /// The tree's branch characters in front of it.
    branch: String,
    object: &'a Seen,
}

impl Interface {
    /// Returns the interface if the format is [`Format::Screen`].
    pub(super) fn of(format: Format) -> Option<Self> {
        (format == Format::Screen).then(|| Self::new(String::new()))
    }

    pub(super) fn new(title: String) -> Self {
        Self {
            title,
            scene: Scene::default(),
            messages: VecDeque::new(),
            log: VecDeque::new(),
            selected: None,
            filter: String::new(),
            is_typing: false,
            only_failing: false,
            // Startup messages are shown until there are objects.
            pane: Pane::Messages,
            focus: Focus::Objects,
            back: 0,
            opened: None,
            is_outdated: false,
            shows_help: false,
        }
    }

    /// Sets the title: what is running, and where.
    pub(super) fn set_title(&mut self, title: String) {
        self.title = title;
    }

    pub(super) fn message(&mut self, mark: Mark, text: &str) {
        for line in without_colours(text).lines() {
            keep(&mut self.messages, Message { mark, text: line.to_owned() });
        }
        if mark == Mark::Error {
            self.pane = Pane::Problems;
            self.back = 0;
        }
    }

    pub(super) fn log(&mut self, line: &str) {
        keep(&mut self.log, without_colours(line));
    }

    /// Returns the messages, to print them once the interface is closed.
    pub(super) fn messages(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(|message| message.text.as_str())
    }

    pub(super) fn show(&mut self, scene: &Scene) {
        if self.scene.objects.is_empty() && !scene.objects.is_empty() && self.pane == Pane::Messages {
            self.pane = Pane::Events;
        }
        self.scene = scene.clone();
        self.is_outdated = true;
    }

    /// Requests to read the opened object, if it may have changed since it was last read.
    pub(super) fn take_outdated(&mut self) -> Action {
        let is_outdated = std::mem::take(&mut self.is_outdated);
        match &self.opened {
            Some(opened) if is_outdated => Action::Read(opened.reference.clone()),
            _ => Action::None,
        }
    }

    /// Sets the text of the opened object, if it is still the one that was read.
    pub(super) fn fill(&mut self, reference: &Reference, text: &str) {
        let events = self.opened.as_ref().map(|opened| self.events_of(&opened.title)).unwrap_or_default();
        if let Some(opened) = self.opened.as_mut().filter(|opened| opened.reference == *reference) {
            opened.lines = text.lines().map(str::to_owned).collect();
            if !events.is_empty() {
                opened.lines.push(String::new());
                opened.lines.push("# Events".to_owned());
                opened.lines.extend(events);
            }
            opened.offset = opened.offset.min(opened.lines.len().saturating_sub(1));
        }
    }

    fn events_of(&self, title: &str) -> Vec<String> {
        let about = self.scene.events.iter().filter(|event| event.title == title);
        about.map(|event| format!("# {}: {}", event.reason, event.note)).collect()
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        if self.shows_help {
            self.shows_help = false;
            return Action::None;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return Action::None;
        }
        if self.opened.is_some() {
            self.read_on(key.code);
            return Action::None;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?') => self.shows_help = true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('!') => self.only_failing = !self.only_failing,
            KeyCode::Esc => {
                self.filter.clear();
                self.only_failing = false;
            }
            KeyCode::Tab => {
                self.focus = if self.focus == Focus::Objects { Focus::Pane } else { Focus::Objects };
            }
            KeyCode::Char(digit @ '1'..='4') => {
                let index = usize::from(digit as u8 - b'1');
                self.pane = Pane::ALL[index];
                self.back = 0;
            }
            KeyCode::Enter => return self.open(),
            code => self.scroll(code),
        }
        Action::None
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(character) => self.filter.push(character),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Enter => self.is_typing = false,
            _ => {}
        }
    }

    fn read_on(&mut self, code: KeyCode) {
        let Some(opened) = &mut self.opened else { return };
        let last = opened.lines.len().saturating_sub(1);
        opened.offset = match code {
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::Left => {
                self.opened = None;
                return;
            }
            code => moved(opened.offset, last, code),
        };
    }

    fn open(&mut self) -> Action {
        let Some(object) = self.selection() else { return Action::None };
        // A deleted object cannot be read.
        if object.reference.name.is_empty() {
            return Action::None;
        }
        let (title, reference) = (object.title.clone(), object.reference.clone());
        let lines = vec!["reading ...".to_owned()];
        self.opened = Some(Opened { title, reference: reference.clone(), lines, offset: 0 });
        self.is_outdated = false;
        Action::Read(reference)
    }

    fn scroll(&mut self, code: KeyCode) {
        if self.focus == Focus::Pane {
            // Counted from the end, where the latest lines are.
            let last = self.lines().saturating_sub(1);
            let from_start = last.saturating_sub(self.back);
            self.back = last - moved(from_start, last, code).min(last);
            return;
        }
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else { return };
        let to = moved(self.cursor(&rows), last, code);
        self.selected = Some(rows[to].path.clone());
    }

    fn lines(&self) -> usize {
        match self.pane {
            Pane::Problems => self.problems().len(),
            Pane::Events => self.scene.events.len(),
            Pane::Log => self.log.len(),
            Pane::Messages => self.messages.len(),
        }
    }

    /// Returns the visible rows of the tree.
    fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        let filter = self.filter.to_lowercase();
        for object in &self.scene.objects {
            self.add_rows(object, "", "", "", &filter, &mut rows);
        }
        rows
    }

    fn add_rows<'a>(
        &self,
        object: &'a Seen,
        above: &str,
        joint: &str,
        margin: &str,
        filter: &str,
        rows: &mut Vec<Row<'a>>,
    ) {
        if !self.is_shown(object, filter) {
            return;
        }
        let path = format!("{above}/{}", object.title);
        rows.push(Row { path: path.clone(), branch: joint.to_owned(), object });
        let children: Vec<&Seen> =
            object.children.iter().filter(|child| self.is_shown(child, filter)).collect();
        for (index, child) in children.iter().enumerate() {
            let is_last = index + 1 == children.len();
            let joint = format!("{margin}{}", if is_last { "└─ " } else { "├─ " });
            let margin = format!("{margin}{}", if is_last { "   " } else { "│  " });
            self.add_rows(child, &path, &joint, &margin, filter, rows);
        }
    }

    /// Whether an object or one of its descendants matches the filter.
    fn is_shown(&self, object: &Seen, filter: &str) -> bool {
        let texts = [&object.title, &object.state, &object.detail];
        let fits = filter.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(filter));
        let fits = fits && !(self.only_failing && object.ready);
        fits || object.children.iter().any(|child| self.is_shown(child, filter))
    }

    /// Returns the index of the selected row.
    fn cursor(&self, rows: &[Row<'_>]) -> usize {
        let selected = self.selected.as_deref();
        rows.iter().position(|row| Some(row.path.as_str()) == selected).unwrap_or(0)
    }

    fn selection(&self) -> Option<&Seen> {
        let rows = self.rows();
        let cursor = self.cursor(&rows);
        rows.get(cursor).map(|row| row.object)
    }

    /// Returns the problems: denied requests, objects that are not ready, warnings, errors of this program.
    fn problems(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for denied in &self.scene.denied {
            lines.push(refused(denied));
        }
        for object in &self.scene.objects {
            add_unready(object, &mut lines);
        }
        let warnings = self.scene.events.iter().filter(|event| event.warning);
        lines.extend(
            warnings.map(|EventLine { title, reason, note, .. }| format!("{title}  {reason}: {note}")),
        );
        let errors = self.messages.iter().filter(|message| message.mark == Mark::Error);
        lines.extend(errors.map(|message| message.text.clone()));
        lines
    }
}

/// Adds an object that is not ready, unless one of its children explains why.
fn add_unready(object: &Seen, lines: &mut Vec<String>) {
    let before = lines.len();
    object.children.iter().for_each(|child| add_unready(child, lines));
    if !object.ready && lines.len() == before {
        lines.push(format!("{}  {} {}", object.title, object.state, object.detail).trim_end().to_owned());
    }
}

fn keep<T>(lines: &mut VecDeque<T>, line: T) {
    if lines.len() == KEPT {
        lines.pop_front();
    }
    lines.push_back(line);
}

/// Returns the line that a key moves to, at most `last`.
fn moved(from: usize, last: usize, code: KeyCode) -> usize {
    let to = match code {
        KeyCode::Up | KeyCode::Char('k') => from.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => from + 1,
        KeyCode::PageUp => from.saturating_sub(PAGE),
        KeyCode::PageDown | KeyCode::Char(' ') => from + PAGE,
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => last,
        _ => from,
    };
    to.min(last)
}

#[cfg(test)]
mod tests;
