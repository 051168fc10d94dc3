//! A client of an event stream.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use reqwest::{Client, Response};
use serde::Deserialize;
use tokio::sync::watch;

/// The events that clients have received.
#[derive(Default)]
pub(crate) struct Seen {
    /// From the scheduled time of a change to the arrival of its event.
    pub(crate) delays: Vec<Duration>,
    /// Events that were not the next one of their object.
    pub(crate) out_of_order: usize,
    sorted: bool,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Self) {
        self.delays.extend(other.delays);
        self.out_of_order += other.out_of_order;
        self.sorted = false;
    }

    /// Returns a percentile of the delays, in milliseconds.
    pub(crate) fn percentile(&mut self, percent: usize) -> f64 {
        if !self.sorted {
            self.delays.sort_unstable();
            self.sorted = true;
        }
        let last = self.delays.len().saturating_sub(1);
        self.delays.get(last * percent / 100).map_or(f64::NAN, |delay| delay.as_secs_f64() * 1000.0)
    }
}

/// The relevant fields of a `change` event's data.
#[derive(Deserialize)]
struct Change<'a> {
    #[serde(borrow)]
    item: Item<'a>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    name: &'a str,
}

#[derive(Deserialize)]
struct Status {
    number: u64,
    due: u64,
}

/// A frame with data.
struct Frame<'a> {
    event: &'a str,
    id: Option<&'a str>,
    data: &'a str,
}

impl<'a> Frame<'a> {
    /// Parses a frame; None if it is a comment, or has only an ID.
    fn read(text: &'a str) -> Option<Self> {
        let (mut event, mut id, mut data) = ("message", None, None);
        for line in text.lines() {
            match line.split_once(": ") {
                Some(("event", value)) => event = value,
                Some(("id", value)) => id = Some(value),
                Some(("data", value)) => data = Some(value),
                _ => {}
            }
        }
        data.map(|data| Self { event, id, data })
    }
}

/// The endpoint of the streams.
#[derive(Clone)]
pub(crate) struct Streams {
    pub(crate) client: Client,
    pub(crate) url: String,
}

/// An open stream.
pub(crate) struct Stream {
    streams: Streams,
    token: String,
    response: Response,
    buffer: Vec<u8>,
}

impl Stream {
    pub(crate) async fn open(streams: Streams, token: &str, last: Option<&str>) -> Result<Self, String> {
        let mut request =
            streams.client.get(&streams.url).bearer_auth(token).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            return Err(format!("{}: {}", response.status(), response.text().await.unwrap_or_default()));
        }
        Ok(Self { streams, token: token.to_owned(), response, buffer: Vec::new() })
    }

    /// Waits for more data, and returns the length of the complete frames.
    async fn more(&mut self) -> Result<usize, String> {
        loop {
            let chunk = self.response.chunk().await.map_err(|error| error.to_string())?;
            self.buffer.extend_from_slice(&chunk.ok_or("a stream ended")?);
            if let Some(end) = self.buffer.windows(2).rposition(|pair| pair == b"\n\n") {
                return Ok(end + 2);
            }
        }
    }

    /// Waits until the initial state is complete, and checks its number of objects.
    pub(crate) async fn synced(&mut self, objects: usize) -> Result<(), String> {
        let mut count = 0;
        loop {
            let end = self.more().await?;
            let complete: Vec<u8> = self.buffer.drain(..end).collect();
            let text = std::str::from_utf8(&complete).map_err(|error| error.to_string())?;
            for frame in text.split("\n\n").filter_map(Frame::read) {
                match frame.event {
                    "change" => count += 1,
                    "sync" if count == objects => return Ok(()),
                    event => {
                        return Err(format!("{event} after {count} of {objects} objects: {}", frame.data));
                    }
                }
            }
        }
    }

    /// Reads a number of events, or until a timeout. Drops the stream and resumes it after `resumed_at` of them.
    pub(crate) async fn follow(
        mut self,
        begun: Instant,
        changes: usize,
        mut resumed_at: Option<usize>,
        mut ending: watch::Receiver<bool>,
    ) -> Result<Seen, String> {
        let mut seen = Seen { delays: Vec::with_capacity(changes), ..Seen::default() };
        let mut numbers: HashMap<String, u64> = HashMap::new();
        let mut last = String::new();
        while seen.delays.len() < changes {
            let end = tokio::select! {
                end = self.more() => end?,
                _ = ending.wait_for(|is_over| *is_over) => break,
            };
            let now = begun.elapsed();
            let text = std::str::from_utf8(&self.buffer[..end]).map_err(|error| error.to_string())?;
            for frame in text.split("\n\n").filter_map(Frame::read) {
                if frame.event != "change" {
                    return Err(format!("{}: {}", frame.event, frame.data));
                }
                let change: Change<'_> =
                    serde_json::from_str(frame.data).map_err(|error| error.to_string())?;
                let object = change.item.object;
                let status = object.status.ok_or("a change without a status")?;
                let known = numbers.get_mut(object.metadata.name);
                let before = known.as_ref().map_or(0, |number| **number);
                seen.out_of_order += usize::from(status.number != before + 1);
                match known {
                    Some(number) => *number = status.number,
                    None => drop(numbers.insert(object.metadata.name.to_owned(), status.number)),
                }
                seen.delays.push(now.saturating_sub(Duration::from_micros(status.due)));
                if let Some(id) = frame.id {
                    last.clear();
                    last.push_str(id);
                }
            }
            self.buffer.drain(..end);
            if resumed_at.is_some_and(|at| seen.delays.len() >= at) {
                resumed_at = None;
                let Self { streams, token, response, .. } = self;
                drop(response);
                self = Self::open(streams, &token, Some(&last)).await?;
            }
        }
        Ok(seen)
    }
}
