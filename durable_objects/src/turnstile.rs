//! A lock that is passed on in the order in which it was asked for.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use futures::channel::oneshot;

#[derive(Default)]
struct State {
    taken: bool,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// First come, first served: messages are accepted in the order in which they arrived.
#[derive(Clone, Default)]
pub struct Turnstile(Rc<RefCell<State>>);

/// The right to be inside. Passed on when dropped, also by a task that is dropped at an await.
pub struct Turn(Option<Turnstile>);

impl Turnstile {
    /// Whether someone is inside.
    pub fn is_taken(&self) -> bool {
        self.0.borrow().taken
    }

    /// How many wait outside.
    pub fn waiting(&self) -> usize {
        let state = self.0.borrow();
        state.waiting.iter().filter(|sender| !sender.is_canceled()).count()
    }

    /// Waits until everyone who asked before has left.
    pub async fn enter(&self) -> Turn {
        let receiver = {
            let mut state = self.0.borrow_mut();
            if state.taken {
                let (sender, receiver) = oneshot::channel();
                state.waiting.push_back(sender);
                Some(receiver)
            } else {
                state.taken = true;
                None
            }
        };
        match receiver {
            // The sender lives in this turnstile, so it cannot be dropped unsent.
            Some(receiver) => receiver.await.unwrap_or(Turn(None)),
            None => Turn(Some(self.clone())),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turnstile) = self.0.take() else { return };
        loop {
            let next = turnstile.0.borrow_mut().waiting.pop_front();
            match next {
                Some(sender) => match sender.send(Turn(Some(turnstile.clone()))) {
                    Ok(()) => return,
                    // The waiter is gone; its turn comes back and goes to the next one.
                    Err(mut unused) => unused.0 = None,
                },
                None => {
                    turnstile.0.borrow_mut().taken = false;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::executor::block_on;

    #[test]
    fn it_is_passed_on_in_order_and_past_those_who_left() {
        block_on(async {
            let turnstile = Turnstile::default();
            let first = turnstile.enter().await;
            let mut second = Box::pin(turnstile.enter());
            let mut third = Box::pin(turnstile.enter());
            assert!(second.as_mut().now_or_never().is_none());
            assert!(third.as_mut().now_or_never().is_none());
            drop(second);
            drop(first);
            let turn = third.now_or_never().expect("the second has left, so the third is next");
            drop(turn);
            assert!(turnstile.enter().now_or_never().is_some());
        });
    }

    #[test]
    fn a_turn_given_to_someone_who_leaves_before_taking_it_is_not_lost() {
        block_on(async {
            let turnstile = Turnstile::default();
            let first = turnstile.enter().await;
            let mut second = Box::pin(turnstile.enter());
            assert!(second.as_mut().now_or_never().is_none());
            drop(first);
            drop(second);
            assert!(turnstile.enter().now_or_never().is_some());
        });
    }
}
