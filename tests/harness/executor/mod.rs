//! A deterministic executor: one thread, simulated time, and the seed decides which ready task runs next.
//!
//! Tasks belong to processes. Killing a process drops all of its tasks where they stand, at whatever await that is,
//! as a crash does; tasks of other processes and of the world itself go on.

mod clock;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use domain::ports::{LocalFuture, Spawn};
use futures::channel::oneshot;

use crate::rng::Rng;

pub use clock::{SimClock, WORLD_START};

/// The executor of one world. Clones share it.
#[derive(Clone)]
pub struct Executor(Rc<Inner>);

struct Inner {
    rng: Rng,
    /// Simulated milliseconds since the world began; never goes back.
    elapsed: Cell<i64>,
    tasks: RefCell<BTreeMap<u64, Task>>,
    ready: Arc<Mutex<Vec<u64>>>,
    timers: RefCell<BinaryHeap<Reverse<(i64, u64)>>>,
    sleepers: RefCell<BTreeMap<u64, Waker>>,
    next_id: Cell<u64>,
    steps: Cell<u64>,
}

struct Task {
    process: u64,
    signal: Arc<Signal>,
    /// Absent only while it is being polled.
    future: Option<LocalFuture<()>>,
}

struct Signal {
    task: u64,
    queued: AtomicBool,
    ready: Arc<Mutex<Vec<u64>>>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().expect("one thread").push(self.task);
        }
    }
}

/// What a simulated panic carries.
struct Unwound;

/// A simulated panic: it unwinds as a real one does, but prints nothing.
pub fn unwind() -> ! {
    resume_unwind(Box::new(Unwound))
}

/// The process that is the world itself: it is never killed.
const WORLD: u64 = 0;

impl Executor {
    pub fn new(rng: Rng) -> Self {
        Self(Rc::new(Inner {
            rng,
            elapsed: Cell::new(0),
            tasks: RefCell::default(),
            ready: Arc::default(),
            timers: RefCell::default(),
            sleepers: RefCell::default(),
            next_id: Cell::new(1),
            steps: Cell::new(0),
        }))
    }

    pub fn rng(&self) -> &Rng {
        &self.0.rng
    }

    /// Simulated milliseconds since the world began.
    pub fn elapsed(&self) -> i64 {
        self.0.elapsed.get()
    }

    /// How many times a task was polled so far: the numbered awaits of this world.
    pub fn steps(&self) -> u64 {
        self.0.steps.get()
    }

    /// Starts a task of the world itself, which no crash touches.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.spawn_in(WORLD, Box::pin(future));
    }

    fn spawn_in(&self, process: u64, future: LocalFuture<()>) {
        let id = self.next_id();
        let signal = Arc::new(Signal {
            task: id,
            queued: AtomicBool::new(false),
            ready: Arc::clone(&self.0.ready),
        });
        signal.wake_by_ref();
        self.0.tasks.borrow_mut().insert(
            id,
            Task {
                process,
                signal,
                future: Some(future),
            },
        );
    }

    fn next_id(&self) -> u64 {
        let id = self.0.next_id.get();
        self.0.next_id.set(id + 1);
        id
    }

    /// A new process, alive.
    pub fn process(&self) -> Process {
        Process {
            id: self.next_id(),
            executor: self.clone(),
            alive: Rc::new(Cell::new(true)),
            skew: Rc::default(),
        }
    }

    /// Polls one ready task, chosen by the seed; with none ready, moves time to the next timer. False when nothing is
    /// left to happen.
    pub fn step(&self) -> bool {
        let chosen = {
            let mut ready = self.0.ready.lock().expect("one thread");
            if ready.is_empty() {
                None
            } else {
                Some(self.0.rng.below(ready.len())).map(|at| ready.swap_remove(at))
            }
        };
        match chosen {
            Some(task) => {
                self.poll(task);
                true
            }
            None => self.next_timer(),
        }
    }

    fn poll(&self, id: u64) {
        let Some((signal, mut future)) = self.0.tasks.borrow_mut().get_mut(&id).and_then(|task| {
            task.signal.queued.store(false, Ordering::Relaxed);
            Some((Arc::clone(&task.signal), task.future.take()?))
        }) else {
            return;
        };
        self.0.steps.set(self.0.steps.get() + 1);
        let waker = Waker::from(signal);
        let poll = || future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let done = match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(done) => done,
            // As in the real runtime, a panic ends its own task and nothing else.
            Err(payload) if payload.is::<Unwound>() => true,
            Err(payload) => resume_unwind(payload),
        };
        let mut tasks = self.0.tasks.borrow_mut();
        if done {
            tasks.remove(&id);
        } else if let Some(task) = tasks.get_mut(&id) {
            task.future = Some(future);
            return;
        }
        // What the task owned is dropped outside the borrow: it may wake others.
        drop(tasks);
        drop(future);
    }

    fn next_timer(&self) -> bool {
        loop {
            let Some(Reverse((due, id))) = self.0.timers.borrow_mut().pop() else {
                return false;
            };
            let sleeper = self.0.sleepers.borrow_mut().remove(&id);
            if let Some(waker) = sleeper {
                self.0.elapsed.set(self.0.elapsed.get().max(due));
                waker.wake();
                return true;
            }
        }
    }

    /// Runs until nothing is left to happen; panics after `most` steps.
    pub fn run(&self, most: u64) {
        let end = self.steps() + most;
        while self.step() {
            assert!(self.steps() < end, "the world does not come to rest");
        }
    }

    /// Runs `future` as a task of the world until it is done; other tasks go on meanwhile.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&result);
        self.spawn(async move {
            let value = future.await;
            *slot.borrow_mut() = Some(value);
        });
        loop {
            if let Some(value) = result.borrow_mut().take() {
                return value;
            }
            assert!(self.step(), "the future waits for something that will never happen");
        }
    }

    /// Waits `millis` of simulated time.
    pub fn sleep(&self, millis: i64) -> Sleep {
        Sleep {
            executor: self.clone(),
            due: self.elapsed().saturating_add(millis.max(0)),
            timer: None,
        }
    }

    /// Lets other tasks run.
    pub async fn pause(&self) {
        let mut paused = false;
        poll_fn(|context| {
            if std::mem::replace(&mut paused, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Drops every task. Tasks hold the executor and the executor holds them, so a world must end with this.
    pub fn shut_down(&self) {
        loop {
            let tasks = std::mem::take(&mut *self.0.tasks.borrow_mut());
            if tasks.is_empty() {
                return;
            }
            drop(tasks);
        }
    }

    fn kill(&self, process: u64) {
        let dead: Vec<Task> = {
            let mut tasks = self.0.tasks.borrow_mut();
            let ids: Vec<u64> = tasks
                .iter()
                .filter(|(_, task)| task.process == process)
                .map(|(id, _)| *id)
                .collect();
            ids.iter().filter_map(|id| tasks.remove(id)).collect()
        };
        drop(dead);
    }
}

/// One wait for a point in simulated time.
pub struct Sleep {
    executor: Executor,
    due: i64,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.executor.elapsed() >= self.due {
            return Poll::Ready(());
        }
        let timer = match self.timer {
            Some(timer) => timer,
            None => {
                let timer = self.executor.next_id();
                self.executor.0.timers.borrow_mut().push(Reverse((self.due, timer)));
                self.timer = Some(timer);
                timer
            }
        };
        self.executor
            .0
            .sleepers
            .borrow_mut()
            .insert(timer, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.executor.0.sleepers.borrow_mut().remove(&timer);
        }
    }
}

/// One incarnation of the service: what it has in memory dies with it. Clones are the same process.
#[derive(Clone)]
pub struct Process {
    id: u64,
    executor: Executor,
    alive: Rc<Cell<bool>>,
    /// How far its wall clock is off, in milliseconds.
    skew: Rc<Cell<i64>>,
}

impl Process {
    pub fn is_alive(&self) -> bool {
        self.alive.get()
    }

    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Its wall clock.
    pub fn clock(&self) -> SimClock {
        SimClock::new(self.executor.clone(), Rc::clone(&self.skew))
    }

    /// Sets how far its wall clock is off.
    pub fn set_skew(&self, millis: i64) {
        self.skew.set(millis);
    }

    /// Runs `future` in this process; `None` when the process died over it.
    pub async fn call<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.spawn(Box::pin(async move {
            let _ = reply.send(future.await);
        }));
        answer.await.ok()
    }

    /// Drops all of its tasks where they stand. Must not be called from one of them.
    pub fn kill(&self) {
        self.alive.set(false);
        self.executor.kill(self.id);
    }
}

impl Spawn for Process {
    fn spawn(&self, task: LocalFuture<()>) {
        if self.alive.get() {
            self.executor.spawn_in(self.id, task);
        }
    }
}
