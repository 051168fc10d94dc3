//! Captures panics of the simulated operator. Each run has its own thread, which identifies its panics.

use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    static CAUGHT: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Starts recording this thread's panics silently. Other threads' panics go to the previous hook.
pub(crate) fn record() {
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let caught = CAUGHT.try_with(|caught| {
                let Ok(mut caught) = caught.try_borrow_mut() else { return false };
                let Some(list) = caught.as_mut() else { return false };
                let place = info.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
                let message = info.payload_as_str().unwrap_or("a value that is not a string");
                list.push(format!("{message}{}", place.unwrap_or_default()));
                true
            });
            if caught != Ok(true) {
                previous(info);
            }
        }));
    });
    CAUGHT.with_borrow_mut(|caught| *caught = Some(Vec::new()));
}

/// Returns the panics since [`record`].
pub(crate) fn take() -> Vec<String> {
    CAUGHT.with_borrow_mut(Option::take).unwrap_or_default()
}
