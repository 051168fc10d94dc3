//! Output of `steer dev`: a screen that is redrawn, or a log of lines.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde_json::json;

use super::Format;
use super::events::EventLine;
use super::view::{Scene, Seen};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Yellow.on_default();
const QUIET: Style = AnsiColor::BrightBlack.on_default();

/// How many events a picture has.
const EVENTS: usize = 5;
/// The most that is said of an event or a refusal; what is longer is cut.
const WIDTH: usize = 150;
/// Lines that do not fit are cut by the terminal: were they wrapped, there would be more of them than are counted.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Where the view is shown.
pub(super) struct Screen {
    format: Format,
    /// The last picture.
    last: String,
    /// What was said last of each object.
    said: BTreeMap<String, (String, String)>,
    /// Which events and refusals were shown.
    shown: BTreeSet<String>,
    /// Whether it was said what to try.
    hinted: bool,
}

impl Screen {
    pub(super) fn new(format: Format) -> Self {
        Self { format, last: String::new(), said: BTreeMap::new(), shown: BTreeSet::new(), hinted: false }
    }

    /// Shows the view, unless it is unchanged.
    pub(super) fn show(&mut self, scene: &Scene) {
        match self.format {
            Format::Live => self.draw(scene),
            Format::Plain | Format::Json => self.tell_all(scene),
        }
    }

    /// The last picture.
    pub(super) fn finish(&self, scene: &Scene, spent: Duration) {
        match self.format {
            Format::Live => {}
            Format::Plain => {
                let _ = write!(anstream::stdout(), "\n{}", picture(&scene.objects));
            }
            Format::Json => return,
        }
        let seconds = spent.as_secs_f64();
        let _ = writeln!(anstream::stdout(), "\n ready after {seconds:.1} s, from nothing");
    }

    /// Says once, line by line, what to try; on a live view that is part of the picture.
    pub(super) fn hint(&mut self, scene: &Scene) {
        if self.format == Format::Plain && !self.hinted {
            self.hinted = true;
            let _ = writeln!(anstream::stdout(), "{}", tries(&scene.objects).trim_end_matches('\n'));
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
            if self.shown.insert(denied.clone()) {
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

    fn refusal(&self, denied: &str) {
        let mut out = anstream::stdout();
        let _ = if self.format == Format::Json {
            writeln!(out, "{}", json!({ "denied": denied }))
        } else {
            writeln!(out, " ! the operator may not {}: add it to config/rbac", in_one_line(denied))
        };
    }

    fn draw(&mut self, scene: &Scene) {
        if let Some(frame) = self.frame(scene) {
            let _ = anstream::stdout().write_all(frame.as_bytes());
        }
    }

    /// What replaces the last picture; nothing if it is as before.
    fn frame(&mut self, scene: &Scene) -> Option<String> {
        let mut picture = format!("\n{}", picture(&scene.objects));
        picture.push_str(&happenings(scene));
        picture.push_str(&tries(&scene.objects));
        if picture == self.last {
            return None;
        }
        let lines = self.last.lines().count();
        let back = if lines > 0 { format!("\x1b[{lines}A\x1b[J") } else { String::new() };
        let frame = format!("{back}{NO_WRAP}{}{WRAP}\n", picture.trim_end_matches('\n'));
        self.last = picture;
        Some(frame)
    }
}

/// A text that neither begins another line nor tells the terminal anything.
fn in_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The beginning of a text, in one line.
fn cut(text: &str) -> String {
    in_one_line(text).chars().take(WIDTH).collect()
}

/// The last events, and what was not allowed.
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
        let line = cut(&format!("the operator may not {denied}: add it to config/rbac"));
        text.push_str(&format!(" {BAD}!{BAD:#} {line}\n"));
    }
    text
}

/// Hints for what to try next.
fn tries(objects: &[Seen]) -> String {
    let Some(first) = objects.first() else { return String::new() };
    let Some((kind, name)) = first.title.split_once('/') else { return String::new() };
    let kind = kind.to_lowercase();
    let mut text = format!("\n Try   kubectl get {kind} {name} -o yaml\n");
    if let Some(replicas) = first.replicas {
        let more = replicas.saturating_add(2);
        text.push_str(&format!(
            "       kubectl patch {kind} {name} --type merge -p '{{\"spec\":{{\"replicaCount\":{more}}}}}'\n"
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
    text.push_str(&format!("       kubectl delete {kind} {name}        (its release is uninstalled)\n"));
    text.push_str("       Ctrl-C ends it.\n");
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
        Seen {
            title: title.into(),
            state: "Ready".into(),
            detail: String::new(),
            ready: true,
            replicas,
            children,
        }
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
            denied: vec![format!("get {}", "x".repeat(500))],
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
