use domain::auth::jws::Algorithm;
use domain::auth::upstream::KeySource;
use domain::auth::{Role, Scope};
use domain::sql::Refusal;
use store::directory::*;

use super::*;

fn gateway_id() -> GatewayId {
    GatewayId::parse("gateway_00demo").unwrap()
}

#[test]
fn an_upstream_is_found_by_its_issuer_while_active() {
    let world = World::demo();
    let find = |issuer: &str| read_upstream(&world.read(upstream_by_issuer(issuer))).unwrap();
    let upstream = find("https://login.example").unwrap();
    assert_eq!((upstream.idp.as_str(), upstream.audience.as_str()), ("demo", "hermod"));
    assert_eq!(upstream.algorithms, [Algorithm::Es256]);
    assert!(matches!(upstream.keys, KeySource::Pinned(ring) if ring.len() == 1));
    assert!(find("https://login.example/").is_none());
    world.sql.execute("UPDATE upstreams SET status = 'suspended'");
    assert!(find("https://login.example").is_none());
}

#[test]
fn a_user_is_found_by_identity_while_everything_is_active() {
    let world = World::demo();
    let find = |subject: &str| read_user(&world.read(user_of_identity("demo", subject))).unwrap();
    let found = find("person-1").unwrap();
    assert_eq!(
        (found.user_id.as_str(), found.family_id.as_str()),
        ("user_00demo", "family_00demo")
    );
    assert_eq!((found.role, found.revision), (Role::Guardian, 1));
    assert_eq!(find("person-2"), None);
    world.put_family("family_00demo", "suspended");
    assert_eq!(find("person-1"), None);
    world.put_family("family_00demo", "active");
    assert!(find("person-1").is_some());
    done(&world.put_user("user_00demo", "family_00demo", "guardian", "suspended"));
    assert_eq!(find("person-1"), None);
}

#[test]
fn revocation_times_refuse_what_was_issued_before() {
    let world = World::demo();
    let person = user("user_00demo", "family_00demo", 1);
    let service = service("gateway_00demo", 1);
    let fresh = || {
        [
            world.fresh(&person),
            world.fresh(&service),
            world.fresh(&world.operator),
        ]
    };
    assert_eq!(fresh(), [true, true, true]);
    world.sql.execute("UPDATE users SET tokens_valid_from = 1783728000000");
    assert_eq!(fresh(), [true, true, true], "issued at that very instant");
    world.sql.execute("UPDATE users SET tokens_valid_from = 1783728000001");
    assert_eq!(fresh(), [false, true, true]);
    world
        .sql
        .execute("UPDATE users SET tokens_valid_from = 0; UPDATE gateways SET tokens_valid_from = 1783728000001");
    assert_eq!(fresh(), [true, false, true]);
    world
        .sql
        .execute("UPDATE gateways SET tokens_valid_from = 0; UPDATE meta SET tokens_valid_from = 1783728000001");
    assert_eq!(fresh(), [false, false, false]);
}

#[test]
fn tokens_of_nobody_are_stale() {
    let world = World::demo();
    assert!(!world.fresh(&user("user_00nobody", "family_00demo", 1)));
    assert!(!world.fresh(&user("user_00demo", "family_00other", 1)));
    assert!(!world.fresh(&user("user_00demo", "family_00demo", 2)));
    assert!(!world.fresh(&service("gateway_00nobody", 1)));
    let mut homeless = user("user_00demo", "family_00demo", 1);
    homeless.family = None;
    assert!(!world.fresh(&homeless));
    assert!(
        !world.fresh(&user("user_00demo", "family_00demo", i64::MAX)),
        "a revision that cannot be bound"
    );
    done(&world.put_gateway("gateway_00demo", &["family_00demo"], "suspended"));
    assert!(!world.fresh(&service("gateway_00demo", 2)));
    world.sql.execute("UPDATE gateways SET status = 'broken'");
    assert!(
        world.fresh(&service("gateway_00demo", 2)),
        "what it hands in is still taken"
    );
}

#[test]
fn an_assertion_works_once() {
    let world = World::demo();
    let use_it = |jti: &str, at: Timestamp| {
        let until = at.plus(Millis::from_mins(6));
        block_on(
            world
                .sql
                .batch(Shard::Directory, use_assertion(&gateway_id(), jti, until, at)),
        )
    };
    let Outcome::Committed(rows) = use_it("a-1", now()) else {
        panic!("refused")
    };
    let row = read_gateway(rows.last().unwrap()).unwrap().unwrap();
    assert_eq!(
        (row.scopes, row.channels, row.revision),
        (vec![Scope::Chat], vec!["telegram".to_owned()], 1)
    );
    assert_eq!(use_it("a-1", now()), Outcome::Refused(Refusal::Constraint));
    assert!(matches!(use_it("a-2", now()), Outcome::Committed(_)));
    assert!(matches!(
        use_it("a-3", now().plus(Millis::from_mins(7))),
        Outcome::Committed(_)
    ));
    assert_eq!(
        world.text("SELECT group_concat(jti_hash) AS v FROM used_assertions"),
        "a-3",
        "old ones are forgotten"
    );
}

#[test]
fn a_sender_is_resolved_only_within_the_gateways_policy() {
    let find = |world: &World, channel: &str, hash: &str| {
        read_sender(&world.read(user_of_sender(&gateway_id(), channel, hash))).unwrap()
    };
    let sender = Sender {
        user_id: UserId::parse("user_00demo").unwrap(),
        family_id: FamilyId::parse("family_00demo").unwrap(),
        address_id: AddressId::parse("address_00demo").unwrap(),
        revision: 1,
    };
    let world = World::demo();
    assert_eq!(find(&world, "telegram", "hash-of-1001"), Some(sender.clone()));
    assert_eq!(find(&world, "telegram", "hash-of-1002"), None);
    assert_eq!(find(&world, "imessage", "hash-of-1001"), None);
    assert_eq!(
        find(&world, "telegram", "user_00demo"),
        None,
        "our own ids are not external ids"
    );
    let other = read_sender(&world.read(user_of_sender(
        &GatewayId::parse("gateway_00other").unwrap(),
        "telegram",
        "hash-of-1001",
    )));
    assert_eq!(other.unwrap(), None);
    for change in [
        "UPDATE channel_addresses SET status = 'disabled'",
        "UPDATE users SET status = 'suspended'",
        "UPDATE families SET status = 'suspended'",
        "UPDATE gateways SET status = 'suspended'",
        "UPDATE gateways SET channels = '[\"imessage\"]'",
        "DELETE FROM gateway_families",
        "INSERT INTO families VALUES ('family_00new', 'active', 0, 0); UPDATE users SET family_id = 'family_00new'",
    ] {
        let world = World::demo();
        world.sql.execute(change);
        assert_eq!(find(&world, "telegram", "hash-of-1001"), None, "{change}");
    }
}

#[test]
fn a_gateway_writes_only_for_people_who_are_active() {
    let world = World::demo();
    let (user, family) = (
        UserId::parse("user_00demo").unwrap(),
        FamilyId::parse("family_00demo").unwrap(),
    );
    let allowed = |world: &World, family: &FamilyId| {
        let batch = token::may_act_for(&service("gateway_00demo", 1), &user, family);
        matches!(
            block_on(world.sql.batch(Shard::Directory, batch)),
            Outcome::Committed(_)
        )
    };
    assert!(allowed(&world, &family));
    assert!(!allowed(&world, &FamilyId::parse("family_00other").unwrap()));
    for change in [
        "UPDATE users SET status = 'suspended'",
        "UPDATE families SET status = 'suspended'",
        "UPDATE gateways SET status = 'suspended'",
        "UPDATE gateways SET authorization_revision = 2",
    ] {
        let world = World::demo();
        world.sql.execute(change);
        assert!(!allowed(&world, &family), "{change}");
    }
}
