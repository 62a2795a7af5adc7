use domain::ports::{Http, HttpBody, HttpError, Method, OutboundRequest};
use domain::time::Millis;
use serde_json::{Value, json};

use super::{Outage, ProviderRates, Telegram, Verdict};
use crate::executor::Executor;
use crate::rng::Rng;

const TOKEN: &str = "1:one";

fn telegram(rates: ProviderRates) -> (Executor, Telegram) {
    let executor = Executor::new(Rng::new(7));
    let telegram = Telegram::new(executor.clone(), rates, 0);
    telegram.add_bot(TOKEN);
    (executor, telegram)
}

/// Sends `text` with a token; the status and the answer.
fn send(
    executor: &Executor,
    telegram: &Telegram,
    token: &str,
    chat: i64,
    text: &str,
) -> Result<(u16, Value), HttpError> {
    let request = OutboundRequest {
        method: Method::Post,
        url: format!("https://telegram.example/bot{token}/sendMessage"),
        headers: vec![],
        body: json!({"chat_id": chat, "text": text, "parse_mode": "Markdown"})
            .to_string()
            .into_bytes(),
        timeout: Millis::from_secs(10),
    };
    let http = telegram.of_caller(1);
    executor.block_on(async move {
        let mut response = http.send(request).await?;
        let mut body = Vec::new();
        while let Some(piece) = response.body.chunk().await? {
            body.extend(piece);
        }
        Ok((response.status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    })
}

fn wait(executor: &Executor, millis: i64) {
    let mine = executor.clone();
    executor.block_on(async move { mine.sleep(millis).await });
}

#[test]
fn a_message_is_taken_once_a_second_for_a_chat() {
    let (executor, telegram) = telegram(ProviderRates::default());
    let status = |chat| send(&executor, &telegram, TOKEN, chat, "hello").map(|(status, _)| status);
    assert_eq!(status(5), Ok(200));
    assert_eq!(status(6), Ok(200));
    wait(&executor, 999);
    assert_eq!(status(5), Ok(429));
    wait(&executor, 1);
    assert_eq!(status(5), Ok(200));
    let taken: Vec<bool> = telegram.sent().iter().map(|sent| sent.taken().is_some()).collect();
    assert_eq!(taken, [true, true, false, true]);
}

#[test]
fn a_bot_sends_thirty_messages_a_second() {
    let (executor, telegram) = telegram(ProviderRates::default());
    let statuses: Vec<u16> = (0..31)
        .map(|chat| send(&executor, &telegram, TOKEN, chat, "hello").unwrap().0)
        .collect();
    assert_eq!(statuses[..30], [200; 30]);
    assert_eq!(statuses[30], 429);
}

#[test]
fn what_is_asked_for_is_held_to() {
    let (executor, telegram) = telegram(ProviderRates::default());
    telegram.flood(0, 2_500);
    let (status, answer) = send(&executor, &telegram, TOKEN, 5, "hello").unwrap();
    assert_eq!((status, &answer["parameters"]["retry_after"]), (429, &json!(3)));
    wait(&executor, 2_500);
    assert_eq!(send(&executor, &telegram, TOKEN, 5, "hello").unwrap().0, 200);
}

#[test]
fn only_the_newest_token_works() {
    let (executor, telegram) = telegram(ProviderRates::default());
    telegram.replace_token(0, "1:two");
    assert_eq!(send(&executor, &telegram, TOKEN, 5, "hello").unwrap().0, 401);
    assert_eq!(send(&executor, &telegram, "1:two", 5, "hello").unwrap().0, 200);
    assert!(telegram.sent().iter().all(|sent| sent.bot == Some(0)));
}

#[test]
fn chats_are_shut_and_move() {
    let (executor, telegram) = telegram(ProviderRates::default());
    telegram.block(0, "5", true);
    telegram.lose_chat(0, "6");
    telegram.move_chat(0, "7", "-700");
    let answer = |chat| send(&executor, &telegram, TOKEN, chat, "hello").unwrap();
    assert_eq!(answer(5).0, 403);
    assert_eq!(answer(6).1["description"], "Bad Request: chat not found");
    assert_eq!(answer(7).1["parameters"]["migrate_to_chat_id"], -700);
    assert_eq!(answer(-700).0, 200);
    let long = "x".repeat(4_097);
    let (status, answer) = send(&executor, &telegram, TOKEN, 8, &long).unwrap();
    assert_eq!(
        (status, &answer["description"]),
        (400, &json!("Bad Request: message is too long"))
    );
}

#[test]
fn answers_are_lost_before_and_after_the_message_is_taken() {
    let certain = |change: fn(&mut ProviderRates)| {
        let mut rates = ProviderRates::default();
        change(&mut rates);
        let (executor, telegram) = telegram(rates);
        let answer = send(&executor, &telegram, TOKEN, 5, "hello").map(|(status, _)| status);
        let taken = telegram.sent()[0].taken().is_some();
        (answer, taken, executor.elapsed())
    };
    assert_eq!(
        certain(|rates| rates.stall = 1_000),
        (Err(HttpError::Timeout), false, 10_000)
    );
    assert_eq!(
        certain(|rates| rates.stall_taken = 1_000),
        (Err(HttpError::Timeout), true, 10_000)
    );
    assert_eq!(
        certain(|rates| rates.reset = 1_000),
        (Err(HttpError::Transport), false, 0)
    );
    assert_eq!(
        certain(|rates| rates.answer_lost = 1_000),
        (Err(HttpError::Transport), true, 0)
    );
    assert_eq!(certain(|rates| rates.fault = 1_000), (Ok(502), false, 0));
    assert_eq!(certain(|rates| rates.unformatted = 1_000), (Ok(400), false, 0));
}

#[test]
fn an_outage_ends() {
    let (executor, telegram) = telegram(ProviderRates::default());
    telegram.fail_for(500, Outage::Faulty);
    assert_eq!(send(&executor, &telegram, TOKEN, 5, "hello").unwrap().0, 502);
    assert_eq!(telegram.sent()[0].arrived, Some((0, Verdict::Nothing)));
    wait(&executor, 500);
    assert_eq!(send(&executor, &telegram, TOKEN, 5, "hello").unwrap().0, 200);
}
