//! `converb explain`: what completion statuses, asynchronous events and causes mean, and what went
//! wrong last.

mod cause;
mod check;
mod events;
mod last;
mod order;
mod statuses;

use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::table::Table;
use converb::COMPLETION_STATUS_WORDING;
use converb::iba::Cause;
use core::ffi::CStr;
use events::EVENTS;
pub(crate) use last::show as last;
use serde_json::{Value, json};
use statuses::STATUSES;
use strsim::levenshtein as distance;

/// What a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Status(usize),
    Event(usize),
    /// A `vendor_err`.
    Cause(u32),
}

/// Explains what `words` name together, or lists all statuses without any.
pub(crate) fn explain(words: &[String], json: bool) -> Result<(), Failure> {
    if words.is_empty() {
        return if json {
            let all: Vec<Value> =
                (0..STATUSES.len()).map(|number| as_json(Subject::Status(number))).collect();
            print_json(&json!({ "statuses": all }))
        } else {
            print(&list())
        };
    }
    let together = words.join(" ");
    if let Some(subject) = find(&together) {
        return if json { print_json(&as_json(subject)) } else { print(&in_words(subject)) };
    }
    // A wording has blanks in it; words that mean something each are several questions.
    let each: Option<Vec<Subject>> = words.iter().map(|word| find(word)).collect();
    let subjects = each.ok_or_else(|| Failure::new(unknown(&together)))?;
    if json {
        let all: Vec<Value> = subjects.into_iter().map(as_json).collect();
        return print_json(&json!({ "explanations": all }));
    }
    let all: Vec<String> = subjects.into_iter().map(in_words).collect();
    print(&all.join("\n"))
}

/// What is said of words that name nothing.
fn unknown(words: &str) -> String {
    let guess = match nearest(words) {
        Some(name) => format!("did you mean {name}? "),
        None => String::new(),
    };
    format!(
        "`{words}` is no completion status, event or vendor_err; {guess}`converb explain` lists \
         the statuses"
    )
}

/// The name of a completion status, as in `infiniband/verbs.h`.
fn status_name(number: u64) -> &'static str {
    STATUSES.get(number as usize).map_or("an unknown status", |text| text.name)
}

/// What `ibv_wc_status_str(3)` says.
fn wording(status: usize) -> &'static str {
    COMPLETION_STATUS_WORDING[status].to_str().expect("it is English")
}

fn is_same(wording: &CStr, words: &str) -> bool {
    wording.to_bytes().eq_ignore_ascii_case(words.as_bytes())
}

/// What a `vendor_err` means, in a few words.
fn cause_name(number: u64) -> &'static str {
    check::text(number as u32).map_or("of an unknown cause", |text| text.meaning)
}

fn find(words: &str) -> Option<Subject> {
    let upper = words.trim().to_ascii_uppercase();
    let number = match upper.strip_prefix("0X") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => upper.parse().ok(),
    };
    if let Some(number) = number {
        return if (number as usize) < STATUSES.len() {
            Some(Subject::Status(number as usize))
        } else {
            check::text(number).map(|_| Subject::Cause(number))
        };
    }
    let status = upper.strip_prefix("IBV_WC_").unwrap_or(&upper);
    let event = upper.strip_prefix("IBV_EVENT_").unwrap_or(&upper);
    let status = STATUSES
        .iter()
        .zip(COMPLETION_STATUS_WORDING)
        .position(|(text, wording)| text.name == status || is_same(wording, &upper));
    let event = || EVENTS.iter().position(|text| text.name == event);
    let cause = || {
        Cause::ALL
            .iter()
            .find(|(_, name)| name.eq_ignore_ascii_case(&upper))
            .map(|(number, _)| *number)
    };
    status
        .map(Subject::Status)
        .or_else(|| event().map(Subject::Event))
        .or_else(|| cause().map(Subject::Cause))
}

/// The name that was probably meant: one that begins with what was typed, contains it, or needs few
/// changes to become it.
fn nearest(words: &str) -> Option<String> {
    let upper = words.trim().to_ascii_uppercase();
    let is_event = upper.starts_with("IBV_EVENT_");
    let bare = upper.strip_prefix("IBV_EVENT_").or(upper.strip_prefix("IBV_WC_"));
    let bare = bare.unwrap_or(&upper).replace([' ', '-'], "_");
    if bare.len() < SHORTEST_GUESS {
        return None;
    }
    let statuses = STATUSES.iter().map(|text| text.name).filter(|_| !is_event);
    let names = || statuses.clone().chain(EVENTS.iter().map(|text| text.name));
    let near = || {
        let (changes, name) = names().map(|name| (distance(&bare, name), name)).min()?;
        (changes <= bare.len() / CHARACTERS_PER_CHANGE).then_some(name)
    };
    names()
        .find(|name| name.starts_with(&bare))
        .or_else(|| names().find(|name| name.contains(&bare)))
        .or_else(near)
        .map(str::to_owned)
}

/// Of fewer characters nothing is guessed.
const SHORTEST_GUESS: usize = 3;
/// One of so many characters may be wrong.
const CHARACTERS_PER_CHANGE: usize = 3;

fn list() -> String {
    let mut table = Table::new(&["NUMBER", "NAME", "NOTICED BY", "MEANING"]);
    for (number, text) in STATUSES.iter().enumerate() {
        let who = text.noticed_by.split([',', '(']).next().unwrap_or_default().trim();
        table.add(vec![
            number.to_string(),
            text.name.to_owned(),
            who.to_owned(),
            text.meaning.split(": ").next().unwrap_or_default().to_owned(),
        ]);
    }
    format!(
        "{table}\n`converb explain NAME` tells causes and what to do, also of events \
         (IBV_EVENT_QP_FATAL) and of\na completion's vendor_err (0x204); `converb explain --last` \
         what went wrong last.\n"
    )
}

fn in_words(subject: Subject) -> String {
    match subject {
        Subject::Status(number) => {
            let text = &STATUSES[number];
            let mut lines = format!(
                "IBV_WC_{} ({number}): {}\n\n  meaning     {}\n  noticed by  {}\n",
                text.name,
                wording(number),
                text.meaning,
                text.noticed_by
            );
            for (place, cause) in text.causes.iter().enumerate() {
                let heading = if place == 0 { "causes" } else { "" };
                lines += &format!("  {heading:10}  - {cause}\n");
            }
            lines + &format!("  what to do  {}\n", text.advice)
        }
        Subject::Event(number) => {
            let text = &EVENTS[number];
            format!(
                "IBV_EVENT_{} ({number}), an asynchronous event\n\n  meaning     {}\n  what to do  \
                 {}\n",
                text.name, text.meaning, text.advice
            )
        }
        Subject::Cause(number) => {
            let text = check::text(number).expect("it was found");
            format!(
                "{}, vendor_err {number:#x} ({number})\n\n  meaning     {}\n  what to do  {}\n",
                text.name, text.meaning, text.advice
            )
        }
    }
}

fn as_json(subject: Subject) -> Value {
    match subject {
        Subject::Status(number) => {
            let text = &STATUSES[number];
            json!({
                "kind": "status",
                "number": number,
                "name": format!("IBV_WC_{}", text.name),
                "wording": wording(number),
                "meaning": text.meaning,
                "noticed_by": text.noticed_by,
                "causes": text.causes,
                "advice": text.advice,
            })
        }
        Subject::Event(number) => {
            let text = &EVENTS[number];
            json!({
                "kind": "event",
                "number": number,
                "name": format!("IBV_EVENT_{}", text.name),
                "meaning": text.meaning,
                "advice": text.advice,
            })
        }
        Subject::Cause(number) => {
            let text = check::text(number).expect("it was found");
            json!({
                "kind": "cause",
                "number": number,
                "name": text.name,
                "meaning": text.meaning,
                "advice": text.advice,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_found_by_number_name_and_wording() {
        for words in [
            "12",
            "RETRY_EXC_ERR",
            "IBV_WC_RETRY_EXC_ERR",
            "ibv_wc_retry_exc_err",
            "transport retry counter exceeded",
        ] {
            assert_eq!(find(words), Some(Subject::Status(12)), "{words}");
        }
        assert_eq!(find("IBV_EVENT_QP_FATAL"), Some(Subject::Event(1)));
        assert_eq!(find("0x204"), Some(Subject::Cause(0x204)));
        assert_eq!(find("516"), Some(Subject::Cause(0x204)));
        assert_eq!(find("24"), None);
    }

    #[test]
    fn what_is_mistyped_is_guessed() {
        for (typed, meant) in [
            ("RETRY_EXEC_ER", "RETRY_EXC_ERR"),
            ("RETRY", "RETRY_EXC_ERR"),
            ("rnr", "RNR_RETRY_EXC_ERR"),
            ("wr flush", "WR_FLUSH_ERR"),
            ("flush", "WR_FLUSH_ERR"),
            ("IBV_EVENT_QP_FATL", "QP_FATAL"),
        ] {
            assert_eq!(nearest(typed).as_deref(), Some(meant), "{typed}");
        }
        for typed in ["", "foo", "E", "99999", "no such thing", "0x"] {
            assert_eq!(nearest(typed), None, "{typed}");
        }
        assert!(unknown("foo").contains("vendor_err; `converb explain` lists"));
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn the_statuses_are_those_of_the_engine() {
        for status in converb::Status::ALL {
            assert!(STATUSES.len() > status as usize);
        }
    }
}
