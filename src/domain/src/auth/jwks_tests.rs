use serde_json::json;

use super::jwks::*;
use super::testing::*;
use crate::time::{Millis, Timestamp};

fn document(pairs: &[(&str, u8)]) -> Vec<u8> {
    let keys: Vec<_> = pairs
        .iter()
        .map(|(kid, number)| p256_pair(*number).named(kid))
        .collect();
    json!({ "keys": keys }).to_string().into_bytes()
}

fn after(ms: i64) -> Timestamp {
    now().plus(Millis::new(ms))
}

fn name(decision: &Decision) -> &'static str {
    match decision {
        Decision::Use(_) => "use",
        Decision::Fetch => "fetch",
        Decision::Wait => "wait",
        Decision::UnknownKid => "unknown",
        Decision::Unavailable => "unavailable",
    }
}

fn ask(cache: &mut JwksCache, kid: &str, at: Timestamp) -> &'static str {
    name(&cache.decide(Some(kid), at))
}

fn loaded(pairs: &[(&str, u8)]) -> JwksCache {
    let mut cache = JwksCache::new();
    assert_eq!(ask(&mut cache, "any", now()), "fetch");
    cache.fetched(&document(pairs), now()).unwrap();
    cache
}

#[test]
fn a_rotated_key_is_accepted_after_one_fetch() {
    let mut cache = loaded(&[("old", 1)]);
    assert_eq!(ask(&mut cache, "old", after(1)), "use");
    let rotated = after(40_000);
    assert_eq!(ask(&mut cache, "new", rotated), "fetch");
    cache.fetched(&document(&[("new", 2)]), rotated).unwrap();
    assert_eq!(ask(&mut cache, "new", rotated), "use");
    assert_eq!(ask(&mut cache, "old", rotated), "unknown", "withdrawn by the upstream");
}

#[test]
fn made_up_kids_cause_one_fetch_per_cooldown() {
    let seed = 14;
    println!("seed {seed}");
    let random = Seeded::new(seed);
    let mut cache = loaded(&[("k", 1)]);
    let (mut fetches, mut unknown) = (Vec::new(), 0);
    for at in 0..1_000 {
        // 1,000 tokens over 100 seconds.
        let at = after(at * 100);
        let kid = format!("{:x}", random.next());
        match ask(&mut cache, &kid, at) {
            "fetch" => {
                fetches.push(at.since(now()).get());
                cache.fetched(&document(&[("k", 1)]), at).unwrap();
            }
            "unknown" => unknown += 1,
            other => panic!("{other}"),
        }
        assert_eq!(ask(&mut cache, "k", at), "use");
    }
    assert_eq!(fetches, [30_000, 60_000, 90_000]);
    assert_eq!(unknown, 997);
}

#[test]
fn known_keys_go_on_counting_while_the_upstream_is_down() {
    let mut cache = loaded(&[("k", 1)]);
    let mut fetches = 0;
    for minute in 1..=24 * 60 {
        let at = after(minute * 60_000);
        if ask(&mut cache, "k", at) == "fetch" {
            fetches += 1;
            cache.failed();
            assert_eq!(ask(&mut cache, "other", at), "unknown");
        }
        assert_eq!(ask(&mut cache, "k", at), "use", "minute {minute}");
    }
    assert_eq!(fetches, 24 * 60 - 9, "tried again every minute from the tenth on");
}

#[test]
fn a_document_that_cannot_be_used_changes_nothing() {
    let mut cache = loaded(&[("k", 1)]);
    let later = after(31_000);
    assert_eq!(ask(&mut cache, "new", later), "fetch");
    assert!(cache.fetched(b"<html>", later).is_err());
    assert_eq!(ask(&mut cache, "k", later), "use");
    assert_eq!(ask(&mut cache, "new", later), "unknown");
}

#[test]
fn others_wait_for_the_first_fetch_and_use_what_they_have_meanwhile() {
    let mut cache = JwksCache::new();
    assert_eq!(ask(&mut cache, "k", now()), "fetch");
    assert_eq!(ask(&mut cache, "k", after(10)), "wait");
    cache.fetched(&document(&[("k", 1)]), after(20)).unwrap();
    assert_eq!(ask(&mut cache, "k", after(20)), "use");
    let stale = after(20).plus(REFRESH);
    assert_eq!(ask(&mut cache, "k", stale), "fetch");
    assert_eq!(ask(&mut cache, "k", stale), "use", "does not wait for the refresh");
    assert_eq!(ask(&mut cache, "new", stale), "wait");
}

#[test]
fn a_fetch_that_was_lost_is_not_waited_for_forever() {
    let mut cache = JwksCache::new();
    assert_eq!(ask(&mut cache, "k", now()), "fetch");
    assert_eq!(ask(&mut cache, "k", after(FETCH_TIMEOUT.get() - 1)), "wait");
    assert_eq!(ask(&mut cache, "k", after(FETCH_TIMEOUT.get())), "unavailable");
    assert_eq!(ask(&mut cache, "k", after(COOLDOWN.get())), "fetch");
    cache.failed();
    assert_eq!(ask(&mut cache, "k", after(COOLDOWN.get())), "unavailable");
    assert_eq!(ask(&mut cache, "k", after(-60_000)), "fetch", "a clock that went back");
}
