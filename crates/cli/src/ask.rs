//! Interactive prompts on a terminal. Scripts are never prompted.

use std::io::{self, BufRead, IsTerminal as _, Write};

use crate::failure::{Failure, Result};

/// Number of times an unanswered question is repeated.
const TRIES: usize = 3;

/// Whether prompting is possible: standard input and standard error are a terminal.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Prompts for a value that no flag set.
///
/// The default applies without a terminal and for an empty answer.
pub(crate) fn ask(question: &str, default: Option<&str>) -> Result<Option<String>> {
    if !is_possible() {
        return Ok(default.map(str::to_owned));
    }
    ask_with(&mut io::stdin().lock(), &mut io::stderr(), question, default)
        .map_err(|error| Failure::new(format!("cannot read the answer: {error}")))
}

fn ask_with(
    input: &mut impl BufRead,
    output: &mut impl Write,
    question: &str,
    default: Option<&str>,
) -> io::Result<Option<String>> {
    for _ in 0..TRIES {
        match default.filter(|default| !default.is_empty()) {
            Some(default) => write!(output, "{question} [{default}]: ")?,
            None => write!(output, "{question}: ")?,
        }
        output.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            break;
        }
        match (line.trim(), default) {
            ("", Some(default)) => return Ok(Some(default.to_owned())),
            ("", None) => {}
            (answer, _) => return Ok(Some(answer.to_owned())),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(input: &str, default: Option<&str>) -> (Option<String>, String) {
        let mut output = Vec::new();
        let answer = ask_with(&mut input.as_bytes(), &mut output, "Domain", default).unwrap();
        (answer, String::from_utf8(output).unwrap())
    }

    #[test]
    fn an_empty_answer_takes_the_default() {
        assert_eq!(answered("a.example\n", Some("my.domain")).0.as_deref(), Some("a.example"));
        let (answer, said) = answered("\n", Some("my.domain"));
        assert_eq!((answer.as_deref(), said.as_str()), (Some("my.domain"), "Domain [my.domain]: "));
    }

    #[test]
    fn a_question_without_default_is_repeated() {
        assert_eq!(answered("\n\n b \n", None).0.as_deref(), Some("b"));
        assert_eq!(answered("\n\n\nlate\n", None).0, None);
        assert_eq!(answered("", None).0, None);
    }
}
