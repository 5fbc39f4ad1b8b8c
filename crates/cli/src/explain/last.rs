//! `converb explain --last`: what failed last in this user's programs, newest first.

use super::order::causes_first;
use super::{STATUSES, cause, check};
use crate::failure::Failure;
use crate::output::{print, print_json};
use converb::iba::Side;
use converb::{CompletionKind, FailureRecord};
use converb_agent::protocol::FailureEntry;
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Prints the newest `count` failures.
pub(crate) fn show(count: usize, json: bool) -> Result<(), Failure> {
    let failures = converb_agent::failures().map_err(|error| Failure::new(error.to_string()))?;
    let has_agent = failures.is_some();
    let failures = causes_first(failures.unwrap_or_default());
    let some = &failures[..failures.len().min(count)];
    if json {
        let all: Vec<Value> = some.iter().map(as_json).collect();
        return print_json(&json!({ "failures": all }));
    }
    if !has_agent {
        return print(
            "no agent runs in this network namespace: nothing has failed since one did. (It ends \
             60 seconds\nafter the last program, and what it knew with it.)\n",
        );
    }
    if some.is_empty() {
        return print("nothing has failed since the agent of this network namespace started\n");
    }
    let text: Vec<String> = some.iter().map(in_words).collect();
    print(&text.join("\n"))
}

fn in_words(entry: &FailureEntry) -> String {
    let program = entry.program.as_str();
    let Some(record) = FailureRecord::from_words(&entry.words) else {
        return format!(
            "{program} (pid {}): something that this release of converb does not know, for the \
             program used another one\n",
            entry.pid
        );
    };
    let failure = &record.failure;
    let status = &STATUSES[failure.status as usize];
    let mut text = format!(
        "{}  {program} (pid {}), {} QPN {:#x}: ",
        time(record.when),
        entry.pid,
        record.device,
        record.qpn.value()
    );
    text += &if failure.has_completion {
        format!(
            "{} {:#x} ended with IBV_WC_{} ({})\n",
            operation(failure.kind),
            failure.wr_id,
            status.name,
            failure.status as u32
        )
    } else if failure.side == Side::Receive {
        format!("refused a peer's request; there it is IBV_WC_{}\n", status.name)
    } else {
        "failed\n".to_owned()
    };
    text += &format!("  cause       {}\n", cause::sentence(failure));
    if failure.count > 1 {
        text += &format!("  how often   {}, of which this is the last\n", failure.count);
    }
    if let Some(packet) = cause::packet(failure) {
        text += &format!("  packet      {packet}\n");
    }
    let number = failure.cause.number();
    if let Some(about) = check::text(number) {
        text += &format!("  what to do  {}\n", about.advice);
    }
    text
}

/// Fields are only ever added.
fn as_json(entry: &FailureEntry) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    add("pid", json!(entry.pid));
    add("program", json!(entry.program.as_str()));
    let Some(record) = FailureRecord::from_words(&entry.words) else {
        add("is_known", json!(false));
        return Value::Object(fields);
    };
    let failure = &record.failure;
    let since = record.when.duration_since(UNIX_EPOCH).unwrap_or_default();
    let numbers: Map<String, Value> = failure
        .cause
        .named_numbers()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    add("is_known", json!(true));
    add("time_ns", json!(since.as_nanos() as u64));
    add("time", json!(time(record.when)));
    add("count", json!(failure.count));
    add("device", json!(record.device));
    add("qpn", json!(record.qpn.value()));
    add("has_completion", json!(failure.has_completion));
    add("wr_id", json!(failure.has_completion.then_some(failure.wr_id)));
    add("operation", json!(failure.has_completion.then(|| operation(failure.kind))));
    add("status", json!(failure.status as u32));
    add("status_name", json!(format!("IBV_WC_{}", STATUSES[failure.status as usize].name)));
    add("side", json!(if failure.side == Side::Send { "requester" } else { "responder" }));
    add("vendor_err", json!(failure.cause.number()));
    add("cause", json!(failure.cause.name()));
    add("numbers", Value::Object(numbers));
    add("explanation", json!(cause::sentence(failure)));
    add("advice", json!(check::text(failure.cause.number()).map(|text| text.advice)));
    add("psn", json!(failure.psn.map(|psn| psn.value())));
    add("opcode", json!(failure.opcode.map(|opcode| opcode.to_string())));
    add("peer_qpn", json!(failure.peer.value()));
    add("peer_address", json!(cause::address(&failure.address)));
    Value::Object(fields)
}

fn operation(kind: CompletionKind) -> &'static str {
    match kind {
        CompletionKind::Send => "SEND",
        CompletionKind::Write => "WRITE",
        CompletionKind::Read => "READ",
        CompletionKind::CompareAndSwap => "compare-and-swap",
        CompletionKind::FetchAndAdd => "fetch-and-add",
        CompletionKind::BindWindow => "bind",
        CompletionKind::LocalInvalidate => "invalidate",
        CompletionKind::Receive => "receive",
        CompletionKind::ReceiveWriteWithImmediate => "receive of a WRITE's immediate data",
    }
}

/// The moment in UTC, to the millisecond (days by Howard Hinnant's `civil_from_days`).
fn time(when: SystemTime) -> String {
    let since = when.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:03}Z",
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments_are_written_as_dates() {
        let at =
            |seconds, millis: u32| time(UNIX_EPOCH + Duration::new(seconds, millis * 1_000_000));
        assert_eq!(at(0, 0), "1970-01-01 00:00:00.000Z");
        assert_eq!(at(951_782_400, 5), "2000-02-29 00:00:00.005Z");
        assert_eq!(at(1_798_761_599, 999), "2026-12-31 23:59:59.999Z");
    }

    #[test]
    fn what_a_later_release_wrote_is_not_guessed_at() {
        let entry = FailureEntry { pid: 4, program: Default::default(), words: [9; 20] };
        assert!(in_words(&entry).contains("does not know"));
        assert_eq!(as_json(&entry)["is_known"], false);
    }
}
