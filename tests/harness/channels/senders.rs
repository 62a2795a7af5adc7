//! The consumers of the two queues, and the sweep.

use std::rc::Rc;

use domain::job::JobMessage;
use queues::jobs::{Disposition, consume};

use super::callers::Caller;
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
        .on_message(Rc::new(move |body| Box::pin(send(Rc::clone(&mine), vec![body]))));
}

/// Messages of the queue of sends that come together; the answer says whether all are done with.
pub async fn send(world: Rc<World>, bodies: Vec<String>) -> bool {
    let process = world.executor.process();
    let skew = world.some_skew();
    process.set_skew(skew);
    world.perhaps_kill(Whom::Sender, &process);
    let epochs = bodies.iter().filter_map(|body| JobMessage::decode(body).ok());
    let epoch = epochs.map(|message| message.epoch).max();
    let caller = world.callers.add(Caller {
        epoch,
        skew,
        ..Caller::default()
    });
    let work = service::send(Rc::clone(&world), process.clone(), caller, bodies);
    process.call(work).await.unwrap_or(false)
}

/// Sweeps once.
pub async fn sweep(world: Rc<World>) {
    let process = world.executor.process();
    world.perhaps_kill(Whom::Sweep, &process);
    process.call(service::sweep(Rc::clone(&world), process.clone())).await;
}
