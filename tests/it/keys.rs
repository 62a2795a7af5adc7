//! Data keys in the database: one live key per subject, destroyed for good, wrapped anew after a rotation.

use std::cell::Cell;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::guard::Guard;
use domain::ids::{DataKeyId, FamilyId, UserId};
use domain::keys::{DataKey, KeySubject, MasterSecrets};
use domain::ports::{Entropy, Sql};
use domain::sql::{Outcome, Refusal, Shard, Statement};
use domain::time::Timestamp;
use harness::block_on;
use harness::sqlite::{Fault, TestSql};
use store::keys::rewrap::{Progress, RewrapError, rewrap_page};
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

fn rewrap(sql: &TestSql, after: Option<&DataKeyId>) -> Result<Progress, RewrapError> {
    block_on(rewrap_page(sql, SHARD, &secrets(2), after, &Counting::default()))
}

fn done(current: u32) -> Progress {
    Progress {
        next: None,
        current,
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
    assert_eq!(rewrap(&sql, None), Ok(done(1)));
}

#[test]
fn rotation_walks_every_key_page_by_page() {
    let sql = with_keys(120);
    let (mut after, mut pages, mut current) = (None, 0, 0);
    loop {
        let progress = rewrap(&sql, after.as_ref()).unwrap();
        assert_eq!((progress.unreadable, progress.overtaken), (0, 0));
        (pages, current) = (pages + 1, current + progress.current);
        let Some(next) = progress.next else { break };
        after = Some(next);
    }
    assert_eq!((pages, current), (3, 120));
    assert!((0..120).all(|number| version(&sql, number) == 2));
    assert_eq!(rewrap(&sql, after.as_ref()), Ok(done(20)));
}

#[test]
fn a_lost_reply_is_resolved_by_reading_back() {
    for (fault, kept) in [
        (Fault::ReplyLost, Ok(done(3))),
        (Fault::RequestLost, Err(RewrapError::Unavailable)),
    ] {
        let sql = with_keys(3);
        sql.fail_next([Fault::None, fault]);
        assert_eq!(rewrap(&sql, None), kept);
        assert_eq!(rewrap(&sql, None), Ok(done(3)), "repeating is harmless");
        assert!((0..3).all(|number| version(&sql, number) == 2));
    }
}

#[test]
fn a_key_of_an_unknown_version_is_counted_and_left_alone() {
    let sql = with_keys(3);
    sql.execute("UPDATE data_keys SET master_version = 9 WHERE key_id = 'key_00001'");
    let expected = Progress {
        unreadable: 1,
        ..done(2)
    };
    assert_eq!(rewrap(&sql, None), Ok(expected));
    assert_eq!(found(&sql, key_by_id(key(1).id())).unwrap().master_version, 9);
}
