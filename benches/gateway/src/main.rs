//! Opens event streams of `steer serve` while objects of `steer cluster` change. Verifies the events of each stream.
//!
//! Each line has the format `bench NAME ours=… most=… unit=…`, with `most` where there is a limit. There is no peer: nothing else
//! serves custom resources as server-sent events.

mod client;
mod lab;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steersman_bench::{held_memory, peak_memory, processor_time};
use tokio::sync::watch;
use tokio::task::JoinSet;

use client::{Seen, Stream};
use lab::Lab;

const USAGE: &str =
    "steersman-bench-gateway [--clients N] [--changes N] [--seconds N] [--objects N] [--steer PATH] [--check]

  --clients  how many event streams, each of all objects (500)
  --changes  how many changes a second (200)
  --seconds  for how long (60)
  --objects  how many objects change in turn (50)
  --steer    the steer to measure (beside this program)
  --check    fail if a figure is not what we promise";

/// The limit of the 99th percentile of the delay, in milliseconds. Counts from the scheduled time of a change to its arrival at a
/// client.
const MOST_LATENCY: f64 = 100.0;
/// The limit of the gateway's memory, in MiB.
const MOST_MEMORY: f64 = 128.0;
/// Streams per user. The gateway allows 100, and counts a resumed stream twice until it notices that the old connection is
/// closed.
const OF_ONE_USER: usize = 80;
/// One client in this many drops its stream halfway and resumes it.
const RESUMING: usize = 10;
/// The number of writing tasks. All changes of an object are made by the same one, so that their order is known.
const WRITERS: usize = 4;
/// The time limit for the event of the last change to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

struct Options {
    clients: usize,
    changes: usize,
    seconds: usize,
    objects: usize,
    steer: Option<std::path::PathBuf>,
    check: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    steersman_bench::exit(bench().await)
}

async fn bench() -> Result<bool, String> {
    let options = options()?;
    let changes = options.changes * options.seconds;
    let lab = Lab::start(options.steer.as_deref()).await?;
    for object in 0..options.objects {
        lab.create(&name(object)).await?;
    }
    let users = lab.users(options.clients.div_ceil(OF_ONE_USER)).await?;
    let begun = Instant::now();
    let (done, ending) = watch::channel(false);
    let mut clients = JoinSet::new();
    for number in 0..options.clients {
        let mut stream = Stream::open(lab.streams(), &users[number / OF_ONE_USER], None).await?;
        stream.synced(options.objects).await?;
        let resumed_at = (number % RESUMING == 0).then_some(changes / 2);
        clients.spawn(stream.follow(begun, changes, resumed_at, ending.clone()));
    }
    let process = lab.gateway();
    let (idle, cpu) = (held_memory(process)?, processor_time(process)?);
    let started = Instant::now();
    change(&lab, &options, begun).await?;
    let seconds = started.elapsed().as_secs_f64();
    tokio::spawn(async move {
        tokio::time::sleep(PATIENCE).await;
        let _ = done.send(true);
    });
    let mut seen = Seen::default();
    while let Some(client) = clients.join_next().await {
        seen.add(client.map_err(|error| error.to_string())??);
    }
    let cpu = (processor_time(process)? - cpu) / seconds;
    let peak = peak_memory(process)?;
    let expected = options.clients * changes;
    let lost = expected.saturating_sub(seen.delays.len());
    let (p50, p99) = (seen.percentile(50), seen.percentile(99));
    println!("bench gateway-events ours={expected} unit=events");
    println!("bench gateway-events-lost ours={lost} most=0 unit=events");
    println!("bench gateway-events-out-of-order ours={} most=0 unit=events", seen.out_of_order);
    println!("bench gateway-change-rate ours={:.0} unit=changes/s", changes as f64 / seconds);
    println!("bench gateway-event-p50 ours={p50:.1} unit=ms");
    println!("bench gateway-event-p99 ours={p99:.1} most={MOST_LATENCY:.0} unit=ms");
    println!("bench gateway-event-max ours={:.1} unit=ms", seen.percentile(100));
    println!("bench gateway-idle-streams-memory ours={idle:.1} unit=MiB");
    println!("bench gateway-peak-memory ours={peak:.1} most={MOST_MEMORY:.0} unit=MiB");
    println!("bench gateway-cpu ours={cpu:.2} unit=processors");
    let is_complete = lost == 0 && seen.out_of_order == 0;
    Ok(is_complete && (!options.check || (p99 < MOST_LATENCY && peak < MOST_MEMORY)))
}

fn name(object: usize) -> String {
    format!("shop-{object}")
}

/// Makes the changes on schedule; the delay of a late one counts from its scheduled time.
async fn change(lab: &Lab, options: &Options, begun: Instant) -> Result<(), String> {
    let period =
        Duration::from_secs(1) / u32::try_from(options.changes).map_err(|error| error.to_string())?;
    let started = tokio::time::Instant::now();
    let offset = begun.elapsed();
    let mut writers = JoinSet::new();
    let client = Arc::new(lab.client());
    for writer in 0..WRITERS {
        let (client, objects, changes) =
            (Arc::clone(&client), options.objects, options.changes * options.seconds);
        writers.spawn(async move {
            for number in 0..changes {
                let object = number % objects;
                if object % WRITERS != writer {
                    continue;
                }
                let due = period * u32::try_from(number).unwrap_or(u32::MAX);
                tokio::time::sleep_until(started + due).await;
                lab::report(&client, &name(object), number / objects + 1, offset + due).await?;
            }
            Ok::<_, String>(())
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.map_err(|error| error.to_string())??;
    }
    Ok(())
}

fn options() -> Result<Options, String> {
    let mut options =
        Options { clients: 500, changes: 200, seconds: 60, objects: 50, steer: None, check: false };
    options.check = steersman_bench::arguments(USAGE, |argument, value| {
        match argument {
            "--clients" => options.clients = value.parse()?,
            "--changes" => options.changes = value.parse()?,
            "--seconds" => options.seconds = value.parse()?,
            "--objects" => options.objects = value.parse()?,
            "--steer" => options.steer = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if [options.clients, options.changes, options.seconds, options.objects].contains(&0) {
        return Err(format!("a number of none measures nothing\n{USAGE}"));
    }
    Ok(options)
}
