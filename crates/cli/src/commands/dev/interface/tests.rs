use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::commands::dev::view::Denied;

fn seen(title: &str, state: &str, ready: bool, children: Vec<Seen>) -> Seen {
    let (kind, name) = title.split_once('/').unwrap();
    let reference = Reference {
        api_version: "v1".into(),
        kind: kind.into(),
        namespace: "default".into(),
        name: name.into(),
    };
    Seen { title: title.into(), reference, state: state.into(), ready, children, ..Seen::default() }
}

fn scene() -> Scene {
    let pod = Seen { detail: "image not found".into(), ..seen("Pod/web-1", "Pending", false, vec![]) };
    let deployment = seen("Deployment/web", "0/1", false, vec![pod]);
    let service = seen("Service/web", "ClusterIP", true, vec![]);
    let objects = vec![
        seen("Shop/one", "NotReady", false, vec![service, deployment]),
        seen("Shop/two", "Ready", true, vec![]),
    ];
    Scene { objects, ..Scene::default() }
}

fn interface() -> Interface {
    let mut interface = Interface::new("steer dev shop".into());
    interface.show(&scene());
    interface
}

fn press(interface: &mut Interface, keys: &str) -> Action {
    let mut last = Action::None;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            other => KeyCode::Char(other),
        };
        last = interface.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    last
}

/// What is on a terminal of 100 by 24.
fn picture(interface: &Interface) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
    terminal.draw(|frame| interface.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..100).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..24).map(line).collect()
}

fn shown(interface: &Interface) -> Vec<&str> {
    interface.rows().iter().map(|row| row.object.title.as_str()).collect()
}

#[test]
fn objects_are_a_tree() {
    let picture = picture(&interface());
    assert_eq!(picture[0], " steer dev shop");
    assert!(picture[1].starts_with(" Objects (5)"), "{picture:#?}");
    assert!(picture[2].starts_with(" Shop/one") && picture[2].ends_with("NotReady"), "{picture:#?}");
    assert!(picture[3].starts_with(" ├─ Service/web"), "{picture:#?}");
    assert!(picture[5].starts_with("    └─ Pod/web-1"), "{picture:#?}");
    assert!(picture[5].contains("image not found"), "{picture:#?}");
}

#[test]
fn a_filter_keeps_what_leads_to_its_matches() {
    let mut interface = interface();
    press(&mut interface, "/WEB-1");
    assert_eq!(shown(&interface), ["Shop/one", "Deployment/web", "Pod/web-1"]);
    assert!(picture(&interface)[23].starts_with(" /WEB-1"), "the filter is shown as it is typed");
    press(&mut interface, "\n\x1b");
    assert_eq!(shown(&interface).len(), 5, "escape shows all again");
    press(&mut interface, "!");
    assert_eq!(shown(&interface), ["Shop/one", "Deployment/web", "Pod/web-1"]);
}

#[test]
fn the_cursor_stays_at_its_object() {
    let mut interface = interface();
    press(&mut interface, "jj");
    assert_eq!(interface.selection().unwrap().title, "Deployment/web");
    let mut later = scene();
    later.objects[0].children.insert(0, seen("ConfigMap/web", "", true, vec![]));
    interface.show(&later);
    assert_eq!(interface.selection().unwrap().title, "Deployment/web");
    press(&mut interface, "G");
    assert_eq!(interface.selection().unwrap().title, "Shop/two");
    press(&mut interface, "jjg");
    assert_eq!(interface.selection().unwrap().title, "Shop/one");
}

#[test]
fn an_object_is_opened_and_follows_changes() {
    let mut interface = interface();
    let Action::Read(reference) = press(&mut interface, "jjj\n") else { panic!("nothing is read") };
    assert_eq!((reference.kind.as_str(), reference.name.as_str()), ("Pod", "web-1"));
    let text: String = (0..100).map(|line| format!("line {line}\n")).collect();
    interface.fill(&reference, &text);
    press(&mut interface, "j");
    let open = picture(&interface);
    assert!(open[1].starts_with(" Pod/web-1"), "{open:#?}");
    assert_eq!(open[2], " line 1");
    assert_eq!(interface.take_outdated(), Action::None);
    interface.show(&scene());
    assert_eq!(interface.take_outdated(), Action::Read(reference.clone()));
    press(&mut interface, "q");
    assert!(interface.opened.is_none(), "the first q closes the object");
    interface.fill(&reference, "late");
    assert!(interface.opened.is_none());
    assert_eq!(press(&mut interface, "q"), Action::Quit);
}

#[test]
fn problems_name_the_lowest_object_that_fails() {
    let mut interface = interface();
    let mut scene = scene();
    scene.denied.push(Denied { access: "list nodes".into(), remedy: "add it to config/rbac" });
    interface.show(&scene);
    interface.message(Mark::Error, "\x1b[31merror:\x1b[0m the chart does not render");
    let problems = interface.problems();
    assert_eq!(
        problems,
        [
            "the operator may not list nodes: add it to config/rbac",
            "Pod/web-1  Pending image not found",
            "error: the chart does not render",
        ]
    );
    let picture = picture(&interface);
    assert!(picture.iter().any(|line| line.contains("1 Problems (3)")), "{picture:#?}");
    assert!(picture.iter().any(|line| line == " error: the chart does not render"), "{picture:#?}");
}

#[test]
fn a_pane_shows_its_end_until_it_is_scrolled() {
    let mut interface = interface();
    (0..100).for_each(|line| interface.log(&format!("line {line}")));
    press(&mut interface, "3");
    assert!(picture(&interface).iter().any(|line| line == " line 99"));
    press(&mut interface, "\tk");
    let scrolled = picture(&interface);
    assert!(!scrolled.iter().any(|line| line == " line 99"), "{scrolled:#?}");
    assert!(scrolled.iter().any(|line| line == " line 98"), "{scrolled:#?}");
    press(&mut interface, "g");
    assert!(picture(&interface).iter().any(|line| line == " line 0"));
}

#[test]
fn a_name_tells_the_terminal_nothing() {
    let mut interface = Interface::new(String::new());
    interface.show(&Scene {
        objects: vec![Seen { title: "Shop/\x1b[2Jx".into(), ..Seen::default() }],
        ..Scene::default()
    });
    assert!(!picture(&interface).concat().contains('\x1b'));
}
