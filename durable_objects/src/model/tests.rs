//! The providers over a fake network and a clock whose sleeps end at once.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use domain::model::{Completion, Halt, Message, ModelError, Prompt, Role, Usage};
use domain::ports::{Clock, Http, HttpBody, HttpError, OutboundRequest, OutboundResponse};
use domain::settings::{ModelProvider, Prices, Secret};
use domain::time::{Millis, Timestamp};
use futures::FutureExt;

use super::{Model, Provider};

#[derive(Clone, Default)]
struct Hand(Rc<Cell<Timestamp>>);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        self.0.get()
    }

    async fn sleep(&self, duration: Millis) {
        self.0.set(self.0.get().plus(duration));
    }
}

type Piece = Result<&'static str, HttpError>;

struct Network {
    status: Result<u16, HttpError>,
    retry_after: Option<&'static str>,
    pieces: Vec<Piece>,
    asked: Rc<RefCell<Vec<OutboundRequest>>>,
}

impl Http for Network {
    type Body = Body;

    async fn send(&self, request: OutboundRequest) -> Result<OutboundResponse<Body>, HttpError> {
        self.asked.borrow_mut().push(request);
        Ok(OutboundResponse {
            status: self.status?,
            retry_after: self.retry_after.map(str::to_owned),
            body: Body(self.pieces.iter().copied().collect()),
        })
    }
}

struct Body(VecDeque<Piece>);

impl HttpBody for Body {
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        self.0
            .pop_front()
            .transpose()
            .map(|piece| piece.map(|text| text.as_bytes().to_vec()))
    }
}

fn prompt() -> Prompt {
    Prompt {
        system: "Be kind.",
        context: Vec::new(),
        messages: vec![Message {
            role: Role::User,
            text: "hello".to_owned(),
        }],
    }
}

struct Run {
    answer: Result<Completion, ModelError>,
    deltas: Vec<String>,
    asked: Vec<OutboundRequest>,
    ended_at: Timestamp,
}

/// Runs the provider; the receiver halts when it holds `halt_at` deltas.
fn run(provider: ModelProvider, network: Network, halt_at: usize) -> Run {
    let (hand, asked) = (Hand::default(), Rc::clone(&network.asked));
    let provider = Provider::new(provider, network, hand.clone());
    let mut deltas = Vec::new();
    let mut on_delta = async |delta: &str| {
        if deltas.len() == halt_at {
            return Err(Halt);
        }
        deltas.push(delta.to_owned());
        Ok(())
    };
    let prompt = prompt();
    let answer = provider
        .generate(&prompt, Millis::from_secs(60), &mut on_delta)
        .now_or_never()
        .unwrap();
    Run {
        answer,
        deltas,
        asked: asked.take(),
        ended_at: hand.now(),
    }
}

fn network(status: Result<u16, HttpError>, pieces: &[Piece]) -> Network {
    Network {
        status,
        retry_after: None,
        pieces: pieces.to_vec(),
        asked: Rc::default(),
    }
}

fn silent() -> Network {
    network(Err(HttpError::Transport), &[])
}

fn scripted(delay: i64) -> ModelProvider {
    ModelProvider::Scripted {
        delay: Millis::new(delay),
    }
}

fn openai() -> ModelProvider {
    ModelProvider::OpenAi {
        base_url: "https://model.example/v1".parse().unwrap(),
        model: "grok-4".to_owned(),
        api_key: Secret::new("test-key".to_owned()),
        prices: Prices {
            input: 2_000_000,
            output: 4_000_000,
        },
    }
}

const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"con";
const LO: &str = "tent\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n";
const END: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";

#[test]
fn the_scripted_provider_streams_its_whole_answer_with_delays() {
    let run = run(scripted(250), silent(), usize::MAX);
    let answer = run.answer.unwrap();
    assert_eq!(run.deltas.concat(), answer.text);
    assert!(answer.text.starts_with("This is a scripted answer"), "{}", answer.text);
    assert!(answer.text.ends_with("you said: hello"), "{}", answer.text);
    assert_eq!(run.deltas.len(), 5);
    assert_eq!(run.ended_at, Timestamp::from_millis(5 * 250));
    let usage = Usage {
        input_tokens: 3,
        output_tokens: 19,
        cost_microunits: 0,
    };
    assert_eq!(
        (answer.usage, answer.provider, answer.model.as_str()),
        (usage, "scripted", "scripted-1")
    );
    assert_eq!(run.asked.len(), 0);
}

#[test]
fn the_scripted_provider_keeps_to_its_timeout_and_halts_when_told() {
    let slow = run(scripted(25_000), silent(), usize::MAX);
    assert_eq!(slow.answer.unwrap_err(), ModelError::Timeout);
    assert_eq!((slow.deltas.len(), slow.ended_at), (2, Timestamp::from_millis(60_000)));
    let halted = run(scripted(0), silent(), 1);
    assert_eq!(
        (halted.answer.unwrap_err(), halted.deltas.len()),
        (ModelError::Halted, 1)
    );
}

#[test]
fn a_compatible_provider_is_asked_once_and_its_stream_passed_on() {
    let run = run(
        openai(),
        network(Ok(200), &[Ok(HELLO), Ok(LO), Ok(END), Err(HttpError::Transport)]),
        usize::MAX,
    );
    let answer = run.answer.unwrap();
    assert_eq!(run.deltas, ["Hel", "lo"]);
    // 3 × 2 + 2 × 4; what the network does behind the end of the answer does not matter.
    let usage = Usage {
        input_tokens: 3,
        output_tokens: 2,
        cost_microunits: 14,
    };
    assert_eq!((answer.text.as_str(), answer.usage), ("Hello", usage));
    assert_eq!((answer.provider, answer.model.as_str()), ("openai", "grok-4"));

    let [request] = run.asked.as_slice() else {
        panic!("one request")
    };
    assert_eq!(request.url, "https://model.example/v1/chat/completions");
    assert_eq!(request.timeout, Millis::from_secs(60));
    assert!(
        request
            .headers
            .contains(&("authorization", "Bearer test-key".to_owned()))
    );
    let printed = format!("{request:?}");
    assert!(
        !printed.contains("test-key") && !printed.contains("hello") && !printed.contains("example"),
        "{printed}"
    );
}

#[test]
fn an_answer_in_one_document_is_passed_on_as_one_delta() {
    let document = "{\"choices\":[{\"message\":{\"content\":\"All at once\"}}]}";
    let run = run(openai(), network(Ok(200), &[Ok(document)]), usize::MAX);
    assert_eq!(
        (run.answer.unwrap().text.as_str(), run.deltas),
        ("All at once", vec!["All at once".to_owned()])
    );
}

#[test]
fn every_way_to_fail_has_its_name() {
    let fail = |network| run(openai(), network, 1).answer.unwrap_err();
    assert_eq!(fail(network(Err(HttpError::Timeout), &[])), ModelError::Timeout);
    assert_eq!(fail(network(Err(HttpError::Transport), &[])), ModelError::Unavailable);
    assert_eq!(fail(network(Ok(500), &[])), ModelError::Unavailable);
    assert_eq!(fail(network(Ok(401), &[])), ModelError::Rejected);
    assert_eq!(
        fail(network(Ok(200), &[Ok(HELLO), Err(HttpError::Timeout)])),
        ModelError::Timeout
    );
    assert_eq!(fail(network(Ok(200), &[Ok(HELLO)])), ModelError::Unavailable);
    assert_eq!(
        fail(network(Ok(200), &[Ok(HELLO), Ok(LO), Ok(END)])),
        ModelError::Halted
    );
    let limited = Network {
        retry_after: Some("Thu, 01 Jan 1970 00:00:09 GMT"),
        ..network(Ok(429), &[])
    };
    let retry_after = Some(Millis::from_secs(9));
    assert_eq!(fail(limited), ModelError::RateLimited { retry_after });
}

#[test]
fn a_connection_that_breaks_behind_the_text_does_not_lose_it() {
    for error in [HttpError::Timeout, HttpError::Transport] {
        let run = run(openai(), network(Ok(200), &[Ok(HELLO), Ok(LO), Err(error)]), usize::MAX);
        let answer = run.answer.unwrap();
        assert_eq!((answer.text.as_str(), answer.usage), ("Hello", Usage::default()));
    }
}
