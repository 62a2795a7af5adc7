//! Data keys in the database: one live key per subject, destroyed for good, wrapped anew after a rotation.

use std::cell::Cell;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::guard::Guard;
use domain::ids::{DataKeyId, FamilyId, GatewayId, UserId};
use domain::keys::{DataKey, KeySubject, MasterSecrets};
use domain::ports::{Entropy, Sql};
use domain::sql::{Outcome, Refusal, Shard, Statement};
use domain::time::Timestamp;
use harness::block_on;
use harness::sqlite::{Fault, TestSql};
use queues::rotation::{self, Rotated};
use store::channels::channel_token;
use store::keys::rewrap::{Place, Progress, RewrapError, replace, rewrap_page};
use store::keys::{KeyRow, destroy_key, insert_key, key_by_id, key_live, live_key};

#[derive(Default)]
struct Counting(Cell<u8>);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.0.replace(self.0.get().wrapping_add(1));
        }
    }
}

const SHARD: Shard = Shard::User(0);

fn now() -> Timestamp {
    Timestamp::from_millis(1_783_728_000_000)
}

/// Versions 1 and 2, the given one current.
fn secrets(current: u32) -> MasterSecrets {
    let (one, two) = (STANDARD.encode([1; 32]), STANDARD.encode([2; 32]));
    let text = format!(r#"{{"current":{current},"versions":{{"1":"{one}","2":"{two}"}},"hash_version":1}}"#);
    MasterSecrets::from_json(&text).unwrap()
}

fn key(number: usize) -> DataKey {
    let id = DataKeyId::parse(&format!("key_00{number:03}")).unwrap();
    let subject = if number.is_multiple_of(2) {
        KeySubject::User(UserId::parse(&format!("user_00{number:03}")).unwrap())
    } else {
        KeySubject::Family(FamilyId::parse(&format!("family_00{number:03}")).unwrap())
    };
    let entropy = Counting::default();
    entropy.0.set(u8::try_from(number % 256).unwrap());
    DataKey::generate(id, subject, &entropy)
}

fn run(sql: &TestSql, statement: Statement) -> Outcome {
    block_on(sql.batch(SHARD, vec![statement]))
}

fn with_keys(count: usize) -> TestSql {
    let sql = TestSql::new();
    for number in 0..count {
        let key = key(number);
        let wrapped = secrets(1).wrap(&key, &Counting::default()).unwrap();
        assert!(matches!(
            run(&sql, insert_key(&key, &wrapped, now())),
            Outcome::Committed(_)
        ));
    }
    sql
}

/// The stored row that `statement` finds.
fn found(sql: &TestSql, statement: Statement) -> Option<KeyRow> {
    let Outcome::Committed(results) = run(sql, statement) else {
        panic!("a read")
    };
    results[0].first().map(|row| KeyRow::read(row).unwrap())
}

fn version(sql: &TestSql, number: usize) -> i64 {
    let row = found(sql, key_by_id(key(number).id())).unwrap();
    assert_eq!(
        row.unwrap_for(key(number).subject(), &secrets(2)),
        Ok(key(number)),
        "the key itself stays"
    );
    row.master_version
}

fn rewrap(sql: &TestSql) -> Result<Progress, RewrapError> {
    block_on(rewrap_page(
        sql,
        SHARD,
        &secrets(2),
        &Place::default(),
        &Counting::default(),
    ))
}

fn done(rewrapped: u32) -> Progress {
    Progress {
        next: None,
        rewrapped,
        unreadable: 0,
        overtaken: 0,
    }
}

#[test]
fn a_subject_has_one_live_key_and_keeps_the_first() {
    let sql = with_keys(1);
    let first = found(&sql, live_key(key(0).subject())).unwrap();
    assert_eq!(&first.key_id, key(0).id());
    let second = DataKey::generate(
        DataKeyId::parse("key_00z").unwrap(),
        key(0).subject().clone(),
        &Counting::default(),
    );
    let wrapped = secrets(1).wrap(&second, &Counting::default()).unwrap();
    assert!(matches!(
        run(&sql, insert_key(&second, &wrapped, now())),
        Outcome::Committed(_)
    ));
    assert_eq!(found(&sql, live_key(key(0).subject())), Some(first));
    assert_eq!(found(&sql, key_by_id(second.id())), None);
}

#[test]
fn a_destroyed_key_is_gone_and_its_guard_refuses() {
    let sql = with_keys(2);
    assert!(matches!(run(&sql, key_live(key(0).id())), Outcome::Committed(_)));
    assert!(matches!(
        run(&sql, destroy_key(key(0).subject(), now())),
        Outcome::Committed(_)
    ));
    let refused = Outcome::Refused(Refusal::Guard(Guard::KeyLive));
    assert_eq!(run(&sql, key_live(key(0).id())), refused);
    assert_eq!(
        run(&sql, key_live(&DataKeyId::parse("key_00unknown").unwrap())),
        refused
    );
    assert_eq!(found(&sql, live_key(key(0).subject())), None);
    assert_eq!(found(&sql, key_by_id(key(0).id())), None);
    assert!(matches!(run(&sql, key_live(key(1).id())), Outcome::Committed(_)));
    assert_eq!(rewrap(&sql), Ok(done(1)), "the destroyed one stays as it is");
}

#[test]
fn rotation_walks_every_key_page_by_page_and_then_has_nothing_to_do() {
    let sql = with_keys(120);
    let rotate = || block_on(rotation::rotate(&sql, SHARD, &secrets(2), &Counting::default()));
    let expected = Rotated {
        rewrapped: 120,
        ..Rotated::default()
    };
    sql.take_log();
    assert_eq!(rotate(), expected);
    // Three pages, each read and written, and a look for credentials of gateways.
    assert_eq!(sql.trips(), 7);
    assert!((0..120).all(|number| version(&sql, number) == 2));
    sql.take_log();
    assert_eq!(rotate(), Rotated::default());
    assert_eq!(sql.trips(), 2);
}

#[test]
fn rotation_seals_the_credentials_of_gateways_anew() {
    let sql = TestSql::new();
    let gateway = |number: usize| GatewayId::parse(&format!("gateway_00{number:03}")).unwrap();
    for number in 0..60 {
        let id = gateway(number);
        let token = secrets(1).seal_own(&channel_token::place(&id), id.as_str().as_bytes(), &Counting::default());
        let sealed: String = token.unwrap().sealed.iter().map(|byte| format!("{byte:02x}")).collect();
        // One was moved from another gateway, one has no credential.
        let (version, sealed) = match number {
            7 => ("1".to_owned(), "x'0102'".to_owned()),
            8 => ("NULL".to_owned(), "NULL".to_owned()),
            _ => ("1".to_owned(), format!("x'{sealed}'")),
        };
        sql.execute(&format!(
            "INSERT INTO gateways (gateway_id, scopes, channels, production, assertion_jwk, status,
               authorization_revision, created_at, updated_at, channel_token_master_version, channel_token_sealed)
             VALUES ('{id}', '[]', '[]', 0, '', 'active', 1, 0, 0, {version}, {sealed})"
        ));
    }
    let rotate = || block_on(rotation::rotate(&sql, SHARD, &secrets(2), &Counting::default()));
    let rotated = Rotated {
        rewrapped: 58,
        unreadable: 1,
        failed: false,
    };
    assert_eq!(rotate(), rotated);
    let rows = sql.query("SELECT * FROM gateways WHERE channel_token_master_version = 2", &[]);
    assert_eq!(rows.len(), 58);
    for row in rows {
        let id = GatewayId::parse(row.text("gateway_id").unwrap()).unwrap();
        let token = channel_token::read(&row).unwrap().unwrap();
        let opened = secrets(2).open_own(&channel_token::place(&id), &token);
        assert_eq!(opened, Ok(id.as_str().as_bytes().to_vec()));
        assert_eq!(row.integer("updated_at"), Ok(0), "it is the same credential");
    }
    let again = Rotated {
        rewrapped: 0,
        ..rotated
    };
    assert_eq!(rotate(), again);
    assert_eq!(
        block_on(rotation::rotate(&sql, SHARD, &secrets(1), &Counting::default())),
        Rotated::default()
    );
}

#[test]
fn a_release_with_the_older_secret_leaves_newer_work_alone() {
    let sql = with_keys(3);
    assert_eq!(rewrap(&sql), Ok(done(3)));
    let older = block_on(rewrap_page(
        &sql,
        SHARD,
        &secrets(1),
        &Place::default(),
        &Counting::default(),
    ));
    assert_eq!(older, Ok(done(0)));
    assert!((0..3).all(|number| version(&sql, number) == 2));
}

#[test]
fn one_writer_overtakes_another_without_harm() {
    let sql = with_keys(1);
    let row = found(&sql, key_by_id(key(0).id())).unwrap();
    let mine = secrets(2).wrap(&key(0), &Counting::default()).unwrap();
    assert_eq!(rewrap(&sql), Ok(done(1)));
    let Outcome::Committed(results) = run(&sql, replace(&row.key_id, 1, &mine)) else {
        panic!("an update")
    };
    assert_eq!(results[0].rows.len(), 0, "the version it was read with is gone");
    assert_eq!(version(&sql, 0), 2);
}

#[test]
fn a_lost_reply_is_resolved_by_reading_back() {
    let sql = with_keys(3);
    sql.fail_next([Fault::None, Fault::ReplyLost]);
    assert_eq!(rewrap(&sql), Ok(done(3)));
    let sql = with_keys(3);
    sql.fail_next([Fault::None, Fault::RequestLost]);
    assert_eq!(rewrap(&sql), Err(RewrapError::Unavailable));
    for fault in [Fault::Unreachable, Fault::Overloaded, Fault::RequestLost] {
        sql.fail_next([fault]);
        assert_eq!(rewrap(&sql), Err(RewrapError::Unavailable));
    }
    assert_eq!(rewrap(&sql), Ok(done(3)), "repeating is harmless");
    assert!((0..3).all(|number| version(&sql, number) == 2));
}

#[test]
fn a_key_that_no_version_opens_is_counted_and_left_alone() {
    let sql = with_keys(3);
    // The version is part of what the wrapped key is bound to.
    sql.execute("UPDATE data_keys SET master_version = 0 WHERE key_id = 'key_00001'");
    let expected = Rotated {
        rewrapped: 2,
        unreadable: 1,
        failed: false,
    };
    assert_eq!(
        block_on(rotation::rotate(&sql, SHARD, &secrets(2), &Counting::default())),
        expected
    );
    assert_eq!(found(&sql, key_by_id(key(1).id())).unwrap().master_version, 0);
}
