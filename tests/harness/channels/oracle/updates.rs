//! What was written to the bots against the turns it became.

use domain::keys::HashLabel;

use crate::channels::World;
use crate::channels::arrivals::Update;
use crate::channels::places::CHANNEL;
use crate::channels::plan::{Act, Plan, Say, Step};
use crate::world::oracle::Turn;

/// What was done with an update, as the database has it.
pub fn disposition(world: &World, update: &Update) -> Option<String> {
    Some(dedup(world, update)?.0)
}

fn dedup(world: &World, update: &Update) -> Option<(String, i64, i64)> {
    let gateway = &world.places.gateways[update.gateway].id;
    let id = update.id.to_string();
    let parts = [gateway.as_str().as_bytes(), CHANNEL.as_bytes(), id.as_bytes()];
    let hash = world.people.secrets.keyed_hash_of(HashLabel::IngressId, &parts);
    let sql = "SELECT disposition, duplicate_count, conflict_count FROM inbound_dedup
               WHERE gateway_id = ?1 AND ingress_hash = ?2";
    let rows = world.sql.database().query(sql, &[gateway.into(), hash.into()]);
    let row = rows.first()?;
    let number = |column: &str| row.integer(column).expect("a number");
    Some((
        row.text("disposition").expect("text").to_owned(),
        number("duplicate_count"),
        number("conflict_count"),
    ))
}

pub fn check(world: &World, plan: &Plan, turns: &[Turn]) {
    let watch = &world.watch;
    for update in world.updates.borrow().iter() {
        let name = format!("update {} ({:?})", update.id, update.what);
        let Some((disposition, duplicates, conflicts)) = dedup(world, update) else {
            watch.wrong("update_recorded", format!("{name} is not on record"));
            continue;
        };
        // What is taken is counted, each time and once, though a count may be lost on a bad way to the database; what
        // dies on its way may have been counted.
        let disturbed = |step: &Step| matches!(step.act, Act::Outage { .. } | Act::Kill { .. });
        let quiet = plan.is_calm() && !plan.steps.iter().any(disturbed);
        let counted = duplicates + 1;
        let exact = counted == i64::from(update.taken);
        watch.that(
            exact || (!quiet && counted <= i64::from(update.delivered)),
            "duplicates_counted",
            || {
                let Update { delivered, taken, .. } = update;
                format!("{name} came {delivered} times, was taken {taken} times and counted {counted} times")
            },
        );
        let exact = conflicts == i64::from(update.conflicts);
        watch.that(
            exact || (!quiet && conflicts <= i64::from(update.forged)),
            "conflicts_counted",
            || {
                let Update {
                    forged,
                    conflicts: refused,
                    ..
                } = update;
                format!("{name} was forged {forged} times, refused {refused} times and counted {conflicts} times")
            },
        );
        let became = turns
            .iter()
            .filter(|turn| Some(&turn.question) == update.text.as_ref())
            .count();
        watch.that(
            became == usize::from(disposition == "turn"),
            "one_turn_per_update",
            || format!("{name} became {became} turns and is recorded as {disposition}"),
        );
        let may_be_turn = matches!(update.what, Say::Words | Say::AtLength);
        watch.that(disposition != "turn" || may_be_turn, "one_turn_per_update", || {
            format!("{name} became a turn")
        });
    }
    let forged = turns.iter().filter(|turn| turn.question.contains("forged")).count();
    watch.that(forged == 0, "forged", || format!("{forged} turns of forged updates"));
}
