//! Byte-level mutations of everything that is read from a request: whatever comes in, nothing panics, and the readers
//! agree with each other.

use domain::auth::provisioning::{AddressPut, FamilyPut, GatewayPut, IdentityPut, Revocation, UpstreamPut, UserPut};
use domain::http::bodies::{AckBody, ChatBody, MESSAGE_MAX, expect_empty};
use domain::http::cors::Origin;
use domain::http::negotiate::{accept, is_json};
use domain::http::routes::{Media, Method, find};
use domain::http::source::SourceAddress;
use domain::http::trace::{Trace, client_request_id};
use domain::http::{json, path};
use domain::idempotency::{IdempotencyKey, canonical_json};
use domain::ports::Entropy;

const ROUNDS: usize = 20_000;
const DEFAULT_SEED: u64 = 0x4865_726d_6f64;

const SAMPLES: &[&str] = &[
    r#"{"message":"Hello é \ud83d\ude00","conversation_id":"conv_00abc","user_id":"user_00demo","locale":"en-GB","timezone":"Europe/Berlin"}"#,
    r#"{"ack_type":"rendered","client_timestamp":"2026-07-11T02:00:00.123+02:00"}"#,
    r#"{"family_id":"family_00demo","role":"guardian","status":"active"}"#,
    r#"{"scope":"user","user_id":"user_00demo"}"#,
    r#"{"scopes":["chat"],"channels":["telegram"],"families":["family_00demo"],"production":false,"assertion_jwk":{"kty":"EC"}}"#,
    r#"{"issuer":"https://id.example","audience":"hermod","algorithms":["ES256"],"jwks_url":"https://id.example/jwks"}"#,
    r#"{"a":[1,-2.5e10,true,null,{"b":[[[[]]]]}],"c":"\"\\\/\b\f\n\r\t"}"#,
    "/internal/users/user_00d%65mo/identities/demo",
    "/turns/turn_00abc/ack",
    "text/event-stream;q=0.5, application/json, */*;q=0.1",
    "application/json; charset=utf-8",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    r#""8e03978e-40d5-43e8-bc93-6894a57f9324""#,
    "https://app.example:8443",
    "2001:db8:1:2::1",
];

/// Xorshift: the same seed gives the same mutations everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % u64::try_from(end.max(1)).unwrap()) as usize
    }

    fn mutate(&mut self, sample: &str) -> Vec<u8> {
        let mut bytes = sample.as_bytes().to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let interesting = b"{}[]\",:\\/%0-+.eE;q=*\x00\x1f\x7f\x80\xc3\xed\xff\n ";
            match self.below(7) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => drop(bytes.remove(at)),
                2 => bytes.insert(at, interesting[self.below(interesting.len())]),
                3 => bytes.truncate(at),
                4 => {
                    let piece = bytes[at..].to_vec();
                    bytes.extend(piece);
                }
                5 => {
                    let other = SAMPLES[self.below(SAMPLES.len())].as_bytes();
                    bytes.truncate(at);
                    bytes.extend(&other[self.below(other.len())..]);
                }
                _ => {
                    let repeated = vec![interesting[self.below(interesting.len())]; self.below(80)];
                    bytes.splice(at..at, repeated);
                }
            }
        }
        bytes
    }
}

struct Zeros;
impl Entropy for Zeros {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn read_everything(text: &str) {
    let strict = json::parse(text);
    let canonical = canonical_json(text);
    // What the strict reader lets in has a canonical form that means the same, or a request would have no hash.
    if let Ok(value) = &strict {
        let canonical = canonical.expect("strict JSON has a canonical form");
        assert!(json::parse(&canonical).is_ok());
        assert_eq!(canonical_json(&canonical).as_ref(), Ok(&canonical));
        assert!(value.is_object() || ChatBody::parse(text).is_err());
    }
    if let Ok(body) = ChatBody::parse(text) {
        assert!(strict.is_ok() && body.message.len() <= MESSAGE_MAX && !body.message.trim().is_empty());
    }
    if AckBody::parse(text).is_ok() || expect_empty(text).is_ok() {
        assert!(text.is_empty() || strict.is_ok());
    }
    let _ = (FamilyPut::parse(text), UserPut::parse(text), IdentityPut::parse(text));
    let _ = (
        GatewayPut::parse(text),
        UpstreamPut::parse(text, true),
        AddressPut::parse(text),
        Revocation::parse(text),
    );
    let _ = find(Some(Method::Get), text);
    if let Ok(segments) = path::segments(text) {
        assert!(segments.iter().all(|segment| !segment.contains('/')));
    }
    let _ = (
        accept(Some(text), &[Media::Json, Media::EventStream]),
        is_json(Some(text)),
    );
    let header = Trace::continue_from(Some(text), &Zeros).header();
    assert_eq!(header.len(), 55);
    let _ = (client_request_id(Some(text)), IdempotencyKey::parse(text));
    let _ = (
        Origin::parse(text),
        SourceAddress::parse(text).map(SourceAddress::sender),
    );
}

#[test]
fn mutated_input_is_read_or_refused_and_never_panics() {
    let seed = std::env::var("HERMOD_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(DEFAULT_SEED);
    println!("HERMOD_SEED={seed}");
    let mut random = Random(seed.max(1));
    for sample in SAMPLES {
        read_everything(sample);
    }
    let mut accepted = 0;
    for round in 0..ROUNDS {
        let sample = SAMPLES[random.below(SAMPLES.len())];
        let bytes = random.mutate(sample);
        let Ok(text) = std::str::from_utf8(&bytes) else {
            continue;
        };
        accepted += usize::from(json::parse(text).is_ok());
        let outcome = std::panic::catch_unwind(|| read_everything(text));
        assert!(outcome.is_ok(), "seed {seed}, round {round}: {bytes:?}");
    }
    // Mutations that never get past the first reader would test nothing behind it.
    assert!(accepted > ROUNDS / 100, "{accepted} of {ROUNDS}");
}
