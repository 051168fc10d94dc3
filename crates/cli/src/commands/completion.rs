//! `steer completion`.

use clap::Args;
use clap_complete::Shell;

use crate::failure::Result;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  source <(steer completion bash)
  steer completion zsh > \"${fpath[1]}/_steer\"
  steer completion fish > ~/.config/fish/completions/steer.fish";

/// Generate the autocompletion script for a shell
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completion {
    /// Shell to generate the script for
    #[arg(value_enum)]
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "steer", &mut script);
        output.push(&String::from_utf8_lossy(&script));
        Ok(())
    }
}
