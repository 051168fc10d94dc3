//! Controls the terminal while the interface runs.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyEventKind};
use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, DynamicObject};
use ratatui::DefaultTerminal;
use serde_json::{Value, json};
use steersman_release::Kinds;
use tokio::sync::Notify;

use super::super::operators::Board;
use super::super::view::Reference;
use super::Action;
use crate::failure::{Failure, Result};

/// Minimum time between two frames.
const FRAME: Duration = Duration::from_millis(30);

/// A terminal in raw mode with an alternate screen, restored on drop.
pub(in crate::commands::dev) struct Terminal {
    terminal: DefaultTerminal,
    board: Board,
    changed: Arc<Notify>,
}

impl Terminal {
    /// Switches the terminal to the interface of a board.
    pub(in crate::commands::dev) fn enter(board: Board, changed: Arc<Notify>) -> Result<Self> {
        let terminal = ratatui::try_init().map_err(|error| {
            Failure::new(format!("cannot use the terminal: {error}")).help("try `-o plain`")
        })?;
        Ok(Self { terminal, board, changed })
    }

    /// Runs the interface until the user quits.
    pub(in crate::commands::dev) async fn run(&mut self, client: Client) -> Result {
        let kinds = Kinds::new(client.clone());
        let mut events = EventStream::new();
        loop {
            self.draw()?;
            let action = tokio::select! {
                event = events.next() => match event {
                    Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                        self.board.interface(|interface| interface.key(key)).unwrap_or(Action::None)
                    }
                    Some(Ok(_)) => Action::None,
                    Some(Err(error)) => return Err(Failure::new(format!("cannot read the terminal: {error}"))),
                    None => Action::Quit,
                },
                () = self.changed.notified() => {
                    // Wait briefly, so that simultaneous changes are drawn together.
                    tokio::time::sleep(FRAME).await;
                    self.board.interface(super::Interface::take_outdated).unwrap_or(Action::None)
                }
            };
            match action {
                Action::None => {}
                Action::Quit => return Ok(()),
                Action::Read(reference) => {
                    // The cluster is in this process, so this does not delay keys noticeably.
                    let text = read(&client, &kinds, &reference).await;
                    self.board.interface(|interface| interface.fill(&reference, &text));
                }
            }
        }
    }

    fn draw(&mut self) -> Result {
        let terminal = &mut self.terminal;
        let drawn =
            self.board.interface(|interface| terminal.draw(|frame| interface.draw(frame)).map(|_| ()));
        let failed = |error| Failure::new(format!("cannot write to the terminal: {error}"));
        drawn.unwrap_or(Ok(())).map_err(failed)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Returns an object as YAML, or the reason that it can't be read.
async fn read(client: &Client, kinds: &Kinds, reference: &Reference) -> String {
    let Reference { api_version, kind, namespace, name } = reference;
    let found = match kinds.find(api_version, kind).await {
        Ok(found) => found,
        Err(error) => return error.to_string(),
    };
    let api: Api<DynamicObject> = match namespace.is_empty() {
        true => Api::all_with(client.clone(), &found.resource),
        false => Api::namespaced_with(client.clone(), namespace, &found.resource),
    };
    let object = match api.get_opt(name).await {
        Ok(Some(object)) => object,
        Ok(None) => return format!("{kind}/{name} no longer exists"),
        Err(error) => return error.to_string(),
    };
    let mut object = json!(object);
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    conceal(&mut object);
    steersman_yaml::to_string(&object).unwrap_or_else(|error| error.to_string())
}

/// Removes managed fields and the like, and the values of Secrets.
fn conceal(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    if object.get("kind").and_then(Value::as_str) != Some("Secret") {
        return;
    }
    for field in ["data", "stringData"] {
        let values = object.get_mut(field).and_then(Value::as_object_mut);
        for value in values.into_iter().flat_map(serde_json::Map::values_mut) {
            *value = json!("(hidden)");
        }
    }
    // It duplicates the applied object.
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_secret_holds_is_not_shown() {
        let mut secret = json!({
            "kind": "Secret", "data": {"password": "aHVudGVyMg=="}, "stringData": {"token": "hunter3"},
            "metadata": {"managedFields": [], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter4"}},
        });
        conceal(&mut secret);
        let text = secret.to_string();
        assert!(text.contains("password") && text.contains("token"), "{text}");
        for hidden in ["aHVudGVyMg", "hunter", "managedFields"] {
            assert!(!text.contains(hidden), "{text}");
        }
    }
}
