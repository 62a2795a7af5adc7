//! Each condition of the claim, alone: with it the row stays, without it the row is taken.

use domain::fence::Fence;
use domain::outbox::SendChannel;
use domain::time::Millis;
use store::outbox::claim::Claimant;
use store::outbox::operate::{SwitchScope, set_switch};

use super::desk::*;

const NOTHING: [&str; 0] = [];

/// Arranged so that `fence` alone stands in the way of one row.
fn stands_alone(fence: Fence, arrange: impl Fn(&Desk)) {
    let desk = Desk::new();
    arrange(&desk);
    assert_eq!(desk.takes(), NOTHING, "{fence:?} holds");
    desk.sql.drop_fence(fence);
    assert_eq!(desk.takes().len(), 1, "nothing but {fence:?} held it");
}

/// One row of Ann's that could be claimed, and then `script`.
fn unless(fence: Fence, script: &str) {
    stands_alone(fence, |desk| {
        desk.turn("ann", 1, 1);
        desk.sql.execute(script);
    });
}

#[test]
fn what_forbids_nothing_is_taken() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    assert_eq!(desk.takes(), ["ann1p1"]);
}

#[test]
fn switches_stop_the_claim_and_burn_no_attempt() {
    use domain::ids::GatewayId;
    let bot = GatewayId::parse(BOT).unwrap();
    let bridge = GatewayId::parse(BRIDGE).unwrap();
    for scope in [
        SwitchScope::Global,
        SwitchScope::Channel(SendChannel::Telegram),
        SwitchScope::Gateway(&bot),
    ] {
        let off = |desk: &Desk| {
            desk.turn("ann", 1, 1);
            desk.run(&[set_switch(scope, false, desk.now())]);
        };
        stands_alone(Fence::SendsEnabled, off);
        let desk = Desk::new();
        off(&desk);
        assert_eq!(desk.takes(), NOTHING);
        assert_eq!(desk.attempts("ann1p1"), "");
        assert_eq!(desk.claim().1.next_due, None, "asking again at once would not help");
        desk.run(&[set_switch(scope, true, desk.now())]);
        let (_, claimed) = desk.claim();
        assert_eq!((claimed.rows.len(), claimed.rows[0].attempt_no), (1, 1));
    }
    for scope in [
        SwitchScope::Channel(SendChannel::Imessage),
        SwitchScope::Gateway(&bridge),
    ] {
        let desk = Desk::new();
        desk.turn("ann", 1, 1);
        desk.run(&[set_switch(scope, false, desk.now())]);
        assert_eq!(desk.takes(), ["ann1p1"], "{scope:?} is another's");
    }
}

#[test]
fn an_order_of_another_epoch_takes_nothing() {
    unless(Fence::SendEpoch, "UPDATE meta SET epoch = 2");
}

#[test]
fn a_gateway_that_is_not_active_or_lost_its_channel_is_not_sent_for() {
    for change in [
        "status = 'suspended'",
        "status = 'broken'",
        "channels = '[\"imessage\"]'",
    ] {
        unless(Fence::GatewayOpen, &format!("UPDATE gateways SET {change}"));
    }
}

#[test]
fn each_gateway_is_sent_for_by_one_side_only() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    desk.turn("out", 1, 1);
    let take = |gateway, claimant| ids(&desk.read(&desk.claim_of(gateway, claimant, 1, &desk.token())));
    assert_eq!(take(BOT, Claimant::Outside), NOTHING);
    assert_eq!(take(BRIDGE, Claimant::Hermod), NOTHING);
    assert_eq!(take(BOT, Claimant::Hermod), ["ann1p1"]);
    assert_eq!(take(BRIDGE, Claimant::Outside), ["out1p1"]);
    unless(
        Fence::GatewayOpen,
        "UPDATE gateways SET channel_token_sealed = NULL, channel_token_master_version = NULL",
    );
}

#[test]
fn the_gateways_pace_holds_everything_of_it() {
    stands_alone(Fence::GatewayPaced, |desk| {
        for number in 1..=2 {
            desk.turn("ann", number, 1);
        }
        assert_eq!(desk.takes(), ["ann1p1"]);
        assert_eq!(
            desk.list("SELECT next_at AS v FROM send_pacing"),
            (START + 42).to_string()
        );
        desk.turn("bob", 1, 1);
    });
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    desk.takes();
    desk.turn("bob", 1, 1);
    desk.wait(Millis::new(41));
    let (_, claimed) = desk.claim();
    assert_eq!(
        (claimed.rows.len(), claimed.next_due),
        (0, Some(desk.now().plus(Millis::new(1))))
    );
    desk.wait(Millis::new(1));
    assert_eq!(desk.takes(), ["bob1p1"]);
}

#[test]
fn a_row_is_not_taken_before_its_time() {
    unless(
        Fence::Due,
        "UPDATE outbound_messages SET next_attempt_at = next_attempt_at + 1",
    );
}

#[test]
fn an_expired_row_is_not_taken() {
    unless(
        Fence::NotExpired,
        &format!("UPDATE outbound_messages SET expires_at = {START}"),
    );
}

#[test]
fn a_held_row_is_not_taken_before_its_lease_runs_out() {
    let held = |until: i64| {
        format!(
            "UPDATE outbound_messages SET status = 'leased', lease_token = 'lease_00x', lease_owner = 'x',
               lease_expires_at = {until}"
        )
    };
    unless(Fence::LeaseFree, &held(START + 1));
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    desk.sql.execute(&held(START));
    assert_eq!(desk.takes(), ["ann1p1"]);
}

#[test]
fn a_quarantined_row_is_not_taken_and_blocks_nobody() {
    unless(Fence::LeaseFree, "UPDATE outbound_messages SET status = 'quarantined'");
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    desk.sql.execute("UPDATE outbound_messages SET status = 'quarantined'");
    desk.turn("ann", 2, 1);
    assert_eq!(desk.takes(), ["ann2p1"]);
}

#[test]
fn a_row_waits_for_the_earlier_ones_of_its_lane() {
    stands_alone(Fence::LaneClear, |desk| {
        desk.turn("ann", 1, 1);
        desk.turn("ann", 2, 1);
        desk.sql
            .execute("UPDATE outbound_messages SET next_attempt_at = next_attempt_at + 1000 WHERE lane_no = 1");
    });
}

#[test]
fn a_lane_has_a_pace_of_its_own() {
    stands_alone(Fence::LanePaced, |desk| {
        desk.turn("ann", 1, 1);
        let (token, claimed) = desk.claim();
        desk.settle(&token, &claimed.rows[0], &accepted("1"));
        desk.turn("ann", 2, 1);
        desk.wait(Millis::new(999));
    });
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    let (token, claimed) = desk.claim();
    desk.settle(&token, &claimed.rows[0], &accepted("1"));
    desk.turn("ann", 2, 1);
    desk.wait(Millis::from_secs(1));
    assert_eq!(desk.takes(), ["ann2p1"]);
}

#[test]
fn whoever_is_not_who_they_were_is_not_written_to() {
    for change in [
        "UPDATE users SET authorization_revision = 2",
        "UPDATE users SET status = 'suspended'",
        "UPDATE families SET status = 'suspended'",
        "DELETE FROM gateway_families",
        "UPDATE channel_addresses SET status = 'disabled'",
        "UPDATE channel_addresses SET user_id = 'user_00bob' WHERE address_id = 'address_00ann'",
        "UPDATE channel_addresses SET gateway_id = 'gateway_00bridge' WHERE address_id = 'address_00ann';",
        "INSERT INTO families VALUES ('family_00b', 'active', 0, 0);
         INSERT INTO gateway_families VALUES ('gateway_00bot', 'family_00b');
         UPDATE users SET family_id = 'family_00b'",
    ] {
        // The other address of Ann's would stand in the way of the one that is changed.
        let script = format!("DELETE FROM channel_addresses WHERE address_id = 'address_00out'; {change}");
        unless(Fence::StillAuthorized, &script);
    }
}
