//! Log lines: one JSON object each. What goes in holds no content, no path values and no identifiers of people.

use serde::Serialize;

/// Writes one line.
pub fn line(fields: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(fields) {
        worker::console_log!("{text}");
    }
}

/// Writes one line about a fault of the service or its configuration: a constant event name and a bounded text that
/// the caller knows to hold no data of anyone.
pub fn fault(event: &'static str, about: &str) {
    if let Some(text) = notice("error", event, about) {
        worker::console_error!("{text}");
    }
}

/// Writes one line about something the service copes with, such as a database that does not answer.
pub fn warning(event: &'static str, about: &str) {
    if let Some(text) = notice("warning", event, about) {
        worker::console_warn!("{text}");
    }
}

fn notice(level: &'static str, event: &'static str, about: &str) -> Option<String> {
    #[derive(Serialize)]
    struct Notice<'a> {
        level: &'static str,
        event: &'static str,
        about: &'a str,
    }
    let end = about.char_indices().nth(200).map_or(about.len(), |(at, _)| at);
    let about = about.get(..end).unwrap_or_default();
    serde_json::to_string(&Notice { level, event, about }).ok()
}

/// Writes what a request cost the database, the part behind the answer included.
pub fn costs(route: &'static str, trips: u64, rows_written: u64) {
    #[derive(Serialize)]
    struct Line {
        event: &'static str,
        route: &'static str,
        trips: u64,
        rows_written: u64,
    }
    line(&Line {
        event: "costs",
        route,
        trips,
        rows_written,
    });
}
