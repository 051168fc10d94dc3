//! The terminal interface of `steer dev`: the objects as a tree that scrolls and is filtered, what goes wrong, and one object in full.
//!
//! This is the state and what keys do to it; [`draw`] shows it, and [`terminal`] has the terminal.

mod draw;
pub(super) mod terminal;

use std::collections::VecDeque;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Format;
use super::events::EventLine;
use super::screen::{Mark, refused, without_colours};
use super::view::{Reference, Scene, Seen};

/// How many messages and lines of logs are kept.
const KEPT: usize = 1000;
/// How far a page goes.
const PAGE: usize = 10;

#[derive(Clone, Debug)]
struct Message {
    mark: Mark,
    text: String,
}

/// What is shown beneath the objects.
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

/// Which part the arrow keys move in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Focus {
    Objects,
    Pane,
}

/// One object in full.
#[derive(Debug)]
struct Opened {
    title: String,
    reference: Reference,
    lines: Vec<String>,
    /// The first line that is shown.
    offset: usize,
}

/// What a key asks of the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Quit,
    /// Read the object that is open.
    Read(Reference),
}

/// All that is shown, and where the reader is.
#[derive(Debug)]
pub(super) struct Interface {
    /// What runs, and where.
    title: String,
    scene: Scene,
    messages: VecDeque<Message>,
    log: VecDeque<String>,
    /// The path of titles of the object that the cursor is at.
    selected: Option<String>,
    filter: String,
    /// Whether keys go into the filter.
    is_typing: bool,
    /// Whether objects that are ready are left out.
    only_failing: bool,
    pane: Pane,
    focus: Focus,
    /// How many lines the pane is scrolled back from its end.
    back: usize,
    opened: Option<Opened>,
    /// Whether the open object is to be read again.
    is_outdated: bool,
    shows_help: bool,
}

/// An object in the tree.
#[derive(Debug)]
struct Row<'a> {
    path: String,
    /// The lines that lead to it.
    branch: String,
    object: &'a Seen,
}

impl Interface {
    /// The interface, if the format is [`Format::Screen`].
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
            // Until there are objects, the steps of the start are shown.
            pane: Pane::Messages,
            focus: Focus::Objects,
            back: 0,
            opened: None,
            is_outdated: false,
            shows_help: false,
        }
    }

    /// Says what runs, and where.
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

    /// The messages, for a terminal that this interface has left.
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

    /// The open object, if it may have changed since it was read.
    pub(super) fn take_outdated(&mut self) -> Action {
        let is_outdated = std::mem::take(&mut self.is_outdated);
        match &self.opened {
            Some(opened) if is_outdated => Action::Read(opened.reference.clone()),
            _ => Action::None,
        }
    }

    /// Fills the open object, if it still is the one that was read.
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

    /// What a key does.
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
        // What is gone cannot be read.
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
            // Backwards from the end, which is where the latest is.
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

    /// The objects as they are shown.
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

    /// Whether an object fits the filter, or one that belongs to it does.
    fn is_shown(&self, object: &Seen, filter: &str) -> bool {
        let texts = [&object.title, &object.state, &object.detail];
        let fits = filter.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(filter));
        let fits = fits && !(self.only_failing && object.ready);
        fits || object.children.iter().any(|child| self.is_shown(child, filter))
    }

    /// The row that the cursor is at.
    fn cursor(&self, rows: &[Row<'_>]) -> usize {
        let selected = self.selected.as_deref();
        rows.iter().position(|row| Some(row.path.as_str()) == selected).unwrap_or(0)
    }

    fn selection(&self) -> Option<&Seen> {
        let rows = self.rows();
        let cursor = self.cursor(&rows);
        rows.get(cursor).map(|row| row.object)
    }

    /// What is wrong, and where: what the operator may not do, objects that are not ready, warnings, and failures of this program.
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

/// An object that is not ready, unless one that belongs to it says why.
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

/// Where a key leads from a line, where there are lines up to `last`.
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
