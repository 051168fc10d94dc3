//! Programs with an outcome that is known without running them: they only exit or wait.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

/// The behavior of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// Runs until it is stopped.
    Waits,
    /// Exits after a time with a code.
    Ends(Option<Duration>, i32),
    /// Can't be predicted.
    Unknown,
}

impl Program {
    /// Returns the program of a container: `true`, `false`, `sleep`, `exit` in a shell, or the `pause` image.
    pub(super) fn of(container: &Container) -> Self {
        let command = container.command.as_deref().unwrap_or_default();
        let arguments = container.args.as_deref().unwrap_or_default();
        let words: Vec<&str> = command.iter().chain(arguments).map(String::as_str).collect();
        if words.is_empty() {
            let image = container.image.as_deref().unwrap_or_default();
            let name = image.rsplit('/').next().unwrap_or_default();
            let name = name.split(['@', ':']).next().unwrap_or_default();
            return if name == "pause" { Self::Waits } else { Self::Unknown };
        }
        // Arguments without a command go to the image's own entrypoint.
        if command.is_empty() {
            return Self::Unknown;
        }
        match words.as_slice() {
            [shell, "-c", script] if matches!(base(shell), "sh" | "bash" | "ash") => {
                Self::simple(&script.split_whitespace().collect::<Vec<_>>(), true)
            }
            words => Self::simple(words, false),
        }
    }

    fn simple(words: &[&str], in_shell: bool) -> Self {
        let Some((program, arguments)) = words.split_first() else { return Self::Unknown };
        match (base(program), arguments) {
            ("true", []) => Self::Ends(None, 0),
            ("false", []) => Self::Ends(None, 1),
            ("sleep", ["infinity" | "inf"]) => Self::Waits,
            ("sleep", [time]) => match time.strip_suffix('s').unwrap_or(time).parse() {
                Ok(seconds) => Self::Ends(Some(Duration::from_secs(seconds)), 0),
                Err(_) => Self::Unknown,
            },
            ("exit", [code]) if in_shell => match code.parse::<u8>() {
                Ok(code) => Self::Ends(None, code.into()),
                Err(_) => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(image: &str, command: &[&str]) -> Program {
        let command = command.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let command = (!command.is_empty()).then_some(command);
        Program::of(&Container { image: Some(image.to_owned()), command, ..Container::default() })
    }

    #[test]
    fn what_only_ends_or_waits_is_known() {
        assert_eq!(runs("registry.k8s.io/pause:3.10", &[]), Program::Waits);
        assert_eq!(runs("busybox", &[]), Program::Unknown);
        assert_eq!(runs("busybox", &["/bin/false"]), Program::Ends(None, 1));
        assert_eq!(runs("busybox", &["sleep", "30"]), Program::Ends(Some(Duration::from_secs(30)), 0));
        assert_eq!(runs("busybox", &["/bin/sh", "-c", "exit 3"]), Program::Ends(None, 3));
        assert_eq!(runs("busybox", &["sh", "-c", "sleep 5; exit 3"]), Program::Unknown);
        assert_eq!(runs("registry.k8s.io/pause:3.10", &["true", "or", "not"]), Program::Unknown);
    }
}
