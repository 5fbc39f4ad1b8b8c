//! What can be typed, and the help that teaches it.

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, value_parser};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;

/// RDMA without the NIC: run RDMA programs on machines that have no RDMA hardware.
#[derive(Debug, Parser)]
#[command(name = "converb", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// What the words of a command line say, the first of which is the command's own name.
    ///
    /// # Errors
    /// They are wrong, or ask for help.
    pub(crate) fn of_command_line(
        words: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        let arguments = Self::try_parse_from(&words)?;
        if let Command::Run(run) = &arguments.command
            && let Some(option) = run.taken_for_program(&words)
        {
            let text = format!(
                "`converb run` has no option `{0}`; a program of that name follows two dashes: \
                 `converb run -- {0}`\n\n`converb run --help` lists the options",
                option.display()
            );
            return Err(Self::command().error(ErrorKind::UnknownArgument, text));
        }
        Ok(arguments)
    }
}

const EXAMPLES: &str = "\
Try it on one machine, in two terminals:
  converb run ib_write_bw
  converb run ib_write_bw 127.0.0.1

No root, no kernel module and no RDMA hardware are needed. Packets are RoCEv2, UDP port 4791.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program on Converb's devices
    Run(Run),
    /// List the devices of this network namespace
    #[command(after_help = DEVICES_EXAMPLES)]
    Devices {
        /// Show all attributes, GIDs and counters
        #[arg(short, long)]
        verbose: bool,
        /// Print JSON for programs
        #[arg(long)]
        json: bool,
    },
    /// Explain a completion status, an event or a vendor_err, or what went wrong last
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain {
        /// A status or event by number, name or wording, or a vendor_err, or several; without them
        /// all statuses
        #[arg(value_name = "WORD", conflicts_with = "last")]
        words: Vec<String>,
        /// Show the last failures of your programs in this network namespace, newest first, and
        /// what was flushed behind its cause; the agent keeps 64
        #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10",
              value_parser = value_parser!(u32).range(1..))]
        last: Option<u32>,
        /// Print JSON for programs
        #[arg(long)]
        json: bool,
    },
    /// Look at the agent, the process that owns the RoCEv2 port
    #[command(subcommand, long_about = AGENT, after_help = AGENT_EXAMPLES)]
    Agent(AgentCommand),
    /// Print what a shell needs to complete this command's words
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

const DEVICES_EXAMPLES: &str = "\
Examples:
  converb devices                  interfaces, state, MTU and addresses
  converb devices -v               also GIDs, and counters of packets, drops and retransmissions
  converb devices --json | jq '.devices[].counters.ack_timeouts'

Each network interface that is up is a device. If there is none: ip link set lo up";

const AGENT_EXAMPLES: &str = "\
Examples:
  converb agent status             who owns the port, and which programs use it
  converb agent stop               ends it, unless programs use it
  converb agent stop --force       even then; they go on, and start a successor when needed";

const STATUS_EXAMPLES: &str = "\
Examples:
  converb agent status
  converb agent status --json | jq '.members[].program'";

const STOP_EXAMPLES: &str = "\
Examples:
  converb agent stop
  converb agent stop --force";

const SERVE_EXAMPLES: &str = "\
Examples:
  converb agent serve                                in the foreground, until it was idle for 60 s
  CONVERB_AGENT_IDLE_SECONDS=3600 converb agent serve &";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  converb completions bash > ~/.local/share/bash-completion/completions/converb
  converb completions zsh > ~/.zfunc/_converb
  converb completions fish > ~/.config/fish/completions/converb.fish

`make install` puts them into the usual places under PREFIX.";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  converb explain                            all completion statuses
  converb explain 12                         one of them, by number
  converb explain IBV_WC_RETRY_EXC_ERR       or by name
  converb explain transport retry counter exceeded
  converb explain IBV_EVENT_QP_FATAL         an asynchronous event
  converb explain 0x204                      the vendor_err of a completion
  converb explain --last                     what went wrong last, and why
  converb explain --last 1 --json";

const AGENT: &str = "\
Look at the agent, the process that owns the RoCEv2 port

There is one agent in each network namespace. It starts by itself when the first program needs it,
gives every program its share of UDP port 4791, counts packets, and ends 60 seconds after the last
program. Programs go on without it: when it is killed, one of them starts a successor.";

/// Run a program on Converb's devices
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// How packets travel to programs on this machine
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    pub(crate) transport: Transport,

    /// Name of the first device, for programs that look for a name: `mlx5_0` gives mlx5_0, mlx5_1
    /// and so on, `mlx5_` gives mlx5_eth0 and mlx5_lo
    #[arg(long, value_name = "NAME", value_parser = device_name)]
    pub(crate) device_name: Option<String>,

    /// Lose, double, damage, delay or reorder packets on purpose: terms separated by commas, such
    /// as drop=1%,dup=0.5%,reorder=1%,corrupt=0.1%,delay=2ms or delay=1ms..5ms. With `tx:` or
    /// `rx:` before a term, only what the program sends or receives. `seed=7` decides the same for
    /// the same packets
    #[arg(long, value_name = "SPEC", value_parser = faults)]
    pub(crate) fault: Option<String>,

    /// Write all packets that the program sends and receives to this pcapng file, for Wireshark
    /// or tshark, with a comment on those that were dropped
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true,
          value_names = ["PROGRAM", "ARGS"])]
    pub(crate) command: Vec<OsString>,
}

impl Run {
    /// The program's name, if it looks like an option and no two dashes say that it is none.
    fn taken_for_program(&self, words: &[OsString]) -> Option<&OsString> {
        let name = self.command.first()?;
        let before = words.len().checked_sub(self.command.len() + 1)?;
        let is_meant = words[before] == "--";
        (!is_meant && name.as_encoded_bytes().starts_with(b"-")).then_some(name)
    }
}

const RUN_EXAMPLES: &str = "\
Examples:
  converb run ibv_devices
  converb run ib_write_bw -d roce_lo
  converb run --transport wire -- ib_send_lat --ib-port 1 127.0.0.1
  converb run --capture write.pcapng ib_write_bw -n 100 127.0.0.1
  converb run --fault drop=1%,rx:delay=2ms,seed=7 ib_read_bw 127.0.0.1

The program is told where to find Converb's libibverbs.so.1 (LD_LIBRARY_PATH, LD_PRELOAD); so are
the programs that it starts. Exit status and signals are the program's own.";

/// The text, if a device can have it for a name: it is a folder's in `/sys`, and fills a field of 64
/// bytes with the name of its interface.
fn device_name(text: &str) -> Result<String, String> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    if text.is_empty() || text.len() > DEVICE_NAME_MAX || !text.chars().all(is_good) {
        return Err(format!(
            "a device's name has up to {DEVICE_NAME_MAX} letters, digits, `_`, `-` and `.`"
        ));
    }
    Ok(text.to_owned())
}

const DEVICE_NAME_MAX: usize = 40;

/// The text, if it names faults.
fn faults(text: &str) -> Result<String, converb::InvalidFaults> {
    text.parse::<converb::Faults>().map(|_| text.to_owned())
}

/// How packets travel to programs on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// The fastest way there is
    Auto,
    /// RoCEv2 packets over UDP, even to this machine
    Wire,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Be the agent, in the foreground; started by programs when they need it
    #[command(after_help = SERVE_EXAMPLES)]
    Serve {
        /// Which descriptors the program that starts the agent has left open for it
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Show the agent and the programs that use it
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        /// Print JSON for programs
        #[arg(long)]
        json: bool,
    },
    /// End the agent; refused while programs use it
    #[command(after_help = STOP_EXAMPLES)]
    Stop {
        /// End it even so: one of the programs will start a successor
        #[arg(long)]
        force: bool,
        /// Print JSON for programs
        #[arg(long)]
        json: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &[&str]) -> Run {
        match Arguments::try_parse_from(line).unwrap().command {
            Command::Run(run) => run,
            other => panic!("{other:?} is not a run"),
        }
    }

    #[test]
    fn options_of_the_program_are_left_to_it() {
        let given = run(&["converb", "run", "ib_write_bw", "-d", "roce_lo", "--transport", "x"]);
        assert_eq!(given.command, ["ib_write_bw", "-d", "roce_lo", "--transport", "x"]);
        assert_eq!(given.transport, Transport::Auto);
    }

    #[test]
    fn two_dashes_end_our_options() {
        let given = run(&["converb", "run", "--transport", "wire", "--", "prog", "--", "-x"]);
        assert_eq!(given.command, ["prog", "--", "-x"]);
        assert_eq!(given.transport, Transport::Wire);
    }

    #[test]
    fn faults_are_read_before_the_program_runs() {
        let given = run(&["converb", "run", "--fault", "drop=1%,seed=7", "prog"]);
        assert_eq!(given.fault.as_deref(), Some("drop=1%,seed=7"));
        let wrong = Arguments::try_parse_from(["converb", "run", "--fault", "drop=2", "prog"]);
        assert!(wrong.unwrap_err().to_string().contains("percent"));
    }

    fn refused(line: &[&str]) -> String {
        let words = line.iter().map(OsString::from);
        Arguments::of_command_line(words).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_option_is_no_program() {
        for line in [
            &["converb", "run", "--bogus", "prog"][..],
            &["converb", "run", "-x"],
            &["converb", "run", "--transport", "wire", "--device", "mlx5_0", "prog"],
        ] {
            assert!(refused(line).contains("has no option"), "{line:?}");
        }
        for line in [
            &["converb", "run", "--", "--bogus", "prog"][..],
            &["converb", "run", "prog", "--bogus"],
            &["converb", "run", "--transport", "wire", "prog", "--", "-x"],
        ] {
            let words = line.iter().map(OsString::from);
            assert!(Arguments::of_command_line(words).is_ok(), "{line:?}");
        }
    }

    #[test]
    fn a_device_has_one_name() {
        let twice = ["converb", "run", "--device-name", "a", "--device-name", "b", "prog"];
        assert!(refused(&twice).contains("multiple times"), "{}", refused(&twice));
        // The second is the program's own.
        run(&["converb", "run", "--device-name", "a", "prog", "--device-name", "b"]);
        for bad in ["", "../../x", "a\nb", "a b", &"x".repeat(41)] {
            let refusal = refused(&["converb", "run", "--device-name", bad, "prog"]);
            assert!(refusal.contains("device"), "{refusal}");
        }
        run(&["converb", "run", "--device-name", "mlx5_0", "prog"]);
    }

    #[test]
    fn the_usage_names_the_command() {
        let refusal = refused(&["converb", "run", "--bogus", "prog"]);
        assert!(!refusal.contains("converb-cli"), "{refusal}");
    }

    #[test]
    fn every_command_teaches_by_example() {
        fn look(command: &clap::Command) {
            if command.get_name() != "help" {
                let help = command.get_after_help().map(ToString::to_string);
                assert!(help.is_some_and(|help| help.contains("converb ")), "{command}");
            }
            command.get_subcommands().for_each(look);
        }
        look(&Arguments::command());
    }

    #[test]
    fn last_takes_a_number_or_none() {
        let last = |line: &[&str]| match Arguments::try_parse_from(line).unwrap().command {
            Command::Explain { last, .. } => last,
            other => panic!("{other:?} explains nothing"),
        };
        assert_eq!(last(&["converb", "explain", "--last"]), Some(10));
        assert_eq!(last(&["converb", "explain", "--last", "3", "--json"]), Some(3));
        assert_eq!(last(&["converb", "explain", "12"]), None);
        for number in ["0", "-1", "x"] {
            refused(&["converb", "explain", "--last", number]);
        }
    }

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }
}
