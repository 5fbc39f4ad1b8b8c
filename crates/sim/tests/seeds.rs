//! A few seeds in every test run; `make test` plays thousands with the binary.

use converb_sim::{Trace, run};

#[test]
fn fifty_seeds_keep_all_promises() {
    let failures: Vec<String> = (0..50)
        .filter_map(|seed| {
            run(seed, &Trace::off()).failure.map(|why| format!("seed {seed}: {why}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Seeds that found faults of the driver, the engine or the model once.
#[test]
fn seeds_that_failed_once_keep_all_promises() {
    for seed in [417, 541, 999, 1130, 1153, 1181, 1289, 10527, 105_784] {
        let outcome = run(seed, &Trace::off());
        assert_eq!(outcome.failure, None, "seed {seed}");
        assert!(outcome.completions > 0, "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 8, 10, 1289] {
        let traces = [Trace::on(), Trace::on()];
        let outcomes = traces.each_ref().map(|trace| run(seed, trace));
        assert_eq!(outcomes[0], outcomes[1], "seed {seed}");
        assert!(traces[0].text().len() > 1000, "seed {seed}");
        assert!(traces[0].text() == traces[1].text(), "seed {seed}");
    }
}
