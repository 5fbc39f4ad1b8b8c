//! A few seeds in every test run; `make test` plays thousands with the binary.

use converb_sim::{Kind, Subject, Trace, run};

#[test]
fn fifty_seeds_keep_all_promises() {
    let failures: Vec<String> = (0..50)
        .filter_map(|seed| {
            run(seed, None, &Trace::off()).failure.map(|why| format!("seed {seed}: {why}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Seeds that found faults of the driver, the engine or the model once.
#[test]
fn seeds_that_failed_once_keep_all_promises() {
    let seeds: [(Kind, &[u64]); 4] = [
        (
            Kind::Reliable,
            &[417, 541, 999, 1130, 1153, 1181, 1289, 10527, 105_784, 207_103, 314_723],
        ),
        (Kind::Unreliable, &[5, 11, 74, 81, 166]),
        (Kind::Datagram, &[278, 430, 477]),
        (Kind::Shared, &[67, 794, 103_987]),
    ];
    for (kind, seeds) in seeds {
        for &seed in seeds {
            let outcome = run(seed, Some(kind), &Trace::off());
            assert_eq!(outcome.failure, None, "{kind:?} {seed}");
            assert!(outcome.completions > 0, "{kind:?} {seed}");
        }
    }
}

/// What a scenario is meant for happens in it: else a promise about it is kept for nothing.
#[test]
fn every_kind_of_scenario_meets_what_it_is_about() {
    let signs: [(Kind, &[&str]); 6] = [
        (Kind::Reliable, &["READ_RESPONSE", "RnrNak", "RemoteAccessError", "AGAIN", "FLIPPED"]),
        (Kind::Atomic, &["COMPARE_SWAP", "FETCH_ADD", "RemoteInvalidRequest", "INVALIDATE"]),
        (Kind::Unreliable, &["UC_SEND_MIDDLE", "LOST", "LocalProtectionError", "Question"]),
        (Kind::Datagram, &["UD_SEND_ONLY_IMMEDIATE", "LocalLengthError", "LocalQpOperationError"]),
        (Kind::Conversation, &["SEND_ONLY_IMMEDIATE", "ack credit"]),
        (Kind::Shared, &["ReceiveLimitReached", "LastReceiveReached", "RnrNak", "UC_SEND_ONLY"]),
    ];
    for (kind, signs) in signs {
        let traces: String = (0..60)
            .map(|seed| {
                let trace = Trace::on();
                run(seed, Some(kind), &trace);
                trace.text()
            })
            .collect();
        for sign in signs {
            assert!(traces.contains(sign), "{kind:?} never meets {sign}");
        }
    }
}

/// The first seeds, and some that found faults of connection management once.
#[test]
fn connections_keep_all_promises() {
    let once = [14, 28, 50, 67, 107, 146, 417, 8417];
    for seed in (0..50).chain(once) {
        let outcome = Subject::Connections.play(seed, &Trace::off());
        assert_eq!(outcome.failure, None, "seed {seed}");
        assert!(outcome.connections > 0, "seed {seed}");
    }
}

/// Else a promise about it is kept for nothing.
#[test]
fn all_that_can_happen_to_connections_does() {
    let traces: String = (0..60)
        .map(|seed| {
            let trace = Trace::on();
            Subject::Connections.play(seed, &trace);
            trace.text()
        })
        .collect();
    let signs = [
        "LOST",
        "TWICE",
        " MRA ",
        "SIDR_REP",
        " dies",
        "Replied",
        "Ready",
        "Rejected",
        "Unreachable",
        "DisconnectRequested",
        "Disconnected",
        "TimeWaitOver",
        "WrongState",
        "is let go",
        "hears",
        "the queue pair is still in a connection",
        "nobody serves the service ID",
        "None",
    ];
    for sign in signs {
        assert!(traces.contains(sign), "{sign}");
    }
}

#[test]
fn connections_of_the_same_seed_give_the_same_trace() {
    for seed in [0, 5, 8] {
        let traces = [Trace::on(), Trace::on()];
        let outcomes = traces.each_ref().map(|trace| Subject::Connections.play(seed, trace));
        assert_eq!(outcomes[0], outcomes[1], "seed {seed}");
        assert!(traces[0].text() == traces[1].text(), "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 8, 10, 1289] {
        let traces = [Trace::on(), Trace::on()];
        let outcomes = traces.each_ref().map(|trace| run(seed, None, trace));
        assert_eq!(outcomes[0], outcomes[1], "seed {seed}");
        assert!(traces[0].text().len() > 1000, "seed {seed}");
        assert!(traces[0].text() == traces[1].text(), "seed {seed}");
    }
}

/// The acknowledgement of a message may leave behind the program's reply to it.
#[test]
fn in_conversations_some_acknowledgements_wait_for_replies() {
    let is_behind = |seed: u64| {
        let trace = Trace::on();
        run(seed, Some(Kind::Conversation), &trace);
        let text = trace.text();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(" -> ")).collect();
        let way = |line: &str| line.split("  qp").next().map(str::to_owned);
        lines.windows(2).any(|pair| {
            let is_reply = pair[0].contains(" SEND_") && pair[1].contains(" ACKNOWLEDGE ");
            is_reply && way(pair[0]) == way(pair[1])
        })
    };
    assert!((0..20).any(is_behind));
}
