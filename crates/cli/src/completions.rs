//! `converb completions`: what shells offer for the words of this command.

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output::print;
use clap::CommandFactory;
use clap_complete::{Shell, generate};

/// Prints a shell's script.
pub(crate) fn show(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "converb", &mut script);
    print(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_learns_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            generate(shell, &mut Arguments::command(), "converb", &mut script);
            let script = String::from_utf8(script).unwrap();
            for word in ["run", "devices", "explain", "agent", "completions", "device-name"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
