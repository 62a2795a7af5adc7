//! The consumers of the two queues, and the sweep.

use std::rc::Rc;

use queues::jobs::{Disposition, consume};

use super::claims::Caller;
use super::plan::Whom;
use super::{World, service};

/// Has the queues' messages handled, each in a process of its own.
pub fn listen(world: &Rc<World>) {
    let mine = Rc::clone(world);
    world.jobs.on_message(Rc::new(move |body| {
        let (sql, hosts, process) = (mine.sql.clone(), mine.hosts.clone(), mine.executor.process());
        Box::pin(async move {
            let done = process.call(async move { consume(&[body], &sql, &hosts).await }).await;
            done.is_some_and(|all| all.iter().all(|one| matches!(one, Disposition::Ack(_))))
        })
    }));
    let mine = Rc::clone(world);
    world
        .sends
        .on_message(Rc::new(move |body| Box::pin(send(Rc::clone(&mine), body))));
}

/// One message of the queue of sends; the answer says whether it is done with.
async fn send(world: Rc<World>, body: String) -> bool {
    let process = world.executor.process();
    let skew = world.some_skew();
    process.set_skew(skew);
    world.perhaps_kill(Whom::Sender, &process);
    let epoch = domain::job::JobMessage::decode(&body).ok().map(|message| message.epoch);
    let caller = world.claims.caller(Caller {
        epoch,
        skew,
        outside: false,
    });
    let work = service::send(Rc::clone(&world), process.clone(), caller, body);
    process.call(work).await.unwrap_or(false)
}

/// Sweeps once.
pub async fn sweep(world: Rc<World>) {
    let process = world.executor.process();
    world.perhaps_kill(Whom::Sweep, &process);
    process.call(service::sweep(Rc::clone(&world), process.clone())).await;
}
