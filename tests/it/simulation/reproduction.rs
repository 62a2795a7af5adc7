//! Failures that were found by a seed, made small, and mended.

use harness::network::FaultRates;
use harness::queue::QueueRates;
use harness::world::plan::{Act, Conversation, Leave, ModelRates, Plan, Send, Step};
use harness::world::run;

pub fn message(at: i64, key: u32) -> Step {
    let send = Send {
        user: 0,
        key,
        variant: 0,
        stream: false,
        leave: Leave::Never,
        retries: 0,
        after_last: None,
        old_token: false,
        gateway: false,
        conversation: Conversation::Unnamed,
    };
    Step {
        at,
        act: Act::Send(send),
    }
}

pub fn calm(steps: Vec<Step>) -> Plan {
    Plan {
        seed: 0,
        users: 1,
        slowest: 0,
        faults: FaultRates::default(),
        queue: QueueRates::default(),
        model: ModelRates::default(),
        late_alarms: 0,
        line_max: 32,
        panics: 0,
        steps,
    }
}

#[track_caller]
fn keeps_every_rule(plan: &Plan) {
    for seed in 0..200 {
        let report = run(&Plan { seed, ..plan.clone() }, None);
        assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
    }
}

/// The session was decided, then the alarm was set, and only then was the time of acceptance taken: a message that
/// crossed 30:00.000 meanwhile continued a session that had ended.
#[test]
fn a_message_that_crosses_the_boundary_while_its_alarm_is_set() {
    let mut second = message(2_000_000, 2);
    if let Act::Send(send) = &mut second.act {
        send.after_last = Some(30 * 60_000 - 1);
    }
    keeps_every_rule(&calm(vec![message(0, 1), second]));
}

/// A batch that gives a turn up lost its reply; that the turn had ended by another hand was taken for its own doing,
/// and the client was told of a failure that was not the turn's.
#[test]
fn giving_up_a_turn_that_another_hand_ends_meanwhile() {
    let crowd = [(15_658, 1), (43_700, 2), (43_734, 3), (43_763, 4)];
    let mut plan = calm(crowd.map(|(at, key)| message(at, key)).to_vec());
    plan.faults = FaultRates {
        unreachable: 60,
        overloaded: 30,
        request_lost: 40,
        reply_lost: 80,
        late: 30,
    };
    plan.model = ModelRates {
        slow: 400,
        stall: 100,
        fail: 100,
        break_off: 150,
    };
    keeps_every_rule(&plan);
}
