//! The official Rust client. A JSON line on stdin is a command, a JSON line on stdout what it led to
//! (tests/compat/session.py). With the argument `tls` all clients use it.

use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};

const POLL_WAIT: Duration = Duration::from_secs(2);
const INVISIBLE: Duration = Duration::from_secs(30);
const BATCH: i32 = 32;

type Failure = Box<dyn Error>;

/// What commands have started, by name.
#[derive(Default)]
struct Session {
    producers: HashMap<String, Producer>,
    consumers: HashMap<String, SimpleConsumer>,
    topics: HashMap<String, String>,
    held: HashMap<String, Vec<MessageView>>,
}

/// A field of a command; empty if it is not there.
fn text<'a>(command: &'a Value, field: &str) -> &'a str {
    command[field].as_str().unwrap_or("")
}

fn client_option(command: &Value) -> ClientOption {
    let mut made = ClientOption::default();
    made.set_access_url(text(command, "endpoint"));
    made.set_enable_tls(std::env::args().any(|argument| argument == "tls"));
    made.set_long_polling_timeout(POLL_WAIT);
    if !text(command, "user").is_empty() {
        made.set_access_key(text(command, "user"));
        made.set_secret_key(text(command, "secret"));
    }
    made
}

fn producer(command: &Value) -> Result<Producer, Failure> {
    let mut option = ProducerOption::default();
    option.set_topics(vec![text(command, "topic")]);
    if text(command, "kind") == "transactional" {
        let commit = Box::new(|_, _| TransactionResolution::COMMIT);
        return Ok(Producer::new_transaction_producer(option, client_option(command), commit)?);
    }
    Ok(Producer::new(option, client_option(command))?)
}

impl Session {
    async fn start(&mut self, name: &str, command: &Value) -> Result<Value, Failure> {
        match text(command, "kind") {
            "producer" | "transactional" => {
                let mut made = producer(command)?;
                made.start().await?;
                self.producers.insert(name.into(), made);
            }
            "simple" => {
                let mut option = SimpleConsumerOption::default();
                option.set_consumer_group(text(command, "group"));
                option.set_topics(vec![text(command, "topic")]);
                let mut made = SimpleConsumer::new(option, client_option(command))?;
                made.start().await?;
                self.consumers.insert(name.into(), made);
                self.topics.insert(name.into(), text(command, "topic").into());
            }
            other => return Err(format!("this client has no {other} consumer").into()),
        }
        Ok(Value::Null)
    }

    async fn send(&self, name: &str, command: &Value) -> Result<Value, Failure> {
        let mut message = MessageBuilder::builder()
            .set_topic(text(command, "topic"))
            .set_body(text(command, "body").as_bytes().to_vec());
        if let Some(delay_s) = command["delay_s"].as_u64() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            message = message.set_delivery_timestamp((now.as_secs() + delay_s) as i64);
        }
        self.producers[name].send(message.build()?).await?;
        Ok(Value::Null)
    }

    async fn transact(&self, name: &str, command: &Value) -> Result<Value, Failure> {
        let body = text(command, "body").as_bytes().to_vec();
        let message = MessageBuilder::transaction_message_builder(text(command, "topic"), body);
        let begun = self.producers[name].send_transaction_message(message.build()?).await?;
        begun.commit().await?;
        Ok(Value::Null)
    }

    async fn receive(&mut self, name: &str) -> Result<Value, Failure> {
        let all = FilterExpression::new(FilterType::Tag, "*");
        let consumer = &self.consumers[name];
        let found = consumer.receive_with(&self.topics[name], &all, BATCH, INVISIBLE).await?;
        let bodies: Vec<_> = found.iter().map(|one| String::from_utf8_lossy(one.body())).collect();
        let answer = json!(bodies);
        if !found.is_empty() {
            self.held.insert(name.into(), found);
        }
        Ok(answer)
    }

    async fn ack(&self, name: &str) -> Result<Value, Failure> {
        for message in &self.held[name] {
            self.consumers[name].ack(message).await?;
        }
        Ok(Value::Null)
    }

    async fn stop(&mut self, name: &str) -> Result<Value, Failure> {
        if let Some(started) = self.producers.remove(name) {
            started.shutdown().await?;
        } else if let Some(started) = self.consumers.remove(name) {
            started.shutdown().await?;
        }
        Ok(Value::Null)
    }

    async fn run(&mut self, command: &Value) -> Result<Value, Failure> {
        let name = text(command, "name");
        match text(command, "do") {
            "start" => self.start(name, command).await,
            "send" => self.send(name, command).await,
            "transact" => self.transact(name, command).await,
            "receive" => self.receive(name).await,
            "ack" => self.ack(name).await,
            "stop" => self.stop(name).await,
            other => Err(format!("this client has no command {other}").into()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut session = Session::default();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match session.run(&serde_json::from_str(&line)?).await {
            Ok(value) => json!({ "value": value }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        println!("{answer}");
    }
    Ok(())
}
