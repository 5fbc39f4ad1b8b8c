//! Rules that can be broken by name, and the proof that each broken one is noticed.

#[cfg(feature = "planted-faults")]
mod possible {
    use crate::{Arguments, play};
    use converb_cm::planted as cm;
    use converb_engine::planted::{self as engine, Planted};
    use converb_sim::Subject;
    use std::process::ExitCode;

    /// A rule of one of the crates.
    #[derive(Clone, Copy)]
    enum Rule {
        Verbs(Planted),
        Connections(cm::Planted),
    }

    impl Rule {
        /// The world in which it must be noticed.
        const fn subject(self) -> Subject {
            match self {
                Self::Verbs(_) => Subject::Verbs(None),
                Self::Connections(_) => Subject::Connections,
            }
        }
    }

    /// The rules that can be broken, by name.
    const RULES: [(&str, Rule); 22] = [
        ("ack-loses-completion", Rule::Verbs(Planted::AckLosesCompletion)),
        ("duplicate-write-runs-twice", Rule::Verbs(Planted::DuplicateWriteRunsTwice)),
        ("bound-unchecked", Rule::Verbs(Planted::BoundUnchecked)),
        ("rnr-retry-uncounted", Rule::Verbs(Planted::RnrRetryUncounted)),
        ("flush-succeeds", Rule::Verbs(Planted::FlushSucceeds)),
        ("lost-wake-up", Rule::Verbs(Planted::LostWakeUp)),
        ("wrong-queue-key-delivered", Rule::Verbs(Planted::WrongQueueKeyDelivered)),
        ("uc-gap-unnoticed", Rule::Verbs(Planted::UcGapUnnoticed)),
        ("limit-event-twice", Rule::Verbs(Planted::LimitEventTwice)),
        ("duplicate-atomic-runs-twice", Rule::Verbs(Planted::DuplicateAtomicRunsTwice)),
        ("immediate-keeps-receive", Rule::Verbs(Planted::ImmediateKeepsReceive)),
        ("fence-ignored", Rule::Verbs(Planted::FenceIgnored)),
        ("duplicate-request", Rule::Connections(cm::Planted::DuplicateRequestTakenForNew)),
        ("lost-ready-unrepeated", Rule::Connections(cm::Planted::LostReadyUnrepeated)),
        ("more-time-ignored", Rule::Connections(cm::Planted::MoreTimeIgnored)),
        ("time-wait-silent", Rule::Connections(cm::Planted::TimeWaitSilent)),
        ("stale-unnoticed", Rule::Connections(cm::Planted::StaleUnnoticed)),
        ("released-tells", Rule::Connections(cm::Planted::ReleasedTells)),
        ("place-kept", Rule::Connections(cm::Planted::PlaceKept)),
        ("deadline-forgotten", Rule::Connections(cm::Planted::DeadlineForgotten)),
        ("late-refusal-ends", Rule::Connections(cm::Planted::LateRefusalEnds)),
        ("refusal-forgotten", Rule::Connections(cm::Planted::RefusalForgotten)),
    ];

    /// Breaks this rule and no other one.
    fn choose(rule: Option<Rule>) {
        engine::choose(if let Some(Rule::Verbs(it)) = rule { Some(it) } else { None });
        cm::choose(if let Some(Rule::Connections(it)) = rule { Some(it) } else { None });
    }

    pub(crate) fn plant(name: Option<&str>) -> Result<(), String> {
        let Some(name) = name else { return Ok(()) };
        match RULES.iter().find(|(known, _)| *known == name) {
            Some((_, rule)) => {
                choose(Some(*rule));
                Ok(())
            }
            None => {
                let names: Vec<&str> = RULES.iter().map(|(known, _)| *known).collect();
                Err(format!("no such rule; there are {}", names.join(", ")))
            }
        }
    }

    pub(crate) fn prove(arguments: &Arguments) -> ExitCode {
        let mut all_found = true;
        for (name, rule) in RULES {
            choose(Some(rule));
            let subjects = arguments.only.unwrap_or(rule.subject());
            let total = play(arguments, &[subjects], true, false);
            match total.failures.iter().min() {
                Some((seed, why)) => println!("{name}: found at seed {seed}: {why}"),
                None => {
                    println!("{name}: NOT FOUND in {} seeds", arguments.seeds);
                    all_found = false;
                }
            }
        }
        choose(None);
        if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(not(feature = "planted-faults"))]
mod possible {
    use crate::Arguments;
    use std::process::ExitCode;

    const HOW: &str = "this build has no planted faults; build it with \
                       `cargo run --release -p converb-sim --features planted-faults`";

    pub(crate) fn plant(name: Option<&str>) -> Result<(), String> {
        name.map_or(Ok(()), |_| Err(HOW.into()))
    }

    pub(crate) fn prove(_: &Arguments) -> ExitCode {
        eprintln!("converb-sim: {HOW}");
        ExitCode::from(2)
    }
}

pub(crate) use possible::{plant, prove};
