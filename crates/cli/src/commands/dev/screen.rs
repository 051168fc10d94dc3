//! Output of `steer dev`: the terminal interface, a live view below the log, or log lines only.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::Format;
use super::events::EventLine;
use super::interface::Interface;
use super::view::{Denied, Scene, Seen};
use crate::failure::Failure;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Yellow.on_default();
const QUIET: Style = AnsiColor::BrightBlack.on_default();

/// Number of events in the live view.
const EVENTS: usize = 5;
/// Number of operator log lines in the live view.
const LOG: usize = 5;
/// Maximum length of an event or a denied request; longer ones are truncated.
const WIDTH: usize = 150;
/// Disables line wrapping: wrapped lines would take more rows than are erased later.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Something was completed.
    Done,
    /// Something that takes time was started.
    Doing,
    /// Output of another program, or a difference between releases.
    Output,
    /// Something went wrong.
    Error,
}

/// The output of the view.
pub(super) struct Screen {
    format: Format,
    /// The last frame.
    last: String,
    /// The last reported state and detail of each object.
    said: BTreeMap<String, (String, String)>,
    /// The events and denied requests already shown.
    shown: BTreeSet<String>,
    /// Whether hints were shown.
    hinted: bool,
    /// The last released manifest of each object.
    released: BTreeMap<String, String>,
    /// The last lines of the operator's log.
    log: VecDeque<String>,
    /// The terminal interface, for [`Format::Screen`].
    pub(super) interface: Option<Interface>,
    /// Notified when the interface must be redrawn.
    pub(super) changed: Arc<Notify>,
}

impl Screen {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            last: String::new(),
            said: BTreeMap::new(),
            shown: BTreeSet::new(),
            hinted: false,
            released: BTreeMap::new(),
            log: VecDeque::new(),
            interface: Interface::of(format),
            changed: Arc::default(),
        }
    }

    /// Whether lines of programs may have colours.
    pub(super) fn is_in_colour(&self) -> bool {
        self.format == Format::Live
    }

    /// Reports that something was completed.
    pub(super) fn say(&mut self, text: &str) {
        self.above(Mark::Done, &in_one_line(text), || json!({ "done": text }));
    }

    /// Reports that something that takes time was started.
    pub(super) fn doing(&mut self, text: &str) {
        self.above(Mark::Doing, &in_one_line(text), || json!({ "doing": text }));
    }

    /// Shows a line of a helper program's output.
    pub(super) fn aside(&mut self, line: &str) {
        self.above(Mark::Output, line, || json!({ "output": line }));
    }

    /// Reports a failure that does not end the command.
    pub(super) fn failure(&mut self, failure: &Failure) {
        let text = failure.draw();
        let text = text.trim_end().replace('\n', "\n   ");
        self.above(Mark::Error, &text, || json!({ "error": failure.message() }));
    }

    /// Shows a line of the operator's log.
    pub(super) fn log(&mut self, line: &str) {
        if let Some(interface) = &mut self.interface {
            interface.log(line);
            self.changed.notify_one();
            return;
        }
        if self.format == Format::Live {
            self.log.push_back(line.to_owned());
            if self.log.len() > LOG {
                self.log.pop_front();
            }
            return;
        }
        let text = format!("{QUIET}operator{QUIET:#} {}", in_one_line(line));
        self.above(Mark::Output, &text, || json!({ "log": line }));
    }

    /// Writes permanent lines, above the live view, which is redrawn below them.
    fn above(&mut self, mark: Mark, text: &str, json: impl FnOnce() -> Value) {
        if let Some(interface) = &mut self.interface {
            interface.message(mark, text);
            self.changed.notify_one();
            return;
        }
        let text = match mark {
            Mark::Done => format!(" {GOOD}✓{GOOD:#} {text}"),
            Mark::Doing => format!(" {QUIET}⋯{QUIET:#} {text}"),
            Mark::Output => format!("   {text}"),
            Mark::Error => format!(" {BAD}✗{BAD:#} {text}"),
        };
        let mut out = anstream::stdout();
        let _ = match self.format {
            Format::Json => writeln!(out, "{}", json()),
            Format::Plain => writeln!(out, "{text}"),
            Format::Live | Format::Screen => {
                let erase = self.erase();
                let picture = self.last.trim_end_matches('\n').to_owned();
                let below =
                    if picture.is_empty() { String::new() } else { format!("{NO_WRAP}{picture}{WRAP}\n") };
                write!(out, "{erase}{text}\n{below}")
            }
        };
        let _ = out.flush();
    }

    /// Returns the escape sequence that erases the last frame.
    fn erase(&self) -> String {
        let lines = self.last.lines().count();
        if lines > 0 { format!("\x1b[{lines}A\x1b[J") } else { String::new() }
    }

    /// Shows the view, unless it is unchanged.
    pub(super) fn show(&mut self, scene: &Scene) {
        self.show_differences(scene);
        match self.format {
            Format::Screen => {
                if let Some(interface) = &mut self.interface {
                    interface.show(scene);
                }
                self.changed.notify_one();
            }
            Format::Live => self.draw(scene),
            Format::Plain | Format::Json => self.tell_all(scene),
        }
    }

    /// Prints the last frame.
    pub(super) fn finish(&self, scene: &Scene, spent: Duration) {
        match self.format {
            Format::Live | Format::Screen => {}
            Format::Plain => {
                let _ = write!(anstream::stdout(), "\n{}", picture(&scene.objects));
            }
            Format::Json => return,
        }
        let seconds = spent.as_secs_f64();
        let _ = writeln!(anstream::stdout(), "\n ready after {seconds:.1} s, from nothing");
    }

    /// Prints hints once as log lines; in the live view they are part of the frame.
    pub(super) fn hint(&mut self, scene: &Scene) {
        if self.format == Format::Plain && !self.hinted {
            self.hinted = true;
            let _ = writeln!(anstream::stdout(), "{}", tries(&scene.objects).trim_end_matches('\n'));
        }
    }

    /// Shows the differences between the current and the previous release of each object.
    fn show_differences(&mut self, scene: &Scene) {
        for object in &scene.objects {
            let Some(manifest) = &object.manifest else { continue };
            let Some(before) = self.released.insert(object.title.clone(), manifest.clone()) else { continue };
            for line in differences(&before, manifest) {
                let title = &object.title;
                self.above(Mark::Output, &in_one_line(&line), || json!({ "object": title, "diff": line }));
            }
        }
    }

    fn tell_all(&mut self, scene: &Scene) {
        let mut current = BTreeMap::new();
        for object in &scene.objects {
            self.object_line(object, &mut current);
        }
        let gone: Vec<String> =
            self.said.keys().filter(|title| !current.contains_key(*title)).cloned().collect();
        for title in gone {
            self.line(&title, "gone", "");
        }
        self.said = current;
        for event in &scene.events {
            if self.shown.insert(event.key.clone()) {
                self.event(event);
            }
        }
        for denied in &scene.denied {
            if self.shown.insert(denied.access.clone()) {
                self.refusal(denied);
            }
        }
    }

    fn object_line(&self, object: &Seen, current: &mut BTreeMap<String, (String, String)>) {
        let now = (object.state.clone(), object.detail.clone());
        if self.said.get(&object.title) != Some(&now) {
            self.line(&object.title, &now.0, &now.1);
        }
        current.insert(object.title.clone(), now);
        for child in &object.children {
            self.object_line(child, current);
        }
    }

    fn line(&self, title: &str, state: &str, detail: &str) {
        let mut out = anstream::stdout();
        let _ = if self.format == Format::Json {
            writeln!(out, "{}", json!({ "object": title, "state": state, "detail": detail }))
        } else {
            let text = format!("{title:<44} {state:<12} {detail}");
            writeln!(out, "{}", in_one_line(text.trim_end()))
        };
    }

    fn event(&self, event: &EventLine) {
        let EventLine { title, reason, note, warning, .. } = event;
        let mut out = anstream::stdout();
        let _ = if self.format == Format::Json {
            let kind = if *warning { "Warning" } else { "Normal" };
            writeln!(out, "{}", json!({ "object": title, "event": reason, "type": kind, "note": note }))
        } else {
            writeln!(out, "{}", in_one_line(&format!("{title:<44} event        {reason}: {note}")))
        };
    }

    fn refusal(&self, denied: &Denied) {
        let mut out = anstream::stdout();
        let _ = if self.format == Format::Json {
            writeln!(out, "{}", json!({ "denied": denied.access }))
        } else {
            writeln!(out, " ! {}", in_one_line(&refused(denied)))
        };
    }

    fn draw(&mut self, scene: &Scene) {
        if let Some(frame) = self.frame(scene) {
            let _ = anstream::stdout().write_all(frame.as_bytes());
        }
    }

    /// Returns the output that replaces the last frame; `None` if it is unchanged.
    fn frame(&mut self, scene: &Scene) -> Option<String> {
        let mut picture = format!("\n{}", picture(&scene.objects));
        picture.push_str(&happenings(scene));
        for (index, line) in self.log.iter().enumerate() {
            let head = if index == 0 { "\n Log   " } else { "       " };
            picture.push_str(&format!("{head} {QUIET}{}{QUIET:#}\n", cut(&without_colours(line))));
        }
        picture.push_str(&tries(&scene.objects));
        if picture == self.last {
            return None;
        }
        let back = self.erase();
        let frame = format!("{back}{NO_WRAP}{}{WRAP}\n", picture.trim_end_matches('\n'));
        self.last = picture;
        Some(frame)
    }
}

/// Replaces control characters, so that text stays in one line and contains no escape sequences.
pub(super) fn in_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Truncates text to one line.
fn cut(text: &str) -> String {
    in_one_line(text).chars().take(WIDTH).collect()
}

/// Removes colours from a line.
pub(super) fn without_colours(line: &str) -> String {
    anstream::adapter::strip_str(line).to_string()
}

pub(super) fn refused(Denied { access, remedy }: &Denied) -> String {
    format!("the operator may not {access}: {remedy}")
}

/// Returns the differences between two manifests, one line per field.
fn differences(before: &str, after: &str) -> Vec<String> {
    if before == after {
        return Vec::new();
    }
    let objects = |manifest: &str| -> BTreeMap<String, Value> {
        let documents = steersman_release::documents(manifest).unwrap_or_default();
        let named = documents.into_iter().map(|object| {
            let part = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            (format!("{}/{}", part("/kind"), part("/metadata/name")), object)
        });
        named.collect()
    };
    let (before, after) = (objects(before), objects(after));
    let mut lines = Vec::new();
    for (title, object) in &after {
        let Some(old) = before.get(title) else {
            lines.push(format!("+ {title}"));
            continue;
        };
        for change in steersman_release::changes(old, object) {
            // Values of Secrets are not shown.
            let text = match title.starts_with("Secret/") {
                true => "(changed)".to_owned(),
                false => change.to_string(),
            };
            lines.push(format!("~ {title}  {}  {text}", change.path));
        }
    }
    lines.extend(before.keys().filter(|title| !after.contains_key(*title)).map(|title| format!("- {title}")));
    lines
}

/// Formats the last events and the denied requests.
fn happenings(scene: &Scene) -> String {
    let mut text = String::new();
    let last = scene.events.len().saturating_sub(EVENTS);
    for (index, EventLine { title, reason, note, warning, .. }) in scene.events.iter().skip(last).enumerate()
    {
        let style = if *warning { BAD } else { QUIET };
        let head = if index == 0 { "\n Events" } else { "       " };
        let line = cut(&format!("{title} {reason}: {note}"));
        text.push_str(&format!("{head} {style}{line}{style:#}\n"));
    }
    for denied in &scene.denied {
        let line = cut(&refused(denied));
        text.push_str(&format!(" {BAD}!{BAD:#} {line}\n"));
    }
    text
}

/// Formats hints for what to try next.
fn tries(objects: &[Seen]) -> String {
    let Some(first) = objects.first() else { return String::new() };
    let Some((kind, name)) = first.title.split_once('/') else { return String::new() };
    let kind = kind.to_lowercase();
    let mut text = format!("\n Try   kubectl get {kind} {name} -o yaml\n");
    if let Some((field, replicas)) = first.replicas {
        let more = replicas.saturating_add(2);
        text.push_str(&format!(
            "       kubectl patch {kind} {name} --type merge -p '{{\"spec\":{{\"{field}\":{more}}}}}'\n"
        ));
    }
    let workload =
        |child: &&Seen| ["Deployment/", "StatefulSet/"].iter().any(|kind| child.title.starts_with(kind));
    if let Some((kind, name)) =
        first.children.iter().find(workload).and_then(|child| child.title.split_once('/'))
    {
        let kind = kind.to_lowercase();
        text.push_str(&format!("       kubectl delete {kind} {name}        (watch it come back)\n"));
    }
    let after = if first.manifest.is_some() { "        (its release is uninstalled)" } else { "" };
    text.push_str(&format!("       kubectl delete {kind} {name}{after}\n"));
    text.push_str("       Ctrl-C stops it.\n");
    text
}

fn picture(objects: &[Seen]) -> String {
    let mut text = String::new();
    for object in objects {
        row(&mut text, " ", &object.title, object);
        branches(&mut text, " ", &object.children);
    }
    text
}

fn branches(text: &mut String, margin: &str, children: &[Seen]) {
    for (index, child) in children.iter().enumerate() {
        let last = index + 1 == children.len();
        let joint = if last { "└─ " } else { "├─ " };
        row(text, margin, &format!("{joint}{}", child.title), child);
        let deeper = format!("{margin}{}", if last { "   " } else { "│  " });
        branches(text, &deeper, &child.children);
    }
}

fn row(text: &mut String, margin: &str, title: &str, object: &Seen) {
    let style = if object.ready { GOOD } else { BAD };
    let width = 44usize.saturating_sub(margin.chars().count());
    let (title, state, detail) =
        (in_one_line(title), in_one_line(&object.state), in_one_line(&object.detail));
    let line = match (state.as_str(), detail.as_str()) {
        ("", "") => format!("{margin}{title}"),
        (state, "") => format!("{margin}{title:<width$} {style}{state}{style:#}"),
        (state, detail) => {
            format!("{margin}{title:<width$} {style}{state:<10}{style:#} {QUIET}{detail}{QUIET:#}")
        }
    };
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(title: &str, replicas: Option<i64>, children: Vec<Seen>) -> Seen {
        let replicas = replicas.map(|count| ("replicaCount", count));
        Seen {
            title: title.into(),
            state: "Ready".into(),
            ready: true,
            replicas,
            children,
            ..Seen::default()
        }
    }

    #[test]
    fn differences_of_releases_name_fields() {
        let map = |text: &str, kind: &str| {
            format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: a\ndata:\n  x: {text}\n")
        };
        assert_eq!(
            differences(&map("one", "ConfigMap"), &map("two", "ConfigMap")),
            ["~ ConfigMap/a  data.x  one → two"]
        );
        assert_eq!(
            differences(&map("one", "Secret"), &map("two", "Secret")),
            ["~ Secret/a  data.x  (changed)"]
        );
        assert_eq!(
            differences(&map("one", "ConfigMap"), &map("one", "Secret")),
            ["+ Secret/a", "- ConfigMap/a"]
        );
        assert!(differences(&map("one", "Secret"), &map("one", "Secret")).is_empty());
    }

    #[test]
    fn a_picture_is_drawn_once_and_in_its_place() {
        let mut screen = Screen::new(Format::Live);
        let mut scene = Scene { objects: vec![seen("Shop/one", None, Vec::new())], ..Scene::default() };
        let first = screen.frame(&scene).unwrap();
        assert!(first.starts_with(NO_WRAP) && first.ends_with(&format!("{WRAP}\n")), "{first:?}");
        assert_eq!(screen.frame(&scene), None);
        scene.objects[0].state = "Failed".into();
        let second = screen.frame(&scene).unwrap();
        let lines = first.lines().count();
        assert!(second.starts_with(&format!("\x1b[{lines}A\x1b[J{NO_WRAP}")), "{second:?}");
        assert_eq!(screen.frame(&scene), None);
    }

    #[test]
    fn what_others_say_stays_in_its_line() {
        let before = Screen::new(Format::Live).frame(&Scene::default()).unwrap();
        let mut object = seen("Shop/one", None, Vec::new());
        object.detail = "first\r\nsecond\x1b[2J".into();
        let scene = Scene {
            objects: vec![object],
            denied: vec![Denied { access: format!("get {}", "x".repeat(500)), remedy: "allow it" }],
            ..Scene::default()
        };
        let frame = Screen::new(Format::Live).frame(&scene).unwrap();
        assert!(frame.contains("first  second [2J"), "{frame:?}");
        assert!(!frame.contains('\r') && !frame.contains("\x1b[2J"), "{frame:?}");
        let tries = tries(&scene.objects).lines().count();
        assert_eq!(frame.lines().count(), before.lines().count() + 2 + tries);
        assert!(frame.lines().all(|line| line.chars().count() < WIDTH + 40), "{frame:?}");
    }

    #[test]
    fn hints_fit_what_there_is() {
        let stateful = seen("StatefulSet/cache-0", None, Vec::new());
        let text = tries(&[seen("Memcached/cache", Some(2), vec![stateful])]);
        assert!(
            text.contains("kubectl patch memcached cache --type merge -p '{\"spec\":{\"replicaCount\":4}}'"),
            "{text}"
        );
        assert!(text.contains("kubectl delete statefulset cache-0 "), "{text}");
        let text = tries(&[seen("Collector/one", None, Vec::new())]);
        assert!(!text.contains("patch") && text.contains("kubectl delete collector one"), "{text}");
    }
}
