//! Persistence of a cluster in one redb file, whose commits are atomic even if the process dies.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError,
    WriteTransaction,
};
use steersman_api::store::{Journal, JournalObserver, Record};
use steersman_apiserver::Builder;

use crate::{cluster::draw_token, error::Error, pki::Authority};

/// The objects, by `resource`, a zero byte and `key`.
///
/// Each value has the revisions of the last write and of the creation, and the object.
const OBJECTS: TableDefinition<'_, &str, (u64, u64, &[u8])> = TableDefinition::new("objects");
/// The last revision, which may belong to a deletion.
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");
/// The cluster's identity, which stays the same over restarts, as strings.
const IDENTITY: TableDefinition<'_, &str, &str> = TableDefinition::new("identity");
/// Written and dropped again, to test for free disk space.
const PROBE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("room");

const FILE: &str = "cluster.redb";
const REVISION: &str = "revision";
/// Objects are in memory anyway, so the page cache can be small.
const PAGE_CACHE: usize = 8 << 20;
/// How long to wait for the file's lock: a cluster that was just dropped may still hold it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Delay between attempts to recover a disk that can't be written to.
const RETRY: Duration = Duration::from_secs(1);
/// Bounds of the probe's size: the disk has recovered once there is space for the failed write, within these bounds.
const MIN_PROBE: usize = 64 << 10;
const MAX_PROBE: usize = 4 << 20;

/// The identity that is stored beside the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    /// The authority's certificate in PEM.
    certificate: String,
    /// The authority's key in PEM.
    key: String,
    /// The administrator's token.
    token: String,
}

/// Restores a directory into a server builder, and persists the server's writes in it from then on.
///
/// Also returns the cluster's authority and token.
pub(crate) async fn restore(
    directory: &Path,
    builder: Builder,
) -> Result<(Builder, Authority, String), Error> {
    let disk = Disk::open(directory).await?;
    let (records, identity) = disk.load()?;
    let identity = match identity {
        Some(identity) => identity,
        None => create_identity(&disk)?,
    };
    let authority = Authority::restore(identity.certificate, &identity.key)?;
    Ok((builder.restore(records).journal(disk.journal()?), authority, identity.token))
}

/// Creates and stores the authority and the token of a new directory.
fn create_identity(disk: &Disk) -> Result<Identity, Error> {
    let authority = Authority::generate()?;
    let certificate = authority.certificate().to_owned();
    let identity = Identity { certificate, key: authority.key(), token: draw_token()? };
    disk.save_identity(&identity)?;
    Ok(identity)
}

/// An open data directory.
#[derive(Debug)]
struct Disk {
    database: Database,
    path: PathBuf,
}

impl Disk {
    /// Opens a directory, creating it if it does not exist.
    async fn open(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(FILE);
        let failed = |error: redb::Error| Error::DataDirectory(path.clone(), Box::new(error));
        std::fs::create_dir_all(directory).map_err(|e| failed(e.into()))?;
        if !path.exists() {
            begin(&path).map_err(|e| failed(e.into()))?;
        }
        let begun = Instant::now();
        let database = loop {
            match create(&path) {
                Err(DatabaseError::DatabaseAlreadyOpen) if begun.elapsed() < LOCK_TIMEOUT => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                other => break other.map_err(|e| failed(e.into()))?,
            }
        };
        Ok(Self { database, path })
    }

    /// Returns the last state of the objects, and the identity if there is one yet.
    fn load(&self) -> Result<(Vec<Record>, Option<Identity>), Error> {
        self.read().map_err(|error| Error::DataDirectory(self.path.clone(), Box::new(error)))
    }

    fn read(&self) -> Result<(Vec<Record>, Option<Identity>), redb::Error> {
        let transaction = self.database.begin_read()?;
        let mut records = Vec::new();
        if let Some(objects) = present(transaction.open_table(OBJECTS))? {
            for item in objects.iter()? {
                let (name, value) = item?;
                let (revision, created, object) = value.value();
                let Some((resource, key)) = name.value().split_once('\0') else { continue };
                let (resource, key) = (resource.to_owned(), key.to_owned());
                records.push(Record { resource, key, revision, created, object: Some(object.into()) });
            }
        }
        if let Some(counters) = present(transaction.open_table(COUNTERS))?
            && let Some(revision) = counters.get(REVISION)?
        {
            // Represents a deletion without a watch event: only its revision matters.
            let revision = revision.value();
            let (resource, key) = (String::new(), String::new());
            records.push(Record { resource, key, revision, created: revision, object: None });
        }
        let mut identity = None;
        if let Some(texts) = present(transaction.open_table(IDENTITY))? {
            let text = |name: &str| texts.get(name).map(|found| found.map(|text| text.value().to_owned()));
            if let (Some(certificate), Some(key), Some(token)) =
                (text("certificate")?, text("key")?, text("token")?)
            {
                identity = Some(Identity { certificate, key, token });
            }
        }
        Ok((records, identity))
    }

    /// Stores an identity.
    fn save_identity(&self, identity: &Identity) -> Result<(), Error> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            {
                let mut texts = transaction.open_table(IDENTITY)?;
                texts.insert("certificate", identity.certificate.as_str())?;
                texts.insert("key", identity.key.as_str())?;
                texts.insert("token", identity.token.as_str())?;
            }
            Ok(transaction.commit()?)
        };
        write().map_err(|error| Error::DataDirectory(self.path.clone(), Box::new(error)))
    }

    /// Returns the journal that persists the server's writes.
    fn journal(self) -> Result<DiskJournal, Error> {
        let (messages, inbox) = mpsc::channel();
        let path = self.path.clone();
        let writer = std::thread::Builder::new()
            .name("steersman-disk".to_owned())
            .spawn(move || run(self, &inbox))
            .map_err(|error| Error::DataDirectory(path, Box::new(error)))?;
        Ok(DiskJournal { messages: Some(messages), writer: Some(writer) })
    }
}

/// Creates an empty file under a temporary name, and links it when it is complete.
///
/// A process that is killed meanwhile leaves no file that can't be opened.
fn begin(path: &Path) -> Result<(), DatabaseError> {
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let _ = std::fs::remove_file(&fresh);
    drop(create(&fresh)?);
    // Unlike a rename, this does not replace a file that another process created in the meantime.
    let linked = std::fs::hard_link(&fresh, path);
    std::fs::remove_file(&fresh)?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// Opens the file, readable only by its owner, since it contains secrets.
fn create(path: &Path) -> Result<Database, DatabaseError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    }
    redb::Builder::new().set_cache_size(PAGE_CACHE).create(path)
}

/// Treats a table that does not exist yet as empty.
fn present<T>(opened: Result<T, TableError>) -> Result<Option<T>, redb::Error> {
    match opened {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

enum Message {
    /// Registers the observer to notify of each write's outcome.
    Observe(JournalObserver),
    /// A record to write.
    Write(Record),
}

/// The server's handle to the writer thread.
///
/// Records that arrive during a commit are written by the next one, so many writers share few commits.
#[derive(Debug)]
struct DiskJournal {
    messages: Option<mpsc::Sender<Message>>,
    writer: Option<JoinHandle<()>>,
}

impl DiskJournal {
    fn send(&self, message: Message) {
        if let Some(messages) = &self.messages {
            // The thread ends only when this sender is dropped.
            let _ = messages.send(message);
        }
    }
}

impl Journal for DiskJournal {
    fn start(&self, observer: JournalObserver) {
        self.send(Message::Observe(observer));
    }

    fn append(&self, record: Record) {
        self.send(Message::Write(record));
    }
}

impl Drop for DiskJournal {
    fn drop(&mut self) {
        // The records already sent are still written before the file is closed.
        self.messages = None;
        if let Some(writer) = self.writer.take()
            // The writer thread itself may drop the last reference to a server, when it notifies the server of a failure.
            && writer.thread().id() != std::thread::current().id()
        {
            let _ = writer.join();
        }
    }
}

fn run(disk: Disk, inbox: &mpsc::Receiver<Message>) {
    let Ok(Message::Observe(observer)) = inbox.recv() else { return };
    let mut writer =
        Writer { database: Some(disk.database), path: disk.path, observer, void: 0, failure: None };
    loop {
        let received = match &writer.failure {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(failure) => inbox.recv_timeout(failure.retry.saturating_duration_since(Instant::now())),
        };
        match received {
            Ok(first) => writer.take(std::iter::once(first).chain(inbox.try_iter())),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        writer.retry();
    }
}

/// The state of the writer thread.
struct Writer {
    /// `None` after a failure, since only reopening the file shows what has reached the disk.
    database: Option<Database>,
    path: PathBuf,
    observer: JournalObserver,
    /// Records up to this revision that are not on disk were rolled back.
    void: u64,
    /// Set while writes can't be persisted.
    failure: Option<Failure>,
}

/// A commit that failed.
struct Failure {
    why: String,
    /// When to try again.
    retry: Instant,
    /// Records to write before anything else: the objects as they were before the failed commit.
    former: Vec<Record>,
    /// Free space that is required, in bytes.
    room: usize,
}

impl Writer {
    fn take(&mut self, messages: impl Iterator<Item = Message>) {
        let records: Vec<Record> = messages
            .filter_map(|message| match message {
                Message::Write(record) => Some(record).filter(|r| r.revision > self.void),
                Message::Observe(_) => None,
            })
            .collect();
        if records.is_empty() {
            return;
        }
        if let Some(failure) = &self.failure {
            self.void = self.observer.failed(&failure.why).through;
            return;
        }
        match self.commit(&records) {
            Ok(revision) => self.observer.durable(revision),
            Err(error) => self.fail(&error, &records),
        }
    }

    fn commit(&self, records: &[Record]) -> Result<u64, redb::Error> {
        let database = self.database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
        let transaction = database.begin_write()?;
        let revision = write(&transaction, records)?;
        transaction.open_table(COUNTERS)?.insert(REVISION, revision)?;
        transaction.commit()?;
        Ok(revision)
    }

    fn fail(&mut self, error: &redb::Error, records: &[Record]) {
        let why = format!("{}: {error}", self.path.display());
        tracing::error!(
            error = why,
            "cannot write to the data directory: the cluster is read-only until writes succeed again"
        );
        self.database = None;
        let undone = self.observer.failed(&why);
        self.void = undone.through;
        let sizes = records.iter().map(|r| r.object.as_ref().map_or(0, |object| object.len()));
        let room = sizes.sum::<usize>().clamp(MIN_PROBE, MAX_PROBE);
        self.failure = Some(Failure { why, retry: Instant::now() + RETRY, former: undone.records, room });
    }

    /// Tries to recover from a failure, if it is time to.
    fn retry(&mut self) {
        let Some(failure) = &mut self.failure else { return };
        if Instant::now() < failure.retry {
            return;
        }
        match recover(&self.path, failure) {
            Ok(database) => {
                tracing::info!(path = %self.path.display(), "the data directory is writable again");
                self.database = Some(database);
                self.failure = None;
                self.observer.recovered();
            }
            Err(error) => {
                tracing::debug!(%error, path = %self.path.display(), "the data directory is still read-only");
                failure.retry = Instant::now() + RETRY;
            }
        }
    }
}

/// Reopens the file after a failure, and rolls back the failed commit.
///
/// The commit may have reached the disk even though its writes were reported as failed. The required space is then written
/// and freed again, so that the next write does not fail at once.
fn recover(path: &Path, failure: &Failure) -> Result<Database, redb::Error> {
    let database = create(path)?;
    let transaction = database.begin_write()?;
    write(&transaction, &failure.former)?;
    transaction.open_table(PROBE)?.insert("", vec![0; failure.room].as_slice())?;
    transaction.commit()?;
    let transaction = database.begin_write()?;
    transaction.delete_table(PROBE)?;
    transaction.commit()?;
    Ok(database)
}

/// Writes records in order, and returns the last one's revision.
fn write(transaction: &WriteTransaction, records: &[Record]) -> Result<u64, redb::Error> {
    let mut last = 0;
    let mut objects = transaction.open_table(OBJECTS)?;
    for record in records {
        let name = format!("{}\0{}", record.resource, record.key);
        last = record.revision;
        match &record.object {
            Some(object) => {
                objects.insert(name.as_str(), (record.revision, record.created, &**object))?;
            }
            None => {
                objects.remove(name.as_str())?;
            }
        }
    }
    Ok(last)
}
